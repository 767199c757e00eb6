"""The positive semi-definite part of a kernel that is not: what its negative eigenvalues hold is left out.

Problem
    Given K[:, P] of a symmetric kernel, P all distinct rows or some of them (Nystroem): ``K[P, P] = U diag(v) U'``. With U+
    and v+ those of v > 0, features ``Phi = K[:, P] U+ v+^(-1/2)`` have the inner products of the part of K that is positive
    on P, and a machine W in them is ``f(x) = k(x, P) A`` with ``A = U+ v+^(-1/2) W``, for new rows too.

    Rows that are there twice count once in P, so that a weight of 2 is the row twice, as everywhere. Every row of P has a
    coefficient: the duals' own few rows, ``K tau``, would bring the negative part back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh

_ROUNDING = 1e-12  # of the largest eigenvalue: what is below is neither positive nor negative
_BLOCK = 1024  # rows at a time
_ARRAYS = 4.0  # of the size of K[P, P], at the same time


class DefinitePart(NamedTuple):
    """Features of all rows, ``A = back @ W``, and the share of K[P, P] that was cut off, by absolute eigenvalues."""

    Phi: NDArray[np.float64]
    back: NDArray[np.float64]
    cut: float


def definite_part(columns: Callable[[NDArray[np.intp]], Any], pivots: NDArray[np.intp], n_rows: int) -> DefinitePart:
    """The part of a kernel that is positive on the pivots, distinct rows; ``columns(rows)`` is K[rows, pivots]."""
    from polymargin.features.kernel_map import available_memory

    r = len(pivots)
    needed, free = 8.0 * (_ARRAYS * r * r + float(n_rows) * r), available_memory()
    if needed > free:
        raise MemoryError(
            f"The definite part of the kernel of {n_rows} rows needs {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are "
            f"free. Set n_components= to a smaller number than {r} (Nystroem approximation of that rank)."
        )
    K = np.concatenate([columns(some) for some in _blocks(pivots)])
    values, vectors = eigh(0.5 * (K + K.T), overwrite_a=True, check_finite=False)
    kept = values > _ROUNDING * max(float(values[-1]), 0.0)
    back = vectors[:, kept] / np.sqrt(values[kept])
    Phi = np.empty((n_rows, back.shape[1]))
    for some in _blocks(np.arange(n_rows)):
        Phi[some] = columns(some) @ back
    return DefinitePart(Phi, back, float(-values[values < 0.0].sum() / np.abs(values).sum()))


def distinct_rows(X: Any) -> NDArray[np.intp]:
    """Numbers of the rows that are not there before, of an array or a canonical CSR matrix."""
    if not sparse.issparse(X):
        return np.sort(np.unique(X, axis=0, return_index=True)[1])
    parts = [slice(*X.indptr[i : i + 2]) for i in range(X.shape[0])]
    first: dict[bytes, int] = {}
    for i, part in enumerate(parts):
        first.setdefault(X.indices[part].tobytes() + X.data[part].tobytes(), i)
    return np.fromiter(first.values(), dtype=np.intp)


def _blocks(rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
