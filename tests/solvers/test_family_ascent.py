"""Dual ascent for every loss of margins: certified, in every storage, from any start, on rows that ask for trouble."""

from __future__ import annotations

import functools
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from cases import all_losses, called, optimum_of
from scipy import sparse

from polymargin.losses import LOSSES as KINDS
from polymargin.losses import CrammerSingerHinge, LeeLinWahbaHinge, OneVsRestHinge, ReinforcedHinge, TopKHinge, TotalSumHinge
from polymargin.penalties import BlockNorm, CoupledNorm, SquaredNorm, ZeroSumNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent import driver
from polymargin.solvers.ascent.loops import open_loop
from polymargin.solvers.ascent.row_ascent import RowsProof, dual_ascent
from polymargin.solvers.plan import solve
from polymargin.solvers.types import Start

LOSSES = [(name, loss) for name, loss in all_losses() if loss.row_problem is not None]
each_loss = pytest.mark.parametrize("name, loss", LOSSES, ids=lambda part: part if isinstance(part, str) else called(part))
both_offsets = pytest.mark.parametrize("fit_intercept", [False, True])


def penalty_of(loss):
    return ZeroSumNorm() if loss.sums_to_zero else SquaredNorm()


def problem_of(loss, fit_intercept, n=40, d=4, c=5, seed=3, shift=0.7):
    """float32 values, so that all storages hold the same numbers; two rows of zeros."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(c), rng.integers(0, c, n - c)].astype(np.int32)
    X = rng.standard_normal((c, d))[y] + rng.standard_normal((n, d)) + shift
    X *= rng.random((n, d)) < 0.8
    X[[7, n - 1]] = 0.0
    cost = rng.uniform(0.2, 2.0, n)
    return Problem(X.astype(np.float32).astype(np.float64), y, cost, c, loss, penalty_of(loss), fit_intercept)


@functools.cache
def optimum(name, loss, fit_intercept):
    return optimum_of(name, problem_of(loss, fit_intercept), lambda W, b: 0.5 * cp.sum_squares(W), fit_intercept).value


def ascent(problem, tol=1e-6, start=None, max_iter=20000):
    return dual_ascent(problem, Ledger(tol, rounding=problem.rounding_at), max_iter=max_iter, seed=0, start=start)


def proof_of(problem, duals):
    """The dual value of duals, written a second time."""
    T = problem.loss.domain.margins.derivative(duals.dense(problem.n_classes), problem.y)
    if problem.loss.sums_to_zero:  # the same sum for all classes
        sums = T.sum(axis=0)
        assert not problem.fit_intercept or np.abs(sums - sums.mean()).max() <= 1e-9 * np.abs(T).sum()
        problem = replace(problem, fit_intercept=False)
    return problem.dual(T)


def assert_the_last_duals_prove_it(problem, solution):
    """The solution has the duals of the look with the best bound; the twin sums them in another order."""
    end, last = solution.certificate, proof_of(problem, solution.duals)
    assert (1.0 - end.tol) * end.dual <= last <= (1.0 + 1e-9) * end.dual


@both_offsets
@each_loss
def test_ascent_ends_at_the_optimum_with_a_true_bound(name, loss, fit_intercept):
    problem, best = problem_of(loss, fit_intercept), optimum(name, loss, fit_intercept)
    for stored in (problem.X, problem.X.astype(np.float32), sparse.csr_array(problem.X)):
        solution = ascent(replace(problem, X=stored))
        end, machine = solution.certificate, solution.machine
        assert end.status == "optimal"
        assert end.dual <= best * (1 + 1e-8)
        assert machine.primal == pytest.approx(best, rel=2e-6)
        assert problem.primal(machine.W, machine.b) == pytest.approx(machine.primal, rel=1e-9)
        assert_the_last_duals_prove_it(problem, solution)
        if loss.sums_to_zero:
            assert np.abs(machine.W.sum(axis=1)).max() <= 1e-12 * np.abs(machine.W).max()
            assert abs(machine.b.sum()) <= 1e-12 * max(1.0, np.abs(machine.b).max())


@both_offsets
@each_loss
def test_no_bound_on_the_way_is_above_the_optimum(name, loss, fit_intercept):
    problem, best = problem_of(loss, fit_intercept), optimum(name, loss, fit_intercept)
    for epochs in (1, 2, 3, 5, 9, 17, 40):
        end = ascent(problem, max_iter=epochs).certificate
        assert end.dual <= best * (1 + 1e-8)
        assert end.primal >= best * (1 - 1e-8)


@both_offsets
@each_loss
def test_a_solution_is_where_its_own_fit_starts(name, loss, fit_intercept):
    epochs = []
    for seed in (3, 4, 5):  # how long one of them takes is luck
        problem = problem_of(loss, fit_intercept, seed=seed)
        solution = ascent(problem)
        again = ascent(problem, start=Start(solution.duals, solution.machine.b))
        assert again.certificate.status == "optimal"
        assert again.machine.primal == pytest.approx(solution.machine.primal, rel=2e-6)
        epochs.append((solution.certificate.n_iter, again.certificate.n_iter))
    cold, warm = np.sum(epochs, axis=0)
    assert warm <= max(3 * 120, 0.9 * cold)  # of slices of 100 and 10 epochs


@both_offsets
@each_loss
def test_the_plan_takes_every_loss_to_the_end(name, loss, fit_intercept):
    problem = problem_of(loss, fit_intercept)
    ledger = Ledger(1e-9, rounding=problem.rounding_at)
    solution = solve(problem, ledger, max_iter=200_000, seed=0)
    assert solution.certificate.status == "optimal"
    assert solution.machine.primal == pytest.approx(optimum(name, loss, fit_intercept), rel=1e-6)
    assert solution.certificate.dual <= optimum(name, loss, fit_intercept) * (1 + 1e-8)


# ---- coupled classes --------------------------------------------------------------------------------------------------


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("alpha", [-0.2, 0.6])
@both_offsets
@each_loss
def test_every_loss_takes_a_coupling(name, loss, fit_intercept, alpha):
    """The penalty says what the sum of the class vectors costs; the loss, whether the offsets add up to zero."""

    def penalty(W, b):
        c = W.shape[1]
        mean = np.full((c, c), 1.0 / c)
        apart, together = cp.sum_squares(W @ (np.eye(c) - mean)), cp.sum_squares(W @ mean)
        return 0.5 * (1.0 - alpha) * apart + 0.5 * (1.0 + alpha * (c - 1)) * together

    problem = replace(problem_of(loss, fit_intercept), penalty=CoupledNorm(alpha))
    best = optimum_of(name, problem, penalty, fit_intercept, vectors_sum_to_zero=False).value
    crawls = name == "total_max" and loss.squared  # all margins of a row tie
    solution = ascent(problem, tol=5e-3 if crawls else 1e-6, max_iter=100_000)  # maxima crawl: in a fit others end them
    assert solution.certificate.status == "optimal"
    assert solution.certificate.dual <= best * (1 + 1e-7)
    assert solution.machine.primal == pytest.approx(best, rel=5e-3 if crawls else 3e-6)
    assert problem.primal(solution.machine.W, solution.machine.b) == pytest.approx(solution.machine.primal, rel=1e-9)


# ---- who may not meet -------------------------------------------------------------------------------------------------


def test_vectors_of_sum_zero_need_a_penalty_for_it():
    for penalty in (SquaredNorm(), BlockNorm(1.5)):
        problem = replace(problem_of(LeeLinWahbaHinge(), True), penalty=penalty)
        with pytest.raises(TypeError, match=r"Lee-Lin-Wahba hinge (needs the penalty one at sum zero|with 'block norm')"):
            ascent(problem)


def test_plain_loops_know_neither_squares_nor_absolute_margins():
    for loss in (CrammerSingerHinge(squared=True), OneVsRestHinge()):
        with pytest.raises(TypeError, match="margins to rivals that is not squared"):
            open_loop(problem_of(loss, True), 0, plain=True)


# ---- very many classes ------------------------------------------------------------------------------------------------


@both_offsets
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("key", sorted({name for name, loss in LOSSES if loss.domain.margins.rivals}))
def test_narrowed_lists_of_very_many_classes_end_too(key, squared, fit_intercept):
    """More classes than a row moves at a time, and than its slot first holds."""
    problem = problem_of(KINDS[key](squared=squared), fit_intercept, n=300, d=12, c=90, seed=5, shift=0.0)
    problem = replace(problem, cost=0.05 * problem.cost)
    solution = ascent(problem, tol=1e-4)
    assert solution.certificate.status == "optimal"
    machine = solution.machine
    assert problem.primal(machine.W, machine.b) == pytest.approx(machine.primal, rel=1e-9)
    assert_the_last_duals_prove_it(problem, solution)


def test_class_vectors_that_are_not_worth_their_price_are_shortened(monkeypatch):
    """The bound is near F of none at all long before the loop's own machine is: a multiple of it is enough, and not none."""
    problem = problem_of(KINDS["absolute_max"](squared=True), True, n=600, d=3, c=12)
    with monkeypatch.context() as patch:
        patch.setattr(RowsProof, "_shortened", lambda self, primal, dual, tol: primal)
        patch.setattr(RowsProof, "wants_look", lambda self, tol: False)
        before = ascent(problem, tol=1e-2)
    solution = ascent(problem, tol=1e-2)
    end, machine = solution.certificate, solution.machine
    assert end.status == "optimal" and end.n_iter < before.certificate.n_iter
    assert problem.primal(machine.W, machine.b) == pytest.approx(end.primal, rel=1e-12)
    assert end.primal > before.certificate.dual * (1 - 1e-12) and before.certificate.primal > end.dual * (1 - 1e-12)
    assert np.abs(machine.W).max() > 0.0
    assert_the_last_duals_prove_it(problem, solution)


