"""The certificate of primal methods: a lower bound of the optimum from the derivatives of the losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.solvers.design import Design

Array = NDArray[np.float64]


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
