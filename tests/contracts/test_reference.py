"""Against an interior-point solver: the objective is the optimum, and the certificate does not flatter."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cases import all_losses, called, optimum_of
from problems import Problem, random_problem
from reference import MACHINES, REFERENCES, cvxpy_optimum, dense64, hinge_optimum, objective
from registry import all_estimators, convex_estimators, each_convex, has_free_intercept

from polymargin.penalties import BlockNorm, SquaredNorm, ZeroSumNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem as ClassProblem
from polymargin.solvers import solve

N_PROBLEMS = 200


def rounding(problem: Problem, est: Any, F: float) -> float:
    """How far two evaluations of F at the fitted W may be apart: W and X are float32 where X was."""
    if not problem.single:
        return 1e-10 * abs(F)
    sizes = abs(dense64(problem.X)) @ abs(est.class_vectors_.T) + abs(est.class_offsets_)
    pairs = len(est.classes_) - 1
    return 1e-6 * abs(F) + 5e-7 * problem.C * pairs * float(problem.v @ sizes.max(axis=1))


def fit_problem(machine: type, problem: Problem) -> Any:
    params = {"fit_intercept": problem.fit_intercept} if has_free_intercept(machine) else {}
    tol = 5e-5 if problem.single else 1e-6
    est = machine(C=problem.C, class_weight=problem.class_weight, tol=tol, **params)
    est.set_params(random_state=0)
    return est.fit(problem.X, problem.y, sample_weight=problem.sample_weight)


def test_every_convex_machine_has_a_reference():
    missing = [machine.__name__ for machine in convex_estimators() if machine.__name__ not in REFERENCES]
    assert not missing, f"add to reference.REFERENCES: {missing}"


def test_the_random_problems_cover_what_they_promise():
    problems = [random_problem(seed) for seed in range(N_PROBLEMS)]
    assert {len(np.unique(p.y)) for p in problems} == set(range(2, 9))
    traits = {
        (p.fit_intercept, sp.issparse(p.X), p.single, p.sample_weight is not None, p.duplicates, p.wide)
        for p in problems
    }
    assert len(traits) == 2**6
    assert all((p.X.shape[0] < p.X.shape[1]) == p.wide for p in problems)
    assert {type(p.class_weight) for p in problems} == {type(None), str, dict}
    assert min(p.C for p in problems) < 0.015 and max(p.C for p in problems) > 70
    assert any(p.y.dtype.kind == "U" for p in problems)


@pytest.mark.pool(0.15)
@pytest.mark.filterwarnings("ignore:.*trivial solution")  # the small C's are meant
@pytest.mark.parametrize("seed", range(N_PROBLEMS))
@each_convex
def test_optimum_and_honest_gap(machine, seed):
    problem = random_problem(seed)
    name, v = machine.__name__, problem.v
    est = fit_problem(machine, problem)
    certificate = est.certificate_
    F_star = REFERENCES[name](problem.X, problem.y, problem.C, v, problem.fit_intercept)
    F = objective(name, est.class_vectors_, est.class_offsets_, problem.X, problem.y, problem.C, v)
    error = rounding(problem, est, F)

    assert certificate.primal == pytest.approx(F, abs=error)
    assert est.objective(problem.X, problem.y, problem.sample_weight) == pytest.approx(F, abs=error)
    assert est.objective_ == certificate.primal

    assert abs(F - F_star) <= (1e-4 if problem.single else 1e-5) * F_star
    assert F - F_star <= certificate.gap + error, "the gap is smaller than the true suboptimality"
    assert F_star - 1e-7 * F_star - error <= F, "below the optimum"
    assert certificate.dual <= F_star + 1e-10 * F_star, "the dual value is above the optimum"

    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, abs=1e-12 * abs(F))
    assert certificate.status == "optimal" and certificate.gap <= certificate.tol * abs(certificate.primal)


@pytest.mark.pool(0.15)
@pytest.mark.filterwarnings("ignore:.*trivial solution")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 3, 40])
@pytest.mark.parametrize("seed", range(24))
@each_convex
def test_gap_is_honest_before_convergence(machine, seed, max_iter):
    """The certificate of an interrupted solve is a bound too, with a free intercept above all."""
    problem = random_problem(seed)
    params = {"fit_intercept": problem.fit_intercept} if has_free_intercept(machine) else {}
    est = machine(C=problem.C, class_weight=problem.class_weight, tol=1e-9, max_iter=max_iter, random_state=0, **params)
    est.fit(problem.X, problem.y, sample_weight=problem.sample_weight)
    name, certificate = machine.__name__, est.certificate_
    F = objective(name, est.class_vectors_, est.class_offsets_, problem.X, problem.y, problem.C, problem.v)
    F_star = REFERENCES[name](problem.X, problem.y, problem.C, problem.v, problem.fit_intercept)
    error = rounding(problem, est, F)
    assert certificate.primal == pytest.approx(F, abs=error)
    assert F - F_star <= certificate.gap + error
    assert certificate.dual <= F_star + 1e-10 * F_star


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
@each_convex
def test_tol_is_a_relative_gap(machine, overlapping, tol):
    X, y = overlapping
    certificate = machine(tol=tol, random_state=0).fit(X, y).certificate_
    F_star = REFERENCES[machine.__name__](X, y, 1.0)
    assert certificate.tol == tol
    assert certificate.rel_gap == pytest.approx(certificate.gap / abs(certificate.primal))
    assert certificate.rel_gap <= tol
    assert -1e-8 * F_star <= certificate.primal - F_star <= certificate.gap + 1e-12 * F_star


@pytest.mark.parametrize("name", ["CrammerSingerSVC", "WestonWatkinsSVC"])
def test_golden_value_iris(name, iris):
    X, y = iris
    machine = {machine.__name__: machine for machine in all_estimators()}[name]
    assert REFERENCES[name](X, y, 1.0) == pytest.approx(16.916106, abs=2e-6)
    est = machine(C=1.0, tol=1e-8, random_state=0).fit(X, y)
    assert est.objective_ == pytest.approx(16.916106, abs=2e-6)
    assert machine(C=1.0, random_state=0).fit(X, y).objective_ == pytest.approx(16.916106, rel=1.1e-4)


@pytest.mark.parametrize("seed", [1, 2, 8, 11, 27, 40])
@pytest.mark.parametrize("name", sorted(set(REFERENCES) & {"CrammerSingerSVC", "WestonWatkinsSVC"}))
def test_assembled_reference_equals_cvxpy(name, seed):
    problem = random_problem(seed)
    arguments = (problem.X, problem.y, problem.C, problem.v, problem.fit_intercept)
    optimum = hinge_optimum(name, *arguments)
    assert optimum.value == pytest.approx(cvxpy_optimum(name, *arguments), rel=1e-6)
    assert optimum.value == pytest.approx(optimum.lower, rel=1e-7)


# -- every loss with 1/2 |W|^2, at sum zero where it asks for it, whether it has a machine of its own or not --


def small_problem(loss, fit_intercept):
    rng = np.random.default_rng(3)
    n, d, c = 40, 4, 5
    y = np.r_[np.arange(c), rng.integers(0, c, n - c)].astype(np.int32)
    X, cost = rng.standard_normal((c, d))[y] + rng.standard_normal((n, d)), rng.uniform(0.2, 2.0, n)
    return ClassProblem(X, y, cost, c, loss, ZeroSumNorm() if loss.sums_to_zero else SquaredNorm(), fit_intercept)


def each(losses):
    return pytest.mark.parametrize("name, loss", losses, ids=lambda part: part if isinstance(part, str) else called(part))


@pytest.mark.parametrize("fit_intercept", [True, False])
@each(all_losses())
def test_every_loss_is_what_cvxpy_minimises_and_so_do_we(name, loss, fit_intercept):
    import cvxpy as cp

    problem = small_problem(loss, fit_intercept)
    found = optimum_of(name, problem, lambda W, b: 0.5 * cp.sum_squares(W), fit_intercept)
    F_star = problem.primal(found.W, found.b)
    assert pytest.approx(found.value, rel=1e-6) == F_star
    if loss.row_problem is None:
        return
    ledger = Ledger(1e-8, rounding=problem.rounding_at)
    solution = solve(problem, ledger, max_iter=5000, seed=0)
    assert solution.certificate.status == "optimal"
    assert solution.machine.primal == pytest.approx(F_star, rel=1e-6)
    assert problem.primal(solution.machine.W, solution.machine.b) == pytest.approx(solution.machine.primal, rel=1e-10)
    assert solution.certificate.dual <= F_star * (1 + 1e-10)


@pytest.mark.parametrize("tol", [1e-7, 1e-10])  # by ascent, and by interior points at the end
@pytest.mark.parametrize("fit_intercept", [True, False])
@each([(name, loss) for name, loss in all_losses() if loss.row_problem is not None and not loss.sums_to_zero])
def test_every_loss_of_the_core_takes_class_scales(name, loss, fit_intercept, tol):
    import cvxpy as cp

    def penalty(W, b):
        return 0.5 * cp.square(cp.pnorm(cp.norm(W, axis=0), 1.4))

    problem = replace(small_problem(loss, fit_intercept), penalty=BlockNorm(1.4))
    ledger = Ledger(tol, rounding=problem.rounding_at)
    solution = solve(problem, ledger, max_iter=20000, seed=0)
    assert solution.certificate.status == "optimal"
    T = loss.domain.margins.derivative(solution.duals.dense(problem.n_classes), problem.y)
    # the proof, written a second time; cones are left by rounding
    assert problem.dual(T) == pytest.approx(solution.machine.primal, rel=max(3 * tol, 1e-8))
    if not loss.squared and loss.unit_targets:  # CVXPY is not accurate for the others
        F_star = optimum_of(name, problem, penalty, fit_intercept).value
        assert solution.machine.primal == pytest.approx(F_star, rel=1e-6)
        assert solution.certificate.dual <= F_star * (1 + 1e-7)


def test_numpy_objective_by_hand():
    """Class 0 scores (2, 1, 0): no loss. Class 2 scores (1, 0.5, 0): 1 + 1 and 1 + 0.5 too low."""
    S, y = np.array([[2.0, 1.0, 0.0], [1.0, 0.5, 0.0]]), np.array([0, 2])
    np.testing.assert_allclose(MACHINES["CrammerSingerSVC"].loss(S, y), [0.0, 2.0])
    np.testing.assert_allclose(MACHINES["WestonWatkinsSVC"].loss(S, y), [0.0, 2.0 + 1.5])
    X, labels, vectors = np.array([[1.0], [0.5]]), np.array(["a", "b"]), np.array([[2.0], [1.0]])
    F = objective("CrammerSingerSVC", vectors, np.array([0.0, 0.25]), X, labels, 10.0, np.array([1.0, 3.0]))
    assert pytest.approx(10.0 * (1 * (1 - (2 - 1.25)) + 3 * (1 - (0.75 - 1.0))) + 0.5 * (4 + 1)) == F
