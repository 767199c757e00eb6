"""The optimum of each convex machine from an interior-point solver, and F written a second time in NumPy.

Nothing here imports polymargin. The scale is the library's own:

    F(W, b) = C * sum_i v_i * loss_i(S_i) + R(W, b),    S = X W + 1 b',    b not penalised.

``REFERENCES[name](X, y, C, sample_weight, fit_intercept)`` returns F, evaluated here, at the solver's
point. It is an upper bound of the optimum, whatever the solver's accuracy: a fit that is ``gap`` away from
the optimum must not exceed it by more than ``gap``, and no valid dual value may exceed it at all.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp
from label_reference import coupled_norm, one_vs_none, one_vs_rest, one_vs_rest_loss, own_class_loss
from numpy.typing import ArrayLike, NDArray
from reference_lp import block_norm, lp_norm_optimum

Array = NDArray[np.float64]


# -- F, once more ------------------------------------------------------------------------------------------


def _pair_slacks(S: Array, y: NDArray[np.intp]) -> Array:
    """1 - (s_y - s_k) for every k, and -inf at k = y."""
    rows = np.arange(len(y))
    slacks = 1.0 - (S[rows, y][:, None] - S)
    slacks[rows, y] = -np.inf
    return slacks


def crammer_singer_loss(S: Array, y: NDArray[np.intp]) -> Array:
    return np.maximum(_pair_slacks(S, y).max(axis=1), 0.0)


def weston_watkins_loss(S: Array, y: NDArray[np.intp]) -> Array:
    return np.maximum(_pair_slacks(S, y), 0.0).sum(axis=1)


TOP_K = 2


def top_k_loss(S: Array, y: NDArray[np.intp], k: int = TOP_K) -> Array:
    """The own class's violation, 0, may be among the k largest."""
    violations = _pair_slacks(S, y)
    violations[np.arange(len(y)), y] = 0.0
    return np.maximum(np.sort(violations, axis=1)[:, -k:].mean(axis=1), 0.0)


def half_squared_norm(W: Array) -> float:
    return 0.5 * float(np.sum(W * W))


def no_offset_penalty(b: Array) -> float:
    return 0.0


M3_EPSILON = 1e-7


def pairwise_fourth_powers(W: Array) -> float:
    """(c - 1)/4 (mean_{k<l} |w_k - w_l|^4)^(1/2) + eps |W|^2, rows of W are the class vectors."""
    c, squares = len(W), np.square(W[:, None] - W[None]).sum(axis=2)
    mean = float(np.square(squares).sum()) / (c * (c - 1))
    return 0.25 * (c - 1) * float(np.sqrt(mean)) + M3_EPSILON * float(np.sum(W * W))


class Machine(NamedTuple):
    loss: Callable[[Array, NDArray[np.intp]], Array]
    penalty: Callable[[Array], float]
    offset_penalty: Callable[[Array], float] = no_offset_penalty


MACHINES = {
    "CrammerSingerSVC": Machine(crammer_singer_loss, half_squared_norm),
    "MarginSVC": Machine(crammer_singer_loss, half_squared_norm),
    "LpNormSVC": Machine(crammer_singer_loss, lambda vectors: block_norm(vectors.T, 1.5)),
    "WestonWatkinsSVC": Machine(weston_watkins_loss, half_squared_norm),
    "OneVsNoneSVC": Machine(own_class_loss, coupled_norm),
    "MultiLabelSVC": Machine(one_vs_rest_loss, half_squared_norm),
    "TopKSVC": Machine(top_k_loss, half_squared_norm),
    "M3SVC": Machine(weston_watkins_loss, pairwise_fourth_powers, lambda b: M3_EPSILON * float(b @ b)),
}


