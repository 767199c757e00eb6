"""Interior point for the convex hinge machines: Mehrotra's predictor-corrector on a condensed system.

Problem, with ``X (n, d)``, ``W (d, c)``, ``b (c,)`` free, scores ``S = X W + 1 b'`` and costs ``u_i = C v_i``::

    min_{W, b}  F(W, b) = 1/2 ||W||_F^2 + sum_i u_i loss_i(S_i)
    loss_i = max_{k != y} [1 - (s_y - s_k)]_+          "crammer_singer"
    loss_i = sum_{k != y} [1 - (s_y - s_k)]_+          "weston_watkins"

Dual, in the off-class multipliers ``a_il >= 0`` with ``tau_il = -a_il``, ``tau_iy = sum_l a_il``::

    max_a  sum_il a_il - 1/2 ||X' tau||_F^2,    sum_i tau_ik = 0 for every k if b is free
    sum_l a_il <= u_i    "crammer_singer",      a_il <= u_i    "weston_watkins"

Slacks and multipliers are eliminated row by row (``_interior_blocks.py``). What is left is one system in (W, b) of
order ``(c - 1)(min(n, d) + 1)``: every row contributes ``M_i (x) x_i x_i'`` with ``M_i`` a graph Laplacian on the
classes, and on ``sum_k w_k = 0`` the penalty is the Laplacian of the complete graph with edges 1/c. The sum is
therefore known from its off-diagonal blocks, and the last class can be grounded (w = 0, b = 0) and shifted back: no
pin for ``sum_k b_k``, no regularisation of b.

Every iterate is certified: F is evaluated with the exact hinge, and a dual whose columns sum to ``r != 0`` is charged
``1/2 ||r||_1`` times a bound of the spread of the optimal b, so `dual` never exceeds the optimum.

References: Mehrotra, SIAM J. Optim. 2 (1992) 575-601 (predictor-corrector); Gondzio, Comput. Optim. Appl. 6 (1996)
137-156 (centrality correctors); Crammer & Singer, JMLR 2 (2001) 265-292; Weston & Watkins, ESANN (1999) 219-224.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from ._interior_blocks import BLOCKS, Array, Block, Labels

PROXIMAL = 1e-11  # of max ||x||^2: smallest eigenvalue of the scaled Newton matrix that rounding leaves usable
TO_BOUNDARY = 0.995  # fraction of the longest step
CHUNK = 512  # rows per rank-k update: the scaled copies stay in cache
NCOR = 2
PATIENCE = 6  # iterations without halving the gap, once rounding dominates


class InteriorPointResult(NamedTuple):
    """Coefficients, duals and certificate; ``primal`` and ``dual`` are those of the arrays returned."""

    W: Array  # (d, c), sum_k w_k = 0
    b: Array  # (c,), sum_k b_k = 0
    a: Array  # (n, c), a[i, y_i] = 0
    primal: float
    dual: float
    n_iter: int


def interior_point(
    X: Any,
    y: Labels,
    cost: Array,
    n_classes: int,
    block: str,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[float, float], None] | None = None,
) -> InteriorPointResult:
    """Minimise F until ``primal - dual <= tol * |primal|``, rounding stops the progress, or `max_iter` steps.

    Parameters
    ----------
    X : (n, d) float64 array or CSR matrix
        Meant for small ``min(n, d) * n_classes``: the Newton matrix is dense.
    y : (n,) class indices in ``0 .. n_classes - 1``
    cost : (n,) non-negative costs ``u_i = C * v_i``
    block : key of ``BLOCKS``
    on_iteration : called as ``on_iteration(primal, dual)`` with the best values so far; may raise to stop

    Notes
    -----
    The optimal b need not be unique. For the optimal W it is a set ``{b : b_k - b_l <= m_kl}``; the point returned is
    its centre ``b_k = 1/2 mean_l (m_kl - m_lk)`` with the tightest m, the mid-point for two classes. It depends on the
    set of rows only, not on how often a row is repeated or how it is weighted.
    """
    if block not in BLOCKS:
        raise ValueError(f"block={block!r} is unknown; choose one of {sorted(BLOCKS)}.")
    y, cost = np.asarray(y, dtype=np.intp), np.asarray(cost, dtype=np.float64)
    order = np.argsort(y, kind="stable")
    order = order[cost[order] > 0.0]
    # With a free b a class without rows has b = -inf: it takes no part, and gets a finite b in the end.
    classes = np.unique(y[order]) if fit_intercept else np.arange(n_classes)
    W, b, a = np.zeros((X.shape[1], n_classes)), np.zeros(n_classes), np.zeros((y.size, n_classes))
    if order.size == 0 or classes.size < 2:
        b[classes] = 1.0  # one class at most: a margin of 1 for nothing
        return InteriorPointResult(W, b - b.mean(), a, 0.0, 0.0, 0)
    rows = _rows(X[order], np.searchsorted(classes, y[order]), cost[order], classes.size, fit_intercept)
    slacks = BLOCKS[block](rows.y, rows.cost, classes.size, PROXIMAL * rows.largest_norm)
    best = _follow_central_path(rows, slacks, tol, max_iter, on_iteration)
    if fit_intercept:
        _centre_intercept(rows, slacks, best, tol)
    W[:, classes], b[classes], duals, primal, dual = _certify(rows, slacks, best)
    a[order[:, None], classes] = duals.T
    absent = np.setdiff1d(np.arange(n_classes), classes)
    if absent.size:
        S = rows.X @ W + b
        b[absent] = S[np.arange(order.size), y[order]].min() - 1.0
    return InteriorPointResult(W, b - b.mean(), a, primal, dual, best.n_iter)


# -- the rows ----------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """The rows sorted by class, once as given and once in the coordinates of the Newton system."""

    X: Any  # (n, d)
    y: Labels
    cost: Array
    n_classes: int
    mean: Array  # (d,), 0 without intercept
    T: Array  # (q, n): centred coordinates, and a row of ones for b
    n_penalised: int  # q, or q - 1 with intercept
    back: Callable[[Array, Array], Array]  # (V, tau) -> W
    starts: Labels  # first row of each class, and n
    class_cost: Array
    class_norm: Array  # ||mean of the class's rows||, in centred coordinates
    largest_norm: float  # max_i ||x_i||^2


def _rows(X: Any, y: Labels, cost: Array, n_classes: int, fit_intercept: bool) -> _Rows:
    mean = cost @ X / cost.sum() if fit_intercept else np.zeros(X.shape[1])
    Z, back = _coordinates(X, mean)
    n, p = Z.shape
    T = np.ones((p + fit_intercept, n))
    T[:p] = Z.T
    class_cost = np.bincount(y, cost, n_classes)
    sums = np.zeros((n_classes, p))
    starts = np.searchsorted(y, np.arange(n_classes + 1))
    for k, (i, j) in enumerate(zip(starts, starts[1:], strict=False)):
        sums[k] = cost[i:j] @ Z[i:j]
    class_norm = np.linalg.norm(sums, axis=1) / np.where(class_cost > 0.0, class_cost, 1.0)
    largest_norm = float(np.einsum("ij,ij->j", T, T).max())
    return _Rows(X, y, cost, n_classes, mean, T, p, back, starts, class_cost, class_norm, largest_norm)


def _coordinates(X: Any, mean: Array) -> tuple[Array, Callable[[Array, Array], Array]]:
    """Centred rows in at most min(n, d) orthonormal coordinates, and the way back to W.

    The penalty is invariant under rotation and W lies in the span of the rows, so nothing is lost.
    """
    n, d = X.shape
    if sp.issparse(X):
        used = np.flatnonzero(np.bincount(X.indices, minlength=d))
        return _gram_coordinates(X, mean) if n < used.size else _dense_columns(X, mean, used)
    Z = X - mean
    if n >= d:
        return Z, lambda V, tau: V.T
    Q, R = np.linalg.qr(Z.T)
    return R.T, lambda V, tau: Q @ V.T


def _dense_columns(X: Any, mean: Array, used: Labels) -> tuple[Array, Callable[[Array, Array], Array]]:
    """Columns without entries have w = 0: they stay out."""

    def back(V: Array, tau: Array) -> Array:
        W = np.zeros((X.shape[1], V.shape[0]))
        W[used] = V.T
        return W

    return X[:, used].toarray() - mean[used], back


def _gram_coordinates(X: Any, mean: Array) -> tuple[Array, Callable[[Array, Array], Array]]:
    """Rows of a wide sparse matrix from X X' = Q diag(s^2) Q': no (n, d) array is formed."""
    squares, Q = np.linalg.eigh((X @ X.T).toarray())
    kept = squares > squares[-1] * squares.size * np.finfo(float).eps
    Q, scale = Q[:, kept], np.sqrt(squares[kept])
    Z = Q * scale
    shift = Q.T @ (X @ mean) / scale  # the mean in these coordinates; it lies in the span of the rows
    Z -= shift

    def back(V: Array, tau: Array) -> Array:
        # W = X' tau up to the residual of the iterate: only that is divided by small scales.
        rest = (V - tau @ Z) / scale
        return X.T @ (tau.T + Q @ rest.T) - np.outer(mean, tau.sum(axis=1))

    return Z, back


# -- the central path --------------------------------------------------------------------------------------------


@dataclass
class _Best:
    """Best certified values so far and where they were reached; V is (c, q), the last row entry being b."""

    primal: float = np.inf
    dual: float = -np.inf
    V: Array | None = None
    V_tau: Array | None = None  # tau of the iterate that gave V
    tau: Array | None = None
    n_iter: int = 0
    mark: float = np.inf  # gap when it was last halved
    waited: int = 0

    def reached(self, tol: float) -> bool:
        return self.primal - self.dual <= tol * abs(self.primal)

    def stalled(self, complementarity: float) -> bool:
        """The products say the gap should be far smaller than it is, and it does not fall any more: rounding."""
        gap = self.primal - self.dual
        if gap <= 0.5 * self.mark or complementarity > 0.1 * gap:
            self.mark, self.waited = gap, 0
        self.waited += 1
        return self.waited > PATIENCE


def _follow_central_path(
    rows: _Rows, block: Block, tol: float, max_iter: int, on_iteration: Callable[[float, float], None] | None
) -> _Best:
    best, V = _Best(), _start(rows)
    block.start(V @ rows.T)
    while True:
        residual = _evaluate(rows, block, V, best)
        if on_iteration is not None:
            on_iteration(best.primal, best.dual)
        if best.reached(tol) or best.n_iter >= max_iter or best.stalled(block.complementarity()):
            return best
        with np.errstate(all="ignore"):  # at the limit of rounding a direction may overflow: it is not taken
            dV, size = _newton_step(rows, block, residual)
        if not (np.isfinite(dV).all() and size > 1e-12):
            return best
        block.step(size)
        V += size * dV
        best.n_iter += 1


def _start(rows: _Rows) -> Array:
    """Best point on the ray of the balanced duals a_il = u_i * (cost of class l): the scores have the right size."""
    tau = -np.outer(rows.class_cost / rows.class_cost.sum(), rows.cost)
    tau[rows.y, np.arange(rows.y.size)] += rows.cost
    gain = float(tau[rows.y, np.arange(rows.y.size)].sum())
    V = tau @ rows.T.T
    V[:, rows.n_penalised :] = 0.0
    squared = float(np.vdot(V, V))
    return V * min(1.0, gain / squared) if squared > 0.0 else V


def _evaluate(rows: _Rows, block: Block, V: Array, best: _Best) -> Array:
    """Certified values of the iterate; returns the stationarity residual tau X - (W, 0), (c, q)."""
    p = rows.n_penalised
    tau = block.pull()
    Z = tau @ rows.T.T
    primal = 0.5 * float(np.vdot(V[:, :p], V[:, :p])) + block.loss(V @ rows.T)
    if primal < best.primal:
        best.primal, best.V, best.V_tau = primal, V.copy(), tau
    dual = block.gain() - 0.5 * float(np.vdot(Z[:, :p], Z[:, :p])) - _imbalance(rows, Z[:, p:], best.primal)
    if dual > best.dual:
        best.dual, best.tau = dual, tau
    Z[:, :p] -= V[:, :p]
    return Z


def _imbalance(rows: _Rows, r: Array, primal: float) -> float:
    """What sum_i tau_i = r may add to the dual function: r'b <= 1/2 ||r||_1 (max b - min b) at the optimum.

    Rows of class y cost at most `primal`, so b_l - b_y <= primal/U_y - 1 + ||w_y - w_l|| ||mean x of class y||.
    """
    if not r.size:
        return 0.0
    spread = primal / rows.class_cost - 1.0 + 2.0 * np.sqrt(primal) * rows.class_norm
    return 0.5 * float(np.abs(r).sum()) * max(0.0, float(spread.max()))


def _newton_step(rows: _Rows, block: Block, residual: Array) -> tuple[Array, float]:
    """Predictor, corrector and as many centrality correctors as pay; the block holds the direction."""
    solve = _factorise(assemble(rows.T, rows.starts, *block.linearise(), rows.n_penalised), residual.shape)

    def newton(target: Array | float) -> Array:
        dV = solve(block.aim(target) @ rows.T.T + residual)
        block.follow(dV @ rows.T)
        return dV

    newton(0.0)
    target, barrier = block.mehrotra_target(block.longest_step())
    dV, longest = newton(target), block.longest_step()
    for _ in range(_n_correctors(rows)):
        if longest > 0.9:
            break
        kept, direction = dV, block.direction
        target = block.gondzio_target(target, min(1.0, 1.1 * longest + 0.1), barrier)
        dV, longer = newton(target), block.longest_step()
        if not longer > longest:
            dV, block.direction = kept, direction
            break
        enough, longest = longer < longest + 0.02, longer
        if enough:
            break
    return dV, min(1.0, TO_BOUNDARY * longest)


def _n_correctors(rows: _Rows) -> int:
    return NCOR


def _factorise(H: Array, shape: tuple[int, int]) -> Callable[[Array], Array]:
    """Solver of the grounded system; a ridge relative to the diagonal only if rounding made it indefinite."""
    diagonal, ridge = H.diagonal().copy(), 0.0
    while True:
        factor, failed = dpotrf(H.T, lower=0, clean=0, overwrite_a=0)
        if not failed:
            break
        ridge = max(100.0 * ridge, 1e-14)
        if not ridge < 1.0:
            return lambda rhs: np.full(shape, np.nan)
        np.fill_diagonal(H, diagonal * (1.0 + ridge))

    def solve(rhs: Array) -> Array:
        dV = np.zeros(shape)
        dV[:-1] = dpotrs(factor, rhs[:-1].ravel(), lower=0)[0].reshape(shape[0] - 1, shape[1])
        return dV - dV.mean(axis=0)

    return solve


def assemble(T: Array, starts: Labels, mesh: Array | None, star: Array | None, n_penalised: int) -> Array:
    """Newton matrix ``penalty + sum_i M_i (x) x_i x_i'`` with the last class grounded.

    Parameters
    ----------
    T : (q, n) coordinates of the rows, sorted by class
    starts : (c + 1,) class k holds the rows ``starts[k]`` to ``starts[k + 1]``
    mesh : (c, n) or None; row i has edges (k, l) of weight ``mesh[k, i] * mesh[l, i]``
    star : (c, n) or None; row i has edges (y_i, l) of weight ``star[l, i]``
    n_penalised : the first so many coordinates carry the penalty

    Returns
    -------
    ((c - 1) q, (c - 1) q) array, class-major; only the lower triangle is valid
    """
    (q, n), c = T.shape, starts.size - 1
    edges = np.zeros((c * q, c * q))
    blocks = edges.reshape(c, q, c, q)  # edges between classes k > l: blocks[k, :, l, :]
    if mesh is not None:
        for i in range(0, n, CHUNK):
            scaled = (mesh[:, None, i : i + CHUNK] * T[None, :, i : i + CHUNK]).reshape(c * q, -1)
            dsyrk(1.0, scaled.T, trans=1, beta=1.0, c=edges.T, overwrite_c=1, lower=0)
    if star is not None:
        for k in range(c):
            for i in range(starts[k], starts[k + 1], CHUNK):
                x = T[:, i : min(i + CHUNK, starts[k + 1])]
                scaled = (star[:, None, i : i + x.shape[1]] * x).reshape(c * q, -1)
                gram = (scaled @ x.T).reshape(c, q, q)
                blocks[k + 1 :, :, k] += gram[k + 1 :]
                blocks[k, :, :k] += gram[:k].transpose(1, 0, 2)
    H = -edges[:-q, :-q]
    laplacian = H.reshape(c - 1, q, c - 1, q)
    for k in range(c - 1):  # rows of a Laplacian sum to zero
        laplacian[k, :, k] = blocks[k, :, :k].sum(axis=1) + blocks[k + 1 :, :, k].sum(axis=0)
    diagonals = np.einsum("kjlj->jkl", laplacian)[:n_penalised]
    diagonals -= 1.0 / c
    np.einsum("jkk->jk", diagonals)[:] += 1.0
    return H


# -- the end -----------------------------------------------------------------------------------------------------


def _centre_intercept(rows: _Rows, block: Block, best: _Best, tol: float) -> None:
    """Move b to the centre of its optimal set, unless the certificate suffers (a face not yet identified)."""
    assert best.V is not None
    slacks = np.maximum(block.intercept_slacks(best.V @ rows.T), 0.0)
    for k in range(rows.n_classes):  # tighten: shortest paths
        np.minimum(slacks, slacks[:, k : k + 1] + slacks[k], out=slacks)
    if not np.isfinite(slacks).all():
        return
    V = best.V.copy()
    V[:, -1] += 0.5 * (slacks - slacks.T).mean(axis=1)
    p = rows.n_penalised
    primal = 0.5 * float(np.vdot(V[:, :p], V[:, :p])) + block.loss(V @ rows.T)
    if primal - best.dual <= max(best.primal - best.dual, tol * abs(primal)):
        best.V, best.primal = V, primal


def _certify(rows: _Rows, block: Block, best: _Best) -> tuple[Array, Array, Array, float, float]:
    """W, b, a in the coordinates of X and the values of exactly these arrays."""
    assert best.V is not None and best.V_tau is not None and best.tau is not None
    p, index = rows.n_penalised, np.arange(rows.y.size)
    W = rows.back(best.V[:, :p], best.V_tau)
    b = (best.V[:, p:].sum(axis=1) - rows.mean @ W) if rows.T.shape[0] > p else np.zeros(rows.n_classes)
    primal = 0.5 * float(np.vdot(W, W)) + block.loss(np.ascontiguousarray((rows.X @ W + b).T))
    a = -best.tau
    a[rows.y, index] = 0.0
    a = block.clip(a)
    tau = -a
    tau[rows.y, index] = a.sum(axis=0)
    r = tau.sum(axis=1)
    Z = rows.X.T @ tau.T - np.outer(rows.mean, r)
    charge = _imbalance(rows, r if rows.T.shape[0] > p else r[:0], primal)
    return W, b, a, primal, float(a.sum()) - 0.5 * float(np.vdot(Z, Z)) - charge
