"""Fits of parts: which method, and what it needs to know of all rows first."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, cast

from polymargin._core import native
from polymargin.distributed import work
from polymargin.distributed.communicator import Communicator
from polymargin.distributed.loop import PartsLoop
from polymargin.distributed.terms import RowsInParts
from polymargin.losses import ScoreLoss
from polymargin.penalties import Penalty
from polymargin.problems.certificate import Ledger
from polymargin.problems.whole import WholeProblem, whole_problem
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.row_ascent import climb_rows
from polymargin.solvers.newton.general import general_newton
from polymargin.solvers.newton.smooth_part import takes_part
from polymargin.solvers.types import Solution

_PACE = 5  # rounds


def gather(parts: Communicator, loss: ScoreLoss, penalty: Penalty, fit_intercept: bool, dtype: Any) -> WholeProblem:
    """The objective of all rows of the parts."""
    facts = parts.total(work.facts)
    return whole_problem(facts, dtype, loss, penalty, fit_intercept, lambda W, b: float(parts.total(work.loss_at, W, b)))


def newton_suits(problem: WholeProblem) -> bool:
    """Whether Newton steps with summed Hessians know the loss and the penalty, and pay."""
    domain = problem.loss.domain
    knows = domain is not None and domain.has_plain_faces and domain.margins.relative and takes_part(problem.penalty)
    return knows and cost_model.newton_over_parts_pays(problem)


def _check(problem: WholeProblem) -> None:
    """What block ascent needs of a loss and a penalty; an error says who misses what."""
    loss, penalty = problem.loss, problem.penalty
    known = loss.row_problem is not None and loss.domain is not None and loss.domain.margins.relative and not loss.squared
    if not known or loss.sums_to_zero or not (penalty.identity_hessian or penalty.class_scales is not None):
        raise TypeError(
            "fits of parts need a loss of margins to rivals that is not squared, and the penalty 1/2 |W|^2 or one with "
            f"class scales; got '{loss.name}'{' squared' if loss.squared else ''} with '{penalty.name}'. CrammerSingerSVC, "
            "WestonWatkinsSVC, TopKSVC and LpNormSVC are such machines"
        )
    if problem.fit_intercept and loss.domain is not None and not loss.domain.has_plain_faces:
        raise ValueError(
            f"fits of parts with a free intercept do not take the {loss.name} loss: its duals lie in a cone, which their "
            "repair leaves; use fit_intercept=False, or k of at most 2"
        )


class _Progress:
    """A line a round: the gap, and how long it may take at the pace of the last rounds."""

    def __init__(self, ledger: Ledger):
        self._ledger = ledger
        self._seen: deque[tuple[float, float]] = deque(maxlen=_PACE)

    def __call__(self, rounds: int, gap: float) -> None:
        self._seen.append((time.perf_counter(), math.log(max(gap, 1e-300))))
        (then, before), (now, here) = self._seen[0], self._seen[-1]
        left = ""
        if before > here > math.log(self._ledger.tol):
            left = f", about {(here - math.log(self._ledger.tol)) / (before - here) * (now - then):.0f} s left"
        self._ledger.say(f"round {rounds:4d}  relative gap {gap:.2e} (tol {self._ledger.tol:g}){left}")


def solve_parts(problem: WholeProblem, parts: Communicator, ledger: Ledger, *, max_iter: int, seed: int) -> Solution:
    """Solves the problem of all parts to ``ledger.tol``; the duals stay with the parts."""
    _check(problem)
    if newton_suits(problem):
        ledger.stage("Newton's method over parts", "few unknowns: their Hessians are summed")
        solution = general_newton(problem, ledger, max_iter, None, RowsInParts(problem, parts))
        return solution._replace(duals=None)
    loop = PartsLoop(problem, parts, seed)
    loop.watch = _Progress(ledger)
    spread = problem.facts.centre_and_spread() if problem.fit_intercept else None
    ledger.stage("dual ascent over parts", "the rows come in parts")
    face = cast(native.RowLoop, loop)  # it has one
    solution = climb_rows(problem, face, spread, ledger, max_iter=max_iter)
    return solution._replace(duals=None)
