"""The rows of all parts as Newton's method sees them: sums of what each part adds (``solvers/newton/row_terms.py``).

A step takes one sum of values and gradients for each trial of its line search, and one of Hessians: ``(d c)^2`` numbers from
each part, however many rows it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.distributed import work
from polymargin.distributed.communicator import Communicator, tree_sum
from polymargin.distributed.work import PartState
from polymargin.problems.classes import Problem
from polymargin.solvers.bounds import balancing_factors
from polymargin.solvers.cost_model import LARGEST_ARRAY, LARGEST_REDUCED_HESSIAN
from polymargin.solvers.newton.row_terms import ProvenByRows, RowsAt, RowsInMemory, RowTerms

Array = NDArray[np.float64]


class RowsInParts(RowTerms):
    """`RowsAt.known` is where the rows were looked at: parts repeat the look, as that is cheap beside a message."""

    largest_system = LARGEST_REDUCED_HESSIAN

    def __init__(self, problem: Problem, parts: Communicator):
        self._problem, self._parts, self.rounds = problem, parts, 0
        self.n_features = problem.n_features
        self.n_unknowns = self.n_features + problem.fit_intercept

    def unknowns(self, W: Array, b: Array) -> Array:
        return np.vstack([W, b]) if self._problem.fit_intercept else W

    def machine(self, V: Array) -> tuple[Array, Array]:
        d = self.n_features
        return V[:d], V[d] if self._problem.fit_intercept else np.zeros(V.shape[1])

    def along_means(self) -> Array:
        return np.asarray(self._parts.total(_along_means))

    def at(self, V: Array, growth: float) -> RowsAt:
        value, gradient, moved = self._parts.total(_look, V, growth)
        return RowsAt(value, gradient, moved, known=(V, growth))

    def hessian(self, at: RowsAt, growth: float, columns: Array) -> Array:
        self.rounds += 1
        return np.asarray(self._parts.total(_hessian, *at.known, columns))

    def product(self, at: RowsAt, growth: float, V: Array) -> Array:
        return np.asarray(self._parts.total(_product, *at.known, V))

    def diagonal(self, at: RowsAt, growth: float) -> Array:
        return np.asarray(self._parts.total(_diagonal, *at.known))

    def accept(self, at: RowsAt) -> None:
        self._parts.total(_accept, *at.known)
        self._parts.settle()

    def proven(self, balanced: bool) -> ProvenByRows:
        c = self._problem.n_classes
        factors = balancing_factors(self._parts.total(work.flows)) if balanced else np.ones((c, c))
        got: work.Scaled = self._parts.total(work.scaled, factors)
        room = min(1.0, float(got.room))
        value = room * got.linear - 0.5 * room * room * got.square
        return ProvenByRows(value, room * got.V, -room * got.sums, room * got.flow, None)


def _chunks(problem: Problem, state: PartState) -> Iterator[tuple[slice, RowsInMemory]]:
    """Some rows at a time: their Hessians in the scores are dense."""
    c = problem.n_classes
    step = max(1, LARGEST_ARRAY // max(c * c, problem.n_features))
    for start in range(0, problem.n_rows, step):
        rows = slice(start, min(problem.n_rows, start + step))
        part = replace(problem, X=problem.X[rows], y=problem.y[rows], cost=problem.cost[rows])
        yield rows, RowsInMemory(part, state.duals[rows].toarray())


def _summed(problem: Problem, state: PartState, of: Any, none: Any) -> tuple[PartState, Any]:
    """What all rows of a part add, some at a time; `none` if it has no rows."""
    return state, tree_sum(of(rows) for _, rows in _chunks(problem, state)) if problem.n_rows else none


def _zeros(problem: Problem) -> Array:
    return np.zeros((problem.n_features + problem.fit_intercept, problem.n_classes))


def _along_means(problem: Problem, state: PartState) -> tuple[PartState, Any]:
    return _summed(problem, state, RowsInMemory.along_means, _zeros(problem)[: problem.n_features])


def _look(problem: Problem, state: PartState, V: Array, growth: float) -> tuple[PartState, Any]:
    return _summed(problem, state, lambda rows: tuple(rows.at(V, growth))[:3], (0.0, _zeros(problem), 0.0))


def _hessian(problem: Problem, state: PartState, V: Array, growth: float, columns: Array) -> tuple[PartState, Any]:
    r, q = problem.n_features + problem.fit_intercept, columns.shape[1]
    none = np.zeros((q, r, q, r))
    return _summed(problem, state, lambda rows: rows.hessian(rows.at(V, growth), growth, columns), none)


def _product(problem: Problem, state: PartState, V: Array, growth: float, D: Array) -> tuple[PartState, Any]:
    return _summed(problem, state, lambda rows: rows.product(rows.at(V, growth), growth, D), _zeros(problem))


def _diagonal(problem: Problem, state: PartState, V: Array, growth: float) -> tuple[PartState, Any]:
    return _summed(problem, state, lambda rows: rows.diagonal(rows.at(V, growth), growth), _zeros(problem))


def _accept(problem: Problem, state: PartState, V: Array, growth: float) -> tuple[PartState, float]:
    duals = [sparse.csr_array(rows.at(V, growth).known.A) for _, rows in _chunks(problem, state)]
    return (PartState(sparse.csr_array(sparse.vstack(duals, format="csr"))) if duals else state), 0.0
