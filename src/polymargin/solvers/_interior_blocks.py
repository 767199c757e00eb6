"""Slack blocks of the interior point: what one loss adds to the generic loop.

A hinge-type loss is a sum of maxima of affine functions of the scores ``S (c, n)`` (class-major here)::

    loss(S) = sum_j u_j max_k E_jk,    E = D + L S,    one piece k of every term j is constantly 0

with slacks ``f = t - E >= 0``, multipliers ``A >= 0`` and ``sum_k A_jk = u_j``. Both machines share that
algebra (:class:`MaxTerms`); they differ in ``L``, in its adjoint ``tau = -L' A`` and in the Hessian of a row:

- Crammer-Singer: one term per row, one piece per class, ``E_il = 1[l != y] + s_l - s_y``. The Hessian is
  ``diag(theta) - theta theta'/sum(theta)``, the Laplacian of a *mesh*, edges ``theta_k theta_l/sum(theta)``.
- Weston-Watkins: one term per row and other class, pieces ``1 + s_l - s_y`` and 0: a *star* of edges (y, l).

Here ``theta = A/f``. Edges are products of positive numbers, so nothing cancels when one theta dominates, as
it does near the optimum. A machine with more than one kind of slack adds mesh and star.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Direction = tuple[Array, Array, Array]

# Tuned on some sixty problems with 100 to 7,500 rows and C from 1e-3 to 1e6: a few of very many terms block
# the step, and these settings free them. The usual (3, no cap, 0.1 and 10) take half again as many steps.
SHRINK = 8  # the barrier falls with this power of what the affine step leaves
CAP = 4.0  # on the second-order term, in mean products
NEIGHBOURHOOD = (0.5, 50.0)  # products, in barriers, that a centrality corrector leaves alone

CHUNK = 2**17  # scaled coordinates per update of the Newton matrix: they stay in cache


class Face(NamedTuple):
    """Multipliers with only some pieces free; a free piece takes from the leading piece of its term."""

    A: Array
    free: Labels  # flat indices into A
    lead: Labels
    row: Labels  # of the free piece
    gains: Labels  # class of the free piece
    loses: Labels  # class of the leading piece

    def shift(self, change: Array) -> None:
        self.A.ravel()[self.free] += change
        np.subtract.at(self.A.ravel(), self.lead, change)


def face_solver(K: Array, N: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Solver of the saddle system, with a ridge against dependent pieces that refinement undoes."""
    K[np.diag_indices_from(K)] += 1e-10 * (K.diagonal().sum() / max(1, len(K)) or 1.0)
    factor, failed = dpotrf(K, lower=1) if K.size else (K, 0)
    if failed:
        return lambda g, r: (np.full(len(K), np.nan), np.full(N.shape[1], np.nan))

    def inverse(rhs: Array) -> Array:
        return dpotrs(factor, rhs, lower=1)[0] if rhs.size else rhs

    KN = inverse(N)
    if not np.isfinite(KN).all():
        return lambda g, r: (np.full(len(K), np.nan), np.full(N.shape[1], np.nan))
    schur = np.linalg.pinv(N.T @ KN, rcond=1e-10, hermitian=True) if N.size else np.zeros((0, 0))

    def solve(g: Array, r: Array) -> tuple[Array, Array]:
        Kg = inverse(g)
        db = schur @ (r - N.T @ Kg)
        return Kg + KN @ db, db

    return solve


class Block(Protocol):
    """What the loop asks of a loss. Arrays are class-major, ``(c, n)``, with rows sorted by class."""

    direction: Direction

    def shift(self, given: Array) -> None:
        """Add given scores to all scores to come."""

    def start(self, S: Array) -> None:
        """Place slacks and multipliers at a centred interior point for these scores."""

    def loss(self, S: Array) -> float:
        """Exact loss of the scores; the pieces E are remembered for what follows."""

    def complementarity(self) -> float:
        """Sum of multiplier times slack; the duality gap of a feasible iterate."""

    def pull(self) -> Array:
        """tau: W = X' tau at the optimum, and off the own class the duals are a = -tau."""

    def gain(self, tau: Array) -> float:
        """The dual's concave part, minus the conjugate of the loss: for hinges the sum of the duals."""

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

    def room(self, a: Array) -> float:
        """Largest factor that keeps these duals in their polytope."""

    def intercept_slacks(self, S: Array) -> Array:
        """(c, c): how far b_k - b_l may grow with all terms still at the pieces that carry multipliers."""

    def mean_hinge(self, primal: float, class_cost: Array) -> Array:
        """(c,): bound of the weighted mean of 1 - (s_y - s_l), for any l, over the rows of a class if F <= primal."""

    def face(self) -> Face | None:
        """The face of the dual polytope the iterate tends to, None if it cannot be solved on."""

    def face_gaps(self, face: Face, S: Array) -> Array:
        """E of the free pieces minus E of their leading pieces: 0 at the optimum."""

    def face_pull(self, face: Face, feasible: bool = False) -> Array:
        """tau of the face's multipliers; if `feasible`, of the nearest ones in the polytope."""


