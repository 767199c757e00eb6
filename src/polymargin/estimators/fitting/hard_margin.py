"""C=inf: no training row may have a loss.

Problem
    ``min R(W)`` such that every row's loss is 0. For a finite C the machine minimises ``R + C sum_i w_i loss_i``, and its
    bound D is one for the hard margin too, as there the loss is 0. The losses of hinges fall to 0 at a finite C already.

Method
    C grows tenfold, each fit starting from the last one's duals, until the machine, multiplied by the least factor that
    leaves no row a loss, is proven: ``R(factor W) - D <= tol R(factor W)``. From there on all goes on as for that C.

    That rows cannot be separated is not proven: no finite C does. What is said is the bound, which every separating machine
    has to exceed, where nearly all of the objective is loss after so many decades.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import Solution, Start

_DECADES = 12  # of C, from the scale of the rows on
_PATIENT = 4  # decades after which an objective that is nearly all loss is taken for that of rows that cannot be separated
_NEARLY_ALL = 0.99
_FAR = 300.0  # scores at which a loss that can be 0 is 0, and exp(-2 score) is not yet
_LARGEST_FACTOR = 2.0
_HALVINGS = 50
_SAME = 1e-12  # part of the squares that rows which are all the same may seem to have about their mean


def hard_margin(
    problem: Any, solve: Callable[..., Solution], name: str, tol: float, **settings: Any
) -> tuple[float, Problem, Start | None]:
    """The C that leaves no row a loss, the problem with it, and where its fit starts. `problem` is that of C = 1."""
    _check_loss(problem, name)
    start, C = None, 1.0 / _mean_square(problem)
    for decade in range(_DECADES):
        tried = replace(problem, cost=C * problem.cost)
        solution = solve(tried, Ledger(tol, rounding=tried.rounding_at), start=start, **settings)
        W, b, bound = solution.machine.W, solution.machine.b, solution.certificate.dual
        if (factor := _factor(problem, W, b)) is not None:
            value = problem.penalty_value(factor * W, factor * b)
            if value - bound <= tol * abs(value):
                return C, tried, _start_of(solution)
        elif decade >= _PATIENT and tried.loss_of_machine(W, b) > _NEARLY_ALL * solution.machine.primal:
            break
        start, C = _start_of(solution), 10.0 * C
    raise ValueError(
        f"C=inf is not valid here: {name} found no machine that leaves no training row a loss, and one would have an "
        f"objective above {bound:.3g}. The rows cannot be separated, or hardly; use a finite C, for example "
        f"C={C:.1g}, or a kernel."
    )


def _check_loss(problem: Any, name: str) -> None:
    if not isinstance(problem, Problem) or not problem.is_convex:
        raise ValueError(f"C=inf is not valid: {name} has no hard margin; C must be a finite number (try 0.01, 1 or 100).")
    first = np.zeros(problem.n_rows, dtype=bool)
    first[np.unique(problem.y, return_index=True)[1]] = True
    few = problem.part(first)
    perfect = np.where(np.arange(few.n_classes) == few.y[:, None], _FAR, -_FAR)
    if few.total_loss(perfect) > 0.0:
        raise ValueError(
            f"C=inf is not valid: the loss of {name} is never 0, so there is no hard margin; C must be a finite number (try "
            "0.01, 1 or 100), or the loss a hinge."
        )


def _mean_square(problem: Any) -> float:
    """Mean squared length of the rows about their mean; a little of that about zero if they are all the same."""
    X = problem.X
    values = X.data if hasattr(X, "indptr") else X.ravel()
    squares = float(np.einsum("i,i->", values, values, dtype=np.float64))
    centre = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    return max(squares / problem.n_rows - float(centre @ centre), _SAME * squares / problem.n_rows) or 1.0


def _factor(problem: Any, W: Any, b: Any) -> float | None:
    """The least factor, found by halving, with which the machine leaves no row a loss; None if 2 is not enough."""

    def has_none(factor: float) -> bool:
        return problem.loss_of_machine(factor * W, factor * b) == 0.0

    if has_none(1.0):
        return 1.0
    low, high = 1.0, _LARGEST_FACTOR
    if not has_none(high):
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if has_none(middle) else (middle, high)
        if high - low <= 1e-3 * (high - 1.0):
            break
    return high


def _start_of(solution: Solution) -> Start | None:
    return None if solution.duals is None else Start(solution.duals, solution.start_b, solution.scales)
