"""What the rows add to the smooth problems of the general method: values, gradients, Hessians, and what their duals prove.

The method itself (`general.py`) sees the rows through `RowTerms` only: here those of a problem in memory; those of a problem
in parts are sums of these (``distributed/terms.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.losses.domains.domain import Projected
from polymargin.problems.classes import Problem
from polymargin.solvers.bounds import balanced_by_margins
from polymargin.solvers.rows import Design
from polymargin.solvers.types import SparseDuals, sparse_duals

Array = NDArray[np.float64]

FIRST = 1.0  # sigma: a violation of 1 moves a dual by so many costs


class RowsAt(NamedTuple):
    """The rows beside some unknowns: their value and gradient, how far the duals moved, and what else is known there."""

    value: float
    gradient: Array
    moved: float  # squares, over sigma
    known: Any


class ProvenByRows(NamedTuple):
    """Feasible duals: the linear part of their value less squares, the sums ``-X'T`` and ``sum_i T_i``, their size."""

    linear: float
    Z: Array
    sums: Array
    flow: float
    duals: SparseDuals | None


class RowTerms(ABC):
    """Rows with duals, the centre of the smooth problem; sigma is `growth` times the first one."""

    n_unknowns: int  # of a class
    n_features: int
    largest_system = 1500  # unknowns of a dense one (cost_model.py asks for no more)

    @abstractmethod
    def unknowns(self, W: Array, b: Array) -> Array:
        """V of a machine."""

    @abstractmethod
    def machine(self, V: Array) -> tuple[Array, Array]:
        """W and b of unknowns."""

    @abstractmethod
    def along_means(self) -> Array:
        """``X'T`` of duals at their largest, with the opposite sign: class vectors along the class means."""

    @abstractmethod
    def at(self, V: Array, growth: float) -> RowsAt: ...

    @abstractmethod
    def hessian(self, at: RowsAt, growth: float, columns: Array) -> Array:
        """(q, r, q, r), class by class in the coordinates `columns` (c, q)."""

    @abstractmethod
    def product(self, at: RowsAt, growth: float, V: Array) -> Array:
        """The Hessian times V."""

    @abstractmethod
    def diagonal(self, at: RowsAt, growth: float) -> Array:
        """Of the Hessian, about: (r, c)."""

    @abstractmethod
    def accept(self, at: RowsAt) -> None:
        """The duals there are the next centre."""

    @abstractmethod
    def proven(self, balanced: bool) -> ProvenByRows:
        """What the duals of the centre prove; balanced if the offsets are free."""


