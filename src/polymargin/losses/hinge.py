"""The hinge losses of the classical machines."""

from __future__ import annotations

import numpy as np

from polymargin.losses.base import Array, Classes, ScoreLoss, own_and_others
from polymargin.losses.domain import Box, Simplex


class CrammerSingerHinge(ScoreLoss):
    """``[1 - (s_y - max_{k != y} s_k)]_+`` (Crammer & Singer 2001)."""

    name = "Crammer-Singer hinge"
    key = "crammer_singer"
    domain = Simplex()

    def value(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        best = np.where(others, S, -np.inf).max(axis=1)
        return np.maximum(0.0, 1.0 - own[:, 0] + best)

    def gradient(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        rival = np.where(others, S, -np.inf).argmax(axis=1)
        rows = np.arange(len(y))
        active = (1.0 - own[:, 0] + S[rows, rival] > 0).astype(float)
        G = np.zeros_like(S)
        G[rows, rival] += active
        G[rows, y] -= active
        return G


class SquaredCrammerSingerHinge(ScoreLoss):
    """``[1 - (s_y - max_{k != y} s_k)]_+^2``."""

    name = "squared Crammer-Singer hinge"
    key = "squared_crammer_singer"
    domain = Simplex()
    squared = True

    def __init__(self) -> None:
        self._hinge = CrammerSingerHinge()

    def value(self, S: Array, y: Classes) -> Array:
        return np.asarray(self._hinge.value(S, y) ** 2)

    def gradient(self, S: Array, y: Classes) -> Array:
        return 2.0 * self._hinge.value(S, y)[:, None] * self._hinge.gradient(S, y)


class WestonWatkinsHinge(ScoreLoss):
    """``sum_{k != y} [1 - (s_y - s_k)]_+`` (Weston & Watkins 1999)."""

    name = "Weston-Watkins hinge"
    key = "weston_watkins"
    domain = Box()

    def value(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        return np.where(others, np.maximum(0.0, 1.0 - own + S), 0.0).sum(axis=1)

    def gradient(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        G = (others & (1.0 - own + S > 0)).astype(float)
        G[np.arange(len(y)), y] = -G.sum(axis=1)
        return G
