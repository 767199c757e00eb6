"""Interior point for the convex hinge machines: Mehrotra's predictor-corrector on a condensed system.

Problem, with ``X (n, d)``, ``W (d, c)``, free ``b (c,)``, scores ``S = X W + 1 b'``, costs ``u_i = C v_i``::

    min_{W, b}  F(W, b) = 1/2 ||W||_F^2 + sum_i u_i loss_i(S_i)
    loss_i = max_{k != y} [1 - (s_y - s_k)]_+          "crammer_singer"
    loss_i = sum_{k != y} [1 - (s_y - s_k)]_+          "weston_watkins"

Dual, in the off-class multipliers ``a_il >= 0`` with ``tau_il = -a_il``, ``tau_iy = sum_l a_il``::

    max_a  sum_il a_il - 1/2 ||X' tau||_F^2,    sum_i tau_ik = 0 for every k if b is free
    sum_l a_il <= u_i    "crammer_singer",      a_il <= u_i    "weston_watkins"

Slacks and multipliers are eliminated row by row (``_interior_blocks.py``). What is left is one system in
(W, b) of order ``(c - 1)(min(n, d) + 1)``: a row adds ``M_i (x) x_i x_i'`` with ``M_i`` a graph Laplacian on
the classes, and on ``sum_k w_k = 0`` the penalty is the Laplacian of the complete graph with edges 1/c. The
last class can be grounded (w = 0, b = 0) and the solution shifted to ``sum_k w_k = sum_k b_k = 0``.

With class scales ``beta`` the penalty is ``sum_k ||w_k||^2 / (2 beta_k)`` and ``w_k = beta_k X' tau_k``. Then
``sum_k w_k / beta_k = 0``, and there the penalty is the Laplacian with edges ``1/(beta_k beta_l sum_j 1/beta_j)``.

Every iterate is certified: F is evaluated with the exact hinge, and a dual whose columns sum to ``r != 0`` is
charged ``1/2 ||r||_1`` times a bound of the spread of the optimal b: `dual` never exceeds the optimum. In the
end the optimality conditions are solved on the face the iterates tend to: W is then exact to rounding.

References: Mehrotra, SIAM J. Optim. 2 (1992) 575-601 (predictor-corrector); Gondzio, Comput. Optim. Appl. 6
(1996) 137-156 (centrality correctors); Crammer & Singer, JMLR 2 (2001) 265-292; Weston & Watkins, ESANN
(1999) 219-224.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin.solvers.interior.blocks import BLOCKS, Array, Block, Labels, assemble, balanced, face_solver

EPS = float(np.finfo(float).eps)
PROXIMAL = 1e-11, 1e-6  # of max ||x||^2, and of 1/u_i: see _proximal
TO_BOUNDARY = 0.995  # fraction of the longest step
N_CORRECTORS, LONGER = 3, 0.4  # at most so many centrality correctors, each for a step longer by so much
PATIENCE = 6  # iterations without halving the gap, once rounding dominates


class InteriorPointResult(NamedTuple):
    """Coefficients, duals and certificate; ``primal`` and ``dual`` are the values of the arrays returned."""

    W: Array  # (d, c), sum_k w_k / beta_k = 0
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
    block: str | Callable[[Labels, Array, int, Array, Labels], Block],
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[float, float], None] | None = None,
    scales: Array | None = None,
    given: Array | None = None,
) -> InteriorPointResult:
    """Minimise F until ``primal - dual <= tol * |primal|``, `max_iter` steps, or rounding stops the progress.

    Parameters
    ----------
    X : (n, d) float64 array or CSR matrix
        Meant for small ``min(n, d) * n_classes``: the Newton matrix is dense.
    y : (n,) class indices in ``0 .. n_classes - 1``
    cost : (n,) non-negative costs ``u_i = C * v_i``
    n_classes : number of classes
    block : key of ``BLOCKS``, or a function of their arguments and the order of the rows
    fit_intercept : whether b is free (and not penalised) or 0
    tol : relative duality gap
    max_iter : hard limit of Newton steps
    on_iteration : called as ``on_iteration(primal, dual)`` with the best values so far; may raise to stop
    scales : (n_classes,) positive class scales beta, None for 1
    given : (n, c) scores that are added to ``X W + 1 b'``, or None

    Notes
    -----
    The optimal b need not be unique. For the optimal W it is a set ``{b : b_k - b_l <= m_kl}``; b is its
    centre ``b_k = 1/2 mean_l (m_kl - m_lk)`` with the tightest m, the mid-point for two classes. That depends
    on which rows there are, not on whether a row is weighted or repeated.
    """
    if isinstance(block, str) and block not in BLOCKS:
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
    scales = np.ones(n_classes) if scales is None else scales
    given = None if given is None else np.ascontiguousarray(given[order][:, classes].T)
    rows = _rows(X[order], np.searchsorted(classes, y[order]), cost[order], scales[classes], fit_intercept, given)
    parts = rows.y, rows.cost, classes.size, _proximal(rows)
    slacks = BLOCKS[block](*parts) if isinstance(block, str) else block(*parts, order)
    if given is not None:
        slacks.shift(given)
    best = _follow_central_path(rows, slacks, tol, max_iter, on_iteration)
    with np.errstate(all="ignore"):  # a wrong face may lead anywhere: it is not accepted
        _polish(rows, slacks, best, tol)
    if fit_intercept:
        _centre_intercept(rows, slacks, best, tol)
    W[:, classes], b[classes], duals, primal, dual = _certify(rows, slacks, best, tol)
    a[order[:, None], classes] = duals.T
    if classes.size < n_classes:
        own = (rows.X @ W + b)[np.arange(order.size), y[order]]
        b[np.isin(np.arange(n_classes), classes, invert=True)] = own.min() - 1.0  # margins of 1 and more
    return InteriorPointResult(W, b - b.mean(), a, primal, dual, best.n_iter)


# -- the rows ----------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """The rows sorted by class, once as given and once in the coordinates of the Newton system."""

    X: Any  # (n, d)
    y: Labels
    cost: Array
    n_classes: int
    mean: Array  # (d,), 0 without intercept
    T: Array  # (q, n): centred coordinates, and with intercept a row of ones for b
    n_penalised: int  # q, or q - 1 with intercept
    back: Callable[[Array, Array], Array]  # (V, tau) -> W
    own: Labels  # flat index of (y_i, i) in a (c, n) array
    starts: Labels  # first row of each class, and n
    class_cost: Array
    class_mean: Array  # (c, p), in centred coordinates
    largest_mean: float  # max_k ||class_mean_k||
    largest_norm: float  # max_i ||x_i||^2 beta_k
    scales: Array  # (c,)
    class_given: Array  # (c, c): mean of the given scores over the rows of each class, one per column
    lost: float  # ||X' tau||^2 may be larger than in these coordinates by so much for tau of length 1

    @property
    def has_intercept(self) -> bool:
        return self.T.shape[0] > self.n_penalised


def _rows(X: Any, y: Labels, cost: Array, scales: Array, fit_intercept: bool, given: Array | None = None) -> _Rows:
    n_classes = scales.size
    # The mean is weighted: repeating a row and doubling its cost are the same problem.
    mean = cost @ X / cost.sum() if fit_intercept else np.zeros(X.shape[1])
    Z, back, lost = _coordinates(X, mean)
    if Z.shape[1] + fit_intercept == 0:  # nothing to fit: one coordinate that is always 0
        Z, back = np.zeros((len(y), 1)), lambda V, tau: np.zeros((X.shape[1], len(V)))
    n, p = Z.shape
    T = np.ones((p + fit_intercept, n))
    T[:p] = Z.T
    starts = np.searchsorted(y, np.arange(n_classes + 1))
    class_cost = np.bincount(y, cost, n_classes).astype(np.float64)
    means = np.array([cost[i:j] @ Z[i:j] for i, j in pairwise(starts)])
    means /= np.where(class_cost > 0.0, class_cost, 1.0)[:, None]
    largest_mean = float(np.sqrt(np.square(means).sum(axis=1).max()))
    own, largest_norm = y * n + np.arange(n), float(np.square(T).sum(axis=0).max() * scales.max())
    class_given = np.zeros((n_classes, n_classes))
    if given is not None:
        for k, (i, j) in enumerate(pairwise(starts)):
            class_given[:, k] = given[:, i:j] @ cost[i:j] / max(class_cost[k], 1e-300)
    geometry = (starts, class_cost, means, largest_mean, largest_norm, scales, class_given, lost)
    return _Rows(X, y, cost, n_classes, mean, T, p, back, own, *geometry)


def _coordinates(X: Any, mean: Array) -> tuple[Array, Callable[[Array, Array], Array], float]:
    """Centred rows in at most min(n, d) orthonormal coordinates, the way back to W, and what rounding loses in them.

    The penalty is invariant under rotation and W lies in the span of the rows, so nothing else is lost.
    """
    n, d = X.shape
    if sp.issparse(X):
        used = np.flatnonzero(np.bincount(X.indices, minlength=d))
        return _gram_coordinates(X, mean) if n < used.size else (*_dense_columns(X, mean, used), 0.0)
    Z = X - mean
    if n >= d:
        return Z, lambda V, tau: V.T, 0.0
    Q, R = np.linalg.qr(Z.T)
    return R.T, lambda V, tau: Q @ V.T, float(np.square(8.0 * EPS) * np.vdot(R, R))


def _dense_columns(X: Any, mean: Array, used: Labels) -> tuple[Array, Callable[[Array, Array], Array]]:
    """Columns without entries have w = 0: they stay out."""

    def back(V: Array, tau: Array) -> Array:
        W = np.zeros((X.shape[1], V.shape[0]))
        W[used] = V.T
        return W

    return X[:, used].toarray() - mean[used], back


def _gram_coordinates(X: Any, mean: Array) -> tuple[Array, Callable[[Array, Array], Array], float]:
    """Rows of a wide sparse matrix from X X' = Q diag(s^2) Q': no (n, d) array is formed."""
    squares, Q = np.linalg.eigh((X @ X.T).toarray())
    lost = float(max(squares[-1], 0.0) * squares.size * EPS)
    kept = squares > lost
    Q, scale = Q[:, kept], np.sqrt(squares[kept])
    Z = Q * scale - Q.T @ (X @ mean) / scale  # the mean lies in the span of the rows

    def back(V: Array, tau: Array) -> Array:
        # W = X' tau up to the residual of the iterate: only that is divided by small scales.
        rest = (V - tau @ Z) / scale
        return X.T @ (tau.T + Q @ rest.T) - np.outer(mean, tau.sum(axis=1))

    return Z, back, lost


# -- the central path --------------------------------------------------------------------------------------


@dataclass
class _Best:
    """Best certified values so far and where they were reached."""

    primal: float = np.inf
    dual: float = -np.inf
    V: Array | None = None  # (c, q): W', and b in the last column
    V_tau: Array | None = None  # tau of the iterate that gave V
    tau: Array | None = None
    n_iter: int = 0
    mark: float = np.inf  # gap when it was last halved
    waited: int = 0

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    def stalled(self, complementarity: float) -> bool:
        """The products promise a far smaller gap, and it does not fall any more: that is rounding."""
        if self.gap <= 0.5 * self.mark or complementarity > 0.1 * self.gap or self.gap > 0.01 * self.primal:
            self.mark, self.waited = self.gap, 0
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
        target = tol * best.primal
        # The values are summed again in the end, in the coordinates of X: leave room for rounding.
        if best.gap <= target - _tolerated(rows, target) or best.n_iter >= max_iter:
            return best
        with np.errstate(all="ignore"):  # at the limit of rounding a direction may overflow: it is not taken
            dV, size = _newton_step(rows, block, residual)
        if best.stalled(block.complementarity()) or not (np.isfinite(dV).all() and size > 1e-9):
            return best
        block.step(size)
        V += size * dV
        best.n_iter += 1


def _proximal(rows: _Rows) -> Array:
    """How far a slack may deviate per unit of its multiplier's change, (n,).

    Large enough that the penalty is not lost in the rounding of ``theta ||x||^2``, small enough that a
    multiplier that crosses its whole range [0, u] does not disturb a margin.
    """
    return np.minimum(PROXIMAL[0] * rows.largest_norm, PROXIMAL[1] / rows.cost)


def _start(rows: _Rows) -> Array:
    """Best point on the ray of the balanced duals a_il ~ u_i * (cost of class l): scores of a fair size."""
    tau = np.outer(rows.class_cost / -rows.class_cost.sum(), rows.cost)
    tau.ravel()[rows.own] += rows.cost
    Z = tau @ rows.T.T
    Z[:, rows.n_penalised :] = 0.0
    V = rows.scales[:, None] * Z
    squared = float(np.vdot(Z, V))
    return V * min(1.0, float(tau.ravel()[rows.own].sum()) / squared) if squared > 0.0 else V


def _evaluate(rows: _Rows, block: Block, V: Array, best: _Best) -> Array:
    """Certify the iterate; returns the residual of stationarity tau X - (W', 0), (c, q)."""
    tau, primal = block.pull(), _primal(rows, block, V)
    if primal < best.primal or best.V is None:  # the first may be beyond all numbers
        best.primal, best.V, best.V_tau = primal, V.copy(), tau
    Z, dual = _dual(rows, block, tau, best.V, best.primal)
    if dual > best.dual or best.tau is None:
        best.dual, best.tau = dual, tau
    Z[:, : rows.n_penalised] -= V[:, : rows.n_penalised] / rows.scales[:, None]
    return Z


def _primal(rows: _Rows, block: Block, V: Array) -> float:
    W = V[:, : rows.n_penalised]
    return 0.5 * float(np.vdot(W, W / rows.scales[:, None])) + block.loss(V @ rows.T)


def _dual(rows: _Rows, block: Block, tau: Array, V: Array, primal: float) -> tuple[Array, float]:
    """tau X, (c, q), and the dual value; `primal` is F at V."""
    Z = tau @ rows.T.T
    W, r = Z[:, : rows.n_penalised], Z[:, rows.n_penalised :]
    lost = 0.5 * rows.lost * float(rows.scales.max()) * float(np.vdot(tau, tau))
    dual = block.gain(tau) - 0.5 * float(np.vdot(W, rows.scales[:, None] * W)) - lost
    return Z, dual - _imbalance(rows, block, r, dual, V, primal)


def _imbalance(rows: _Rows, block: Block, r: Array, dual: float, V: Array, primal: float) -> float:
    """How much too large the dual value may be if sum_i tau_i = r: r'b* <= 1/2 ||r||_1 (max b* - min b*).

    At the optimum the rows of class y, with mean x_y and total cost U_y, lose at most `primal`, so that
    ``b*_l - b*_y <= primal/U_y - 1 + (w*_y - w*_l)'x_y``. With w in place of w* the last term changes by at
    most ``2 e ||x_y|| sqrt(max beta)``, ``e^2 = primal - F*``, as F is strongly convex in W: a quadratic
    inequality for e.
    """
    if not r.size:
        return 0.0
    size = float(np.abs(r).sum())
    scores = V[:, : rows.n_penalised] @ rows.class_mean.T + rows.class_given  # of the means, one per column
    spread = block.mean_hinge(primal, rows.class_cost) - 1.0 + (scores.diagonal() - scores.min(axis=0))
    charge = 0.5 * size * max(0.0, float(spread.max()))
    slope = size * rows.largest_mean * math.sqrt(rows.scales.max())
    return charge + 0.5 * slope * (slope + math.sqrt(slope**2 + 4.0 * max(0.0, primal - dual + charge)))


def _newton_step(rows: _Rows, block: Block, residual: Array) -> tuple[Array, float]:
    """Predictor, corrector and as many centrality correctors as pay; the block keeps its share of it."""
    mesh, star = block.linearise()
    H = assemble(rows.T, rows.starts, mesh, star, rows.n_penalised, rows.scales)
    solve = _factorise(H, residual.shape, rows)

    def newton(target: Array | float) -> Array:
        dV = solve(block.aim(target) @ rows.T.T + residual)
        block.follow(dV @ rows.T)
        return dV

    newton(0.0)
    target, barrier = block.mehrotra_target(block.longest_step())
    dV, longest = newton(target), block.longest_step()
    for _ in range(N_CORRECTORS):
        if longest > 0.9:
            break
        kept = dV, block.direction
        target = block.gondzio_target(target, min(1.0, longest + LONGER), barrier)
        dV, longer = newton(target), block.longest_step()
        if not longer > longest:
            dV, block.direction = kept
            break
        gained, longest = longer - longest, longer
        if gained < 0.02:
            break
    return dV, min(1.0, TO_BOUNDARY * longest)


def _factorise(H: Array, shape: tuple[int, ...], rows: _Rows) -> Callable[[Array], Array]:
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
        shares = 1.0 / rows.scales
        penalised = dV[:, : rows.n_penalised]
        penalised -= shares @ penalised / shares.sum()
        dV[:, rows.n_penalised :] -= dV[:, rows.n_penalised :].mean(axis=0)
        return dV

    return solve


# -- the end -----------------------------------------------------------------------------------------------


def _polish(rows: _Rows, block: Block, best: _Best, tol: float) -> None:
    """Solve the optimality conditions on the face the iterates tend to; keep that if the gap does not suffer.

    A gap only bounds ||W - W*||^2, but on the right face W is exact to rounding. Free multipliers z and b
    satisfy ``K z - N b = g``, ``N' z = r``; row j of N has +1 and -1 at the two classes of piece j.
    """
    assert best.V is not None
    face, p, V = block.face(), rows.n_penalised, best.V.copy()
    if face is None:
        return
    m, beta = face.free.size, rows.scales[:, None]
    if m > max(500, V.size):  # not a face yet
        return
    N = np.zeros((m, rows.n_classes))
    N[np.arange(m), face.gains], N[np.arange(m), face.loses] = 1.0, -1.0
    x = rows.T[:p, face.row]
    solve = face_solver((x.T @ x) * (N @ (beta * N.T)), N if rows.has_intercept else N[:, :0])
    for _ in range(4 if m else 0):  # the first solves, the others refine
        Z = block.face_pull(face) @ rows.T.T
        V[:, :p] = beta * Z[:, :p]
        change, db = solve(block.face_gaps(face, V @ rows.T), Z[:, p:].ravel())
        face.shift(change)
        V[:, p:] += db.reshape(V[:, p:].shape)
    tau = block.face_pull(face, feasible=True)
    V[:, :p] = beta * (tau @ rows.T.T)[:, :p]
    primal = _primal(rows, block, V)
    _, dual = _dual(rows, block, tau, V, primal)
    if primal - dual <= max(best.gap, _tolerated(rows, tol * primal)):
        best.V, best.V_tau, best.tau, best.primal, best.dual = V, tau, tau, primal, dual


def _centre_intercept(rows: _Rows, block: Block, best: _Best, tol: float) -> None:
    """Move b to the centre of its optimal set, unless the gap suffers: then the face is not known yet."""
    assert best.V is not None
    slacks = np.maximum(block.intercept_slacks(best.V @ rows.T), 0.0)
    for k in range(rows.n_classes):  # tighten: shortest paths
        np.minimum(slacks, slacks[:, k : k + 1] + slacks[k], out=slacks)
    if not np.isfinite(slacks).all():
        return
    V = best.V.copy()
    V[:, -1] += 0.5 * (slacks - slacks.T).mean(axis=1)
    primal = _primal(rows, block, V)
    if primal - best.dual <= max(best.gap, _tolerated(rows, tol * primal)):
        best.V, best.primal = V, primal


def _tolerated(rows: _Rows, target: float) -> float:
    """Gap that may be due to the rounding of margins of order 1, but never more than half the target."""
    return min(0.5 * target, 16.0 * EPS * float(rows.class_cost.sum()))


def _certify(rows: _Rows, block: Block, best: _Best, tol: float) -> tuple[Array, Array, Array, float, float]:
    """W, b and a for X as given, and the values of exactly these arrays."""
    assert best.V is not None and best.V_tau is not None and best.tau is not None
    p, c = rows.n_penalised, rows.n_classes
    W = rows.back(best.V[:, :p] / rows.scales[:, None], best.V_tau) * rows.scales
    b = best.V[:, p] - rows.mean @ W if rows.has_intercept else np.zeros(c)
    # Active margins are 1 up to rounding, which costs u * eps each; a hair longer, W has them all at 1.
    S, R = np.ascontiguousarray((rows.X @ W + b).T), 0.5 * float(np.vdot(W, W / rows.scales))
    primal, scale = min((t * t * R + block.loss(t * S), t) for t in (1.0, 1.0 + 16.0 * EPS))
    a = -best.tau
    a.ravel()[rows.own] = 0.0
    a = block.clip(a)
    dual, r = _dual_of(rows, block, a, best.V, primal)
    if rows.has_intercept and np.abs(r).max() > 1e-13 * a.sum():  # stopped before r was down to rounding
        with np.errstate(all="ignore"):
            repaired = balanced(a, rows.y, rows.starts)
            repaired *= min(1.0, block.room(repaired))
            value, _ = _dual_of(rows, block, repaired, best.V, primal)
        if primal - value <= max(primal - dual, tol * primal):
            a, dual = repaired, value
    return scale * W, scale * b, a, primal, dual


def _dual_of(rows: _Rows, block: Block, a: Array, V: Array, primal: float) -> tuple[float, Array]:
    """Dual value of a (c, n), from X as given, and the sums of tau."""
    tau = -a
    tau.ravel()[rows.own] = a.sum(axis=0)
    r = tau.sum(axis=1)
    Z = rows.X.T @ tau.T - np.outer(rows.mean, r)
    # sums of long rows that nearly cancel are known to rounding only
    error = 4.0 * EPS * float(np.abs(tau).sum()) * math.sqrt(rows.largest_norm)
    dual = block.gain(tau) - 0.5 * float(np.vdot(Z, Z * rows.scales)) - error * (error + float(np.linalg.norm(Z)))
    return dual - _imbalance(rows, block, r[: rows.n_classes * rows.has_intercept], dual, V, primal), r
