"""Interior point for One versus None.

    min  R(W) + R_b(b) + sum_p u_p [1 - t_p s_p]_+        over the known labels p = (row, class)

The hinges of single scores are a block like those of the other machines (`blocks/label_pairs.py`); the penalties couple the
classes through their sum only (`systems/labels.py`). Every iterate is certified by F and the bound of its repaired duals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.problems.certificate import Ledger
from polymargin.problems.labels import LabelProblem
from polymargin.solvers.interior.blocks.label_pairs import LabelPairs
from polymargin.solvers.interior.blocks.max_terms import Array
from polymargin.solvers.interior.central_path import Path, follow_central_path
from polymargin.solvers.interior.systems.labels import LabelSystem
from polymargin.solvers.progress import Stall
from polymargin.solvers.types import Machine, Solution, SparseDuals

_PATIENCE = 4  # steps whose products hardly fall before rounding is blamed


def label_interior(problem: LabelProblem, ledger: Ledger, *, max_iter: int, so_far: Solution) -> Solution:
    """Goes on from another solver's solution: its machine stays if this finds none better."""
    path = _LabelPath(problem, ledger, so_far)
    status, n_iter = follow_central_path(path, max_iter)
    duals = SparseDuals(problem.y.starts, problem.y.labels, path.duals)
    return Solution(path.best, duals, ledger.close(so_far.certificate.n_iter + n_iter, status))


class _LabelPath(Path):
    """Unknowns theta = (W, b); keeps the best machine."""

    block: LabelPairs

    def __init__(self, problem: LabelProblem, ledger: Ledger, so_far: Solution):
        self.problem, self.ledger, self.system = problem, ledger, LabelSystem(problem)
        self.block = LabelPairs(problem.y.signs, problem.cost)
        self.V = np.zeros((self.system.order, self.system.c))
        self.block.start(self.system.scores(self.V))
        self.best, self.before = so_far.machine, so_far.certificate.n_iter
        self.stall = Stall(_PATIENCE, 0.9)
        ledger.at_hand = lambda: self.best

    def prove(self, n_iter: int) -> bool:
        problem = self.problem
        W, b = problem.feasible(*self.system.machine(self.V))
        primal, self.duals = problem.primal(W, b), problem.repaired(self.block.A[0])
        self.ledger.add(primal, problem.bound(self.duals, primal), self.before + n_iter)
        if primal < self.best.primal:
            self.best = Machine(W, b, primal)
        self.block.loss(self.system.scores(self.V))
        return self.ledger.done

    def stalls(self) -> bool:
        return self.stall.note(self.block.complementarity())

    def linearise(self) -> None:
        h = self.block.linearise()
        if not np.isfinite(h).all() or not self.system.factorise(h):
            raise np.linalg.LinAlgError("rounding made the Newton system singular")
        self.pulls = self.system.sums(self.block.pull())

    def direction_of(self, pull: Array, target: Any) -> tuple[Array, Array]:
        dV = self.system.solve(self.system.sums(pull) + self.pulls, base=self.V)
        return dV, self.system.scores(dV)
