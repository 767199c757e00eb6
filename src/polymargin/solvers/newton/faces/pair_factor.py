"""The factor of the system of pairs on their margins, which also solves those of a few pairs less or more."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin._core import native
from polymargin.solvers.interior.pair_iterate import PairIterate
from polymargin.solvers.types import signs_of

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

_RIDGE = 1e-10  # relative, on the diagonal of M
_FAR, _MOVES = 0.5, 3.0  # while the weights still move, it serves up to the first, and up to so many of their last moves
_NEAR = 0.05  # a factor serves weights whose logarithms have moved by less
_BORDER = 60  # pairs that may leave or join before a new factor pays


class ClassMetric(Protocol):
    """The metric that weights Q of the pairs of classes make, known by log Q, with its inverse P."""

    log_Q: Array
    P: Array

    def step(self, W: Array) -> Array:
        """The move of log Q towards what W asks for."""

    def set(self, log_Q: Array) -> None:
        """Other weights."""


class PairFactor:
    """The factor of the system of some pairs; it also solves the systems of a few pairs less or more.

    With steps x of the pairs of the factor, and z of the offsets, of the slacks of pairs that left and of the duals of pairs
    that joined:  ``M x + N z = misses``,  ``N' x + C z = right``.
    """

    def __init__(self, now: PairIterate, metric: ClassMetric, where: Mask, factor: Array):
        self._base, self._factor, self._log_Q, self._P = where, factor, metric.log_Q, metric.P
        self._pairs = np.flatnonzero(where)
        self._products = now.design.products
        self._y, self._n_classes, self._free = now.y, now.S.shape[1], now.problem.fit_intercept
        self._borders: dict[int, tuple[Array, Array]] = {}  # columns of N, and M^-1 times them, by pair
        if self._free:
            self._signs_of_all = self._signs(self._pairs)
            self._solved_signs = dpotrs(factor, self._signs_of_all, lower=1)[0]

    @classmethod
    def of(cls, now: PairIterate, metric: ClassMetric, where: Mask) -> PairFactor | None:
        """None if the system cannot be factorised."""
        rows, rivals = np.nonzero(where)
        K, at = now.design.products.of(rows)
        M = now.room(len(rows) ** 2).reshape(len(rows), len(rows))
        native.pair_matrix(K, at.astype(np.int32), now.y[rows], rivals.astype(np.int32), metric.P, M)
        M[np.diag_indices_from(M)] *= 1.0 + _RIDGE
        factor, failed = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        return None if failed else cls(now, metric, where, factor)

    def serves(self, where: Mask, metric: ClassMetric, moved: float) -> bool:
        """Whether the factor is good enough for these pairs and this metric, which has moved last by so much."""
        far = float(np.abs(metric.log_Q - self._log_Q).max())
        near = far <= _NEAR or far <= min(_FAR, _MOVES * moved)
        return bool(near and np.count_nonzero(where != self._base) <= _BORDER)

    def steps(self, now: PairIterate, where: Mask) -> tuple[Array, Array]:
        """Steps of all duals (n, c), and of the offsets, that put the pairs on their margins."""
        left, joined = np.flatnonzero(self._base & ~where), np.flatnonzero(where & ~self._base)
        out, offsets = np.zeros(now.A.shape), np.zeros(self._n_classes)
        x = dpotrs(self._factor, self._misses(now, self._pairs), lower=1)[0]
        if self._free or len(left) or len(joined):
            N, solved = self._border(left, joined)
            z = np.linalg.solve(self._corner(now, left, joined) - N.T @ solved, self._right(now, left, joined) - N.T @ x)
            x -= solved @ z
            if self._free:
                offsets = z[: self._n_classes] - z[: self._n_classes].mean()
            out.flat[joined] = z[len(z) - len(joined) :]
        out.flat[self._pairs] = x
        out.flat[left] = 0.0
        return out, offsets

    def _misses(self, now: PairIterate, pairs: Index) -> Array:
        rows, rivals = np.divmod(pairs, self._n_classes)
        return np.asarray(1.0 - (now.S[rows, self._y[rows]] - now.S[rows, rivals]))

    def _signs(self, pairs: Index) -> Array:
        """``e_y - e_k`` of the pairs."""
        rows, rivals = np.divmod(pairs, self._n_classes)
        return signs_of(self._y[rows], rivals, self._n_classes)

    def _matrix(self, pairs: Index, others: Index) -> Array:
        """M between some pairs and others."""
        K, at = self._products.of(np.r_[pairs, others] // self._n_classes)
        first, second = at[: len(pairs)], at[len(pairs) :]
        return np.asarray(K[first[:, None], second] * (self._signs(pairs) @ self._P @ self._signs(others).T))

    def _border(self, left: Index, joined: Index) -> tuple[Array, Array]:
        """N and ``M^-1 N``."""
        wanted = np.r_[left, joined]
        new = np.array([pair for pair in wanted.tolist() if pair not in self._borders], dtype=np.intp)
        if len(new):
            inside = self._base.ravel()[new]
            columns = np.zeros((len(self._pairs), len(new)))
            columns[np.searchsorted(self._pairs, new[inside]), np.flatnonzero(inside)] = 1.0
            if not inside.all():
                columns[:, ~inside] = self._matrix(self._pairs, new[~inside])
            found = dpotrs(self._factor, columns, lower=1)[0]
            self._borders.update((pair, (columns[:, k], found[:, k])) for k, pair in enumerate(new.tolist()))
        parts = [self._borders[pair] for pair in wanted.tolist()]
        N, solved = [part[0] for part in parts], [part[1] for part in parts]
        if self._free:
            N, solved = [self._signs_of_all, *N], [self._solved_signs, *solved]
        return np.column_stack(N), np.column_stack(solved)

    def _corner(self, now: PairIterate, left: Index, joined: Index) -> Array:
        """C. All offsets may grow by the same number, so that direction is held."""
        c = self._n_classes if self._free else 0
        C = np.zeros((c + len(left) + len(joined),) * 2)
        if len(joined):
            C[c + len(left) :, c + len(left) :] = self._matrix(joined, joined)
        if self._free:
            rate = float(slope_of_offsets(now, np.ones(1))[0])
            held = float(np.einsum("jk,jk->", self._signs_of_all, self._solved_signs)) / c**2
            C[:c, :c] = -rate * np.eye(c) - held
            C[:c, c + len(left) :] = self._signs(joined).T
            C[c + len(left) :, :c] = self._signs(joined)
        return C

    def _right(self, now: PairIterate, left: Index, joined: Index) -> Array:
        misses = np.r_[np.zeros(len(left)), self._misses(now, joined)]
        if not self._free:
            return misses
        _, b = now.design.split(now.V)
        return np.r_[slope_of_offsets(now, b) - now.sums(), misses]


def slope_of_offsets(now: PairIterate, b: Array) -> Array:
    penalty: Any = now.problem.penalty  # one that holds the offsets
    return np.asarray(penalty.offset_gradient(b))
