"""Where the duals of a row may lie, for losses of the margins to the rival classes.

    loss(s, y) = max_{a in A} sum_{l != y} a_l (1 - s_y + s_l)          or the square of that

with the domain A a set of duals ``a_l >= 0`` of the classes l other than the own one. The duals of a row of cost u lie in
``u A``. All domains grow with u and hold 0, so one function says everything about them: the gauge, the least u with
``a in u A``. The conjugate of the loss, of its square, and how far duals may be stretched follow from it.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Classes = NDArray[np.integer]

_ROUNDING = 1e-9  # of the largest dual: what the ratios of duals may be off
_HALVINGS = 60
_NOTHING = 1e-14  # of the cost: what bisections leave of 0


class Projected(NamedTuple):
    """The nearest duals, which of them are free to move, and the rows whose duals must keep their sum."""

    A: Array
    free: Mask  # (n, c)
    closed: Mask  # (n,)


class Domain(abc.ABC):
    """A set of duals, a value: two with the same name and parameters are the same.

    Arrays of duals are ``(n, c)`` with 0 at the own classes; `upper` are the costs ``(n,)``.

    Attributes
    ----------
    name : str
        Also that of its header in ``_core/domains/``, if native loops solve the loss; with ``squared_`` before it that of
        the header for its square.
    interior_block, squared_interior_block : str or None
        The slacks of the interior point, for the loss and its square; None where it has no such block.
    """

    name: ClassVar[str]
    interior_block: ClassVar[str | None] = None
    squared_interior_block: ClassVar[str | None] = None

    @property
    def has_plain_faces(self) -> bool:
        """Whether `Projected` says all about the face that a projection lies on: Newton's method with multipliers asks.

        Then a dual is free, or at a bound of its own, and the free ones of a closed row are tied by their sum alone.
        """
        return False

    @property
    def parameters(self) -> tuple[float, ...]:
        """What the core needs to know besides the name."""
        return ()

    @abc.abstractmethod
    def gauge(self, A: Array) -> Array:
        """The least u with ``a in u A`` for each row of non-negative duals, ``(n,)``; inf if there is none."""

    @abc.abstractmethod
    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        """The points of the rows' domains that are nearest to T."""

    def room(self, A: Array, upper: Array) -> float:
        """The largest factor up to 1 that keeps these non-negative duals in their domains."""
        return float((upper / np.maximum(self.gauge(A), upper)).min())

    def repaired(self, A: Array, y: Classes, upper: Array) -> Array:
        """Duals in the domains near A, with flows between the classes that circulate if those of A do: here a multiple."""
        return np.asarray(self.room(A, upper) * A)

    def of_rows(self, y: Classes, cost: Array) -> RowDomains:
        """The domains of all rows of a problem."""
        return RowDomains(self, y, cost)


@dataclass(frozen=True)
class RowDomains:
    """One domain for rows of given classes and costs."""

    domain: Domain
    y: Classes
    cost: Array

    def project(self, T: Array) -> Projected:
        return self.domain.project(T, self.y, self.cost)

    def room(self, A: Array) -> float:
        return self.domain.room(A, self.cost)

    def repaired(self, A: Array) -> Array:
        return self.domain.repaired(A, self.y, self.cost)


@dataclass(frozen=True)
class Box(Domain):
    """``a_l <= 1``: all rival classes count (Weston & Watkins)."""

    name = "box"
    interior_block = "weston_watkins"

    @property
    def has_plain_faces(self) -> bool:
        return True

    def gauge(self, A: Array) -> Array:
        return np.asarray(A.max(axis=1))

    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        T, top = T.copy(), upper[:, None]
        T[np.arange(len(y)), y] = 0.0
        return Projected(np.clip(T, 0.0, top), (T > 0.0) & (top > T), np.zeros(len(T), dtype=bool))


@dataclass(frozen=True)
class Simplex(Domain):
    """``sum_l a_l <= 1``: the closest rival class counts (Crammer & Singer)."""

    name = "simplex"
    interior_block, squared_interior_block = "crammer_singer", "squared_crammer_singer"

    @property
    def has_plain_faces(self) -> bool:
        return True

    def gauge(self, A: Array) -> Array:
        return np.asarray(A.sum(axis=1))

    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        A = np.maximum(T, 0.0)
        A[np.arange(len(y)), y] = 0.0
        closed = A.sum(axis=1) >= upper
        rows = np.flatnonzero(closed)
        if len(rows):
            A[rows] = np.maximum(T[rows] - self._levels(A[rows], upper[rows])[:, None], 0.0)
            A[rows, y[rows]] = 0.0
        return Projected(A, A > 0.0, closed)

    @staticmethod
    def _levels(A: Array, upper: Array) -> Array:
        """The t for which the positive parts of ``A - t`` add up to `upper` in each row; those of A exceed it."""
        falling = -np.sort(-A, axis=1)
        levels = (np.cumsum(falling, axis=1) - upper[:, None]) / np.arange(1, A.shape[1] + 1)
        members = np.count_nonzero(falling > levels, axis=1)  # of those that stay positive
        return np.asarray(levels[np.arange(len(A)), members - 1])


