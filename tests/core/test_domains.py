"""Every domain in every metric: found by its header alone, and at the optimum of CVXPY, known to each other or not."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import twins
from cases import CASES, all_losses, called, optimum_of
from loops import BUILDS, open_loop, problem_data, solved_row, targets_of
from sklearn.metrics.pairwise import rbf_kernel

from polymargin._core import native
from polymargin.losses import ScoreLoss
from polymargin.penalties import CoupledNorm, SquaredNorm
from polymargin.problems.classes import Problem

CORE = Path(__file__).parents[2] / "src" / "polymargin" / "_core"
DOMAINS = CORE / "domains", CORE / "domains" / "squared"
METRICS = ["identity", "class_scales", "between_classes", "coupled"]
LOSSES = [(name, loss) for name, loss in all_losses() if loss.row_problem is not None]



def suits(loss, metric) -> bool:
    """Vectors of sum zero need a coupling, a matrix between the classes a domain that knows it."""
    if loss.sums_to_zero:
        return metric == "coupled"
    return metric != "between_classes" or native.knows(loss.row_problem, metric)


def each(losses, metrics=False):
    found, names = losses, "name, loss"
    if metrics:
        names = "name, loss, metric"
        found = [(*one, metric) for one in losses for metric in METRICS if suits(one[1], metric)]
    return pytest.mark.parametrize(names, found, ids=lambda part: part if isinstance(part, str) else called(part))


each_loss_in_its_metrics = each(LOSSES, metrics=True)
each_domain_in_its_metrics = each([one for one in LOSSES if getattr(one[1], "costs", None) is None], metrics=True)
each_loss_to_rivals = each([one for one in LOSSES if one[1].domain.margins.relative])


@pytest.mark.parametrize("build", BUILDS)
def test_every_header_is_a_domain(build):
    assert build.domains() == sorted(header.stem for folder in DOMAINS for header in folder.glob("*.hpp"))
    assert all(build.knows(domain, "identity") for domain in build.domains())


def test_nobody_else_mentions_a_domain():
    """So a new header is all that a new domain needs."""
    sources = [path for kind in ("hpp", "cpp", "in") for path in CORE.rglob(f"*.{kind}") if path.parent not in DOMAINS]
    assert len(sources) > 30
    for domain in native.domains():
        mention = re.compile(rf'#include ".*\b{domain}\.hpp"|"{domain}"')
        assert not [path.name for path in sources if mention.search(path.read_text())]


def test_every_domain_belongs_to_a_loss():
    assert {loss.row_problem for _, loss in LOSSES} == set(native.domains())
    assert {name for name, _ in LOSSES} <= CASES.keys()


# ---- the optimum ------------------------------------------------------------------------------------------------------

MEANS, INVERSE_RHO, CENTRE = np.array([0.3, -0.1, 0.2, 0.0, 0.1, -0.2]), 0.6, np.array([0.1, -0.2, 0.3, -0.3, 0.1])


def problem_of(loss):
    X, y, cost = problem_data(21, n=40, d=6, c=5)
    X += np.random.default_rng(3).normal(size=(5, 6))[y]
    return Problem(X, y, 0.3 * cost, 5, loss, SquaredNorm(), False)


@functools.cache
def numbers_of(metric: str):
    """Class scales, a Laplacian and its inverse on vectors of sum 0, or a coupling."""
    rng = np.random.default_rng(22)
    if metric == "coupled":
        return CoupledNorm(0.4).coupling(5)
    if metric == "class_scales":
        return 10.0 ** rng.uniform(-1.0, 0.5, 5)
    Q = np.triu(10.0 ** rng.uniform(-1.0, 0.5, (5, 5)), 1)
    L = np.diag((Q + Q.T).sum(axis=1)) - Q - Q.T
    return L, np.ascontiguousarray(np.linalg.pinv(L))


def factor_of(loss: ScoreLoss, metric: str) -> np.ndarray:
    """F with the penalty ``1/2 |W F|^2``."""
    if metric == "identity" or loss.sums_to_zero:
        return np.eye(5)
    if metric == "class_scales":
        return np.diag(numbers_of(metric) ** -0.5)
    numbers = numbers_of(metric)
    values, vectors = np.linalg.eigh(numbers.own * np.eye(5) + numbers.across if metric == "coupled" else numbers[0])
    return vectors * np.sqrt(np.maximum(values, 0.0))


def open_in(build, loss, metric, storage, waiting=False):
    problem = problem_of(loss)
    arrays = problem.X, problem.y, problem.cost
    rules = loss.row_parameters, metric, targets_of(loss, 5)
    loop = open_loop(build, loss.row_problem, *arrays, storage, waiting, 0, *rules)
    if metric == "class_scales":
        loop.rescale(numbers_of(metric), np.zeros(5))
    elif metric == "between_classes":
        loop.change_metric(numbers_of(metric)[1], 1.0)
    elif loss.sums_to_zero:
        loop.couple(1.0, 0.0, True)
    elif metric == "coupled":
        loop.couple(*numbers_of(metric)[:2], False)
    return loop


@functools.cache
def optimum(name: str, loss: ScoreLoss, metric: str, intercept: bool) -> float:
    """Of the machine in the metric; with an intercept that of a proximal step, whose offsets stay near a centre."""
    factor = factor_of(loss, metric)
    of_offsets = factor if metric == "between_classes" else np.eye(5)  # others are those of the vectors alone

    def penalty(W, b):
        near = cp.sum_squares((b + MEANS[None] @ W - CENTRE[None]) @ of_offsets) / INVERSE_RHO if intercept else 0.0
        return 0.5 * (cp.sum_squares(W @ factor) + near)

    return optimum_of(name, problem_of(loss), penalty, intercept).value


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("storage", ["dense64", "csr64"])
@each_loss_in_its_metrics
def test_the_machine_stays_that_of_the_duals(name, loss, metric, storage, build):
    # where nothing falls any more, the ends of epochs differ by rounding: what is extrapolated from them must not grow
    if metric != "identity" or not loss.domain.margins.relative:
        return
    loop = open_in(build, loss, metric, storage, waiting=storage == "csr64")
    loop.start_intercept(MEANS, INVERSE_RHO)
    for _ in range(12):
        loop.ascend(300 * 40, 1e-11)
        loop.restore()
    problem, (starts, classes, values) = problem_of(loss), loop.duals()
    tau = np.zeros((len(problem.y), 5))
    rows = np.repeat(np.arange(len(problem.y)), np.diff(starts))
    tau[rows, classes] = -values
    tau[np.arange(len(tau)), problem.y] -= tau.sum(axis=1)
    np.testing.assert_allclose(loop.weights(), problem.X.T @ tau - np.outer(MEANS, tau.sum(axis=0)), atol=1e-11)


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("build", BUILDS)
@each_loss_in_its_metrics
def test_the_loop_reaches_the_optimum(name, loss, metric, build, intercept):
    for storage in ("dense64", "csr64"):
        loop = open_in(build, loss, metric, storage, waiting=storage == "csr64")
        if intercept:
            loop.start_intercept(MEANS, INVERSE_RHO)
            loop.move_centre(CENTRE)
        for _ in range(30):
            loop.ascend(300 * 40, 1e-11)
            loop.restore()
        best = optimum(name, loss, metric, intercept)
        assert loop.dual == pytest.approx(best, rel=1e-7)
        if not intercept:
            assert loop.loss(1) + 0.5 * loop.squared_norm == pytest.approx(best, rel=1e-5)
            assert loop.dual_sum - 0.5 * loop.squared_norm == pytest.approx(loop.dual, rel=1e-9)


@each_loss_in_its_metrics
def test_no_epoch_lowers_the_dual(name, loss, metric):
    loop = open_in(native, loss, metric, "dense64")
    before = loop.dual
    for _ in range(40):
        loop.ascend(40, 0.0)
        assert loop.dual >= before - 1e-13 * abs(before)
        before = loop.dual


# ---- one row ----------------------------------------------------------------------------------------------------------


class Row:
    """One row of classes 0, 1, ... and its own one, which comes last or, for absolute margins, first; metric and duals."""

    def __init__(self, rng, loss, metric):
        self.loss, self.metric, self.margins = loss, metric, loss.domain.margins
        m = int(rng.integers(max(1, int(max((0.0, *loss.row_parameters))) - 1), 8)) if self.margins.rivals else 1
        self.own = 0 if self.margins.own else -1
        self.signs = np.where(np.arange(m) == self.own, 1.0, -1.0)  # of the steps
        self.H = self._curvatures(rng, m + 1)
        self.cost = 10.0 ** rng.uniform(-1, 1)
        self.g, self.g_target, self.a = rng.normal(size=m), 0.0, np.zeros(m)
        self.a = self.solved(1.0)
        self.g, self.g_target = rng.normal(size=m), float(rng.normal()) if self.margins.relative else 0.0

    def _curvatures(self, rng, size):
        if self.metric == "between_classes":
            root = rng.normal(size=(size, size))
            return 10.0 ** rng.uniform(-1, 1) * (root @ root.T + 0.3 * np.eye(size))
        if self.metric == "coupled":
            apart, together = 10.0 ** rng.uniform(-1, 1, 2)
            return apart * np.eye(size) + (together - apart) / size
        return np.diag(10.0 ** rng.uniform(-2, 1, size) if self.metric == "class_scales" else np.full(size, 0.7))

    def solved(self, H=None):
        metric, H = ("identity", H) if H is not None else (self.metric, self.H)
        scores, parameters = (self.g, self.a, self.g_target), self.loss.row_parameters
        return solved_row(native, self.loss.row_problem, *scores, H, self.cost, parameters, metric, self.own)

    def of_all_classes(self, values):
        """With the own class, if it is not among them."""
        return values[None] if self.own == 0 else np.append(values, 0.0)[None]

    @property
    def y(self):
        return np.array([self.own if self.own == 0 else len(self.g)])

    def square(self, a):
        return self.loss.squared * float(self.loss.domain.square(self.of_all_classes(a), self.y)[0]) / (4.0 * self.cost)

    def go(self, to):
        """Moves to the duals `to`, with the scores; returns what the row's share of the dual gains."""
        step = np.append(self.signs * (to - self.a), (to - self.a).sum() if self.margins.relative else 0.0)
        moved = self.H @ step
        gain = float((to - self.a) @ (self.g - self.g_target) - 0.5 * step @ moved) - self.square(to) + self.square(self.a)
        self.g, self.a = self.g - self.signs * moved[:-1], to
        self.g_target += moved[-1] if self.margins.relative else 0.0
        return gain

    def gap(self):
        """What the best duals would make of the slopes, less what these do; and the size of both."""
        E = self.of_all_classes(self.g - self.g_target)
        largest = self.loss.domain.largest_squared if self.loss.squared else self.loss.domain.largest
        sup = self.cost * float(largest(E, self.y)[0][0])
        taken = float(self.a @ (self.g - self.g_target)) - self.square(self.a)
        return sup - taken, max(self.cost, sup, abs(taken))


