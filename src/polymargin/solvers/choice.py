"""Which solver for which problem."""

from __future__ import annotations

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.dual_ascent import Solution, WarmStart, dual_ascent


def solve(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: WarmStart | None = None,
) -> Solution:
    """Solves `problem` to ``ledger.tol`` with the method that suits its size and the tolerance."""
    return dual_ascent(problem, ledger, max_iter=max_iter, seed=seed, n_threads=n_threads, start=start)
