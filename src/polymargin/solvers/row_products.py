"""Rows seen through their inner products: coordinates in their span, and the products of those that are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.lapack import dgeqrf, dormqr

Array = NDArray[np.float64]

_BLOCK = 64  # columns that LAPACK handles at a time
_PANEL = 128  # columns reflected at a time: no signal interrupts LAPACK
_MOST = 4000  # rows whose inner products are kept while others join


class RowSpan:
    """Orthonormal coordinates in the span of fewer rows than columns, kept as reflections that are applied when needed."""

    def __init__(self, X: Array):
        n = X.shape[0]
        A = X.T.astype(np.float64, order="F")
        self._reflections, self._scales = A, np.empty(n)
        for start in range(0, n, _PANEL):
            stop = min(n, start + _PANEL)
            panel, scales, _, _ = dgeqrf(A[start:, start:stop], lwork=_BLOCK * (stop - start))
            A[start:, start:stop], self._scales[start:stop] = panel, scales
            if stop < n:
                A[start:, stop:] = dormqr("L", "T", panel, scales, A[start:, stop:], lwork=_BLOCK * (n - stop))[0]
        self.rows = np.ascontiguousarray(np.triu(A[:n]).T)

    def outside(self, V: Array) -> Array:
        """Class vectors in the coordinates of the columns of X."""
        W = np.zeros((len(self._reflections), V.shape[1]), order="F")
        W[: len(V)] = V
        return self._apply("N", W)

    def inside(self, W: Array) -> Array:
        """Coordinates of class vectors that lie in the span."""
        return self._apply("T", np.array(W, order="F"))[: len(self.rows)]

    def _apply(self, transposed: str, W: Array) -> Array:
        room = _BLOCK * max(1, W.shape[1])
        found = dormqr("L", transposed, self._reflections, self._scales, W, lwork=room, overwrite_c=1)[0]
        return np.ascontiguousarray(found)


class KeptProducts:
    """Inner products of some centred rows. They are kept: the next rows that are asked for are mostly the same."""

    def __init__(self, X: Any, mean: Array):
        self._X = X
        self._with_mean = np.asarray(X @ mean, dtype=np.float64) - 0.5 * float(mean @ mean)
        self._forget()

    def _forget(self) -> None:
        self._at = np.full(self._X.shape[0], -1)
        self._rows = np.empty(0, dtype=np.intp)
        self._K = np.empty((0, 0))

    def of(self, rows: NDArray[np.integer[Any]]) -> tuple[Array, NDArray[np.integer[Any]]]:
        """A matrix of inner products, some of it unused, and where the given rows are in it."""
        new = np.unique(rows[self._at[rows] < 0])
        if len(self._rows) and len(self._rows) + len(new) > _MOST:
            self._forget()
            new = np.unique(rows)
        if len(new):
            m, n = len(self._rows), len(self._rows) + len(new)
            if n > len(self._K):
                K = np.zeros((n + n // 8, n + n // 8))
                K[:m, :m] = self._K[:m, :m]
                self._K = K
            self._rows = np.r_[self._rows, new]
            self._at[new] = np.arange(m, n)
            self._K[m:n, :n] = self._between(new, self._rows)
            self._K[:m, m:n] = self._K[m:n, :m].T
        return self._K, self._at[rows]

    def _between(self, rows: NDArray[np.intp], others: NDArray[np.intp]) -> Array:
        A, B = self._X[rows], self._X[others]
        K = A @ A.T if len(rows) == len(others) else A @ B.T  # the first is a symmetric product, twice as fast
        K = K.toarray() if sparse.issparse(K) else np.asarray(K, dtype=np.float64)
        K -= self._with_mean[rows][:, None]
        K -= self._with_mean[others]
        return np.asarray(K)
