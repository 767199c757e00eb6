"""The search for the right face, which ends a fit by Newton steps: which pieces are free, who leaves and who joins.

Near its optimum a piecewise linear loss is smooth on a face: some pieces (pairs of a row and a rival, or the pieces of a
row's maximum) are active with multipliers that are free to move, the others do not matter. One Newton step on the free
pieces replaces hundreds of epochs. Pieces whose multipliers leave their bounds leave the face, pieces that turn out to
be violated join it, and what results is kept only if it is better, and proven.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Change(NamedTuple):
    """The face after a Newton step: the pieces that are free now, and how many were wrong before."""

    free: Mask
    wrong: int


class FaceSearch(ABC):
    """Newton steps on one face after the other, until it is right, or turns out to be too far from that."""

    most_steps: int
    most_wrong = np.inf  # share of the free pieces that may be wrong
    must_improve = False  # whether a step must leave fewer wrong pieces than the last

    def search(self, free: Mask) -> bool:
        """Whether the steps led somewhere; False if they had to be broken off."""
        fewest = np.inf
        for _ in range(self.most_steps):
            change = self._step(free) if self._fits(free) else None
            if change is None:
                return False
            if self._is_found(change):
                return True
            free_pieces, wrong = np.count_nonzero(free), change.wrong
            if wrong > self.most_wrong * free_pieces or (self.must_improve and 0 < fewest <= wrong):
                return False
            free, fewest = change.free, wrong or np.inf
            self._go_on(change)
        return True

    @abstractmethod
    def _fits(self, free: Mask) -> bool:
        """Whether the system of these pieces is small enough."""

    @abstractmethod
    def _step(self, free: Mask) -> Change | None:
        """Newton's method on the face; None if its system is singular or leads astray."""

    @abstractmethod
    def _is_found(self, change: Change) -> bool:
        """Notes what the step has led to if it is better than before; whether that is enough."""

    def _go_on(self, change: Change) -> None:  # noqa: B027, nothing for most
        """What else moves before the next step."""
