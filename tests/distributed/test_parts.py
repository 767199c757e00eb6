"""Fits of parts against fits of all rows at once: the same optimum, and a certificate of all rows."""

import numpy as np
import pytest
from scipy import sparse

from polymargin.distributed import solve as ways
from polymargin.distributed import work
from polymargin.distributed.communicator import InProcess, Least, tree_sum
from polymargin.distributed.solve import gather, solve_parts
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


@pytest.mark.pool(0.25)
@pytest.mark.parametrize("way", ["as chosen", "ascent", "turns"])
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(6))
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
