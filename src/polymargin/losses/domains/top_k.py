"""Domains of losses in which the k most violated margins count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polymargin.losses.domains.domain import Domain, Projected
from polymargin.losses.domains.margins import Array, Classes, Mask

_ROUNDING = 1e-9  # of the largest dual: what the ratios of duals may be off
_MOST_STEPS, _FINE = 100, 1e-15
_ROUNDED = 1e-14  # of a sum of duals
_FAR = 4.0  # of the largest number at hand
_SAME = 1e-10  # relative: what bisections leave of equal numbers
_NOTHING = 1e-14  # of the cost: what bisections leave of 0


@dataclass(frozen=True)
class CappedSimplex(Domain):
    """``a_l <= 1 / k``, ``sum_l a_l <= 1``: the k closest rivals count if they are too close (the beta form)."""

    k: int

    name = "capped_simplex"

    @property
    def parameters(self) -> tuple[float, ...]:
        return (float(self.k),)

    @property
    def has_plain_faces(self) -> bool:
        return True

    def largest(self, E: Array, y: Classes) -> tuple[Array, Array]:
        violated = np.where(self.margins.present(y, E.shape[1]), np.maximum(E, 0.0), 0.0)
        value, A = _shared_by_largest(violated, self.k)
        return value, np.where(violated > 0.0, A, 0.0)

    def gauge(self, A: Array, y: Classes) -> Array:
        return np.maximum(A.sum(axis=1), self.k * A.max(axis=1))

    def project(self, T: Array, y: Classes, upper: Array) -> Projected:
        cap, rivals = upper / self.k, self.margins.present(y, T.shape[1])
        A = np.where(rivals, np.clip(T, 0.0, cap[:, None]), 0.0)
        closed = A.sum(axis=1) >= upper
        rows = np.flatnonzero(closed)
        if len(rows):
            T, cap = np.where(rivals[rows], T[rows], 0.0), cap[rows]  # the level is positive: 0 stays 0
            levels = np.maximum(_levels_of_box(T, cap, upper[rows]), 0.0)  # rounding aside, the sum exceeds the cost at 0
            A[rows] = np.clip(T - levels[:, None], 0.0, cap[:, None])
        return Projected(A, (A > 0.0) & (upper[:, None] / self.k > A), closed)

    def project_squared(self, T: Array, y: Classes, stiff: Array) -> Projected:
        """The root of the gauge g: ``<T - a, a> = stiff g^2`` for the nearest a of that gauge."""

        def slope(g: Array) -> Array:
            A = self.project(T, y, g).A
            return np.asarray(stiff * g - ((T - A) * A).sum(axis=1) / np.maximum(g, 1e-300))

        most = self.gauge(np.where(self.margins.present(y, T.shape[1]), np.maximum(T, 0.0), 0.0), y)
        high = _rising_root(slope, most)
        A = self.project(T, y, high).A
        cap, most = high[:, None] / self.k, A.max(axis=1, initial=0.0)
        tied = (cap * (1.0 - _SAME) <= A) & (most > 0.0)[:, None]
        closed = A.sum(axis=1) >= high * (1.0 - _SAME)
        ratio, weight = self.k - tied.sum(axis=1), self.k**2 * stiff
        return Projected(A, (_SAME * most[:, None] < A) & ~tied, closed, tied, ratio, weight)


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
    interior_block = "top_k"

    @property
    def parameters(self) -> tuple[float, ...]:
        return (float(self.k),)

    def gauge(self, A: Array, y: Classes) -> Array:
        total, largest = A.sum(axis=1), A.max(axis=1)
        tied = (self.k - 1) * largest <= total + _ROUNDING * largest
        return np.where(tied, np.maximum(total, self.k * largest), np.inf)

    @property
    def has_plain_faces(self) -> bool:
        return self.k <= 2

    def largest(self, E: Array, y: Classes) -> tuple[Array, Array]:
        """E is 0 at the own class, which is one of the k if fewer margins are violated."""
        value, A = _shared_by_largest(E, self.k)
        A = np.where(self.margins.present(y, E.shape[1]) & (value > 0.0)[:, None], A, 0.0)
        return np.maximum(value, 0.0), A

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
        if self.k <= 2:  # the cone says nothing
            return CappedSimplex(self.k).project(T, y, upper)
        return self._project_on_cone(T, self.margins.present(y, T.shape[1]), upper, np.zeros(len(T)))

    def project_squared(self, T: Array, y: Classes, stiff: Array) -> Projected:
        if self.k <= 2:
            return CappedSimplex(self.k).project_squared(T, y, stiff)
        return self._project_on_cone(T, self.margins.present(y, T.shape[1]), np.full(len(T), np.inf), stiff)

    def _project_on_cone(self, T: Array, rivals: Mask, upper: Array, stiff: Array) -> Projected:
        """By the root of S, whose slope is that of the Lagrangian; for given S all duals of a row lose the same."""
        positive = np.where(rivals, np.maximum(T, 0.0), 0.0)
        most = np.minimum(upper, positive.sum(axis=1) + self.k * positive.max(axis=1))
        high = _rising_root(lambda S: self._slope(T, rivals, S) + stiff * S, most)
        S = np.where(high > _NOTHING * np.where(np.isfinite(upper), upper, 1.0), high, 0.0)
        A, level = self._given_total(T, rivals, S)
        return self._on_face(A, level, S, upper, stiff)

    def _on_face(self, A: Array, level: Array, S: Array, upper: Array, stiff: Array) -> Projected:
        """The duals at their cap S / k move with S. The sum is tied to S if it has a price: the own class's share is 0 where
        that is positive, at its own cap where it is negative."""
        tied = (S[:, None] / self.k <= A) & (S > 0.0)[:, None]
        ratio = np.where(level > 0.0, self.k, self.k - 1.0) - tied.sum(axis=1)
        weight = np.where(upper * (1.0 - _SAME) <= S, np.inf, self.k**2 * stiff)
        return Projected(A, (A > 0.0) & ~tied, level != 0.0, tied, ratio, weight)

    def _slope(self, T: Array, rivals: Mask, S: Array) -> Array:
        """Of half the squared distance, as a function of S."""
        _, level = self._given_total(T, rivals, S)
        over = np.maximum(np.where(rivals, T - level[:, None] - S[:, None] / self.k, 0.0), 0.0).sum(axis=1)
        return np.asarray(-np.maximum(level, 0.0) - (1.0 - 1.0 / self.k) * np.minimum(level, 0.0) - over / self.k)

    def _given_total(self, T: Array, rivals: Mask, S: Array) -> tuple[Array, Array]:
        """The nearest duals for given S, and the level that is taken off all of them."""
        T = np.where(rivals, T, -_FAR * (1.0 + np.abs(T).max(axis=1, keepdims=True) + S[:, None]))  # never reached
        cap = S / self.k
        total = np.clip(T, 0.0, cap[:, None]).sum(axis=1)
        wanted = np.clip(total, (1.0 - 1.0 / self.k) * S, S)
        level = _levels_of_box(T, cap, wanted)
        level = np.where(total > wanted, np.maximum(level, 0.0), np.where(total < wanted, np.minimum(level, 0.0), 0.0))
        return np.clip(T - level[:, None], 0.0, cap[:, None]), level


def _rising_root(slope: Callable[[Array], Array], most: Array) -> Array:
    """Where rising, piecewise nearly linear functions of numbers in ``[0, most]`` are 0; `most` if they do not get there.

    By false positions; every third step halves the interval.
    """
    low, high, x = np.zeros_like(most), most.copy(), most
    at_low, at_high = np.full_like(most, np.nan), slope(most)
    small, found = _FINE * np.abs(at_high), at_high <= 0.0
    for step in range(_MOST_STEPS):
        halves = np.isnan(at_low) | (step % 3 == 2)
        part = np.where(halves, 0.5, at_low / np.where(at_low < at_high, at_low - at_high, -1.0))
        x = np.where(found, x, low + np.clip(part, 0.0, 1.0) * (high - low))
        value = slope(x)
        rises = value > 0.0
        low, at_low = np.where(rises, low, x), np.where(rises, at_low, value)
        high, at_high = np.where(rises, x, high), np.where(rises, value, at_high)
        found |= (np.abs(value) <= small) | (high - low <= _FINE * high)
        if found.all():
            break
    return np.asarray(x)


def _shared_by_largest(E: Array, k: int) -> tuple[Array, Array]:
    """The mean of the k largest of each row, and their shares in it."""
    largest = np.argpartition(E, -k, axis=1)[:, -k:]
    A = np.zeros_like(E)
    np.put_along_axis(A, largest, 1.0 / k, axis=1)
    return np.take_along_axis(E, largest, axis=1).mean(axis=1), A


def _levels_of_box(T: Array, cap: Array, total: Array) -> Array:
    """The t for which ``clip(T - t, 0, cap)`` add up to `total` in each row.

    As t falls an entry begins to count at ``t = T`` and ends at ``t = T - cap``: in between the sum is a line.
    """
    n, c = T.shape
    falling = np.concatenate([T, T - cap[:, None]], axis=1)
    order = np.argsort(-falling, axis=1)
    levels = np.take_along_axis(falling, order, axis=1)
    slopes = np.cumsum(np.where(order < c, 1.0, -1.0), axis=1)
    sums = np.zeros((n, 2 * c))
    np.cumsum(-slopes[:, :-1] * np.diff(levels, axis=1), axis=1, out=sums[:, 1:])
    reached = sums <= total[:, None] * (1.0 + _ROUNDED)  # the lowest t, where several will do
    last, rows = np.maximum(np.count_nonzero(reached, axis=1) - 1, 0), np.arange(n)
    return np.asarray(levels[rows, last] - (total - sums[rows, last]) / np.maximum(slopes[rows, last], 1.0))