class MaxTerms:
    """The algebra of a sum of maxima; arrays are (pieces, terms..., n)."""

    offset: Array  # D
    piece_class: Labels  # class whose score a piece raises; s_y for the constant piece
    weight: Array  # u
    direction: Direction  # of A, f and t
    rest: Array | float = 0.0  # what the shares leave to the curvature of the loss itself

    def __init__(self, y: Labels, n_classes: int, proximal: Array) -> None:
        # In the Newton system f may deviate by proximal * dA. That bounds theta, and with it the condition
        # number, by 1/proximal; dA vanishes at the optimum, so the solution does not move.
        self.proximal = proximal
        self.y, self.shape = y, (n_classes, y.size)
        self.own = y * y.size + np.arange(y.size)  # flat index of (y_i, i)
        self.given: Array | None = None

    def shift(self, given: Array) -> None:
        """Adds these scores (c, n) to all scores to come."""
        self.given = given
        self.offset = self.offset + self.lift(given)

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
        self.t = E.max(axis=0) + 3.0
        self.f = self.t - E
        self.A = 1.0 / self.f
        self.A *= self.weight / self.A.sum(axis=0)

    def loss(self, S: Array) -> float:
        self.E = self.lift(S)
        self.E += self.offset
        return float((self.weight * self.E.max(axis=0)).sum())

    def mean_hinge(self, primal: float, class_cost: Array) -> Array:
        return primal / class_cost

    def complementarity(self) -> float:
        return float(np.vdot(self.A, self.f))

    def pull(self) -> Array:
        return self.adjoint(self.A)

    def gain(self, tau: Array) -> float:
        own = float(tau.ravel()[self.own].sum())
        return own if self.given is None else own - float(np.vdot(tau, self.given))

    def linearise(self) -> tuple[Array | None, Array | None]:
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
        q = target / self.A
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
        self.direction = dA, df, ahead + lead

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
        now, ahead = max(self.complementarity(), 1e-300), self.products(min(1.0, longest))
        mean = now / ahead.size
        barrier = (float(ahead.sum()) / now) ** SHRINK * mean
        second_order = self.direction[0] * self.direction[1]
        return barrier - second_order.clip(-CAP * mean, CAP * mean, out=second_order), barrier

    def gondzio_target(self, target: Array, size: float, barrier: float) -> Array:
        products = self.products(size)
        low, high = NEIGHBOURHOOD[0] * barrier, NEIGHBOURHOOD[1] * barrier
        return target + np.maximum(products.clip(low, high) - products, -high)

    def _carrying(self) -> NDArray[np.bool_]:
        """Pieces with multipliers at the optimum: their share of the weight exceeds their slack."""
        return np.greater(self.A, self.f * self.weight)

    def face(self) -> Face | None:
        n_terms, n = self.t.size, self.y.size
        A = np.where(self._carrying(), self.A, 0.0)
        lead = A.argmax(axis=0).ravel() * n_terms + np.arange(n_terms)
        rest = A.copy()
        rest.ravel()[lead] = 0.0
        A.ravel()[lead] = (self.weight - rest.sum(axis=0)).ravel()
        free = np.flatnonzero(rest)
        lead = lead[free % n_terms]
        pieces = self.piece_class.ravel()
        return Face(A, free, lead, free % n, pieces[free], pieces[lead])

    def face_gaps(self, face: Face, S: Array) -> Array:
        E = (self.lift(S) + self.offset).ravel()
        return E[face.free] - E[face.lead]

    def face_pull(self, face: Face, feasible: bool = False) -> Array:
        if not feasible:
            return self.adjoint(face.A)
        A = np.maximum(face.A, 0.0)
        return self.adjoint(A * (self.weight / A.sum(axis=0)))


class CrammerSinger(MaxTerms):
    """``sum_i u_i max_l (1[l != y] + s_l - s_y)``; ``A[l]`` are the duals a_l, ``A[y] = u - sum_l a_l``."""

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: Array) -> None:
        super().__init__(y, n_classes, proximal)
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

    def edges(self) -> tuple[Array | None, Array | None]:
        return self.theta / np.sqrt(self.total), None

    def clip(self, a: Array) -> Array:
        a = np.maximum(a, 0.0)
        used = a.sum(axis=0)
        return a * np.where(used > self.weight, self.weight / np.where(used > 0.0, used, 1.0), 1.0)

    def room(self, a: Array) -> float:
        return float((self.weight / a.sum(axis=0)).min())

    def intercept_slacks(self, S: Array) -> Array:
        E, carrying = self.lift(S) + self.offset, self._carrying()
        slacks = np.full((self.shape[0],) * 2, np.inf)
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
        own = tau.ravel()[self.own]
        return float((own - own**2 / (4.0 * self.weight)).sum())

    def linearise(self) -> tuple[Array | None, Array | None]:
        super().linearise()
        self.short = 2.0 * self.weight * self.t - self.A.sum(axis=0)
        self.total = self.total + 2.0 * self.weight
        self.share = self.theta / self.total
        self.rest = 2.0 * self.weight / self.total
        return self.edges()

    def edges(self) -> tuple[Array | None, Array | None]:
        return self.theta / np.sqrt(self.total), self.theta * self.rest

    def clip(self, a: Array) -> Array:
        return np.maximum(a, 0.0)

    def room(self, a: Array) -> float:
        return np.inf

    def mean_hinge(self, primal: float, class_cost: Array) -> Array:
        return np.sqrt(primal / class_cost)  # the mean of squares is no less than the square of the mean

    def intercept_slacks(self, S: Array) -> Array:
        return np.full((self.shape[0],) * 2, np.inf)

    def face(self) -> Face | None:
        return None


