"""The objective of One versus None and its dual, written once.

    F(W, b) = sum_p u_p [1 - t_p s_p]_+ + R(W) + R_b(b),      s_p = x_i . w_k + b_k

over pairs p = (row i, class k) whose label is known: ``t_p = +1`` for a member, -1 for a known non-member. R is
`CoupledNorm` ("soft" weights) or `ZeroSumNorm` ("hard"), ``R_b = gamma_b (sum_k b_k)^2`` ("soft" biases) or 0 on
``sum_k b_k = 0`` ("hard"). For duals ``0 <= a_p <= u_p`` with ``B_k = sum_i a_ik t_ik`` equal to one number m for all k,

    D(a) = sum_p a_p - R*(X'(a t)) - m^2 / (4 gamma_b)        (no last term with hard biases)

is a lower bound of F. Duals whose B_k differ have the value minus infinity: `repaired` makes them equal. ``gamma_b = 0``
leaves all offsets free: m must be 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.penalties import Penalty
from polymargin.penalties.capabilities import Coupling
from polymargin.problems.classes import NO_DUAL, Objective
from polymargin.problems.duals import SparseDuals, row_norms, row_sums

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_SUMMED = 8.0  # roundings in a sum of many numbers, usually far less


class Pairs(NamedTuple):
    """Known labels row by row: entries ``starts[i]:starts[i + 1]`` belong to row i, ``labels`` ascending in a row."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    signs: Array  # +1 or -1
    row_numbers: NDArray[np.intp] | None = None  # in the user's data, if rows were left out

    def part(self, kept: NDArray[np.bool_]) -> Pairs:
        """Those of some rows."""
        entries = self.entries(kept)
        starts = np.append(0, np.cumsum(np.diff(self.starts)[kept]))
        numbers = np.flatnonzero(kept) if self.row_numbers is None else self.row_numbers[kept]
        return Pairs(starts, self.labels[entries], self.signs[entries], numbers)

    def entries(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which pairs belong to these rows."""
        return np.repeat(kept, np.diff(self.starts))


@dataclass(frozen=True)
class LabelProblem(Objective):
    """An objective with known labels: one hinge for each pair of a row and a label.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
    y : Pairs
    cost : array of shape (n_pairs,)
        ``u_p > 0``.
    n_classes : int
    penalty : Penalty
        One that has a `coupling`.
    gamma_b : float or None
        Weight of the squared sum of the biases; None keeps the sum at zero, 0 leaves every bias free.
    fit_intercept : bool
        False keeps every bias at 0: no balance is asked of the duals.
    """

    X: Any
    y: Pairs
    cost: Array
    n_classes: int
    penalty: Penalty
    gamma_b: float | None
    fit_intercept: bool = True

    _block_entries: ClassVar[int] = 1 << 20

    @property
    def fixes_sum_of_offsets(self) -> bool:
        return self.gamma_b is None

    @property
    def _steepest(self) -> float:
        return 1.0

    @cached_property
    def coupling(self) -> Coupling:
        """The Hessian of R between the classes."""
        found = self.penalty.coupling(self.n_classes)
        if found is None:
            raise TypeError(f"label problems need a penalty with a coupling of classes; got '{self.penalty.name}'")
        return found

    @cached_property
    def pair_rows(self) -> NDArray[np.intp]:
        """Row of each pair."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.y.starts))

    def _loss_of(self, S: Array, rows: slice) -> float:
        pairs = self._pairs_of(rows)
        scores = S[self.pair_rows[pairs] - rows.start, self.y.labels[pairs]]
        return float(self.cost[pairs] @ np.maximum(0.0, 1.0 - self.y.signs[pairs] * scores))

    def losses(self, S: Array) -> Array:
        hinges = np.maximum(0.0, 1.0 - self.y.signs * S[self.pair_rows, self.y.labels])
        return np.bincount(self.pair_rows, self.cost * hinges, minlength=self.n_rows).astype(np.float64)

    def _pairs_of(self, rows: slice) -> slice:
        return slice(int(self.y.starts[rows.start]), int(self.y.starts[rows.stop]))

    def _offset_penalty(self, b: Array) -> float:
        """``R_b(b)``."""
        return 0.0 if self.gamma_b is None else self.gamma_b * float(b.sum()) ** 2

    def part(self, kept: NDArray[np.bool_]) -> LabelProblem:
        return replace(self, X=self.X[kept], y=self.y.part(kept), cost=self.cost[self.y.entries(kept)])

    def one_of_each(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        place = np.argsort(order)[self.pair_rows]
        kinds = 2 * self.y.labels + (self.y.signs > 0.0)  # members and others of each label
        by_place = np.argsort(place, kind="stable")
        first = by_place[np.unique(kinds[by_place], return_index=True)[1]]
        return np.unique(self.pair_rows[first])

    def spread(self, duals: SparseDuals, kept: NDArray[np.bool_]) -> SparseDuals:
        """Every pair has a dual, 0 or not."""
        values = np.zeros(len(self.y.labels))
        values[self.y.entries(kept)] = duals.values
        return SparseDuals(self.y.starts, self.y.labels, values)

    def pair_scores(self, W: Array, b: Array) -> Array:
        """``s_p`` of every pair."""
        found = []
        for rows in self.blocks():
            S, pairs = np.asarray(self.X[rows] @ W, dtype=np.float64) + b, self._pairs_of(rows)
            found.append(S[self.pair_rows[pairs] - rows.start, self.y.labels[pairs]])
        return np.concatenate(found)

    def dual(self, a: Array) -> float:
        """D of duals with equal B_k."""
        return float(a.sum()) - self._conjugate(a)

    def bound(self, a: Array, primal: float = np.inf) -> float:
        """D at the best multiple of the repaired duals: a lower bound from any ``0 <= a <= u``.

        `primal` is F of any machine. What rounding may hide is taken off, so that the bound is one: in the sums of rows, in
        the balance of the duals, and in values of F (a machine a hair longer than one whose scores seem to be 1 has them,
        and costs so much more). All of it is in the scale of ``|x| |w|``: it is felt where columns lie far from 0.
        """
        a = self.repaired(a)
        total, Z = float(a.sum()), self.class_sums(a)
        conjugate = self._conjugate_of(Z, a)
        t = min(1.0, total / (2.0 * conjugate)) if conjugate > 0.0 else 1.0
        norms = np.sqrt(np.square(t * self.penalty.minimizer(Z)).sum(axis=0))
        lengths = norms[self.y.labels] * self.row_norms[self.pair_rows]
        hidden = _SUMMED * _EPS * float(a @ (1.0 + lengths))
        return t * (total - t * conjugate - hidden - self._price_of_imbalance(a, primal))

    def _price_of_imbalance(self, a: Array, primal: float) -> float:
        """What duals whose B_k differ by r may claim too much: ``<r, b>`` of the best b, at most ``|r|_1 / 2`` its range.

        The members of class k lose F at most, so ``b_k >= 1 - F / U_k - |w_k| |x_k|`` of their mean row, and
        ``1/2 mu |W|^2 <= F`` with the least eigenvalue mu of R's Hessian. The sum of b bounds it from above.
        """
        if not self.fit_intercept:
            return 0.0
        away = np.abs(self.balance(a) - (0.0 if self.gamma_b == 0.0 else self.balance(a).mean()))
        away += _SUMMED * _EPS * np.bincount(self.y.labels, a, self.n_classes)
        F = min(primal, self.trivial_value())
        reach = np.sqrt(2.0 * F / self._least_curvature)
        if self.gamma_b == 0.0:  # the best b_k puts some row of the label on its margin: |b_k| <= 1 + |x| |w_k|
            return float(away.sum()) * (1.0 + reach * float(self.row_norms.max(initial=0.0)))
        lowest = 1.0 - F / self._capacity[0] - reach * self._mean_member_norms
        total = 0.0 if self.gamma_b is None else float(np.sqrt(F / self.gamma_b))
        highest = total - (lowest.sum() - lowest)
        return 0.5 * float(away.sum()) * max(0.0, float(highest.max() - lowest.min()))

    @property
    def _least_curvature(self) -> float:
        return 1.0 / max(self.coupling.scale, self.coupling.common)

    @cached_property
    def _mean_member_norms(self) -> Array:
        """At least the norm of the mean row of each class's members."""
        members = self.y.signs > 0.0
        weighted = np.bincount(self.y.labels[members], (self.cost * self.row_norms[self.pair_rows])[members], self.n_classes)
        return np.asarray(weighted / self._capacity[0])

    @cached_property
    def row_norms(self) -> Array:
        """Lengths of the rows."""
        return row_norms(self.X, self.blocks)

    @cached_property
    def longest_row(self) -> float:
        return float(self.row_norms.max(initial=0.0))

    def feasible(self, W: Array, b: Array) -> tuple[Array, Array]:
        """The machine with the sums of weights and offsets that are kept at zero: rounding moves them."""
        W = W - W.mean(axis=1, keepdims=True) if self.penalty.fixes_sum else W
        return W, b - b.mean() if self.gamma_b is None else b

    def _conjugate(self, a: Array) -> float:
        return self._conjugate_of(self.class_sums(a), a)

    def _conjugate_of(self, Z: Array, a: Array) -> float:
        value = self.penalty.conjugate(Z)
        if self.gamma_b:
            m = float(self.balance(a).mean())
            value += m * m / (4.0 * self.gamma_b)
        return value

    def class_sums(self, a: Array) -> Array:
        """``Z = X'(a t)``, of shape (d, c)."""
        duals = sparse.csr_array((a * self.y.signs, self.y.labels, self.y.starts), shape=(self.n_rows, self.n_classes))
        return row_sums(self.X, duals, self.blocks)

    def balance(self, a: Array) -> Array:
        """``B_k``, of shape (c,)."""
        return np.asarray(np.bincount(self.y.labels, a * self.y.signs, self.n_classes), dtype=np.float64)

    def repaired(self, a: Array) -> Array:
        """Feasible duals near `a` with equal B_k.

        Duals inside their bounds move first, in proportion to their distance from them: at the optimum that costs nothing
        to first order. What they cannot balance, all duals of the class share in proportion to the room they have.
        """
        a = np.clip(a, 0.0, self.cost)
        if not self.fit_intercept:
            return a
        supply, demand = self._capacity
        m = 0.0 if self.gamma_b == 0.0 else float(np.clip(self.balance(a).mean(), (-demand).max(), supply.min()))
        a = self._towards(m, a, np.minimum(a, self.cost - a))
        grows = (m > self.balance(a))[self.y.labels] == (self.y.signs > 0.0)
        return self._towards(m, a, np.where(grows, self.cost - a, a))

    def _towards(self, m: float, a: Array, room: Array) -> Array:
        """Moves the duals of each class by the same part of their room, such that B_k becomes m or the room is used up."""
        missing = m - self.balance(a)
        total = np.bincount(self.y.labels, weights=room, minlength=self.n_classes)
        added = np.bincount(self.y.labels, a, self.n_classes)
        missing[np.abs(missing) <= _SUMMED * _EPS * added] = 0.0  # rounding of the sum: duals at their bounds stay there
        part = np.clip(missing / np.where(total > 0.0, total, np.inf), -1.0, 1.0)
        return np.clip(a + self.y.signs * room * part[self.y.labels], 0.0, self.cost)

    @cached_property
    def _capacity(self) -> tuple[Array, Array]:
        """Total costs of members and of known non-members of each class."""
        members = self.y.signs > 0.0
        supply = np.bincount(self.y.labels[members], self.cost[members], self.n_classes)
        demand = np.bincount(self.y.labels[~members], self.cost[~members], self.n_classes)
        return np.asarray(supply, dtype=np.float64), np.asarray(demand, dtype=np.float64)

    def trivial_value(self) -> float:
        """The best F with W = 0."""
        return self._trivial_value

    @cached_property
    def _trivial_value(self) -> float:
        """The maximum of D without R*, a concave function of the common balance m.

        A class with costs (supply, demand) adds ``2 demand + m`` up to ``m = supply - demand``, then ``2 supply - m``; the
        maximum is at such a kink, at an end, or where a slope j meets that of ``m^2 / (4 gamma_b)``.
        """
        supply, demand = self._capacity
        if not self.fit_intercept:
            return float(self.cost.sum())
        if self.gamma_b == 0.0:
            return 2.0 * float(np.minimum(supply, demand).sum())
        kinks = supply - demand
        order = np.argsort(kinks)
        c, low, high = self.n_classes, float((-demand).max()), float(supply.min())
        candidates = np.append(kinks, [low, high])
        if self.gamma_b is not None:
            candidates = np.append(candidates, 2.0 * self.gamma_b * np.arange(-c, c + 1))
        m = np.clip(candidates, low, high)
        below = np.searchsorted(kinks[order], m)  # classes past their kink
        past = np.append(0.0, np.cumsum(supply[order]))[below]
        ahead = np.append(0.0, np.cumsum(demand[order]))
        values = 2.0 * (past + ahead[-1] - ahead[below]) + (c - 2 * below) * m
        if self.gamma_b is not None:
            values -= m * m / (4.0 * self.gamma_b)
        return float(values.max())

    def signed_duals(self, duals: SparseDuals) -> tuple[NDArray[np.intp], Array]:
        """Rows with a non-zero dual and ``a_ik t_ik`` on them: R says how they mix into class vectors."""
        used = duals.values != 0.0
        support = np.unique(self.pair_rows[used])
        tau = np.zeros((len(support), self.n_classes))
        tau[np.searchsorted(support, self.pair_rows[used]), self.y.labels[used]] = (duals.values * self.y.signs)[used]
        return support, tau

    def support_rows(self, duals: SparseDuals) -> NDArray[np.intp]:
        return np.unique(self.pair_rows[duals.values > NO_DUAL * self.cost])

    def support_counts(self, support: NDArray[np.intp]) -> NDArray[np.int32]:
        members = np.isin(self.pair_rows, support) & (self.y.signs > 0.0)
        return np.bincount(self.y.labels[members], minlength=self.n_classes).astype(np.int32)
