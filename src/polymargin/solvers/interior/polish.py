"""How a quadratic interior point ends: the optimality conditions on its face, and the centre of the optimal offsets.

A gap only bounds ||W - W*||^2, but on the right face W is exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polymargin.solvers.interior.blocks.max_terms import Array
from polymargin.solvers.interior.blocks.row_terms import RowTerms
from polymargin.solvers.interior.certified import Best, dual_value, primal_value, tolerated
from polymargin.solvers.interior.systems.sorted_rows import SortedRows
from polymargin.solvers.linear import definite
from polymargin.solvers.types import signs_of

_FEW = 500  # free multipliers that may be a face, however few the unknowns


def polish(rows: SortedRows, block: RowTerms, best: Best, tol: float) -> None:
    """Solves the optimality conditions on the face the iterates tend to; keeps that if the gap does not suffer.

    Free multipliers z and b satisfy ``K z - N b = g``, ``N' z = r``; row j of N has +1 and -1 at the two classes of piece j.
    """
    assert best.V is not None
    face, p, V = block.face(), rows.n_penalised, best.V.copy()
    if face is None:
        return
    m, beta = face.free.size, rows.scales[:, None]
    if m > max(_FEW, V.size):  # not a face yet
        return
    N, x = signs_of(face.gains, face.loses, rows.n_classes), rows.T[:p, face.row]
    solve = _saddle_solver((x.T @ x) * (N @ (beta * N.T)), N if rows.has_intercept else N[:, :0])
    for _ in range(4 if m else 0):  # the first solves, the others refine
        Z = block.face_pull(face) @ rows.T.T
        V[:, :p] = beta * Z[:, :p]
        change, db = solve(block.face_gaps(face, V @ rows.T), Z[:, p:].ravel())
        face.shift(change)
        V[:, p:] += db.reshape(V[:, p:].shape)
    tau = block.face_pull(face, feasible=True)
    V[:, :p] = beta * (tau @ rows.T.T)[:, :p]
    primal = primal_value(rows, block, V)
    repaired, dual = dual_value(rows, block, tau)
    if primal - dual <= max(best.gap, tolerated(rows, tol * primal)):
        best.V, best.V_tau, best.tau, best.primal, best.dual = V, tau, repaired, primal, dual


def _saddle_solver(K: Array, N: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
    """With a ridge against dependent pieces that refinement undoes; what is singular in spite of it has no solution: nan."""
    K[np.diag_indices_from(K)] += 1e-10 * (K.diagonal().sum() / max(1, len(K)) or 1.0)
    inverse = definite(K, with_ridge=False) if K.size else (lambda right: right)
    KN = np.full(N.shape, np.nan) if inverse is None else inverse(N) if N.size else N
    if inverse is None or not np.isfinite(KN).all():
        return lambda g, r: (np.full(len(K), np.nan), np.full(N.shape[1], np.nan))
    schur = np.linalg.pinv(N.T @ KN, rcond=1e-10, hermitian=True) if N.size else np.zeros((0, 0))

    def solve(g: Array, r: Array) -> tuple[Array, Array]:
        Kg = inverse(g)
        db = schur @ (r - N.T @ Kg)
        return Kg + KN @ db, db

    return solve


def centre_offsets(rows: SortedRows, block: RowTerms, best: Best, tol: float) -> None:
    """Moves b to the centre of its optimal set, unless the gap suffers: then the face is not known yet."""
    assert best.V is not None
    slacks = np.maximum(block.intercept_slacks(best.V @ rows.T), 0.0)
    for k in range(rows.n_classes):  # tighten: shortest paths
        np.minimum(slacks, slacks[:, k : k + 1] + slacks[k], out=slacks)
    if not np.isfinite(slacks).all():
        return
    V = best.V.copy()
    V[:, -1] += 0.5 * (slacks - slacks.T).mean(axis=1)
    primal = primal_value(rows, block, V)
    if primal - best.dual <= max(best.gap, tolerated(rows, tol * primal)):
        best.V, best.primal = V, primal
