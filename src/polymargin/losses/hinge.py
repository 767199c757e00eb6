"""The hinge losses of the classical machines."""

from __future__ import annotations

import numpy as np

from polymargin.losses.base import Array, Classes, ScoreLoss, own_and_others

_FORGIVEN = 1e-9


class CrammerSingerHinge(ScoreLoss):
    """``[1 - (s_y - max_{k != y} s_k)]_+`` (Crammer & Singer 2001)."""

    name = "Crammer-Singer hinge"
    row_problem = interior_block = "crammer_singer"
    scaled_row_problem = "scaled_crammer_singer"

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

    def conjugate(self, T: Array, y: Classes) -> Array:
        _, others = own_and_others(T, y)
        weight = np.where(others, T, 0.0).sum(axis=1)
        return _linear_on_polytope(T, others, weight <= 1.0 + _FORGIVEN)


class WestonWatkinsHinge(ScoreLoss):
    """``sum_{k != y} [1 - (s_y - s_k)]_+`` (Weston & Watkins 1999)."""

    name = "Weston-Watkins hinge"
    row_problem = interior_block = "weston_watkins"

    def value(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        return np.where(others, np.maximum(0.0, 1.0 - own + S), 0.0).sum(axis=1)

    def gradient(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        G = (others & (1.0 - own + S > 0)).astype(float)
        G[np.arange(len(y)), y] = -G.sum(axis=1)
        return G

    def conjugate(self, T: Array, y: Classes) -> Array:
        _, others = own_and_others(T, y)
        return _linear_on_polytope(T, others, np.where(others, T, 0.0).max(axis=1) <= 1.0 + _FORGIVEN)


def _linear_on_polytope(T: Array, others: np.ndarray, inside: np.ndarray) -> Array:
    """Both hinges are support functions: their conjugate is ``-sum_{k != y} t_k`` on a polytope."""
    off_class = np.where(others, T, 0.0)
    inside = inside & (off_class.min(axis=1) >= -_FORGIVEN) & (np.abs(T.sum(axis=1)) <= _FORGIVEN)
    return np.where(inside, -off_class.sum(axis=1), np.inf)