class WestonWatkins(MaxTerms):
    """``sum_i u_i sum_{l != y} max(1 + s_il - s_iy, 0)``; ``A[0]`` are the duals a, ``A[1] = u - a``."""

    def __init__(self, y: Labels, cost: Array, n_classes: int, proximal: Array) -> None:
        super().__init__(y, n_classes, proximal)
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

    def edges(self) -> tuple[Array | None, Array | None]:
        star = np.zeros(self.shape)
        star.ravel()[self.off] = self.theta[0] * self.share[1]
        return None, star

    def clip(self, a: Array) -> Array:
        return np.minimum(np.maximum(a, 0.0), self.weight[0])

    def room(self, a: Array) -> float:
        return float((self.weight[0] / a.max(axis=0)).min())

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
    "squared_crammer_singer": SquaredCrammerSinger,
    "weston_watkins": WestonWatkins,
}


def assemble(
    T: Array, starts: Labels, mesh: Array | None, star: Array | None, n_penalised: int, scales: Array | None = None
) -> Array:
    """Newton matrix ``penalty + sum_i M_i (x) x_i x_i'`` with the last class grounded.

    All of it is a Laplacian on the classes, so the Gram matrices between two classes determine it.

    Parameters
    ----------
    T : (q, n) coordinates of the rows, sorted by class
    starts : (c + 1,) class k holds the rows ``starts[k]`` to ``starts[k + 1]``
    mesh : (c, n) or None; row i has edges (k, l) of weight ``mesh[k, i] * mesh[l, i]``
    star : (c, n) or None; row i has edges (y_i, l) of weight ``star[l, i]``
    n_penalised : the first so many coordinates carry the penalty, the others are intercepts
    scales : (c,) class scales beta of the penalty, None for 1

    Returns
    -------
    ((c - 1) q, (c - 1) q) array, class-major; only the lower triangle is valid
    """
    (q, n), c = T.shape, starts.size - 1
    edges = np.zeros((c * q, c * q))
    grams = edges.reshape(c, q, c, q)  # of classes k > l: grams[k, :, l]
    chunk = max(128, CHUNK // (c * q))
    if mesh is not None:
        for i in range(0, n, chunk):
            scaled = (mesh[:, None, i : i + chunk] * T[:, i : i + chunk]).reshape(c * q, -1)
            dsyrk(1.0, scaled.T, trans=1, beta=1.0, c=edges.T, overwrite_c=1, lower=0)
    if star is not None:
        for k in range(c):
            for i in range(starts[k], starts[k + 1], chunk):
                x = T[:, i : min(i + chunk, starts[k + 1])]
                scaled = (star[:, None, i : i + x.shape[1]] * x).reshape(c * q, -1)
                gram = (scaled @ x.T).reshape(c, q, q)
                grams[k + 1 :, :, k] += gram[k + 1 :]
                grams[k, :, :k] += gram[:k].transpose(1, 0, 2)
    H = -edges[:-q, :-q]
    laplacian = H.reshape(c - 1, q, c - 1, q)
    for k in range(c - 1):  # the rows of a Laplacian sum to zero
        laplacian[k, :, k] = grams[k, :, :k].sum(axis=1) + grams[k + 1 :, :, k].sum(axis=0)
    penalty = np.einsum("kjlj->klj", laplacian)[:, :, :n_penalised]
    shares = np.ones(c) if scales is None else 1.0 / scales
    penalty -= (np.outer(shares, shares) / shares.sum())[:-1, :-1, None]
    np.einsum("kkj->kj", penalty)[:] += shares[:-1, None]
    return H


def balanced(a: Array, y: Labels, starts: Labels) -> Array:
    """Duals ``a_il exp(p_y - p_l)``, (c, n), whose tau sums to zero over the rows.

    With flows ``f_yl = sum_{i in y} a_il`` the potentials p minimise ``sum_yl f_yl exp(p_y - p_l)``: Newton.
    """
    flows = np.array([a[:, i:j].sum(axis=1) for i, j in pairwise(starts)])
    p = np.zeros(len(flows))
    for _ in range(20):
        now = flows * np.exp(p[:, None] - p)
        out, into = now.sum(axis=1), now.sum(axis=0)
        if np.abs(out - into).max() <= 1e-15 * out.sum() or not np.abs(p).max() < 30.0:
            break
        p -= np.linalg.lstsq(np.diag(out + into) - now - now.T, out - into, rcond=None)[0]
    return a * np.exp(p[y] - p[:, None])
