"""Which solver for the pairwise hinge with a penalty of differences of class vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.ascent.pair_weights import pair_weighted_ascent, suits
from polymargin.solvers.cost_model import pair_interior_points_are_cheap
from polymargin.solvers.interior.pair_iterate import Array, PairIterate, solution_of, with_better_machine
from polymargin.solvers.interior.pairwise import hinge_path
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Solution, Start

_EXACT = 1e-6  # a tolerance below is for interior points if they are cheap: they leave W exact to rounding
_FEW_EPOCHS = 100  # before such cheap ones take over


def solve_pairs(
    problem: Problem, ledger: Ledger, *, max_iter: int, seed: int, start: Start | None = None
) -> tuple[Solution, Array]:
    """Dual ascent for distances with a finite power; interior points for small exact fits and for all other penalties.

    Where the ascent crawls, as it does with few features and a large C, interior points take over.
    """
    with np.errstate(all="ignore"):  # high powers and bad steps overflow; what is not finite is not kept
        return _solve_pairs(problem, ledger, max_iter, seed, start)


def _solve_pairs(
    problem: Problem, ledger: Ledger, max_iter: int, seed: int, start: Start | None
) -> tuple[Solution, Array]:
    used, small = 0, pair_interior_points_are_cheap(problem)
    now: PairIterate | None = None
    if suits(problem) and not (small and ledger.tol < _EXACT):
        now = PairIterate(problem, Design(problem.X, problem.cost, problem.fit_intercept, not sparse.issparse(problem.X)))
        epochs = min(max_iter, _FEW_EPOCHS) if small else max_iter
        try:
            used = pair_weighted_ascent(now, ledger, max_iter=epochs, seed=seed, start=start)
        except np.linalg.LinAlgError:  # weights beyond all bounds, of data that no weights suit
            used = 1
        if ledger.done or used >= max_iter:
            return solution_of(now, ledger, used, "max_iter")
        start = None  # the ascent used it up
    solution, multipliers = hinge_path(problem, ledger, max_iter=max_iter - used, start=start)
    end = replace(solution.certificate, n_iter=used + solution.certificate.n_iter)
    return with_better_machine(solution._replace(certificate=end), now, ledger.tol), multipliers
