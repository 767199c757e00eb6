"""Where the duals of a row may lie: all that a loss of margins is.

    loss(s, y) = max_{a in A} sum_j a_j e_j          e_j = delta_j - <D_j, s>, the violations of its margins (margins.py)

with the domain A a set of duals ``a_j >= 0``, one for each margin. The duals of a row of cost u lie in ``u A``. All domains
grow with u and hold 0, so one function says everything about them: the gauge, the least u with ``a in u A``. The conjugate
of the loss and how far duals may be stretched follow from it. A squared loss has no such bound: its conjugate has a square
of the duals instead.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from polymargin.losses.domains.margins import TO_RIVALS, Array, Classes, Margins, Mask


class Projected(NamedTuple):
    """The nearest duals, and the face of the domain they lie on.

    A dual is free to move, or tied to others of its row that all move by the same t, or stands still. In a closed row the
    free ones must move by ``ratio * t`` in sum. A row without tied duals has a t too, if the loss is squared: that of its
    gauge. What t costs, ``weight * t^2 / 2``, is infinite where it stands still. Squares of single duals shrink their moves.
    """

    A: Array
    free: Mask  # (n, c)
    closed: Mask  # (n,)
    tied: Mask | None = None  # (n, c)
    ratio: Array | float = 0.0  # (n,)
    weight: Array | float = np.inf  # (n,)
    shrink: Array | None = None  # (n, c)

    def along(self, V: Array) -> Array:
        """How the projection moves if the point moves by V, ``(n, c)``: nearest moves of the face."""
        if self.shrink is not None:
            return np.where(self.free, self.shrink * V, 0.0)
        free, n_free = np.where(self.free, V, 0.0), self.free.sum(axis=1)
        tied = np.zeros_like(V, dtype=bool) if self.tied is None else self.tied
        stiff = tied.sum(axis=1) + self.weight
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(stiff > 0.0, np.where(tied, V, 0.0).sum(axis=1) / stiff, 0.0)
            bend = np.where(stiff > 0.0, self.ratio**2 / stiff, np.where(np.equal(self.ratio, 0.0), 0.0, np.inf))
            level = np.nan_to_num(np.where(self.closed, (free.sum(axis=1) - self.ratio * t) / (n_free + bend), 0.0))
            t = np.where(stiff > 0.0, t + self.ratio * level / stiff, 0.0)
        return np.where(self.free, V - level[:, None], np.where(tied, t[:, None], 0.0))


class Domain(abc.ABC):
    """A set of duals, a value: two with the same name, margins and parameters are the same.

    Arrays of duals and violations are ``(n, c)`` with 0 where there is no margin; `upper` are the costs ``(n,)``.

    Attributes
    ----------
    name : str
        Also that of its header in ``_core/domains/``, if native loops solve the loss: with ``absolute_`` before it if its
        margins are, and ``squared_`` before that for its square.
    margins : Margins
        What the duals belong to.
    interior_block, squared_interior_block : str or None
        The slacks of the interior point, for the loss and its square; None where it has no such block.
    """

    name: ClassVar[str]
    margins: Margins = TO_RIVALS
    interior_block: ClassVar[str | None] = None
    squared_interior_block: ClassVar[str | None] = None

    @property
    def has_plain_faces(self) -> bool:
        """Whether `Projected` says all about the face that a projection lies on: Newton's method with multipliers asks.

        Then a dual is free, or at a bound of its own, and the free ones of a closed row are tied by their sum alone.
        """
        return False

    @property
    def is_maximum(self) -> bool:
        """Whether the loss is the largest of its violations and 0: duals are weights of pieces, one of which is 0."""
        return False

    @property
    def parameters(self) -> tuple[float, ...]:
        """What the core needs to know besides the name."""
        return ()

    @abc.abstractmethod
    def largest(self, E: Array, y: Classes) -> tuple[Array, Array]:
        """``max_{a in A} <a, e>`` of each row, ``(n,)``, and the duals that attain it."""

    @abc.abstractmethod
    def gauge(self, A: Array, y: Classes) -> Array:
        """The least u with ``a in u A`` for each row of non-negative duals, ``(n,)``; inf if there is none."""

    def largest_squared(self, E: Array, y: Classes) -> tuple[Array, Array]:
        """The squared loss of the violations, ``(n,)``, and its derivative in them: here the square of the maximum."""
        value, A = self.largest(E, y)
        return value**2, 2.0 * value[:, None] * A

    square_is_quadratic: ClassVar[bool] = False  # whether `square` is a quadratic form of the duals

    def square(self, A: Array, y: Classes) -> Array:
        """Four times the conjugate of the squared loss, without its linear part."""
        return np.asarray(self.gauge(A, y) ** 2)

    @abc.abstractmethod
    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        """The points of the rows' domains that are nearest to T."""

    @abc.abstractmethod
    def project_squared(self, T: Array, y: Classes, stiff: Array) -> Projected:
        """The duals with the least ``1/2 |a - T|^2 + stiff/2 * square(a)``, `stiff` for each row, ``(n,)``."""

    def room(self, A: Array, y: Classes, upper: Array) -> float:
        """The largest factor up to 1 that keeps these non-negative duals in their domains."""
        return float((upper / np.maximum(self.gauge(A, y), upper)).min())

    def repaired(self, A: Array, y: Classes, upper: Array) -> Array:
        """Duals in the domains near A, with flows between the classes that circulate if those of A do: here a multiple."""
        return np.asarray(self.room(A, y, upper) * A)

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
        return self.domain.room(A, self.y, self.cost)

    def repaired(self, A: Array) -> Array:
        return self.domain.repaired(A, self.y, self.cost)


