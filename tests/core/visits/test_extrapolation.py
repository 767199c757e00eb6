"""Epochs that are extrapolated: the duals stay feasible, the machine stays theirs, and fewer epochs are needed."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from loops import BUILDS, STORAGES, stored

from polymargin._core import native

DOMAINS = {"simplex": [], "box": [], "capped_simplex": [2]}


def tall_data(seed: int = 0, n: int = 600, d: int = 12, c: int = 5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n).astype(np.int32)
    X = 0.5 * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d)) @ np.diag(np.geomspace(0.02, 1.0, d))
    return X.astype(np.float32).astype(np.float64), y, rng.uniform(0.5, 2.0, size=n)


def opened(data, domain="simplex", storage="dense64", build=native, extrapolates=True, together=1, n_threads=1, costs=None):
    X, y, cost = data
    rows, c = stored(build, X, storage), int(y.max()) + 1
    ways = together, n_threads, extrapolates  # what averages extrapolates too
    return build.row_loop(domain, "identity", rows, y, cost, c, False, 0, DOMAINS[domain], costs, *ways)


def outside(a, cost, domain):
    """How far duals (n, c) are outside of their domain, in parts of the cost."""
    largest = {"simplex": 1.0, "box": 1.0, "capped_simplex": 0.5}[domain]
    sums = 0.0 if domain == "box" else a.sum(axis=1) / cost - 1.0
    return max(float(-a.min()), float((a.max(axis=1) / cost - largest).max()), float(np.max(sums)))


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
def test_duals_stay_feasible_and_the_machine_is_theirs(build, storage, domain):
    data = X, y, cost = tall_data()
    loop = opened(data, domain, storage, build)
    for _ in range(5):
        loop.ascend(20 * len(y), 1e-9)
        a = twins.dense_duals(*loop.duals(), 5)
        W = X.T @ twins.tau(a, y)
        assert outside(a, cost, domain) <= 1e-12
        np.testing.assert_allclose(loop.weights(), W, rtol=0, atol=1e-13 * np.abs(W).max())
        assert loop.dual == pytest.approx(float(a.sum() - 0.5 * (W**2).sum()), rel=1e-13)


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_same_visits_climb_higher(domain):
    """At a tolerance of 0 no epoch is averaged: all that differs is that epochs are extrapolated."""
    left = []
    for seed in range(4):
        data = tall_data(seed)
        ends = [opened(data, domain, extrapolates=extrapolates) for extrapolates in (False, True)]
        for loop in ends:
            loop.ascend(40 * len(data[1]), 0.0)
        best = opened(data, domain)
        best.ascend(2000 * len(data[1]), 1e-13)
        left.append([best.dual - loop.dual for loop in ends])
    plain, extrapolated = np.maximum(left, 1e-15).T
    assert np.exp(np.log(extrapolated / plain).mean()) < 0.6


def test_margins_with_costs_are_extrapolated_with_them():
    data = X, y, _ = tall_data()
    costs = np.random.default_rng(1).uniform(0.5, 2.0, size=(5, 5)) * (1.0 - np.eye(5))
    loop = opened(data, costs=costs)
    loop.ascend(60 * len(y), 1e-9)
    a = twins.dense_duals(*loop.duals(), 5)
    W = X.T @ twins.tau(a, y)
    assert loop.dual == pytest.approx(float((a * costs[y]).sum() - 0.5 * (W**2).sum()), rel=1e-13)


def test_wide_machines_are_not():
    """Products of machines would cost more than the epochs."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 4000)) * (rng.random((60, 4000)) < 0.005)
    data = X, (np.arange(60) % 5).astype(np.int32), np.ones(60)
    ends = [opened(data, storage="csr64", extrapolates=extrapolates) for extrapolates in (False, True)]
    for loop in ends:
        loop.ascend(40 * 60, 0.0)
    assert ends[0].dual == ends[1].dual


def test_threads_change_no_bit():
    data = tall_data(n=2000, d=64)
    ends = [opened(data, together=8, n_threads=n_threads) for n_threads in (1, 2)]
    for loop in ends:
        loop.ascend(30 * 2000, 1e-7)
    assert np.array_equal(ends[0].weights(), ends[1].weights())


def test_parts_of_epochs_leave_duals_and_machine_together():
    data = X, y, _ = tall_data(n=3000)
    loop = opened(data)
    loop.ascend(30 * len(y), 0.0)
    loop.ascend(7, 0.0)  # less than an epoch
    W = X.T @ twins.tau(twins.dense_duals(*loop.duals(), 5), y)
    np.testing.assert_allclose(loop.weights(), W, rtol=0, atol=1e-12 * np.abs(W).max())
