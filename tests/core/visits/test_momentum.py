"""Epochs with momentum, where most duals are free: duals stay feasible, the machine theirs, and fewer epochs are needed."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from loops import BUILDS, STORAGES, open_loop, stored

from polymargin._core import native


def wide_data(seed: int = 0, n: int = 300, d: int = 600, c: int = 5):
    """Rows nearly orthogonal, and classes that hardly differ: most duals of maxima of absolute margins are free."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n).astype(np.int32)
    X = 0.02 * rng.normal(size=(c, d))[y] + 0.1 * rng.normal(size=(n, d)) @ np.diag(np.geomspace(0.02, 1.0, d))
    return X.astype(np.float32).astype(np.float64), y, rng.uniform(0.5, 2.0, size=n)


def opened(
    data, domain="absolute_simplex", storage="dense64", build=native, together=1, n_threads=1, own=1.0, offsets=False
):
    X, y, cost = data
    loop = build.row_loop(
        domain,
        "coupled",
        stored(build, X, storage),
        y,
        cost,
        int(y.max()) + 1,
        False,
        0,
        [own, 1.0],
        None,
        together,
        n_threads,
        False,
    )
    loop.couple(1.0, 0.0, True)
    if offsets:
        loop.start_intercept(X.mean(axis=0), 0.1)
    return loop


def dense(loop, n, c):
    starts, classes, values = loop.duals()
    a = np.zeros((n, c))
    a[np.repeat(np.arange(n), np.diff(starts)), classes] = values
    return a


def signed(a, y):
    tau = -a
    tau[np.arange(len(y)), y] *= -1.0
    return tau


@pytest.mark.parametrize("own", [0.0, 1.0])
@pytest.mark.parametrize("domain", ["absolute_simplex", "squared_absolute_simplex"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
def test_duals_stay_feasible_and_the_machine_is_theirs(build, storage, domain, own):
    data = X, y, cost = wide_data()
    loop = opened(data, domain, storage, build, own=own)
    for _ in range(8):
        loop.ascend(4 * len(y), 1e-12)
        a = dense(loop, len(y), 5)
        Z = X.T @ signed(a, y)
        W = Z - Z.mean(axis=1, keepdims=True)
        dual = a.sum() - 0.5 * (W**2).sum()
        if domain == "absolute_simplex":
            assert (a.sum(axis=1) <= cost * (1.0 + 1e-12)).all()
        else:
            dual -= (a.sum(axis=1) ** 2 / (4.0 * cost)).sum()
        assert a.min() >= 0.0
        np.testing.assert_allclose(loop.weights(), W, rtol=0, atol=1e-12 * np.abs(W).max())
        assert loop.dual == pytest.approx(float(dual), rel=1e-12)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("domain", ["absolute_simplex", "squared_absolute_simplex"])
def test_the_same_visits_climb_higher(domain, offsets):
    """Slices of one epoch are too short for momentum."""
    left = []
    for seed in range(4):
        data = wide_data(seed)
        n, ends = len(data[1]), [opened(data, domain, offsets=offsets) for _ in range(2)]
        for loop, epochs in zip(ends, (1, 24), strict=True):
            for _ in range(0, 24, epochs):
                loop.ascend(epochs * n, 0.0)
        best = opened(data, domain, offsets=offsets)
        best.ascend(1500 * n, 1e-13)
        left.append([best.dual - loop.dual for loop in ends])
    plain, carried = np.maximum(left, 1e-12).T
    assert np.exp(np.log(carried / plain).mean()) < 0.3


def test_threads_change_no_bit():
    data = wide_data(n=800)
    ends = [opened(data, together=8, n_threads=n_threads) for n_threads in (1, 2)]
    for loop in ends:
        loop.ascend(30 * 800, 1e-9)
    assert np.array_equal(ends[0].weights(), ends[1].weights())


# ---- squared maxima and means of the two largest with few unknowns: before every epoch --------------------------------

TIES = {"squared_simplex": [], "squared_capped_simplex": [2], "squared_top_k": [2], "squared_absolute_simplex": [1.0, 1.0]}


def tall_data(seed: int = 0, n: int = 600, d: int = 12, c: int = 5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n).astype(np.int32)
    X = 0.5 * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d)) @ np.diag(np.geomspace(0.02, 1.0, d))
    return X.astype(np.float32).astype(np.float64), y, rng.uniform(0.5, 2.0, size=n)


def opened_ties(data, domain, storage="dense64", build=native, parameters=None):
    X, y, cost = data
    return open_loop(build, domain, X, y, cost, storage, parameters=TIES[domain] if parameters is None else parameters)


def gauge(domain, k, a):
    of_largest = domain in ("squared_capped_simplex", "squared_top_k")
    return np.maximum(a.sum(axis=1), k * a.max(axis=1) if of_largest else 0.0)


@pytest.mark.parametrize("domain,parameters", [*TIES.items(), ("squared_top_k", [3])])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
def test_duals_of_ties_stay_feasible_and_the_machine_is_theirs(build, storage, domain, parameters):
    data = X, y, cost = tall_data()
    loop = opened_ties(data, domain, storage, build, parameters)
    for _ in range(6):
        loop.ascend(4 * len(y), 1e-12)
        a = dense(loop, len(y), 5)
        W = X.T @ (signed(a, y) if domain == "squared_absolute_simplex" else twins.tau(a, y))
        squares = gauge(domain, parameters[0] if parameters else 1, a) ** 2
        assert a.min() >= 0.0
        if parameters == [3]:  # the edge of the cone
            assert (a.max(axis=1) <= (0.5 + 1e-12) * a.sum(axis=1)).all()
        np.testing.assert_allclose(loop.weights(), W, rtol=0, atol=1e-12 * np.abs(W).max())
        assert loop.dual == pytest.approx(float(a.sum() - 0.5 * (W**2).sum() - (squares / (4.0 * cost)).sum()), rel=1e-12)


@pytest.mark.parametrize("domain", ["squared_simplex", "squared_capped_simplex", "squared_top_k"])
def test_the_same_visits_climb_higher_on_ties(domain):
    """Slices of two thirds of an epoch are too short for momentum."""
    left = []
    for seed in range(4):
        data = tall_data(seed)
        n, ends = len(data[1]), [opened_ties(data, domain) for _ in range(2)]
        for loop, visits in zip(ends, (400, 12000), strict=True):
            for _ in range(0, 20 * n, visits):
                loop.ascend(visits, 0.0)
        best = opened_ties(data, domain)
        best.ascend(1000 * n, 1e-13)
        left.append([best.dual - loop.dual for loop in ends])
    plain, carried = np.maximum(left, 1e-12).T
    assert np.exp(np.log(carried / plain).mean()) < 0.5
