"""The linear system behind Newton and majorisation steps of One versus None.

Both minimise ``R(W) + R_b(b) + 1/2 sum_p h_p (x_p . theta_k)^2 - <r, theta>`` over ``theta_k = (w_k, b_k)``, with x_p the
row of the pair and a 1. The matrix has one block ``A_k = sum_{p in k} h_p x_p x_p' + diag(own)`` for each class, and all
classes share ``y = coupled * sum_k theta_k`` (hard: y is the multiplier of ``sum_k theta_k = 0``):

    A_k theta_k + y = r_k,   so   y = (sum_k A_k^-1 + 1/coupled)^-1 sum_k A_k^-1 r_k

Never the (d+1)c square matrix: c factorisations and one more, all of order d+1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotri

from polymargin.problems.labels import LabelProblem
from polymargin.solvers.rows import RowSpan

Array = NDArray[np.float64]

_DENSE = 8.0  # entries of a table of all rows and classes for each of its pairs, up to which products with it are dense


class LabelSystem:
    """Rows of each class, rotated to at most n columns, and the penalties coordinate by coordinate."""

    def __init__(self, problem: LabelProblem):
        X = problem.X
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        self._span: RowSpan | None = None
        if X.shape[1] > X.shape[0]:  # W lies in the span of the rows
            self._span = RowSpan(X)
            X = self._span.rows
        n, d = X.shape
        self.c, self.order = problem.n_classes, d + 1
        self._rows = np.column_stack([X, np.full(n, float(problem.fit_intercept))])
        self._pair_rows, self._labels = problem.pair_rows, problem.y.labels
        self._by_class = [np.flatnonzero(self._labels == k) for k in range(self.c)]
        coupling = problem.coupling
        soft = np.isfinite(coupling.across)
        self._own = np.append(np.full(d, coupling.own), 0.0 if problem.fit_intercept else 1.0)  # b stays 0 then
        gamma = problem.gamma_b
        # (gain S + rest) y = gain sum_k A_k^-1 r_k with gain / rest = coupled
        self._gain = np.append(np.full(d, coupling.across if soft else 1.0), 1.0 if gamma is None else 2.0 * gamma)
        self._rest = np.append(np.full(d, 1.0 if soft else 0.0), 0.0 if gamma is None else 1.0)
        # a number for each pair; the others stay 0
        self._at, self._starts = problem.pair_rows * self.c + self._labels, problem.y.starts
        self._table = np.zeros((n, self.c)) if n * self.c <= _DENSE * len(problem.cost) else None

    def scores(self, theta: Array) -> Array:
        """``s_p`` of each pair at ``theta (d + 1, c)``."""
        return np.asarray((self._rows @ theta).ravel()[self._at])

    def sums(self, values: Array) -> Array:
        """``sum_{p in k} values_p x_p``, of shape (d + 1, c)."""
        if self._table is None:
            table = sparse.csr_array((values, self._labels, self._starts), shape=(len(self._rows), self.c))
            return np.asarray((table.T @ self._rows).T)
        self._table.ravel()[self._at] = values
        return np.asarray((self._table.T @ self._rows).T)

    def factorise(self, h: Array) -> bool:
        """Prepares `solve` for the curvatures h of the pairs; False if rounding made a block indefinite."""
        self._inverses = np.empty((self.c, self.order, self.order))
        for k, pairs in enumerate(self._by_class):
            rows = self._rows[self._pair_rows[pairs]]
            rows *= np.sqrt(h[pairs, None])
            block = rows.T @ rows
            block.flat[:: self.order + 1] += self._own
            # diagonal scaling and a ridge at the level of rounding
            size = 1.0 / np.sqrt(np.maximum(block.diagonal(), 1e-300))
            block *= size[:, None] * size
            block.flat[:: self.order + 1] += 1e-15
            factor, failed = dpotrf(block, lower=1, overwrite_a=1)
            if failed:
                return False
            inverse = dpotri(factor, lower=1, overwrite_c=1)[0]
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            self._inverses[k] = inverse * (size[:, None] * size)
        shared = self._gain[:, None] * self._inverses.sum(axis=0)
        shared.flat[:: self.order + 1] += self._rest
        if not np.isfinite(shared).all():
            return False
        self._shared, self._pivots, failed = dgetrf(shared)
        self._h = h
        return not failed

    def solve(self, r: Array, base: Array | None = None, refinements: int = 2) -> Array:
        """theta for the right side ``r (d + 1, c)``; residuals are formed from the pairs themselves.

        With a `base` the penalties are those of ``base + theta``: a Newton step.
        """
        base = np.zeros_like(r) if base is None else base
        theta, y = self._solve_once(r - self._own[:, None] * base, self._gain * base.sum(axis=1))
        for _ in range(refinements):
            there = base + theta
            left = self.sums(self._h * self.scores(theta)) + self._own[:, None] * there + y[:, None]
            correction, dy = self._solve_once(r - left, self._gain * there.sum(axis=1) - self._rest * y)
            theta, y = theta + correction, y + dy
        return theta

    def _solve_once(self, r: Array, sum_residual: Array) -> tuple[Array, Array]:
        partial = np.matmul(self._inverses, r.T[:, :, None])[:, :, 0].T
        y = dgetrs(self._shared, self._pivots, self._gain * partial.sum(axis=1) + sum_residual)[0]
        return partial - (self._inverses @ y).T, y

    def machine(self, theta: Array) -> tuple[Array, Array]:
        """W and b in the user's coordinates."""
        W = theta[:-1]
        return (W if self._span is None else self._span.outside(W)), theta[-1]

    def theta(self, W: Array, b: Array) -> Array:
        """The inverse of `machine` for W in the span of the rows."""
        return np.vstack([W if self._span is None else self._span.inside(W), b])
