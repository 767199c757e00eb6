"""The objective of every machine, written once.

    F(W, b) = sum_i u_i loss(x_i W + b, y_i) + R(W),      u_i = C * sample weight * class weight

with features ``X (n, d)``, class vectors ``W (d, c)``, offsets ``b (c,)`` (free, or 0 without an intercept). Its dual, for
derivatives ``T (n, c)`` of the weighted losses in the scores, is

    D(T) = - sum_i u_i loss*(t_i / u_i, y_i) - R*(-X'T),   with sum_i t_i = 0 if the intercept is free.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.losses import ScoreLoss
from polymargin.losses.domains.domain import RowDomains
from polymargin.losses.domains.margins import TO_RIVALS
from polymargin.penalties import Penalty
from polymargin.problems.duals import SparseDuals, sparse_duals
from polymargin.problems.native_rows import has_native_loss, native_loss
from polymargin.validation import largest_entry

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
NO_DUAL = 1e-8  # of a row's cost: what interior points may leave of a dual that is 0


class Objective(abc.ABC):
    """Features x targets x loss x penalty for any targets: one class a row (`Problem`), or labels (`labels.py`).

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64.
    y
        The targets.
    cost : array
        Of each row or pair of row and label, positive.
    n_classes : int
    penalty : Penalty
    """

    X: Any
    y: Any
    cost: Array
    n_classes: int
    penalty: Penalty

    is_convex = True  # in W and b; `Problem` asks its loss and penalty
    _block_entries: ClassVar[int] = 1 << 18  # scores held, or rows converted, at a time when the objective is evaluated

    # ---- what the targets decide ------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def fixes_sum_of_offsets(self) -> bool:
        """Whether the offsets must add up to zero, which rounded ones do not."""

    @property
    @abc.abstractmethod
    def _steepest(self) -> float:
        """How fast the loss of a row or pair may change with its scores."""

    @abc.abstractmethod
    def _loss_of(self, S: Array, rows: slice) -> float:
        """The weighted loss of the scores S of some rows."""

    @abc.abstractmethod
    def losses(self, S: Array) -> Array:
        """The weighted loss of each row, of the scores S of all of them."""

    @abc.abstractmethod
    def _offset_penalty(self, b: Array) -> float:
        """What the offsets cost in the few machines where they do."""

    @abc.abstractmethod
    def trivial_value(self) -> float:
        """F of a machine that ignores the features, which a fit should beat."""

    @abc.abstractmethod
    def signed_duals(self, duals: SparseDuals) -> tuple[NDArray[np.intp], Array]:
        """Rows with a non-zero dual and the coefficients on them that make W."""

    @abc.abstractmethod
    def support_rows(self, duals: SparseDuals) -> NDArray[np.intp]:
        """Rows with a dual that is not 0."""

    @abc.abstractmethod
    def support_counts(self, support: NDArray[np.intp]) -> NDArray[np.int32]:
        """How many of these rows belong to each class."""

    @abc.abstractmethod
    def part(self, kept: NDArray[np.bool_]) -> Objective:
        """The objective of some of the rows, with a penalty of its own: solvers settle some."""

    @abc.abstractmethod
    def one_of_each(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows, the first in this order of all of them, so that each class has one."""

    def spread(self, duals: SparseDuals, kept: NDArray[np.bool_]) -> SparseDuals:
        """Duals of such a part as duals of all rows."""
        return duals.spread(kept)

    # ---- what all share ---------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def largest(self) -> float:
        """The largest absolute value in X."""
        return largest_entry(self.X)

    @cached_property
    def longest_row(self) -> float:
        """No row is longer than this."""
        width = int(np.diff(self.X.indptr).max(initial=0)) if sparse.issparse(self.X) else self.X.shape[1]
        return float(np.sqrt(width)) * self.largest

    def primal(self, W: Any, b: Array) -> float:
        """F of a machine, W an array or a CSR matrix in double precision."""
        return self.loss_of_machine(W, b) + self.penalty_value(W, b)

    def loss_of_machine(self, W: Any, b: Array) -> float:
        """The weighted loss of all rows; the scores are formed block by block."""
        total = 0.0
        for rows in self.blocks():
            S = self.X[rows] @ W
            total += self._loss_of(np.asarray(S.toarray() if sparse.issparse(S) else S, dtype=np.float64) + b, rows)
        return total

    def total_loss(self, S: Array, rows: slice | None = None) -> float:
        """The weighted loss of scores ``S (n, c)`` of all rows, or of some."""
        return self._loss_of(S, slice(0, self.n_rows) if rows is None else rows)

    def penalty_value(self, W: Any, b: Array) -> float:
        """R, with what the offsets cost."""
        value = self.penalty.value_of_sparse(W) if sparse.issparse(W) else self.penalty.value(W)
        return value + self._offset_penalty(b)

    def rounding(self, W: Any, b: Array) -> float:
        """What rounding may hide in F of a machine, in the scale of its scores: ``|x_i| |w_k| + |b_k|`` at most."""
        squares = W.power(2).sum(axis=0) if sparse.issparse(W) else np.einsum("jk,jk->k", W, W)
        vectors = np.sqrt(np.max(squares, initial=0.0))
        scores = float(self.longest_row * vectors + np.abs(b).max(initial=0.0))
        return self._rounding_of(scores) + 8.0 * _EPS * abs(self.penalty_value(W, b))

    def rounding_at(self, primal: float) -> float:
        """The same of any machine with this objective and offsets that make up for the length of the rows."""
        longest = self.penalty.longest_vector(primal, self.n_classes)
        return self._rounding_of(2.0 * self.longest_row * longest) + 8.0 * _EPS * abs(primal)

    def _rounding_of(self, scores: float) -> float:
        """What rounding of scores of this size may change in the sum of losses."""
        return 4.0 * _EPS * self._steepest * float(self.cost.sum()) * (scores + 1.0)

    def blocks(self) -> Iterator[slice]:
        """Some rows at a time."""
        # a block of dense rows in single precision is copied when it is multiplied
        width = self.n_classes if sparse.issparse(self.X) else max(self.n_classes, self.n_features)
        step = max(1, self._block_entries // width)
        for start in range(0, self.n_rows, step):
            yield slice(start, min(self.n_rows, start + step))


@dataclass(frozen=True)
class Problem(Objective):
    """An objective with one class a row.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64.
    y : array of shape (n,)
        Class indices, int32.
    cost : array of shape (n,)
        ``u_i > 0``.
    n_classes : int
    loss : ScoreLoss
    penalty : Penalty
    fit_intercept : bool
    n_threads : int
        For passes that say what arrays are worth. They change no bit.
    """

    X: Any
    y: NDArray[np.int32]
    cost: Array
    n_classes: int
    loss: ScoreLoss
    penalty: Penalty
    fit_intercept: bool
    n_threads: int = field(default=1, kw_only=True, repr=False, compare=False)

    @property
    def fixes_sum_of_offsets(self) -> bool:
        return self.loss.sums_to_zero  # of margins to rivals: a constant added to all of them changes nothing

    @property
    def _steepest(self) -> float:
        return 2.0 * (self.n_classes - 1)

    @property
    def to_rivals(self) -> bool:
        """Whether the loss is of margins to rivals: rows have no dual of their own class."""
        return self.loss.domain is None or self.loss.domain.margins.relative

    def takes(self, duals: SparseDuals) -> bool:
        """Whether these duals belong to margins of these rows; if not, they are those of other data."""
        own = duals.classes == self.y[duals.rows]
        margins = TO_RIVALS if self.loss.domain is None else self.loss.domain.margins
        strange = (own & (not margins.own)) | (~own & (not margins.rivals)) | (duals.classes >= self.n_classes)
        return not strange.any()

    @property
    def is_convex(self) -> bool:  # type: ignore[override]
        return self.penalty.angular is None and self.loss.margin_band is None

    @property
    def row_domains(self) -> RowDomains:
        """Where the duals of the rows may lie."""
        if self.loss.domain is None:
            raise TypeError(f"the {self.loss.name} loss has no domain of duals")
        return self.loss.domain.of_rows(self.y, self.cost)

    def loss_of_machine(self, W: Any, b: Array) -> float:
        return native_loss(self, W, b) if has_native_loss(self, W) else super().loss_of_machine(W, b)

    def _loss_of(self, S: Array, rows: slice) -> float:
        return float(self.cost[rows] @ self.loss.value(S, self.y[rows]))

    def losses(self, S: Array) -> Array:
        return np.asarray(self.cost * self.loss.value(S, self.y))

    def one_of_each(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.asarray(order[np.unique(self.y[order], return_index=True)[1]])

    def _offset_penalty(self, b: Array) -> float:
        return self.penalty.offset_value(b)

    def part(self, kept: NDArray[np.bool_]) -> Problem:
        return replace(self, X=self.X[kept], y=self.y[kept], cost=self.cost[kept], penalty=copy.copy(self.penalty))

    def signed_duals(self, duals: SparseDuals) -> tuple[NDArray[np.intp], Array]:
        """Rows with a non-zero dual and ``tau`` on them: ``tau_il = -a_il``, ``tau_iy = sum_l a_il``, ``W = X' tau``.

        With absolute margins ``tau_iy = a_iy``. A dual beside the label `n_classes` belongs to no class: only the own class
        feels it.
        """
        support = np.flatnonzero(np.diff(duals.starts))
        return support, self.sparse_signed_duals(duals)[support].toarray()

    def sparse_signed_duals(self, duals: SparseDuals) -> sparse.csr_array:
        """All ``tau``, (n, c), most of them 0."""
        index = np.int32 if self.n_rows <= np.iinfo(np.int32).max else np.int64  # of W, too, which products are quicker with
        rows, classes, values = duals.rows.astype(index, copy=False), duals.classes, duals.values
        own = self.y[rows]
        if self.to_rivals:
            values, rows, classes = np.append(values, -values), np.append(rows, rows), np.append(own, classes)
        else:
            values = np.where(classes == own, values, -values)
        tau = sparse.csr_array((values, (rows, classes)), shape=(self.n_rows, self.n_classes + 1))
        return tau[:, : self.n_classes]

    def support_rows(self, duals: SparseDuals) -> NDArray[np.intp]:
        rows = duals.rows
        return np.flatnonzero(np.bincount(rows[np.abs(duals.values) > NO_DUAL * self.cost[rows]], minlength=self.n_rows))

    def moved_inside(self, duals: SparseDuals) -> SparseDuals:
        """Duals that circulate, moved into domains of which no multiple of them is part."""
        return sparse_duals(self.row_domains.repaired(duals.dense(self.n_classes)))

    def support_counts(self, support: NDArray[np.intp]) -> NDArray[np.int32]:
        return np.bincount(self.y[support], minlength=self.n_classes).astype(np.int32)

    def dual(self, T: Array) -> float:
        """D of the derivatives T; minus infinity where they are not feasible."""
        offsets = self.penalty.offset_conjugate(T.sum(axis=0), float(self.cost.sum())) if self.fit_intercept else 0.0
        if np.isinf(offsets):
            return -np.inf
        losses = self.loss.conjugate(T / self.cost[:, None], self.y)
        return -float(self.cost @ losses) - self.penalty.conjugate(-np.asarray(self.X.T @ T)) - offsets

    def trivial_value(self) -> float:
        """F of the machine that gives all classes the same score."""
        c, total = self.n_classes, 0.0
        if self.loss.unit_targets:  # the same for rows of every class
            return float(self.cost.sum() * self.loss.value(np.zeros((1, c)), np.zeros(1, dtype=np.int32))[0])
        weight, step = np.bincount(self.y, self.cost, c), max(1, self._block_entries // c)
        for start in range(0, c, step):  # with many classes a matrix of all pairs would be large
            some = np.arange(start, min(c, start + step))
            total += float(weight[some] @ self.loss.value(np.zeros((len(some), c)), some))
        return total
