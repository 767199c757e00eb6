"""What a hinge-type loss adds to an interior point: slacks and multipliers of a sum of maxima.

The loss is a sum of maxima of affine functions of the scores ``S``, class-major ``(c, n)`` here::

    loss(S) = sum_j u_j max_k E_jk,    E = D + L S,    one piece k of every term j is constantly 0

with slacks ``f = t - E >= 0``, multipliers ``A >= 0`` and ``sum_k A_jk = u_j``. The machines share that algebra
(:class:`MaxTerms`); they differ in ``L``, in its adjoint ``tau = -L' A`` and in the Hessian that ``theta = A/f`` leaves in
the scores (`hinges.py`, `top_k.py`, `band.py`, `label_pairs.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Direction = tuple[Array, Array, Array]

# Tuned on some sixty problems with 100 to 7,500 rows and C from 1e-3 to 1e6: a few of very many terms block
# the step, and these settings free them. The usual (3, no cap, 0.1 and 10) take half again as many steps.
SHRINK = 8  # the barrier falls with this power of what the affine step leaves
FARTHEST = 1e30  # that products may grow along a step: beyond, their powers overflow
CAP = 4.0  # on the second-order term, in mean products
NEIGHBOURHOOD = (0.5, 50.0)  # products, in barriers, that a centrality corrector leaves alone


class MaxTerms:
    """The algebra of a sum of maxima; arrays are (pieces, terms...).

    All multipliers and all slacks lie side by side in one array each, those of the pieces first.
    """

    offset: Array  # D
    weight: Array  # u
    multipliers: Array
    slacks: Array
    direction: Direction  # of multipliers, slacks and t
    rest: Array | float = 0.0  # what the shares leave to the curvature of the loss itself
    # In the Newton system f may deviate by proximal * dA. That bounds theta, and with it the condition number, by
    # 1/proximal; dA vanishes at the optimum, so the solution does not move.
    proximal: Array | float = 0.0

    def lift(self, S: Array) -> Array:
        """L S."""
        raise NotImplementedError

    def adjoint(self, A: Array) -> Array:
        """-L' A."""
        raise NotImplementedError

    def edges(self) -> Any:
        """The curvature in the scores, from theta and its totals."""
        raise NotImplementedError

    def start(self, S: Array) -> None:
        """Places slacks and multipliers at a centred interior point for these scores."""
        E = self.lift(S) + self.offset
        self.t = E.max(axis=0) + 3.0
        f = self.t - E
        A = 1.0 / f
        A *= self.weight / A.sum(axis=0)
        self.place(A, f)

    def place(self, A: Array, f: Array, *others: tuple[Array, Array]) -> None:
        """Multipliers and slacks of the pieces, and of what else there is."""
        parts = zip((A, f), *others, strict=True)
        self.multipliers, self.slacks = (np.concatenate([values.ravel() for values in part]) for part in parts)
        self.A, self.f = self.multipliers[: A.size].reshape(A.shape), self.slacks[: A.size].reshape(A.shape)

    def loss(self, S: Array) -> float:
        """Exact loss of the scores; the pieces E are remembered for what follows."""
        self.E = self.lift(S)
        self.E += self.offset
        return float((self.weight * self.E.max(axis=0)).sum())

    def complementarity(self) -> float:
        """Sum of multiplier times slack; the duality gap of a feasible iterate."""
        return float(self.multipliers @ self.slacks)

    def pull(self) -> Array:
        """tau: what the multipliers pull at the scores; W = X' tau at the optimum."""
        return self.adjoint(self.A)

    def linearise(self) -> Any:
        self.theta = self.A / (self.f + self.proximal * self.A)
        self.total = self.theta.sum(axis=0)
        self.share = self.theta / self.total
        self.short = self.weight - self.A.sum(axis=0)  # rounding only
        self.lead = self.theta.argmax(axis=0).ravel()
        self.lead *= self.total.size
        self.lead += np.arange(self.total.size)
        self.residual = self.t - self.E
        self.residual -= self.f
        return self.edges()

    def aim(self, target: Array | float) -> Array:
        q = (target[: self.A.size].reshape(self.A.shape) if isinstance(target, np.ndarray) else target) / self.A
        q -= self.f
        q -= self.residual
        q *= self.theta
        self.q, self.level = q, (q.sum(axis=0) - self.short) / self.total
        return self.adjoint(q - self.theta * self.level)

    def follow(self, dS: Array) -> None:
        dE = self.lift(dS)
        # Relative to the piece with the largest theta, which would multiply the rounding of its own dE.
        lead = dE.ravel()[self.lead].reshape(self.total.shape)
        dE -= lead
        ahead = self.level + (self.share * dE).sum(axis=0) - self.rest * lead
        df = ahead - dE
        dA = self.q - self.theta * df
        df += self.residual
        df += self.proximal * dA
        self.direction = dA.ravel(), df.ravel(), ahead + lead

    def longest_step(self) -> float:
        dA, df, _ = self.direction
        rate = -float(np.minimum((dA / self.multipliers).min(), (df / self.slacks).min()))
        return np.inf if rate <= 0.0 else 1.0 / rate if rate > 0.0 else 0.0  # no number: no step

    def step(self, size: float) -> None:
        for value, change in zip((self.multipliers, self.slacks, self.t), self.direction, strict=True):
            value += size * change

    def products(self, size: float) -> Array:
        """Multiplier times slack after a step of this size."""
        dA, df, _ = self.direction
        return (self.multipliers + size * dA) * (self.slacks + size * df)

    def mehrotra_target(self, size: float) -> tuple[Array, float]:
        now, ahead = max(self.complementarity(), 1e-300), self.products(size)
        mean = now / ahead.size
        barrier = min(float(ahead.sum()) / now, FARTHEST) ** SHRINK * mean
        second_order = self.direction[0] * self.direction[1]
        return barrier - second_order.clip(-CAP * mean, CAP * mean, out=second_order), barrier

    def gondzio_target(self, target: Array, size: float, barrier: float) -> Array:
        """Target of a corrector that brings the outliers among the products of such a step back."""
        products = self.products(size)
        low, high = NEIGHBOURHOOD[0] * barrier, NEIGHBOURHOOD[1] * barrier
        return target + np.maximum(products.clip(low, high) - products, -high)
