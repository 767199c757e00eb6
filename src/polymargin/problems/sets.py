"""The objective of machines whose rows have sets of labels, and what bounds it from below, written once.

    F(W, b) = sum_i u_i loss(x_i W + b, Y_i) + 1/2 |W|^2

with free offsets b, or b = 0. ``losses/label_sets.py`` has the losses. For signed duals ``tau (n, c)`` in the domain of the
loss, of which the offsets ask ``sum_i tau_ik = 0`` for every label,

    D(tau) = sum_i value(tau_i) - 1/2 |X' tau|^2        is a lower bound of F.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.losses.label_sets import SetLoss
from polymargin.penalties import Penalty
from polymargin.problems.classes import NO_DUAL, Objective
from polymargin.problems.duals import SparseDuals, row_norms, row_sums
from polymargin.problems.labels import LabelProblem, Pairs

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_SUMMED = 8.0  # roundings in a sum of many numbers, usually far less


class LabelTable(NamedTuple):
    """Who has which label: +1 and -1 row by row, and what all other entries are."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    signs: NDArray[np.int8]
    others: int  # -1: they have not the label; 0: unknown
    label_weight: Array  # (c,)
    single: bool = False  # one label a row: the highest score wins

    def holding(self, table: sparse.csr_array, label_weight: Array | None = None) -> LabelTable:
        """The same with other entries."""
        entries = table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data.astype(np.int8)
        weight = self.label_weight if label_weight is None else label_weight
        return LabelTable(*entries, self.others, weight, self.single)

    @property
    def n_labels(self) -> int:
        return len(self.label_weight)

    @property
    def n_rows(self) -> int:
        return len(self.starts) - 1

    @property
    def stored(self) -> sparse.csr_array:
        return sparse.csr_array((self.signs, self.labels, self.starts), shape=(self.n_rows, self.n_labels))

    def dense(self, rows: slice) -> NDArray[np.int8]:
        """Signs of some rows, 0 for unknown."""
        T = np.full((rows.stop - rows.start, self.n_labels), self.others, dtype=np.int8)
        first, last = self.starts[rows.start], self.starts[rows.stop]
        numbers = np.repeat(np.arange(len(T)), np.diff(self.starts[rows.start : rows.stop + 1]))
        T[numbers, self.labels[first:last]] = self.signs[first:last]
        return T

    def part(self, kept: NDArray[np.bool_]) -> LabelTable:
        counts = np.diff(self.starts)
        entries = np.repeat(kept, counts)
        starts = np.append(0, np.cumsum(counts[kept]))
        return self._replace(starts=starts, labels=self.labels[entries], signs=self.signs[entries])

    def only(self, labels: NDArray[np.intp]) -> LabelTable:
        """Some of the labels."""
        return self.holding(sparse.csr_array(self.stored[:, labels]), self.label_weight[labels])

    def same_as(self, other: LabelTable) -> bool:
        if self is other:
            return True
        alike = (np.array_equal(getattr(self, name), getattr(other, name)) for name in ("starts", "labels", "signs"))
        return self.others == other.others and self.single == other.single and all(alike)

    def counts(self, weight: Array) -> tuple[Array, Array]:
        """Total weight of the members, and of the known non-members, of each label."""
        per_entry = np.repeat(weight, np.diff(self.starts))
        members = self.signs > 0
        supply = np.bincount(self.labels[members], per_entry[members], self.n_labels)
        demand = np.bincount(self.labels[~members], per_entry[~members], self.n_labels)
        if self.others:
            demand = demand + weight.sum() - supply - demand
        return np.asarray(supply, dtype=np.float64), np.asarray(demand, dtype=np.float64)


