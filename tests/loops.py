"""What the tests of the native loops share: data, storages and builds."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from polymargin._core import _baseline, native

BUILDS = [_baseline] if native is _baseline else [_baseline, native]
STORAGES = ["dense64", "dense32", "csr64-int32", "csr32-int32", "csr64-int64", "csr32-int64"]


def problem_data(seed: int, n: int = 40, d: int = 6, c: int = 4):
    rng = np.random.default_rng(seed)
    # float32 values, so that all storages hold the same numbers
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32).astype(np.float64)
    y = rng.integers(0, c, size=n).astype(np.int32)
    y[:c] = np.arange(c)
    return X, y, rng.uniform(0.1, 2.0, size=n)


def stored(X, storage: str) -> tuple:
    """The rows as a native loop takes them: one dense array, or the arrays of a CSR matrix and the number of columns."""
    kind, _, index = storage.partition("-")
    dtype = np.float64 if kind.endswith("64") else np.float32
    if kind.startswith("dense"):
        return (np.ascontiguousarray(X, dtype=dtype),)
    S = sparse.csr_array(X.astype(dtype))
    return S.data, S.indices.astype(index), S.indptr.astype(index), X.shape[1]


def open_loop(build, problem, X, y, cost, storage="dense64", waiting=False, seed=0):
    door = build.dense if storage.startswith("dense") else build.csr
    return door(problem, *stored(X, storage), y, cost, int(y.max()) + 1, waiting, seed)
