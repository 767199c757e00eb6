"""Slack blocks of the interior point: what one loss adds to the generic loop.

A hinge-type loss is a sum of maxima of affine functions of the scores ``S (c, n)`` (class-major here)::

    loss(S) = sum_j u_j max_k E_jk,    E = D + L S,    one piece k of every term j is constantly 0

with slacks ``f = t - E >= 0``, multipliers ``A >= 0`` and ``sum_k A_jk = u_j``. Both machines share that algebra
(:class:`MaxTerms`); they differ in ``L``, in its adjoint ``tau = -L' A`` and in the Hessian of one row:

- Crammer-Singer: one term per row, one piece per class, ``E_il = 1[l != y] + s_l - s_y``. The Hessian of the row is
  ``diag(theta) - theta theta'/sum(theta)``: a graph Laplacian, the *mesh* with edges ``theta_k theta_l/sum(theta)``.
- Weston-Watkins: one term per row and other class, pieces ``1 + s_l - s_y`` and 0: a *star* of edges (y, l).

Here ``theta = A/f``. Edges are products of positive numbers, so nothing cancels when one theta dominates, as it does
near the optimum.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Direction = tuple[Array, Array, Array]


class Block(Protocol):
    """What the loop asks of a loss. Arrays are class-major, ``(c, n)``, with rows sorted by class."""

    direction: Direction

    def start(self, S: Array) -> None:
        """Place slacks and multipliers at a centred interior point for these scores."""

    def loss(self, S: Array) -> float:
        """Exact loss of the scores; the pieces E are remembered for what follows."""

    def gain(self) -> float:
        """Linear term of the dual: the sum of the off-class duals."""

    def complementarity(self) -> float:
        """Sum of multiplier times slack; the duality gap of a feasible iterate."""

    def pull(self) -> Array:
        """tau: W = X' tau at the optimum, and off the own class the duals are a = -tau."""

    def linearise(self) -> tuple[Array | None, Array | None]:
        """Edge weights (mesh, star) of the row Hessians, as :func:`assemble` takes them."""

    def aim(self, target: Array | float) -> Array:
        """Aim at multiplier x slack = target: the change of tau as long as the scores stay."""

    def follow(self, dS: Array) -> None:
        """Complete the direction that was aimed at with the change of the scores."""

    def longest_step(self) -> float:
        """Largest step along the direction that keeps everything non-negative."""

    def step(self, size: float) -> None:
        """Move."""

    def mehrotra_target(self, longest: float) -> tuple[Array, float]:
        """Target of the corrector after the affine direction, and its barrier parameter."""

    def gondzio_target(self, target: Array, size: float, barrier: float) -> Array:
        """Target whose direction, with a step of this size, would leave no product far from the barrier."""

    def clip(self, a: Array) -> Array:
        """Duals (c, n) that rounding put outside their polytope, put back."""

    def intercept_slacks(self, S: Array) -> Array:
        """(c, c): how far b_k - b_l may grow with all terms still at the pieces that carry multipliers."""


class MaxTerms:
    """The algebra of a sum of maxima; arrays are (pieces, terms..., n)."""

    offset: Array  # D
    weight: Array  # u
    direction: Direction  # of A, f and t

    def __init__(self, y: Labels, n_classes: int, proximal: float) -> None:
        # In the Newton system f may deviate by proximal * dA. That bounds theta, and with it the condition number,
        # by 1/proximal; dA vanishes at the optimum, so the solution does not move.
        self.proximal = proximal
        self.y, self.shape = y, (n_classes, y.size)
        self.own = y * y.size + np.arange(y.size)  # flat index of (y_i, i)

    def lift(self, S: Array) -> Array:
        """L S."""
        raise NotImplementedError

    def adjoint(self, A: Array) -> Array:
        """-L' A."""
        raise NotImplementedError

    def edges(self) -> tuple[Array | None, Array | None]:
        """(mesh, star) from theta and its totals."""
        raise NotImplementedError

    def start(self, S: Array) -> None:
        E = self.lift(S) + self.offset
        self.t = E.max(axis=0) + 1.0
        self.f = self.t - E
        self.A = 1.0 / self.f
        self.A *= self.weight / self.A.sum(axis=0)

    def loss(self, S: Array) -> float:
        self.E = self.lift(S)
        self.E += self.offset
        return float((self.weight * self.E.max(axis=0)).sum())

    def gain(self) -> float:
        return float(np.vdot(self.A, self.offset))

    def complementarity(self) -> float:
        return float(np.vdot(self.A, self.f))

    def pull(self) -> Array:
        return self.adjoint(self.A)

    def linearise(self) -> tuple[Array | None, Array | None]:
        self.theta = self.A / (self.f + self.proximal * self.A)
        self.total = self.theta.sum(axis=0)
        self.share = self.theta / self.total
        self.short = self.weight - self.A.sum(axis=0)  # rounding only
        self.residual = self.t - self.E
        self.residual -= self.f
        return self.edges()

    def aim(self, target: Array | float) -> Array:
        q = target / self.A
        q -= self.f
        q -= self.residual
        q *= self.theta
        self.q, self.level = q, (q.sum(axis=0) - self.short) / self.total
        return self.adjoint(q - self.theta * self.level)

    def follow(self, dS: Array) -> None:
        dE = self.lift(dS)
        dt = self.level + (self.share * dE).sum(axis=0)
        df = dt - dE
        dA = self.q - self.theta * df
        df += self.residual
        df += self.proximal * dA
        self.direction = dA, df, dt

    def longest_step(self) -> float:
        dA, df, _ = self.direction
        rate = -min(float((dA / self.A).min()), float((df / self.f).min()))
        return 1.0 / rate if rate > 0 else np.inf

    def step(self, size: float) -> None:
        for value, change in zip((self.A, self.f, self.t), self.direction, strict=True):
            value += size * change

    def products(self, size: float) -> Array:
        dA, df, _ = self.direction
        return (self.A + size * dA) * (self.f + size * df)

    def mehrotra_target(self, longest: float) -> tuple[Array, float]:
        now, ahead = self.complementarity(), float(self.products(min(1.0, longest)).sum())
        barrier = (ahead / now) ** 3 * now / self.A.size
        return barrier - self.direction[0] * self.direction[1], barrier

    def gondzio_target(self, target: Array, size: float, barrier: float) -> Array:
        products = self.products(size)
        wanted = np.minimum(np.maximum(products, 0.1 * barrier), 10.0 * barrier)
        return target + np.maximum(wanted - products, -10.0 * barrier)

    def _carrying(self) -> NDArray[np.bool_]:
        """Pieces that carry multipliers at the optimum: shares of the weight against slacks in units of margin."""
        return self.A > self.f * self.weight


