"""Monotone descent for ``sum_i u_i loss_i + 1/2 |W|^2 + P(W)`` with a P that is not convex, by shifted machines.

Each step minimises the convex model of ``convex_model.py`` at the current machine, as far as pays; the hinge stays exact. A
step is taken only if F falls by a fair part of what the model says, else theta grows. So F never rises. It ends when a
proven bound says how little the model promises: ``1 + theta`` (at most 100) times the promise, which bounds what the model
promises without its proximal term, must be at most ``tol`` times F less its constant, the least P.

Small problems have two ways out when the dual loop crawls: the interior point solves the models, and Newton's method on
the face they identify jumps to the end. What it finds is taken only if it is better and proven to be stationary. Wide
problems with few free duals have Newton's method with multipliers for their models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polymargin.penalties.angular import AnglePenalty
from polymargin.problem import Problem
from polymargin.solvers.ascent.convex_model import Attempt, ModelAscent, Tangent, solve_by_newton, solve_exactly
from polymargin.solvers.newton.augmented import price_of_newton
from polymargin.solvers.newton.face import affordable, newton_on_face
from polymargin.solvers.plan import interior_point_patience, interior_points_fit
from polymargin.solvers.types import Machine, SparseDuals

ENOUGH = 0.5  # share of the promised decrease that an inner solution must reach
FAIR = 0.25  # share of the model's decrease by which F must fall
COARSEST = 1e-2  # relative accuracy of the first inner solution
LATE = 1e-6  # relative accuracy from which many epochs mean that an interior point is better
NEAR = 1e-5  # relative decrease from which Newton's method is tried, if the tolerance is below too
HEAVIEST = 100.0  # factor on a promise that is due to theta
SHORT = 0.5, 0.02  # lengths of W, relative to the start, from which its vanishing is considered and believed
NEWTON_PATIENCE, NEWTON_SHARE = 100, 0.4  # epochs on one model, and share of all, before Newton's method with multipliers
HOPELESS = 0.05  # relative gap of the classical machine that says that the dual loop will crawl on all models
PATIENCE = 20  # rounds of an inner loop without progress
LARGEST = 1e12  # theta, relative to its first value


class Descent(NamedTuple):
    """Where the descent ended. `stationarity` is what the last model promised, relative to F less its constant."""

    machine: Machine
    duals: SparseDuals | None
    theta: float
    stationarity: float
    status: str
    visits: int


def descend(
    problem: Problem,
    penalty: AnglePenalty,
    machine: Machine,
    duals: SparseDuals | None,
    theta: float,
    tol: float,
    max_visits: int,
    seed: int,
    n_threads: int,
    note: Callable[[Machine, int], None],
    open_gap: float = 0.0,
) -> Descent:
    """Descends from `machine`; `note` is told each machine on the way and the visits so far.

    `open_gap` is the relative gap that coordinate ascent left on this problem's classical machine, if it was slow there.
    """
    state = _State(problem, penalty, machine, duals, theta, tol, max_visits, seed, n_threads, open_gap)
    first, status = theta, "max_iter"
    while state.visits < max_visits:
        step = state.step()
        if step == "taken":
            note(state.machine, state.visits)
            if state.vanishes() or state.jumps():
                note(state.machine, state.visits)
                status = "stationary"
                break
        elif step != "shorter":
            note(state.machine, state.visits)  # the last model may have brought it down a little further
            status = step
            break
        elif state.theta > LARGEST * max(first, 1.0):
            status = "stalled"
            break
    return Descent(state.machine, state.duals, state.theta, state.stationarity, status, state.visits)


class _State:
    def __init__(
        self,
        problem: Problem,
        penalty: AnglePenalty,
        machine: Machine,
        duals: SparseDuals | None,
        theta: float,
        tol: float,
        max_visits: int,
        seed: int,
        n_threads: int,
        open_gap: float,
    ):
        self.problem, self.penalty, self.machine, self.duals, self.theta = problem, penalty, machine, duals, theta
        self.tol, self.max_visits, self.seed, self.n_threads = tol, max_visits, seed, n_threads
        self.visits, self.stationarity, self.accuracy = 0, np.inf, COARSEST
        self.value, self.length = penalty.apart(machine.W), float(np.linalg.norm(machine.W))
        self.steps, self.next_jump, self.last_gain = 0, 1, np.inf
        self.small = interior_points_fit(problem)
        self.patience = interior_point_patience(problem) // 2 if self.small else NEWTON_PATIENCE
        self.crawls = open_gap > 0.0 if self.small else open_gap > HOPELESS and self._newton_fits(duals)

    def step(self) -> str:
        """One model: "taken", "shorter" (theta has grown), "stationary", "stalled" or "max_iter"."""
        F = self.machine.primal
        tangent, scale, allowed = self._tangent(self.machine)
        tried, promise = (self._exactly if self.crawls else self._coarsely)(tangent, scale, allowed)
        if tried is None:
            return "stalled"
        gain = F - tangent.model(tried.W, tried.loss)
        fell = self._take(tried, gain)
        self.duals = tried.duals
        if promise <= allowed:
            return "stationary"
        if self.visits >= self.max_visits:
            return "taken" if fell else "max_iter"
        if fell:
            self.last_gain = gain / scale
            self.accuracy = float(np.clip(0.3 * gain / scale, 0.1 * self.tol, COARSEST))
            self._adapt(tangent, tried.W)
            return "taken"
        self.theta = max(2.0 * self.theta, 0.1)
        return "shorter"

    def _coarsely(self, tangent: Tangent, scale: float, allowed: float) -> tuple[Attempt | None, float]:
        """A machine that has at least half of the decrease the model promises, by the dual loop; and that promise."""
        loop = ModelAscent(self.problem, tangent, self.duals, scale, self.seed)
        self.seed = (self.seed + 1) % (1 << 31)
        F, n = self.machine.primal, self.problem.n_rows
        before, accuracy, bound = self.visits, self.accuracy, -np.inf
        least_gap, waited = np.inf, 0
        while True:
            loop.ascend(min(self.max_visits - self.visits, self.patience * n), accuracy)
            self.visits = before + loop.visits
            tried = loop.attempt(self.n_threads)
            gain = F - tangent.model(tried.W, tried.loss)
            promise = F - loop.proximal_bound()
            if promise <= allowed:  # worth a proof
                bound = max(bound, tangent.bound(self.problem, tried.duals))
                promise = F - bound
                self.stationarity = self.tol * promise / allowed
            if promise <= allowed or gain >= ENOUGH * promise or self.visits >= self.max_visits:
                return tried, promise
            if self._gives_up(loop.visits, tried.duals):
                self.crawls, self.duals = True, tried.duals  # this model and all to come by another method
                return self._exactly(tangent, scale, allowed)
            gap = promise - gain
            waited = 0 if gap < 0.9 * least_gap else waited + 1
            if waited > PATIENCE:  # rounding
                return None, promise
            least_gap = min(gap, least_gap)
            accuracy = 0.3 * min(accuracy, gap / scale) if waited else 0.3 * gap / scale

    def _exactly(self, tangent: Tangent, scale: float, allowed: float) -> tuple[Attempt, float]:
        n = self.problem.n_rows
        left = max(1, (self.max_visits - self.visits) // n)
        accuracy = 0.1 * min(allowed, self.accuracy * scale)
        if self.small:
            tried, steps = solve_exactly(self.problem, tangent, accuracy, left)
        else:
            assert self.duals is not None
            tried, steps = solve_by_newton(self.problem, tangent, self.duals, accuracy, left)
        self.visits = min(self.max_visits, self.visits + steps * n)
        promise = self.machine.primal - tangent.bound(self.problem, tried.duals)
        self.stationarity = self.tol * promise / allowed
        return tried, promise

    def _gives_up(self, visits: int, duals: SparseDuals) -> bool:
        """Whether the dual loop crawls on a model, after so many visits, and another method can take over."""
        n = self.problem.n_rows
        slow = visits >= self.patience * n
        if self.small:
            return slow or (self.visits >= self.patience * n and self.accuracy <= LATE)
        dear = self.visits < NEWTON_SHARE * self.max_visits  # Newton's steps cost more than epochs that lead somewhere
        return slow and not dear and self._newton_fits(duals)

    def _newton_fits(self, duals: SparseDuals | None) -> bool:
        return duals is not None and bool(np.isfinite(price_of_newton(self.problem, duals)))

    def vanishes(self) -> bool:
        """Whether the descent leads to W = 0.

        A does not depend on the length of W, so that F may fall all the way to 0, in ever smaller steps. Once W is much
        shorter than at the start, halves of it are tried too, and in the end 0 itself.
        """
        if np.linalg.norm(self.machine.W) > SHORT[0] * self.length:
            return False
        self._if_better(self._scaled(0.5))
        if np.linalg.norm(self.machine.W) > SHORT[1] * self.length or not self._if_better(self._scaled(0.0)):
            return False
        self.stationarity = 0.0
        return True

    def _scaled(self, t: float) -> Machine:
        """The better of (t W, b) and (t W, t b)."""
        W, b, _ = self.machine
        return min((Machine(t * W, c, self.problem.primal(t * W, c)) for c in (b, t * b)), key=lambda m: m.primal)

    def _if_better(self, machine: Machine) -> bool:
        better = machine.primal < self.machine.primal
        if better:
            self.machine, self.value = machine, self.penalty.apart(machine.W)
        return better

    def jumps(self) -> bool:
        """Whether Newton's method leads to a stationary machine; tried when steps have become small, ever more rarely."""
        near = self.crawls or (self.tol < NEAR and self.last_gain <= NEAR)
        if self.duals is None or not near or not affordable(self.problem, self.penalty):
            return False
        if not np.isfinite(self.penalty.angles.curvature(self.machine.W)):  # singular, and no floor
            return False
        self.steps += 1
        if self.steps < self.next_jump and not self.crawls:
            return False
        self.next_jump *= 2
        found = newton_on_face(self.problem, self.penalty, self.machine, self.duals)
        if found is None or not found[0].primal <= self.machine.primal:
            return False
        machine, duals = found
        tangent, _, allowed = self._tangent(machine)
        promise = machine.primal - tangent.bound(self.problem, duals)
        if promise > allowed:
            return False
        self.machine, self.value, self.duals = machine, tangent.value, duals
        self.stationarity = self.tol * promise / allowed
        return True

    def _tangent(self, machine: Machine) -> tuple[Tangent, float, float]:
        """The model at a machine, the size of F, and the promise at which the machine counts as stationary."""
        value = self.value if machine is self.machine else self.penalty.apart(machine.W)
        scale = machine.primal - self.penalty.least  # F without its constant
        tangent = Tangent(machine, value, self.penalty.pull(machine.W), self.theta)
        # what the model without its proximal term promises is at most kappa times as much
        factor = min(tangent.kappa, HEAVIEST)
        return tangent, scale, self.tol * scale / factor

    def _take(self, tried: Attempt, gain: float) -> bool:
        apart = self.penalty.apart(tried.W)
        primal = tried.loss + 0.5 * float(np.vdot(tried.W, tried.W)) + apart
        if not (gain > 0.0 and primal <= self.machine.primal - FAIR * gain):
            return False
        self.machine, self.value = Machine(tried.W, tried.b, primal), apart
        return True

    def _adapt(self, tangent: Tangent, W: np.ndarray) -> None:
        """The curvature of P seen along the step, with a margin, is the next theta."""
        step = W - tangent.machine.W
        square = float(np.vdot(step, step))
        if not square > 0.0:
            return
        above = self.value - tangent.value - float(np.vdot(tangent.slope, step))
        self.theta = float(np.clip(1.5 * 2.0 * above / square, 0.25 * self.theta, self.theta))
