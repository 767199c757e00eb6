"""The native loop of the margin distribution machine: what it reaches is certified again in NumPy, from its duals alone."""

from __future__ import annotations

import numpy as np
import pytest
from loops import BUILDS, STORAGES, stored

THETA, MU = 0.2, 0.5


def problem_data(seed: int, n: int = 40, d: int = 6, c: int = 4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n).astype(np.int32)
    y[:c] = np.arange(c)
    X = (rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(c, d))[y]) * (rng.random((n, d)) < 0.8)
    # float32 values, so that all storages hold the same numbers
    return X.astype(np.float32).astype(np.float64), y, rng.uniform(0.2, 2.0, size=n)


def open_loop(build, X, y, cost, storage="dense64", frozen=False, waiting=False):
    return build.band_loop(stored(build, X, storage), y, cost, int(y.max()) + 1, THETA, MU, frozen, waiting, 0)


def signed_duals(loop, y):
    """(n, c + 1): a_il, less beta_i at its rival, or in the last column if that is a frozen score."""
    starts, classes, values = loop.duals()
    a = np.zeros((len(y), int(y.max()) + 2))
    a[np.repeat(np.arange(len(y)), np.diff(starts)), classes] = values
    return a


def rivals_of(X, y, W, b=0.0):
    S = X @ W + b
    S[np.arange(len(y)), y] = -np.inf
    return S.argmax(axis=1), S.max(axis=1)


def values(loop, X, y, cost, rivals=None, levels=None):
    """Primal and dual value of a convex step, and the machine, from the signed duals."""
    a, kappa, rows = signed_duals(loop, y), cost / (1 - THETA) ** 2, np.arange(len(y))
    beta, A = np.maximum(-a, 0.0).sum(axis=1), np.maximum(a, 0.0).sum(axis=1)
    tau = -a
    tau[rows, y] += a.sum(axis=1)
    W = X.T @ tau[:, :-1]
    dual = (1 - THETA) * A - (1 + THETA) * beta - (A**2 + beta**2 / MU) / (4 * kappa)
    if levels is not None:
        dual -= beta * levels
    S = X @ W
    own = S[rows, y].copy()
    against = 0.0 if levels is None else levels
    above = np.maximum(0.0, own - (against if rivals is None else S[rows, rivals]) - 1 - THETA)
    S[rows, y] = -np.inf
    below = np.maximum(0.0, 1 - THETA - own + S.max(axis=1))
    if rivals is None and levels is None:
        above[:] = 0.0
    half_norm = 0.5 * (W**2).sum()
    return half_norm + kappa @ (below**2 + MU * above**2), dual.sum() - half_norm, W


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
def test_both_steps_reach_their_optimum(build, storage):
    for seed in range(2):
        X, y, cost = problem_data(seed)
        loop = open_loop(build, X, y, cost, storage, waiting=storage.startswith("csr"))
        loop.ascend(10**6, 1e-9)
        primal, dual, W = values(loop, X, y, cost)
        assert primal - dual <= 1e-7 * primal
        np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
        stated, relaxed = loop.evaluate(1)
        assert relaxed + 0.5 * loop.squared_norm == pytest.approx(primal, rel=1e-9) and stated >= relaxed
        rivals, _ = rivals_of(X, y, W)
        loop.relinearise()
        loop.ascend(10**6, 1e-9)
        primal, dual, W = values(loop, X, y, cost, rivals)
        assert primal - dual <= 1e-7 * primal
        assert loop.dual == pytest.approx(dual, rel=1e-9)
        np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
        assert (signed_duals(loop, y) < 0.0).any()  # some rows have their margin above the band
        assert loop.evaluate(1) == loop.evaluate(3)


@pytest.mark.parametrize("storage", ["dense64", "csr64"])
@pytest.mark.parametrize("build", BUILDS)
def test_gentle_steps_leave_quiet_rows_alone_and_still_converge(build, storage):
    X, y, cost = problem_data(1, n=300)
    loop = open_loop(build, X, y, cost, storage, waiting=True)
    loop.ascend(10**4, 1e-1)
    for _ in range(60):
        loop.evaluate(1)
        rivals, _ = rivals_of(X, y, loop.weights())
        before = loop.visits
        loop.relinearise(True)
        assert loop.visits - before < len(y)  # only rows whose beta has lost its rival
        primal, dual, W = values(loop, X, y, cost, rivals)
        assert loop.dual == pytest.approx(dual, rel=1e-9)
        np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
        loop.ascend(10 * len(y), 1e-9)
    primal, dual, _ = values(loop, X, y, cost, rivals)
    assert primal - dual <= 1e-4 * primal


@pytest.mark.parametrize("build", BUILDS)
def test_the_papers_step_reaches_its_optimum(build):
    X, y, cost = problem_data(3)
    loop = open_loop(build, X, y, cost, frozen=True)
    loop.ascend(10**6, 1e-4)
    loop.evaluate(1)
    _, levels = rivals_of(X, y, loop.weights())
    loop.relinearise()
    loop.ascend(10**6, 1e-9)
    primal, dual, _ = values(loop, X, y, cost, levels=levels)
    assert primal - dual <= 1e-7 * primal and (signed_duals(loop, y)[:, -1] < 0.0).any()