@each_domain_in_its_metrics
def test_a_row_gains_and_stands_still_at_its_optimum_alone(name, loss, metric):
    rng = np.random.default_rng(5)
    for _ in range(20):
        row, gained = Row(rng, loss, metric), []
        for _ in range(4000):
            size = row.cost * max(1.0, np.abs(row.g).max(), row.cost)
            gained.append(row.go(row.solved()))
            assert gained[-1] >= -1e-12 * size
            if gained[-1] <= 1e-14 * sum(gained):
                break
        gap, size = row.gap()
        assert gap == pytest.approx(0.0, abs=1e-6 * size)


@each([one for one in LOSSES if one[1].unit_targets])
def test_a_row_is_solved_at_once_in_the_identity(name, loss):
    rng = np.random.default_rng(8)
    for _ in range(200):
        row = Row(rng, loss, "identity")
        row.go(row.solved())
        gap, size = row.gap()
        assert gap == pytest.approx(0.0, abs=1e-9 * size)
        before = row.a
        np.testing.assert_allclose(row.solved(), before, atol=1e-7 * max(row.cost, before.max()))


def test_a_matrix_that_is_diagonal_makes_class_scales():
    rng = np.random.default_rng(6)
    for _ in range(50):
        g, g_target, h, a = rng.normal(size=4), float(rng.normal()), 10.0 ** rng.uniform(-1, 0.5, 5), np.zeros(4)
        exact = solved_row(native, "simplex", g, a, g_target, h, 2.0, metric="class_scales")
        for _ in range(2000):
            to = solved_row(native, "simplex", g, a, g_target, np.diag(h), 2.0, metric="between_classes")
            moved = h * np.append(a - to, (to - a).sum())
            g, g_target, a = g + moved[:-1], g_target + moved[-1], to
        np.testing.assert_allclose(a, exact, atol=1e-8)


