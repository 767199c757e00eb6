"""Factors that balance duals, and the multiples of duals that a fit starts from."""

import numpy as np
import pytest
from scipy import sparse

from polymargin.losses import LOSSES, TopKHinge
from polymargin.penalties import SquaredNorm
from polymargin.problems.classes import Problem
from polymargin.problems.duals import SparseDuals, sparse_duals
from polymargin.solvers import bounds
from polymargin.solvers.bounds import (
    balancing_factors,
    best_of_two_multiples,
    flows_of,
    reduced_to_balance,
    reducing_factors,
    rows_reduced_to_balance,
    stretching_factors,
)
from polymargin.solvers.rows import centre_and_coupling, centre_and_spread


@pytest.mark.parametrize("sums_to_zero", [True, False])
@pytest.mark.parametrize("own", [0.0, 1.0])
def test_reduced_flows_are_balanced(sums_to_zero: bool, own: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        flows = rng.exponential(size=(5, 5)) * (rng.random((5, 5)) < 0.7)
        flows[np.diag_indices(5)] *= own
        factors = reducing_factors(flows, sums_to_zero=sums_to_zero)
        assert ((factors >= 0.0) & (factors <= 1.0)).all()
        kept = flows * factors
        balance = 2.0 * np.diag(kept) - kept.sum(axis=0)
        assert np.ptp(balance) <= 1e-14 * flows.sum()
        if not sums_to_zero:
            assert np.abs(balance).max() <= 1e-14 * flows.sum()


def test_balanced_flows_stay_as_they_are() -> None:
    flows = np.full((3, 3), 0.5) + 0.5 * np.eye(3)  # 1 up, 1 down
    for way in (reducing_factors, stretching_factors):
        np.testing.assert_allclose(way(flows, sums_to_zero=False), 1.0)


@pytest.mark.parametrize("sums_to_zero", [True, False])
@pytest.mark.parametrize("own", [0.0, 0.3, 1.0, 20.0])
def test_stretched_flows_are_balanced_at_the_mean(sums_to_zero: bool, own: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        flows = rng.uniform(0.5, 1.0, size=(5, 5))
        flows[np.diag_indices(5)] *= own
        kept = flows * stretching_factors(flows, sums_to_zero=sums_to_zero)
        balance = 2.0 * np.diag(kept) - kept.sum(axis=0)
        assert np.ptp(balance) <= 1e-14 * flows.sum()
        if sums_to_zero and own == 0.0:
            assert kept.sum() == pytest.approx(flows.sum())  # where reducing loses all above the least
        if not sums_to_zero:
            assert np.abs(balance).max() <= 1e-14 * flows.sum()


def test_flows_that_cannot_be_stretched_prove_nothing() -> None:
    flows = np.ones((3, 3)) - np.diag([0.0, 1.0, 1.0])  # two classes have no duals of their own
    flows[1:, 1:] = 0.0
    assert not stretching_factors(flows * 10.0 * np.eye(3), sums_to_zero=True).any()


def flows_of_many(c: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    flows = rng.exponential(size=(c, c)) * (rng.random((c, c)) < max(0.1, 8.0 / c))
    np.fill_diagonal(flows, 0.0)
    flows[np.arange(c), (np.arange(c) + 1) % c] += 0.1  # a ring: one component
    return flows


@pytest.mark.parametrize("c", [3, 26, 300])
def test_relative_flows_are_balanced_by_reducing_them(c: int) -> None:
    for seed in range(4):
        flows = flows_of_many(c, seed)
        factors = reduced_to_balance(flows)
        kept = flows * factors
        assert np.abs(kept.sum(axis=1) - kept.sum(axis=0)).max() <= 1e-12 * kept.sum()
        assert factors.min() >= 0.0
        assert factors.max() <= 1.0 + 0.02 * (balancing_factors(flows).max() - 1.0)
        assert kept.sum() > 0.3 * flows.sum()


def test_nearly_balanced_flows_lose_little_by_reducing() -> None:
    flows = flows_of_many(40, 0)
    flows = flows + flows.T
    flows[3, 7] += 1.0
    kept = flows * reduced_to_balance(flows)
    assert flows.sum() - kept.sum() <= 4.0  # of 627


def test_conjugate_gradients_balance_like_a_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = flows_of_many(60, 1)
    factorised = balancing_factors(flows)
    monkeypatch.setattr(bounds, "_FEW_CLASSES", 10)
    np.testing.assert_allclose(balancing_factors(flows), factorised, rtol=1e-9)


def plain_problem(loss: str, cost: float, *, fit_intercept: bool) -> tuple[Problem, SparseDuals]:
    """With duals of which some rows are at their bounds."""
    rng = np.random.default_rng(2)
    n, c = 60, 4
    y = rng.integers(c, size=n).astype(np.int32)
    X = 0.3 * rng.normal(size=(n, 5)) + np.eye(c, 5)[y]
    problem = Problem(X, y, np.full(n, cost), c, LOSSES[loss](), SquaredNorm(), fit_intercept)
    A = problem.row_domains.project(cost * rng.normal(0.3, 0.6, size=(n, c))).A
    A[np.arange(n), y] = 0.0
    return problem, sparse_duals(A)


def plain_dual(problem: Problem, duals: SparseDuals) -> float:
    tau = problem.sparse_signed_duals(duals).toarray()
    X = problem.X - problem.X.mean(axis=0) if problem.fit_intercept else problem.X
    return float(duals.values.sum() - 0.5 * np.square(X.T @ tau).sum())


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", ["crammer_singer", "weston_watkins"])
def test_two_multiples_are_feasible_and_better_than_one(loss: str, cost: float, fit_intercept: bool) -> None:
    problem, duals = plain_problem(loss, cost, fit_intercept=fit_intercept)
    found = best_of_two_multiples(problem, duals)
    assert problem.row_domains.room(found.dense(4)) >= 1.0 - 1e-14
    one = max(plain_dual(problem, duals._replace(values=t * duals.values)) for t in np.linspace(0.0, 1.0, 101))
    assert plain_dual(problem, found) >= one - 1e-12 * abs(one)
    if cost == 100.0:
        assert plain_dual(problem, found) > one + 1e-3 * abs(one)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("k", [1, 3, 4])
def test_rows_are_reduced_to_balance_inside_of_a_cone(k: int, squared: bool) -> None:
    """By a factor of at most 1 each; rows at their bounds are left alone where the others are enough."""
    rng = np.random.default_rng(k)
    n, c, loss = 400, 5, TopKHinge(k, squared=squared)
    y = rng.integers(c, size=n).astype(np.int32)
    problem = Problem(rng.normal(size=(n, 4)), y, rng.uniform(0.5, 1.0, n), c, loss, SquaredNorm(), True)
    A = problem.row_domains.project(np.where(np.arange(c) == y[:, None], 0.0, rng.normal(0.1, 0.15, size=(n, c)))).A
    duals = sparse_duals(A)
    reduced = rows_reduced_to_balance(problem, duals)
    assert reduced is not None
    flows = flows_of(reduced.dense(c), y)
    assert np.abs(flows.sum(axis=1) - flows.sum(axis=0)).max() <= 1e-12 * flows.sum()
    factors = reduced.values / duals.values
    assert factors.max() <= 1.0 + 1e-15 and factors.min() >= 0.5
    assert problem.row_domains.room(reduced.dense(c)) >= 1.0 - 1e-12
    held = (problem.row_domains.domain.gauge(A, y) >= problem.cost * (1.0 - 1e-9))[duals.rows]
    assert held.any()
    assert squared or (factors[held] == 1.0).all()


def test_classes_without_a_way_back_are_not_balanced_by_rows() -> None:
    """Class 0 gives to 1 and nobody gives to 0: no factors above 0 balance that."""
    y = np.array([0, 1, 2], dtype=np.int32)
    problem = Problem(np.eye(3), y, np.ones(3), 3, TopKHinge(1), SquaredNorm(), True)
    duals = sparse_duals(np.array([[0.0, 0.5, 0.0], [0.0, 0.0, 0.5], [0.0, 0.5, 0.0]]))
    assert rows_reduced_to_balance(problem, duals) is None


def test_rows_that_hardly_meet_are_coupled_less() -> None:
    """As much as their inner products say, dense or sparse; few columns, where rows meet, by their squares."""
    rng = np.random.default_rng(0)
    wide, narrow = rng.normal(size=(300, 3000)), rng.normal(size=(300, 5))
    for X, least, most in ((wide, 0.1, 0.4), (narrow, 1.0, 1.0)):
        (means, square), (same, coupling) = centre_and_spread(X), centre_and_coupling(X)
        np.testing.assert_array_equal(means, same)
        assert least - 1e-12 <= coupling / square <= most + 1e-12
        assert centre_and_coupling(sparse.csr_matrix(X))[1] == pytest.approx(coupling)
    assert centre_and_coupling(np.ones((1, 3)))[1] == 0.0


@pytest.mark.parametrize("ratio", [1.0, 1e-9, 1e-30, 1e30])
def test_the_best_multiples_of_parts_of_any_size(ratio: float) -> None:
    rng, scale = np.random.default_rng(6), np.array([1.0, ratio])
    corners = [(s, t) for s in np.linspace(0.0, 1.0, 41) for t in np.linspace(0.0, 1.0, 41)]
    for _ in range(50):
        A = rng.normal(size=(2, int(rng.integers(1, 3))))  # of rank 1 too
        H, linear = (A @ A.T) * np.outer(scale, scale), rng.normal(size=2) * scale

        def value(x: tuple[float, float], H=H, linear=linear) -> float:
            return float(linear @ x - 0.5 * np.dot(x, H @ x))

        found = bounds._largest_in_square(linear, H)
        assert min(found) >= 0.0 and max(found) <= 1.0
        size = np.abs(linear).sum() + np.abs(H).sum()
        assert value(found) >= max(map(value, corners)) - 1e-12 * size
