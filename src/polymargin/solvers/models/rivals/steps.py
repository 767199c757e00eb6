"""The convex steps of the margin distribution machine by interior points, where everything else crawls.

What such a step adds to a squared hinge is the block `interior/blocks/band.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.margin_step import Ascent, Seen
from polymargin.solvers.bounds import hidden_by_rounding
from polymargin.solvers.cost_model import interior_points_fit
from polymargin.solvers.interior.blocks.band import Band
from polymargin.solvers.interior.blocks.max_terms import Array, Labels
from polymargin.solvers.interior.quadratic import BlockMaker, InteriorPointResult, interior_point
from polymargin.solvers.types import Machine, SparseDuals, sparse_duals

_IDLE = 1e-9  # duals below, relative to the largest, are what an interior point leaves of zeros


def suits(problem: Problem) -> bool:
    """Whether interior points are affordable, and every class has rows of its own."""
    return interior_points_fit(problem) and np.unique(problem.y).size == problem.n_classes


class InteriorRounds:
    """Rounds that solve their step at once, from where an ascent crawls: at its best machine, or at two convex machines."""

    def __init__(self, problem: Problem, tol: float, ascent: Ascent):
        assert problem.loss.margin_band is not None
        self._problem, self._tol = problem, tol
        self._theta, self._mu = problem.loss.margin_band
        self._kappa = problem.cost / (1.0 - self._theta) ** 2
        self._rows = problem.X.astype(np.float64, copy=False)
        self._max_iter, self.n_iter = ascent.budget // ascent.n_rows, ascent.n_iter
        self._bound, self._duals = -np.inf, ascent.duals()
        self.crawls = False

    def start_at(self, machine: Machine, duals: SparseDuals) -> None:
        self._machine, self._duals = machine, duals

    def start_at_hinges(self, tol: float) -> None:
        """At the better of the optima of the squared hinge, the first part alone, and the hinge of Crammer and Singer."""
        scale = 1.0 - self._theta  # of W in the first part, against the squared hinge
        self._machine = self._solved(self._kappa, "squared_crammer_singer", tol, scale)[0]
        if self.unspent > 0:
            hinge = self._solved(self._problem.cost, "crammer_singer", tol)[0]
            self._machine = min(self._machine, hinge, key=lambda machine: machine.primal)

    @property
    def unspent(self) -> int:
        """Steps that are left."""
        return self._max_iter - self.n_iter

    def start_phase(self, epochs: int | None) -> None:
        self.crawls = False

    def relinearise(self) -> None:
        S = np.asarray(self._rows @ self._machine.W) + self._machine.b
        S[np.arange(len(S)), self._problem.y] = -np.inf
        self.rivals = np.asarray(S.argmax(axis=1), dtype=np.intp)

    def improve(self, tol: float) -> bool:
        """The step at these rivals: a machine and its F, signed duals, and a bound of the step's optimum."""

        def block(y: Labels, kappa: Array, n_classes: int, proximal: Array, order: Labels) -> Band:
            return Band(y, kappa, n_classes, proximal, self.rivals[order], self._theta, self._mu)

        if self.unspent > 0:
            self._machine, found = self._solved(self._kappa, block, self._tol)
            a = np.where(np.abs(found.a) > _IDLE * np.abs(found.a).max(), found.a, 0.0)
            hidden = hidden_by_rounding(float(np.abs(a).sum()), float(np.linalg.norm(found.W)), self._problem.longest_row)
            self._duals, self._bound = sparse_duals(a), found.dual - hidden
        self.crawls = True  # whatever it has not reached, another attempt would not
        return True

    def _solved(
        self, cost: Array, block: str | BlockMaker, tol: float, scale: float = 1.0
    ) -> tuple[Machine, InteriorPointResult]:
        problem = replace(self._problem, X=self._rows, cost=cost)
        found = interior_point(problem, tol=tol, max_iter=self.unspent, block=block)
        self.n_iter += max(1, found.n_iter)
        W, b = scale * found.W, scale * found.b
        return Machine(W, b, self._problem.primal(W, b)), found

    def look(self) -> Seen:
        return Seen(self._machine.primal, np.nan, self._bound)

    def machine(self, primal: float) -> Machine:
        return self._machine

    def duals(self) -> SparseDuals:
        return self._duals
