"""Rows of a kernel matrix on demand, in blocks, the least recently used forgotten first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.features import kernel_map as features
from polymargin.features.rbf import RbfRows

if TYPE_CHECKING:
    from polymargin.features.kernel_map import KernelMap

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

_CHUNK = 256  # rows of the matrix handled at a time, at most
_CHUNK_ENTRIES = 1 << 22  # and kernel values: a signal must not wait for long
_CHUNK_WORK = {"laplacian": 1 << 25}  # entries times features; distances that are no matrix product are slow
_TILE = 4096  # columns of a product whose kernel values are not kept
_SHARE = 0.5  # of the free memory for the cache
_FEW = 0.5  # of the entries of a factor: up to so many one by one are faster than a product of matrices
_FEWEST = 512  # rows the cache must have room for


class GramRows:
    """K of a positive semi-definite kernel on the rows of X (dense or CSR), in the dtype of X or in single precision.

    Single where values lie between 0 and 1 and are quick to find anew: the RBF kernel on dense rows. What rounding then does
    to sums of steps shrinks with the steps. `add_exact_product` and `exact_sums`, which proofs are made of, are in double.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    mapping : KernelMap
        The kernel, with `gamma_` set.
    reserved : float
        Bytes that the caller is going to need beside the cache.
    most : int, optional
        Rows of the largest block that is going to be asked for, if the cache has room for so many.
    """

    def __init__(self, X: Any, mapping: KernelMap, reserved: float = 0.0, most: int | None = None):
        fast = mapping.kernel == "rbf" and not sparse.issparse(X)
        self.n, self.dtype = int(X.shape[0]), np.dtype(np.float32) if fast else X.dtype
        self._X, self._mapping = X, mapping
        self.capacity = self._affordable(reserved + (12.0 * self.n * (X.shape[1] + 2) if fast else 0.0))
        self._cache = np.empty((self.capacity, self.n), dtype=self.dtype)  # the system gives pages as they are written
        self.largest = self.capacity if most is None else min(most, self.capacity)
        self._block: NDArray[np.float32] | None = None
        self._slot = np.full(self.n, -1, dtype=np.int64)
        self._row = np.full(self.capacity, -1, dtype=np.int64)
        self._used_at = np.zeros(self.capacity, dtype=np.int64)
        self._clock = self._filled = 0
        work = _CHUNK_WORK.get(str(mapping.kernel), 1 << 29) // max(1, X.shape[1])
        self._step = int(np.clip(min(_CHUNK_ENTRIES, work) // self.n, 1, _CHUNK))
        self._rbf = self._exact = RbfRows(X, mapping.gamma_) if fast else None
        if self._exact is not None and self._exact.dtype == np.float64:
            self._rbf = self._exact.in_single()

    def _affordable(self, reserved: float) -> int:
        """Rows for which there is room."""
        row, free = float(self.n) * self.dtype.itemsize, features.available_memory()
        rows = int(min(self.n, max(0.0, _SHARE * (free - reserved)) // row)) if np.isfinite(free) else self.n
        if rows < min(self.n, _FEWEST):
            needed = reserved + min(self.n, _FEWEST) * row / _SHARE
            raise MemoryError(
                f"A kernel machine on {self.n} rows needs at least {needed / 1e9:.3g} GB, but {free / 1e9:.3g} GB are free. "
                f"Set n_components= to at most {max(1, int(free / (2 * row)))} (Nystroem approximation of that rank)."
            )
        return rows

    def block(self, rows: Rows) -> NDArray[np.float32]:
        """K[rows][:, rows] in single precision, until the next call."""
        self._fetch(rows)
        if self._block is None:  # for all sizes: pages that were written once are not cleared again
            self._block = np.empty(self.largest**2, dtype=np.float32)
        block = self._block[: len(rows) ** 2].reshape(len(rows), len(rows))
        step = max(1, _CHUNK_ENTRIES // max(1, len(rows)))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            native.gather(self._cache, self._slot[rows[part]], rows, block[part])
        return block

    def add_product(self, rows: Rows, T: Array, S: Array) -> None:
        """``S += T' K[rows]`` for T (m, c) and S (c, n), summed in double precision over chunks of rows."""
        moved = T.any(axis=1)
        rows, T = rows[moved], T[moved]
        order = np.argsort(self._slot[rows])  # cached rows lie side by side where they came together
        few = np.count_nonzero(T) < _FEW * T.size
        for start in range(0, len(rows), _CHUNK):
            some = order[start : start + _CHUNK]
            if few:
                self._fetch(rows[some])
                native.add_rows(self._cache, self._slot[rows[some]], T[some], S)
            else:
                S += T[some].T.astype(self.dtype) @ self._rows(rows[some])

    def add_exact_product(self, rows: Rows, T: Array, S: Array) -> None:
        """The same with kernel values in double precision, also of float32 rows: for proofs."""
        if self.dtype == np.float64:  # as kept
            return self.add_product(rows, T, S)
        few = np.count_nonzero(T) < _FEW * T.size
        for start in range(0, len(rows), _CHUNK):
            some = slice(start, start + _CHUNK)
            for first in range(0, self.n, _TILE):
                tile = slice(first, first + _TILE)
                K = np.ascontiguousarray(self._exact_block(rows[some], tile), dtype=np.float64)
                if few:
                    part = np.zeros((len(S), K.shape[1]))
                    native.add_rows(K, np.arange(len(K)), T[some], part)
                    S[:, tile] += part
                else:
                    S[:, tile] += T[some].T @ K

    def exact_sums(self, rows: Rows, T: Array) -> Array:
        """``K[rows][:, rows] T`` for T (m, c), in double precision."""
        out = np.empty_like(T)
        for start in range(0, len(rows), _CHUNK):
            some = slice(start, start + _CHUNK)
            out[some] = self._exact_block(rows[some], rows) @ T
        return out

    def _exact_block(self, rows: Rows, columns: Rows | slice) -> Array:
        if self.dtype == np.float64:
            return np.asarray(self._rows(rows)[:, columns])
        if self._exact is not None and self._exact.dtype == np.float64:
            return np.asarray(self._exact.block(rows, columns))
        return self._mapping.kernel_rows(self._X[rows], self._X[columns])

    def _rows(self, rows: Rows) -> NDArray[Any]:
        """K[rows], without a copy if they lie side by side in the cache."""
        self._fetch(rows)
        slots = self._slot[rows]
        if slots[-1] - slots[0] == len(slots) - 1 and (np.diff(slots) == 1).all():
            return self._cache[slots[0] : slots[-1] + 1]
        return self._cache[slots]

    def _fetch(self, rows: Rows) -> None:
        """Computes the rows that are not in the cache."""
        self._clock += 1
        known = self._slot[rows] >= 0
        self._used_at[self._slot[rows[known]]] = self._clock
        missing = rows[~known]
        for start in range(0, len(missing), self._step):
            some = missing[start : start + self._step]
            slots = self._free_slots(len(some))
            if slots[-1] - slots[0] == len(slots) - 1:
                self._compute(some, self._cache[slots[0] : slots[-1] + 1])
            else:
                block = np.empty((len(some), self.n), dtype=self.dtype)
                self._compute(some, block)
                self._cache[slots] = block
            self._slot[some], self._row[slots], self._used_at[slots] = slots, some, self._clock

    def _free_slots(self, count: int) -> Rows:
        """Slots that were never used, or else those longest out of use, in ascending order."""
        if self._filled + count <= self.capacity:
            self._filled += count
            return np.arange(self._filled - count, self._filled)
        self._filled = self.capacity
        slots = np.sort(np.argpartition(self._used_at, count - 1)[:count])
        forgotten = self._row[slots]
        self._slot[forgotten[forgotten >= 0]] = -1
        self._row[slots] = -1
        return slots

    def _compute(self, rows: Rows, out: NDArray[Any]) -> None:
        if self._rbf is None:
            out[:] = self._mapping.kernel_rows(self._X[rows], self._X)
        else:
            self._rbf.block(rows, out=out)
