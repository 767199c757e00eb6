"""The convex steps of the margin distribution machine by interior points, where everything else crawls.

What such a step adds to a squared hinge is the block `interior/blocks/band.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polymargin.problem import Problem
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


class InteriorSteps:
    """Convex steps solved one by one; `spent` counts the steps of all interior points."""

    def __init__(self, problem: Problem, tol: float):
        loss = problem.loss
        assert loss.margin_band is not None
        self._problem, self._tol = problem, tol
        self._theta, self._mu = loss.margin_band
        self._kappa = problem.cost / (1.0 - self._theta) ** 2
        self._rows = problem.X.astype(np.float64, copy=False)
        self._reach = problem.longest_row
        self.spent = 0

    def squared_hinge(self, tol: float, max_iter: int) -> Machine:
        """The optimum of the first part alone: with ``W / (1 - theta)`` that is the squared Crammer-Singer machine."""
        found = self._interior_point(self._kappa, "squared_crammer_singer", tol, max_iter)
        return self._machine(found.W * (1.0 - self._theta), found.b * (1.0 - self._theta))

    def hinge(self, tol: float, max_iter: int) -> Machine:
        found = self._interior_point(self._problem.cost, "crammer_singer", tol, max_iter)
        return self._machine(found.W, found.b)

    def _machine(self, W: Array, b: Array) -> Machine:
        return Machine(W, b, self._problem.primal(W, b))

    def rivals(self, machine: Machine) -> Labels:
        S = np.asarray(self._rows @ machine.W) + machine.b
        S[np.arange(len(S)), self._problem.y] = -np.inf
        return np.asarray(S.argmax(axis=1), dtype=np.intp)

    def solve(self, rivals: Labels, max_iter: int) -> tuple[Machine, SparseDuals, float]:
        """The step at these rivals: a machine and its F, signed duals, and a bound of the step's optimum."""

        def block(y: Labels, kappa: Array, n_classes: int, proximal: Array, order: Labels) -> Band:
            return Band(y, kappa, n_classes, proximal, rivals[order], self._theta, self._mu)

        found = self._interior_point(self._kappa, block, self._tol, max_iter)
        a = np.where(np.abs(found.a) > _IDLE * np.abs(found.a).max(), found.a, 0.0)
        hidden = hidden_by_rounding(float(np.abs(a).sum()), float(np.linalg.norm(found.W)), self._reach)
        return self._machine(found.W, found.b), sparse_duals(a), found.dual - hidden

    def _interior_point(self, cost: Array, block: str | BlockMaker, tol: float, max_iter: int) -> InteriorPointResult:
        found = interior_point(replace(self._problem, X=self._rows, cost=cost), tol=tol, max_iter=max_iter, block=block)
        self.spent += max(1, found.n_iter)
        return found


class InteriorRounds:
    """The same rounds by interior points, which go on from the best machine of an ascent; each solves its step at once."""

    def __init__(self, interior: InteriorSteps, best: Machine, duals: SparseDuals, ascent: Ascent):
        self._interior, self._machine, self._duals = interior, best, duals
        self._epochs = ascent.budget // ascent.n_rows
        self._before = ascent.n_iter
        self._bound = -np.inf
        self.crawls = False

    @property
    def n_iter(self) -> int:
        return self._before + self._interior.spent

    @property
    def left(self) -> int:
        return self._epochs - self.n_iter

    def start_phase(self, epochs: int | None) -> None:
        self.crawls = False

    def relinearise(self) -> None:
        self._rivals = self._interior.rivals(self._machine)

    def improve(self, tol: float) -> bool:
        if self.left > 0:
            self._machine, self._duals, self._bound = self._interior.solve(self._rivals, self.left)
        self.crawls = True  # whatever it has not reached, another attempt would not
        return True

    def look(self) -> Seen:
        return Seen(self._machine.primal, np.nan, self._bound)

    def machine(self, primal: float) -> Machine:
        return self._machine

    def duals(self) -> SparseDuals:
        return self._duals
