"""The space of the class vectors of machines with angles, and where their descent starts.

W lives in the span of the training rows, of their differences if the intercept is free: directions that no row knows would
buy angle for nothing. The loops keep it there: they add multiples of (centred) rows to what they are given.

The start is the machine without angles. With margins to rivals its vectors add up to zero, so one singular value is 0
whenever c directions are there: a common vector u at right angles to them, added to all, changes no margin and makes it
positive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import row_norms

from polymargin.penalties.angular import AnglePenalty
from polymargin.problems.classes import Problem
from polymargin.solvers.types import Machine

_SPARE = 5  # random directions beyond the number of classes
_RANK_TOL = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 1e-6}  # relative size of a direction that counts
_LIFTS = (0.01, 0.1, 0.3, 1.0)  # levels to which small singular values are lifted, of the level without a loss

Array = NDArray[np.float64]


class Rows(NamedTuple):
    """What is to be known of the rows: the dimension of their span, up to c + 5, and some of it."""

    basis: Array  # (d, k): random orthonormal directions in the span
    heading: Array  # (d,): in the span, of length 1 or 0; order, repetition and rotation of the rows do not matter to it
    fingerprint: Array


def look_at_rows(problem: Problem) -> Rows:
    """A few random mixtures of the rows have the rank of all rows, up to their number."""
    X, n = problem.X, problem.n_rows
    mixtures, total, mean = _mixtures(problem, min(n, problem.n_classes + _SPARE), np.random.default_rng(0))
    rounding = 4.0 * float(np.finfo(X.dtype).eps) * float(np.linalg.norm(mixtures))  # what is left of rows that are the same
    if problem.fit_intercept:  # differences from the first row span the centred rows
        first = X[[0]].astype(np.float64)
        mixtures -= np.outer(first.toarray() if sparse.issparse(X) else first, total)
    U, s, _ = np.linalg.svd(mixtures, full_matrices=False)
    kept = (s > _RANK_TOL[X.dtype] * s.max(initial=0.0)) & (s > rounding)
    fingerprint = np.array([mixtures[:, 0].sum(), np.abs(mixtures).sum(), n])
    return Rows(np.ascontiguousarray(U[:, kept]), _heading(problem, mean), fingerprint)


def random_machine(problem: Problem, size: float, rng: np.random.Generator) -> Machine:
    """A random mixture of the rows, of their differences if the intercept is free, of a given size."""
    W, total, mean = _mixtures(problem, problem.n_classes, rng)
    W -= np.outer(mean, total)
    if problem.loss.sums_to_zero:
        W -= W.mean(axis=1, keepdims=True)
    W *= size / max(float(np.linalg.norm(W)), 1e-300)
    b = -mean @ W
    return Machine(W, b, problem.primal(W, b))


def _mixtures(problem: Problem, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Random mixtures (d, count) of the rows, the sums of their weights, and the mean row; 0 without an intercept."""
    mixtures, total, mean = np.zeros((problem.n_features, count)), np.zeros(count), np.zeros(problem.n_features)
    for X, _, cost in blocks(problem):
        mixing = rng.standard_normal((X.shape[0], count))
        mixtures += X.T @ mixing
        total += mixing.sum(axis=0)
        mean += X.T @ cost
    return mixtures, total, mean * (float(problem.fit_intercept) / float(problem.cost.sum()))


def _heading(problem: Problem, mean: Array) -> Array:
    """``sum_i u_i |x_i - mean|^2 (x_i - mean)``."""
    heading = np.zeros(problem.n_features)
    for X, _, cost in blocks(problem):
        squares = row_norms(X, squared=True) - 2.0 * (X @ mean) + float(mean @ mean)
        heading += X.T @ (cost * squares) - mean * float(cost @ squares)
    heading /= max(float(np.abs(heading).max(initial=0.0)), 1e-300)  # its squares may overflow
    return heading / max(float(np.linalg.norm(heading)), 1e-300)


def blocks(problem: Problem) -> Iterator[tuple[Any, NDArray[np.int32], Array]]:
    """Some rows at a time in double precision, their classes and their costs."""
    for rows in problem.blocks():
        yield problem.X[rows].astype(np.float64, copy=False), problem.y[rows], problem.cost[rows]


