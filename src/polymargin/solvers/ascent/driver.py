"""Dual block-coordinate ascent for machines with ``R = 1/2 |W|^2`` and an exact row sub-problem.

The loop itself is native (``_core/dual_loop.hpp``); here is what surrounds it: when to look at the true gap, the
proximal-point loop that leaves an intercept unpenalised, and the certificate.

Off-class duals ``a_il >= 0`` make the machine: ``tau_iy = sum_l a_il``, ``tau_il = -a_il``, ``W = X' tau``.

    P = sum_i u_i loss_i + 1/2 |W|^2        D = sum_il a_il - 1/2 |W|^2        (free intercept: sum_i tau_ik = 0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.ascent.loops import open_loop
from polymargin.solvers.bounds import balancing_factors, best_multiple
from polymargin.solvers.progress import Anderson
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

Array = NDArray[np.float64]

_EPS = 4.0 * float(np.finfo(np.float64).eps)
_NEGLIGIBLE = 1e-6  # part of a tolerance that a dual value may lose to rounding without a second sum
_EPOCHS_BETWEEN_LOOKS = 100  # at the true gap, at most


Watch = Callable[[int, Callable[[], SparseDuals]], bool]


def dual_ascent(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    gives_up: Watch | None = None,
) -> Solution:
    """Solves `problem` until ``ledger.tol`` is certified or ``max_iter`` epochs are used up.

    `gives_up` is asked after looks at the true gap, with the epochs so far and a function that gets the duals.
    """
    loop = open_loop(problem, seed)
    ledger.at_hand = lambda: machine_of(problem, loop)
    budget = max_iter * problem.n_rows
    ascend = _with_free_intercept if problem.fit_intercept else _without_intercept

    def enough() -> bool:
        epochs = loop.visits // problem.n_rows
        return loop.visits >= budget or (gives_up is not None and gives_up(epochs, lambda: SparseDuals(*loop.duals())))

    machine = ascend(_Run(problem, loop, ledger, budget, n_threads, start, enough))
    duals = SparseDuals(*loop.duals())
    if problem.fit_intercept:
        duals = _balanced(duals, loop, problem.y)
    n_iter = min(max_iter, -(-loop.visits // problem.n_rows))
    return Solution(machine, duals, ledger.close(n_iter))


def machine_of(problem: Problem, loop: Any) -> Machine:
    """The machine that a loop has come to."""
    W, b = loop.weights(), loop.intercepts() if problem.fit_intercept else np.zeros(problem.n_classes)
    return Machine(W, b, problem.primal(W, b))


class _Run(NamedTuple):
    """What both ways to ascend are given; `enough` says that the budget is spent or ascent given up."""

    problem: Problem
    loop: Any
    ledger: Ledger
    budget: int  # visits of rows
    n_threads: int
    start: Start | None
    enough: Callable[[], bool]


def _without_intercept(run: _Run) -> Machine:
    problem, loop, ledger, budget, n_threads, start, enough = run
    if start is not None:
        loop.set_duals(*start.duals)
    best = None
    while True:
        loop.ascend(min(_EPOCHS_BETWEEN_LOOKS * problem.n_rows, budget - loop.visits), ledger.tol)
        primal = 0.5 * loop.squared_norm + loop.loss(n_threads)
        ledger.add(primal, _dual(problem, loop, ledger.tol * primal), loop.visits // problem.n_rows)
        if best is None or primal < best.primal:
            best = Machine(loop.weights(), np.zeros(problem.n_classes), primal)
        if ledger.done or enough():
            return best
        if loop.estimate <= ledger.tol * abs(loop.dual + loop.estimate):  # rows and classes at rest were missed
            loop.restore()


def _with_free_intercept(run: _Run) -> Machine:
    """Proximal-point loop on b: ascend for some epochs, move the centre of ``(rho/2) |b - centre|^2`` to b, repeat.

    A constant ``1/rho`` of a fifth of the mean squared (centred) row norm keeps the row sub-problems well conditioned.
    The centres form a fixed-point iteration in c numbers, which Anderson's extrapolation shortens.
    """
    problem, loop, ledger, budget, n_threads, start, enough = run
    means, mean_square = centre_and_spread(problem.X)
    inverse_rho = 0.2 * mean_square if mean_square > 0.0 else 1.0
    loop.start_intercept(means, inverse_rho)
    if start is not None:
        loop.set_duals(*start.duals)
        loop.move_centre(start.b + means @ loop.weights())
    extrapolate = Anderson()
    best = None
    outer = next_check = 0
    while True:
        loop.ascend(min(10 * problem.n_rows, budget - loop.visits), 0.3 * ledger.tol)
        outer += 1
        out_of_budget = loop.visits >= budget
        promising = loop.estimate <= ledger.tol * abs(loop.dual + loop.estimate)
        if (outer >= next_check and promising) or outer >= next_check + 8 or out_of_budget:
            primal = 0.5 * loop.squared_norm + loop.loss(n_threads)
            ledger.add(primal, _balanced_dual(problem, loop), loop.visits // problem.n_rows)
            if best is None or primal < best.primal:
                best = Machine(loop.weights(), loop.intercepts(), primal)
            if ledger.done or enough():
                return best
            next_check = outer + max(1, outer // 8)
        loop.move_centre(extrapolate(loop.centre(), inverse_rho * loop.sums()))
        loop.restore()


def _dual(problem: Problem, loop: Any, matters: float) -> float:
    """Dual value of the loop's duals. Where sums of long rows may have lost more than a little of `matters` on the way, the
    class vectors are summed anew, and what rounding may hide in that is taken off."""
    total, squared_norm = loop.dual_sum, loop.squared_norm
    error = _EPS * 2.0 * total * problem.longest_row
    hidden = (np.sqrt(squared_norm) + error) * error
    if hidden > _NEGLIGIBLE * matters:
        _, total, squared_norm = loop.scaled(np.ones((problem.n_classes, problem.n_classes)))
        hidden = (np.sqrt(squared_norm) + error) * error
    return float(total - 0.5 * squared_norm - hidden)


def _balanced_dual(problem: Problem, loop: Any) -> float:
    """Dual value of the loop's duals after a repair to ``sum_i tau_ik = 0``; anything else proves nothing here.

    The duals are multiplied by one factor for each pair of classes, then shrunk into the polytope or further, to the best
    point of the ray.
    """
    factors = balancing_factors(loop.flows())
    room, total, squared_norm = loop.scaled(factors)
    if room == 0.0:  # no multiple of these duals lies in the domain
        duals = SparseDuals(*loop.duals()).times(factors, problem.y)
        room, (total, squared_norm) = 1.0, problem.repaired_totals(duals)
    t = best_multiple(room, total, squared_norm)
    return t * total - 0.5 * t * t * squared_norm


def _balanced(duals: SparseDuals, loop: Any, y: NDArray[np.int32]) -> SparseDuals:
    """The repaired duals themselves: those whose value is the bound."""
    factors = balancing_factors(loop.flows())
    t = best_multiple(*loop.scaled(factors))
    return duals.times(t * factors, y)
