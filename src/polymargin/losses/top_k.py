"""The top-k hinge: an error counts if the right class is not among the k best."""

from __future__ import annotations

import numpy as np

from polymargin.losses.base import Array, Classes, ScoreLoss, own_and_others
from polymargin.losses.domain import TopKSimplex


class TopKHinge(ScoreLoss):
    """``[mean of the k largest of m]_+``, ``m_l = 1[l != y] + s_l - s_y`` over all classes, the own one (``m_y = 0``) too.

    The alpha form of Lapin, Hein & Schiele (2015); for k = 1 the Crammer-Singer hinge.
    """

    name = "top-k hinge"
    key = "top_k"

    def __init__(self, k: int = 2) -> None:
        self.k = int(k)
        self.domain = TopKSimplex(self.k)

    def value(self, S: Array, y: Classes) -> Array:
        largest = np.partition(_violations(S, y), -self.k, axis=1)[:, -self.k :]
        return np.maximum(0.0, largest.mean(axis=1))

    def gradient(self, S: Array, y: Classes) -> Array:
        largest = np.argpartition(_violations(S, y), -self.k, axis=1)[:, -self.k :]
        shares = (self.value(S, y) > 0.0)[:, None] / self.k
        G = np.zeros_like(S)
        np.put_along_axis(G, largest, np.broadcast_to(shares, largest.shape), axis=1)
        rows = np.arange(len(y))
        G[rows, y] = 0.0
        G[rows, y] = -G.sum(axis=1)
        return G


def _violations(S: Array, y: Classes) -> Array:
    own, others = own_and_others(S, y)
    return np.asarray(others + S - own)
