"""The penalties of One versus None: class vectors pushed apart, or kept at sum zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.penalties.base import Array, Penalty, sum_of_squares
from polymargin.penalties.capabilities import Coupling
from polymargin.penalties.squared_norm import SquaredNorm
from polymargin.penalties.sum_zero import AtSumZero


class CoupledNorm(Penalty):
    """``1/2 sum_k |w_k|^2 + alpha sum_{k<l} <w_k, w_l>``, that is ``1/2 (1-alpha) |W|^2 + 1/2 alpha |sum_k w_k|^2``.

    Convex and bounded for ``-1/(c-1) < alpha < 1``.
    """

    name = "coupled norm"

    def __init__(self, alpha: float = 0.5):
        self.alpha = alpha

    def coupling(self, n_classes: int) -> Coupling:
        own = 1.0 - self.alpha
        return Coupling(1.0 / own, 1.0 / (1.0 + self.alpha * (n_classes - 1)), own, self.alpha)

    def value(self, W: Array) -> float:
        return self._value(sum_of_squares(W), W.sum(axis=1))

    def value_of_sparse(self, W: Any) -> float:
        return self._value(float(np.square(W.data).sum()), np.asarray(W.sum(axis=1)).ravel())

    def _value(self, squares: float, total: Array) -> float:
        return 0.5 * (1.0 - self.alpha) * squares + 0.5 * self.alpha * float(total @ total)

    def longest_vector(self, value: float, n_classes: int) -> float:
        least = min(1.0 - self.alpha, 1.0 + self.alpha)  # of the curvatures, up to the number of classes
        return super().longest_vector(value / least, n_classes)

    def gradient(self, W: Array) -> Array:
        return (1.0 - self.alpha) * W + self.alpha * W.sum(axis=1, keepdims=True)

    def conjugate(self, Z: Array) -> float:
        return _conjugate(self.coupling(Z.shape[1]), Z)

    def minimizer(self, Z: Array) -> Array:
        return _minimizer(self.coupling(Z.shape[1]), Z)

    def class_metric(self, W: Array) -> Array:
        c = W.shape[1]
        return (1.0 - self.alpha) * np.eye(c) + self.alpha * np.ones((c, c))

    def mixing(self, W: Array) -> Array:
        return np.asarray(np.linalg.inv(self.class_metric(W)), dtype=np.float64)


class ZeroSumNorm(AtSumZero):
    """``1/2 |W|^2`` on ``sum_k w_k = 0``; the sum is left to the solvers, and `value` trusts them."""

    def __init__(self) -> None:
        super().__init__(SquaredNorm())


def _minimizer(coupling: Coupling, Z: Array) -> Array:
    mean = Z.mean(axis=1, keepdims=True)
    return coupling.scale * (Z - mean) + coupling.common * mean


def _conjugate(coupling: Coupling, Z: Array) -> float:
    mean = Z.mean(axis=1, keepdims=True)
    differences = float(((Z - mean) ** 2).sum())
    return 0.5 * coupling.scale * differences + 0.5 * coupling.common * Z.shape[1] * float((mean * mean).sum())
