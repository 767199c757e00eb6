"""Newton's method on the face that a descent has found (`face_search.py`), for small machines with a smooth angular penalty.

A row of class y has pieces ``E_l = 1[l != y] + s_l - s_y``; its loss is the largest, with ``E_y = 0``. Weights ``a_il >= 0``
of the pieces, with ``sum_l a_il = u_i``, make the loss's slopes ``T_il = a_il - u_i 1[l = y]``. Near a stationary point the
pieces of positive weight are known; on that face F is smooth, and

    grad R(W) + X'T = 0,      sum_i T_i = 0 (free intercept),      E_l equal for all pieces of positive weight of a row

are as many equations as unknowns. One piece of each row leads; the weights z of the others are free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.penalties.angular import AnglePenalty
from polymargin.problems.classes import Problem
from polymargin.solvers import cost_model
from polymargin.solvers.newton.faces.face_search import Change, FaceSearch, Mask
from polymargin.solvers.types import Machine, SparseDuals, sparse_duals

_STEPS, _FACES = 8, 8
_TIE = 1e-10  # a piece is larger than another by more than rounding
_DAMPING = 1e-7
_RELATIVE = 1e-9  # of the cost: a weight below is 0

Array = NDArray[np.float64]


def affordable(problem: Problem, penalty: AnglePenalty) -> bool:
    """Whether the angles are smooth, the loss a maximum of margins to rivals, and the system not too large."""
    smooth = penalty.angles.smooth and penalty.omega > 0.0
    pieces = problem.loss.has_plain_faces and problem.row_domains.domain.is_maximum
    return smooth and pieces and cost_model.angle_face_fits(problem)


def newton_on_face(
    problem: Problem, penalty: AnglePenalty, machine: Machine, duals: SparseDuals
) -> tuple[Machine, SparseDuals] | None:
    """The machine the equations lead to, with its duals; None if there are too many free weights or it leads astray."""
    search = _AngleFaces(problem, penalty, machine, duals)
    return search.end() if search.search(search.a > 0.0) else None


class _AngleFaces(FaceSearch):
    """The machine and the weights of all pieces."""

    most_steps = _FACES

    def __init__(self, problem: Problem, penalty: AnglePenalty, machine: Machine, duals: SparseDuals):
        self.problem, self.penalty, self.W, self.b = problem, penalty, machine.W, machine.b
        self.a = _weights(problem, duals)

    def end(self) -> tuple[Machine, SparseDuals]:
        a, problem = self.a, self.problem
        a[a < _RELATIVE * problem.cost[:, None]] = 0.0
        a *= (problem.cost / a.sum(axis=1))[:, None]
        a[np.arange(problem.n_rows), problem.y] = 0.0
        return Machine(self.W, self.b, problem.primal(self.W, self.b)), sparse_duals(a)

    def _fits(self, free: Mask) -> bool:
        self._face = _face(self.a, free)
        return len(self._face.row) <= cost_model.LARGEST_ANGLE_FACE

    def _step(self, free: Mask) -> Change | None:
        """Pieces of negative weight leave the face, pieces that are larger than the leading one join it."""
        face = self._face
        solved = _on_face(self.problem, self.penalty, face, self.W, self.b)
        if solved is None:
            return None
        self.W, self.b = solved
        E = _pieces(self.problem, self.W, self.b)
        leading = np.take_along_axis(E, face.a.argmax(axis=1)[:, None], axis=1)
        self.a, negative = np.maximum(face.a, 0.0), face.a < -_RELATIVE * self.problem.cost[:, None]
        joining = leading + _TIE < E
        wrong = int(np.count_nonzero(negative) + np.count_nonzero(joining))
        return Change(((self.a > 0.0) | joining) & ~negative, wrong)

    def _is_found(self, change: Change) -> bool:
        return not change.wrong


def _on_face(problem: Problem, penalty: AnglePenalty, face: _Face, W: Array, b: Array) -> tuple[Array, Array] | None:
    X = problem.X[face.row]
    X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    size = np.inf
    for _ in range(_STEPS):
        try:
            dW, db, dz, residual = _newton_step(problem, penalty, face, X, W, b)
        except np.linalg.LinAlgError:
            return None
        if not (np.isfinite(dW).all() and np.linalg.norm(dW) <= np.linalg.norm(W)):
            return None
        W, b = W + dW, b + db
        face.shift(dz)
        if residual >= 0.5 * size:
            break
        size = residual
    return W, b


def _pieces(problem: Problem, W: Array, b: Array) -> Array:
    """E (n, c), up to a constant of each row."""
    E = np.asarray(problem.X @ W, dtype=np.float64) + b
    E[np.arange(problem.n_rows), problem.y] -= 1.0
    return E


class _Face(NamedTuple):
    a: Array  # (n, c): the weights of all pieces
    row: NDArray[np.intp]  # of each free piece
    piece: NDArray[np.intp]
    lead: NDArray[np.intp]

    def shift(self, change: Array) -> None:
        self.a[self.row, self.piece] += change
        np.subtract.at(self.a, (self.row, self.lead), change)


def _weights(problem: Problem, duals: SparseDuals) -> Array:
    """Weights of all pieces, (n, c)."""
    rows = np.arange(problem.n_rows)
    a = np.zeros((problem.n_rows, problem.n_classes))
    a[np.repeat(rows, np.diff(duals.starts)), duals.classes] = duals.values
    a[rows, problem.y] = np.maximum(problem.cost - a.sum(axis=1), 0.0)
    a[a < _RELATIVE * problem.cost[:, None]] = 0.0
    return a


def _face(a: Array, free: Mask) -> _Face:
    lead, free = a.argmax(axis=1), free.copy()
    free[np.arange(len(a)), lead] = False
    row, piece = np.nonzero(free)
    return _Face(a.copy(), row, piece, lead[row])


def _newton_step(
    problem: Problem, penalty: AnglePenalty, face: _Face, X: Array, W: Array, b: Array
) -> tuple[Array, Array, Array, float]:
    d, c = W.shape
    m, k = len(face.row), c if problem.fit_intercept else 0
    T = face.a.copy()
    T[np.arange(problem.n_rows), problem.y] -= problem.cost
    M = np.zeros((m, c))
    M[np.arange(m), face.piece] = 1.0
    M[np.arange(m), face.lead] -= 1.0
    N = (X[:, :, None] * M[:, None, :]).reshape(m, d * c)
    y = problem.y[face.row]
    ties = ((X @ W + b) * M).sum(axis=1) + (face.piece != y).astype(float) - (face.lead != y)
    slopes = penalty.gradient(W) + np.asarray(problem.X.T @ T)
    K = np.zeros((d * c + k + m, d * c + k + m))
    K[: d * c, : d * c] = H = hessian(penalty, W)
    # the common vector may turn freely: H is singular there
    K[range(d * c), range(d * c)] += _DAMPING * float(np.abs(H).max())
    K[d * c + k :, : d * c] = N
    K[: d * c, d * c + k :] = N.T
    if k:
        K[d * c : d * c + k, d * c : d * c + k] = 1.0  # pins the sum of the offsets
        K[d * c + k :, d * c : d * c + k] = M
        K[d * c : d * c + k, d * c + k :] = M.T
    K[range(d * c + k, len(K)), range(d * c + k, len(K))] = -1e-12 * max(1.0, float(np.square(N).max(initial=0.0)))
    right = -np.concatenate([slopes.ravel(), T.sum(axis=0)[:k], ties])
    step = np.linalg.solve(K, right)
    residual = float(np.abs(right[: d * c]).max()) / (1.0 + float(np.abs(W).max())) + float(np.abs(ties).max(initial=0.0))
    db = step[d * c : d * c + k] if k else np.zeros(c)
    return step[: d * c].reshape(d, c), db, step[d * c + k :], residual


def hessian(penalty: AnglePenalty, W: Array) -> Array:
    """Second derivatives of the angular penalty, ``(dc, dc)``.

    In the basis of the singular vectors, entries (i, j) and (j, i) of a direction are coupled in pairs: their symmetric
    and their skew part have a curvature each. Beyond the square block, and between a positive and a vanishing singular
    value, the two agree.
    """
    angles = penalty.angles
    (d, c), k, r, square = W.shape, min(W.shape), angles.rank, angles.floor**2
    U, sigma, Vt = np.linalg.svd(W)
    s, g = sigma[:r], sigma[:r] ** 2 + square
    lone = np.zeros(k)
    lone[:r] = -(2.0 / r) / g
    symmetric = np.minimum(lone[:, None], lone)  # one of the two is 0, or both
    symmetric[r:, r:] = 0.0
    skew = symmetric.copy()
    symmetric[:r, :r] = (2.0 / r) * (np.outer(s, s) - square) / np.outer(g, g)
    skew[:r, :r] = -(2.0 / r) * (np.outer(s, s) + square) / np.outer(g, g)
    own = np.empty((d, c))
    own[k:], own[:, k:] = lone[:c] if d > c else 0.0, lone[:d, None] if c > d else 0.0
    own[:k, :k] = 0.5 * (symmetric + skew)
    at = np.arange(d * c).reshape(d, c)
    rotated = np.diag(own.ravel())
    rotated[at[:k, :k].ravel(), at[:k, :k].T.ravel()] += 0.5 * (symmetric - skew).ravel()
    basis, w, total = np.kron(U, Vt.T), W.ravel(), float(g.sum())
    H = basis @ rotated @ basis.T + (2.0 / total) * np.eye(d * c) - (4.0 / total**2) * np.outer(w, w)
    return np.asarray(np.eye(d * c) + 0.5 * penalty.omega * H)
