"""Fits of parts: which method, and what it needs to know of all rows first."""

from __future__ import annotations

import math
import time
from collections import deque
from functools import partial
from typing import Any, cast

import numpy as np

from polymargin._core import native
from polymargin.distributed import work
from polymargin.distributed.communicator import Communicator
from polymargin.distributed.loop import PartsLoop, TurnsLoop
from polymargin.distributed.terms import RowsInParts
from polymargin.distributed.together import HAS_IT, Together, groups
from polymargin.losses import CrammerSingerHinge, ScoreLoss
from polymargin.losses.label_sets import SetLoss
from polymargin.penalties import Penalty, SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.sets import LabelTable
from polymargin.problems.whole import WholeProblem, WholeSets, whole_problem, whole_sets
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.row_ascent import climb_rows
from polymargin.solvers.newton.general import general_newton
from polymargin.solvers.newton.smooth_part import takes_part
from polymargin.solvers.types import Machine, Solution

_PACE = 5  # rounds


def gather(parts: Communicator, loss: ScoreLoss, penalty: Penalty, fit_intercept: bool, dtype: Any) -> WholeProblem:
    """The objective of all rows of the parts."""
    facts = parts.total(work.facts)
    return whole_problem(facts, dtype, loss, penalty, fit_intercept, partial(_lost, parts))


def newton_suits(problem: WholeProblem) -> bool:
    """Whether Newton steps with summed Hessians know the loss and the penalty, and pay."""
    domain = problem.loss.domain
    knows = domain is not None and domain.has_plain_faces and domain.margins.relative and takes_part(problem.penalty)
    return knows and cost_model.newton_over_parts_pays(problem)


def _check(problem: WholeProblem) -> None:
    """What block ascent needs of a loss and a penalty; an error says who misses what."""
    loss, penalty, domain = problem.loss, problem.penalty, problem.loss.domain
    known = loss.row_problem is not None and domain is not None and domain.margins.relative
    if not known or loss.sums_to_zero or not (penalty.identity_hessian or penalty.class_scales is not None):
        raise TypeError(
            "fits of parts need a loss of margins to rivals, and the penalty 1/2 |W|^2 or one with class scales; got "
            f"'{loss.name}' with '{penalty.name}'. CrammerSingerSVC, WestonWatkinsSVC, TopKSVC and LpNormSVC are such "
            "machines"
        )
    if loss.squared and domain is not None and not domain.square_is_quadratic:
        raise TypeError(
            f"fits of parts do not take the square of '{loss.name}': what it takes off the dual is no quadratic form, whose "
            "products parts could add up; use the loss itself, or the square of another one"
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
    loop = (TurnsLoop if parts.takes_turns else PartsLoop)(problem, parts, seed)
    loop.watch = _Progress(ledger)
    spread = problem.facts.centre_and_spread() if problem.fit_intercept else None
    turns = "the parts take turns" if parts.takes_turns else "the rows come in parts"
    ledger.stage("dual ascent over parts", turns)
    face = cast(native.RowLoop, loop)  # it has one
    solution = climb_rows(problem, face, spread, ledger, max_iter=max_iter)
    return solution._replace(duals=None)


def gather_sets(
    parts: Communicator, like: LabelTable, loss: SetLoss, penalty: Penalty, fit_intercept: bool, dtype: Any
) -> WholeSets:
    """The objective of all rows of the parts, whose labels are `like` these."""
    facts = parts.total(work.facts)
    return whole_sets(facts, dtype, like, loss, penalty, fit_intercept, partial(_lost, parts))


def _lost(parts: Communicator, W: Any, b: Any) -> float:
    return float(parts.total(work.loss_at, W, b))


def solve_labels_of_parts(problem: WholeSets, parts: Communicator, ledger: Ledger, *, max_iter: int, seed: int) -> Solution:
    """Solves the relevance of all labels to ``ledger.tol``, every label by itself, all of them in the same visits."""
    d, c = problem.n_features, problem.n_classes
    have, have_not = problem.facts.cost
    W, b = np.zeros((d, c)), np.where(have > have_not, 1.0, -1.0) if problem.fit_intercept else np.zeros(c)
    # without rows of both kinds an offset alone, and without any nothing at all, costs nothing
    settled = (have == 0.0) | (have_not == 0.0) if problem.fit_intercept else have + have_not == 0.0

    def solve(label: int, own_parts: Communicator) -> Solution:
        loss = CrammerSingerHinge(squared=problem.loss.squared)
        own = gather(own_parts, loss, SquaredNorm(), problem.fit_intercept, problem.X.dtype)
        return solve_parts(own, own_parts, Ledger(ledger.tol, rounding=own.rounding_at), max_iter=max_iter, seed=seed)

    ledger.stage("label by label over parts", "the labels share nothing but the rows")
    hub, dual, n_iter, statuses = Together(parts, seed), 0.0, 1, set[str]()
    for labels in groups(np.flatnonzero(~settled)):
        for label, found in zip(labels, hub.solve(labels, solve), strict=True):
            W[:, label], b[label] = (found.machine.W @ HAS_IT, float(found.machine.b @ HAS_IT))
            dual += 2.0 * found.certificate.dual
            n_iter = max(n_iter, found.certificate.n_iter)
            statuses.add(found.certificate.status)
    primal = problem.primal(W, b)
    ledger.add(primal, dual, n_iter)
    return Solution(Machine(W, b, primal), None, ledger.close(n_iter, "stalled" if "stalled" in statuses else "max_iter"))
