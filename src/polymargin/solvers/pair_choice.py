"""Which solver for the pairwise hinge with a penalty of differences of class vectors."""

from __future__ import annotations

from dataclasses import replace

from scipy import sparse

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.design import Design
from polymargin.solvers.dual_ascent import Solution
from polymargin.solvers.hinge_path import hinge_path
from polymargin.solvers.newton_system import assembled
from polymargin.solvers.pair_iterate import Array, PairIterate, PairStart, solution_of
from polymargin.solvers.pair_weighted import pair_weighted_ascent, suits


def solve_pairs(
    problem: Problem, ledger: Ledger, *, max_iter: int, seed: int, start: PairStart | None = None
) -> tuple[Solution, Array]:
    """Interior points where their systems are small; else dual ascent, and interior points if it does not get there."""
    used = 0
    if suits(problem):
        rotate = not sparse.issparse(problem.X) and problem.penalty.rotation_invariant
        design = Design(problem.X, problem.cost, problem.fit_intercept, rotate)
        if not assembled(design, problem.n_classes):
            now = PairIterate(problem, design)
            used = pair_weighted_ascent(now, ledger, max_iter=max_iter, seed=seed, start=start)
            if ledger.done or used >= max_iter:
                return solution_of(now, ledger, used, "max_iter")
            start = None  # the ascent used it up
    solution, multipliers = hinge_path(problem, ledger, max_iter=max_iter - used, start=start)
    total = replace(solution.certificate, n_iter=used + solution.certificate.n_iter)
    return solution._replace(certificate=total), multipliers
