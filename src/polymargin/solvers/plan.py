"""Which solver for which problem.

Dual ascent starts every problem and ends almost all of them. On badly conditioned data (columns far from zero without an
intercept, very large C) it can crawl. If the Newton system of an interior point is small, that ends the fit in a few steps;
if few duals are free (wide data), Newton's method with multipliers does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.ascent.driver import dual_ascent
from polymargin.solvers.cost_model import flops_of_interior_point, interior_points_fit, price_of_newton
from polymargin.solvers.interior.quadratic import interior_point
from polymargin.solvers.newton.augmented import finish_with_newton
from polymargin.solvers.progress import Forecast
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start, sparse_duals

_FEW_EPOCHS = 20  # to see that a warm start is good enough
_PATIENCE, _SPAN = 200, 50  # epochs before ascent may be given up, and over which its pace is seen


def solve(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
) -> Solution:
    """Solves `problem` to ``ledger.tol`` with the method that suits its size and the tolerance."""
    patience = min(max_iter, interior_point_patience(problem))
    if start is not None and start.crawled:  # the neighbour of a problem on which ascent crawled
        patience = min(patience, _FEW_EPOCHS)
    pace = Pace(problem, ledger, max_iter)
    solution = dual_ascent(
        problem, ledger, max_iter=patience, seed=seed, n_threads=n_threads, start=start, gives_up=pace.gives_up
    )
    left = max_iter - solution.certificate.n_iter
    if ledger.done or left <= 0:
        return solution
    if _has_interior_point(problem):
        return _finish_with_interior_point(problem, ledger, left, solution)

    def ascend(start: Start, max_iter: int) -> Solution:
        return dual_ascent(problem, ledger, max_iter=max_iter, seed=seed, n_threads=n_threads, start=start)

    return finish_with_newton(problem, ledger, left, solution, ascend)


class Pace:
    """Whether ascent will get there: extrapolates the logarithm of the relative gap.

    It is given up if it would take more epochs than are left, or than another method costs.
    """

    def __init__(self, problem: Problem, ledger: Ledger, max_iter: int):
        self._problem, self._ledger, self._max_iter = problem, ledger, max_iter
        self._forecast = Forecast(_SPAN)

    def gives_up(self, epochs: int, duals: Callable[[], SparseDuals]) -> bool:
        needed = self._forecast.needed(epochs, float(np.log(self._ledger.rel_gap / self._ledger.tol)))
        if needed is None or epochs < _PATIENCE:
            return False
        price = self._price(duals())
        return bool(np.isfinite(price) and needed > min(self._max_iter - epochs, price))

    def _price(self, duals: SparseDuals) -> float:
        """Of the other method, in epochs."""
        if _has_interior_point(self._problem):
            return float(interior_point_patience(self._problem))
        return price_of_newton(self._problem, duals) / _flops_of_epoch(self._problem)


def interior_point_patience(problem: Problem, solves: int = 1) -> int:
    """Epochs to try before interior points: about as much work as they would be; unlimited if they cannot be used."""
    if not _has_interior_point(problem):
        return np.iinfo(np.int32).max
    return _PATIENCE + int(solves * flops_of_interior_point(problem) / _flops_of_epoch(problem))


def _flops_of_epoch(problem: Problem) -> float:
    entries = problem.X.nnz if sparse.issparse(problem.X) else problem.X.size
    return 4.0 * max(1, entries) * problem.n_classes


def _has_interior_point(problem: Problem) -> bool:
    return bool(problem.loss.interior_block) and interior_points_fit(problem)


def _finish_with_interior_point(problem: Problem, ledger: Ledger, max_iter: int, so_far: Solution) -> Solution:
    n_iter = so_far.certificate.n_iter
    ledger.at_hand = lambda: so_far.machine

    def note(primal: float, dual: float) -> None:
        """Bounds only: the values are those of coordinates that are rounded on the way back to X."""
        nonlocal n_iter
        n_iter += 1
        ledger.add(np.inf, dual, n_iter)

    result = interior_point(problem, tol=ledger.tol, max_iter=max_iter, on_iteration=note)
    n_iter = so_far.certificate.n_iter + result.n_iter
    ledger.add(result.primal, result.dual, n_iter)
    certificate = ledger.close(n_iter, "max_iter" if result.n_iter >= max_iter else "stalled")
    if not result.primal < so_far.machine.primal:
        return so_far._replace(certificate=certificate, crawled=True)
    return Solution(Machine(result.W, result.b, result.primal), sparse_duals(result.a), certificate, crawled=True)
