"""The native loops with class scales: every storage and both builds, against their definition in NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import twins
from loops import BUILDS, STORAGES, problem_data
from loops import open_loop as open_any_loop

from polymargin._core import native

DOMAINS = ["simplex", "squared_simplex"]
open_loop = functools.partial(open_any_loop, metric="class_scales")


def scaled_data(seed: int, n: int = 40, d: int = 6, c: int = 4):
    """Data and class scales."""
    return *problem_data(seed, n, d, c), np.random.default_rng(seed).uniform(0.2, 2.0, size=c)


def gain_of(domain, a, cost):
    sums = a.sum(axis=1)
    return sums.sum() - (sums**2 / (4 * cost)).sum() * (domain == "squared_simplex")


def loss_of(domain, S, y, cost):
    rows = np.arange(len(y))
    slacks = 1.0 + S - S[rows, y][:, None]
    slacks[rows, y] = 0.0
    return cost @ slacks.max(axis=1) ** (2 if domain == "squared_simplex" else 1)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("build", BUILDS)
def test_the_loop_closes_the_gap_of_the_scaled_machine(build, domain, storage):
    X, y, cost, scales = scaled_data(0)
    loop = open_loop(build, domain, X, y, cost, storage, waiting=storage.startswith("csr"))
    loop.rescale(scales, np.zeros(4))
    loop.ascend(3000 * len(y), 1e-10)
    a = twins.dense_duals(*loop.duals(), 4)
    Z = X.T @ twins.tau(a, y)
    np.testing.assert_allclose(loop.weights(), Z * scales, atol=1e-9)
    np.testing.assert_allclose(loop.squared_norms(), (Z**2).sum(axis=0), atol=1e-9)
    assert loop.squared_norm == pytest.approx((Z**2).sum(axis=0) @ scales)
    assert loop.dual_sum == pytest.approx(gain_of(domain, a, cost))
    half = 0.5 * (Z**2).sum(axis=0) @ scales
    dual, primal = gain_of(domain, a, cost) - half, half + loss_of(domain, X @ (Z * scales), y, cost)
    assert loop.dual == pytest.approx(dual, rel=1e-9)
    assert loop.loss(1) == pytest.approx(loss_of(domain, X @ (Z * scales), y, cost), rel=1e-9)
    assert -1e-9 * primal <= primal - dual <= 1e-7 * primal
    if domain == "simplex":
        assert (a.sum(axis=1) <= cost * (1 + 1e-12)).all()


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_epoch_raises_the_dual_and_new_scales_keep_it_true(domain):
    X, y, cost, _ = scaled_data(1, n=60, c=5)
    loop, rng = open_loop(native, domain, X, y, cost), np.random.default_rng(2)
    norms = np.zeros(5)
    for _ in range(12):
        loop.rescale(rng.uniform(0.2, 2.0, 5), norms)
        before = loop.dual
        loop.ascend(len(y), 1e-12)
        assert loop.dual >= before - 1e-12 * abs(before)
        norms = loop.squared_norms()
    assert loop.dual == pytest.approx(loop.dual_sum - 0.5 * loop.squared_norm, rel=1e-10)


@pytest.mark.parametrize("storage", ["dense64", "csr64"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_the_proximal_intercept_is_not_scaled(domain, storage):
    X, y, cost, scales = scaled_data(3)
    means, inverse_rho = X.mean(axis=0), 0.7
    loop = open_loop(native, domain, X, y, cost, storage)
    loop.rescale(scales, np.zeros(4))
    loop.start_intercept(means, inverse_rho)
    loop.move_centre(np.array([0.1, -0.2, 0.3, 0.0]))
    loop.ascend(2000 * len(y), 1e-10)
    a = twins.dense_duals(*loop.duals(), 4)
    tau = twins.tau(a, y)
    Z, sums = (X - means).T @ tau, tau.sum(axis=0)
    W, b = Z * scales, np.array([0.1, -0.2, 0.3, 0.0]) + inverse_rho * sums - means @ (Z * scales)
    np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
    np.testing.assert_allclose(loop.intercepts(), b, atol=1e-9)
    np.testing.assert_allclose(loop.squared_norms(), (Z**2).sum(axis=0), atol=1e-9)
    proximal = 0.5 * (Z**2).sum(axis=0) @ scales + 0.5 * inverse_rho * sums @ sums
    dual = gain_of(domain, a, cost) - proximal - np.array([0.1, -0.2, 0.3, 0.0]) @ sums
    primal = proximal + loss_of(domain, X @ W + b, y, cost)
    assert loop.dual == pytest.approx(dual, rel=1e-9)
    assert primal - dual <= 1e-6 * primal
    room, total, squares, norms = loop.totals_of(np.ones((4, 4)))
    assert room == pytest.approx(1.0)
    assert total == pytest.approx(a.sum())
    assert total - 0.5 * squares == pytest.approx(gain_of(domain, a, cost))
    np.testing.assert_allclose(norms, (Z**2).sum(axis=0), atol=1e-9)


def test_many_classes_move_few_at_a_time():
    """Beyond 64 classes a row moves only its non-zero duals and the most violated classes."""
    X, y, cost, scales = scaled_data(4, n=300, d=20, c=100)
    for domain in DOMAINS:
        loop = open_loop(native, domain, X, y, cost)
        loop.rescale(scales, np.zeros(100))
        loop.ascend(2000 * len(y), 1e-6)
        half = 0.5 * loop.squared_norm
        primal, dual = half + loop.loss(1), loop.dual_sum - half
        assert 0.0 <= primal - dual <= 1e-5 * primal


def test_other_metrics_have_no_scales():
    X, y, cost, scales = scaled_data(5)
    with pytest.raises(RuntimeError, match="no class scales"):
        open_any_loop(native, "simplex", X, y, cost).rescale(scales, np.zeros(4))
