"""One versus None: hinges ``u_p [1 - t_p s_p]_+`` of single scores, one for each known label p = (row, class)."""

from __future__ import annotations

import numpy as np

from polymargin.solvers.interior.blocks.max_terms import Array, MaxTerms


class LabelPairs(MaxTerms):
    """Pieces ``1 - t s`` and 0: ``A[0]`` are the duals a, ``A[1] = u - a``. Scores are one for each pair."""

    def __init__(self, signs: Array, cost: Array):
        self.signs, self.weight = signs, cost
        self.offset = np.zeros((2, len(cost)))
        self.offset[0] = 1.0

    def lift(self, S: Array) -> Array:
        pieces = np.zeros(self.offset.shape)
        np.multiply(-self.signs, S, out=pieces[0])
        return pieces

    def adjoint(self, A: Array) -> Array:
        return np.asarray(self.signs * A[0])

    def edges(self) -> Array:
        """Curvature of each score."""
        return np.asarray(self.theta[0] * self.share[1])
