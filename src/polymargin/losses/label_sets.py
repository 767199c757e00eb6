"""Losses of rows with sets of labels: Y has the members of a row, the rest of the known labels are its non-members.

    relevance      sum_k v_k [1 - t_k s_k]_+                                   t_k = +1 in Y, -1 beside it
    squared_relevance    the same of squared hinges
    ranking        sum_{k in Y, l not in Y} [1 - (s_k - s_l)]_+ / (|Y| |Yc|)   Elisseeff & Weston 2001
    max_ranking    max_{k in Y, l not in Y} [1 - (s_k - s_l)]_+                the worst pair

Rankings of a row without members, or without non-members, are 0. Unknown labels take no part. For one label a row the
rankings are the losses of Weston and Watkins (divided by c - 1) and of Crammer and Singer.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Signs = NDArray[np.int8]


class SetLoss(abc.ABC):
    """A loss of scores ``S (n, c)`` and signs ``T (n, c)``."""

    name: ClassVar[str]
    splits: ClassVar[bool] = False  # whether it is a sum over labels, which share nothing but the rows
    squared: ClassVar[bool] = False

    @abc.abstractmethod
    def value(self, S: Array, T: Signs, label_weight: Array) -> Array:
        """The loss of each row."""

    @abc.abstractmethod
    def steepest(self, label_weight: Array) -> float:
        """How fast the loss of a row may change with its scores."""

    def trivial_values(self, supply: Array, demand: Array, fit_intercept: bool) -> Array:
        """Of a loss that splits: the same for each label, by the weights of its members and of the others."""
        raise NotImplementedError

    def value_of_duals(self, sizes: Array, cost: Array) -> float:
        """What duals of these sizes are worth, of a loss that splits."""
        return float(sizes.sum())

    @abc.abstractmethod
    def trivial_value(self, y: Any, cost: Array, fit_intercept: bool) -> float:
        """What a machine costs that ignores the features."""


class Relevance(SetLoss):
    """Each label a machine of its own."""

    name = "relevance"
    splits = True

    def value(self, S: Array, T: Signs, label_weight: Array) -> Array:
        slack = np.where(T != 0, np.maximum(0.0, 1.0 - T * S), 0.0)
        return np.asarray(slack @ label_weight)

    def steepest(self, label_weight: Array) -> float:
        return float(label_weight.sum())

    def trivial_value(self, y: Any, cost: Array, fit_intercept: bool) -> float:
        supply, demand = y.counts(cost)
        return float(self.trivial_values(supply, demand, fit_intercept) @ y.label_weight)

    def trivial_values(self, supply: Array, demand: Array, fit_intercept: bool) -> Array:
        return np.asarray(2.0 * np.minimum(supply, demand) if fit_intercept else supply + demand)


class SquaredRelevance(Relevance):
    """The same with squared hinges: less wrong costs less, and no label's scores rest at -1."""

    name = "squared_relevance"
    squared = True

    def value(self, S: Array, T: Signs, label_weight: Array) -> Array:
        slack = np.where(T != 0, np.maximum(0.0, 1.0 - T * S), 0.0)
        return np.asarray(np.square(slack) @ label_weight)

    def steepest(self, label_weight: Array) -> float:
        return 4.0 * float(label_weight.sum())

    def trivial_values(self, supply: Array, demand: Array, fit_intercept: bool) -> Array:
        both = supply + demand
        return np.asarray(4.0 * supply * demand / np.maximum(both, 1e-300) if fit_intercept else both)

    def value_of_duals(self, sizes: Array, cost: Array) -> float:
        return float(sizes.sum() - (np.square(sizes) / (4.0 * cost)).sum())


class _Ranking(SetLoss):
    def steepest(self, label_weight: Array) -> float:
        return 2.0

    def trivial_value(self, y: Any, cost: Array, fit_intercept: bool) -> float:
        """That of equal scores."""
        return float(cost[ranked_rows(y)].sum())


class Ranking(_Ranking):
    """The share of pairs in the wrong order, as a hinge."""

    name = "ranking"

    def value(self, S: Array, T: Signs, label_weight: Array) -> Array:
        out = np.zeros(len(S))
        for i, (s, t) in enumerate(zip(S, T, strict=True)):
            low, high = np.sort(s[t < 0]), s[t > 0] - 1.0
            if not len(low) or not len(high):
                continue
            above = len(low) - np.searchsorted(low, high)  # non-members less than 1 below each member
            tails = np.append(np.cumsum(low[::-1])[::-1], 0.0)
            out[i] = (tails[len(low) - above] - above * high).sum() / (len(low) * len(high))
        return out


class MaxRanking(_Ranking):
    """The worst pair: the lowest member and the highest non-member."""

    name = "max_ranking"

    def value(self, S: Array, T: Signs, label_weight: Array) -> Array:
        lowest = np.where(T > 0, S, np.inf).min(axis=1)
        highest = np.where(T < 0, S, -np.inf).max(axis=1)
        return np.asarray(np.maximum(0.0, 1.0 - lowest + highest))


def ranked_rows(y: Any) -> NDArray[np.bool_]:
    """Rows with members and non-members: those that a ranking knows."""
    rows = np.repeat(np.arange(y.n_rows), np.diff(y.starts))
    members = np.bincount(rows[y.signs > 0], minlength=y.n_rows)
    others = np.bincount(rows[y.signs < 0], minlength=y.n_rows)
    if y.others:
        others = y.n_labels - members
    return np.asarray((members > 0) & (others > 0))


SET_LOSSES = {loss.name: loss for loss in (Relevance, SquaredRelevance, Ranking, MaxRanking)}