@dataclass(frozen=True)
class TopKSimplex(Domain):
    """The k closest classes count, the own one among them (Lapin, Hein & Schiele 2015, the alpha form).

    With the own class's share ``a_y = S - sum_l a_l`` all shares lie in ``[0, S / k]`` and add up to S <= 1. That is

        sum_l a_l <= S,     a_l <= S / k,     S - sum_l a_l <= S / k,     S <= 1

    for some S. Without S: ``sum_l a_l <= 1``, ``a_l <= 1 / k``, and a cone, ``(k - 1) a_l <= sum_j a_j``, which ties the
    duals to each other, whatever their size. Only from k = 3 on that says anything; for k = 1 this is the simplex.
    """

    k: int

    name = "top_k"

    @property
    def parameters(self) -> tuple[float, ...]:
        return (float(self.k),)

    def gauge(self, A: Array) -> Array:
        total, largest = A.sum(axis=1), A.max(axis=1)
        tied = (self.k - 1) * largest <= total + _ROUNDING * largest
        return np.where(tied, np.maximum(total, self.k * largest), np.inf)

    @property
    def has_plain_faces(self) -> bool:
        return self.k <= 2

    def repaired(self, A: Array, y: Classes, upper: Array) -> Array:
        """Duals beside the cone have no multiple inside: as much of equal duals is added as brings all rows there.

        With ``a_il = w_i``, and w of the same sum in every class, each class gives each other class the same. If k is the
        number of classes, there are only such duals.
        """
        beside = np.maximum((self.k - 1) * A.max(axis=1) - A.sum(axis=1), 0.0)
        out, c = np.flatnonzero(beside), A.shape[1]
        if len(out):
            w = A.sum(axis=1) / (c - 1) if self.k == c else upper / max(c - 1, self.k)
            totals = np.bincount(y, w, c)
            w = w * totals.min() / np.maximum(totals, 1e-300)[y]
            part = float((beside[out] / (beside[out] + (c - self.k) * w[out])).max())
            A = (1.0 - part) * A + part * np.where(np.arange(c) != y[:, None], w[:, None], 0.0)
        return super().repaired(A, y, upper)

    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        rivals = np.ones(T.shape, dtype=bool)
        rivals[np.arange(len(y)), y] = False
        return self._project_on_cone(T, rivals, upper) if self.k > 2 else self._project_on_box(T, rivals, upper)

    def _project_on_box(self, T: Array, rivals: Mask, upper: Array) -> Projected:
        """``a_l <= u / k``, ``sum_l a_l <= u``."""
        cap = upper / self.k
        A = np.where(rivals, np.clip(T, 0.0, cap[:, None]), 0.0)
        closed = A.sum(axis=1) >= upper
        rows = np.flatnonzero(closed)
        if len(rows):
            T, cap = np.where(rivals[rows], T[rows], 0.0), cap[rows]  # the level is positive: 0 stays 0
            A[rows] = np.clip(T - _levels_of_box(T, cap, upper[rows])[:, None], 0.0, cap[:, None])
        return Projected(A, (A > 0.0) & (upper[:, None] / self.k > A), closed)

    def _project_on_cone(self, T: Array, rivals: Mask, upper: Array) -> Projected:
        """By two nested bisections: on S, whose slope is that of the Lagrangian, and on what all duals of a row lose."""
        low, high = np.zeros(len(T)), np.array(upper, dtype=np.float64)
        for _ in range(_HALVINGS):
            S = 0.5 * (low + high)
            rises = self._slope(T, rivals, S) > 0.0
            low, high = np.where(rises, low, S), np.where(rises, S, high)
        S = np.where(high > _NOTHING * upper, high, 0.0)
        A = self._given_total(T, rivals, S)[0]
        return Projected(A, (A > 0.0) & (S[:, None] / self.k > A), A.sum(axis=1) >= upper)

    def _slope(self, T: Array, rivals: Mask, S: Array) -> Array:
        """Of half the squared distance, as a function of S."""
        _, level = self._given_total(T, rivals, S)
        over = np.maximum(np.where(rivals, T - level[:, None] - S[:, None] / self.k, 0.0), 0.0).sum(axis=1)
        return np.asarray(-np.maximum(level, 0.0) - (1.0 - 1.0 / self.k) * np.minimum(level, 0.0) - over / self.k)

    def _given_total(self, T: Array, rivals: Mask, S: Array) -> tuple[Array, Array]:
        """The nearest duals for given S, and the level that is taken off all of them."""
        cap = S[:, None] / self.k

        def at(level: Array) -> Array:
            return np.where(rivals, np.clip(T - level[:, None], 0.0, cap), 0.0)

        total = at(np.zeros(len(T))).sum(axis=1)
        wanted = np.clip(total, (1.0 - 1.0 / self.k) * S, S)
        reach = np.abs(T).max(axis=1) + S
        low, high = np.where(total < wanted, -reach, 0.0), np.where(total > wanted, reach, 0.0)
        for _ in range(_HALVINGS):
            level = 0.5 * (low + high)
            more = at(level).sum(axis=1) > wanted
            low, high = np.where(more, level, low), np.where(more, high, level)
        level = np.where(total == wanted, 0.0, high)
        return at(level), level


def _levels_of_box(T: Array, cap: Array, total: Array) -> Array:
    """The t >= 0 for which ``clip(T - t, 0, cap)`` add up to `total` in each row.

    As t falls an entry begins to count at ``t = T`` and ends at ``t = T - cap``: in between the sum is a line.
    """
    n, c = T.shape
    falling = np.concatenate([T, T - cap[:, None]], axis=1)
    order = np.argsort(-falling, axis=1)
    levels = np.take_along_axis(falling, order, axis=1)
    slopes = np.cumsum(np.where(order < c, 1.0, -1.0), axis=1)
    sums = np.zeros((n, 2 * c))
    np.cumsum(-slopes[:, :-1] * np.diff(levels, axis=1), axis=1, out=sums[:, 1:])
    last, rows = np.count_nonzero(sums < total[:, None], axis=1) - 1, np.arange(n)
    found = levels[rows, last] - (total - sums[rows, last]) / np.maximum(slopes[rows, last], 1.0)
    return np.maximum(found, 0.0)  # rounding aside, the sum exceeds the total at 0
