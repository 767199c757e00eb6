"""Where the duals of one row may lie: for all rows at once, their projection and the face it lies on.

Duals ``a_il >= 0`` belong to the classes l other than the own one; the entries of the own class stay 0.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Projected(NamedTuple):
    """The nearest duals, which of them are free to move, and the rows whose duals must keep their sum."""

    A: Array
    free: Mask  # (n, c)
    closed: Mask  # (n,)


class Polytope(Protocol):
    """The set of the duals of all rows."""

    def project(self, T: Array) -> Projected:
        """The point of the set that is nearest to T."""

    def room(self, A: Array) -> float:
        """The largest factor up to 1 that keeps these non-negative duals in the set."""


class Boxes:
    """``a_il <= u_i``: Weston-Watkins."""

    def __init__(self, y: NDArray[np.int32], cost: Array):
        self._own, self._upper = (np.arange(len(y)), y), cost[:, None]

    def project(self, T: Array) -> Projected:
        T = T.copy()
        T[self._own] = 0.0
        return Projected(np.clip(T, 0.0, self._upper), (T > 0.0) & (self._upper > T), np.zeros(len(T), dtype=bool))

    def room(self, A: Array) -> float:
        return float((self._upper / np.maximum(A.max(axis=1, keepdims=True), self._upper)).min())


class Simplices:
    """``sum_l a_il <= u_i``: Crammer-Singer."""

    def __init__(self, y: NDArray[np.int32], cost: Array):
        self._own, self._upper = (np.arange(len(y)), y), cost

    def project(self, T: Array) -> Projected:
        A = np.maximum(T, 0.0)
        A[self._own] = 0.0
        closed = A.sum(axis=1) >= self._upper
        rows = np.flatnonzero(closed)
        if len(rows):
            A[rows] = np.maximum(T[rows] - self._levels(A[rows], self._upper[rows])[:, None], 0.0)
            A[rows, self._own[1][rows]] = 0.0
        return Projected(A, A > 0.0, closed)

    @staticmethod
    def _levels(A: Array, upper: Array) -> Array:
        """The t for which the positive parts of ``A - t`` add up to `upper` in each row; those of A exceed it."""
        falling = -np.sort(-A, axis=1)
        levels = (np.cumsum(falling, axis=1) - upper[:, None]) / np.arange(1, A.shape[1] + 1)
        members = np.count_nonzero(falling > levels, axis=1)  # of those that stay positive
        return np.asarray(levels[np.arange(len(A)), members - 1])

    def room(self, A: Array) -> float:
        return float((self._upper / np.maximum(A.sum(axis=1), self._upper)).min())


POLYTOPES: dict[str, type[Simplices] | type[Boxes]] = {"crammer_singer": Simplices, "weston_watkins": Boxes}
