"""Newton's method with multipliers against Clarabel, and when it is called."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from reference import crammer_singer, weston_watkins
from reference_lp import lp_norm_optimum

from polymargin import AngularSVC, CrammerSingerSVC, LpNormSVC, WestonWatkinsSVC
from polymargin.losses import LOSSES
from polymargin.losses.domains.domain import Box, Simplex
from polymargin.penalties import PENALTIES, BlockNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import convex, cost_model
from polymargin.solvers.ascent.convex_model import Tangent, solve_by_newton, solve_exactly
from polymargin.solvers.ascent.row_ascent import dual_ascent
from polymargin.solvers.newton import augmented as multiplier_newton
from polymargin.solvers.plan import solve
from polymargin.solvers.types import Machine, SparseDuals, Start

BOTH = {"crammer_singer": crammer_singer, "weston_watkins": weston_watkins}
MACHINES = {CrammerSingerSVC: "crammer_singer", WestonWatkinsSVC: "weston_watkins"}


def rows(n, d, c, seed, shift=1.0):
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(c), rng.integers(c, size=n - c)].astype(np.int32)
    return shift * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d)) + 0.5, y


def a_problem(X, y, C, loss, fit_intercept, weights=1.0):
    cost = np.ascontiguousarray(np.broadcast_to(C * weights, len(y)), dtype=np.float64)
    return Problem(X, y, cost, int(y.max()) + 1, LOSSES[loss](), PENALTIES["squared_norm"](), fit_intercept)


def begun(problem, tol, epochs):
    ledger = Ledger(tol)
    return ledger, dual_ascent(problem, ledger, max_iter=epochs, seed=0)


@pytest.mark.parametrize("loss", list(BOTH))
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("C", "n", "d", "weighted"), [(0.05, 40, 6, True), (3.0, 30, 60, False), (1e4, 50, 20, True)])
def test_it_finds_the_optimum_from_a_few_epochs(loss, fit_intercept, storage, C, n, d, weighted):
    X, y = rows(n, d, 4, seed=n)
    v = np.random.default_rng(1).uniform(0.2, 3.0, n) if weighted else None
    problem = a_problem(storage(X), y, C, loss, fit_intercept, 1.0 if v is None else v)
    ledger, so_far = begun(problem, 1e-7, 3)
    assert not ledger.done
    found = multiplier_newton.multiplier_newton(problem, ledger, 500, so_far)
    assert found.certificate.status == "optimal"
    optimum = BOTH[loss](X, y, C, sample_weight=v, fit_intercept=fit_intercept)
    assert_allclose(problem.primal(found.machine.W, found.machine.b), optimum, rtol=2e-7)
    assert found.certificate.dual <= optimum * (1.0 + 1e-9)
    # the duals it returns are feasible and have the value of the bound
    A = found.duals.dense(problem.n_classes)
    tau = -A
    tau[np.arange(n), y] = A.sum(axis=1)
    assert A.min() >= 0.0 and problem.loss.conjugate(-tau / problem.cost[:, None], y).max() < np.inf
    if fit_intercept:
        assert_allclose(tau.sum(axis=0), 0.0, atol=1e-12 * A.sum())
    centred = X - X.mean(axis=0) if fit_intercept else X
    assert_allclose(A.sum() - 0.5 * np.sum((centred.T @ tau) ** 2), found.certificate.dual, rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_class_scales_move_with_the_rounds(p, fit_intercept):
    X, y = rows(60, 90, 5, seed=8, shift=0.3)
    v = np.random.default_rng(2).uniform(0.2, 3.0, 60)
    plain = a_problem(X, y, 2.0, "crammer_singer", fit_intercept, v)
    problem, ledger = replace(plain, penalty=BlockNorm(p)), Ledger(1e-7)
    so_far = dual_ascent(problem, ledger, max_iter=3, seed=0)
    assert not ledger.done
    found = multiplier_newton.multiplier_newton(problem, ledger, 500, so_far)
    assert found.certificate.status == "optimal"
    optimum = lp_norm_optimum(X, y, problem.cost, fit_intercept, p)
    assert_allclose(problem.primal(found.machine.W, found.machine.b), optimum, rtol=2e-7)
    assert found.certificate.dual <= optimum * (1.0 + 1e-7)


@pytest.fixture(scope="module")
def hard():
    """Wide, separable, columns of very different sizes."""
    X, y = rows(300, 200, 12, seed=3, shift=0.2)
    return X * np.geomspace(1.0, 1e-3, 200), y


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_hard_margins_of_wide_data_are_certified(hard, machine, fit_intercept):
    made = machine(C=1e4, tol=1e-5, fit_intercept=fit_intercept, random_state=0).fit(*hard)
    assert made.certificate_.status == "optimal"
    assert made.n_iter_ < 500


@pytest.mark.parametrize("storage", [np.float32, sp.csr_array, sp.csr_matrix])
def test_other_storages_lead_to_the_same_machine(hard, storage):
    X, y = hard
    rounded = X.astype(np.float32).astype(np.float64)  # the same numbers for everybody
    settings = {"C": 1e4, "tol": 1e-5, "random_state": 0}
    one = CrammerSingerSVC(**settings).fit(rounded, y)
    other = CrammerSingerSVC(**settings).fit(rounded.astype(storage) if storage is np.float32 else storage(rounded), y)
    assert other.certificate_.status == "optimal"
    assert_allclose(other.certificate_.primal, one.certificate_.primal, rtol=2e-5)


def test_repeated_rows_do_no_harm(hard):
    """Their pairs depend on each other: the system is singular but for its proximal term."""
    X, y = hard
    once = CrammerSingerSVC(C=1e4, tol=1e-6, random_state=0).fit(X, y, sample_weight=np.full(len(y), 2.0))
    twice = CrammerSingerSVC(C=1e4, tol=1e-6, random_state=0).fit(np.r_[X, X], np.r_[y, y])
    assert twice.certificate_.status == "optimal"
    assert_allclose(twice.certificate_.primal, once.certificate_.primal, rtol=2e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_block_norm_on_such_data_too(hard, fit_intercept):
    made = LpNormSVC(C=1e4, p=1.3, tol=1e-5, fit_intercept=fit_intercept, random_state=0).fit(*hard)
    assert made.certificate_.status == "optimal"
    assert made.n_iter_ < 800


@pytest.mark.parametrize("loss", list(MACHINES.values()))
def test_without_it_ascent_crawls(hard, loss):
    ledger, _ = begun(a_problem(*hard, 1e4, loss, False), 1e-5, 1000)
    assert ledger.rel_gap > 100 * 1e-5


def test_a_warm_start_beside_such_a_fit_goes_on_from_it(hard):
    fits = []
    for C in (1e4, 1.1e4):
        problem, ledger = a_problem(*hard, C, "crammer_singer", False), Ledger(1e-5)
        start = None
        if fits:
            last = fits[0]
            scaled = last.duals._replace(values=1.1 * last.duals.values)
            start = Start(scaled, last.machine.b, crawled=last.crawled)
        fits.append(solve(problem, ledger, max_iter=1000, seed=0, start=start))
    assert all(one.certificate.status == "optimal" and one.crawled for one in fits)
    assert fits[1].certificate.n_iter < 0.5 * fits[0].certificate.n_iter


@pytest.mark.parametrize(("largest", "at_first", "tried"), [(10, 0.6, False), (600, 2.0, True)])
def test_where_too_many_duals_are_free_ascent_goes_on(hard, largest, at_first, tried, monkeypatch):
    """Too many from the start; and 601 of them in the second step."""
    counts = []

    def free_pairs(*arguments):
        found = free_pairs_before(*arguments)
        counts.append(len(found.rows))
        return found

    free_pairs_before = multiplier_newton.free_pairs
    monkeypatch.setattr(multiplier_newton, "free_pairs", free_pairs)
    monkeypatch.setattr(cost_model, "MOST_FREE_DUALS", largest)
    monkeypatch.setattr(cost_model, "_FREE_AT_FIRST", at_first)
    problem, ledger = a_problem(*hard, 1e4, "weston_watkins", True), Ledger(1e-5)
    found = solve(problem, ledger, max_iter=600, seed=0)
    assert bool(counts) == tried and all(count <= largest for count in counts[:-1])
    assert not counts or counts[-1] > largest
    assert found.certificate.status == "max_iter"
    assert found.certificate.n_iter == 600  # ascent had the rest
    assert_allclose(problem.primal(found.machine.W, found.machine.b), found.certificate.primal, rtol=1e-9)


@pytest.mark.parametrize("max_iter", [205, 230])
def test_the_budget_holds(hard, max_iter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = CrammerSingerSVC(C=1e4, tol=1e-9, max_iter=max_iter, random_state=0).fit(*hard)
    assert made.n_iter_ <= max_iter
    assert made.certificate_.status == "max_iter"
    assert made.certificate_.dual <= made.certificate_.primal


def test_pace_looks_ahead():
    problem, ledger = a_problem(*rows(60, 80, 30, seed=1), 1.0, "crammer_singer", False), Ledger(1e-4)
    pace = convex.Pace(problem, ledger, 1000)
    few = SparseDuals(np.zeros(61, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0))
    answers = []
    for epochs, gap in [(100, 1e-1), (200, 2e-4), (300, 1.9e-4)]:  # fast, then all but standing still
        ledger.primal, ledger.dual = 1.0, 1.0 - gap
        answers.append(pace.gives_up(epochs, lambda: few))
    assert answers == [False, False, True]


@pytest.mark.parametrize("domain", [Simplex(), Box()])
def test_projections_are_nearest_points(domain):
    rng = np.random.default_rng(0)
    n, c = 60, 5
    y, cost = rng.integers(c, size=n).astype(np.int32), rng.uniform(0.3, 2.0, n)
    T = rng.normal(0.3, 1.0, (n, c))
    own, of = (np.arange(n), y), domain.of_rows(y, cost)
    A, free, closed = of.project(T)[:3]
    assert of.room(A) > 1.0 - 1e-12
    assert (A >= 0.0).all() and not A[own].any() and not free[own].any()
    inside = rng.uniform(0.0, 1.0, (200, n, c))
    inside[:, own[0], y] = 0.0
    inside *= cost[:, None] / (inside.sum(axis=2, keepdims=True) if domain == Simplex() else 1.0)
    T[own] = 0.0
    # the nearest point of a convex set: nothing inside lies ahead of it, seen from T
    assert (np.einsum("ij,kij->ki", T - A, inside - A) <= 1e-12).all()
    assert_allclose(np.where(closed, A.sum(axis=1), cost), cost)
    assert closed.any() == (domain == Simplex())
    # free duals follow T, the others stay
    moved = of.project(T + 1e-7 * rng.normal(size=T.shape)).A - A
    alone = closed & (free.sum(axis=1) == 1)  # such a dual has all of the sum
    assert not moved[~free].any() and not moved[alone].any()
    assert (moved[free & ~alone[:, None]] != 0.0).all()
    some = np.maximum(A, 1e-3)
    some[own] = 0.0
    assert_allclose(of.room(4.0 * some) * 4.0 * some, some, rtol=0.02)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_shifted_machines_are_those_of_the_interior_point(fit_intercept):
    X, y = rows(50, 30, 4, seed=5)
    problem = a_problem(X, y, 5.0, "crammer_singer", fit_intercept)
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(30, 4)), rng.normal(size=4) * fit_intercept
    tangent = Tangent(Machine(W, b, 200.0), 0.3, rng.normal(size=W.shape), 0.7)
    exact, _ = solve_exactly(problem, tangent, 1e-7, 100)
    _, begin = begun(problem, 1e-2, 3)
    found, steps = solve_by_newton(problem, tangent, begin.duals, 1e-7, 500)
    assert steps < 200
    assert_allclose(tangent.model(found.W, found.loss), tangent.model(exact.W, exact.loss), rtol=1e-7)
    assert_allclose(found.W, exact.W, atol=1e-3)
    assert_allclose(tangent.bound(problem, found.duals), tangent.bound(problem, exact.duals), rtol=1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_angles_on_hard_data_reach_a_stationary_machine(hard, fit_intercept):
    made = AngularSVC(C=1e4, omega=0.1, fit_intercept=fit_intercept, random_state=0).fit(*hard)
    assert made.certificate_.status == "stationary"
    assert made.certificate_.stationarity <= made.tol
