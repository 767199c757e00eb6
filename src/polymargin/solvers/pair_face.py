"""Newton steps of the pairwise hinge on the pairs that matter, with a class metric.

Near the optimum the pairs j = (row i, rival k) with ``0 < a_j < u_i`` are known, and they lie on their margins. With the
metric's inverse P their margins are linear in their duals:

    M da + E db = 1 - margins,      E' da = 2 eps b - sums,      M_jl = <x_j, x_l> (e_y - e_k)_j' P (e_y - e_k)_l

One factorisation of order |J| replaces hundreds of epochs. If a dual leaves its bounds, or another pair violates its margin,
some more epochs find a better J. Between steps the weights of the metric move too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin.certificate import Ledger
from polymargin.solvers.pair_iterate import PairIterate

if TYPE_CHECKING:
    from polymargin.solvers.pair_weighted import PairMetric

Array = NDArray[np.float64]
Index = NDArray[np.integer]

LARGEST = 2500  # pairs of a face
_RIDGE = 1e-10  # relative, on the diagonal of M
_VIOLATED = 1e-7  # of a margin


def newton_on_pairs(now: PairIterate, metric: PairMetric, ledger: Ledger, bound: float, n_iter: int) -> bool:
    """Steps until ``ledger.tol`` is certified or the face turns out to be a wrong one; returns whether they were of use.

    Then multipliers, metric and iterate are where the best step came, for the ascent to go on from there. `bound` is what
    the multipliers are worth at the start.
    """
    design, u = now.design, now.cost[:, None]
    best = now.A.copy(), now.V, metric.log_Q
    helped = False
    while True:
        face = (now.A > 0.0) & (u > now.A)
        if np.count_nonzero(face) > LARGEST or not _step(now, metric, face):
            break
        found = now.certify(ledger, now.problem.penalty.model(now.V[: design.r], 0.0), max(1, n_iter))
        if ledger.done:
            return True
        if not found > bound:
            break
        helped, bound, best = True, found, (now.A.copy(), now.V, metric.log_Q)
        left = bool((now.A[face] <= 0.0).any() or (u <= now.A)[face].any())
        joins = bool(((now.A <= 0.0) & (_margins(now) < 1.0 - _VIOLATED)).any())
        if left or joins:
            break
        metric.set(metric.log_Q + metric.step(now.V[: design.r]))
        now.V = now.V.copy()
        now.V[: design.r] = _pull(now) @ metric.P
        now.S = design.scores(now.V)
    now.A, now.V, log_Q = best
    metric.set(log_Q)
    return helped


def _step(now: PairIterate, metric: PairMetric, face: NDArray[np.bool_]) -> bool:
    """Puts the pairs of the face on their margins; False if their system cannot be factorised."""
    design, free = now.design, now.problem.fit_intercept
    rows, rivals = np.nonzero(face)
    own = now.y[rows]
    factor, failed = dpotrf(_matrix(now, metric, rows, rivals, own), lower=1)
    if failed or not len(rows):
        return False
    right = 1.0 - (now.S[rows, own] - now.S[rows, rivals])
    offsets = np.zeros(now.S.shape[1])
    if free:
        E = np.zeros((len(rows), now.S.shape[1]))
        each = np.arange(len(rows))
        E[each, own] = 1.0
        E[each, rivals] -= 1.0
        solved = dpotrs(factor, np.column_stack([right, E]), lower=1)[0]
        offsets = _offsets(now, E, solved)
        step = solved[:, 0] - solved[:, 1:] @ offsets
    else:
        step = dpotrs(factor, right, lower=1)[0]
    if not np.isfinite(step).all():
        return False
    now.A[rows, rivals] += step
    V = np.zeros_like(now.V)
    V[: design.r] = _pull(now) @ metric.P
    if free:
        V[design.r] = now.V[design.r] + offsets
    now.V, now.S = V, design.scores(V)
    np.clip(now.A, 0.0, now.cost[:, None], out=now.A)
    return True


def _matrix(now: PairIterate, metric: PairMetric, rows: Index, rivals: Index, own: Index) -> Array:
    """M: inner products of the (centred) rows times those of their class pairs."""
    K, at = now.design.gram_of(rows)
    pulls = metric.P[own] - metric.P[rivals]
    M: Array = pulls[:, own] - pulls[:, rivals]
    M *= K[at[:, None], at]
    M[np.diag_indices_from(M)] *= 1.0 + _RIDGE
    return M


def _offsets(now: PairIterate, E: Array, solved: Array) -> Array:
    """The step of b that balances the duals, ``sums = 2 eps b``."""
    penalty: Any = now.problem.penalty
    c = E.shape[1]
    _, b = now.design.split(now.V)
    rate = float(penalty.offset_gradient(np.ones(1))[0])
    B = E.T @ solved[:, 1:] + rate * np.eye(c)
    right = E.T @ solved[:, 0] + _tau(now).sum(axis=0) - penalty.offset_gradient(b)
    step = np.linalg.solve(B + np.trace(B) / c**2, right)
    return np.asarray(step - step.mean())


def _tau(now: PairIterate) -> Array:
    T = -now.A
    T[now.own, now.y] = now.A.sum(axis=1)
    return T


def _pull(now: PairIterate) -> Array:
    """``Z = X' tau`` of the rows as they are, not centred."""
    gradient = now.design.adjoint(_tau(now))
    Z = gradient[: now.design.r]
    return Z + np.outer(now.design.mean, gradient[now.design.r]) if now.problem.fit_intercept else Z


def _margins(now: PairIterate) -> Array:
    """``s_y - s_k``, infinite at the own class."""
    margins = now.S[now.own, now.y][:, None] - now.S
    margins[now.own, now.y] = np.inf
    return np.asarray(margins)
