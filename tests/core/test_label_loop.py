"""The native loop over pairs of rows and labels: at its end the optimality conditions hold, written once more in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from loops import BUILDS, STORAGES, stored

COUPLINGS = {"soft": (1.0 / 0.6, 1.0 / (1.0 + 0.4 * 3), 0.5 / 2.0), "hard": (1.0, 0.0, 0.0)}  # scale, common, slack


def pair_data(seed: int, n: int = 40, d: int = 5, c: int = 4):
    """Rows with a sign for most labels: +1 member, -1 known non-member."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)).astype(np.float32).astype(np.float64)
    signs = np.sign(X @ rng.normal(size=(d, c)) + 0.5 * rng.normal(size=(n, c)) + 1e-9)
    known = rng.random((n, c)) < 0.8
    rows, labels = np.nonzero(known)
    starts = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(known.sum(axis=1), out=starts[1:])
    return X, rows, starts, labels.astype(np.int32), signs[known], rng.uniform(0.1, 2.0, size=len(rows))


def open_loop(build, X, pairs, coupling, storage="dense64", seed=0):
    scale, common, slack = COUPLINGS[coupling]
    settings = {"scale": scale, "common": common, "slack": slack, "inverse_rho": 1.0, "n_labels": 4, "seed": seed}
    return build.label_loop(stored(build, X, storage), *pairs, X.mean(axis=0), **settings)


def machine_of(X, rows, labels, signs, a, coupling):
    """W from the duals: the mean over the classes and the differences from it have their own curvature."""
    scale, common, _ = COUPLINGS[coupling]
    Z = np.zeros((X.shape[1], 4))
    np.add.at(Z.T, labels, (a * signs)[:, None] * X[rows])
    return scale * (Z - Z.mean(axis=1, keepdims=True)) + common * Z.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("coupling", list(COUPLINGS))
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
def test_the_end_is_optimal(build, storage, coupling):
    for seed in range(2):
        X, rows, *pairs = pair_data(seed)
        _, labels, signs, costs = pairs
        loop = open_loop(build, X, pairs, coupling, storage)
        for _ in range(2000):  # plain proximal points
            loop.ascend(10**5, 1e-12)
            centre, ahead = loop.centre(), loop.next_centre()
            loop.move_centre(ahead)
            loop.restore()
            if abs(ahead - centre).max() < 1e-7:
                break
        a, W, b = loop.duals(), loop.weights(), loop.offsets()
        np.testing.assert_allclose(W, machine_of(X, rows, labels, signs, a, coupling), atol=1e-8)
        sums = np.bincount(labels, a * signs, minlength=4)
        np.testing.assert_allclose(sums, sums.mean(), atol=1e-5)  # free differences of the offsets
        assert b.mean() == pytest.approx(COUPLINGS[coupling][2] / 4 * sums.mean(), abs=1e-8)
        margins = signs * ((X[rows] * W.T[labels]).sum(axis=1) + b[labels])
        assert a.min() >= 0.0 and (a <= costs).all()
        assert margins[a == 0.0].min() >= 1 - 1e-4 and margins[a == costs].max() <= 1 + 1e-4
        inside = (a > 0.0) & (a < costs)
        assert inside.any() and abs(margins[inside] - 1.0).max() <= 1e-4
        assert loop.loss(1) == pytest.approx(costs @ np.maximum(0.0, 1.0 - margins), rel=1e-9, abs=1e-9)
        assert loop.loss(1) == loop.loss(3)


@pytest.mark.parametrize("build", BUILDS)
def test_duals_of_one_loop_start_another(build):
    X, rows, *pairs = pair_data(3)
    first = open_loop(build, X, pairs, "soft")
    first.ascend(300, 0.0)
    assert 0 < first.visits <= 300 and first.epochs > 0
    second = open_loop(build, X, pairs, "soft", "csr64", seed=1)
    second.set_duals(first.duals())
    np.testing.assert_allclose(second.weights(), first.weights(), atol=1e-12)
    np.testing.assert_allclose(second.offsets(), first.offsets(), atol=1e-12)
    assert second.dual == pytest.approx(first.dual, rel=1e-12)
    assert rows.size == first.duals().size
