"""The penalty of M3SVM with the l1 norm: class vectors that differ in few features.

    R(W, b) = sum_{k<l} |w_k - w_l|_1^p + eps (|W|^2 + |b|^2),     1 <= p < inf

Absolute values are blurred for Newton's method, ``|d| -> sqrt(d^2 + eta^2)``. The bound of the conjugate is that of
`pairwise.py` with the dual norm: flows ``U_kl`` cost ``psi*(max_j |U_jkl|)``, ``psi(r) = r^p``; what eps adds to R only
lowers the conjugate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polymargin.penalties.base import Array
from polymargin.penalties.capabilities import Ray
from polymargin.penalties.pairwise import PowersOfDistances, flow_ray, pair_indices


class L1Model(NamedTuple):
    """The blurred penalty at W. Pairs are columns: differences are ``W E`` with the incidence matrix E (c, pairs)."""

    W: Array
    value: float
    gradient: Array
    E: Array
    signs: Array  # (d, pairs), smooth
    slopes: Array  # p r^(p-1)
    bends: Array  # (d, pairs): slopes times the second derivative of the blurred absolute value
    stretches: Array  # p (p - 1) r^(p-2)
    ridge: float
    shared: float = 0.0  # as in `PenaltyModel`

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
        return np.asarray(D @ self.E.T + self.ridge * V)

    def add_to(self, H: Array, n_rows: int) -> None:
        """Adds the Hessian to H, with `n_rows` rows for each class."""
        d, c = self.W.shape
        blocks = H.reshape(c, n_rows, c, n_rows)
        feature = np.arange(d)
        blocks[:, feature, :, feature] += np.einsum("kp,jp,lp->jkl", self.E, self.bends, self.E, optimize=True)
        blocks[:, feature, :, feature] += self.ridge * np.eye(c)
        columns = np.zeros((c, n_rows, self.E.shape[1]))
        columns[:, :d] = self.E[:, None] * self.signs
        B = columns.reshape(c * n_rows, -1)
        H += (B * self.stretches) @ B.T

    def apart(self, n_rows: int) -> tuple[L1Model, Array, Array]:
        """Nothing is stretched in common here."""
        return self, np.zeros((0, self.W.shape[1], n_rows)), np.zeros(0)


class PairwiseL1(PowersOfDistances):
    """``sum_{k<l} |w_k - w_l|_1^p + eps (|W|^2 + |b|^2)``."""

    name = "pairwise l1 distances"

    @property
    def smooth(self) -> bool:
        return False

    def distances(self, W: Array) -> Array:
        return np.asarray(np.abs(W @ incidence(W.shape[1])).sum(axis=0))

    def width(self, W: Array, blur: float) -> float:
        """eta; it depends on how steep R is near W."""
        r = self.distances(W)
        floor = (blur / max(1, len(r))) ** (1.0 / self.p)  # shorter differences cost less than the blur
        steepness = float((self.p * np.maximum(r, floor) ** (self.p - 1.0)).sum())
        return blur / (max(steepness, 1e-300) * max(1, len(W)))

    def model(self, W: Array, width: float) -> L1Model:
        p, E, eta = self.p, incidence(W.shape[1]), width
        D = W @ E
        rho = np.sqrt(D * D + eta * eta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            signs = np.where(rho > 0.0, D / rho, 0.0)
            curves = np.where(rho > 0.0, eta * eta / rho**3, 0.0)
            r = rho.sum(axis=0)
            slopes = p * r ** (p - 1.0)
            stretches = np.where(r > 0.0, p * (p - 1.0) * r ** (p - 2.0), 0.0)
            value = float((r**p).sum()) + self.ridge_value(W)
            ridge = 2.0 * self.epsilon
            gradient = (signs * slopes) @ E.T + ridge * W
            return L1Model(W, value, gradient, E, signs, slopes, curves * slopes, stretches, ridge)

    def conjugate_along(self, model: L1Model, Z: Array) -> tuple[Callable[[float], float], Ray]:
        """An upper bound of ``R*(t Z)`` as a function of t, and its shape."""
        c = Z.shape[1]
        common = float(np.square(Z.mean(axis=1)).sum()) * c
        rest = Z - (model.gradient - model.ridge * model.W)
        flows = model.signs * model.slopes + (rest @ model.E) / c
        s = np.abs(flows).max(axis=0, initial=0.0)
        ray = flow_ray(s, self.p, common / (2.0 * model.ridge))
        return lambda t: self._flow_cost(t * s) + t * t * common / (2.0 * model.ridge), ray

    def _flow_cost(self, s: Array) -> float:
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
