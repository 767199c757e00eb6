"""Dense rows in the widest registers of this processor: they change no bit.

Where it has no wider ones both sides are the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from loops import BUILDS

SHAPES = [(64, 5), (65, 3), (67, 4), (71, 7), (100, 26), (383, 9), (384, 20)]  # columns, classes


def rows_of(build, X, storage, wide):
    return build.Rows(np.ascontiguousarray(X, dtype=storage), wide)


@pytest.mark.parametrize(("d", "c"), SHAPES)
@pytest.mark.parametrize("together", [1, 8])
@pytest.mark.parametrize("metric", ["identity", "class_scales", "coupled", "between_classes"])
@pytest.mark.parametrize("storage", [np.float64, np.float32])
@pytest.mark.parametrize("build", BUILDS)
def test_the_width_of_registers_changes_no_bit(build, storage, metric, together, d, c):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(120, d))
    y = rng.integers(0, c, size=120).astype(np.int32)
    cost = rng.uniform(0.1, 1.0, size=120)
    found = []
    for wide in (True, False):
        loop = build.row_loop("box", metric, rows_of(build, X, storage, wide), y, cost, c, False, 1, [], None, together, 2)
        if metric == "coupled":
            loop.couple(1.0, 0.5, False)
        loop.start_intercept(X.mean(axis=0), 0.3)
        loop.ascend(5 * len(y), 1e-9)
        found.append((loop.dual, loop.estimate, loop.loss(1), loop.weights(), *loop.duals()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("d", [1, 7, 8, 9, 63, 64, 66])
@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("build", BUILDS)
def test_scores_are_those_of_the_class_vectors(build, together, d):
    rng = np.random.default_rng(d)
    X, y = rng.normal(size=(50, d)), rng.integers(0, 3, size=50).astype(np.int32)
    loop = build.row_loop("simplex", "identity", build.Rows(X), y, np.ones(50), 3, False, 1, [], None, together, 1)
    loop.ascend(4 * 50, 1e-9)
    S = X @ loop.weights()
    margins = 1.0 - S[np.arange(50), y][:, None] + S
    margins[np.arange(50), y] = 0.0
    assert loop.loss(1) == pytest.approx(margins.max(axis=1).sum(), rel=1e-12)
    norms = np.einsum("jk,jk->k", loop.weights(), loop.weights())
    assert loop.squared_norm == pytest.approx(norms.sum(), rel=1e-12)
