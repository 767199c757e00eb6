"""Proximal dual ascent: class vectors read through a threshold, of entries or of features."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import all_losses, called
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_digits

from polymargin import MarginSVC, regularization_path
from polymargin.penalties import ElasticNet, GroupNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.loops import native_loop, open_loop
from polymargin.solvers.ascent.row_ascent import dual_ascent
from polymargin.solvers.newton.general import general_newton
from polymargin.solvers.types import SparseDuals

LOSSES = [  # costs are targets like any other (tests/machines/test_family.py has them)
    loss
    for _, loss in all_losses()
    if loss.row_problem and loss.unit_targets and not loss.sums_to_zero and loss.domain.has_plain_faces
]
PENALTIES = [ElasticNet(0.4), GroupNorm(0.8)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=called)
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: penalty.name)
both_offsets = pytest.mark.parametrize("fit_intercept", [False, True])


@functools.cache
def problem_of(loss: Any, penalty: Any, fit_intercept: bool) -> Problem:
    """Columns away from zero, values that float32 holds, a row and a column of zeros."""
    rng = np.random.default_rng(5)
    n, d, c = 50, 7, 5
    y = np.r_[np.arange(c), rng.integers(0, c, n - c)].astype(np.int32)
    X = 1.5 * np.eye(c, d)[y] + rng.standard_normal((n, d)) + 0.7
    X *= rng.random((n, d)) < 0.8
    X[7], X[:, 6] = 0.0, 0.0
    return Problem(X.astype(np.float32).astype(float), y, rng.uniform(0.2, 2.0, n), c, loss, penalty, fit_intercept)


@functools.cache
def optimum(loss: Any, penalty: Any, fit_intercept: bool) -> float:
    return general_newton(problem_of(loss, penalty, fit_intercept), Ledger(1e-8), 3000, None).certificate.primal


def climb(problem: Problem, tol: float, max_iter: int = 20_000) -> Any:
    return dual_ascent(problem, Ledger(tol, rounding=problem.rounding_at), max_iter=max_iter, seed=0)


@both_offsets
@each_penalty
@each_loss
def test_it_ends_at_the_optimum_of_newtons_method(loss: Any, penalty: Any, fit_intercept: bool) -> None:
    problem, best = problem_of(loss, penalty, fit_intercept), optimum(loss, penalty, fit_intercept)
    for stored in (problem.X.astype(np.float32), sparse.csr_array(problem.X)) if fit_intercept else (problem.X,):
        found = climb(replace(problem, X=stored), 3e-4)
        assert found.certificate.status == "optimal"
        assert found.certificate.dual <= best * (1.0 + 1e-8)
        assert best * (1.0 - 1e-8) <= found.machine.primal <= best * (1.0 + 3e-4)
        assert problem.primal(found.machine.W, found.machine.b) == pytest.approx(found.machine.primal, rel=1e-9)
        T = loss.domain.margins.derivative(found.duals.dense(5), problem.y)
        assert problem.dual(T) >= found.certificate.dual * (1.0 - 1e-9)


@both_offsets
@each_penalty
@each_loss
def test_no_bound_on_the_way_is_above_the_optimum(loss: Any, penalty: Any, fit_intercept: bool) -> None:
    problem, best = problem_of(loss, penalty, fit_intercept), optimum(loss, penalty, fit_intercept)
    for epochs in (1, 5):
        end = climb(problem, 1e-9, epochs).certificate
        assert end.dual <= best * (1.0 + 1e-8)
        assert end.primal >= best * (1.0 - 1e-8)


@each_penalty
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_the_machine_of_a_loop_is_what_the_threshold_leaves(penalty: Any, store: Any) -> None:
    problem = problem_of(LOSSES[0], penalty, False)
    problem = replace(problem, X=store(problem.X))
    loop = open_loop(problem, seed=0)
    loop.ascend(3 * problem.n_rows, 0.0)
    Z = np.asarray(problem.X.T @ problem.sparse_signed_duals(SparseDuals(*loop.duals())).toarray())
    W = loop.weights()
    assert_allclose(W, penalty.minimizer(Z), atol=1e-12)
    assert (W == 0.0).any()
    assert loop.squared_norm == pytest.approx(2.0 * penalty.conjugate(Z), rel=1e-12)
    assert loop.dual == pytest.approx(loop.dual_sum - penalty.conjugate(Z), rel=1e-12)
    again = open_loop(problem, seed=0)
    again.set_duals(*loop.duals())
    assert_allclose(again.weights(), W, atol=1e-12)
    room, total, squared_norm, _ = loop.scaled(np.ones((5, 5)))
    assert (room, total, squared_norm) == pytest.approx((1.0, loop.dual_sum, loop.squared_norm), rel=1e-12)


def test_the_threshold_comes_first_and_alone() -> None:
    problem = problem_of(LOSSES[0], PENALTIES[0], False)
    loop = open_loop(problem, seed=0)
    for wrong in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="l1 must be finite"):
            loop.shrink(wrong, True)
    loop.ascend(problem.n_rows, 0.0)
    with pytest.raises(RuntimeError, match="shrink comes before"):
        loop.shrink(1.0, True)
    with pytest.raises(RuntimeError, match="another metric"):
        native_loop("simplex", "class_scales", problem.X, problem, 0).shrink(1.0, True)


@pytest.mark.parametrize("penalty", ["elastic_net", "group"])
def test_wide_sparse_rows_need_no_newton_step(penalty: str) -> None:
    """Too many unknowns for any system."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300)
    X = sparse.random(300, 4000, density=0.01, random_state=0, format="lil")
    X[np.arange(300), y] = 2.0
    machine = MarginSVC(loss="weston_watkins", penalty=penalty, l1=1.0, tol=1e-3).fit(X.tocsr(), y)
    assert machine.certificate_.status == "optimal"
    assert [stage.method for stage in machine.certificate_.stages] == ["proximal dual ascent"]
    assert 5 <= np.count_nonzero((machine.class_vectors_ != 0.0).any(axis=0)) < 400
    dense = machine.class_vectors_
    assert_allclose(machine.sparsify().class_vectors_.toarray(), dense)


def test_a_path_over_l1_starts_from_its_neighbours() -> None:
    X, y = load_digits(return_X_y=True)
    machine = MarginSVC(penalty="group", C=0.1, tol=1e-3, random_state=0)
    path = regularization_path(machine, X / 16.0, y, [3.0, 4.0, 5.0], param_name="l1")
    assert all(found.certificate_.status == "optimal" for found in path.machines)
    features = [np.count_nonzero((found.class_vectors_ != 0.0).any(axis=0)) for found in path.machines]
    assert features[0] > features[1] > features[2]
    alone = [machine.set_params(l1=l1).fit(X / 16.0, y).n_iter_ for l1 in path.values]
    assert path.n_iter.sum() < sum(alone)
    for l1, found in path:
        assert found.objective_ == pytest.approx(machine.set_params(l1=l1).fit(X / 16.0, y).objective_, rel=2e-3)
