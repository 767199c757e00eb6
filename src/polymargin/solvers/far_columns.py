"""Columns far from 0, where the intercept is free: they are moved to 0 before a solver sees them.

``x_i W + b`` does not change if a column is shifted and b makes up for it, but its rounding does: a column of mean m and
standard deviation 1 costs digits in the square of m. Loops centre their columns implicitly, which keeps sparse rows sparse
and needs no copy, but is no help against that. Differences of numbers that lie close together are exact, so the shifted rows
are the rows as given. Columns that are not near each other's scale stay as they are: that is for the user to scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.problem import Problem
from polymargin.solvers.dual_ascent import Machine, SparseDuals, WarmStart

Array = NDArray[np.float64]

_FAR = 1e3  # standard deviations between a column's mean and 0 beyond which it is moved: up to six digits are lost
_NEGLIGIBLE = 1e-2  # of all columns' spread: a column that varies less is far only in relation to that
_EPS = float(np.finfo(np.float64).eps)
_STRETCHES = 0.0, 1.0, 4.0, 16.0  # tried lengths of a machine: 1, and more by so many times the rounding of a score
_BLOCK_ENTRIES = 1 << 18  # of X held at a time


class Shifted(NamedTuple):
    """A problem with some columns shifted by ``shift (d,)``; None if it is the problem as given."""

    problem: Problem
    shift: Array | None

    def start(self, start: WarmStart | None) -> WarmStart | None:
        """A start for the problem as given, in these coordinates."""
        if start is None or self.shift is None:
            return start
        return start._replace(b=start.b + self.shift @ weights(self.problem, start.duals))

    def back(self, machine: Machine, given: Problem) -> Machine:
        """A machine of these coordinates in those of X as given, with the objective it has there, rounding included.

        Margins at the edge of what costs nothing may fall below it by rounding, which a large C makes dear: machines that
        are longer by a few times as much are tried too.
        """
        if self.shift is None:
            return machine
        rounding = _EPS * largest_norm(given.X) * float(np.linalg.norm(machine.W))
        found = []
        for stretch in _STRETCHES:
            W = (1.0 + stretch * rounding) * machine.W
            b = (1.0 + stretch * rounding) * machine.b - self.shift @ W
            b -= b.mean()  # as it will be reported: such large numbers feel the rounding of that too
            b -= b.mean()
            found.append(Machine(W, b, given.primal(W, b)))
        return min(found, key=lambda one: one.primal)


def near_zero(problem: Problem) -> Shifted:
    """The problem with the columns at 0 that are far from it; without a free intercept the problem as given."""
    if not problem.fit_intercept or problem.n_features == 0:
        return Shifted(problem, None)
    shift = _shift(problem.X)
    if not shift.any():
        return Shifted(problem, None)
    return Shifted(replace(problem, X=_minus(problem.X, shift)), shift.astype(np.float64))


def mean_row(problem: Problem) -> Array:
    """The mean of the rows, or 0 where no intercept makes it matter."""
    if not problem.fit_intercept:
        return np.zeros(problem.n_features)
    return np.asarray(problem.X.mean(axis=0, dtype=np.float64), dtype=np.float64).ravel()


def weights(problem: Problem, duals: SparseDuals) -> Array:
    """W of signed duals, as a loop with a free intercept sees it: the rows are centred, should the duals not sum to 0."""
    support, tau = problem.signed_duals(duals)
    return np.asarray(problem.X[support].T @ tau, dtype=np.float64) - np.outer(mean_row(problem), tau.sum(axis=0))


def largest_norm(X: Any) -> float:
    """The norm of the longest row."""
    squares = [0.0]
    for block in _blocks(X):
        if sparse.issparse(block):
            rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            of_rows = np.bincount(rows, np.square(block.data, dtype=np.float64))
        else:
            of_rows = np.einsum("ij,ij->i", block, block, dtype=np.float64)
        squares.append(float(of_rows.max(initial=0.0)))
    return float(np.sqrt(max(squares)))


def _shift(X: Any) -> NDArray[Any]:
    """Means of the columns that are far from 0, in the precision of X and within the range of the column; 0 for the others.

    A sparse column that is not stored in full has zeros, and so lies near them.
    """
    n, d = X.shape
    full = np.bincount(X.indices, minlength=d) == n if sparse.issparse(X) else np.ones(d, dtype=bool)
    sums, squares = np.zeros(d), np.zeros(d)
    if full.any():
        for block in _blocks(X):
            if sparse.issparse(block):
                sums += np.bincount(block.indices, block.data, minlength=d)
                squares += np.bincount(block.indices, np.square(block.data, dtype=np.float64), minlength=d)
            else:
                sums += block.sum(axis=0, dtype=np.float64)
                squares += np.einsum("ij,ij->j", block, block, dtype=np.float64)
    means = sums / n
    variances = np.maximum(0.0, squares / n - means**2)  # rounding: far below what makes a column far
    least = _NEGLIGIBLE**2 * variances.sum()
    far = np.flatnonzero(full & (means**2 > _FAR**2 * np.maximum(variances, least)))
    shift = np.zeros(d, dtype=X.dtype)
    if len(far):
        columns = X[:, far].toarray() if sparse.issparse(X) else X[:, far]
        shift[far] = np.clip(means[far], columns.min(axis=0), columns.max(axis=0))  # a constant column becomes 0 exactly
    return shift


def _minus(X: Any, shift: NDArray[Any]) -> Any:
    if not sparse.issparse(X):
        return X - shift
    return type(X)((X.data - shift[X.indices], X.indices, X.indptr), shape=X.shape, copy=False)


def _blocks(X: Any) -> Iterator[Any]:
    entries = X.nnz / X.shape[0] if sparse.issparse(X) else X.shape[1]
    step = max(1, int(_BLOCK_ENTRIES / max(1.0, entries)))
    for i in range(0, X.shape[0], step):
        yield X[i : i + step]
