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
from scipy.linalg.lapack import dgeqrf, dormqr

Array = NDArray[np.float64]

_LAPACK_BLOCK = 64  # columns that LAPACK handles at a time
_PANEL = 128  # columns reflected at a time: no signal interrupts LAPACK,
_QUICK = 1e9  # unless it has no more operations than that: a hundredth of a second or two
_MOST = 4000  # rows whose inner products are kept while others join
_COPY_ENTRIES = 5_000_000  # a dense float64 copy of at most so many entries is made for speed
_GRAM_ROWS = 512  # of them at a time
_SAMPLE = 256  # rows by whose inner products their coupling is measured
_COUPLING, _LEAST_COUPLING = 10.0, 0.1  # in typical inner products of two rows; in mean squares
_BLOCK_ENTRIES = 1 << 17  # entries that are converted to float64 at a time otherwise


class Design:
    """Products with the (centred) rows and their transpose."""

    def __init__(self, X: Any, cost: Array, fit_intercept: bool, rotate: bool, centre: bool = True):
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
        if fit_intercept and centre:
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

    def score_scale(self, W: Array) -> Array:
        """``|x_i| max_k |w_k|``: the numbers whose rounding the scores of each row have."""
        return self._row_norms * float(np.sqrt(np.einsum("jk,jk->k", W, W).max(initial=0.0)))

    @cached_property
    def _row_norms(self) -> Array:
        if sparse.issparse(self.X):
            squares = np.asarray(self.X.multiply(self.X).sum(axis=1), dtype=np.float64).ravel()
        else:
            squares = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return np.asarray(np.sqrt(squares) + float(np.sqrt(self.mean @ self.mean)))

    @cached_property
    def mean_square(self) -> float:
        """Mean of the squared lengths of the rows."""
        values = self.X.data if sparse.issparse(self.X) else self.X.ravel()
        squares = np.einsum("i,i->", values, values, dtype=np.float64)
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


class RowSpan:
    """Orthonormal coordinates in the span of fewer rows than columns, kept as reflections that are applied when needed."""

    def __init__(self, X: Array):
        n, d = X.shape
        A = X.T.astype(np.float64, order="F")
        if 2.0 * n * n * d <= _QUICK:
            self._reflections, self._scales, _, _ = dgeqrf(A, lwork=_LAPACK_BLOCK * n, overwrite_a=1)
        else:
            self._reflections, self._scales = A, _reflected(A)
        self.rows = np.ascontiguousarray(np.triu(self._reflections[:n]).T)

    def outside(self, V: Array) -> Array:
        """Class vectors in the coordinates of the columns of X."""
        W = np.zeros((len(self._reflections), V.shape[1]), order="F")
        W[: len(V)] = V
        return self._apply("N", W)

    def inside(self, W: Array) -> Array:
        """Coordinates of class vectors that lie in the span."""
        return self._apply("T", np.array(W, order="F"))[: len(self.rows)]

    def _apply(self, transposed: str, W: Array) -> Array:
        room = _LAPACK_BLOCK * max(1, W.shape[1])
        found = dormqr("L", transposed, self._reflections, self._scales, W, lwork=room, overwrite_c=1)[0]
        return np.ascontiguousarray(found)


def _reflected(A: Array) -> Array:
    """Reflections that make A triangular, in its place, and their scales; some columns at a time."""
    n = A.shape[1]
    scales = np.empty(n)
    for start in range(0, n, _PANEL):
        stop = min(n, start + _PANEL)
        panel, scales[start:stop], _, _ = dgeqrf(A[start:, start:stop], lwork=_LAPACK_BLOCK * (stop - start))
        A[start:, start:stop] = panel
        if stop < n:
            rest, room = A[start:, stop:], _LAPACK_BLOCK * (n - stop)
            A[start:, stop:] = dormqr("L", "T", panel, scales[start:stop], rest, lwork=room)[0]
    return scales


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


def centre_and_spread(X: Any) -> tuple[Array, float]:
    """Column means and the mean squared distance of the rows from them.

    The means only precondition, so the precision of X is enough for them.
    """
    n = X.shape[0]
    if sparse.issparse(X):
        means = X.T @ np.full(n, 1.0 / n, dtype=X.dtype)
        squares = float(np.einsum("i,i->", X.data, X.data, dtype=np.float64))
    else:
        means = X.mean(axis=0)
        squares = sum(float(np.einsum("ij,ij->", X[s], X[s], dtype=np.float64)) for s in _slices(n))
    means = np.asarray(means, dtype=np.float64)
    return means, max(0.0, squares / n - float(means @ means))


def centre_and_coupling(X: Any) -> tuple[Array, float]:
    """The same, with less than the mean square where rows are nearly orthogonal: what offsets may tie them together by.

    A free offset ties all rows of a class to each other. Rows of text hardly have anything else in common: tied by a part of
    their squares, each would undo what the others did. Their inner products are those of a sample.
    """
    means, square = centre_and_spread(X)
    sample = X[np.linspace(0, X.shape[0] - 1, min(X.shape[0], _SAMPLE)).astype(np.intp)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if not sparse.issparse(sample) and sample.shape[1] < sample.shape[0]:  # |Z Z'| = |Z'Z|, the smaller one
            sample -= means
            own = np.einsum("ij,ij->i", sample, sample)
            others = max(0.0, float(np.square(sample.T @ sample).sum() - own @ own))
        else:
            inner = sample @ sample.T
            inner = np.asarray(inner.toarray() if sparse.issparse(inner) else inner)
            along = np.asarray(sample @ means).ravel()
            inner = inner - along[:, None] - along + float(means @ means)
            np.fill_diagonal(inner, 0.0)
            others = float(np.square(inner).sum())
        typical = float(np.sqrt(others / max(1, sample.shape[0] * (sample.shape[0] - 1))))
    if not np.isfinite(typical):  # squares of squares are too large
        return means, square
    return means, min(square, max(_LEAST_COUPLING * square, _COUPLING * typical))


def _slices(n: int, step: int = 4096) -> list[slice]:
    return [slice(i, i + step) for i in range(0, n, step)]
