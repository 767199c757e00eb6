"""The top-k simplex in the native loops: against a quadratic program, a NumPy twin, and its own definition."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
import twins
from loops import BUILDS, STORAGES, open_loop, problem_data, solved_row
from sklearn.metrics.pairwise import rbf_kernel

from polymargin._core import native


def random_row(rng, m: int):
    """Scores, duals that are not in the domain but finite, own score, curvature and cost."""
    cost, q = 10.0 ** rng.uniform(-3, 2, size=2)
    g, g_target = rng.normal(size=m) * 10.0 ** rng.uniform(-1, 1), float(rng.normal())
    if rng.random() < 0.3:
        g[:] = g[0]  # ties
    return g, cost * rng.random(m) * (rng.random(m) < 0.5), g_target, q, cost


def assert_feasible(a, cost, k):
    total = a.sum(axis=-1)
    assert (a >= 0.0).all() and (total <= cost * (1 + 1e-12)).all()
    assert (a.max(axis=-1) <= cost / k * (1 + 1e-12)).all()
    assert ((k - 1) * a.max(axis=-1) <= total * (1 + 1e-12)).all()


@pytest.mark.parametrize("build", BUILDS)
def test_a_row_is_solved_exactly(build):
    rng = np.random.default_rng(0)
    for _ in range(400):
        m = int(rng.integers(1, 9))
        k = int(rng.integers(1, m + 2))
        g, a, g_target, q, cost = random_row(rng, m)
        expected = twins.solve_row("top_k", g, a, g_target, q, cost, (k,))
        found = solved_row(build, "top_k", g, a, g_target, q, cost, (k,))
        assert_feasible(found, cost, k)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * cost)


@pytest.mark.parametrize("build", BUILDS)
def test_rows_that_are_very_short_or_long_keep_their_domain(build):
    """Prices are then far above the duals, and rounding must not put more classes to their caps than the cost allows."""
    rng = np.random.default_rng(3)
    for _ in range(2000):
        m = int(rng.integers(1, 9))
        k = int(rng.integers(1, m + 2))
        g, a, g_target, _, cost = random_row(rng, m)
        q, shrink = 10.0 ** rng.uniform(-30, 20), 10.0 ** rng.uniform(-20, 0)
        a = solved_row(build, "top_k", g, np.zeros(m), g_target, 1.0, cost, (k,))
        found = solved_row(build, "top_k", shrink * g, a, shrink * g_target - 1.0, q, cost, (k,))
        assert_feasible(found, cost, k)


def test_rows_that_are_very_short_take_the_highest_classes():
    g = np.array([1.0, 3.0, 2.0, 0.0]) * 1e-16
    found = solved_row(native, "top_k", g, np.zeros(4), -1.0, 1e-17, 2.0, (2,))
    np.testing.assert_array_equal(found, [0.0, 1.0, 1.0, 0.0])


def test_a_row_is_the_solution_of_the_quadratic_program_over_all_classes():
    """The own class has an entry of its own there: what fills the sum."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        m = int(rng.integers(2, 8))
        k = int(rng.integers(1, m + 2))
        g, a, g_target, _, _ = random_row(rng, m)
        q, cost = 10.0 ** rng.uniform(-1, 1, size=2)
        slope = (g + q * a) - (g_target - q * a.sum())
        x = cp.Variable(m + 1)
        rivals = x[:m]
        gain = slope @ rivals - 0.5 * q * (cp.sum_squares(rivals) + cp.square(cp.sum(rivals)))
        cp.Problem(cp.Maximize(gain), [x >= 0, cp.sum(x) <= cost, x <= cp.sum(x) / k]).solve(solver=cp.CLARABEL)
        found = solved_row(native, "top_k", g, a, g_target, q, cost, (k,))
        np.testing.assert_allclose(found, x.value[:m], atol=1e-5 * cost)
        value = slope @ found - 0.5 * q * (found @ found + found.sum() ** 2)
        assert value >= gain.value - 1e-7 * max(1.0, abs(gain.value))


@pytest.mark.parametrize("build", BUILDS)
def test_k_of_1_is_the_simplex(build):
    rng = np.random.default_rng(2)
    for _ in range(300):
        g, a, g_target, q, cost = random_row(rng, int(rng.integers(1, 9)))
        expected = solved_row(build, "simplex", g, a, g_target, q, cost)
        found = solved_row(build, "top_k", g, a, g_target, q, cost, (1,))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * cost)


@pytest.mark.parametrize("scores", [[3e-20, 1e-20, 0.0], [-0.2, -0.3, -5.0], [-0.1, -0.9, -5.0], [-3.0, -3.0, -3.0]])
def test_a_row_without_features_sits_at_the_caps_of_its_highest_classes(scores):
    g = np.array(scores)
    for k in (1, 2, 3, 4):
        found = solved_row(native, "top_k", g, np.zeros(3), -1.0, 0.0, 2.0, (k,))
        assert_feasible(found, 2.0, k)
        loss = twins.top_k_loss(np.concatenate([[0.0], g])[None], np.array([0]), k)[0]
        assert found @ (1.0 + g) == pytest.approx(2.0 * loss, abs=1e-12)


