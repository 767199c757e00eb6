"""Balancing the flows between classes.

With a free intercept the duals must satisfy ``sum_i tau_ik = 0`` for every class k: what the rows of class y take from the
classes l, ``f_yl = sum_{i in y} a_il``, is a circulation. Coordinate ascent reaches that only in the limit; multiplying the
duals by ``exp(u_y - u_l)`` reaches it exactly and keeps them non-negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.solvers.rows import Design

Array = NDArray[np.float64]


_BALANCED = 1e-12  # of the total flow: more than rounding leaves


def balancing_factors(flows: Array, max_iter: int = 100) -> Array:
    """Factors ``(c, c)`` that turn the flows into a circulation.

    Edges between strong components cannot be part of a circulation and get the factor 0. Inside a component
    ``sum_yl f_yl exp(u_y - u_l)`` is convex in u and its stationarity is the balance: a damped Newton iteration.
    What rounding leaves unbalanced is below 1e-14 of the total flow, usually. Flows that differ by more decades than a
    double has may defy it: all factors are 0 then, which proves nothing, but nothing false.
    """
    same = _same_component(flows)
    kept = np.where(same, flows, 0.0)
    total = kept.sum()
    if total == 0.0:
        return np.zeros_like(flows)
    kept /= total
    u = np.zeros(len(kept))
    for _ in range(max_iter):
        scaled = kept * np.exp(u[:, None] - u)
        out_flow, in_flow = scaled.sum(axis=1), scaled.sum(axis=0)
        excess = out_flow - in_flow
        if np.abs(excess).max() <= 1e-16:
            break
        # a constant may be added to u in every component: pin it without changing the step
        hessian = np.diag(out_flow + in_flow) - scaled - scaled.T + same / len(kept)
        try:
            step = np.linalg.solve(hessian, -excess)
        except np.linalg.LinAlgError:
            return np.zeros_like(flows)
        longest = np.abs(step).max()
        u += step / max(1.0, longest)
        if longest <= 1e-15:
            break
    with np.errstate(over="ignore", invalid="ignore"):
        factors = np.where(kept > 0.0, np.exp(u[:, None] - u), 0.0)
        scaled = kept * factors
        unbalanced = np.abs(scaled.sum(axis=1) - scaled.sum(axis=0)).max()
    return factors if unbalanced <= _BALANCED * scaled.sum() else np.zeros_like(flows)


def balanced_duals(A: Array, y: NDArray[np.int32]) -> Array:
    """Duals ``A (n, c)`` whose flows are made a circulation; they may have left their bounds."""
    flows = np.zeros((A.shape[1],) * 2)
    np.add.at(flows, y, A)
    return np.asarray(A * balancing_factors(flows)[y])


def _same_component(flows: Array) -> NDArray[np.bool_]:
    """Which pairs of classes lie in one strong component of the graph of positive flows."""
    reached = flows > 0.0
    np.fill_diagonal(reached, True)
    if reached.all():
        return reached
    if len(flows) > 64:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        labels = connected_components(csr_array(reached), connection="strong")[1]
        return np.asarray(labels[:, None] == labels)
    for _ in range(len(flows).bit_length()):  # paths of twice the length each time
        reached = reached @ reached
    return np.asarray(reached & reached.T)


def best_multiple(room: float, total: float, squared_norm: float) -> float:
    """The t in [0, room] that maximises ``t total - t^2 squared_norm / 2``."""
    return min(room, max(0.0, total / squared_norm)) if squared_norm > 0.0 else room


def lower_bound(
    penalty: Any, model: Any, design: Design, gradient: Array, linear: float, longest: float, hidden: float = 0.0
) -> float:
    """The best bound along the ray of the given derivatives.

    For derivatives T of the weighted losses that are feasible for ``0 <= t <= longest``, with ``gradient = Z'T`` (stacked)
    and ``linear <= -sum_i u_i loss*(T_i / u_i)``, and a loss that is nowhere negative,

        D(t) = t linear - R*(-t X'T) - offsets*(t sum_i T_i)     is a lower bound for every t in [0, longest].

    `hidden` is what rounding may hide in these sums and in the values they are compared with: it is taken off.
    """
    r = design.r
    sums = gradient[r] if design.fit_intercept else np.zeros(gradient.shape[1])
    Z = -(gradient[:r] + np.outer(design.mean, sums))
    cost, ray = penalty.conjugate_along(model, Z)
    scale = abs(linear)
    offsets = penalty.offset_conjugate(sums, scale) if design.fit_intercept else 0.0

    def value(t: float) -> float:
        found = t * linear - cost(t) - (penalty.offset_conjugate(t * sums, scale) if design.fit_intercept else 0.0)
        return found if np.isfinite(found) else 0.0

    with np.errstate(over="ignore", invalid="ignore"):
        t = min(_best_on_ray(linear, ray.power, ray.exponent, ray.square + offsets), ray.longest, longest)
        return max(0.0, max(value(t), value(min(1.0, longest))) - hidden)


def _best_on_ray(linear: float, power: float, exponent: float, square: float) -> float:
    """The t > 0 that maximises ``t linear - power t^exponent - square t^2``, by Newton's method in log t from above."""
    if not linear > 0.0 or not np.isfinite(power + square):
        return 0.0
    candidates = [linear / (2.0 * square)] if square > 0.0 else []
    if power > 0.0:
        log_t = (np.log(linear) - np.log(exponent * power)) / (exponent - 1.0)
        candidates.append(float(np.exp(min(log_t, 700.0))))
    t = min(candidates, default=np.inf)
    if not 0.0 < t < 1e100:  # beyond all bounds: the longest step that is allowed
        return t
    for _ in range(30):
        a, b = exponent * power * t ** (exponent - 1.0), 2.0 * square * t
        step = np.log((a + b) / linear) * (a + b) / ((exponent - 1.0) * a + b)
        t *= float(np.exp(-step))
        if abs(step) < 1e-12:
            break
    return t
