"""The optimum of One versus None from Clarabel and from CVXPY, and its F written a second time. Imports no polymargin.

    F(W, b) = sum_{ik: t_ik != 0} u_ik [1 - t_ik s_ik]_+ + R(W) + R_b(b)

``alpha=None``: sum_k w_k = 0 ("hard"), else R has the inner products; ``gamma_b=None``: sum_k b_k = 0, else
R_b = gamma_b (sum_k b_k)^2.
"""

from typing import Any, NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class LabelOptimum(NamedTuple):
    value: float  # F at the solver's point
    lower: float  # the solver's dual value
    class_vectors: Array
    class_offsets: Array


def label_objective(W: Array, b: Array, X: Any, T: Array, U: Array, alpha: float | None, gamma_b: float | None) -> float:
    """F with rows of W (c, d) as class vectors."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    W, b = np.asarray(W, dtype=np.float64), np.asarray(b, dtype=np.float64)
    loss = (U * np.where(T != 0, np.maximum(0.0, 1.0 - T * (X @ W.T + b)), 0.0)).sum()
    total, a = W.sum(axis=0), alpha or 0.0
    pairs = 0.5 * (total @ total - (W * W).sum())  # sum_{k<l} w_k . w_l
    return float(loss + 0.5 * (W * W).sum() + a * pairs + (0.0 if gamma_b is None else gamma_b * b.sum() ** 2))


def label_optimum(
    X: Any, T: Array, U: Array, alpha: float | None = 0.5, gamma_b: float | None = None, without_b: bool = False
) -> LabelOptimum:
    """Variables: W class by class, b, one slack for each known label."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    d, c = X.shape[1], T.shape[1]
    i, k = np.nonzero((T != 0) & (U > 0))
    p, n_vectors = len(i), c * d
    size = n_vectors + c + p
    signed = T[i, k][:, None] * np.column_stack([X[i], np.ones(p)])
    columns = np.column_stack([k[:, None] * d + np.arange(d), n_vectors + k])
    margin = sp.csr_matrix((signed.ravel(), (np.repeat(np.arange(p), d + 1), columns.ravel())), shape=(p, n_vectors + c))
    above = sp.hstack([-margin, -sp.identity(p)])
    positive = sp.hstack([sp.csr_matrix((p, n_vectors + c)), -sp.identity(p)])
    equal = []
    if alpha is None:
        equal.append(sp.hstack([sp.kron(np.ones((1, c)), sp.identity(d)), sp.csr_matrix((d, c + p))]))
    if gamma_b is None:
        equal.append(sp.csr_matrix(np.r_[np.zeros(n_vectors), np.ones(c), np.zeros(p)]))
    if without_b:
        equal.append(sp.hstack([sp.csr_matrix((c, n_vectors)), sp.identity(c), sp.csr_matrix((c, p))]))
    n_equal = sum(block.shape[0] for block in equal)
    A = sp.csc_matrix(sp.vstack([*equal, above, positive]))
    right = np.r_[np.zeros(n_equal), -np.ones(p), np.zeros(p)]
    a = alpha or 0.0
    on_W = sp.kron((1.0 - a) * np.eye(c) + a * np.ones((c, c)), sp.identity(d))
    on_b = 2.0 * (gamma_b or 0.0) * np.ones((c, c))
    P = sp.csc_matrix(sp.triu(sp.block_diag([on_W, on_b, sp.csr_matrix((p, p))])))
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(2 * p)]
    solver = clarabel.DefaultSolver(P, np.r_[np.zeros(n_vectors + c), U[i, k]], A, right, cones, settings)
    solution = solver.solve()
    assert str(solution.status) in ("Solved", "AlmostSolved"), solution.status
    assert len(solution.x) == size
    W, b = np.asarray(solution.x[:n_vectors]).reshape(c, d), np.asarray(solution.x[n_vectors : n_vectors + c])
    if alpha is None:  # exactly feasible, so that the value is an upper bound
        W = W - W.mean(axis=0)
    if gamma_b is None:
        b = b - b.mean()
    return LabelOptimum(label_objective(W, b, X, T, U, alpha, gamma_b), float(solution.obj_val_dual), W, b)


def cvxpy_label_optimum(X: Array, T: Array, U: Array, alpha: float | None = 0.5, gamma_b: float | None = None) -> float:
    import cvxpy as cp

    n, c = T.shape
    W, b = cp.Variable((X.shape[1], c)), cp.Variable((1, c))
    S = X @ W + np.ones((n, 1)) @ b
    F = cp.sum(cp.multiply(U * (T != 0), cp.pos(1 - cp.multiply(T, S))))
    # R as a sum of squares also for a negative alpha: differences of the class vectors, and their sum
    total, a = cp.sum(W, axis=1), alpha or 0.0
    F += 0.5 * (1 - a) * cp.sum_squares(W @ (np.eye(c) - 1 / c)) + 0.5 * (1 + a * (c - 1)) / c * cp.sum_squares(total)
    constraints = [] if alpha is not None else [total == 0]
    if gamma_b is None:
        constraints.append(cp.sum(b) == 0)
    else:
        F += gamma_b * cp.square(cp.sum(b))
    return float(cp.Problem(cp.Minimize(F), constraints).solve(solver=cp.CLARABEL))


# -- multi-class with default parameters, as `reference.py` needs it --


def own_class_loss(S: Array, y: NDArray[np.intp]) -> Array:
    return np.maximum(0.0, 1.0 - S[np.arange(len(y)), y])


def coupled_norm(W: Array, alpha: float = 0.5) -> float:
    total = W.sum(axis=0)
    return float(0.5 * (1 - alpha) * (W * W).sum() + 0.5 * alpha * total @ total)


def one_vs_none(X: Any, y: ArrayLike, C: float, sample_weight: ArrayLike | None = None, fit_intercept: bool = True) -> float:
    """`fit_intercept` is there for the other machines: these biases are part of the machine."""
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    v = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    T = np.eye(codes.max() + 1)[codes]
    return label_optimum(X, T, C * v[:, None] * T).value


def one_vs_rest_loss(S: Array, y: NDArray[np.intp]) -> Array:
    signs = 2.0 * np.eye(S.shape[1])[y] - 1.0
    return np.maximum(0.0, 1.0 - signs * S).sum(axis=1)


def one_vs_rest(X: Any, y: ArrayLike, C: float, sample_weight: ArrayLike | None = None, fit_intercept: bool = True) -> float:
    """A binary machine for each class: no inner products, all offsets free."""
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    v = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    T = 2.0 * np.eye(codes.max() + 1)[codes] - 1.0
    return label_optimum(X, T, C * v[:, None] * np.ones_like(T), 0.0, 0.0, not fit_intercept).value
