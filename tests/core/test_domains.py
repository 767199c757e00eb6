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
from loops import BUILDS, open_loop, problem_data, solved_row
from sklearn.metrics.pairwise import rbf_kernel

from polymargin._core import native
from polymargin.losses import ScoreLoss
from polymargin.penalties import SquaredNorm
from polymargin.problem import Problem

CORE = Path(__file__).parents[2] / "src" / "polymargin" / "_core"
METRICS = ["identity", "class_scales", "between_classes"]
LOSSES = [(name, loss) for name, loss in all_losses() if loss.row_problem is not None]

each_loss = pytest.mark.parametrize("name, loss", LOSSES, ids=lambda part: part if isinstance(part, str) else called(part))
each_metric = pytest.mark.parametrize("metric", METRICS)


@pytest.mark.parametrize("build", BUILDS)
def test_every_header_is_a_domain(build):
    assert build.domains() == sorted(header.stem for header in (CORE / "domains").glob("*.hpp"))
    assert all(build.knows(domain, "identity") for domain in build.domains())


def test_nobody_else_mentions_a_domain():
    """So a new header is all that a new domain needs."""
    sources = [path for kind in ("hpp", "cpp", "in") for path in CORE.rglob(f"*.{kind}") if path.parent != CORE / "domains"]
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
    """Class scales, or a Laplacian and its inverse on vectors of sum 0."""
    rng = np.random.default_rng(22)
    if metric == "class_scales":
        return 10.0 ** rng.uniform(-1.0, 0.5, 5)
    Q = np.triu(10.0 ** rng.uniform(-1.0, 0.5, (5, 5)), 1)
    L = np.diag((Q + Q.T).sum(axis=1)) - Q - Q.T
    return L, np.ascontiguousarray(np.linalg.pinv(L))


def factor_of(metric: str) -> np.ndarray:
    """F with the penalty ``1/2 |W F|^2``."""
    if metric == "identity":
        return np.eye(5)
    if metric == "class_scales":
        return np.diag(numbers_of(metric) ** -0.5)
    values, vectors = np.linalg.eigh(numbers_of(metric)[0])
    return vectors * np.sqrt(np.maximum(values, 0.0))


def open_in(build, loss, metric, storage, waiting=False):
    problem = problem_of(loss)
    arrays = problem.X, problem.y, problem.cost
    loop = open_loop(build, loss.row_problem, *arrays, storage, waiting, 0, loss.row_parameters, metric)
    if metric == "class_scales":
        loop.rescale(numbers_of(metric), np.zeros(5))
    elif metric == "between_classes":
        loop.change_metric(numbers_of(metric)[1], 1.0)
    return loop


@functools.cache
def optimum(name: str, loss: ScoreLoss, metric: str, intercept: bool) -> float:
    """Of the machine in the metric; with an intercept that of a proximal step, whose offsets stay near a centre."""
    factor = factor_of(metric)
    of_offsets = np.eye(5) if metric == "class_scales" else factor  # scales are those of the vectors alone

    def penalty(W, b):
        near = cp.sum_squares((b + MEANS[None] @ W - CENTRE[None]) @ of_offsets) / INVERSE_RHO if intercept else 0.0
        return 0.5 * (cp.sum_squares(W @ factor) + near)

    return optimum_of(name, problem_of(loss), penalty, intercept).value


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("build", BUILDS)
@each_metric
@each_loss
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


@each_metric
@each_loss
def test_no_epoch_lowers_the_dual(name, loss, metric):
    loop = open_in(native, loss, metric, "dense64")
    before = loop.dual
    for _ in range(40):
        loop.ascend(40, 0.0)
        assert loop.dual >= before - 1e-13 * abs(before)
        before = loop.dual


# ---- one row ----------------------------------------------------------------------------------------------------------


def row_gain(loss, H, g, a, g_target, cost, to):
    """What the row's share of the dual gains on the way from a to `to`."""
    step = np.append(a - to, (to - a).sum())
    own = (to.sum() ** 2 - a.sum() ** 2) / (4.0 * cost) if loss.squared else 0.0
    return float(-step @ np.append(g, g_target) - 0.5 * step @ H @ step - own)


