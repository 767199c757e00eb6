"""The native loop with a metric between the classes."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import twins
from loops import BUILDS, STORAGES, problem_data
from loops import open_loop as open_any_loop

from polymargin._core import native

open_loop = functools.partial(open_any_loop, metric="between_classes")


def metric(seed: int, c: int):
    """A Laplacian with random weights and its inverse on vectors of sum 0."""
    Q = np.random.default_rng(seed).uniform(0.2, 3.0, (c, c))
    Q = np.triu(Q, 1) + np.triu(Q, 1).T
    L = np.diag(Q.sum(axis=1)) - Q
    return L, np.ascontiguousarray(np.linalg.pinv(L))


def loss(S, y, cost):
    own = np.arange(len(y))
    x = 1.0 - (S[own, y][:, None] - S)
    x[own, y] = 0.0
    return float(cost @ np.maximum(x, 0.0).sum(axis=1))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("storage", STORAGES)
def test_primal_and_dual_meet(build, storage):
    X, y, cost = problem_data(3)
    L, P = metric(3, 4)
    loop = open_loop(build, "box", X, y, cost, storage, waiting=storage.startswith("csr"))
    loop.change_metric(P, 1.0)
    for _ in range(20):
        loop.ascend(50 * len(y), 1e-12)
        loop.restore()
    a = twins.dense_duals(*loop.duals(), 4)
    W = loop.weights()
    np.testing.assert_allclose(W, X.T @ twins.tau(a, y) @ P, atol=1e-9)
    half = 0.5 * float((W @ L * W).sum())
    assert loop.squared_norm == pytest.approx(2.0 * half)
    assert loop.dual == pytest.approx(a.sum() - half)
    assert (a >= 0.0).all() and (a <= cost[:, None] * (1.0 + 1e-15)).all()
    assert half + loss(X @ W, y, cost) == pytest.approx(a.sum() - half, rel=1e-8)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("storage", STORAGES[:3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("factor", [0.5, 4.0])
def test_a_new_metric_keeps_duals_and_vectors_together(build, storage, intercept, factor):
    X, y, cost = problem_data(4)
    loop = open_loop(build, "box", X, y, cost, storage)
    (_, P), (L2, P2) = metric(4, 4), metric(5, 4)
    loop.change_metric(P, 1.0)
    if intercept:
        loop.start_intercept(X.mean(axis=0), 0.7)
    loop.ascend(5 * len(y), 1e-12)
    before = twins.dense_duals(*loop.duals(), 4)
    loop.change_metric(P2, factor)
    after = twins.dense_duals(*loop.duals(), 4)
    room = (cost[:, None] / np.maximum(before, 1e-300)).min()  # duals stay in their bounds
    np.testing.assert_allclose(after, min(factor, max(room, 1.0)) * before)
    assert (after <= cost[:, None]).all()
    tau = twins.tau(after, y)
    Z = X - X.mean(axis=0) if intercept else X
    W = Z.T @ tau @ P2
    np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
    dual = after.sum() - 0.5 * float((W @ L2 * W).sum())
    if intercept:
        sums = tau.sum(axis=0)
        dual -= 0.5 * 0.7 * float(sums @ P2 @ sums)
        np.testing.assert_allclose(loop.sums(), sums @ P2, atol=1e-9)
    assert loop.dual == pytest.approx(dual)
    for _ in range(3):  # the dual value is kept step by step
        loop.ascend(5 * len(y), 1e-12)
        value = loop.dual
        loop.move_centre(loop.centre())
        assert loop.dual == pytest.approx(value)


@pytest.mark.parametrize("build", BUILDS)
def test_other_metrics_have_no_matrix(build):
    X, y, cost = problem_data(6)
    loop = open_any_loop(build, "simplex", X, y, cost)
    with pytest.raises(RuntimeError, match="no class metric"):
        loop.change_metric(metric(6, 4)[1], 1.0)
    loop = open_loop(build, "box", X, y, cost)
    with pytest.raises(ValueError, match="another shape"):
        loop.change_metric(metric(6, 3)[1], 1.0)


def test_what_is_not_a_number_is_no_hinge():
    """Scores that are NaN must not look like margins that are met."""
    y, cost = np.array([0, 1, 2], dtype=np.int32), np.ones(3)
    for at in ((0, 0), (0, 1), (2, 2)):
        S = np.zeros((3, 3))
        S[at] = np.nan
        assert np.isnan(native.hinge_value(S, y, cost, 1.0))
    assert native.hinge_value(np.zeros((3, 3)), y, cost, 1.0) == 6.0
