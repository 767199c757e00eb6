"""The duals that are free to move around a projection, each seen as a pair of classes of its row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.losses.domains.domain import Projected
from polymargin.losses.domains.margins import Array, Mask

Index = NDArray[np.intp]


class FreePairs(NamedTuple):
    """Duals that may move: what each of them gives to the class `own` it takes from its rival."""

    rows: Index
    own: Index
    rivals: Index
    closed: Mask  # belongs to a closed row

    def errors(self, S: Array) -> Array:
        """The change of e for a change S of the scores."""
        return np.asarray(S[self.rows, self.rivals] - S[self.rows, self.own])

    def signed(self, steps: Array, shape: tuple[int, ...]) -> Array:
        """tau of steps of these duals."""
        c = shape[1]
        own = np.bincount(self.rows * c + self.own, steps, shape[0] * c)
        return np.asarray((own - np.bincount(self.rows * c + self.rivals, steps, shape[0] * c)).reshape(shape))


def free_pairs(at: Projected, y: NDArray[np.int32]) -> FreePairs:
    """A closed row's largest dual stands in for its own class: it gives what the others take."""
    rows, rivals = np.nonzero(at.free)
    closed = at.closed[rows]
    own = np.where(closed, np.where(at.free, at.A, -1.0).argmax(axis=1)[rows], y[rows])
    kept = ~closed | (rivals != own)
    return FreePairs(rows[kept], own[kept], rivals[kept], closed[kept])
