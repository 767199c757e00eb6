"""The largest squared distance between class vectors (p = inf), as an interior point carries it along.

    max_{k<l} f |d_kl|^2  =  min t   subject to   z_kl = t - f |d_kl|^2 >= 0

with the factor f of the penalty's scale, and multipliers ``nu_kl >= 0`` of the pairs of classes, ``sum nu = 1`` and, on the
central path, ``nu z = mu``. A Newton step for a change h of the differences changes them by

    dz = dt - 2 f <d, h> + rounding,    dnu = target / z - nu - (nu / z) dz,    sum (nu + dnu) = 1.

So t and the slacks can be eliminated: weights ``Q = 2 f nu`` and stretches ``K = 4 f^2 nu / z`` of a graph on the classes
are left, with the mean of the stretched products taken away (`PenaltyModel.shared`). Slacks and multipliers move on their
own: a barrier that knows W alone loses the digits of ``nu = mu / z`` long before the gap is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polymargin.penalties.base import Array

if TYPE_CHECKING:
    from polymargin.penalties.pairs.pairwise import PairwiseDistances, PenaltyModel

_KEPT = 0.1  # of a slack: what the square of a step may leave of it


def blurred_largest(r2: Array, mu: float) -> tuple[float, Array]:
    """The t that minimises ``t - mu sum log(t - r2)``, and the slacks ``t - r2``."""
    top = float(r2.max(initial=0.0))
    t = top + mu  # at least one pair: the root lies in (top, top + n mu]
    for _ in range(100):
        z = t - r2
        excess = (mu / z).sum() - 1.0
        step = excess / (mu / z**2).sum()
        t = max(t + step, top + 0.1 * (t - top))
        if abs(step) <= 1e-15 * (t - top):
            break
    return t, t - r2


class LargestDistance:
    """Slacks and multipliers of the pairs of classes, and the Newton step at hand."""

    blur = 0.0

    def __init__(self, penalty: PairwiseDistances, W: Array, mu: float):
        self._penalty = penalty
        self._factor = penalty.outer.factor(W.shape[1] * (W.shape[1] - 1) // 2)
        self.t, self.z = blurred_largest(self._squares_of(W), mu)
        self.nu = mu / self.z
        self._dz = self._dnu = np.zeros_like(self.z)

    def _squares_of(self, W: Array) -> Array:
        return self._factor * self._penalty.squares(W)

    @property
    def n_products(self) -> int:
        return len(self.z)

    def sharpen(self, W: Array, blur: float) -> None:
        """It has no blur, but products that fall."""

    def model(self, W: Array) -> PenaltyModel:
        K, top = 4.0 * self._factor**2 * self.nu / self.z, float(self._squares_of(W).max(initial=0.0))
        return self._penalty.weighted_model(W, 2.0 * self._factor * self.nu, K, top, shared=float(K.sum()))

    def aim(self, model: PenaltyModel, mu: float, *, correct: bool) -> PenaltyModel:
        target = mu - self._dz * self._dnu if correct else np.full_like(self.z, mu)
        self._stiffness = self.nu / self.z
        self._rounding = self.t - self._squares_of(model.W) - self.z
        reach = target / self.z - self._stiffness * self._rounding
        self._dt = float(reach.sum() - 1.0) / float(self._stiffness.sum())
        self._aimed = reach - self._stiffness * self._dt
        return self._penalty.weighted_model(model.W, 2.0 * self._factor * self._aimed, np.zeros_like(target), self.t)

    def follow(self, model: PenaltyModel, D: Array, pulls: Array | None = None) -> None:
        """Moves of slacks and multipliers with the step D of W; `pulls` are ``K (<d, h> - mean)`` if they are known."""
        self._squares = self._squares_of(D)
        inner = 2.0 * self._factor * self._penalty.inner_products(model.W, D)
        shift = float(self._stiffness @ inner) / float(self._stiffness.sum())
        pulled = self._stiffness * (inner - shift) if pulls is None else 0.5 / self._factor * pulls
        self._dz = self._dt + self._rounding - pulled / self._stiffness
        self._dnu = self._aimed - self.nu + pulled
        self._dt += shift

    def longest(self) -> float:
        out = 1e300
        for value, change in ((self.z, self._dz), (self.nu, self._dnu)):
            falling = change < 0.0
            if falling.any():
                out = min(out, float((value[falling] / -change[falling]).min()))
        return out

    def products_after(self, a: float) -> float:
        return float((self.nu + a * self._dnu) @ (self.z + a * self._dz))

    def strays(self, a: float, bend: float = 0.0) -> float:
        """How much t must rise beyond its step because distances are not linear."""
        return max(0.0, float((a * a * self._squares - (1.0 - _KEPT) * (self.z + a * self._dz)).max()))

    def value_after(self, W: Array, a: float, mu: float) -> float:
        """``t - mu sum log z`` and the ridge."""
        t, z = self._after(a)
        return self._penalty.ridge_value(W) + t - mu * float(np.log(z).sum())

    def take(self, a: float) -> None:
        self.t, self.z = self._after(a)
        self.nu = self.nu + a * self._dnu

    def _after(self, a: float) -> tuple[float, Array]:
        rise = self.strays(a)
        return self.t + a * self._dt + rise, self.z + a * self._dz - a * a * self._squares + rise
