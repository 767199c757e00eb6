"""The squared hinge of the closest rival class."""

from __future__ import annotations

import numpy as np

from polymargin.losses.base import Array, Classes, ScoreLoss, own_and_others
from polymargin.losses.hinge import CrammerSingerHinge

_FORGIVEN = 1e-9


class SquaredCrammerSingerHinge(ScoreLoss):
    """``[1 - (s_y - max_{k != y} s_k)]_+^2``."""

    name = "squared Crammer-Singer hinge"
    scaled_row_problem = interior_block = "squared_crammer_singer"

    def __init__(self) -> None:
        self._hinge = CrammerSingerHinge()

    def value(self, S: Array, y: Classes) -> Array:
        return np.asarray(self._hinge.value(S, y) ** 2)

    def gradient(self, S: Array, y: Classes) -> Array:
        return 2.0 * self._hinge.value(S, y)[:, None] * self._hinge.gradient(S, y)

    def conjugate(self, T: Array, y: Classes) -> Array:
        _, others = own_and_others(T, y)
        off_class = np.where(others, T, 0.0)
        total = off_class.sum(axis=1)
        inside = (off_class.min(axis=1) >= -_FORGIVEN) & (np.abs(T.sum(axis=1)) <= _FORGIVEN)
        return np.where(inside, 0.25 * total**2 - total, np.inf)
