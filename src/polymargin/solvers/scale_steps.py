"""Steps of the class scales of the block norm: Eq. 14 of the lp-norm paper, extrapolated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties import BlockNorm
from polymargin.solvers.dual_ascent import Anderson

Array = NDArray[np.float64]


class ScaleSteps:
    """From class scales and the norms of the class vectors they led to, to the next scales.

    With sums ``z_k`` of rows that do not depend on the scales, the plain step ``beta_k ~ (beta_k |z_k|)^(2-p)`` only
    shrinks the error of log beta by 2 - p. Anderson's extrapolation works in log beta.
    """

    def __init__(self, penalty: BlockNorm):
        self._penalty = penalty
        self._extrapolate = Anderson()

    def __call__(self, scales: Array, norms: Array) -> tuple[Array, float]:
        """The next scales, and how far the plain step would move log beta."""
        now = np.log(scales)
        step = np.log(self._penalty.class_scales(norms)) - now
        residual = float(np.abs(step).max())
        if residual == 0.0:
            return scales, 0.0
        return self._penalty.normalised(np.exp(self._extrapolate(now, step))), residual