@dataclass(frozen=True)
class Box(Domain):
    """``a_j <= 1``, or the weight of the margin: all of them count (Weston & Watkins)."""

    margins: Margins = TO_RIVALS
    own_weight: float = 1.0
    rival_weight: float = 1.0

    name = "box"
    interior_block = "weston_watkins"

    @property
    def has_plain_faces(self) -> bool:
        return True

    @property
    def parameters(self) -> tuple[float, ...]:
        if self.margins.relative:
            return ()
        return self.own_weight * self.margins.own, self.rival_weight * self.margins.rivals

    def weights(self, y: Classes, n_classes: int) -> Array:
        """The largest duals at a cost of 1, ``(n, c)``."""
        out = np.where(self.margins.present(y, n_classes), self.rival_weight, 0.0)
        if self.margins.own:
            out[np.arange(len(y)), y] = self.own_weight
        return out

    def largest(self, E: Array, y: Classes) -> tuple[Array, Array]:
        A = self.weights(y, E.shape[1]) * (E > 0.0)
        return (A * E).sum(axis=1), A

    def largest_squared(self, E: Array, y: Classes) -> tuple[Array, Array]:
        """The sum of the squares."""
        half = self.weights(y, E.shape[1]) * np.maximum(E, 0.0)
        return (half * E).sum(axis=1), 2.0 * half

    def gauge(self, A: Array, y: Classes) -> Array:
        return np.asarray(_shares(A, self.weights(y, A.shape[1])).max(axis=1))

    square_is_quadratic = True

    def square(self, A: Array, y: Classes) -> Array:
        return np.asarray((A * _shares(A, self.weights(y, A.shape[1]))).sum(axis=1))

    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        top = self.weights(y, T.shape[1]) * upper[:, None]
        return Projected(np.clip(T, 0.0, top), (T > 0.0) & (top > T), np.zeros(len(T), dtype=bool))

    def project_squared(self, T: Array, y: Classes, stiff: Array) -> Projected:
        weights = self.weights(y, T.shape[1])
        shrink = weights / (weights + stiff[:, None])
        A = shrink * np.maximum(T, 0.0)
        return Projected(A, A > 0.0, np.zeros(len(T), dtype=bool), shrink=shrink)


def _shares(A: Array, weights: Array) -> Array:
    """Duals in units of their weights."""
    return np.divide(A, weights, out=np.where(A > 0.0, np.inf, 0.0), where=weights > 0.0)


@dataclass(frozen=True)
class Simplex(Domain):
    """``sum_j a_j <= 1``: the most violated margin counts (Crammer & Singer)."""

    margins: Margins = TO_RIVALS

    name = "simplex"
    square_is_quadratic = True
    interior_block, squared_interior_block = "crammer_singer", "squared_crammer_singer"

    @property
    def is_maximum(self) -> bool:
        return True

    @property
    def parameters(self) -> tuple[float, ...]:
        return () if self.margins.relative else (float(self.margins.own), float(self.margins.rivals))

    @property
    def has_plain_faces(self) -> bool:
        return True

    def largest(self, E: Array, y: Classes) -> tuple[Array, Array]:
        E = np.where(self.margins.present(y, E.shape[1]), E, -np.inf)
        rows, most = np.arange(len(y)), E.argmax(axis=1)
        A = np.zeros_like(E)
        A[rows, most] = E[rows, most] > 0.0
        return np.maximum(0.0, E[rows, most]), A

    def gauge(self, A: Array, y: Classes) -> Array:
        return np.asarray(A.sum(axis=1))

    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        present = self.margins.present(y, T.shape[1])
        A = np.where(present, np.maximum(T, 0.0), 0.0)
        closed = A.sum(axis=1) >= upper
        rows = np.flatnonzero(closed)
        if len(rows):
            kept = np.maximum(T[rows] - self._levels(A[rows], upper[rows])[:, None], 0.0)
            A[rows] = np.where(present[rows], kept, 0.0)
        return Projected(A, A > 0.0, closed)

    def project_squared(self, T: Array, y: Classes, stiff: Array) -> Projected:
        """``a = (T - t)_+`` with ``t = stiff * sum(a)``: the m largest count if ``t = stiff sum(T) / (1 + m stiff)``."""
        present = self.margins.present(y, T.shape[1])
        A = np.where(present, np.maximum(T, 0.0), 0.0)
        falling = -np.sort(-A, axis=1)
        members = np.arange(1, A.shape[1] + 1)
        levels = stiff[:, None] * np.cumsum(falling, axis=1) / (1.0 + stiff[:, None] * members)
        last = np.maximum(np.count_nonzero(falling > levels, axis=1), 1) - 1
        A = np.where(present, np.maximum(A - levels[np.arange(len(A)), last][:, None], 0.0), 0.0)
        return Projected(A, A > 0.0, np.ones(len(A), dtype=bool), ratio=1.0, weight=stiff)

    @staticmethod
    def _levels(A: Array, upper: Array) -> Array:
        """The t for which the positive parts of ``A - t`` add up to `upper` in each row; those of A exceed it."""
        falling = -np.sort(-A, axis=1)
        levels = (np.cumsum(falling, axis=1) - upper[:, None]) / np.arange(1, A.shape[1] + 1)
        members = np.count_nonzero(falling > levels, axis=1)  # of those that stay positive
        return np.asarray(levels[np.arange(len(A)), members - 1])
