"""The penalty of the classical machines."""

from __future__ import annotations

import numpy as np

from polymargin.penalties.base import Array, Penalty


class SquaredNorm(Penalty):
    """``1/2 |W|_F^2``."""

    name = "squared norm"
    identity_hessian = rotation_invariant = centres = True

    def value(self, W: Array) -> float:
        return 0.5 * float((W * W).sum())

    def gradient(self, W: Array) -> Array:
        return W

    def conjugate(self, Z: Array) -> float:
        return self.value(Z)

    def minimizer(self, Z: Array) -> Array:
        return Z

    def class_metric(self, W: Array) -> Array:
        return np.eye(W.shape[1])
