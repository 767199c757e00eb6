"""Newton systems whose weights range over more decades than a double has: heavy pairs as unknowns of their own.

Near the optimum of a hinge machine the pairs j = (row, rival class) on their margins have weights omega_j of 1e12 and more,
while a direction that no such pair sees is held by the ridge alone, 1e-6. Their sum has no digit of the ridge. As a border
they need not be added:

    [ B    U'       V'    0 ] [ D  ]   [ G ]
    [ U   -1/omega  0     0 ] [ a  ] = [ 0 ]       u_j = z_j (e_k - e_y)',    v_kl = d_kl (e_k - e_l)'
    [ V    0       -1/K  -1 ] [ m  ]   [ 0 ]
    [ 0    0       -1'    0 ] [ dt ]   [ 0 ]

with B of the penalty and of all light pairs, and the stretches K of a largest distance (`largest.py`) beside the heavy
pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs

Array = NDArray[np.float64]


class BorderedSystem:
    """One factorisation; `solve` may be called for several right-hand sides."""

    def __init__(self, B: Array, pairs: tuple[Array, Array], stretched: tuple[Array, Array]):
        """The matrix of the light pairs, and (vectors of shape (c, q), weights) of the heavy pairs and of the stretches."""
        border = np.concatenate([pairs[0], stretched[0]])
        weights = np.concatenate([pairs[1], stretched[1]])
        self._shape, self._n_pairs = border.shape[1:], len(pairs[1])
        # unknowns in units of their own curvature, rows of the border of length 1: pivots are then comparable
        self._units = 1.0 / np.sqrt(np.maximum(B.diagonal(), 1e-300))
        border = border.reshape(len(border), -1) * self._units
        self._lengths = lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", border, border), 1e-300))
        first, last, stretches = len(B), len(B) + len(border), len(B) + self._n_pairs
        M = np.zeros((last + 1, last + 1))
        M[:first, :first] = B * self._units * self._units[:, None]
        M[first:last, :first] = border / lengths[:, None]
        M[:first, first:last] = M[first:last, :first].T
        each = np.arange(first, last)
        M[each, each] = -1.0 / (weights * lengths**2)
        M[-1, stretches:last] = M[stretches:last, -1] = -1.0 / lengths[self._n_pairs :]
        M[-1, -1] = 0.0 if last > stretches else 1.0
        self._factor, self._pivots, failed = dgetrf(M, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the bordered system is singular")

    def solve(self, G: Array) -> tuple[Array, Array, Array]:
        """D for the right-hand side G, both stacked like the unknowns, and the pulls a and m of pairs and stretches."""
        right = np.zeros(len(self._factor))
        right[: G.size] = G.T.ravel() * self._units
        found = dgetrs(self._factor, self._pivots, right)[0]
        pulls = found[G.size : -1] / self._lengths
        D = (found[: G.size] * self._units).reshape(self._shape).T
        return D, pulls[: self._n_pairs], pulls[self._n_pairs :]
