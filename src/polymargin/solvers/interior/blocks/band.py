"""A band of margins: the convex model of the margin distribution machine, for one rival r of each row.

    sum_i kappa_i ( t_i^2 + mu e_i^2 ),    t_i = max_l [1 - theta + s_l - s_y]_+,    e_i = [s_y - s_r - 1 - theta]_+

The first part is the squared Crammer-Singer block with ``1 - theta`` in place of 1. The second has one slack a row,
``h = beta / (2 kappa mu) - (s_y - s_r - 1 - theta)``, with the multiplier ``beta``: an edge between the classes y and r.
Off the own class the duals of both parts are signed: ``-tau_l = a_l``, less beta at class r. At the optimum
``a_r beta = 0``, and taking the same from both lowers no dual value, so that nothing is lost.
"""

from __future__ import annotations

import numpy as np

from polymargin.solvers.interior.blocks.hinges import SquaredCrammerSinger
from polymargin.solvers.interior.blocks.max_terms import Array, Labels
from polymargin.solvers.interior.blocks.row_terms import Edges

_LEAST_EXCESS = 1e-2  # h and beta start at margins that exceed the band by at least so much


class Band(SquaredCrammerSinger):
    """The squared hinge with one more multiplier and slack a row: beta and h."""

    def __init__(self, y: Labels, kappa: Array, n_classes: int, proximal: Array, rival: Labels, theta: float, mu: float):
        super().__init__(y, kappa, n_classes, proximal)
        self.offset *= 1.0 - theta
        self.lower, self.upper = 1.0 - theta, 1.0 + theta
        self.at_rival = rival * y.size + np.arange(y.size)  # flat index of (r_i, i)
        self.stiffness = 2.0 * mu * kappa

    def _excess(self, S: Array) -> Array:
        return S.ravel()[self.own] - S.ravel()[self.at_rival]

    def _join(self, tau: Array, beta: Array) -> Array:
        """tau with beta, which pulls the classes y and r together."""
        flat = tau.ravel()
        flat[self.own] -= beta
        flat[self.at_rival] += beta
        return tau

    def start(self, S: Array) -> None:
        super().start(S)
        above = self._excess(S) - self.upper
        e = np.maximum(above, 0.0) + np.maximum(_LEAST_EXCESS, 0.1 * np.abs(above))
        self.place(self.A, self.f, (self.stiffness * e, e - above))
        self.beta, self.h = self.multipliers[self.A.size :], self.slacks[self.A.size :]

    def loss(self, S: Array) -> float:
        below = super().loss(S)
        self.above = self._excess(S) - self.upper
        return below + 0.5 * float(self.stiffness @ np.maximum(self.above, 0.0) ** 2)

    def pull(self) -> Array:
        return self._join(super().pull(), self.beta)

    def gain(self, tau: Array) -> float:
        beta = np.maximum(tau.ravel()[self.at_rival], 0.0)
        sums = tau.ravel()[self.own] + beta
        gains = sums * (self.lower - sums / (4.0 * self.weight)) - beta * (self.upper + beta / (2.0 * self.stiffness))
        return float(gains.sum())

    def linearise(self) -> Edges:
        edges = super().linearise()
        assert edges.star is not None
        self.give = self.h + self.beta / self.stiffness
        self.edge = self.beta / self.give
        self.upper_residual = self.beta / self.stiffness - self.above - self.h
        edges.star.ravel()[self.at_rival] += self.edge
        return edges

    def aim(self, target: Array | float) -> Array:
        tau, upper = super().aim(target), np.broadcast_to(target, self.multipliers.shape)[self.A.size :]
        self.aimed = (upper - self.beta * (self.h + self.upper_residual)) / self.give
        return self._join(tau, self.aimed)

    def follow(self, dS: Array) -> None:
        super().follow(dS)
        rise = self._excess(dS)
        d_beta = self.aimed + self.edge * rise
        dA, df, dt = self.direction
        d_h = d_beta / self.stiffness - rise + self.upper_residual
        self.direction = np.r_[dA, d_beta], np.r_[df, d_h], dt

    def feasible(self, a: Array) -> Array:
        clipped = np.maximum(a, 0.0)
        clipped.ravel()[self.at_rival] = a.ravel()[self.at_rival]
        return clipped
