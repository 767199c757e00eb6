"""Duals that interior points have found for several class scales, mixed: for a block norm with p = 1.

There ``R* = 1/2 max_k |z_k|^2`` has kinks: which class vectors attain the maximum decides which scales are above 0, and the
fixed point of the scales does not contract. But duals of any scales are duals of the problem, and so is every mixture
``sum_m t_m a_m`` with ``t >= 0, sum t <= 1``. Its value is a concave function of few numbers,

    sum_m t_m A_m - 1/2 max_k t' G_k t - t' Q t,      G_k = (<z_k of a_m, z_k of a_n>)_mn,  Q that of a squared loss.

The best mixture is a bound, and the multipliers of its maximum are the scales to try next (column generation; Kelley's
cutting planes, but each plane has the curvature of the problem). A maximum alone makes the scales jump from class to class:
a norm with a large exponent takes its place, the larger, the smaller the gap of the mixture is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from polymargin.penalties.block_norm import half_square

Array = NDArray[np.float64]

_KEPT = 40  # duals; of more the one with the least part in the mixture goes
_BLUR = 0.5  # what the norm may add to half of the maximum's square, in parts of the gap: below 1, so that the gap falls
_FRESH = 0.1  # where a search begins: the part of the duals that have just come


class Found(NamedTuple):
    """Feasible duals a (n, c), their linear term, sums Z (d, c) of rows, and each row's part of the loss's square."""

    a: Array
    linear: float
    Z: Array
    roots: Array  # (n,): their squares add up to the quadratic term of the loss


class Mixture:
    """Duals that have been found, and the best mixture of them."""

    def __init__(self) -> None:
        self._found: list[Found] = []
        self._t = np.zeros(0)

    def add(self, found: Found, primal: float, tol: float) -> tuple[Array, Array]:
        """With further duals: the best mixture (n, c), and class scales, the largest of which is 1.

        `primal` is the least objective that is known, `tol` the relative gap that is wanted.
        """
        self._take(found)
        value = _Value(self._found)
        gap = (primal + value.fall(self._t, np.inf)[0]) / abs(primal)
        exponent = max(4.0, 2.0 * float(np.log(found.Z.shape[1])) / (_BLUR * max(gap, tol)))
        self._t = _climbed(value, self._t, exponent)
        mixed = np.einsum("m,mik->ik", self._t, np.stack([one.a for one in self._found]))
        return mixed, _weights(value.norms(self._t), exponent)

    def _take(self, found: Found) -> None:
        self._found.append(found)
        self._t = np.append((1.0 - _FRESH) * self._t, _FRESH if len(self._t) else 1.0)
        if len(self._found) > _KEPT:
            least = int(np.argmin(self._t[:-1]))
            del self._found[least]
            self._t = np.delete(self._t, least)


class _Value:
    """The dual value of mixtures, with a norm of any exponent in place of the maximum."""

    def __init__(self, found: list[Found]):
        Z, roots = np.stack([one.Z for one in found]), np.stack([one.roots for one in found])
        self.linear = np.array([one.linear for one in found])
        self._G, self._Q = np.einsum("mdk,ndk->kmn", Z, Z, optimize=True), roots @ roots.T

    def norms(self, t: Array) -> Array:
        """Of the mixed sums of rows."""
        return np.sqrt(np.maximum(np.einsum("m,kmn,n->k", t, self._G, t, optimize=True), 0.0))

    def fall(self, t: Array, exponent: float) -> tuple[float, Array]:
        """The value with another sign, and its gradient."""
        Gt, Qt = self._G @ t, self._Q @ t
        norms = np.sqrt(np.maximum(Gt @ t, 0.0))
        penalty, weights = half_square(norms, exponent), _weights(norms, exponent)
        total = float(weights @ norms**2)
        if total > 0.0:  # the sum of weight times square is twice the penalty
            weights = weights * (2.0 * penalty / total)
        return penalty + float(t @ Qt - self.linear @ t), weights @ Gt + 2.0 * Qt - self.linear


def _weights(norms: Array, exponent: float) -> Array:
    """Of the classes in the gradient of the norm; the largest is 1."""
    largest = float(norms.max())
    return np.ones_like(norms) if largest == 0.0 else (norms / largest) ** (exponent - 2.0)


def _climbed(value: _Value, t: Array, exponent: float) -> Array:
    """The best parts."""
    size = float(np.abs(value.linear).max()) or 1.0

    def fall(at: Array) -> tuple[float, Array]:
        height, slope = value.fall(at, exponent)
        return height / size, slope / size

    end = minimize(
        fall,
        t,
        jac=True,
        bounds=[(0.0, 1.0)] * len(t),
        constraints=[{"type": "ineq", "fun": lambda at: 1.0 - at.sum(), "jac": lambda at: -np.ones_like(at)}],
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-12},
    )
    best = np.clip(end.x if np.isfinite(end.x).all() else t, 0.0, 1.0)
    return np.asarray(best / max(1.0, float(best.sum())))