@dataclass(frozen=True)
class SetProblem(Objective):
    """An objective with a set of labels a row; duals are signed ones.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
    y : LabelTable
    cost : array of shape (n,)
        ``u_i > 0``.
    n_classes : int
    loss : SetLoss
    penalty : Penalty
        ``1/2 |W|^2``.
    fit_intercept : bool
    """

    X: Any
    y: LabelTable
    cost: Array
    n_classes: int
    loss: SetLoss
    penalty: Penalty
    fit_intercept: bool

    _block_entries: ClassVar[int] = 1 << 20

    @property
    def fixes_sum_of_offsets(self) -> bool:
        return False

    @property
    def _steepest(self) -> float:
        return self.loss.steepest(self.y.label_weight)

    def _loss_of(self, S: Array, rows: slice) -> float:
        return float(self.cost[rows] @ self.loss.value(S, self.y.dense(rows), self.y.label_weight))

    def losses(self, S: Array) -> Array:
        return np.asarray(self.cost * self.loss.value(S, self.y.dense(slice(0, self.n_rows)), self.y.label_weight))

    def _offset_penalty(self, b: Array) -> float:
        return 0.0

    def one_of_each(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        first = sparse.csc_array(self.y.stored)[order]
        first.eliminate_zeros()
        return np.unique(order[first.indices[first.indptr[:-1][np.diff(first.indptr) > 0]]])

    def part(self, kept: NDArray[np.bool_]) -> SetProblem:
        return replace(self, X=self.X[kept], y=self.y.part(kept), cost=self.cost[kept])

    def trivial_value(self) -> float:
        return self.loss.trivial_value(self.y, self.cost, self.fit_intercept)

    # ---- duals ----------------------------------------------------------------------------------------------------------

    def signed_duals(self, duals: SparseDuals) -> tuple[NDArray[np.intp], Array]:
        support = np.flatnonzero(np.diff(duals.starts))
        return support, duals.dense(self.n_classes)[support]

    def support_rows(self, duals: SparseDuals) -> NDArray[np.intp]:
        rows = duals.rows
        return np.unique(rows[np.abs(duals.values) > NO_DUAL * self.cost[rows] * self.y.label_weight[duals.classes]])

    def support_counts(self, support: NDArray[np.intp]) -> NDArray[np.int32]:
        members = self.y.stored[support] > 0
        return np.asarray(members.sum(axis=0)).ravel().astype(np.int32)

    def bound(self, duals: SparseDuals, value: float) -> float:
        """D at the best multiple of feasible, balanced duals with ``sum_i value(tau_i) = value``.

        What rounding may hide is taken off: in the sums of rows, in the balance, and in the values of F compared with it.
        """
        tau = sparse.csr_array((duals.values, duals.classes, duals.starts), shape=(self.n_rows, self.n_classes))
        Z = row_sums(self.X, tau, self.blocks)
        squares = np.square(Z).sum(axis=0)
        conjugate = 0.5 * float(squares.sum())
        t = min(1.0, value / (2.0 * conjugate)) if conjugate > 0.0 else 1.0
        sizes = np.abs(duals.values)
        lengths = t * np.sqrt(squares)[duals.classes] * self.row_norms[duals.rows]
        hidden = _SUMMED * _EPS * float(sizes @ (1.0 + lengths))
        return t * (value - t * conjugate - hidden - self._price_of_imbalance(duals, sizes))

    def _price_of_imbalance(self, duals: SparseDuals, sizes: Array) -> float:
        """What duals that rounding has left beside balance may claim too much: ``sum_k |r_k| |b_k|`` of the best b.

        The best offsets put rows on their margins: a label's own is at most ``1 + |x| |w_k|``; differences of rankings,
        label after label, at most c times twice that. ``1/2 |W|^2`` is at most what the machine without features costs.
        """
        if not self.fit_intercept:
            return 0.0
        away = np.abs(np.bincount(duals.classes, duals.values, self.n_classes)) + _SUMMED * _EPS * np.bincount(
            duals.classes, sizes, self.n_classes
        )
        longest = np.sqrt(2.0 * self.trivial_value()) * float(self.row_norms.max(initial=0.0))
        return float(away.sum()) * (1.0 + longest) * (1.0 if self.loss.splits else 2.0 * self.n_classes)

    @cached_property
    def row_norms(self) -> Array:
        """Lengths of the rows."""
        return row_norms(self.X, self.blocks)

    def as_pairs(self, labels: NDArray[np.intp]) -> LabelProblem:
        """The relevance of some labels, pair by pair, with offsets that are free, or 0."""
        table = self.y.only(labels)
        T = table.dense(slice(0, self.n_rows))
        rows, columns = np.nonzero(T)
        starts = np.append(0, np.cumsum((T != 0).sum(axis=1))).astype(np.int64)
        pairs = Pairs(starts, columns.astype(np.int32), T[rows, columns].astype(np.float64))
        cost = self.cost[rows] * table.label_weight[columns]
        return LabelProblem(self.X, pairs, cost, len(labels), self.penalty, 0.0, self.fit_intercept)


def label_table(table: sparse.csr_array, label_weight: Array, *, others: int, single: bool = False) -> LabelTable:
    """Of a table with stored +1 and -1."""
    empty = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int8)
    return LabelTable(*empty, others, label_weight, single).holding(table)
