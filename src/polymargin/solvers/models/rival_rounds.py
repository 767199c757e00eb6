"""Rounds of the margin distribution machine that lower F: one convex step after the other (``concave_convex.py``)."""

from __future__ import annotations

from dataclasses import replace

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.ascent.margin_step import Ascent, Seen, Settings
from polymargin.solvers.models.rival_starts import Pace, Steps
from polymargin.solvers.models.rival_steps import InteriorRounds, InteriorSteps
from polymargin.solvers.types import Solution, Start

INNER = 0.1  # smallest relative gap a round asks for, in tolerances
_TIGHTER = 0.25  # of that, when a round has not gained enough
_ROUND_EPOCHS = 200  # that a round may take before interior points end the fit, if they can
_HASTY_EPOCHS, _CALM_EPOCHS = 3, 8  # of a restless round, while rivals matter and when they hardly do
_MATTER = 0.02  # share of the convex step's gap that its rivals, by now others, must be to blame for
_PATIENCE = 20  # restless rounds without a new best
_RESTLESS_EPOCHS = 300  # of all of them: what is left then is better solved, and in the end by Newton steps


class Descent:
    """The best machine of all rounds, and F after each that found a better one.

    If F is `convex`, every round has the same convex function Q, F itself: bounds of earlier rounds go on to hold.
    """

    def __init__(self, steps: Steps, stated: float, convex: bool = False):
        self.machine, self.duals = steps.machine(stated), steps.duals()
        self.rounds, self.last_decrease = [stated], 0.0
        self.convex = convex

    @property
    def value(self) -> float:
        return self.machine.primal

    def offer(self, steps: Steps, stated: float) -> bool:
        """Whether the iterate is better than all before; then it is kept."""
        if not stated < self.value:
            return False
        self.last_decrease = (self.value - stated) / self.value
        self.machine, self.duals = steps.machine(stated), steps.duals()
        self.rounds.append(stated)
        return True

    def start_round(self, ledger: Ledger, level: float) -> None:
        """Another Q begins, which meets F at the value `level`: bounds of earlier rounds do not hold for it."""
        if self.convex:
            ledger.primal = self.value
        else:
            ledger.start_anew(level)

    def settled(self, ledger: Ledger) -> bool:
        """Whether a round could gain no more; not if F fell below the bound of Q: other rivals may then give more."""
        if self.convex:
            return self.value - ledger.dual <= ledger.tol * abs(self.value)
        return ledger.done and self.value >= ledger.dual

    def close(self, ledger: Ledger, n_iter: int, max_iter: int, status: str) -> Solution:
        """What the last round could gain at most stays the gap, unless its end proves less."""
        settled = self.settled(ledger)
        bound = ledger.dual if settled or self.convex else self.value - ledger.gap
        if not settled and not self.convex:
            ledger.start_anew(self.value)
        ledger.add(self.value, min(bound, self.value), n_iter)
        ledger.primal = self.value
        certificate = ledger.close(min(max_iter, n_iter), status)
        if not self.convex:
            status = "stationary" if settled else certificate.status
            certificate = replace(certificate, status=status, stationarity=certificate.rel_gap, bounds="last convex round")
        return Solution(self.machine, self.duals, certificate, rounds=tuple(self.rounds), last_change=self.last_decrease)


def restless_rounds(
    problem: Problem, settings: Settings, ascent: Ascent, seen: Seen, ledger: Ledger, descent: Descent
) -> Ascent:
    """Rounds of a few epochs each, whether F falls or not; returns an ascent that is settled, or stands at the best machine.

    Where most rows keep a dual, a step takes many epochs, and every solved step gives few rows another rival: descending
    rounds creep. Steps that are hardly begun change many rivals at first and few later, and end lower.
    """
    ascent.start_phase(None)
    since = 0
    while since < _PATIENCE and ascent.n_iter < _RESTLESS_EPOCHS and ascent.left > 0:
        matters = seen.relaxed - seen.stated > _MATTER * (seen.relaxed - seen.dual)
        level, is_best = seen.stated, seen.stated <= descent.value
        ascent.relinearise(gently=True)
        descent.start_round(ledger, level)
        ledger.add(level, ascent.bound(), ascent.n_iter)
        if not (is_best and ledger.done):
            ascent.hurry(_HASTY_EPOCHS if matters else _CALM_EPOCHS, INNER * ledger.tol)
            seen = ascent.look()
            ledger.add(level, seen.dual, ascent.n_iter)
            since = 0 if descent.offer(ascent, seen.stated) else since + 1
        if is_best and descent.settled(ledger):
            return ascent
    descent.start_round(ledger, descent.value)  # no round at the best machine has ended
    if since == 0:
        return ascent
    again = Ascent(problem, settings, Start(descent.duals, descent.machine.b))
    again.spent = ascent.visits
    again.look()
    return again


def descending_rounds(
    steps: Steps, interior: InteriorSteps | None, ledger: Ledger, descent: Descent, pace: Pace
) -> tuple[Steps, str]:
    """Rounds that never raise F, until one could gain no more than the tolerance; what to say if none gets there."""
    tol = pace.start
    while True:
        steps.relinearise()
        steps.start_phase(_ROUND_EPOCHS if interior else None)
        level = descent.value  # Q meets F here
        descent.start_round(ledger, level)
        seen = _one_round(steps, ledger, tol, pace.enough)
        tol = min(pace.start, pace.round * ledger.rel_gap)  # the next round has about as much to gain
        better = descent.offer(steps, seen.stated)
        if descent.settled(ledger) or steps.left <= 0:
            return steps, "max_iter"
        if interior is not None and steps.crawls and isinstance(steps, Ascent):
            steps = InteriorRounds(interior, descent.machine, descent.duals, steps)
        elif steps.crawls and not better:
            return steps, "stalled"


def _one_round(steps: Steps, ledger: Ledger, tol: float, enough: float) -> Seen:
    """Ascends until F has `enough` of the possible gain, or none is possible, or it takes too long."""
    level = ledger.primal
    while True:
        tol = max(tol, INNER * ledger.tol)
        reached = steps.improve(tol)
        seen = steps.look()
        ledger.add(level, seen.dual, steps.n_iter)
        if ledger.done or level - seen.stated >= enough * ledger.gap or steps.left <= 0 or steps.crawls:
            return seen
        if reached:
            tol *= _TIGHTER
