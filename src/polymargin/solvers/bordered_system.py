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
from scipy.linalg import lu_factor, lu_solve

Array = NDArray[np.float64]


class BorderedSystem:
    """One factorisation; `solve` may be called for several right-hand sides."""

    def __init__(self, B: Array, pairs: tuple[Array, Array], stretched: tuple[Array, Array]):
        """The matrix of the light pairs, and (vectors of shape (c, q), weights) of the heavy pairs and of the stretches."""
        border = np.concatenate([pairs[0], stretched[0]])
        weights = np.concatenate([pairs[1], stretched[1]])
        self._shape, self._n_pairs = border.shape[1:], len(pairs[1])
        border = border.reshape(len(border), -1)
        first, last = len(B), len(B) + len(border)
        M = np.zeros((last + 1, last + 1))
        M[:first, :first] = B
        # lengths of 1 make the pivots comparable
        self._lengths = lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", border, border), 1e-300))
        M[first:last, :first] = border / lengths[:, None]
        M[:first, first:last] = M[first:last, :first].T
        each = np.arange(first, last)
        M[each, each] = -1.0 / (weights * lengths**2)
        M[-1, -1] = 0.0 if len(stretched[1]) else 1.0
        M[-1, first + len(pairs[1]) : last] = -1.0 / lengths[len(pairs[1]) :]
        M[first + len(pairs[1]) : last, -1] = M[-1, first + len(pairs[1]) : last]
        self._factor = lu_factor(M, overwrite_a=True, check_finite=False)

    def solve(self, G: Array) -> tuple[Array, Array, Array]:
        """D for the right-hand side G, both stacked like the unknowns, and the pulls a and m of pairs and stretches."""
        right = np.zeros(len(self._factor[1]))
        right[: G.size] = G.T.ravel()
        found = lu_solve(self._factor, right, check_finite=False)
        pulls = found[G.size : -1] / self._lengths
        return found[: G.size].reshape(self._shape).T, pulls[: self._n_pairs], pulls[self._n_pairs :]
