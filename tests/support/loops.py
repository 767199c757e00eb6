"""What the tests of the native loops share: data, storages and builds."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from polymargin._core import _baseline, native

BUILDS = [_baseline] if native is _baseline else [_baseline, native]
STORAGES = ["dense64", "dense32", "csr64", "csr32"]


def problem_data(seed: int, n: int = 40, d: int = 6, c: int = 4):
    rng = np.random.default_rng(seed)
    # float32 values, so that all storages hold the same numbers
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32).astype(np.float64)
    y = rng.integers(0, c, size=n).astype(np.int32)
    y[:c] = np.arange(c)
    return X, y, rng.uniform(0.1, 2.0, size=n)


def stored(build, X, storage: str):
    """The rows as a native loop takes them."""
    X = np.ascontiguousarray(X, dtype=np.float64 if storage.endswith("64") else np.float32)
    if storage.startswith("dense"):
        return build.Rows(X)
    S = sparse.csr_array(X)
    return build.Rows(S.data, S.indices.astype(np.int32), S.indptr.astype(np.int64), X.shape[1])


def open_loop(
    build, domain, X, y, cost, storage="dense64", waiting=False, seed=0, parameters=(), metric="identity", targets=None
):
    rows = stored(build, X, storage)
    return build.row_loop(domain, metric, rows, y, cost, int(y.max()) + 1, waiting, seed, list(parameters), targets)


def targets_of(loss, c):
    """The table of a native loop: None if all margins should reach 1."""
    return None if loss.unit_targets else np.ascontiguousarray(loss.targets(c))


def solved_row(build, domain, g, a, g_target, H, cost, parameters=(), metric="identity", own=-1):
    """One row's duals; H is the metric: one curvature, one for each class with the own one last, or a matrix.

    The own class comes after the others, or has the number `own`.
    """
    H = np.asarray(H, dtype=np.float64)
    block = H if H.ndim == 2 else np.diag(np.broadcast_to(H, len(g) + 1))
    return build.solve_row(domain, metric, np.ascontiguousarray(block), g, a, g_target, cost, list(parameters), own)
