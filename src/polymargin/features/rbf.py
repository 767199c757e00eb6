"""Blocks of an RBF kernel matrix on dense rows, by one matrix product and one exponential each.

scikit-learn's pairwise kernels check and convert both sides at each call, and form distances of float32 rows in double
precision. Here rows are prepared once: about their mean, with

    -gamma |x_i - x_j|^2 = z_i . z_j + h_i + h_j,    z = sqrt(2 gamma) (x - mean),    h = -|z|^2 / 2,

so that rows ``(z, 1, h)`` and ``(z, h, 1)`` multiply to the exponent. Where |z|^2 is so large that its rounding would be
seen in the exponent, the differences are squared one by one instead.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from polymargin.features.shift import moved_alike

_LARGE_NORM = 1e5  # |z|^2 above which products lose more than 1e-10 in the exponent
_SMALL_NORM = 8.0  # largest |z|^2 for which float32 products are good to about 1e-6 in the exponent


def rbf_values(A: Any, B: Any, gamma: float) -> NDArray[np.float64]:
    """The kernel of two sets of rows in double precision, whatever their distance from zero."""
    A, B = moved_alike(A, B)
    if not sparse.issparse(A):
        longest = max(float(np.einsum("ij,ij->i", part, part).max(initial=0.0)) for part in (A, B))
        if 2.0 * gamma * longest > _LARGE_NORM:
            return np.asarray(np.exp(-gamma * cdist(A, B, "sqeuclidean")))
    return np.asarray(rbf_kernel(A, B, gamma=gamma), dtype=np.float64)


def _is_long(E: NDArray[Any]) -> bool:
    return len(E) > 0 and -2.0 * float(E[:, -1].min()) > _SMALL_NORM


class RbfRows:
    """The kernel on the rows of a dense X, in the given dtype or that of X.

    Values in single precision come from products in single precision, unless some |z|^2 is so large that the exponent
    would suffer.
    """

    def __init__(self, X: NDArray[Any], gamma: float, dtype: Any = None):
        n, d = X.shape
        self.dtype = np.dtype(X.dtype if dtype is None else dtype)
        E = np.empty((n, d + 2), dtype=self.dtype)
        self._fill(E, X, gamma)
        if self.dtype == np.float32 and _is_long(E):
            E = np.empty((n, d + 2))
            self._fill(E, X, gamma)
        self._E, self._apart = E, None
        if n and -2.0 * float(E[:, -1].min()) > _LARGE_NORM:
            self._apart = (X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)) * np.sqrt(gamma)

    def in_single(self) -> RbfRows:
        """The same in single precision, which may share what it is made of."""
        made = copy(self)
        made.dtype = np.dtype(np.float32)
        if self._apart is None and not _is_long(self._E):
            made._E = self._E.astype(np.float32)
        return made

    @staticmethod
    def _fill(E: NDArray[Any], X: NDArray[Any], gamma: float) -> None:
        mean, root = X.mean(axis=0, dtype=np.float64), np.sqrt(2.0 * gamma)
        for start in range(0, len(X), 1024):
            part = slice(start, start + 1024)
            z = (X[part] - mean) * root
            E[part, :-2] = z
            E[part, -1] = -0.5 * np.einsum("ij,ij->i", z, z)
        E[:, -2] = 1.0

    def block(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64] | slice | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """K[rows, columns], all columns if None, into `out` if given."""
        if self._apart is not None:
            others = self._apart if columns is None else self._apart[columns]
            values = np.exp(-cdist(self._apart[rows], others, "sqeuclidean")).astype(self.dtype, copy=False)
            if out is None:
                return np.asarray(values)
            out[...] = values
            return out
        left = self._E[rows]
        left[:, -2:] = left[:, :-3:-1].copy()
        right = self._E if columns is None else self._E[columns]
        product = np.matmul(left, right.T, out=out if out is not None and out.dtype == left.dtype else None)
        np.minimum(product, 0.0, out=product)
        if out is None:
            out = product if product.dtype == self.dtype else np.empty(product.shape, dtype=self.dtype)
        np.exp(product, out=out, dtype=out.dtype, casting="same_kind")
        if columns is None:
            out[np.arange(len(rows)), rows] = 1.0
        return out