def dense64(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def row_weights(y: ArrayLike, sample_weight: ArrayLike | None = None, class_weight: Any = None) -> Array:
    """v_i = sample weight x class weight; "balanced" counts a row as often as its weight says."""
    labels, codes = np.unique(np.asarray(y), return_inverse=True)
    v = np.ones(len(codes)) if sample_weight is None else np.array(sample_weight, dtype=np.float64)
    if class_weight is None:
        return v
    if class_weight == "balanced":
        present = np.bincount(codes, weights=v)
        return v * (v.sum() / (len(labels) * present))[codes]
    return v * np.array([class_weight.get(label, 1.0) for label in labels.tolist()])[codes]


def objective(
    name: str,
    class_vectors: Array,
    class_offsets: Array,
    X: Any,
    y: ArrayLike,
    C: float,
    v: ArrayLike | None = None,
) -> float:
    """F of the machine ``name`` with rows of ``class_vectors`` = columns of W."""
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    weights = row_weights(y, v)
    vectors = np.asarray(class_vectors, dtype=np.float64)
    offsets = np.asarray(class_offsets, dtype=np.float64)
    S = dense64(X) @ vectors.T + offsets
    machine = MACHINES[name]
    return C * float(weights @ machine.loss(S, codes)) + machine.penalty(vectors) + machine.offset_penalty(offsets)


# -- the optimum, by Clarabel on matrices assembled here ----------------------------------------------------


class Optimum(NamedTuple):
    value: float  # F at the solver's point, evaluated above
    lower: float  # the solver's dual value: a lower bound, to its accuracy
    class_vectors: Array
    class_offsets: Array


def _solve_quadratic(P: sp.csc_matrix, q: Array, A: sp.csc_matrix, b: Array) -> tuple[Array, float]:
    """min 1/2 z'Pz + q'z subject to A z <= b."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    solver = clarabel.DefaultSolver(P, q, A, b, [clarabel.NonnegativeConeT(len(b))], settings)
    solution = solver.solve()
    assert str(solution.status) in ("Solved", "AlmostSolved"), solution.status
    return np.asarray(solution.x), float(solution.obj_val_dual)


def _solve_conic(P: sp.csc_matrix, q: Array, A: sp.csc_matrix, b: Array, cones: list[Any]) -> Array:
    """min 1/2 z'Pz + q'z subject to b - A z in the cones."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved", "InsufficientProgress"), solution.status
    return np.asarray(solution.x)


def hinge_optimum(
    name: str,
    X: Any,
    y: ArrayLike,
    C: float,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
) -> Optimum:
    """Variables: W, b (the last one 0: one constant is free) and one slack per row (CS) or per pair (WW)."""
    X, y, v = dense64(X), np.asarray(y), row_weights(y, sample_weight)
    codes = np.unique(y, return_inverse=True)[1]
    kept = v > 0
    rows_X, rows_y, rows_v = X[kept], codes[kept], v[kept]
    d, c = X.shape[1], int(codes.max()) + 1

    i, k = np.nonzero(np.arange(c)[None, :] != rows_y[:, None])  # the pairs (row, wrong class)
    pair = np.arange(len(i))
    on_W = np.zeros((len(i), c, d))  # s_k - s_y
    on_W[pair, k] += rows_X[i]
    on_W[pair, rows_y[i]] -= rows_X[i]
    on_b = np.zeros((len(i), c))
    on_b[pair, k] += 1.0
    on_b[pair, rows_y[i]] -= 1.0
    on_b = on_b[:, : c - 1] if fit_intercept else on_b[:, :0]
    slack_of_pair, slack_weight = (i, rows_v) if name == "CrammerSingerSVC" else (pair, rows_v[i])
    n_slacks, n_offsets = len(slack_weight), on_b.shape[1]

    on_slack = sp.csc_matrix((-np.ones(len(i)), (pair, slack_of_pair)), shape=(len(i), n_slacks))
    left = sp.hstack([sp.csc_matrix(on_W.reshape(len(i), c * d)), sp.csc_matrix(on_b), on_slack])
    non_negative = sp.hstack([sp.csc_matrix((n_slacks, c * d + n_offsets)), -sp.identity(n_slacks)])
    A = sp.csc_matrix(sp.vstack([left, non_negative]))
    P = sp.csc_matrix(sp.diags(np.r_[np.ones(c * d), np.zeros(n_offsets + n_slacks)]))
    q = np.r_[np.zeros(c * d + n_offsets), C * slack_weight]
    z, lower = _solve_quadratic(P, q, A, np.r_[-np.ones(len(i)), np.zeros(n_slacks)])

    vectors = z[: c * d].reshape(c, d)
    offsets = np.zeros(c)
    offsets[:n_offsets] = z[c * d : c * d + n_offsets]
    return Optimum(objective(name, vectors, offsets, X, y, C, v), lower, vectors, offsets)


