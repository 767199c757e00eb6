"""The loss of the multi-class optimal margin distribution machine."""

from __future__ import annotations

import numpy as np

from polymargin.losses.base import Array, Classes, MarginBand, ScoreLoss, own_and_others


class MarginDistributionLoss(ScoreLoss):
    """``([1 - theta - gamma]_+^2 + mu [gamma - 1 - theta]_+^2) / (1 - theta)^2`` of the margin (Zhang & Zhou 2017).

    ``gamma = s_y - max_{k != y} s_k`` is concave in the scores, so with three classes and more the second term is not
    convex: there is no conjugate, and the loss is not in `LOSSES`. `solvers.models.rivals` replaces it by convex losses,
    round by round; with two classes these are the loss itself.

    Attributes
    ----------
    theta : float
        Half width of the band of margins that cost nothing, ``0 <= theta < 1``.
    mu : float
        Share of margins beyond the band in the loss, ``0 < mu <= 1``.
    """

    name = "margin distribution"

    def __init__(self, theta: float, mu: float):
        self.theta = theta
        self.mu = mu
        self.margin_band = MarginBand(theta, mu)

    def value(self, S: Array, y: Classes) -> Array:
        margins, _ = _margins(S, y)
        below = np.maximum(0.0, 1.0 - self.theta - margins)
        above = np.maximum(0.0, margins - 1.0 - self.theta)
        return (below**2 + self.mu * above**2) / (1.0 - self.theta) ** 2

    def gradient(self, S: Array, y: Classes) -> Array:
        margins, rivals = _margins(S, y)
        below = np.maximum(0.0, 1.0 - self.theta - margins)
        above = np.maximum(0.0, margins - 1.0 - self.theta)
        slope = 2.0 * (self.mu * above - below) / (1.0 - self.theta) ** 2
        G = np.zeros_like(S)
        rows = np.arange(len(y))
        G[rows, y] += slope
        G[rows, rivals] -= slope
        return G

    def conjugate(self, T: Array, y: Classes) -> Array:
        raise TypeError(f"the {self.name} loss is not convex: it has no conjugate that bounds it")


def _margins(S: Array, y: Classes) -> tuple[Array, Classes]:
    """Margins of the rows and the classes they are measured against."""
    own, others = own_and_others(S, y)
    rivals = np.where(others, S, -np.inf).argmax(axis=1)
    return own[:, 0] - S[np.arange(len(y)), rivals], rivals