def twin_dual(k: int) -> float:
    X, y, cost = problem_data(0)
    a = twins.dual_ascent("top_k", X, y, cost, 4, epochs=15, parameters=(k,))
    return float(a.sum() - 0.5 * ((X.T @ twins.tau(a, y)) ** 2).sum())


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_loop_reaches_the_optimum_of_its_twin(k):
    """One twin, which is slow, for all builds and storages."""
    X, y, cost = problem_data(0)
    dual_twin = twin_dual(k)
    for build, storage, waiting in itertools.product(BUILDS, STORAGES, (False, True)):
        loop = open_loop(build, "top_k", X, y, cost, storage, waiting, parameters=(k,))
        for _ in range(20):
            loop.ascend(200 * len(y), 1e-12)
            loop.restore()
        a = twins.dense_duals(*loop.duals(), 4)
        assert_feasible(a, cost, k)
        W = X.T @ twins.tau(a, y)
        np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
        dual = a.sum() - 0.5 * (W**2).sum()
        assert loop.dual == pytest.approx(dual, rel=1e-9), (build, storage)
        assert dual >= dual_twin - 1e-9 * abs(dual), (build, storage)
        loss = cost @ twins.top_k_loss(X @ W, y, k)
        assert loop.loss(1) == pytest.approx(loss, rel=1e-9), (build, storage)
        assert loss + 0.5 * (W**2).sum() - dual <= 1e-7 * dual, (build, storage)


def test_the_proximal_problem_of_the_intercept_is_solved():
    X, y, cost = problem_data(7, n=50)
    mean, centre = X.mean(axis=0), np.array([0.1, -0.2, 0.3, -0.2])
    loop = open_loop(native, "top_k", X, y, cost, parameters=(2,))
    loop.start_intercept(mean, 0.5)
    loop.move_centre(centre)
    for _ in range(10):
        loop.ascend(300 * len(y), 1e-11)
        loop.restore()
    a = twins.dense_duals(*loop.duals(), 4)
    T = twins.tau(a, y)
    W, sums = (X - mean).T @ T, T.sum(axis=0)
    b = centre + 0.5 * sums - mean @ W
    proximal = 0.5 * (W**2).sum() + 0.25 * sums @ sums
    dual = a.sum() - proximal - centre @ sums
    assert loop.dual == pytest.approx(dual, rel=1e-9)
    assert proximal + cost @ twins.top_k_loss(X @ W + b, y, 2) - dual <= 1e-7 * abs(dual)


@pytest.mark.parametrize("k", [2, 10, 45])
def test_many_classes_move_few_at_a_time(k):
    X, y, cost = problem_data(3, n=300, d=20, c=100)
    loop = open_loop(native, "top_k", X, y, cost, parameters=(k,))
    for _ in range(10):
        loop.ascend(300 * len(y), 1e-8)
        loop.restore()
    half = 0.5 * loop.squared_norm
    assert 0.0 <= half + loop.loss(2) - (loop.dual_sum - half) <= 1e-4 * loop.dual_sum


def test_scaled_duals_outside_of_the_cone_have_no_room():
    X, y, cost = problem_data(8)
    loop = open_loop(native, "top_k", X, y, cost, parameters=(3,))
    loop.ascend(20 * len(y), 0.0)
    assert loop.scaled(np.ones((4, 4)))[0] == pytest.approx(1.0)
    assert loop.scaled(np.full((4, 4), 2.0))[0] == pytest.approx(0.5)
    factors = np.ones((4, 4))
    factors[:, 0] = 1e-3
    assert loop.scaled(factors)[0] == 0.0
    assert native.kernel_room("top_k", np.array([[0.0, 1.0, 1.0]]), np.array([1.0]), (2,)) == pytest.approx(0.5)


def test_the_kernel_loop_reaches_the_optimum_of_its_twin():
    rng = np.random.default_rng(4)
    n, c, k = 30, 4, 2
    y, cost = rng.integers(0, c, size=n).astype(np.int32), rng.uniform(0.1, 3.0, size=n)
    K = rbf_kernel(rng.normal(size=(n, 2)), gamma=0.7).astype(np.float32)
    twin = twins.kernel_ascent("top_k", K.astype(np.float64), y, cost, c, epochs=60, parameters=(k,))

    def dual_value(a):
        T = twins.tau(a, y)
        return a.sum() - 0.5 * np.einsum("ik,ij,jk->", T, K.astype(np.float64), T)

    for build in BUILDS:
        S, a, b, sums, gaps = np.zeros((c, n)), np.zeros((n, c)), np.zeros(c), np.zeros(c), np.zeros(n)
        _, gap = build.kernel_ascend("top_k", K, S, a, y, cost, b, sums, 0.0, 1e-9, 10**6, 0, (k,))
        assert gap <= 1e-4 * dual_value(twin)
        assert dual_value(a) == pytest.approx(dual_value(twin), rel=1e-4)
        assert_feasible(a, cost, k)
        loss = build.kernel_gaps("top_k", S, a, y, cost, b, gaps, (k,))
        losses = cost * twins.top_k_loss(S.T, y, k)
        assert loss == pytest.approx(losses.sum())
        np.testing.assert_allclose(gaps, losses + (twins.tau(a, y) * S.T).sum(axis=1) - a.sum(axis=1), atol=1e-9)


def test_parameters_are_checked():
    X, y, cost = problem_data(9)
    for parameters in ((), (0,), (1.5,), (5,), (2, 3), (np.nan,)):
        with pytest.raises(ValueError, match="whole number k"):
            open_loop(native, "top_k", X, y, cost, parameters=parameters)
    for domain in ("simplex", "box"):
        with pytest.raises(ValueError, match="no parameters"):
            open_loop(native, domain, X, y, cost, parameters=(2,))
