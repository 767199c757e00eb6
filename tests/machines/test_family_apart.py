"""MarginSVC with penalties of angles: every loss descends to a stationary point, no worse than L-BFGS from many starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import all_losses, called
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from polymargin import AngularSVC, MarginSVC, WestonWatkinsSVC
from polymargin.estimators.family import penalty_for
from polymargin.label_costs import ordered_costs
from polymargin.penalties.angular import REGULARIZERS, AnglePenalty
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import solve
from polymargin.solvers.ascent.convex_model import Tangent
from polymargin.solvers.models.angles.rounded import rounded_loss
from polymargin.solvers.types import Machine, sparse_duals

LOSSES = [
    pytest.param(loss, id=called(loss))
    for _, loss in all_losses()
    if loss.domain is not None and loss.domain.has_plain_faces
]


def random_problem(rng: np.random.Generator, loss: Any, kind: str) -> Problem:
    n, d, c = int(rng.integers(25, 60)), int(rng.integers(3, 8)), 5
    y = rng.integers(0, c, n)
    y[:c] = range(c)
    X = rng.normal(size=(n, d)) + 1.5 * np.eye(c, d)[y]
    cost = rng.exponential(size=n) * 10.0 ** rng.uniform(-1.0, 1.0)
    penalty = penalty_for(loss, AnglePenalty(10.0 ** rng.uniform(-1.0, 1.5), kind))
    return Problem(X, y.astype(np.int32), cost, c, loss, penalty, bool(rng.integers(2)))


def by_lbfgs(problem: Problem, n_starts: int = 5) -> float:
    """The best F of L-BFGS on losses and kinks less and less rounded, from random machines."""
    rng, (d, c), apart = np.random.default_rng(0), (problem.n_features, problem.n_classes), problem.penalty.angular
    margins = problem.row_domains.domain.margins
    assert apart is not None

    def allowed(V: Any) -> Any:
        return V - V.mean(axis=1, keepdims=True) if problem.loss.sums_to_zero else V

    def machine(v: Any) -> tuple[Any, Any]:
        return allowed(v[: d * c].reshape(d, c)), problem.fit_intercept * allowed(v[None, d * c :])[0]

    def rounded(v: Any, width: float) -> tuple[float, Any]:
        (W, b), penalty = machine(v), apart.with_(angles=apart.angles.rounded(width))
        loss, A = rounded_loss(problem, problem.X @ W + b, problem.y, problem.cost, width)
        T = margins.derivative(A, problem.y)
        slopes, sums = allowed(problem.X.T @ T + penalty.gradient(W)), problem.fit_intercept * allowed(T.sum(axis=0)[None])
        return loss + penalty.value(W), np.append(slopes, sums)

    best = np.inf
    for _ in range(n_starts):
        v = rng.normal(size=d * c + c) * 10.0 ** rng.uniform(-1.0, 0.5)
        for width in (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4):
            v = minimize(rounded, v, args=(width,), jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
        best = min(best, problem.primal(*machine(v)))
    return best


@pytest.mark.pool(0.15)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", REGULARIZERS)
def test_every_loss_descends_to_a_stationary_point(loss: Any, kind: str) -> None:
    problem = random_problem(np.random.default_rng([0, *map(ord, called(loss) + kind)]), loss, kind)
    solution = solve(problem, Ledger(1e-4), max_iter=5000, seed=0)
    end, penalty = solution.certificate, problem.penalty.angular
    assert penalty is not None and solution.notes is not None
    lengths = np.linalg.norm(solution.machine.W, axis=0)
    if lengths.min() > 1e-6 * lengths.max():
        assert end.status == "stationary"
    else:  # class vectors that tend to 0: angles there bend without limit, and the descent need not end
        assert end.status in ("stationary", "optimal", "max_iter", "stalled")
    assert end.primal == pytest.approx(problem.primal(solution.machine.W, solution.machine.b), rel=1e-9)
    assert (np.diff(solution.notes.objectives) <= 0.0).all()
    if loss.sums_to_zero:
        assert_allclose(solution.machine.W.sum(axis=1), 0.0, atol=1e-9)
    rival = by_lbfgs(problem)
    assert end.dual <= min(rival, end.primal)
    # minima that a descent ends in differ by starts, which differ by rounding: the rival has several of them too
    others = (solve(problem, Ledger(1e-4), max_iter=5000, seed=seed).certificate.primal for seed in (1, 2))
    good_enough = 0.01 * penalty.above_least(end.primal)
    assert end.primal - rival <= good_enough or min(others) - rival <= good_enough


@pytest.mark.parametrize("loss", LOSSES)
def test_however_early_a_descent_ends_it_is_no_worse_than_offsets_alone(loss: Any) -> None:
    rng, c = np.random.default_rng(1), 5
    y = rng.integers(0, c, 60).astype(np.int32)
    y[:c] = range(c)
    cost = np.array([20.0, 10.0, 2.0, 1.0, 1.0])[y]
    penalty = penalty_for(loss, AnglePenalty(1.0, "angular"))
    problem = Problem(10.0 * rng.normal(size=(60, 3)), y, cost, c, loss, penalty, True)
    end = solve(problem, Ledger(1e-4), max_iter=1, seed=0).certificate

    def with_offsets(b: Any) -> float:
        return problem.primal(np.zeros((3, c)), b - b.mean() if loss.sums_to_zero else b)

    known = min(minimize(with_offsets, start, method="Powell").fun for start in 2.0 * rng.normal(size=(5, c)))
    assert end.primal - known <= 2e-3 * abs(known)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_bound_of_a_model_lies_below_it(loss: Any, fit_intercept: bool) -> None:
    """Whatever the duals: those of a random machine, moved into their domains."""
    rng = np.random.default_rng(3)
    problem = random_problem(rng, loss, "angular")
    problem = Problem(problem.X, problem.y, problem.cost, 5, loss, problem.penalty, fit_intercept)
    d, (n, c) = problem.n_features, (problem.n_rows, problem.n_classes)
    centred = (lambda V: V - V.mean(axis=-1, keepdims=True)) if loss.sums_to_zero else (lambda V: V)
    W, slope = centred(rng.normal(size=(d, c))), rng.normal(size=(d, c))
    tangent = Tangent(Machine(W, np.zeros(c), 0.0), 0.3, slope, 0.7)
    present = problem.row_domains.domain.margins.present(problem.y, c)
    A = problem.row_domains.project(np.where(present, rng.exponential(size=(n, c)), 0.0)).A
    bound = tangent.bound(problem, sparse_duals(A))
    for size in (0.0, 0.3, 1.0, 3.0):
        V, b = size * centred(rng.normal(size=(d, c))), fit_intercept * centred(rng.normal(size=c))
        losses = float(problem.cost @ loss.value(problem.X @ V + b, problem.y))
        assert tangent.model(V, losses) >= bound - 1e-9 * abs(bound)


def test_a_kernel_machine_equals_the_linear_one() -> None:
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    machine = MarginSVC(loss="weston_watkins", penalty="angular", fit_intercept=False, tol=1e-5)
    linear = machine.fit(X, y).objective_
    assert machine.set_params(kernel="precomputed").fit(X @ X.T, y).objective_ == pytest.approx(linear, rel=1e-4)
    assert machine.certificate_.status == "stationary" and machine.min_angle_ > 0.0


def test_without_weight_it_is_the_machine_without_angles() -> None:
    X, y = load_iris(return_X_y=True)
    apart = MarginSVC(loss="weston_watkins", penalty="cosine", omega=0.0, tol=1e-7).fit(X, y)
    assert apart.certificate_.status == "optimal"
    assert apart.objective_ == pytest.approx(WestonWatkinsSVC(tol=1e-7).fit(X, y).objective_, rel=1e-6)


def test_a_warm_start_is_of_one_loss() -> None:
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    warm = MarginSVC(penalty="angular", warm_start=True).fit(X, y)
    first = warm.n_iter_
    assert warm.fit(X, y).n_iter_ < first
    for changed in ({"loss": "weston_watkins"}, {"label_cost": ordered_costs([0, 1, 2])}, {"penalty": "l2"}):
        warm.set_params(**changed).fit(X, y)
        cold = MarginSVC(**{**warm.get_params(), "warm_start": False}).fit(X, y)
        assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-3)
        assert warm.certificate_.dual <= cold.objective_ * (1.0 + 1e-9)
    assert not hasattr(warm, "min_angle_")


def test_angles_take_costs_of_errors() -> None:
    X, y = load_iris(return_X_y=True)
    cost = ordered_costs([0, 1, 2], power=2)
    machine = AngularSVC(label_cost=cost).fit(scale(X), y)
    assert machine.certificate_.status == "stationary"
    same = MarginSVC(penalty="angular", label_cost=cost).fit(scale(X), y)
    assert machine.objective_ == pytest.approx(same.objective_, rel=1e-9)
    assert machine.objective(scale(X), y) == pytest.approx(machine.objective_, rel=1e-9)
