"""The native loops against their NumPy twins, in every storage and both builds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import twins
from loops import BUILDS, STORAGES, open_loop, problem_data, solved_row, stored

from polymargin import _core
from polymargin._core import _baseline, native

DOMAINS = ["simplex", "box"]


def twin_dual(domain: str, seed: int) -> float:
    X, y, cost = problem_data(seed)
    a = twins.dual_ascent(domain, X, y, cost, 4, epochs=60)
    return float(a.sum() - 0.5 * ((X.T @ twins.tau(a, y)) ** 2).sum())


def values_of(loop, X, y):
    """The duals as an array, and the weights they make."""
    a = twins.dense_duals(*loop.duals(), int(y.max()) + 1)
    W = X.T @ twins.tau(a, y)
    return a, W


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("build", BUILDS)
def test_a_row_is_solved_exactly(build, domain):
    rng = np.random.default_rng(0)
    for _ in range(1500):
        m = int(rng.integers(1, 9))
        cost, q = 10.0 ** rng.uniform(-3, 2, size=2)
        a = rng.random(m) * (rng.random(m) < 0.5)
        a *= cost / max(cost, a.sum()) * rng.random()
        g, g_target = rng.normal(size=m) * 10.0 ** rng.uniform(-1, 1), float(rng.normal())
        if rng.random() < 0.3:
            g[:] = g[0]  # ties
        expected = twins.solve_row(domain, g, a, g_target, q, cost)
        found = solved_row(build, domain, g, a, g_target, q, cost)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * cost)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_row_far_below_rounding_of_the_margin_is_solved(domain):
    g = np.array([3e-20, 1e-20, 0.0])
    found = solved_row(native, domain, g, np.zeros(3), -1.0, 1e-20, 1.0)
    assert found.sum() == pytest.approx(1.0 if domain == "simplex" else 3.0)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("seed", range(3))
def test_the_loop_reaches_the_optimum_of_its_twin(seed, domain):
    """One twin, which is slow, for all builds and storages."""
    X, y, cost = problem_data(seed)
    dual_twin = twin_dual(domain, seed)
    for build, storage, waiting in itertools.product(BUILDS, STORAGES, (False, True)):
        loop = open_loop(build, domain, X, y, cost, storage, waiting, seed)
        for _ in range(20):
            loop.ascend(400 * len(y), 1e-12)
            loop.restore()
        dual = loop.dual_sum - 0.5 * loop.squared_norm
        assert dual == pytest.approx(loop.dual, rel=1e-9), (build, storage)
        assert dual >= dual_twin - 1e-9 * abs(dual_twin), (build, storage)
        assert loop.loss(1) + 0.5 * loop.squared_norm - dual <= 1e-8 * abs(dual), (build, storage)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("domain", DOMAINS)
def test_duals_stay_feasible_and_make_the_weights(domain, storage):
    X, y, cost = problem_data(5, n=60, c=5)
    loop = open_loop(native, domain, X, y, cost, storage, waiting=True)
    last = -np.inf
    for _ in range(30):
        loop.ascend(len(y), 0.0)
        a, W = values_of(loop, X, y)
        gauge = a.sum(axis=1) if domain == "simplex" else a.max(axis=1)
        assert a.min() >= 0.0
        assert (gauge <= cost * (1 + 1e-12)).all()
        assert (a[np.arange(len(y)), y] == 0.0).all()
        np.testing.assert_allclose(loop.weights(), W, rtol=1e-9, atol=1e-12)
        assert loop.squared_norm == pytest.approx((W**2).sum(), rel=1e-10)
        dual = loop.dual_sum - 0.5 * loop.squared_norm
        assert dual >= last - 1e-12 * abs(dual)  # ascent
        last = dual


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("domain", DOMAINS)
def test_scores_with_an_intercept_are_those_of_the_centred_machine(domain, storage):
    X, y, cost = problem_data(7, n=50)
    loop = open_loop(native, domain, X, y, cost, storage)
    mean = X.mean(axis=0)
    loop.start_intercept(mean, 0.5)
    loop.move_centre(np.array([0.1, -0.2, 0.3, -0.2]))
    loop.ascend(5 * len(y), 0.0)
    a = twins.dense_duals(*loop.duals(), 4)
    T = twins.tau(a, y)
    W = (X - mean).T @ T
    b = np.array([0.1, -0.2, 0.3, -0.2]) + 0.5 * T.sum(axis=0) - mean @ W
    np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
    np.testing.assert_allclose(loop.intercepts(), b, atol=1e-9)
    np.testing.assert_allclose(loop.sums(), T.sum(axis=0), atol=1e-9)
    S = X @ W + b
    others = np.arange(4) != y[:, None]
    hinge = np.where(others, 1.0 - S[np.arange(50), y][:, None] + S, 0.0)
    hinge = np.maximum(hinge, 0.0)
    expected = cost @ (hinge.max(axis=1) if domain == "simplex" else hinge.sum(axis=1))
    assert loop.loss(1) == pytest.approx(expected, rel=1e-10)
    assert loop.squared_norm == pytest.approx((W**2).sum(), rel=1e-9)


@pytest.mark.parametrize("domain", DOMAINS)
def test_scaled_duals_are_seen_without_changing_the_iterate(domain):
    X, y, cost = problem_data(8)
    loop = open_loop(native, domain, X, y, cost)
    loop.ascend(3 * len(y), 0.0)
    a = twins.dense_duals(*loop.duals(), 4)
    flows = np.zeros((4, 4))
    np.add.at(flows, y, a)
    np.testing.assert_allclose(loop.flows(), flows, atol=1e-12)
    factors = np.random.default_rng(0).uniform(0.5, 2.0, size=(4, 4))
    scaled = a * factors[y]
    gauge = scaled.sum(axis=1) if domain == "simplex" else scaled.max(axis=1)
    room, total, squared_norm, squares = loop.scaled(factors)
    assert squares == 0.0
    assert room == pytest.approx(min(1.0, (cost / np.maximum(gauge, 1e-300)).min()))
    assert total == pytest.approx(scaled.sum())
    assert squared_norm == pytest.approx(((X.T @ twins.tau(scaled, y)) ** 2).sum())
    np.testing.assert_array_equal(twins.dense_duals(*loop.duals(), 4), a)


@pytest.mark.parametrize("domain", DOMAINS)
def test_duals_can_be_taken_out_and_put_back(domain):
    X, y, cost = problem_data(9)
    loop = open_loop(native, domain, X, y, cost)
    loop.ascend(50 * len(y), 1e-6)
    other = open_loop(native, domain, X, y, cost)
    other.set_duals(*loop.duals())
    np.testing.assert_allclose(other.weights(), loop.weights(), atol=1e-10)
    assert other.dual == pytest.approx(loop.dual, rel=1e-10)


@pytest.mark.parametrize("domain", DOMAINS)
def test_duals_that_are_put_in_replace_others(domain):
    X, y, cost = problem_data(9)
    loop, fresh = open_loop(native, domain, X, y, cost), open_loop(native, domain, X, y, cost)
    loop.ascend(3 * len(y), 0.0)
    early = loop.duals()
    loop.ascend(50 * len(y), 1e-6)
    loop.set_duals(*early)
    fresh.set_duals(*early)
    np.testing.assert_allclose(loop.weights(), fresh.weights(), atol=1e-12)
    assert loop.dual == pytest.approx(fresh.dual, rel=1e-12)
    loop.ascend(3 * len(y), 0.0)
    assert loop.dual > fresh.dual
    np.testing.assert_allclose(loop.weights(), values_of(loop, X, y)[1], atol=1e-9)


def test_many_classes_move_rows_through_the_arena():
    """More classes than a slot first holds: rows outgrow their slots and the arena is compacted."""
    rng = np.random.default_rng(3)
    n, c = 600, 150
    X, y = rng.normal(size=(n, 20)), rng.integers(0, c, size=n).astype(np.int32)
    y[:c] = np.arange(c)
    cost = np.full(n, 0.05)
    for domain in DOMAINS:
        loop = open_loop(native, domain, X, y, cost)
        for _ in range(10):
            loop.ascend(300 * n, 1e-7)
            loop.restore()
        _, W = values_of(loop, X, y)
        np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
        assert loop.loss(1) + 0.5 * loop.squared_norm - loop.dual <= 1e-5 * abs(loop.dual)
        assert loop.loss(2) == loop.loss(1)  # threads change no bit


def test_the_same_seed_gives_the_same_bits():
    X, y, cost = problem_data(11)
    first, second, other = (open_loop(native, "simplex", X, y, cost, seed=s) for s in (1, 1, 2))
    for loop in (first, second, other):
        loop.ascend(3 * len(y), 0.0)
    np.testing.assert_array_equal(first.weights(), second.weights())
    assert not np.array_equal(first.weights(), other.weights())


def test_the_baseline_build_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("POLYMARGIN_CPU", "baseline")
    assert _core._best_build() is _baseline


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("metric", ["identity", "class_scales"])
@pytest.mark.parametrize("build", BUILDS)
def test_norms_of_class_vectors_whose_columns_are_far_from_zero(build, metric, storage):
    """Differences of sums over raw vectors would be rounding alone, and may be negative."""
    X, y, cost = problem_data(0)
    X = (X + 1e6).astype(np.float32).astype(np.float64)
    loop = build.row_loop("box", metric, stored(build, X, storage), y, cost, 4, False, 0, [], None, 1, 1)
    loop.start_intercept(X.mean(axis=0), 0.2)
    loop.ascend(20 * len(y), 1e-9)
    norms = np.square(loop.weights()).sum(axis=0)
    np.testing.assert_allclose(loop.squared_norms(), norms, rtol=1e-9)
    np.testing.assert_allclose(loop.squared_norm, norms.sum(), rtol=1e-9)
