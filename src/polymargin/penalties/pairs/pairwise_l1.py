"""The penalty of M3SVM with the l1 norm: class vectors that differ in few features.

    R(W, b) = sum_{k<l} |w_k - w_l|_1^p + eps (|W|^2 + |b|^2),     1 <= p < inf

or, in the scale of a norm, ``(c - 1)/4 (mean_{k<l} |w_k - w_l|_1^p)^(2/p)`` in place of the sum. Absolute values are blurred
for Newton's method, ``|d| -> sqrt(d^2 + eta^2)``. The bound of the conjugate is that of `pairwise.py` with the dual norm of
a difference: flows ``U_kl`` are as long as ``max_j |U_jkl|``, and the ridge carries its own ``2 eps/c d_kl`` in both scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polymargin.penalties.base import Array
from polymargin.penalties.capabilities import Ray
from polymargin.penalties.pairs.pairwise import PowersOfDistances, add_slope, along_slope, pair_indices


class L1Model(NamedTuple):
    """The blurred penalty at W. Pairs are columns: differences are ``W E`` with the incidence matrix E (c, pairs)."""

    W: Array
    value: float
    gradient: Array
    E: Array
    signs: Array  # (d, pairs), smooth
    slopes: Array  # p r^(p-1) in the scale of powers
    bends: Array  # (d, pairs): slopes times the second derivative of the blurred absolute value
    stretches: Array  # p (p - 1) r^(p-2)
    ridge: float
    bend: float  # as in `PenaltyModel`
    shared: float = 0.0

    @property
    def slope(self) -> Array:
        return np.asarray(self.gradient - self.ridge * self.W)

    @property
    def Q(self) -> Array:
        """Weights between classes, averaged over features: for preconditioners."""
        weights = self.bends.mean(axis=0) + self.stretches * np.square(self.signs).mean(axis=0)
        L = (self.E * weights) @ self.E.T
        return np.diag(np.diag(L)) - L

    @property
    def K(self) -> Array:
        return np.zeros((self.W.shape[1],) * 2)

    def product(self, V: Array) -> Array:
        """Hessian times V."""
        D = V @ self.E
        D = self.bends * D + self.signs * (self.stretches * (self.signs * D).sum(axis=0))
        out = np.asarray(D @ self.E.T + self.ridge * V)
        return out + along_slope(self, V) if self.bend else out

    def add_to(self, H: Array, n_rows: int) -> None:
        """Adds the Hessian to H, with `n_rows` rows for each class."""
        d, c = self.W.shape
        blocks = H.reshape(c, n_rows, c, n_rows)
        feature = np.arange(d)
        blocks[:, feature, :, feature] += np.einsum("kp,jp,lp->jkl", self.E, self.bends, self.E, optimize=True)
        blocks[:, feature, :, feature] += self.ridge * np.eye(c)
        if self.bend:
            add_slope(self, blocks)
        columns = np.zeros((c, n_rows, self.E.shape[1]))
        columns[:, :d] = self.E[:, None] * self.signs
        B = columns.reshape(c * n_rows, -1)
        H += (B * self.stretches) @ B.T

    def apart(self, n_rows: int) -> tuple[L1Model, Array, Array]:
        """Nothing is stretched in common here."""
        return self, np.zeros((0, self.W.shape[1], n_rows)), np.zeros(0)


class PairwiseL1(PowersOfDistances):
    """``|w_k - w_l|_1^p`` of all pairs, in one of two scales, and ``eps (|W|^2 + |b|^2)``."""

    name = "pairwise l1 distances"

    @property
    def smooth(self) -> bool:
        return False

    def distances(self, W: Array) -> Array:
        return np.asarray(np.abs(W @ incidence(W.shape[1])).sum(axis=0))

    def width(self, W: Array, blur: float) -> float:
        """eta; it depends on how steep R is near W."""
        r = self.distances(W)
        floor = self.outer.width(r, blur)  # shorter differences cost less than the blur
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            steepness = float(self.outer.at(np.maximum(r, floor)).slopes(self.p, 0).sum())
        return blur / (max(steepness, 1e-300) * max(1, len(W)))

    def model(self, W: Array, width: float) -> L1Model:
        p, E, eta = self.p, incidence(W.shape[1]), width
        D = W @ E
        rho = np.sqrt(D * D + eta * eta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            signs = np.where(rho > 0.0, D / rho, 0.0)
            curves = np.where(rho > 0.0, eta * eta / rho**3, 0.0)
            at = self.outer.at(rho.sum(axis=0))
            slopes, stretches, ridge = at.slopes(p, 0), (p - 1.0) * at.slopes(p, 1), 2.0 * self.epsilon
            gradient = (signs * slopes) @ E.T + ridge * W
            value = at.value + self.ridge_value(W)
            return L1Model(W, value, gradient, E, signs, slopes, curves * slopes, stretches, ridge, at.bend)

    def conjugate_along(self, model: L1Model, Z: Array) -> tuple[Callable[[float], float], Ray]:
        """An upper bound of ``R*(t Z)`` as a function of t, and its shape."""
        c = Z.shape[1]
        square = float(np.square(Z.mean(axis=1)).sum()) * c / (2.0 * model.ridge)  # of what no difference can carry
        square += 0.5 * model.ridge / c * float(np.square(model.W @ model.E).sum())
        flows = model.signs * model.slopes + ((Z - model.gradient) @ model.E) / c
        s = np.abs(flows).max(axis=0, initial=0.0)
        ray = self.outer.flow_ray(s, square)
        if self.outer.degree == 2.0:
            return lambda t: t * t * ray.square, ray
        return lambda t: self._flow_cost(t * s) + t * t * square, ray

    def _flow_cost(self, s: Array) -> float:
        """Where R is no square."""
        if self.p == 1.0:
            return 0.0 if s.max(initial=0.0) <= 1.0 + 1e-12 else np.inf
        return float(((self.p - 1.0) * (s / self.p) ** (self.p / (self.p - 1.0))).sum())

    def conjugate(self, Z: Array) -> float:
        raise NotImplementedError("the l1 penalty is bounded along flows only; see conjugate_along")

    def minimizer(self, Z: Array) -> Array:
        raise NotImplementedError("the l1 penalty is bounded along flows only; see conjugate_along")


def incidence(c: int) -> Array:
    """(c, pairs) with +1 and -1 for the classes of each pair k < l."""
    k, other = pair_indices(c)
    E = np.zeros((c, len(k)))
    E[k, np.arange(len(k))] = 1.0
    E[other, np.arange(len(k))] = -1.0
    return E