class CrammerSinger(MaxTerms):
    """``sum_i u_i max_l (1[l != y_i] + s_il - s_iy)``; ``A[l]`` are the duals a_l, ``A[y]`` what they leave of u."""

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: float) -> None:
        super().__init__(y, n_classes, proximal)
        self.weight = cost
        self.offset = np.ones(self.shape)
        self.offset.ravel()[self.own] = 0.0

    def lift(self, S: Array) -> Array:
        return S - S.ravel()[self.own]

    def adjoint(self, A: Array) -> Array:
        tau = -A
        flat = tau.ravel()
        flat[self.own] = 0.0
        flat[self.own] = -tau.sum(axis=0)
        return tau

    def edges(self) -> tuple[Array | None, Array | None]:
        return self.theta / np.sqrt(self.total), None

    def clip(self, a: Array) -> Array:
        a = np.maximum(a, 0.0)
        used = a.sum(axis=0)
        return a * np.where(used > self.weight, self.weight / np.where(used > 0.0, used, 1.0), 1.0)

    def intercept_slacks(self, S: Array) -> Array:
        E, carrying = self.lift(S) + self.offset, self._carrying()
        slacks = np.full((self.shape[0],) * 2, np.inf)
        for k, rows in enumerate(carrying):  # there, E_k stays the largest piece
            if rows.any():
                slacks[:, k] = (E[k, rows] - E[:, rows]).min(axis=1)
        return slacks


class WestonWatkins(MaxTerms):
    """``sum_i u_i sum_{l != y} max(1 + s_il - s_iy, 0)``; ``A[0]`` are the duals a, ``A[1] = u - a``."""

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: float) -> None:
        super().__init__(y, n_classes, proximal)
        others = np.arange(n_classes - 1)[:, None]
        self.other = others + (others >= y)
        self.off = self.other * y.size + np.arange(y.size)  # flat index of (l, i), l != y_i
        self.weight = np.broadcast_to(cost, self.off.shape)
        self.offset = np.zeros((2, *self.off.shape))
        self.offset[0] = 1.0

    def lift(self, S: Array) -> Array:
        pieces = np.zeros_like(self.offset)
        np.subtract(S.ravel()[self.off], S.ravel()[self.own], out=pieces[0])
        return pieces

    def adjoint(self, A: Array) -> Array:
        tau = np.empty(self.shape)
        tau.ravel()[self.off] = -A[0]
        tau.ravel()[self.own] = A[0].sum(axis=0)
        return tau

    def edges(self) -> tuple[Array | None, Array | None]:
        star = np.zeros(self.shape)
        star.ravel()[self.off] = self.theta[0] * self.share[1]
        return None, star

    def clip(self, a: Array) -> Array:
        return np.minimum(np.maximum(a, 0.0), self.weight[0])

    def intercept_slacks(self, S: Array) -> Array:
        h = self.lift(S)[0] + 1.0
        active, idle = self._carrying()
        slacks = np.full((self.shape[0],) * 2, np.inf)
        own = np.broadcast_to(self.y, h.shape)
        np.minimum.at(slacks, (own[active], self.other[active]), h[active])
        np.minimum.at(slacks, (self.other[idle], own[idle]), -h[idle])
        return slacks


BLOCKS: dict[str, type[CrammerSinger] | type[WestonWatkins]] = {
    "crammer_singer": CrammerSinger,
    "weston_watkins": WestonWatkins,
}
