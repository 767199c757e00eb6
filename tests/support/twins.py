"""Slow NumPy twins of the native loops: the same mathematics in the plainest form, for the tests to compare with."""

from __future__ import annotations

import numpy as np


def solve_row(domain: str, g, a, g_target: float, q: float, cost: float, parameters=()) -> np.ndarray:
    """One row's duals, the others fixed: bisection on the one number that couples them.

    maximise  sum_l a_l (h_l - h_y) - (q/2) (sum_l a_l^2 + (sum_l a_l)^2), h without the row's own contribution.
    """
    h, h_target = g + q * a, g_target - q * a.sum()
    if domain == "box":
        z = (h - h_target) / q
        total = _bisect(lambda A: A - np.clip(z - A, 0.0, cost).sum(), 0.0, len(g) * cost)
        return np.clip(z - total, 0.0, cost)
    if domain == "top_k":
        return _solve_top_k_row((h - h_target) / q, cost, *parameters)

    def duals(nu):
        return np.maximum(0.0, h - nu) / q

    low, high = min(h.min(), h_target) - q * cost - 1.0, max(h.max(), h_target) + 1.0
    # the own class takes what the others give, up to the cost
    nu = _bisect(lambda nu: min(cost, (nu - h_target) / q) - duals(nu).sum(), low, high)
    return duals(nu)


def _solve_top_k_row(z, cost: float, k: int) -> np.ndarray:
    """maximise sum_l a_l z_l - 1/2 sum_l a_l^2 - A^2/2 over 0 <= a_l <= min(u/k, A/(k-1)), A = sum_l a_l <= u.

    Bisection on A, whose slope is the price nu, less A, plus what a higher cap is worth.
    """
    share = np.inf if k == 1 else 1.0 / (k - 1)

    def at(A):
        cap = min(cost / k, share * A)
        kinks = np.sort(np.concatenate([z, z - cap]))[::-1]  # between them the sum of all takes is linear in the price
        nu = np.interp(A, np.clip(z - kinks[:, None], 0.0, cap).sum(axis=1), kinks)
        worth = share * np.maximum(z - nu - cap, 0.0).sum() if share * A < cost / k else 0.0
        return np.clip(z - nu, 0.0, cap), nu + worth - A

    if len(z) < k - 1 or np.sort(z)[::-1][: max(1, k - 1)].sum() <= 0.0:
        return np.zeros(len(z))
    most = min(cost, len(z) * cost / k)
    return at(_bisect(lambda A: -at(A)[1], 0.0, most))[0]


def top_k_loss(S, y, k: int) -> np.ndarray:
    """Mean of the k largest margins, the own class among them with 0, where it is positive."""
    rows = np.arange(len(y))
    margins = 1.0 + S - S[rows, y][:, None]
    margins[rows, y] = 0.0
    return np.maximum(0.0, np.sort(margins, axis=1)[:, ::-1][:, :k].mean(axis=1))


def _bisect(increasing, low: float, high: float) -> float:
    for _ in range(80):
        middle = 0.5 * (low + high)
        if increasing(middle) < 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def dual_ascent(domain: str, X, y, cost, n_classes: int, epochs: int, parameters=()) -> np.ndarray:
    """Plain cyclic coordinate ascent without shrinking, waiting or face steps; returns the duals a (n, c)."""
    n = len(y)
    a = np.zeros((n, n_classes))
    W = np.zeros((X.shape[1], n_classes))
    for _ in range(epochs):
        for i in range(n):
            others = np.arange(n_classes) != y[i]
            s, q = X[i] @ W, float(X[i] @ X[i])
            if q == 0.0:
                continue
            new = solve_row(domain, s[others], a[i, others], s[y[i]] - 1.0, q, cost[i], parameters)
            step = np.zeros(n_classes)
            step[others] = a[i, others] - new
            step[y[i]] = -step.sum()
            W += np.outer(X[i], step)
            a[i, others] = new
    return a


def tau(a: np.ndarray, y) -> np.ndarray:
    """Signed duals: minus a for the other classes, their sum for the own class."""
    T = -a.copy()
    T[np.arange(len(y)), y] = a.sum(axis=1)
    return T


def dense_duals(starts, classes, values, n_classes: int) -> np.ndarray:
    """The sparse duals of the native loop as an (n, c) array."""
    a = np.zeros((len(starts) - 1, n_classes))
    a[np.repeat(np.arange(len(a)), np.diff(starts)), classes] = values
    return a


def solve_scaled_row(domain: str, g, a, g_target: float, h, h_target: float, cost: float) -> np.ndarray:
    """The same for one curvature per class; the squared hinge has no cap (and its curvature in h_target)."""
    o, o_target = g + h * a, g_target - h_target * a.sum()

    def duals(nu):
        return np.maximum(0.0, o - nu) / h

    cap = cost if domain == "simplex" else np.inf
    low = min(o.min(), o_target) - h.max() * cost - 1.0
    nu = _bisect(lambda nu: min(cap, (nu - o_target) / h_target) - duals(nu).sum(), low, max(o.max(), o_target) + 1.0)
    return duals(nu)


def kernel_ascent(
    domain: str, K, y, cost, n_classes: int, epochs: int, inverse_rho: float = 0.0, parameters=()
) -> np.ndarray:
    """Plain cyclic coordinate ascent on a kernel matrix; with an intercept on ``K + inverse_rho 11'``, its proximal step."""
    n = len(y)
    K = K + inverse_rho
    a = np.zeros((n, n_classes))
    for _ in range(epochs):
        for i in range(n):
            others = np.arange(n_classes) != y[i]
            s = K[i] @ tau(a, y)
            g = s[others], a[i, others], s[y[i]] - 1.0
            a[i, others] = solve_row(domain, *g, K[i, i], cost[i], parameters)
    return a