@pytest.mark.parametrize("build", BUILDS)
def test_duals_of_one_loop_start_another(build):
    X, y, cost = problem_data(4)
    first = open_loop(build, X, y, cost)
    first.ascend(10**6, 1e-4)
    first.evaluate(1)
    first.relinearise()
    first.ascend(500, 1e-9)
    second = open_loop(build, X, y, cost, "csr64")
    second.set_duals(*first.duals())
    np.testing.assert_allclose(second.weights(), first.weights(), atol=1e-12)
    assert second.dual == pytest.approx(first.dual, rel=1e-12)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("build", BUILDS)
def test_newton_passes_have_the_slope_and_curvature_they_say(build, frozen):
    X, y, cost = problem_data(5)
    rng = np.random.default_rng(0)
    loop = open_loop(build, X, y, cost, frozen=frozen)
    loop.ascend(200, 1e-9)
    loop.evaluate(1)
    loop.relinearise()
    loop.ascend(200, 1e-9)
    (d, c), t = loop.weights().shape, 1e-6
    W, b = loop.weights() + 0.01 * rng.normal(size=(d, c)), 0.01 * rng.normal(size=c)
    D, e = rng.normal(size=(d, c)), rng.normal(size=c)

    def at(step):
        smooth, _, _, _, pull, sums = loop.newton_pass(W + step * D, b + step * e, 0.5)
        return smooth, pull, sums

    up, down, (_, pull, sums) = at(t), at(-t), at(0.0)
    assert (up[0] - down[0]) / (2 * t) == pytest.approx(-np.vdot(pull, D) - sums @ e, rel=1e-4)
    product, product_sums = loop.newton_product(D, e)
    np.testing.assert_allclose(product, (down[1] - up[1]) / (2 * t), atol=1e-3 * abs(product).max())
    np.testing.assert_allclose(product_sums, (down[2] - up[2]) / (2 * t), atol=1e-3 * abs(product_sums).max())
    H = loop.newton_matrix()
    H = np.tril(H) + np.tril(H, -1).T  # blocks of classes k >= l; those on the diagonal are symmetric
    whole = np.column_stack([D.T, e]).ravel()
    np.testing.assert_allclose((H @ whole).reshape(c, d + 1)[:, :d].T, product, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(loop.newton_curvature(), H.diagonal().reshape(c, d + 1)[:, d], rtol=1e-10)
    loop.accept_newton()
    np.testing.assert_allclose(loop.weights(), pull, atol=1e-9)


@pytest.mark.parametrize("storage", ["dense64", "csr64"])
@pytest.mark.parametrize("build", BUILDS)
def test_with_an_intercept_sums_and_flows_belong_to_the_duals(build, storage):
    X, y, cost = problem_data(6)
    loop = open_loop(build, X, y, cost, storage)
    loop.start_intercept(X.mean(axis=0), 0.5)
    loop.ascend(10**5, 1e-8)
    loop.evaluate(1)
    loop.relinearise()
    loop.move_centre(np.array([0.1, -0.2, 0.3, -0.2]))
    loop.ascend(10**5, 1e-8)
    a = signed_duals(loop, y)[:, :-1]
    tau = -a
    tau[np.arange(len(y)), y] += a.sum(axis=1)
    np.testing.assert_allclose(loop.sums(), tau.sum(axis=0), atol=1e-10)
    flows = np.zeros((4, 4))
    np.add.at(flows, y, np.maximum(a, 0.0))
    np.add.at(flows.T, y, np.maximum(-a, 0.0))
    np.testing.assert_allclose(loop.flows(), flows, atol=1e-10)
    linear, quadratic = loop.scaled(np.ones((4, 4)))
    centred = (X - X.mean(axis=0)).T @ tau
    kappa, A, beta = cost / (1 - THETA) ** 2, np.maximum(a, 0).sum(axis=1), np.maximum(-a, 0).sum(axis=1)
    assert linear == pytest.approx(((1 - THETA) * A - (1 + THETA) * beta).sum(), rel=1e-10)
    assert quadratic == pytest.approx(((A**2 + beta**2 / MU) / (4 * kappa)).sum() + 0.5 * (centred**2).sum(), rel=1e-8)


@pytest.mark.parametrize("build", BUILDS)
def test_many_classes_outgrow_their_first_place(build):
    X, y, cost = problem_data(7, n=260, d=12, c=80)
    loop = open_loop(build, X, y, cost, waiting=True)
    loop.ascend(10**6, 1e-6)
    loop.evaluate(2)
    rivals, _ = rivals_of(X, y, loop.weights())
    loop.relinearise()
    loop.restore()
    loop.ascend(10**6, 1e-6)
    primal, dual, _ = values(loop, X, y, cost, rivals)
    assert primal - dual <= 1e-4 * primal
