"""Preconditioners: the rows' curvature replaced by its mean, and for star-shaped curvature the few heavy pairs kept exactly.

Near the optimum of a hinge machine almost all curvature sits on few pairs j = (row, rival class). With
``u_j = x_j (e_k - e_y)'`` the Newton matrix is close to

    B + sum_{j in J} omega_j u_j u_j',     B = (L + light pairs' mean) (x) I   for W,  and likewise for the offsets,

whose inverse needs one factorisation of order |J|: ``Omega^-1 + U B^-1 U'``, entries ``K_ij (e_i' P e_j)`` from the Gram
matrix K of rows. The stretches of the penalty, ``(e_k - e_l) (x) (w_k - w_l)`` with weights K_kl, are pairs of the same kind
and join them; for p < 2 their weights are negative, and the factorisation is one of an indefinite matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotrs

from polymargin.penalties.capabilities import HessianModel
from polymargin.solvers.cost_model import LARGEST_GRAM
from polymargin.solvers.rows import Design

Array = NDArray[np.float64]

HEAVY = 0.3  # a pair's largest eigenvalue relative to B
MOST = 3000  # heavy pairs that are kept: of more the heaviest
ROUNDS = 6
_SHARED = 1e-8  # of what stretches have in common, which the maximum lets go


def class_laplacian(model: HessianModel) -> Array:
    """The penalty's Hessian between the classes, without its stretches."""
    return np.diag(model.Q.sum(axis=1) + model.ridge) - model.Q


class MeanInverse:
    """The inverse if the rows' curvature is replaced by its sum M between the classes, and rows by their mean size."""

    def __init__(self, design: Design, M: Array, model: HessianModel, rate: float):
        """`model` is the penalty of W, `rate` the curvature of that of b."""
        c, self._r = len(M), design.r
        pin = np.ones((c, c)) / c
        W_block = class_laplacian(model) + M * (design.mean_square / max(1, min(design.n, design.r)))
        b_block = M + rate * np.eye(c)
        self.P, self.P_b = (np.linalg.inv(B + pin * max(float(np.trace(B)) / c, 1e-300)) for B in (W_block, b_block))

    def __call__(self, R: Array) -> Array:
        out = R @ self.P
        out[self._r :] = R[self._r :] @ self.P_b
        return out


class HeavyPairs:
    """The approximate inverse at one iterate."""

    def __init__(self, design: Design, omega: Array, y: NDArray[np.int32], model: HessianModel, rate: float):
        self.design, self.omega, self.y, self.model, self.rate = design, omega, y, model, rate
        self.c = omega.shape[1]
        self.factor: Callable[[Array], Array] | None = None
        self.base = self._base(omega)
        if design.n <= LARGEST_GRAM:
            heavy = self._choose()
            if heavy.any():
                self.rows, self.rivals = np.nonzero(heavy)
                self.own = y[self.rows]
                self._factorise()

    def _base(self, omega: Array) -> MeanInverse:
        """B^-1, from the pairs that are not kept."""
        flows = np.array([omega[self.y == k].sum(axis=0) for k in range(self.c)])
        M = np.diag(flows.sum(axis=0) + flows.sum(axis=1)) - flows - flows.T
        return MeanInverse(self.design, M, self.model, self.rate)

    def _choose(self) -> NDArray[np.bool_]:
        size = np.diag(self.design.gram())[:, None]
        heavy = np.zeros(self.omega.shape, dtype=bool)
        for _ in range(ROUNDS):  # without the heavy pairs B is smaller, and more pairs are heavy
            P = self.base.P
            spread = P[self.y, self.y][:, None] + np.diag(P)[None] - 2.0 * P[self.y]
            weights = self.omega * spread * size
            found = weights > HEAVY
            count = int(found.sum())
            if count <= 1.05 * heavy.sum():
                break
            heavy = found if count <= MOST else weights >= np.partition(weights, -MOST, axis=None)[-MOST]
            self.base = self._base(np.where(heavy, 0.0, self.omega))
            if count > MOST:
                break
        return heavy

    def _factorise(self) -> None:
        d, W = self.design, self.model.W
        self.first, self.second = np.nonzero(np.triu(self.model.K))
        k, other = np.r_[self.rivals, self.first], np.r_[self.own, self.second]
        PE = self.base.P[k] - self.base.P[other]
        G = np.ascontiguousarray(PE[:, k] - PE[:, other])
        m = len(self.rows)
        G[:m, :m] *= d.gram()[self.rows][:, self.rows]
        if len(self.first):
            D = W[:, self.first] - W[:, self.second]
            stacked = np.zeros((d.n_unknowns, D.shape[1]))
            stacked[: d.r] = D
            across = d.scores(stacked)[self.rows]
            G[:m, m:] *= across
            G[m:, :m] *= across.T
            G[m:, m:] *= D.T @ D
        if d.fit_intercept:
            PE = self.base.P_b[self.rivals] - self.base.P_b[self.own]
            G[:m, :m] += PE[:, self.rivals] - PE[:, self.own]
        weights = np.r_[self.omega[self.rows, self.rivals], self.model.K[self.first, self.second]]
        G[np.diag_indices_from(G)] += 1.0 / weights
        if self.model.shared:  # the inverse of diag(K) - K K' / shared, all but singular
            G[m:, m:] += 1.0 / (_SHARED * self.model.shared)
        if (weights > 0.0).all():
            factor, failed = dpotrf(G, lower=1)
            self.factor = None if failed else (lambda right: dpotrs(factor, right, lower=1)[0])
        else:
            pivoted, pivots, failed = dgetrf(G)
            self.factor = None if failed else (lambda right: dgetrs(pivoted, pivots, right)[0])

    def __call__(self, R: Array) -> Array:
        out = self.base(R)
        if self.factor is None:
            return out
        d, W = self.design, self.model.W
        S = d.scores(out)
        N = W.T @ out[: d.r]
        own = np.diag(N)
        stretch = (own[:, None] + own - N - N.T)[self.first, self.second]
        x = self.factor(np.r_[S[self.rows, self.rivals] - S[self.rows, self.own], stretch])
        T = np.zeros_like(S)
        T[self.rows, self.rivals] = x[: len(self.rows)]
        T[np.arange(len(T)), self.y] = -T.sum(axis=1)
        back = d.adjoint(T)
        if len(self.first):
            weights = np.zeros((self.c, self.c))
            weights[self.first, self.second] = x[len(self.rows) :]
            weights += weights.T
            back[: d.r] += W * weights.sum(axis=1) - W @ weights
        return out - self.base(back)
