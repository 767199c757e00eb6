"""The penalty of the classical machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.penalties.base import Array, Penalty, sum_of_squares


class SquaredNorm(Penalty):
    """``1/2 |W|_F^2``."""

    name = "squared norm"
    identity_hessian = rotation_invariant = centres = True

    def value(self, W: Array) -> float:
        return 0.5 * sum_of_squares(W)

    def value_of_sparse(self, W: Any) -> float:
        return 0.5 * float(np.square(W.data).sum())

    def gradient(self, W: Array) -> Array:
        return W

    def conjugate(self, Z: Array) -> float:
        return self.value(Z)

    def minimizer(self, Z: Array) -> Array:
        return Z

    def class_metric(self, W: Array) -> Array:
        return np.eye(W.shape[1])


class ShiftedNorm(Penalty):
    """``kappa/2 |W|^2 - <tilt, W> + constant``: that of a convex model of what is not convex."""

    name = "shifted squared norm"
    tilt: Array

    def __init__(self, kappa: float, tilt: Array, constant: float = 0.0):
        self.kappa, self.tilt, self.constant = float(kappa), tilt, float(constant)

    def value(self, W: Array) -> float:
        return 0.5 * self.kappa * float((W * W).sum()) - float((self.tilt * W).sum()) + self.constant

    def gradient(self, W: Array) -> Array:
        return np.asarray(self.kappa * W - self.tilt)

    def conjugate(self, Z: Array) -> float:
        return float(np.square(Z + self.tilt).sum()) / (2.0 * self.kappa) - self.constant

    def minimizer(self, Z: Array) -> Array:
        return np.asarray((Z + self.tilt) / self.kappa)

    def best_shift(self, Z: Array) -> Array:
        return super().best_shift(Z + self.tilt)

    def longest_vector(self, value: float, n_classes: int) -> float:
        least = self.minimizer(np.zeros_like(self.tilt))
        above = super().longest_vector((value - self.value(least)) / self.kappa, n_classes)
        return float(np.sqrt((least * least).sum())) + above

    def class_metric(self, W: Array) -> Array:
        return self.kappa * np.eye(W.shape[1])