class RowsInMemory(RowTerms):
    """Those of a problem."""

    def __init__(self, problem: Problem, A: Array):
        self.problem, self._A = problem, A
        loss, c = problem.loss, problem.n_classes
        assert loss.domain is not None
        self._domain, self._margins, self._targets = loss.domain, loss.domain.margins, loss.targets(c)
        self._design = Design(problem.X, problem.cost, problem.fit_intercept, rotate=False, centre=False)
        self.n_unknowns, self.n_features = self._design.n_unknowns, self._design.r

    def unknowns(self, W: Array, b: Array) -> Array:
        return self._design.unknowns(W, b)

    def machine(self, V: Array) -> tuple[Array, Array]:
        return self._design.machine(V)

    def along_means(self) -> Array:
        y, c = self.problem.y, self.problem.n_classes
        T = self._margins.derivative(self._margins.present(y, c).astype(float), y)
        return -self._design.adjoint(T * self.problem.cost[:, None])[: self._design.r]

    def _sigma(self, growth: float) -> Array:
        """(n, 1)"""
        return np.asarray(FIRST * growth * self.problem.cost[:, None])

    def at(self, V: Array, growth: float) -> RowsAt:
        sigma, S = self._sigma(growth), self._design.scores(V)
        E = self._margins.violations(S, self.problem.y, self._targets)
        at = self._nearest(self._A + sigma * E, sigma)
        moved = float((np.square(at.A - self._A) / sigma).sum())
        value = float(np.vdot(at.A, E)) - 0.5 * moved - self._squares(at.A)
        return RowsAt(value, self._design.adjoint(self._margins.derivative(at.A, self.problem.y)), moved, at)

    def _nearest(self, T: Array, sigma: Array) -> Projected:
        """The duals of the smooth problem; those of a squared loss have their square beside them."""
        y, cost = self.problem.y, self.problem.cost
        if self.problem.loss.squared:
            return self._domain.project_squared(T, y, 0.5 * sigma[:, 0] / cost)
        return self._domain.project(T, y, cost)

    def _squares(self, A: Array) -> float:
        if not self.problem.loss.squared:
            return 0.0
        return float((0.25 * self._domain.square(A, self.problem.y) / self.problem.cost).sum())

    def product(self, at: RowsAt, growth: float, V: Array) -> Array:
        moves = self._sigma(growth) * at.known.along(self._linear(self._design.scores(V)))
        return self._design.adjoint(self._margins.derivative(moves, self.problem.y))

    def _linear(self, S: Array) -> Array:
        """The change of the violations with the scores."""
        return self._margins.violations(S, self.problem.y, self._no_targets)

    @cached_property
    def _no_targets(self) -> Array:
        return np.zeros_like(self._targets)

    def _blocks(self, at: RowsAt, growth: float, columns: Array) -> Array:
        """The Hessian of each row in its scores, in the coordinates of the unknowns, (n, q, q)."""
        n, q = len(at.known.A), columns.shape[1]
        out = np.empty((n, q, q))
        for k in range(q):
            moves = self._sigma(growth) * at.known.along(self._linear(np.tile(columns[:, k], (n, 1))))
            out[:, :, k] = self._margins.derivative(moves, self.problem.y) @ columns
        return out

    def hessian(self, at: RowsAt, growth: float, columns: Array) -> Array:
        r, q = self._design.n_unknowns, columns.shape[1]
        blocks = self._blocks(at, growth, columns)
        active = np.flatnonzero(np.abs(blocks).max(axis=(1, 2)) > 0.0)
        H = np.zeros((q, r, q, r))
        for rows, Z in self._design.dense_rows(active):
            for k in range(q):
                for other in range(k + 1):
                    G = Z.T @ (blocks[rows, k, other][:, None] * Z)
                    H[k, :, other, :] += G
                    if other != k:
                        H[other, :, k, :] += G.T
        return H

    def diagonal(self, at: RowsAt, growth: float) -> Array:
        n, c = at.known.A.shape
        squares = np.empty((self._design.n_unknowns, c))
        curvature = self._sigma(growth) * at.known.free
        own = np.arange(n), self.problem.y
        if self._margins.relative:
            curvature[own] = curvature.sum(axis=1)
        X = self._design.X
        squares[: self._design.r] = (X.multiply(X) if hasattr(X, "multiply") else X * X).T @ curvature
        squares[self._design.r :] = curvature.sum(axis=0)
        return squares

    def accept(self, at: RowsAt) -> None:
        self._A = at.known.A

    def proven(self, balanced: bool) -> ProvenByRows:
        problem, y = self.problem, self.problem.y
        A = balanced_by_margins(problem, self._A) if balanced else self._A
        if not problem.loss.squared:
            A = self._domain.repaired(A, y, problem.cost) if self._domain.room(A, y, problem.cost) == 0.0 else A
            A = self._domain.room(A, y, problem.cost) * A
        T = self._margins.derivative(A, y)
        Z = -np.asarray(problem.X.T @ T, dtype=np.float64)
        linear = float((self._targets[y] * A).sum()) - self._squares(A)
        return ProvenByRows(linear, Z, T.sum(axis=0), float(np.abs(A).sum()), sparse_duals(A))
