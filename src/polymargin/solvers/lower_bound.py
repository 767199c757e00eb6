"""The certificate of primal methods: a lower bound of the optimum from the derivatives of the losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.solvers.design import Design

Array = NDArray[np.float64]

_STEPS = 24


def lower_bound(penalty: Any, model: Any, design: Design, gradient: Array, linear: float, longest: float) -> float:
    """The best bound along the ray of the given derivatives.

    For derivatives T of the weighted losses that are feasible for ``0 <= t <= longest``, with ``gradient = Z'T`` (stacked) and
    ``linear <= -sum_i u_i loss*(T_i / u_i)``, and a loss that is nowhere negative,

        D(t) = t linear - R*(-t X'T) - offsets*(t sum_i T_i)     is a lower bound for every t in [0, longest].
    """
    r = design.r
    sums = gradient[r] if design.fit_intercept else np.zeros(gradient.shape[1])
    Z = -(gradient[:r] + np.outer(design.mean, sums))
    cost, promising = penalty.conjugate_along(model, Z)
    scale = abs(linear)

    def value(t: float) -> float:
        return t * linear - cost(t) - (penalty.offset_conjugate(t * sums, scale) if design.fit_intercept else 0.0)

    with np.errstate(over="ignore", invalid="ignore"):
        return max(0.0, _maximum(value, min(longest, 1.0, promising), longest))


def _maximum(value: Any, first: float, longest: float) -> float:
    """The largest value found of a concave function on [0, longest], starting near `first`."""
    best, at, step = value(first), first, 0.5
    if not np.isfinite(best):
        best = -np.inf
    for _ in range(_STEPS):
        moved = False
        for t in (at * (1.0 - step), min(longest, at * (1.0 + step))):
            found = value(t)
            if found > best:
                best, at, moved = found, t, True
                break
        if not moved:
            step *= 0.25
            if step < 1e-9:
                break
    return float(best)
