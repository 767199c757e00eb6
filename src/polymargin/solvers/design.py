"""The rows of X as the primal Newton methods use them: centred, in few coordinates, as two products.

With weighted column means m the scores are ``S = (X - 1 m') W + 1 b0'``: offsets ``b = b0 - W'm``. Unknowns are stacked as
``V = [W; b0]``, of shape (r + 1, c), or W alone without an intercept. Rotation-invariant penalties allow coordinates in the
span of the rows: r <= min(n, d).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.solvers.row_products import KeptProducts, RowSpan

Array = NDArray[np.float64]

_COPY_ENTRIES = 5_000_000  # a dense float64 copy of at most so many entries is made for speed
LARGEST_GRAM = 3000  # rows whose Gram matrix is formed as a whole
_GRAM_ROWS = 512  # of them at a time
_BLOCK_ENTRIES = 1 << 17  # entries that are converted to float64 at a time otherwise


class Design:
    """Products with the (centred) rows and their transpose."""

    def __init__(self, X: Any, cost: Array, fit_intercept: bool, rotate: bool):
        n, d = X.shape
        self.n, self.fit_intercept = n, fit_intercept
        self._span: RowSpan | None = None
        if rotate and n < d and n * d <= _COPY_ENTRIES:
            dense = X.toarray() if sparse.issparse(X) else X
            self._span = RowSpan(dense)
            X = self._span.rows
        elif sparse.issparse(X) or X.size <= _COPY_ENTRIES:
            X = X.astype(np.float64, copy=False)
        self.X, self.r = X, X.shape[1]
        self._by_blocks = not sparse.issparse(X) and X.dtype != np.float64
        self.mean = np.zeros(self.r)
        if fit_intercept:
            weights = cost / cost.sum()
            self.mean = self.adjoint(weights[:, None])[: self.r, 0]  # not centred yet
        self.n_unknowns = self.r + fit_intercept

    def scores(self, V: Array) -> Array:
        """S of the stacked unknowns."""
        W = V[: self.r]
        if self._by_blocks:
            S = np.empty((self.n, V.shape[1]))
            for rows, block in self._blocks():
                np.matmul(block, W, out=S[rows])
        else:
            S = np.asarray(self.X @ W)
        if self.fit_intercept:
            S += V[self.r] - self.mean @ W
        return S

    def adjoint(self, T: Array) -> Array:
        """The transposed product, stacked like the unknowns."""
        out = np.zeros((self.r + self.fit_intercept, T.shape[1]))
        W = out[: self.r]
        if self._by_blocks:
            for rows, block in self._blocks():
                W += block.T @ T[rows]
        else:
            W[:] = self.X.T @ T
        if self.fit_intercept:
            sums = T.sum(axis=0)
            W -= np.outer(self.mean, sums)
            out[self.r] = sums
        return out

    def dense_rows(self, rows: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """The given rows, centred and with a column of ones for b0, in blocks."""
        step = max(1, _BLOCK_ENTRIES // max(1, self.r))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            block = self.X[part]
            Z = np.ones((len(part), self.n_unknowns))
            Z[:, : self.r] = block.toarray() if sparse.issparse(block) else block
            if self.fit_intercept:
                Z[:, : self.r] -= self.mean
            yield part, Z

    def split(self, V: Array) -> tuple[Array, Array]:
        """W and b in the coordinates of the scores, b of the rows as they are."""
        W = V[: self.r]
        b = V[self.r] - self.mean @ W if self.fit_intercept else np.zeros(V.shape[1])
        return W, b

    def machine(self, V: Array) -> tuple[Array, Array]:
        """W and b in the coordinates of X."""
        W, b = self.split(V)
        return (W.copy() if self._span is None else self._span.outside(W)), b

    def unknowns(self, W: Array, b: Array) -> Array:
        """The stacked unknowns of a machine in the coordinates of X whose vectors lie in the span of the rows."""
        V = np.zeros((self.n_unknowns, W.shape[1]))
        V[: self.r] = W if self._span is None else self._span.inside(W)
        if self.fit_intercept:
            V[self.r] = b + self.mean @ V[: self.r]
        return V

    @cached_property
    def mean_square(self) -> float:
        """Mean of the squared lengths of the rows."""
        squares = self.X.multiply(self.X).sum() if sparse.issparse(self.X) else np.einsum("ij,ij->", self.X, self.X)
        return max(float(squares) / self.n - float(self.mean @ self.mean), 0.0)

    def gram(self) -> Array:
        """Inner products of the centred rows, (n, n)."""
        return self._gram

    @cached_property
    def products(self) -> KeptProducts:
        """Inner products of those centred rows that are asked for."""
        return KeptProducts(self.X, self.mean)

    @cached_property
    def _gram(self) -> Array:
        across = np.asarray(self.X @ self.mean, dtype=np.float64) - 0.5 * float(self.mean @ self.mean)
        K = np.empty((self.n, self.n))
        for start in range(0, self.n, _GRAM_ROWS):  # the lower half in strips, between which Ctrl-C is heard
            rows, before = slice(start, start + _GRAM_ROWS), slice(0, start + _GRAM_ROWS)
            strip = self.X[rows] @ self.X[before].T
            strip = strip.toarray() if sparse.issparse(strip) else np.asarray(strip, dtype=np.float64)
            strip -= across[rows, None]
            strip -= across[before]
            K[rows, before] = strip
            K[:start, rows] = strip[:, :start].T
        return K

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        step = max(1, _BLOCK_ENTRIES // max(1, self.r))
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            yield rows, self.X[rows].astype(np.float64)
