"""Rounds of the margin distribution machine that lower F: one convex step after the other (`rivals.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.margin_step import Ascent, Seen, Settings, is_small
from polymargin.solvers.models.descent import Look
from polymargin.solvers.models.rivals.steps import InteriorRounds, suits
from polymargin.solvers.types import Machine, Solution, Start

INNER = 0.1  # smallest relative gap a round asks for, in tolerances
START = 1e-2  # relative gap of the convex machines that are tried as starts, and the largest that a round asks for
_TIGHTER = 0.25  # of that, when a round has not gained enough
_ROUND_EPOCHS = 200  # that a round may take before interior points end the fit, if they can
_HASTY_EPOCHS, _CALM_EPOCHS = 3, 8  # of a short round, while rivals matter and when they hardly do
_MATTER = 0.02  # share of the convex step's gap that its rivals, by now others, must be to blame for
_PATIENCE = 20  # short rounds without a new best
_SHORTEST = 1e-6  # part of a machine that is worse than W = 0 which is tried
_SHORT_EPOCHS = 300  # of all of them: what is left then is better solved, and in the end by Newton steps


class Accuracy(NamedTuple):
    """How well the rounds before the last are solved."""

    round: float  # relative gap a round asks for first, in units of what the last could gain
    enough: float  # share of its own possible gain that ends a round


_QUICK = Accuracy(1.0, 0.2)  # takes less time and often ends lower
_PRECISE = Accuracy(0.1, 0.5)  # nearly equal problems reach the same minimum

Steps = Ascent | InteriorRounds


def without_vectors(problem: Problem) -> Machine:
    """W = 0 with the best offsets.

    If offsets are free, the heaviest class is above all others, which are level, as far as a share above a half takes it;
    that is never above the band.
    """
    assert problem.loss.margin_band is not None
    c, total = problem.n_classes, float(problem.cost.sum())
    costs = np.bincount(problem.y, problem.cost, c)
    ahead = max(0.0, 2.0 * float(costs.max()) / total - 1.0) if problem.fit_intercept else 0.0
    leading = np.eye(1, c, int(costs.argmax()))[0] - 1.0 / c
    b = (1.0 - problem.loss.margin_band.theta) * ahead * leading
    return Machine(np.zeros((problem.n_features, c)), b, total * (1.0 - ahead**2))


def shortened(problem: Problem, machine: Machine, zero: Machine) -> tuple[Machine, float]:
    """The best machine on the way from W = 0 to one that is worse, and its share of the way.

    A part of the way gives margins of the same signs, and may be better than both ends.
    """
    best, best_share, share = zero, 0.0, 0.5
    while share > _SHORTEST:
        W, b = share * machine.W, share * machine.b + (1.0 - share) * zero.b
        tried = Machine(W, b, problem.primal(W, b))
        if tried.primal < best.primal:
            best, best_share = tried, share
        elif best_share > 0.0:
            break
        share *= 0.5
    return best, best_share


class BestMachine:
    """The best machine of all rounds, F after each that found a better one, and what a round can still gain.

    If F is `convex`, every round has the same convex function Q, F itself: bounds of earlier rounds go on to hold.

    Whatever its rivals, Q meets F at W = 0 too, where no margin is above the band. So a round that is solved ends no worse
    than there. One that is cut short may: then the machine is shortened, to W = 0 if need be.
    """

    def __init__(self, problem: Problem, steps: Steps, stated: float):
        self.machine, self.duals, self.rounds = steps.machine(stated), steps.duals(), [stated]
        self.convex, self._problem = problem.n_classes == 2, problem

    @property
    def value(self) -> float:
        return self.machine.primal

    def at_hand(self) -> Machine:
        """What is returned if the rounds are interrupted, at once."""
        return min(self.machine, without_vectors(self._problem), key=lambda machine: machine.primal)

    def offer(self, steps: Steps, stated: float) -> bool:
        """Whether the iterate is better than all before; then it is kept."""
        if not stated < self.value:
            return False
        self.machine, self.duals = steps.machine(stated), steps.duals()
        self.rounds.append(stated)
        return True

    def start_round(self, ledger: Ledger, level: float) -> None:
        """Another Q begins, which meets F at the value `level`: bounds of earlier rounds do not hold for it."""
        if not self.convex:
            ledger.start_anew(level)

    def settled(self, ledger: Ledger) -> bool:
        """Whether a round could gain no more; not if F fell below the bound of Q: other rivals may then give more."""
        if self.convex:
            return self.value - ledger.dual <= ledger.tol * abs(self.value)
        return ledger.done and self.value >= ledger.dual

    def close(self, ledger: Ledger, n_iter: int, max_iter: int, status: str) -> Solution:
        """What the last round could gain at most stays the gap, unless its end proves less."""
        zero = without_vectors(self._problem)
        if zero.primal < self.value:
            ledger.add(zero.primal, ledger.dual, n_iter)
            self.machine, share = shortened(self._problem, self.machine, zero)
            self.duals = self.duals._replace(values=share * self.duals.values)
            self.rounds.append(self.value)
        settled = self.settled(ledger)
        bound = ledger.dual if settled or self.convex else self.value - ledger.gap
        if not settled and not self.convex:
            ledger.start_anew(self.value)
        ledger.add(self.value, min(bound, self.value), n_iter)
        certificate = ledger.close(min(max_iter, n_iter), status)
        if not self.convex:
            status = "stationary" if settled else certificate.status
            certificate = replace(certificate, status=status, stationarity=certificate.rel_gap, bounds="last convex round")
        before, last = self.rounds[-2:] if len(self.rounds) > 1 else 2 * self.rounds
        change = 1.0 - last / before if last < before else 0.0
        return Solution(self.machine, self.duals, certificate, rounds=tuple(self.rounds), last_change=change)


class RivalModels:
    """The convex functions Q at the rivals of the machine at hand, for the descent of `descent.py`.

    Coordinate ascent, with Newton steps where they pay, solves them. Where it crawls, interior points take over.
    """

    def __init__(self, problem: Problem, steps: Steps, ledger: Ledger, best: BestMachine):
        self.steps, self._problem, self._ledger, self._best = steps, problem, ledger, best
        self._accuracy, self._asked = _PRECISE if is_small(problem) else _QUICK, START
        self.enough, self._has_interior_points = self._accuracy.enough, suits(problem)

    def begin(self) -> None:
        self.steps.relinearise()
        self.steps.start_phase(_ROUND_EPOCHS if self._has_interior_points else None)
        self._level = self._best.value  # Q meets F here
        self._best.start_round(self._ledger, self._level)

    def improve(self) -> Look:
        ledger = self._ledger
        self._asked = max(self._asked, INNER * ledger.tol)
        self._reached = self.steps.improve(self._asked)
        self._seen = self.steps.look()
        ledger.add(self._level, self._seen.dual, self.steps.n_iter)
        return Look(self._level - self._seen.stated, ledger.gap, ledger.done)

    @property
    def is_exhausted(self) -> bool:
        return self.steps.unspent <= 0 or self.steps.crawls

    def tighten(self, look: Look) -> bool:
        if self._reached:
            self._asked *= _TIGHTER
        return True

    def take(self, look: Look) -> str:
        steps, best, ledger = self.steps, self._best, self._ledger
        self._asked = min(START, self._accuracy.round * ledger.rel_gap)  # the next round has about as much to gain
        taken = best.offer(steps, self._seen.stated)
        if best.settled(ledger):
            return "stationary"
        if steps.unspent <= 0:
            return "max_iter"
        if steps.crawls and self._has_interior_points and isinstance(steps, Ascent):
            self.steps = InteriorRounds(self._problem, INNER * ledger.tol, steps)
            self.steps.start_at(best.machine, best.duals)
        elif steps.crawls and not taken:
            return "stalled"
        return ""


def short_rounds(
    problem: Problem, settings: Settings, ascent: Ascent, seen: Seen, ledger: Ledger, best: BestMachine
) -> Ascent:
    """Rounds of a few epochs each, whether F falls or not; returns an ascent that is settled, or stands at the best machine.

    Where most rows keep a dual, a step takes many epochs, and every solved step gives few rows another rival: descending
    rounds creep. Steps that are hardly begun change many rivals at first and few later, and end lower.
    """
    ascent.start_phase(None)
    since = 0
    while since < _PATIENCE and ascent.n_iter < _SHORT_EPOCHS and ascent.unspent > 0:
        matters = seen.relaxed - seen.stated > _MATTER * (seen.relaxed - seen.dual)
        level, is_best = seen.stated, seen.stated <= best.value
        ascent.relinearise(gently=True)
        best.start_round(ledger, level)
        ledger.add(level, ascent.bound(), ascent.n_iter)
        if not (is_best and ledger.done):
            ascent.run_epochs(_HASTY_EPOCHS if matters else _CALM_EPOCHS, INNER * ledger.tol)
            seen = ascent.look()
            ledger.add(level, seen.dual, ascent.n_iter)
            since = 0 if best.offer(ascent, seen.stated) else since + 1
        if is_best and best.settled(ledger):
            return ascent
    best.start_round(ledger, best.value)  # no round at the best machine has ended
    if since == 0:
        return ascent
    again = Ascent(problem, settings, Start(best.duals, best.machine.b))
    again.spent = ascent.visits
    again.look()
    return again