def random_row(rng, loss):
    m = int(rng.integers(max(1, int(max((0.0, *loss.row_parameters))) - 1), 8))
    g, g_target, cost = rng.normal(size=m), float(rng.normal()), 10.0 ** rng.uniform(-1, 1)
    start = solved_row(native, loss.row_problem, rng.normal(size=m), np.zeros(m), 0.0, 1.0, cost, loss.row_parameters)
    return g, start, g_target, cost


def curvatures(rng, metric, size):
    if metric == "between_classes":
        root = rng.normal(size=(size, size))
        return 10.0 ** rng.uniform(-1, 1) * (root @ root.T + 0.3 * np.eye(size))
    return np.diag(10.0 ** rng.uniform(-2, 1, size) if metric == "class_scales" else np.full(size, 0.7))


def slopes(loss, g, g_target, a, cost):
    """A squared loss looks at the slope of its own class with its own part."""
    return g, g_target + (a.sum() / (2.0 * cost) if loss.squared else 0.0)


@each_metric
@each_loss
def test_a_row_gains_and_stands_still_at_its_optimum_alone(name, loss, metric):
    rng = np.random.default_rng(5)
    for _ in range(20):
        g, a, g_target, cost = random_row(rng, loss)
        H = curvatures(rng, metric, len(g) + 1)
        gained = []
        for _ in range(4000):
            scores = slopes(loss, g, g_target, a, cost)
            to = solved_row(native, loss.row_problem, scores[0], a, scores[1], H, cost, loss.row_parameters, metric)
            gained.append(row_gain(loss, H, g, a, g_target, cost, to))
            assert gained[-1] >= -1e-12 * cost * max(1.0, np.abs(g).max())
            moved = H @ np.append(a - to, (to - a).sum())
            g, g_target, a = g + moved[:-1], g_target + moved[-1], to  # scores of the new duals
            if gained[-1] <= 1e-14 * sum(gained):
                break
        # no vertex of the domain is a way up: the loss of the slopes is what the duals make of them
        S = np.append(g, g_target)[None] + np.append(np.zeros(len(g)), 1.0)
        y = np.array([len(g)])
        sup = cost * float(loss.value(S, y)[0])
        taken = float(a @ (g - g_target)) - (a.sum() ** 2 / (4.0 * cost) if loss.squared else 0.0)
        assert sup - taken == pytest.approx(0.0, abs=1e-6 * max(cost, sup, abs(taken)))


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


# ---- kernels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", BUILDS)
@each_loss
def test_the_kernel_loop_closes_the_gap_of_every_domain(name, loss, build):
    rng, n, c = np.random.default_rng(7), 40, 5
    y, cost = np.r_[np.arange(c), rng.integers(0, c, n - c)].astype(np.int32), rng.uniform(0.1, 3.0, size=n)
    K = rbf_kernel(rng.normal(size=(n, 2)), gamma=0.7).astype(np.float32)
    S, a, b, sums, gaps = np.zeros((c, n)), np.zeros((n, c)), np.zeros(c), np.zeros(c), np.zeros(n)
    build.kernel_ascend(loss.row_problem, K, S, a, y, cost, b, sums, 0.0, 1e-7, 10**7, 0, loss.row_parameters)
    S = np.ascontiguousarray((K.astype(np.float64) @ twins.tau(a, y)).T)
    value = build.kernel_gaps(loss.row_problem, S, a, y, cost, b, gaps, loss.row_parameters)
    assert value == pytest.approx(float(cost @ loss.value(S.T, y)), rel=1e-12)
    square = float((twins.tau(a, y) * S.T).sum())
    own = float((a.sum(axis=1) ** 2 / (4.0 * cost)).sum()) if loss.squared else 0.0
    dual = a.sum() - own - 0.5 * square
    assert gaps.sum() == pytest.approx(value + 0.5 * square - dual, abs=1e-9 * dual)
    assert 0.0 <= value + 0.5 * square - dual <= 1e-4 * dual
    assert loss.squared or (loss.domain.gauge(a, y) <= cost * (1 + 1e-9)).all()
