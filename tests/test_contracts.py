"""What every loss and penalty promises; new ones are found by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from polymargin.losses import LOSSES
from polymargin.penalties import PENALTIES
from polymargin.problem import Problem
from polymargin.solvers.flows import balancing_factors

each_loss = pytest.mark.parametrize("name", sorted(LOSSES))
each_penalty = pytest.mark.parametrize("name", sorted(PENALTIES))


def scores(seed=0, n=200, c=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, c)) * 2.0, rng.integers(0, c, size=n)


@each_loss
def test_the_gradient_of_a_loss_supports_it(name):
    loss = LOSSES[name]()
    S, y = scores(0)
    R, _ = scores(1)
    G = loss.gradient(S, y)
    assert (loss.value(R, y) >= loss.value(S, y) + (G * (R - S)).sum(axis=1) - 1e-9).all()


@each_loss
def test_the_gradient_of_a_loss_is_its_slope(name):
    loss = LOSSES[name]()
    S, y = scores(2)
    D, _ = scores(3)
    t = 1e-7
    slope = (loss.value(S + t * D, y) - loss.value(S - t * D, y)) / (2 * t)
    close = np.abs(slope - (loss.gradient(S, y) * D).sum(axis=1)) < 1e-5
    assert close.mean() > 0.99  # kinks have measure zero, but a row may straddle one


@each_loss
def test_loss_and_conjugate_obey_fenchel(name):
    loss = LOSSES[name]()
    S, y = scores(4)
    T = loss.gradient(S, y)
    np.testing.assert_allclose(loss.value(S, y) + loss.conjugate(T, y), (S * T).sum(axis=1), atol=1e-9)
    R, _ = scores(5)
    assert (loss.value(R, y) + loss.conjugate(T, y) >= (R * T).sum(axis=1) - 1e-9).all()


@each_loss
def test_the_conjugate_is_infinite_outside_its_domain(name):
    loss = LOSSES[name]()
    S, y = scores(6)
    assert np.isinf(loss.conjugate(np.ones_like(S), y)).all()


@each_loss
def test_a_constant_added_to_all_scores_changes_no_loss(name):
    loss = LOSSES[name]()
    S, y = scores(7)
    np.testing.assert_allclose(loss.value(S + 3.7, y), loss.value(S, y), atol=1e-12)


@each_penalty
def test_penalty_gradient_conjugate_and_minimizer_belong_together(name):
    penalty = PENALTIES[name]()
    rng = np.random.default_rng(0)
    W, V = rng.normal(size=(2, 6, 4))
    t = 1e-6
    slope = (penalty.value(W + t * V) - penalty.value(W - t * V)) / (2 * t)
    assert slope == pytest.approx((penalty.gradient(W) * V).sum(), rel=1e-6)
    Z = penalty.gradient(W)
    assert penalty.value(W) + penalty.conjugate(Z) == pytest.approx((Z * W).sum())
    np.testing.assert_allclose(penalty.minimizer(Z), W, atol=1e-9)
    assert penalty.value(V) + penalty.conjugate(Z) >= (Z * V).sum() - 1e-12


@each_loss
def test_weak_duality_of_the_problem(name):
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 3, size=30).astype(np.int32)
    cost = rng.uniform(0.5, 2.0, size=30)
    problem = Problem(X, y, cost, 3, LOSSES[name](), PENALTIES["squared_norm"](), fit_intercept=False)
    W = rng.normal(size=(4, 3))
    T = cost[:, None] * problem.loss.gradient(X @ W, y)
    dual = problem.dual(T)
    assert np.isfinite(dual)
    for _ in range(20):
        assert dual <= problem.primal(rng.normal(size=(4, 3)), np.zeros(3)) + 1e-9
    free = Problem(X, y, cost, 3, LOSSES[name](), PENALTIES["squared_norm"](), fit_intercept=True)
    assert free.dual(T) == -np.inf  # its columns do not add up to zero


def test_balancing_makes_a_circulation_of_the_flows():
    rng = np.random.default_rng(9)
    for c in (2, 3, 8, 70):
        flows = rng.random((c, c)) * (rng.random((c, c)) < 0.6)
        np.fill_diagonal(flows, 0.0)
        balanced = flows * balancing_factors(flows)
        assert (balanced >= 0.0).all()
        np.testing.assert_allclose(balanced.sum(axis=1), balanced.sum(axis=0), atol=1e-12 * max(1.0, flows.sum()))


def test_balancing_drops_what_cannot_flow_back():
    flows = np.array([[0.0, 1.0, 1.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # class 2 gives nothing back
    balanced = flows * balancing_factors(flows)
    np.testing.assert_allclose(balanced[:, 2], 0.0)
    assert balanced[0, 1] == pytest.approx(balanced[1, 0])
    assert balanced[0, 1] > 0.0
    np.testing.assert_array_equal(balancing_factors(np.zeros((3, 3))), np.zeros((3, 3)))