@pytest.mark.parametrize("domain,k", [("squared_capped_simplex", 2), ("squared_top_k", 2), ("squared_top_k", 3)])
def test_a_gauge_is_found_from_any_duals(domain, k):
    """Those of the end, or of a neighbour, say which of them are tied; duals of 0 say nothing."""
    rng, same = np.random.default_rng(8), 0
    for _ in range(300):
        count, q, cost = int(rng.integers(2, 7)), float(10.0 ** rng.uniform(-1, 1)), float(10.0 ** rng.uniform(-1, 1))
        o, H = rng.normal(size=count + 1) + np.append(np.ones(count), 0.0), q * np.ones(count + 1)

        def solved(o, a, q=q, cost=cost, H=H):
            g = o - q * np.append(a, -a.sum())
            return solved_row(native, domain, g[:-1], a, float(g[-1]), H, cost, parameters=[k])

        exact = solved(o, np.zeros(count))
        near = solved(o + 0.05 * rng.normal(size=count + 1), np.zeros(count))
        np.testing.assert_allclose(solved(o, exact), exact, atol=1e-11 * max(1.0, exact.max()))
        np.testing.assert_allclose(solved(o, near), exact, atol=1e-11 * max(1.0, exact.max()))
        same += bool(((near > 0.0) == (exact > 0.0)).all())
    assert 100 < same < 300  # neighbours of the same face, and of others


