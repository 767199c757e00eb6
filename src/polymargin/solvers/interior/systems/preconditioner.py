"""A preconditioner for star-shaped curvature that keeps the few heavy pairs exactly.

Near the optimum of a hinge machine almost all curvature sits on few pairs j = (row, rival class). With
``u_j = x_j (e_k - e_y)'`` the Newton matrix is close to

    B + sum_{j in J} omega_j u_j u_j',     B = (L + light pairs' mean) (x) I   for W,  and likewise for the offsets,

whose inverse needs one factorisation of order |J|: ``Omega^-1 + U B^-1 U'``, entries ``K_ij (e_i' P e_j)`` from the Gram
matrix K of rows. The stretches of the penalty, ``(e_k - e_l) (x) (w_k - w_l)`` with weights K_kl, are pairs of the same kind
and join them; for p < 2 their weights are negative, and the factorisation is one of an indefinite matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotrs

from polymargin.solvers.cost_model import LARGEST_GRAM
from polymargin.solvers.rows import Design

Array = NDArray[np.float64]

HEAVY = 0.3  # a pair's largest eigenvalue relative to B
MOST = 3000  # heavy pairs that are kept: of more the heaviest
ROUNDS = 6
_SHARED = 1e-8  # of what stretches have in common, which the maximum lets go


class HeavyPairs:
    """The approximate inverse at one iterate."""

    def __init__(self, design: Design, omega: Array, y: NDArray[np.int32], model: Any, rate: float):
        self.design, self.omega, self.y, self.model = design, omega, y, model
        self.c = omega.shape[1]
        self.L, self.rate = class_laplacian(model), rate
        self.factor: Callable[[Array], Array] | None = None
        self._set_base(omega)
        self._choose()

    def _set_base(self, omega: Array) -> None:
        """The class matrices of B, inverted, from the pairs that are not kept."""
        flows = np.array([omega[self.y == k].sum(axis=0) for k in range(self.c)])
        M = np.diag(flows.sum(axis=0) + flows.sum(axis=1)) - flows - flows.T
        self.P, self.P_b = class_inverses(self.design, M, self.L, self.rate)

    def _choose(self) -> None:
        d = self.design
        if d.n > LARGEST_GRAM:
            return
        size = np.diag(d.gram())[:, None]
        heavy = np.zeros(self.omega.shape, dtype=bool)
        for _ in range(ROUNDS):  # without the heavy pairs B is smaller, and more pairs are heavy
            own = self.P[self.y, self.y]
            spread = own[:, None] + np.diag(self.P)[None] - 2.0 * self.P[self.y]
            weights = self.omega * spread * size
            found = weights > HEAVY
            count = int(found.sum())
            if count <= 1.05 * heavy.sum():
                break
            heavy = found if count <= MOST else weights >= np.partition(weights, -MOST, axis=None)[-MOST]
            self._set_base(np.where(heavy, 0.0, self.omega))
            if count > MOST:
                break
        if heavy.any():
            self.rows, self.rivals = np.nonzero(heavy)
            self.own = self.y[self.rows]
            self._factorise()

    def _factorise(self) -> None:
        d, W = self.design, self.model.W
        self.first, self.second = np.nonzero(np.triu(self.model.K))
        k, other = np.r_[self.rivals, self.first], np.r_[self.own, self.second]
        PE = self.P[k] - self.P[other]
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
            PE = self.P_b[self.rivals] - self.P_b[self.own]
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
        out = self._base(R)
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
        return out - self._base(back)

    def _base(self, R: Array) -> Array:
        out = R @ self.P
        if self.design.fit_intercept:
            out[self.design.r] = R[self.design.r] @ self.P_b
        return out


def class_laplacian(model: Any) -> Array:
    """The penalty's Hessian between the classes, without its stretches."""
    return np.diag(model.Q.sum(axis=1) + model.ridge) - model.Q


def class_inverses(design: Design, M: Array, L: Array, rate: float) -> tuple[Array, Array]:
    """Inverses (c, c) for W and for b if the rows' curvature is replaced by its sum M, and rows by their mean size."""
    c = len(M)
    pin = np.ones((c, c)) / c
    W_block = L + M * (design.mean_square / max(1, min(design.n, design.r)))
    b_block = M + rate * np.eye(c)
    P, P_b = (np.linalg.inv(B + pin * max(float(np.trace(B)) / c, 1e-300)) for B in (W_block, b_block))
    return P, P_b


def mean_preconditioner(design: Design, M: Array, model: Any, rate: float) -> Callable[[Array], Array]:
    """The same as a function of stacked unknowns."""
    P, P_b = class_inverses(design, M, class_laplacian(model), rate)

    def apply(R: Array) -> Array:
        out = R @ P
        if design.fit_intercept:
            out[design.r] = R[design.r] @ P_b
        return out

    return apply
