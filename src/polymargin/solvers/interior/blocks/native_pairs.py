"""The pairwise hinge in arrays of the core: ``sum_i u_i sum_{k != y} [1 - (s_y - s_k)]_+``.

It is the Weston-Watkins block, for many rows: nothing is kept between passes but scores, slacks s and xi and multipliers A
and ``B = u - A`` of the pairs (row, rival class). Directions are formed again from those of the scores, in the core.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.penalties.capabilities import Carried
from polymargin.solvers.interior.pair_iterate import PairIterate

Array = NDArray[np.float64]


class NativePairs:
    """Slacks and further multipliers of an iterate, which has scores S and multipliers A.

    Slacks and multipliers of a penalty that is a maximum share the barrier.
    """

    penalty: Carried

    def __init__(self, now: PairIterate):
        self._now = now
        self.B, self.xi, self.s, self.omega = (np.zeros_like(now.S) for _ in range(4))
        self.mean = 0.0  # product; on the central path it is all of them
        self.direction: Array = np.empty(0)  # of the scores
        self.predicted: Array | None = None  # the predictor's, for the second order

    @property
    def _arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        return self._now.S, self._now.A, self.B, self.xi, self.s

    @property
    def n_products(self) -> int:
        """Of slacks and multipliers."""
        return 2 * int(self._now.S.size - len(self._now.y)) + self.penalty.n_products

    def start(self, A: Array) -> None:
        """Places all of them inside their bounds, at multipliers A."""
        now = self._now
        x = 1.0 - (now.S[now.own, now.y][:, None] - now.S)
        room = max(float(np.abs(x).mean()), 1e-3)
        now.A[:] = A
        self.B[:] = now.cost[:, None] - A
        self.s[:] = np.maximum(-x, 0.0) + room
        mu = float((now.A * self.s).mean())
        self.s[:] = np.maximum(self.s, 0.1 * mu / now.A)
        self.xi[:] = mu / self.B + np.maximum(x, 0.0)
        for array in (now.A, self.B, self.xi, self.s):
            array[now.own, now.y] = 0.0
        pairs = now.S.size - len(now.y)
        self.mean = float((now.A * self.s).sum() + (self.B * self.xi).sum()) / (2 * pairs)
        self.penalty = now.problem.penalty.carried(now.V[: now.design.r], self.mean)

    def linearise(self) -> Array:
        """Weights (n, c) of the edges from a row's own class to the others; the affine aim comes with them."""
        self._target, self.predicted = 0.0, None
        native.pair_system(self._now.y, 0.0, *self._arrays, None, self._now.T, self.omega)
        return self.omega

    def aim(self, target: float) -> Array:
        """What pulls at the scores (n, c) when the products aim at `target`; after a predictor, with its second order."""
        if self.predicted is not None:
            self._target = target
            native.pair_system(self._now.y, target, *self._arrays, self.predicted, self._now.T, self.omega)
        return self._now.T

    def follow(self, dS: Array) -> None:
        self.direction = dS
        self._report = native.assess_step(self._now.y, self._target, *self._arrays, dS, self.predicted)

    def longest_step(self) -> float:
        return min(float(self._report[0]), float(self._report[1]), self.penalty.longest())

    @property
    def curvature(self) -> float:
        """Second derivative of the condensed losses along the direction."""
        return float(self._report[6])

    def products(self, size: float) -> float:
        """The sum of all of them after a step of this size."""
        now, primal, dual, both = self._report[2:6]
        return float(now + size * (primal + dual) + size * size * both) + self.penalty.products_after(size)

    def mehrotra_target(self, size: float) -> tuple[float, float]:
        self.predicted = self.direction
        left = self.products(size) / self.n_products / self.mean
        mu = self.mean * float(np.clip(left, 1e-4, 1.0)) ** 3
        return mu, mu

    def gondzio_target(self, target: float, size: float, barrier: float) -> None:
        """None: a pass does not tell the outliers among the products."""

    def step(self, size: float) -> None:
        self.mean = self.products(size) / self.n_products
        native.take_step(self._now.y, self._target, *self._arrays, self.direction, self.predicted, size, size)
        self.penalty.take(size)
