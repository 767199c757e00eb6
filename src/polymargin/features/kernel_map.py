"""Kernel feature maps: exact by a pivoted Cholesky factorisation, or of rank r (Nystroem).

Problem
    Given rows x_i and a kernel with Gram matrix K (n, n), find row numbers P (r pivots) and Phi (n, r) such that
    ``Phi Phi' = K[:, P] K[P, P]^-1 K[P, :]``, the projection onto the span of the pivots' images. A linear machine on Phi is
    the kernel machine on x: penalties are invariant to rotation and do not grow by projection.

Method (Harbrecht et al., in blocks)
    Phi = K[:, P] L^-T with ``K[P, P] = L L'``. While the residual E = K - Phi Phi' has ``trace E > trace_tol * trace K``:

    1. candidates: rows with large E_ii (exact: the largest; Nystroem: drawn in proportion to E_ii);
    2. LAPACK's pivoted Cholesky of their small block of E drops the candidates that the others explain;
    3. the columns of the rest are computed, in tiles, on rows that are not pivots yet: n r^2 - 2/3 r^3 operations.

What the tolerance means
    The optimal duals alpha on Phi are feasible on K, so the optimal objective on Phi is above that on K by at most
    ``sum_k alpha_k' E alpha_k / 2 <= |alpha|^2 trace E / 2``, first order in E. For duals up to C and k(x, x) = 1 that is,
    relative to an objective of order C n, about ``C n trace_tol``: 1e-6 for C n = 1e6 with the default for float64, 1e-12,
    which is well above the rounding of E (1e-15). For float32 the default, 1e-7, is the rounding of Phi.

References
    Harbrecht, Peters, Schneider. On the low-rank approximation by the pivoted Cholesky decomposition. Appl. Numer. Math.,
    2012. Chen, Epperly, Tropp, Webber. Randomly pivoted Cholesky. Comm. Pure Appl. Math., 2025. Blocks of candidates:
    Epperly, Tropp, Webber. Embrace rejection: kernel matrix approximation by accelerated randomly pivoted Cholesky.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack, solve_triangular
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.extmath import row_norms

from polymargin import validation
from polymargin.features.rbf import RbfRows, rbf_values

_BLOCK = 128  # pivots a step: large enough for BLAS-3, small enough to be interrupted
_POOL = 2 * _BLOCK  # candidates a step: only their (small) block of K is computed before the choice
_TILE = 2048  # rows for which kernel columns are held at a time
_PRODUCT_ENTRIES = 1 << 29  # multiplications of a matrix product, which no signal interrupts: some hundredths of a second
_COPY_ENTRIES = 1 << 20  # numbers copied at a time, for the same reason
_DIAGONAL_TILE = 16  # rows of a callable's diagonal per call: few calls against few values thrown away
_SAMPLE = 64  # columns of a kernel function to check it by
_ALL_COLUMNS = 1000  # rows up to which all columns are: a few entries of a sample may miss a few pairs of rows
_KEEP = 0.1  # a candidate stays if the others leave at least this part of the largest residual
_TRACE_TOL = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-7}
_LARGE_MAP = 20_000_000  # features up to which a map of float32 rows is kept in double precision
_WITH_GAMMA = ("rbf", "poly", "sigmoid", "laplacian")


def available_memory() -> float:
    """Bytes that can be allocated now: free memory, or what its control group leaves; infinity if unknown."""
    free = float("inf")
    with suppress(AttributeError, KeyError, OSError, ValueError):  # not every system has these
        free = float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        fields = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
        free = max(free, 1024.0 * float(fields["MemAvailable:"]))  # with the page cache, which the system gives back
    with suppress(KeyError, OSError, ValueError):  # no control group, or one without a limit
        group = Path("/sys/fs/cgroup")
        limit, used = (float((group / name).read_text()) for name in ("memory.max", "memory.current"))
        fields = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        free = min(free, limit - used + float(fields["inactive_file"]))
    return free


@dataclass(eq=False)
class KernelMap:
    """Explicit features of a kernel (see the top of the file).

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "sigmoid", "laplacian", "precomputed"} or callable
    gamma, degree, coef0
        As in :class:`sklearn.svm.SVC`. A callable gets two sets of rows and returns the matrix of their kernel values.
    n_components : int or None
        Rank of a Nystroem approximation (less if K has less); the exact map if None or not below the number of rows.
        Landmarks are drawn in proportion to the residual diagonal, which is k-means++ seeding in the kernel's space; uniform
        landmarks leave a larger residual at high rank and on unbalanced clusters, the largest residuals first at low rank.
    random_state : int, RandomState or None
        Choice of landmarks. The exact map does not depend on it.
    trace_tol : float or None
        Stop at ``trace(K - Phi Phi') <= trace_tol * trace(K)``; None: 1e-12 for float64 and 1e-7 for float32.

    Attributes
    ----------
    pivots_ : ndarray of shape (r,)
        Row numbers of the pivots (landmarks), in the order of the columns of Phi.
    factor_ : ndarray of shape (r, r)
        L, the pivots' rows of Phi, as float64: lower triangular, ``L L' = K[pivots_][:, pivots_]``.
    cut_ : float
        The share of the kernel that was cut off: 0, or more for a "sigmoid" that is not semi-definite.
    gamma_, residual_ : float
        The number that `gamma` stands for (0 if the kernel has none), and ``trace(K - Phi Phi') / trace(K)``.
    largest_residual_, largest_value_ : float
        The largest entries of ``K - Phi Phi'`` (of a kernel that may be indefinite: what counts as rounding) and of K.

    Notes
    -----
    A kernel that may be indefinite ("precomputed", "sigmoid", a callable, "poly" with coef0 < 0) is refused if the residual
    has a negative diagonal entry or breaks the Cauchy-Schwarz inequality on random vectors or columns, by more than
    sqrt(machine epsilon) times the largest diagonal entry of K. What is smaller counts as rounding. Nothing is clipped, but
    for "sigmoid", which is hardly ever semi-definite: there the map is that of its definite part (`definite_part.py`).
    """

    kernel: str | Callable[[Any, Any], Any]
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    n_components: int | None = None
    random_state: Any = None
    trace_tol: float | None = None
    _rbf: RbfRows | None = field(default=None, init=False, repr=False)
    _back: NDArray[np.float64] | None = field(default=None, init=False, repr=False)  # of a definite part, not a factor

    def fit_transform(self, X: Any, sample_weight: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """Choose pivots and return Phi, of shape (n, r); r = 0 if the kernel is zero on all rows.

        Phi is float64; for very many float32 rows it is float32 too, to save memory.

        X is a dense array or a CSR matrix, float32 or float64; for a precomputed kernel the square kernel matrix.
        The weights enter gamma="scale", which counts a row of weight 2 as two rows.
        """
        Phi = self.fit_low_rank(X, sample_weight, X.shape[0])
        assert Phi is not None  # no rank is above n
        return Phi

    def fit_low_rank(self, X: Any, sample_weight: NDArray[np.float64] | None, highest: int) -> NDArray[Any] | None:
        """As `fit_transform`, but None as soon as the rank looks higher than `highest`; `gamma_` is set all the same."""
        if self.kernel == "precomputed":
            _check_matrix(X)
        self.gamma_ = self._resolve_gamma(X, sample_weight)
        self._rbf = None
        try:
            return self._fit(X, highest)
        finally:
            self._rbf = None  # a copy of X that is of no use later

    def some_promise_more(self, X: Any, sample_weight: NDArray[np.float64] | None, highest: int) -> bool:
        """Whether the rank of a few rows promises that of all to be higher than `highest`; sets `gamma_`.

        It is the share of their rank that a few rows have: half of `highest` in twice as many rows.
        """
        self.gamma_ = self._resolve_gamma(X, sample_weight)
        if highest < 1 or X.shape[0] <= 4 * highest:  # too few to draw some of
            return False
        some = np.sort(np.random.default_rng(0).choice(X.shape[0], size=2 * highest, replace=False))
        return replace(self, gamma=self.gamma_).fit_low_rank(X[some], None, highest // 2) is None

    def _fit(self, X: Any, highest: int) -> NDArray[Any] | None:
        limit = min(X.shape[0], self.n_components or X.shape[0])
        rng = np.random.default_rng(0 if limit == X.shape[0] else validation.seed_of(self.random_state))
        self.cut_, self._back = 0.0, None
        try:
            return self._factorised(X, limit, highest, rng)
        except _Indefinite as found:
            if self.kernel != "sigmoid":
                raise ValueError(str(found)) from None
        return self._cut(X, limit, rng)

    def _cut(self, X: Any, limit: int, rng: np.random.Generator) -> NDArray[Any]:
        """The map of the definite part."""
        from polymargin.features.definite_part import definite_part, distinct_rows

        rows = distinct_rows(X)
        self.pivots_ = rows if limit >= len(rows) else np.sort(rng.choice(rows, size=limit, replace=False))
        part = definite_part(lambda rows: self._block(X, rows, self.pivots_), self.pivots_, X.shape[0])
        self.cut_, self._back = part.cut, part.back
        self.residual_, self.largest_residual_, self.largest_value_ = 0.0, 0.0, 1.0  # a sigmoid's values are below 1
        return part.Phi

    def _factorised(self, X: Any, limit: int, highest: int, rng: np.random.Generator) -> NDArray[Any] | None:
        dtype = self._dtype_of_map(X, min(limit, highest))
        state = _Factor(self.diagonal(X), limit, dtype)
        self._check_diagonal(state)
        if self.kernel == "rbf" and not sparse.issparse(X):
            self._rbf = RbfRows(X, self.gamma_, dtype)
        tol = _TRACE_TOL[dtype] if self.trace_tol is None else self.trace_tol
        while not state.done(tol):
            if state.likely_rank(tol) > highest:
                return None
            self._step(X, state, rng, tol)
            self._check_diagonal(state)
        if self.may_be_indefinite:
            self._check_residual(X, state, rng)
        self.pivots_ = state.pivots
        self.factor_ = state.factor()
        self.residual_ = state.trace() / state.total if state.total > 0 else 0.0
        self.largest_residual_ = state.slack if self.may_be_indefinite else float(state.diagonal.max(initial=0.0))
        self.largest_value_ = state.scale
        if state.Phi.shape[1] > state.rank:
            state.reserve(state.rank)
        return state.Phi

    def _dtype_of_map(self, X: Any, rank: int) -> np.dtype[Any]:
        """float64, but for kernel values that are given in single precision, and for maps that take much memory."""
        given = callable(self.kernel) or self.kernel == "precomputed"
        return np.dtype(X.dtype if given or X.shape[0] * rank > _LARGE_MAP else np.float64)

    def coefficients(self, W: NDArray[Any]) -> NDArray[np.float64]:
        """A of shape (r, c) with ``phi(x)' W = k(x, X[pivots_]) A``, for W (r, c); a (stable) triangular solve."""
        W = np.asarray(W, dtype=np.float64)
        if self._back is not None:
            return self._back @ W
        return np.asarray(solve_triangular(self.factor_, W, lower=True, trans="T", check_finite=False))

    def kernel_rows(self, X_new: Any, X_support: Any) -> NDArray[Any]:
        """Kernel of new rows with support rows, of shape (n_new, n_support), in double precision whatever the rows are.

        For a precomputed kernel X_new holds kernel values with all training rows and X_support the support rows' numbers.
        """
        if self.kernel == "precomputed":
            return np.asarray(X_new[:, X_support], dtype=np.float64)
        if not X_support.shape[0]:  # a machine of offsets alone
            return np.empty((X_new.shape[0], 0))
        with np.errstate(over="ignore", invalid="ignore"):  # said in words
            if callable(self.kernel):
                block = self.kernel(X_new, X_support)
                block = block.toarray() if sparse.issparse(block) else np.asarray(block)
            elif self.kernel == "rbf":
                block = rbf_values(_double(X_new), _double(X_support), self.gamma_)
            else:
                knobs = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
                block = pairwise_kernels(_double(X_new), _double(X_support), metric=self.kernel, filter_params=True, **knobs)
        if block.shape != (X_new.shape[0], X_support.shape[0]):
            wanted = (X_new.shape[0], X_support.shape[0])
            raise ValueError(f"kernel={self.kernel!r} returned an array of shape {block.shape}; it must be {wanted}.")
        return self._finite(block).astype(np.float64, copy=False)

    def _finite(self, values: NDArray[Any]) -> NDArray[Any]:
        if not np.isfinite(values).all():
            raise ValueError(f"kernel={self.kernel!r} gives values that are not finite; scale X or lower gamma or degree.")
        return values

    @property
    def may_be_indefinite(self) -> bool:
        """Whether there are rows on which this kernel is not positive semi-definite."""
        return self.kernel not in ("linear", "rbf", "laplacian", "poly") or (self.kernel == "poly" and self.coef0 < 0)

    def _resolve_gamma(self, X: Any, sample_weight: NDArray[np.float64] | None) -> float:
        if self.kernel not in _WITH_GAMMA:
            return 0.0
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        variance = _variance(X, sample_weight)
        rounding = np.square(8.0 * np.finfo(np.float64).eps * validation.largest_entry(X))  # of equal entries
        return 1.0 / (X.shape[1] * variance) if variance > rounding else 1.0  # as SVC

    def _block(self, X: Any, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """K[rows, columns]."""
        if self.kernel == "precomputed":
            return np.asarray(X[np.ix_(rows, columns)])
        return self.kernel_rows(X[rows], X[columns]) if self._rbf is None else self._rbf.block(rows, columns)

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        """k(x, x) of each row; for a precomputed kernel X is the square matrix."""
        if self.kernel == "precomputed":
            return np.asarray(X.diagonal(), dtype=np.float64)
        if callable(self.kernel):
            tiles = _tiles(np.arange(X.shape[0]), _DIAGONAL_TILE)
            return np.concatenate([self._block(X, rows, rows).diagonal() for rows in tiles]).astype(np.float64)
        if self.kernel in ("rbf", "laplacian"):
            return np.ones(X.shape[0])
        squares = _squared_norms(X)
        if self.kernel == "sigmoid":
            return np.tanh(self.gamma_ * squares + self.coef0)
        with np.errstate(over="ignore"):  # said in words
            return self._finite((self.gamma_ * squares + self.coef0) ** self.degree if self.kernel == "poly" else squares)

    def _step(self, X: Any, state: _Factor, rng: np.random.Generator, tol: float) -> None:
        """One block of pivots: choose candidates, keep the independent ones, compute their columns."""
        pool = state.candidates(rng)
        block = self._block(X, pool, pool)
        _check_symmetric(self.kernel, np.abs(block - block.T).max(), np.abs(block).max(), block.dtype)
        block = block.astype(np.float64) - state.product(pool, pool)
        least = max(_KEEP * float(state.diagonal[pool].max()), state.floor)
        L, order, rank, _ = lapack.dpstrf(block, tol=least, lower=1)
        count = min(rank, _BLOCK, state.limit - state.rank)
        state.exhausted = not count
        pivots, L = pool[order[:count] - 1], np.tril(L[:count, :count])
        if count:
            state.extend(pivots, L, lambda rows: self._block(X, rows, pivots) - state.product(rows, pivots), tol)

    def _check_diagonal(self, state: _Factor) -> None:
        lowest = float(state.diagonal.min(initial=0.0))
        if lowest < -state.slack and self.may_be_indefinite:
            raise _indefinite(self.kernel, f"its residual has {lowest:.3g} on the diagonal (K: up to {state.scale:.3g})")

    def _check_residual(self, X: Any, state: _Factor, rng: np.random.Generator) -> None:
        """Cauchy-Schwarz: ``(E z)_i^2 <= E_ii z'Ez`` for every z if E = K - Phi Phi' is positive semi-definite.

        The diagonal does not tell: that of [[0, 1], [1, 0]] is 0. For a given matrix z is random signs, which see all
        entries; a function is asked for a few columns, of few rows for all: z = unit vectors.
        """
        n = len(state.diagonal)
        if self.kernel == "precomputed":
            Z = rng.choice(np.array([-1.0, 1.0]), size=(n, 4)).astype(X.dtype)
            image = (X @ Z).astype(np.float64)
        else:
            sample = np.arange(n) if n <= _ALL_COLUMNS else rng.choice(n, size=_SAMPLE, replace=False)
            Z = (np.arange(n)[:, None] == sample).astype(X.dtype)
            image = np.concatenate([self._block(X, rows, sample) for rows in _tiles(np.arange(n), _TILE)]).astype(np.float64)
        Phi = state.Phi[:, : state.rank]
        image -= Phi @ (Phi.T @ Z)
        lengths = np.einsum("ij,ij->j", Z, Z, dtype=np.float64)
        forms = np.einsum("ij,ij->j", Z, image)
        bound = np.sqrt(np.maximum(state.diagonal, 0.0)[:, None] * np.maximum(forms, 0.0)) + state.slack * np.sqrt(lengths)
        excess = float((np.abs(image) - bound).max())
        if excess > 0 or (forms < -state.slack * lengths).any():
            raise _indefinite(self.kernel, f"entries beside its diagonal are too large by {excess:.3g}")


class _Factor:
    """The growing factor: Phi, its pivots and the residual diagonal (float64, whatever Phi's dtype)."""

    def __init__(self, diagonal: NDArray[np.float64], limit: int, dtype: Any):
        n = len(diagonal)
        self.exact, self.limit = limit == n, limit
        self.diagonal, self.total = diagonal.copy(), float(diagonal.sum())
        self.scale = float(np.abs(diagonal).max(initial=0.0))
        self.slack = float(np.sqrt(np.finfo(dtype).eps)) * self.scale
        self.floor = 8.0 * float(np.finfo(dtype).eps) * self.scale
        self.pivots = np.empty(0, dtype=np.intp)
        self.free = np.ones(n, dtype=bool)
        self.exhausted = False  # set when fresh kernel values say that the rest is rounding
        self.Phi = np.empty((n, 0), dtype=dtype)
        self.reserve(min(n, _BLOCK) if self.exact else self.limit)  # Nystroem: the final size is known

    @property
    def rank(self) -> int:
        return len(self.pivots)

    def trace(self) -> float:
        return float(np.maximum(self.diagonal, 0.0).sum())

    def done(self, tol: float) -> bool:
        """Small enough, full, or at the level of rounding, of which a negative diagonal entry is a measurement."""
        enough = self.exhausted or self.rank >= self.limit or self.trace() <= tol * self.total
        return enough or bool(self.diagonal.max() <= max(self.floor, -8.0 * self.diagonal.min()))

    def likely_rank(self, tol: float) -> float:
        """The rank at which the trace reaches the tolerance if it falls on as it did; so far, if that is too early."""
        fallen = np.log(max(self.trace(), 1e-300) / self.total)
        early = self.rank < _BLOCK // 2 or fallen >= 0.0
        return float(self.rank) if early else min(float(self.limit), self.rank * max(1.0, np.log(tol) / fallen))

    def candidates(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Rows that may become pivots, none twice."""
        weight = np.where(self.free, np.maximum(self.diagonal, 0.0), 0.0)
        count = min(_POOL, int(np.count_nonzero(weight)))
        if self.exact:
            return np.argpartition(-weight, count - 1)[:count]
        count = min(count, _BLOCK, max(8, self.limit // 8))  # draws in large blocks would not see the residual change
        return rng.choice(len(weight), size=count, replace=False, p=weight / weight.sum())

    def product(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """(Phi Phi')[rows, columns]."""
        return np.asarray(self.Phi[rows, : self.rank] @ self.Phi[columns, : self.rank].T)

    def extend(self, pivots: NDArray[np.intp], L: NDArray[np.float64], columns: Callable[..., Any], tol: float) -> None:
        """New columns of Phi: L on the pivots, ``columns(rows) L^-T`` on free rows, 0 on earlier pivots."""
        start, stop = self.rank, self.rank + len(pivots)
        if stop > self.Phi.shape[1]:
            self.reserve(min(self.limit, max(stop, 2 * self.Phi.shape[1])))
        self.free[pivots] = False
        self.Phi[pivots, start:stop] = L
        for rows in _tiles(np.flatnonzero(self.free), self._tile(len(pivots))):
            block = columns(rows)
            self.Phi[rows, start:stop] = solve_triangular(L.astype(block.dtype), block.T, lower=True, check_finite=False).T
        new = self.Phi[:, start:stop]
        left = self.trace() - np.cumsum(np.einsum("ij,ij->j", new, new, dtype=np.float64))
        stop = min(start + 1 + int(np.count_nonzero(left > tol * self.total)), stop)  # what it takes to reach the tolerance
        self.free[pivots[stop - start :]] = True
        self.Phi[:, stop : start + len(pivots)] = 0.0
        new = self.Phi[:, start:stop]
        self.diagonal -= np.einsum("ij,ij->i", new, new, dtype=np.float64)
        self.pivots = np.concatenate([self.pivots, pivots[: stop - start]])
        self.diagonal[self.pivots] = 0.0

    def reserve(self, width: int) -> None:
        """A Phi of this width, if memory has room for it."""
        n = len(self.diagonal)
        needed, free = float(n) * width * self.Phi.itemsize, available_memory()
        if needed > free:
            raise MemoryError(
                f"The kernel features of {n} rows need {needed / 1e9:.3g} GB for {width} columns, but {free / 1e9:.3g} GB "
                f"are free. Set n_components= to at most {int(width * free / needed)} (Nystroem approximation of that rank)."
            )
        wider = np.zeros((n, width), dtype=self.Phi.dtype)
        for part in _strips(n, width):
            wider[part, : self.rank] = self.Phi[part, : self.rank]
        self.Phi = wider

    def factor(self) -> NDArray[np.float64]:
        """The pivots' rows of Phi."""
        L = np.empty((self.rank, self.rank))
        for part in _strips(self.rank, self.rank):
            L[part] = self.Phi[self.pivots[part], : self.rank]
        return L

    def _tile(self, n_columns: int) -> int:
        """Rows of a tile whose product with so many columns of Phi takes little time."""
        return max(64, min(_TILE, _PRODUCT_ENTRIES // max(1, n_columns * self.rank)))


def _strips(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows of this width that are copied in little time."""
    step = max(1, _COPY_ENTRIES // max(1, width))
    return (slice(start, start + step) for start in range(0, n, step))


def _double(X: Any) -> Any:
    return X if X.dtype == np.float64 else X.astype(np.float64)


def _tiles(rows: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _variance(X: Any, sample_weight: NDArray[np.float64] | None) -> float:
    """Variance of all entries of X, each row counted by its weight; about their mean, so that nothing cancels."""
    n, d = X.shape
    share = np.full(n, 1.0 / (n * d)) if sample_weight is None else sample_weight / (sample_weight.sum() * d)
    mean = float((share @ X).sum())
    if not sparse.issparse(X):
        parts = (slice(start, start + _TILE) for start in range(0, n, _TILE))
        squares = (np.square(np.subtract(X[part], mean, dtype=np.float64)).sum(axis=1) for part in parts)
        return float(share @ np.concatenate(list(squares)))
    counts = np.diff(X.indptr)
    squares = np.square(np.subtract(X.data, mean, dtype=np.float64))  # the mean of float32 entries need not be one
    return float(np.repeat(share, counts) @ squares) + float(share @ (d - counts)) * mean**2


def _squared_norms(X: Any) -> NDArray[np.float64]:
    """Of the rows, in double precision, as kernel values are."""
    if sparse.issparse(X):
        return np.asarray(row_norms(X.astype(np.float64, copy=False), squared=True))
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def _check_matrix(K: Any) -> None:
    """A precomputed kernel at fit: dense, square, finite, symmetric up to rounding."""
    if sparse.issparse(K):
        raise TypeError("kernel='precomputed' needs a dense matrix; X is sparse. Use X.toarray().")
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"kernel='precomputed' needs a square matrix of kernel values at fit; X has shape {K.shape}.")
    strips = [slice(start, start + _BLOCK) for start in range(0, len(K), _BLOCK)]
    largest = float(np.max([np.abs(K[strip]).max() for strip in strips], initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("kernel='precomputed': X contains NaN or infinity.")
    gaps = [np.abs(K[strip, : strip.stop] - K[: strip.stop, strip].T).max() for strip in strips]
    _check_symmetric("precomputed", float(np.max(gaps, initial=0.0)), largest, K.dtype)


def _check_symmetric(kernel: Any, gap: float, largest: float, dtype: Any) -> None:
    if gap > np.sqrt(np.finfo(dtype).eps) * largest:
        found = f"entries (i, j) and (j, i) differ by up to {gap:.3g}"
        raise ValueError(f"kernel={kernel!r} is not symmetric: {found}. If that is rounding, use (K + K.T) / 2.")


class _Indefinite(ValueError):
    """A kernel that is not positive semi-definite: some have a part that is."""


def _indefinite(kernel: Any, found: str) -> _Indefinite:
    return _Indefinite(
        f"kernel={kernel!r} is not positive semi-definite on these rows: {found}. Use another kernel or other kernel "
        "parameters, or pass kernel='precomputed' with K + shift * I or with negative eigenvalues set to zero (if K was "
        "computed in single precision, as float32)."
    )
