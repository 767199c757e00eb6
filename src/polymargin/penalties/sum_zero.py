"""Any penalty on class vectors that add up to zero, as losses of absolute margins want them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from polymargin.penalties.base import Array, Penalty
from polymargin.penalties.capabilities import Along, Coupling, Kink, Ray

if TYPE_CHECKING:
    from polymargin.penalties.angular import AnglePenalty


class AtSumZero(Penalty):
    """R on ``sum_k w_k = 0``; the sum is left to the solvers, and `value` trusts them.

    Its conjugate is ``min_v R*(Z + v 1')``: every v gives a bound, and the best is known, or nearly, from R.
    """

    fixes_sum = True

    def __init__(self, penalty: Penalty):
        self.penalty = penalty
        self.name = f"{penalty.name} at sum zero"
        self.rotation_invariant, self.has_model, self.tilt = penalty.rotation_invariant, penalty.has_model, penalty.tilt

    @property
    def smooth(self) -> bool:
        return self.penalty.smooth

    def coupling(self, n_classes: int) -> Coupling | None:
        free = Coupling(1.0, 1.0, 1.0, 0.0) if self.penalty.identity_hessian else self.penalty.coupling(n_classes)
        return None if free is None else Coupling(free.scale, 0.0, free.own, math.inf)

    def value(self, W: Array) -> float:
        return self.penalty.value(W)

    def gradient(self, W: Array) -> Array:
        return self.penalty.gradient(W)

    def conjugate(self, Z: Array) -> float:
        return self.penalty.conjugate(Z + self.penalty.best_shift(Z))

    def minimizer(self, Z: Array) -> Array:
        return self.penalty.minimizer(Z + self.penalty.best_shift(Z))

    def longest_vector(self, value: float, n_classes: int) -> float:
        return self.penalty.longest_vector(value, n_classes)

    def mixing(self, W: Array) -> Array | None:
        """Without its part along ``(1, ..., 1)``, always an eigenvector, so large at times that rounding hides the rest."""
        M = self.penalty.mixing(W)
        return None if M is None else M - M.mean(axis=0) - M.mean(axis=1, keepdims=True) + M.mean()

    def class_metric(self, W: Array) -> Array | None:
        return self.penalty.class_metric(W)

    @property
    def kink(self) -> Kink | None:
        return self.penalty.kink

    @property
    def angular(self) -> AnglePenalty | None:
        return self.penalty.angular

    def model(self, W: Array, width: float) -> Any:
        return self.penalty.model(W, width)

    def conjugate_along(self, model: Any, Z: Array) -> tuple[Along, Ray]:
        return self.penalty.conjugate_along(model, Z + self.penalty.best_shift(Z))

    def offset_value(self, b: Array) -> float:
        return self.penalty.offset_value(b)

    def offset_gradient(self, b: Array) -> Array:
        return self.penalty.offset_gradient(b)

    def offset_conjugate(self, sums: Array, scale: float) -> float:
        return self.penalty.offset_conjugate(sums - np.mean(sums), scale)
