"""Which solver for which problem.

Dual ascent starts every problem and ends almost all of them. On badly conditioned data (columns far from zero without an
intercept, very large C) it can crawl; if the Newton system is small, an interior point then ends the fit in a few steps.
"""

from __future__ import annotations

import numpy as np

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.dual_ascent import Machine, Solution, SparseDuals, WarmStart, dual_ascent

_LARGEST_SYSTEM = 1500  # unknowns of the Newton system
_LARGEST_ARRAY = 5_000_000  # entries of the dense n x c and n x min(n, d) arrays of the interior point
_NEWTON_STEPS = 20  # what an interior point usually takes
_FEW_EPOCHS = 20  # to see that a warm start is good enough


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
    patience = min(max_iter, interior_point_patience(problem))
    if start is not None and start.crawled:  # the neighbour of a problem on which ascent crawled
        patience = min(patience, _FEW_EPOCHS)
    solution = dual_ascent(problem, ledger, max_iter=patience, seed=seed, n_threads=n_threads, start=start)
    left = max_iter - solution.certificate.n_iter
    if ledger.done or left == 0:
        return solution
    return _finish_with_interior_point(problem, ledger, left, solution)


def interior_point_patience(problem: Problem, solves: int = 1) -> int:
    """Epochs to try before interior points: about as much work as they would be; unlimited if they cannot be used."""
    if not problem.loss.interior_block or not interior_points_fit(problem):
        return np.iinfo(np.int32).max
    n, c = problem.n_rows, problem.n_classes
    unknowns = (min(n, problem.n_features) + 1) * c
    newton_step = n * unknowns**2 / 2 + unknowns**3 / 3
    epoch = 4 * n * max(1, problem.n_features) * c
    return 200 + int(solves * _NEWTON_STEPS * newton_step / epoch)


def interior_points_fit(problem: Problem) -> bool:
    """Whether the dense arrays of an interior point are small enough."""
    n, c, rank = problem.n_rows, problem.n_classes, min(problem.n_rows, problem.n_features)
    return (rank + 1) * c <= _LARGEST_SYSTEM and n * max(c, rank) <= _LARGEST_ARRAY


def _finish_with_interior_point(problem: Problem, ledger: Ledger, max_iter: int, so_far: Solution) -> Solution:
    from polymargin.solvers.interior_point import interior_point

    n_iter = so_far.certificate.n_iter

    def note(primal: float, dual: float) -> None:
        nonlocal n_iter
        n_iter += 1
        ledger.add(primal, dual, n_iter)

    result = interior_point(
        problem.X.astype(np.float64, copy=False),
        problem.y.astype(np.intp),
        problem.cost,
        problem.n_classes,
        str(problem.loss.interior_block),
        fit_intercept=problem.fit_intercept,
        tol=ledger.tol,
        max_iter=max_iter,
        on_iteration=note,
    )
    n_iter = so_far.certificate.n_iter + result.n_iter
    ledger.add(result.primal, result.dual, n_iter)
    certificate = ledger.close(n_iter, "max_iter" if result.n_iter >= max_iter else "stalled")
    if result.primal >= so_far.machine.primal:
        return so_far._replace(certificate=certificate, crawled=True)
    return Solution(Machine(result.W, result.b, result.primal), sparse_duals(result.a), certificate, crawled=True)


def sparse_duals(a: np.ndarray) -> SparseDuals:
    """The non-zero entries of duals ``(n, c)``."""
    rows, classes = np.nonzero(a)
    starts = np.zeros(len(a) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(a)), out=starts[1:])
    return SparseDuals(starts, classes.astype(np.int32), a[rows, classes])
