"""The objective of all rows, of which no process holds more than a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.losses import ScoreLoss
from polymargin.losses.label_sets import SetLoss
from polymargin.penalties import Penalty
from polymargin.problems.classes import Problem
from polymargin.problems.sets import LabelTable, SetProblem, label_table
from polymargin.validation import largest_entry

Array = NDArray[np.float64]
LossElsewhere = Callable[[Array, Array], float]


class Facts(NamedTuple):
    """What is known of the rows of a part, or of several: sums, and the largest numbers."""

    n_rows: int
    cost: Array  # of each class, in sum; of labels those of members and of the others, (2, c)
    columns: Array  # sums of the columns
    squares: float  # of all entries, in sum
    largest: float  # entry
    widest: int  # entries of a row

    def plus(self, other: Facts) -> Facts:
        most = max(self.largest, other.largest), max(self.widest, other.widest)
        sums = self.cost + other.cost, self.columns + other.columns, self.squares + other.squares
        return Facts(self.n_rows + other.n_rows, *sums, *most)

    def centre_and_spread(self) -> tuple[Array, float]:
        """Column means and the mean squared distance of the rows from them."""
        means = self.columns / self.n_rows
        return means, max(0.0, self.squares / self.n_rows - float(means @ means))


def facts_of(problem: Problem | SetProblem) -> Facts:
    """One pass over the rows of a part."""
    X, c = problem.X, problem.n_classes
    values = X.data if sparse.issparse(X) else X
    columns = np.asarray(X.sum(axis=0, dtype=np.float64), dtype=np.float64).ravel()
    widest = int(np.diff(X.indptr).max(initial=0)) if sparse.issparse(X) else X.shape[1]
    squares = float(np.einsum("i,i->", values.ravel(), values.ravel(), dtype=np.float64))
    if isinstance(problem, SetProblem):
        cost = np.stack(problem.y.counts(problem.cost))
    else:
        cost = np.bincount(problem.y, problem.cost, c).astype(np.float64)
    return Facts(problem.n_rows, cost, columns, squares, largest_entry(X), widest)


class _RowsElsewhere:
    """What a problem without rows of its own knows of them: a mixin."""

    facts: Facts
    loss_elsewhere: LossElsewhere

    @property
    def n_rows(self) -> int:
        return self.facts.n_rows

    @cached_property
    def longest_row(self) -> float:
        return float(np.sqrt(self.facts.widest)) * self.facts.largest

    def loss_of_machine(self, W: Array, b: Array) -> float:
        return self.loss_elsewhere(W, b)


@dataclass(frozen=True)
class WholeProblem(_RowsElsewhere, Problem):
    """A problem whose rows are elsewhere: X has none, and `cost` is that of each class in sum.

    Attributes
    ----------
    facts : Facts
    loss_elsewhere : function of W and b
        The weighted loss of all rows.
    """

    facts: Facts
    loss_elsewhere: LossElsewhere


def whole_problem(
    facts: Facts, dtype: Any, loss: ScoreLoss, penalty: Penalty, fit_intercept: bool, elsewhere: LossElsewhere
) -> WholeProblem:
    """With rows of this precision."""
    c, X = len(facts.cost), np.empty((0, len(facts.columns)), dtype=dtype)
    classes = np.arange(c, dtype=np.int32)
    return WholeProblem(X, classes, facts.cost, c, loss, penalty, fit_intercept, facts, elsewhere)


@dataclass(frozen=True)
class WholeSets(_RowsElsewhere, SetProblem):
    """The same of label sets: `cost` is that of each label in sum."""

    facts: Facts
    loss_elsewhere: LossElsewhere

    @property
    def _steepest(self) -> float:
        return float(self.y.label_weight.max())

    def trivial_value(self) -> float:
        have, have_not = self.facts.cost[0], self.facts.cost[1]
        return float(self.y.label_weight @ self.loss.trivial_values(have, have_not, self.fit_intercept))


def whole_sets(
    facts: Facts,
    dtype: Any,
    like: LabelTable,
    loss: SetLoss,
    penalty: Penalty,
    fit_intercept: bool,
    elsewhere: LossElsewhere,
) -> WholeSets:
    """With rows of this precision and labels `like` these, of which it has none."""
    c, X = like.n_labels, np.empty((0, len(facts.columns)), dtype=dtype)
    none = label_table(sparse.csr_array((0, c), dtype=np.int8), like.label_weight, others=like.others, single=like.single)
    return WholeSets(X, none, facts.cost.sum(axis=0), c, loss, penalty, fit_intercept, facts, elsewhere)