def crammer_singer(
    X: Any, y: ArrayLike, C: float, sample_weight: ArrayLike | None = None, fit_intercept: bool = True
) -> float:
    return hinge_optimum("CrammerSingerSVC", X, y, C, sample_weight, fit_intercept).value


def weston_watkins(
    X: Any, y: ArrayLike, C: float, sample_weight: ArrayLike | None = None, fit_intercept: bool = True
) -> float:
    return hinge_optimum("WestonWatkinsSVC", X, y, C, sample_weight, fit_intercept).value


def top_k(
    X: Any, y: ArrayLike, C: float, sample_weight: ArrayLike | None = None, fit_intercept: bool = True, k: int = TOP_K
) -> float:
    """The mean of the k largest is ``min_t t + sum_l [m_l - t]_+ / k``. Variables: W and b, t, z >= m - t, losses."""
    X, y, v = dense64(X), np.asarray(y), row_weights(y, sample_weight)
    codes = np.unique(y, return_inverse=True)[1]
    kept = v > 0
    rows_y, rows_v = codes[kept], v[kept]
    Z = np.c_[X[kept], np.full(int(kept.sum()), float(fit_intercept))]
    (n, q), c = Z.shape, int(codes.max()) + 1
    row, klass = np.repeat(np.arange(n), c), np.tile(np.arange(c), n)
    each = np.arange(n * c)
    on_V = np.zeros((n * c, c, q))  # s_l - s_y, 0 for l = y
    on_V[each, klass] += Z[row]
    on_V[each, rows_y[row]] -= Z[row]
    one_of = sp.csc_matrix((np.ones(n * c), (each, row)), shape=(n * c, n))
    n_V, z_free = c * q, sp.csc_matrix((n * c, c * q))
    violated = sp.hstack([sp.csc_matrix(on_V.reshape(n * c, n_V)), -one_of, -sp.identity(n * c), sp.csc_matrix((n * c, n))])
    positive_z = sp.hstack([z_free, sp.csc_matrix((n * c, n)), -sp.identity(n * c), sp.csc_matrix((n * c, n))])
    paid = sp.hstack([sp.csc_matrix((n, n_V)), sp.identity(n), one_of.T / k, -sp.identity(n)])
    positive = sp.hstack([sp.csc_matrix((n, n_V + n + n * c)), -sp.identity(n)])
    A = sp.csc_matrix(sp.vstack([violated, positive_z, paid, positive]))
    right = np.r_[-(klass != rows_y[row]).astype(float), np.zeros(n * c + 2 * n)]
    ridge = np.tile(np.r_[np.ones(q - 1), 0.0 if fit_intercept else 1.0], c)  # a column of zeros without an intercept
    P = sp.csc_matrix(sp.diags(np.r_[ridge, np.zeros(2 * n + n * c)]))
    z, _ = _solve_quadratic(P, np.r_[np.zeros(n_V + n + n * c), C * rows_v], A, right)
    V = z[:n_V].reshape(c, q)
    losses = top_k_loss(X @ V[:, :-1].T + fit_intercept * V[:, -1], codes, k)
    return C * float(v @ losses) + half_squared_norm(V[:, :-1])


def lp_norm(X: Any, y: ArrayLike, C: float, sample_weight: ArrayLike | None = None, fit_intercept: bool = True) -> float:
    v = row_weights(y, sample_weight)
    kept, codes = v > 0, np.unique(np.asarray(y), return_inverse=True)[1]
    return lp_norm_optimum(dense64(X)[kept], codes[kept], C * v[kept], fit_intercept)


