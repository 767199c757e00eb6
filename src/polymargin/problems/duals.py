"""Duals of rows and classes, most of them 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]

OF_WARM_STARTS = ("_warm", "_kept_duals")  # attributes that warm_start=True keeps, left out of files and paths


class SparseDuals(NamedTuple):
    """Non-zero off-class duals, row by row: entries ``starts[i]:starts[i + 1]`` belong to row i."""

    starts: NDArray[np.int64]
    classes: NDArray[np.int32]
    values: Array

    @property
    def rows(self) -> NDArray[np.intp]:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def times(self, factors: Array, y: NDArray[np.int32]) -> SparseDuals:
        """The duals times a factor for their pair of own class and class, ``factors (c, c)``."""
        return self._replace(values=self.values * factors[y[self.rows], self.classes])

    def part(self, kept: NDArray[np.bool_]) -> SparseDuals:
        """The duals of some of the rows."""
        counts = np.diff(self.starts)
        entries = np.repeat(kept, counts)
        return SparseDuals(np.append(0, np.cumsum(counts[kept])), self.classes[entries], self.values[entries])

    def spread(self, kept: NDArray[np.bool_]) -> SparseDuals:
        """The duals of some of the rows as those of all: the others have none."""
        counts = np.zeros(len(kept), dtype=np.int64)
        counts[kept] = np.diff(self.starts)
        return self._replace(starts=np.append(0, np.cumsum(counts)))

    def dense(self, n_classes: int) -> Array:
        """The duals as an array (n, c)."""
        out = np.zeros((len(self.starts) - 1, n_classes))
        out[self.rows, self.classes] = self.values
        return out


def sparse_duals(a: np.ndarray) -> SparseDuals:
    """The non-zero entries of duals ``(n, c)``."""
    rows, classes = np.nonzero(a)
    starts = np.zeros(len(a) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(a)), out=starts[1:])
    return SparseDuals(starts, classes.astype(np.int32), a[rows, classes])


NO_DUALS = SparseDuals(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))


def row_sums(X: Any, tau: sparse.csr_array, blocks: Callable[[], Iterable[slice]]) -> Array:
    """``X' tau``, (d, c), of sparse signed duals; dense rows block by block, as single precision would be copied."""
    if sparse.issparse(X):
        return np.asarray((sparse.csr_array(X).T @ tau).toarray(), dtype=np.float64)
    some = list(blocks())
    if len(some) == 1:
        return np.asarray(tau.T @ X, dtype=np.float64).T
    Z = np.zeros((tau.shape[1], X.shape[1]))
    for rows in some:
        Z += tau[rows].T @ X[rows]
    return Z.T


def row_norms(X: Any, blocks: Callable[[], Iterable[slice]]) -> Array:
    """Lengths of the rows."""
    if sparse.issparse(X):
        double = np.square(X.data, dtype=np.float64)  # squares of single precision overflow at 1e19
        squares = np.asarray(sparse.csr_array((double, X.indices, X.indptr), shape=X.shape).sum(axis=1)).ravel()
    else:
        squares = np.concatenate([np.einsum("ij,ij->i", X[rows], X[rows], dtype=np.float64) for rows in blocks()])
    return np.asarray(np.sqrt(squares))
