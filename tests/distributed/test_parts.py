"""Fits of parts against fits of all rows at once: the same optimum, and a certificate of all rows."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import sparse

from polymargin import CrammerSingerSVC, MultiLabelSVC, OneVsNoneSVC
from polymargin.distributed import solve as ways
from polymargin.distributed import work
from polymargin.distributed.communicator import InProcess, Least, tree_sum
from polymargin.distributed.disk.sources import checked, label_kind, labels_of, with_absent
from polymargin.distributed.parts import Elsewhere
from polymargin.distributed.solve import gather, solve_parts
from polymargin.distributed.together import Together, first_state
from polymargin.losses import CrammerSingerHinge, TopKHinge, WestonWatkinsHinge
from polymargin.penalties import BlockNorm, SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import solve

MACHINES = {
    "Crammer-Singer": (CrammerSingerHinge(), SquaredNorm()),
    "Weston-Watkins": (WestonWatkinsHinge(), SquaredNorm()),
    "lp": (CrammerSingerHinge(), BlockNorm(1.4)),
    "top-2": (TopKHinge(2), SquaredNorm()),
    "top-3": (TopKHinge(3), SquaredNorm()),
    "squared Crammer-Singer": (CrammerSingerHinge(squared=True), SquaredNorm()),
    "squared Weston-Watkins": (WestonWatkinsHinge(squared=True), SquaredNorm()),
    "squared lp": (CrammerSingerHinge(squared=True), BlockNorm(1.4)),
}
TOL = 1e-4


def random_rows(seed: int, loss, penalty) -> Problem:
    """Weighted rows, dense or CSR, wide or tall, with a free intercept or none."""
    rng = np.random.default_rng(seed)
    c, wide = 3 + seed % 4, seed % 3 == 0
    n, d = int(rng.integers(8 * c, 20 * c)), 60 if wide else 6
    y = np.r_[np.arange(c), rng.integers(0, c, n - c)].astype(np.int32)
    X = rng.standard_normal((c, d))[y] / np.sqrt(d) ** wide + rng.standard_normal((n, d))
    if seed % 2:
        X = sparse.csr_array(X * (rng.random((n, d)) < 0.4))
    cost = 10 ** rng.uniform(-1, 0.5) * rng.uniform(0.3, 2.0, n)
    cone = not loss.domain.has_plain_faces
    return Problem(X, y, cost, c, loss, penalty, fit_intercept=not cone and seed % 4 < 2)


def in_parts(problem: Problem, seed: int, takes_turns: bool = False) -> InProcess:
    """Rows dealt to parts of very different sizes; one has none, one a single row, one no row of class 0."""
    rng = np.random.default_rng(seed)
    where = rng.choice(4, size=problem.n_rows, p=[0.5, 0.3, 0.15, 0.05])
    where[(where == 1) & (problem.y == 0)] = 0
    where[-1] = 5  # and nobody is in 4
    kinds = {name: getattr(problem, name) for name in ("n_classes", "loss", "penalty", "fit_intercept")}
    parts = [Problem(problem.X[where == k], problem.y[where == k], problem.cost[where == k], **kinds) for k in range(6)]
    return InProcess(parts, [work.no_duals(part) for part in parts], takes_turns)


def fitted(problem: Problem, parts: InProcess):
    whole = gather(parts, problem.loss, problem.penalty, problem.fit_intercept, np.float64)
    return solve_parts(whole, parts, Ledger(TOL, rounding=whole.rounding_at), max_iter=5000, seed=0)


@pytest.mark.pool(0.05)
@pytest.mark.parametrize("way", ["as chosen", "ascent", "turns"])
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(30))
def test_parts_have_the_optimum_of_all_rows(seed, name, way, monkeypatch):
    problem = random_rows(seed, *MACHINES[name])
    best = solve(problem, Ledger(1e-7), max_iter=20_000, seed=0).certificate
    if way != "as chosen":
        monkeypatch.setattr(ways, "newton_suits", lambda problem: False)
    solution = fitted(problem, in_parts(problem, seed, takes_turns=way == "turns"))
    end, primal = solution.certificate, problem.primal(solution.machine.W, solution.machine.b)
    assert end.status == "optimal"
    assert end.primal == pytest.approx(primal, rel=1e-10)  # the certificate's value is that of all rows
    assert best.dual * (1 - 1e-9) <= primal <= best.primal * (1 + TOL)
    assert end.dual <= best.primal * (1 + 1e-9)


def test_newton_is_chosen_for_few_unknowns_and_ascent_for_wide_rows():
    tall, wide = (random_rows(seed, CrammerSingerHinge(), SquaredNorm()) for seed in (1, 3))
    assert [fitted(tall, in_parts(tall, 0)).certificate.stages[0].method] == ["Newton's method over parts"]
    wide = Problem(np.tile(wide.X.toarray(), (1, 60)), wide.y, wide.cost, wide.n_classes, wide.loss, wide.penalty, False)
    assert [fitted(wide, in_parts(wide, 0)).certificate.stages[0].method] == ["dual ascent over parts"]


def test_the_bound_is_that_of_the_duals_in_all_parts():
    problem = random_rows(5, CrammerSingerHinge(), SquaredNorm())
    parts = in_parts(problem, 5)
    problem = Problem(problem.X, problem.y, problem.cost, problem.n_classes, problem.loss, problem.penalty, False)
    whole = gather(parts, problem.loss, problem.penalty, False, np.float64)
    loop = ways.PartsLoop(whole, parts, 0)
    loop.ascend(5 * problem.n_rows, 1e-300)
    loop.flows()  # tells the parts of the last move
    total = parts.total(work.sums)
    np.testing.assert_allclose(total.V, loop.shared.V, atol=1e-12 * np.abs(total.V).max())
    assert total.linear - 0.5 * np.vdot(total.V, total.V) == pytest.approx(loop.dual, rel=1e-12)


def test_sums_are_formed_in_one_order():
    numbers = list(np.random.default_rng(0).standard_normal(13) * 10.0 ** np.arange(13))
    halves = numbers[:8], numbers[8:12], numbers[12:]
    assert tree_sum(numbers) == tree_sum(halves[0]) + (tree_sum(halves[1]) + tree_sum(halves[2]))
    assert tree_sum([(Least(2.0), 1.0), (Least(0.5), 2.0)]) == (0.5, 3.0)


LABELS = {  # how y is given
    "matrix": lambda Y: Y,
    "sparse matrix": sparse.csr_matrix,
    "unknown entries": lambda Y: np.where(np.random.default_rng(3).random(Y.shape) < 0.3, 0, 2 * Y - 1),
    "classes": lambda Y: Y.argmax(axis=1),
}


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("loss", ["relevance", "squared_relevance"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_over_parts_have_the_optimum_of_all_rows(kind, wide, loss):
    """Sides of a label are missing in some parts; one label has no member at all, one part no row."""
    rng = np.random.default_rng(len(kind))
    n, d, c = 120, 300 if wide else 5, 4
    X = rng.standard_normal((n, d)) / np.sqrt(d) ** wide
    Y = (X @ rng.standard_normal((d, c)) + 0.5 * rng.standard_normal((n, c)) > 0.4).astype(int)
    Y[:, 3] = 0
    Y[:40, 0] = 0
    y, weight = LABELS[kind](Y), rng.uniform(0.5, 2.0, n)
    settings = {"loss": loss, "C": 0.7, "fit_intercept": not wide, "class_weight": None if kind == "matrix" else {0: 2.0}}
    where = np.repeat([0, 1, 2, 4], [40, 50, 29, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the label without members
        best = MultiLabelSVC(**settings, tol=1e-7).fit(X, y, weight)
        dealt = _Dealt(X, y, weight, where, takes_turns=loss == "relevance")
        machine = MultiLabelSVC(**settings, tol=TOL).fit(dealt)
    end = machine.certificate_
    assert end.status == "optimal"
    assert machine.objective_ == pytest.approx(machine.objective(X, y, weight), rel=1e-10)
    assert best.certificate_.dual * (1 - 1e-9) <= machine.objective_ <= best.objective_ * (1 + TOL)
    assert end.dual <= best.objective_ * (1 + 1e-9)
    for name in ("classes_", "threshold_", "constant_labels_", "_label_type"):
        np.testing.assert_array_equal(vars(machine).get(name), vars(best).get(name))
    assert machine.predict(X).shape == best.predict(X).shape


class _Dealt:
    """Parts in this process, for the fit of a machine."""

    def __init__(self, X, y, weight, where, takes_turns):
        self._rows = [checked((X[where == k], y[where == k], weight[where == k])) for k in range(5)]
        self._kind, self._takes_turns = label_kind(y), takes_turns

    @contextmanager
    def opened(self, run):
        def engine(problem_of):
            problems = [problem_of(*rows) for rows in self._rows]
            return InProcess(problems, [first_state(problem) for problem in problems], self._takes_turns)

        if not sparse.issparse(self._rows[0][1]):
            y, weight = (np.concatenate([rows[k] for rows in self._rows]) for k in (1, 2))
            yield Elsewhere(engine, np.unique(y), np.bincount(y, weight), np.dtype(np.float64))
            return
        labels = tree_sum(labels_of(y, weight, *self._kind) for _, y, weight in self._rows)
        total = sum(weight.sum() for _, _, weight in self._rows)
        yield Elsewhere(engine, np.arange(4), np.ones(4), np.dtype(np.float64), with_absent(labels, total))


@pytest.mark.parametrize(
    "machine, match",
    [
        (MultiLabelSVC(loss="ranking", threshold=0.0), "compares the labels of a row"),
        (MultiLabelSVC(threshold="auto"), "threshold='auto'"),
        (OneVsNoneSVC(), "couples all class vectors"),
        (CrammerSingerSVC(), "use MultiLabelSVC"),
    ],
)
def test_label_machines_that_parts_do_not_take_say_why(machine, match):
    X, Y = np.eye(4), np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    with pytest.raises(ValueError, match=match):
        machine.fit(_Dealt(X, Y, np.ones(4), np.arange(4), takes_turns=True))


def test_a_label_that_fails_ends_the_fit_of_all():
    hub = Together(InProcess([], []), 0)

    def solve(label, parts):
        if label == 1:
            raise RuntimeError("label 1")
        return parts.total(work.facts)

    with pytest.raises(RuntimeError, match="label 1"):
        hub.solve([0, 1], solve)