def m3(X: Any, y: ArrayLike, C: float, sample_weight: ArrayLike | None = None, fit_intercept: bool = True) -> float:
    """p = 4: |r^2| = min_h (|t|^2 + h^2)/2 with r^2 <= t h, second-order cones |(2(w_k - w_l), t - h)| <= t + h.

    Once more with the h that was found as a constant: of second order in its error, and better conditioned.
    """
    X, y, v = dense64(X), np.asarray(y), row_weights(y, sample_weight)
    codes = np.unique(y, return_inverse=True)[1]
    kept = v > 0
    Z, rows_y, rows_v = np.c_[X, np.full(len(X), float(fit_intercept))][kept], codes[kept], v[kept]
    q, c = Z.shape[1], int(codes.max()) + 1
    i, k = np.nonzero(np.arange(c)[None, :] != rows_y[:, None])
    pair = np.arange(len(i))
    on_V = np.zeros((len(i), c, q))
    on_V[pair, k] += Z[i]
    on_V[pair, rows_y[i]] -= Z[i]
    n_slacks, (first, second) = len(i), np.triu_indices(c, 1)
    n_t, n_V = len(first), c * q
    no_t = sp.csc_matrix((n_slacks, n_t + 1))  # nor h
    hinge = sp.hstack([sp.csc_matrix(on_V.reshape(len(i), n_V)), -sp.identity(n_slacks), no_t])
    positive = sp.hstack([sp.csc_matrix((n_slacks, n_V)), -sp.identity(n_slacks), no_t])
    cones = []
    for j in range(n_t):
        block = np.zeros((q + 1, n_V + n_slacks + n_t + 1))
        block[0, n_V + n_slacks + j] = block[1, n_V + n_slacks + j] = -1.0
        block[0, -1], block[1, -1] = -1.0, 1.0
        feature = np.arange(q - 1)
        block[2 + feature, first[j] * q + feature] = -2.0
        block[2 + feature, second[j] * q + feature] = 2.0
        cones.append(sp.csc_matrix(block))
    A = sp.csc_matrix(sp.vstack([hinge, positive, *cones]))
    b = np.r_[-np.ones(len(i)), np.zeros(n_slacks + n_t * (q + 1))]
    paid = np.full(n_t + 1, 0.25 * (c - 1) / np.sqrt(n_t))
    P = sp.csc_matrix(sp.diags(np.r_[np.full(n_V, 2 * M3_EPSILON), np.zeros(n_slacks), paid]))
    linear = np.r_[np.zeros(n_V), C * rows_v[i], np.zeros(n_t + 1)]
    kinds = [clarabel.NonnegativeConeT(2 * n_slacks)] + [clarabel.SecondOrderConeT(q + 1)] * n_t
    h = _solve_conic(P, linear, A, b, kinds)[-1]
    b -= h * A[:, -1].toarray().ravel()
    V = _solve_conic(P[:-1, :-1], linear[:-1], A[:, :-1], b, kinds)[:n_V].reshape(c, q)
    return objective("M3SVC", V[:, :-1], fit_intercept * V[:, -1], X, y, C, v)


REFERENCES: dict[str, Callable[..., float]] = {
    "CrammerSingerSVC": crammer_singer,
    "MarginSVC": crammer_singer,
    "LpNormSVC": lp_norm,
    "WestonWatkinsSVC": weston_watkins,
    "OneVsNoneSVC": one_vs_none,
    "MultiLabelSVC": one_vs_rest,
    "M3SVC": m3,
    "TopKSVC": top_k,
}


# -- the same optimum from CVXPY: slow to build, so only a few problems use it, to check the assembly above --


def cvxpy_optimum(
    name: str,
    X: Any,
    y: ArrayLike,
    C: float,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
) -> float:
    import cvxpy as cp

    X, codes, v = dense64(X), np.unique(np.asarray(y), return_inverse=True)[1], row_weights(y, sample_weight)
    n, c = len(codes), int(codes.max()) + 1
    W, b = cp.Variable((X.shape[1], c)), cp.Variable((1, c))
    own = np.eye(c)[codes]
    S = X @ W + np.ones((n, 1)) @ b
    violation = (1 - own) + S - cp.sum(cp.multiply(own, S), axis=1, keepdims=True) @ np.ones((1, c))
    # the own column is 0: the maximum is never negative, the sum has no own part
    loss = cp.max(violation, axis=1) if name == "CrammerSingerSVC" else cp.sum(cp.pos(violation), axis=1)
    F = C * (v @ loss) + 0.5 * cp.sum_squares(W)
    problem = cp.Problem(cp.Minimize(F), [] if fit_intercept else [b == 0])
    return float(problem.solve(solver=cp.CLARABEL))


def square_root(K: np.ndarray) -> np.ndarray:
    """Features whose inner products are K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))
