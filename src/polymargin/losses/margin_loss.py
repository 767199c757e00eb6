"""Losses of margins: a domain says it all."""

from __future__ import annotations

import abc
import copy

import numpy as np
from numpy.typing import NDArray

from polymargin.losses.base import Array, Classes, ScoreLoss
from polymargin.losses.domains.domain import Domain


class MarginLoss(ScoreLoss):
    """A loss of the violations of its margins, from the domain of its duals; a subclass names the domain.

    Parameters
    ----------
    squared : bool, default=False
        The square of a maximum, or the sum of the squares.
    """

    domain: Domain

    def __init__(self, *, squared: bool = False) -> None:
        self.squared = bool(squared)

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """Its name without the square."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"squared {self.title}" if self.squared else self.title

    def value(self, S: Array, y: Classes) -> Array:
        return self._largest(S, y)[0]

    def gradient(self, S: Array, y: Classes) -> Array:
        return self.domain.margins.derivative(self._largest(S, y)[1], y)

    def _largest(self, S: Array, y: Classes) -> tuple[Array, Array]:
        E = self.domain.margins.violations(S, y, self.targets(S.shape[1]))
        return self.domain.largest_squared(E, y) if self.squared else self.domain.largest(E, y)


class RelativeLoss(MarginLoss):
    """A loss of margins ``s_y - s_l`` to the rival classes.

    Parameters
    ----------
    squared : bool, default=False
    costs : array of shape (c, c), default=None
        What the margins of a row of class y should reach, ``s_y - s_l >= costs[y, l]``: the cost of predicting l instead.
        None is 1 for every pair.
    """

    def __init__(self, *, squared: bool = False, costs: Array | None = None) -> None:
        super().__init__(squared=squared)
        self.costs = None if costs is None else np.array(costs, dtype=np.float64)

    def targets(self, n_classes: int) -> Array:
        return super().targets(n_classes) if self.costs is None else self.costs

    @property
    def unit_targets(self) -> bool:
        return self.costs is None

    @property
    def takes_costs(self) -> bool:
        return True

    def with_costs(self, costs: Array) -> RelativeLoss:
        other = copy.copy(self)
        other.costs = np.array(costs, dtype=np.float64)
        return other

    def of_classes(self, kept: NDArray[np.intp]) -> RelativeLoss:
        return self if self.costs is None else self.with_costs(self.costs[np.ix_(kept, kept)])