def starts(problem: Problem, penalty: AnglePenalty, machine: Machine, rows: Rows) -> Iterator[Machine]:
    """The machine without angles, with a common vector if that changes no margin, and with small singular values lifted."""
    W = with_common_vector(penalty, machine.W, rows) if problem.to_rivals else machine.W
    yield Machine(W, machine.b, problem.primal(W, machine.b))
    T, r = float(np.vdot(W, W)), penalty.angles.rank
    level = np.sqrt(penalty.omega * T / (r * (T + penalty.omega)))
    U, sigma, V = _factors(W, rows.basis, r, problem.loss.sums_to_zero)
    for share in _LIFTS:
        lift = np.maximum(share * level - sigma, 0.0)
        if lift.any():
            lifted = W + (U * lift) @ V.T
            yield Machine(lifted, machine.b, problem.primal(lifted, machine.b))


def _factors(W: Array, basis: Array, r: int, sum_zero: bool) -> tuple[Array, Array, Array]:
    """U (d, r), singular values and V (c, r) of W, with directions of the basis where the rank is short."""
    U, sigma, Vt = np.linalg.svd(W, full_matrices=False)
    k = int((sigma[:r] > 1e-9 * sigma.max(initial=0.0)).sum())
    U = np.hstack([U[:, :k], np.linalg.svd(_outside(basis, U[:, :k]), full_matrices=False)[0][:, : r - k]])
    taken = np.vstack([Vt[:k], np.full((int(sum_zero), W.shape[1]), W.shape[1] ** -0.5)])
    V = np.vstack([Vt[:k], np.linalg.svd(taken)[2][len(taken) :][: r - k]]).T
    return U, np.append(sigma[:k], np.zeros(r - k)), V


def _span(W: Array) -> Array:
    """Orthonormal vectors that span the columns."""
    U, sigma, _ = np.linalg.svd(W, full_matrices=False)
    return np.asarray(U[:, sigma > 1e-7 * sigma.max(initial=0.0)])


def _outside(basis: Array, U: Array) -> Array:
    """The basis without its part in the span of the orthonormal U; twice, for rounding."""
    rest = basis - U @ (U.T @ basis)
    return np.asarray(rest - U @ (U.T @ rest))


def with_common_vector(penalty: AnglePenalty, W: Array, rows: Rows) -> Array:
    """``W + sqrt(s/c) u 1'`` with u at right angles to W, and the s that minimises the angular penalty."""
    c = W.shape[1]
    u = _across(W, rows)
    if u is None:
        return W
    T, omega = float(np.vdot(W, W)), penalty.omega
    p = c * T + omega * (c - 1)
    s = 2.0 * omega * T / (p + np.sqrt(p * p + 4.0 * c * omega * T))
    return np.asarray(W + np.sqrt(s / c) * u[:, None])


def _across(W: Array, rows: Rows) -> Array | None:
    """A unit vector in the span of the rows at right angles to all columns of W, the heading's part if it has one."""
    U = _span(W)
    if U.shape[1] >= rows.basis.shape[1]:
        return None
    headed = bool(rows.heading.any())
    candidates = np.column_stack([rows.heading, rows.basis]) if headed else rows.basis
    rest = _outside(candidates, U)
    sizes = np.linalg.norm(rest, axis=0)
    pick = 0 if headed and sizes[0] > 1e-6 else int(sizes.argmax())
    return np.asarray(rest[:, pick] / sizes[pick]) if sizes[pick] > 1e-6 else None


def canonical(machine: Machine, rows: Rows) -> Machine:
    """The same machine with its common vector turned to the heading.

    The part of ``mean_k w_k`` at right angles to all differences of class vectors may point anywhere in the span: no margin
    and no angle depends on it. So that equal problems have equal scores, it points to where the heading does.
    """
    W, b, primal = machine
    mean = W.mean(axis=1)
    V = W - mean[:, None]
    u = _across(V, rows)
    if u is None:
        return machine
    part = _outside(mean[:, None], _span(V))[:, 0]
    turned = float(np.linalg.norm(part)) * u - part
    return Machine(np.ascontiguousarray(W + turned[:, None]), b, primal)