# ---- numbers of other sizes -------------------------------------------------------------------------------------------


@both_offsets
@pytest.mark.parametrize(
    "loss",
    [
        CrammerSingerHinge(costs=1e-3 * np.ones((5, 5))),
        TopKHinge(3, costs=1e3 * np.ones((5, 5))),
        CrammerSingerHinge(costs=np.zeros((5, 5))),
        TotalSumHinge(squared=True),
        ReinforcedHinge(0.3),
    ],
    ids=called,
)
def test_bounds_stay_true_on_long_rows(loss, fit_intercept):
    """Rows a million times longer than the margins: what rounding hides is no part of the bound."""
    problem = problem_of(loss, fit_intercept, shift=3.0)
    problem = replace(problem, X=1e6 * problem.X)
    solution = ascent(problem, tol=1e-5, max_iter=3000)
    end, machine = solution.certificate, solution.machine
    assert end.dual <= problem.primal(machine.W, machine.b) * (1 + 1e-9)
    assert proof_of(problem, solution.duals) >= end.dual - 1e-6 * max(abs(end.dual), abs(end.primal))


@each_loss
def test_averages_of_slices_are_certified_as_they_are_returned(name, loss, monkeypatch):
    """Here all slices are averaged, not only those that may be the last where estimates fall slowly."""
    monkeypatch.setattr(driver, "_NEAR", np.inf)
    monkeypatch.setattr(driver, "_SLOW", 0.0)
    looks, bound = [], RowsProof._bound
    monkeypatch.setattr(RowsProof, "_bound", lambda proof, *at: looks.append(proof._is_averaged) or bound(proof, *at))
    problem = problem_of(loss, True, n=400)
    solution = ascent(problem, tol=1e-5)
    machine, end = solution.machine, solution.certificate
    assert end.status == "optimal"
    assert machine.primal == pytest.approx(problem.primal(machine.W, machine.b), rel=1e-9)
    assert problem.primal(machine.W, machine.b) - end.dual <= 1.001e-5 * machine.primal
    assert any(looks)


def test_the_average_of_a_slice_is_that_of_its_epochs():
    problem = problem_of(OneVsRestHinge(), True, n=400)
    loops = [open_loop(problem, 0) for _ in range(2)]
    for loop in loops:
        loop.start_intercept(problem.X.mean(axis=0), 0.1)
    loops[0].average_slices(True)
    loops[0].ascend(3 * 400, 0.0)
    ends = []
    for _ in range(3):
        loops[1].ascend(400, 0.0)
        ends.append((loops[1].weights(), loops[1].intercepts()))
    for averaged, parts in zip(loops[0].averaged_machine(), zip(*ends, strict=True), strict=True):
        np.testing.assert_allclose(averaged, np.mean(parts, axis=0), rtol=1e-10, atol=1e-12)
    loops[0].average_slices(False)
    loops[0].ascend(400, 0.0)
    assert loops[0].averaged_value(1) == np.inf