# ---- kernels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", BUILDS)
@each_loss_to_rivals
def test_the_kernel_loop_closes_the_gap_of_every_domain(name, loss, build):
    rng, n, c = np.random.default_rng(7), 40, 5
    y, cost = np.r_[np.arange(c), rng.integers(0, c, n - c)].astype(np.int32), rng.uniform(0.1, 3.0, size=n)
    K = rbf_kernel(rng.normal(size=(n, 2)), gamma=0.7).astype(np.float32)
    S, a, b, sums, gaps = np.zeros((c, n)), np.zeros((n, c)), np.zeros(c), np.zeros(c), np.zeros(n)
    rules = loss.row_parameters, targets_of(loss, c)
    build.kernel_ascend(loss.row_problem, K, S, a, y, cost, b, sums, 0.0, 1e-7, 10**7, 0, *rules)
    S = np.ascontiguousarray((K.astype(np.float64) @ twins.tau(a, y)).T)
    value = build.kernel_gaps(loss.row_problem, S, a, y, cost, b, gaps, *rules)
    assert value == pytest.approx(float(cost @ loss.value(S.T, y)), rel=1e-12)
    square = float((twins.tau(a, y) * S.T).sum())
    own = float((loss.domain.square(a, y) / (4.0 * cost)).sum()) if loss.squared else 0.0
    dual = float((loss.targets(c)[y] * a).sum()) - own - 0.5 * square
    assert gaps.sum() == pytest.approx(value + 0.5 * square - dual, abs=1e-9 * dual)
    assert 0.0 <= value + 0.5 * square - dual <= 1e-4 * dual
    assert loss.squared or (loss.domain.gauge(a, y) <= cost * (1 + 1e-9)).all()
