"""The penalty of the lp-norm machine: a norm of the class vectors' norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from polymargin.penalties.base import Array, Penalty

_SHIFTS, _SAME = 500, 1e-12
_SMALLEST_SCALE = 1e-8  # of the largest: a class whose vector is zero can still come back


@dataclass(frozen=True)
class ClassScales:
    """Class scales beta, of which the block norm is a minimum (Eq. 14 of the paper):

    R(W) = min { sum_k |w_k|^2 / (2 beta_k) :  beta >= 0,  sum_k beta_k^q <= 1 },    q = p / (2 - p)
    """

    p: float

    @property
    def dual_p(self) -> float:
        return self.p / (self.p - 1.0) if self.p > 1.0 else float("inf")

    def of_norms(self, norms: Array) -> Array:
        """``beta_k = |w_k|^(2-p) (sum_l |w_l|^p)^((p-2)/p)`` for the norms of the class vectors attain the minimum."""
        largest = float(norms.max())
        if largest == 0.0:
            return self.normalised(np.ones(len(norms)))
        return self.normalised((norms / largest) ** (2.0 - self.p))

    def log_step(self, scales: Array, norms: Array) -> Array:
        """How far Eq. 14 moves log beta, from these scales and the norms of the class vectors they led to.

        With sums ``z_k`` of rows that do not depend on the scales, the step ``beta_k ~ (beta_k |z_k|)^(2-p)`` shrinks the
        error of log beta by 2 - p only: it wants an extrapolation.
        """
        return np.asarray(np.log(self.of_norms(norms) / scales))

    def scales_at(self, logs: Array) -> Array:
        """Normalised scales from their logarithms, which an extrapolation may have made large."""
        return self.normalised(np.exp(logs - logs.max()))

    def normalised(self, scales: Array) -> Array:
        """The scales times the number that puts them on ``sum_k beta_k^q = 1``; tiny ones are raised to a floor."""
        relative = np.maximum(scales / scales.max(), _SMALLEST_SCALE)
        if self.p == 2.0:
            return np.asarray(relative)
        q = self.p / (2.0 - self.p)
        return np.asarray(relative / float((relative**q).sum()) ** (1.0 / q))


class BlockNorm(Penalty):
    """``1/2 (sum_k |w_k|^p)^(2/p)`` for 1 <= p <= 2 (Lei, Dogan, Binder & Kloft 2015).

    Its conjugate is the same with ``p* = p / (p - 1)``. It is a minimum over class scales.
    """

    name = "block norm"

    def __init__(self, p: float = 1.5):
        self.p = float(p)

    @property
    def class_scales(self) -> ClassScales:
        return ClassScales(self.p)

    def value(self, W: Array) -> float:
        return half_square(class_norms(W), self.p)

    def gradient(self, W: Array) -> Array:
        return W * _slopes(class_norms(W), self.p)

    def conjugate(self, Z: Array) -> float:
        return half_square(class_norms(Z), self.class_scales.dual_p)

    def minimizer(self, Z: Array) -> Array:
        return Z * _slopes(class_norms(Z), self.class_scales.dual_p)

    def class_metric(self, W: Array) -> Array:
        """From the scales, of which R is a minimum: it is above R elsewhere."""
        return np.diag(1.0 / self.class_scales.of_norms(class_norms(W)))

    def best_shift(self, Z: Array) -> Array:
        """Along the sum of the vectors that attain the conjugate, by steps that their curvature allows."""
        q, v = self.class_scales.dual_p, super().best_shift(Z)
        for _ in range(_SHIFTS):
            slopes = _slopes(class_norms(Z + v), q)
            if not slopes.sum() > 0.0:
                break
            step = (Z + v) @ slopes[:, None] / (slopes.sum() * max(1.0, q - 1.0))
            v = v - step
            if np.abs(step).max(initial=0.0) <= _SAME * np.abs(v).max(initial=0.0):
                break
        return np.asarray(v)


def class_norms(W: Any) -> Array:
    """Norms of the columns of an array or CSR matrix."""
    squares = W.power(2).sum(axis=0) if sparse.issparse(W) else np.einsum("jk,jk->k", W, W)
    return np.asarray(np.sqrt(squares))


def half_square(norms: Array, p: float) -> float:
    """``1/2 |norms|_p^2``."""
    largest = float(norms.max())
    if largest == 0.0 or np.isinf(p):
        return 0.5 * largest**2
    return 0.5 * largest**2 * float(((norms / largest) ** p).sum()) ** (2.0 / p)


def _slopes(norms: Array, p: float) -> Array:
    """The gradient of `half_square`, divided by the norms."""
    largest = float(norms.max())
    if largest == 0.0:
        return np.zeros_like(norms)
    relative = norms / largest
    powers = np.where(relative > 0.0, relative, 1.0) ** (p - 2.0)
    return np.asarray(np.where(relative > 0.0, powers, 0.0) * float((relative**p).sum()) ** (2.0 / p - 1.0))
