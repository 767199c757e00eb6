"""The optimum of the lp-norm machine from Clarabel, on cones assembled here; nothing imports polymargin.

    min  C sum_i v_i t_i^r + 1/2 N^2,    t_i >= 1 + s_il - s_iy,  t_i >= 0,  r = 1 or 2
         |w_k| <= n_k  (second-order cones),   n_k <= g_k^(1/p) N^(1 - 1/p)  (power cones),   sum_k g_k = N,

the last two of which say (sum_k n_k^p)^(1/p) <= N.
"""

import clarabel
import numpy as np
import scipy.sparse as sp

Array = np.ndarray


def block_norm(W: Array, p: float) -> float:
    """R of the columns of W."""
    norms = np.linalg.norm(W, axis=0)
    return 0.5 * float((norms**p).sum()) ** (2.0 / p)


def lp_norm_objective(W: Array, b: Array, X: Array, codes: Array, cost: Array, p: float, squared: bool) -> float:
    rows = np.arange(len(codes))
    S = X @ W + b
    slacks = 1.0 + S - S[rows, codes][:, None]
    slacks[rows, codes] = 0.0
    worst = slacks.max(axis=1)
    return float(cost @ (worst**2 if squared else worst)) + block_norm(W, p)


def lp_norm_optimum(
    X: Array, codes: Array, cost: Array, fit_intercept: bool, p: float = 1.5, squared: bool = False
) -> float:
    """F, evaluated above, at Clarabel's point: an upper bound of the optimum. All costs are positive."""
    (n, d), c = X.shape, int(codes.max()) + 1
    n_offsets = c - 1 if fit_intercept else 0
    at_b, at_t = c * d, c * d + n_offsets  # W (class by class), b, t, norms n, g, N
    at_norm, at_g, at_N = at_t + n, at_t + n + c, at_t + n + 2 * c
    size = at_N + 1

    i, k = np.nonzero(np.arange(c)[None, :] != codes[:, None])  # 1 + s_k - s_y - t <= 0
    pair = np.arange(len(i))
    margins = sp.lil_matrix((len(i), size))
    for j in range(d):
        margins[pair, k * d + j] = X[i, j]
        margins[pair, codes[i] * d + j] = -X[i, j]
    for column, sign in ((k, 1.0), (codes[i], -1.0)):
        inside = column < n_offsets
        margins[pair[inside], at_b + column[inside]] = sign
    margins[pair, at_t + i] = -1.0
    positive = sp.csc_matrix((-np.ones(n), (np.arange(n), at_t + np.arange(n))), shape=(n, size))
    budget = sp.lil_matrix((1, size))  # sum_k g_k - N = 0
    budget[0, at_g : at_g + c], budget[0, at_N] = 1.0, -1.0
    balls = sp.lil_matrix((c * (d + 1), size))
    powers = sp.lil_matrix((3 * c, size))
    for m in range(c):
        balls[m * (d + 1), at_norm + m] = -1.0
        for j in range(d):
            balls[m * (d + 1) + 1 + j, m * d + j] = -1.0
        powers[3 * m, at_g + m], powers[3 * m + 1, at_N], powers[3 * m + 2, at_norm + m] = -1.0, -1.0, -1.0
    A = sp.csc_matrix(sp.vstack([budget, margins, positive, balls, powers]))
    right = np.zeros(A.shape[0])
    right[1 : 1 + len(i)] = -1.0
    cones = [
        clarabel.ZeroConeT(1),
        clarabel.NonnegativeConeT(len(i) + n),
        *[clarabel.SecondOrderConeT(d + 1)] * c,
        *[clarabel.PowerConeT(1.0 / p)] * c,
    ]
    # a unit of the objective near 1, or a small C would be lost in the solver's tolerances
    unit = 1.0 / max(1.0, float(cost.sum())) if cost.sum() > 1.0 else 1.0 / float(cost.sum())
    quadratic, linear = np.zeros(size), np.zeros(size)
    quadratic[at_N] = unit
    (quadratic if squared else linear)[at_t:at_norm] = (2.0 if squared else 1.0) * unit * cost
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(sp.csc_matrix(sp.diags(quadratic)), linear, A, right, cones, settings)
    solution = solver.solve()
    assert str(solution.status) in ("Solved", "AlmostSolved", "InsufficientProgress"), solution.status
    z = np.asarray(solution.x)
    W, b = z[: c * d].reshape(c, d).T, np.zeros(c)
    b[:n_offsets] = z[at_b:at_t]
    return lp_norm_objective(W, b, X, codes, cost, p, squared)
