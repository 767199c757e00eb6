"""Where the rounds of the margin distribution machine start: at convex machines of Crammer and Singer, roughly solved."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from polymargin.certificate import Ledger
from polymargin.losses import CrammerSingerHinge
from polymargin.problem import Problem
from polymargin.solvers.ascent.driver import dual_ascent
from polymargin.solvers.ascent.margin_step import Ascent, Settings, is_small, solve_step
from polymargin.solvers.models.rival_steps import InteriorRounds, InteriorSteps
from polymargin.solvers.types import Start

_START_EPOCHS = 100  # that each of them may take


class Pace(NamedTuple):
    """How well the starts and the rounds before the last are solved."""

    start: float  # relative gap of the two convex machines that are tried as starts
    round: float  # relative gap a round asks for first, in units of what the last could gain
    enough: float  # share of its own possible gain that ends a round


_QUICK = Pace(1e-2, 1.0, 0.2)  # takes less time and often ends lower
_PRECISE = Pace(1e-2, 0.1, 0.5)  # nearly equal problems reach the same minimum
_ROUGH_START = 0.2  # relative gap where the first rounds are restless: they lead far away from any start

Steps = Ascent | InteriorRounds


def pace(problem: Problem) -> Pace:
    return _PRECISE if is_small(problem) else _QUICK


def best_start(problem: Problem, settings: Settings, interior: InteriorSteps | None) -> Steps:
    """The better of the optima of the squared-hinge and the hinge machine of Crammer and Singer, both roughly solved.

    Neither always leads to the better minimum, and both are cheap. Restless rounds start at the squared hinge.
    """
    squared = Ascent(problem, settings)
    tol = _ROUGH_START if squared.restless else pace(problem).start
    squared.start_phase(_START_EPOCHS)
    squared_value = solve_step(squared, tol).stated
    if squared.restless:
        return squared
    if interior is not None and squared.crawls and squared.left > 0:
        return _start_by_interior_points(interior, squared, tol)
    epochs = min(squared.left // problem.n_rows, _START_EPOCHS)
    if epochs < 1:
        return squared
    hinge_machine = replace(problem, loss=CrammerSingerHinge())
    ledger = Ledger(tol, rounding=hinge_machine.rounding_at)
    found = dual_ascent(hinge_machine, ledger, max_iter=epochs, seed=settings.seed, n_threads=settings.n_threads)
    assert found.duals is not None  # dual ascent has them
    hinge = Ascent(problem, settings, Start(found.duals, found.machine.b))
    spent = squared.visits + found.certificate.n_iter * problem.n_rows
    start = hinge if hinge.look().stated < squared_value else squared
    start.spent = spent - start.loop.visits
    return start


def _start_by_interior_points(interior: InteriorSteps, ascent: Ascent, tol: float) -> InteriorRounds:
    found = []
    for solve in (interior.squared_hinge, interior.hinge):
        epochs = ascent.left // ascent.n_rows - interior.spent
        if epochs > 0:
            found.append(solve(tol, epochs))
    best = min(found, key=lambda machine: machine.primal)
    return InteriorRounds(interior, best, ascent.duals(), ascent)
