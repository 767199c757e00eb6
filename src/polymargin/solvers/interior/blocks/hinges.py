"""The hinge machines: maximum over the rivals, its square, sum over the rivals.

- Crammer-Singer: one term per row, one piece per class, ``E_il = 1[l != y] + s_l - s_y``. The Hessian is
  ``diag(theta) - theta theta'/sum(theta)``, the Laplacian of a *mesh*, edges ``theta_k theta_l/sum(theta)``.
- Weston-Watkins: one term per row and other class, pieces ``1 + s_l - s_y`` and 0: a *star* of edges (y, l).

Here ``theta = A/f``. Edges are products of positive numbers, so nothing cancels when one theta dominates, as it does near
the optimum. A machine with more than one kind of slack adds mesh and star.
"""

from __future__ import annotations

import numpy as np

from polymargin.losses.domains.domain import Box, Domain, Simplex
from polymargin.solvers.interior.blocks.max_terms import Array, Labels
from polymargin.solvers.interior.blocks.row_terms import Edges, Face, RowTerms


class CrammerSinger(RowTerms):
    """``sum_i u_i max_l (1[l != y] + s_l - s_y)``; ``A[l]`` are the duals a_l, ``A[y] = u - sum_l a_l``."""

    domain: Domain = Simplex()

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: Array) -> None:
        super().__init__(y, cost, n_classes, proximal)
        self.weight = cost
        self.offset = np.ones(self.shape)
        self.offset.ravel()[self.own] = 0.0
        self.piece_class = np.broadcast_to(np.arange(n_classes)[:, None], self.shape)

    def lift(self, S: Array) -> Array:
        return S - S.ravel()[self.own]

    def adjoint(self, A: Array) -> Array:
        tau = -A
        flat = tau.ravel()
        flat[self.own] = 0.0
        flat[self.own] = -tau.sum(axis=0)
        return tau

    def edges(self) -> Edges:
        return Edges(mesh=self.theta / np.sqrt(self.total))

    def intercept_slacks(self, S: Array) -> Array:
        E, carrying, slacks = self.lift(S) + self.offset, self._carrying(), super().intercept_slacks(S)
        for k, rows in enumerate(carrying):  # there, E_k stays the largest piece
            if rows.any():
                slacks[:, k] = (E[k, rows] - E[:, rows]).min(axis=1)
        return slacks


class SquaredCrammerSinger(CrammerSinger):
    """``sum_i u_i t_i^2`` with ``t_i = max_l (1[l != y] + s_l - s_y)``: ``sum_l A_l = 2 u t``, and t adds 2u to the Hessian.

    A row's Hessian is ``diag(theta) - theta theta'/(sum(theta) + 2u)``: a mesh, and a star for what 2u leaves.
    """

    def start(self, S: Array) -> None:
        super().start(S)
        self.A *= 2.0 * self.t

    def loss(self, S: Array) -> float:
        super().loss(S)
        return float(self.weight @ self.E.max(axis=0) ** 2)

    def gain(self, tau: Array) -> float:
        return super().gain(tau) - float((tau.ravel()[self.own] ** 2 / (4.0 * self.weight)).sum())

    def linearise(self) -> Edges:
        super().linearise()
        self.short = 2.0 * self.weight * self.t - self.A.sum(axis=0)
        self.total = self.total + 2.0 * self.weight
        self.share = self.theta / self.total
        self.rest = 2.0 * self.weight / self.total
        return self.edges()

    def edges(self) -> Edges:
        return Edges(self.theta / np.sqrt(self.total), self.theta * self.rest)

    def feasible(self, a: Array) -> Array:
        return np.maximum(a, 0.0)

    def intercept_slacks(self, S: Array) -> Array:
        return RowTerms.intercept_slacks(self, S)

    def face(self) -> Face | None:
        return None


class WestonWatkins(RowTerms):
    """``sum_i u_i sum_{l != y} max(1 + s_il - s_iy, 0)``; ``A[0]`` are the duals a, ``A[1] = u - a``."""

    domain: Domain = Box()

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: Array) -> None:
        super().__init__(y, cost, n_classes, proximal)
        others = np.arange(n_classes - 1)[:, None]
        self.other = others + (others >= y)
        self.off = self.other * y.size + np.arange(y.size)  # flat index of (l, i), l != y_i
        self.weight = np.broadcast_to(cost, self.off.shape)
        self.offset = np.zeros((2, *self.off.shape))
        self.offset[0] = 1.0
        self.piece_class = np.stack([self.other, np.broadcast_to(y, self.other.shape)])

    def lift(self, S: Array) -> Array:
        pieces = np.zeros(self.offset.shape)
        np.subtract(S.ravel()[self.off], S.ravel()[self.own], out=pieces[0])
        return pieces

    def adjoint(self, A: Array) -> Array:
        tau = np.empty(self.shape)
        tau.ravel()[self.off] = -A[0]
        tau.ravel()[self.own] = A[0].sum(axis=0)
        return tau

    def edges(self) -> Edges:
        star = np.zeros(self.shape)
        star.ravel()[self.off] = self.theta[0] * self.share[1]
        return Edges(star=star)

    def intercept_slacks(self, S: Array) -> Array:
        h, (active, idle), slacks = self.lift(S)[0] + self.offset[0], self._carrying(), super().intercept_slacks(S)
        own = np.broadcast_to(self.y, h.shape)
        np.minimum.at(slacks, (own[active], self.other[active]), h[active])
        np.minimum.at(slacks, (self.other[idle], own[idle]), -h[idle])
        return slacks
