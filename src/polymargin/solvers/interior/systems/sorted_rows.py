"""The rows of an interior point with a quadratic penalty: sorted by class, centred, in few coordinates, class-major.

The penalty is invariant under rotation and W lies in the span of the rows, so that min(n, d) orthonormal coordinates lose
nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.solvers.rows import RowSpan

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

EPS = float(np.finfo(float).eps)


class SortedRows:
    """The rows once as given and once in the coordinates of the Newton system."""

    def __init__(self, X: Any, y: Labels, cost: Array, scales: Array, fit_intercept: bool):
        """`y` ascending; `scales` beta of all classes."""
        self.X, self.y, self.cost, self.scales = X, y, cost, scales
        self.n_classes, self.has_intercept = scales.size, fit_intercept
        # The mean is weighted: repeating a row and doubling its cost are the same problem.
        self.mean = cost @ X / cost.sum() if fit_intercept else np.zeros(X.shape[1])
        Z, self.back, self.lost = _coordinates(X, self.mean)
        if Z.shape[1] + fit_intercept == 0:  # nothing to fit: one coordinate that is always 0
            Z, self.back = np.zeros((len(y), 1)), lambda V, tau: np.zeros((X.shape[1], len(V)))
        n, self.n_penalised = Z.shape
        self.T = np.ones((self.n_penalised + fit_intercept, n))  # with intercept a row of ones for b
        self.T[: self.n_penalised] = Z.T
        self.own = y * n + np.arange(n)  # flat index of (y_i, i) in a (c, n) array
        self.starts = np.searchsorted(y, np.arange(self.n_classes + 1))  # first row of each class, and n
        self.class_cost = np.bincount(y, cost, self.n_classes).astype(np.float64)
        self.largest_norm = float(np.square(self.T).sum(axis=0).max() * scales.max())  # max_i ||x_i||^2 beta_k


class _Coordinates(NamedTuple):
    """Centred rows, the way (V, tau) -> W back, and what ||X' tau||^2 may exceed theirs by for tau of length 1."""

    Z: Array  # (n, p)
    back: Callable[[Array, Array], Array]
    lost: float = 0.0


def _coordinates(X: Any, mean: Array) -> _Coordinates:
    n, d = X.shape
    if sparse.issparse(X):
        used = np.flatnonzero(np.bincount(X.indices, minlength=d))
        return _gram_coordinates(X, mean) if n < used.size else _dense_columns(X, mean, used)
    Z = X - mean
    if n >= d:
        return _Coordinates(Z, lambda V, tau: V.T)
    span = RowSpan(Z)
    lost = float(np.square(8.0 * EPS) * np.vdot(span.rows, span.rows))
    return _Coordinates(span.rows, lambda V, tau: span.outside(V.T), lost)


def _dense_columns(X: Any, mean: Array, used: Labels) -> _Coordinates:
    """Columns without entries have w = 0: they stay out."""

    def back(V: Array, tau: Array) -> Array:
        W = np.zeros((X.shape[1], V.shape[0]))
        W[used] = V.T
        return W

    return _Coordinates(X[:, used].toarray() - mean[used], back)


def _gram_coordinates(X: Any, mean: Array) -> _Coordinates:
    """Rows of a wide sparse matrix from X X' = Q diag(s^2) Q': no (n, d) array is formed."""
    squares, Q = np.linalg.eigh((X @ X.T).toarray())
    lost = float(max(squares[-1], 0.0) * squares.size * EPS)
    kept = squares > lost
    Q, scale = Q[:, kept], np.sqrt(squares[kept])
    Z = Q * scale - Q.T @ (X @ mean) / scale  # the mean lies in the span of the rows

    def back(V: Array, tau: Array) -> Array:
        # W = X' tau up to the residual of the iterate: only that is divided by small scales.
        rest = (V - tau @ Z) / scale
        return np.asarray(X.T @ (tau.T + Q @ rest.T) - np.outer(mean, tau.sum(axis=1)))

    return _Coordinates(Z, back, lost)
