"""Convex models of ``sum_i u_i loss_i + 1/2 |W|^2 + P(W)`` with a P that is not convex, for the descent of `descent.py`.

Each is the model of ``ascent/convex_model.py`` at the current machine: P is replaced by its tangent and a proximal term with
theta; the hinge stays exact. A machine is taken only if F falls by a fair part of what the model says, else theta grows. The
descent ends when ``1 + theta`` (at most 100) times the promise, which bounds what the model promises without its proximal
term, is at most ``tol`` times F less its constant, the least P.

Small problems have two ways out when the dual loop crawls: the interior point solves the models, and Newton's method on
the face they identify jumps to the end. What it finds is taken only if it is better and proven to be stationary. Wide
problems with few free duals have Newton's method with multipliers for their models; losses for which neither is made, and
those at sum zero, have Newton's method on the unknowns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties.angular import AnglePenalty, Angles
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.convex_model import (
    Attempt,
    ModelAscent,
    Tangent,
    has_loop,
    solve_by_newton,
    solve_exactly,
    solve_generally,
)
from polymargin.solvers.cost_model import (
    epochs_before_interior_points,
    general_newton_fits,
    has_interior_point,
    price_of_newton,
)
from polymargin.solvers.models.descent import Look, descend
from polymargin.solvers.newton.faces.angle_face import affordable, newton_on_face
from polymargin.solvers.progress import Stall
from polymargin.solvers.types import Machine, SparseDuals

Array = NDArray[np.float64]

ENOUGH = 0.5  # share of the promised decrease that an inner solution must reach
FAIR = 0.25  # share of the model's decrease by which F must fall
COARSEST = 1e-2  # relative accuracy of the first inner solution
LATE = 1e-6  # relative accuracy from which many epochs mean that an interior point is better
NEAR = 1e-5  # relative decrease from which Newton's method is tried, if the tolerance is below too
HEAVIEST = 100.0  # factor on a promise that is due to theta
NEWTON_PATIENCE, NEWTON_SHARE = 100, 0.4  # epochs on one model, and share of all, before Newton's method with multipliers
HOPELESS = 0.05  # relative gap of the classical machine that says that the dual loop will crawl on all models
PATIENCE = 20  # improvements of a model without progress
LARGEST = 1e12  # theta, relative to its first value
LARGEST_THETA = 1e100  # costs are divided by it, and must stay numbers


class Place(NamedTuple):
    """A machine on the way down, and what is known beside it."""

    machine: Machine
    duals: SparseDuals | None
    theta: float | None = None  # if a model with it was good
    angles: Angles | None = None  # with multipliers of kinks that have settled


class Settings(NamedTuple):
    """`open_gap` is the relative gap that coordinate ascent left on the classical machine, if it was slow there."""

    tol: float
    max_visits: int
    seed: int
    n_threads: int
    open_gap: float


class DescentEnd(NamedTuple):
    """Where a descent ended. `stationarity` is what the last model promised, relative to F less its constant."""

    place: Place
    stationarity: float
    status: str
    visits: int

    @property
    def machine(self) -> Machine:
        return self.place.machine

    def with_machine(self, machine: Machine, stationarity: float) -> DescentEnd:
        return self._replace(place=self.place._replace(machine=machine), stationarity=stationarity)


def angular(problem: Problem) -> AnglePenalty:
    """The penalty of the problem."""
    if problem.penalty.angular is None:
        raise TypeError(f"descent by convex models needs a penalty of angles; got '{problem.penalty.name}'")
    return problem.penalty.angular


def descend_by_tangents(
    problem: Problem, start: Place, settings: Settings, note: Callable[[Machine, int], None]
) -> DescentEnd:
    """Descends from `start`; `note` is told each machine on the way and the visits so far."""
    models = AngularModels(problem, start, settings, note)
    status = descend(models) if settings.max_visits > 0 else "max_iter"
    return DescentEnd(Place(models.machine, models.duals, models.theta), models.stationarity, status, models.visits)


class AngularModels:
    """The machine, its theta, the model there and how it is solved."""

    enough = ENOUGH

    def __init__(self, problem: Problem, start: Place, settings: Settings, note: Callable[[Machine, int], None]):
        self.problem, self.penalty, self._note = problem, angular(problem), note
        self.tol, self.max_visits, self._seed, self._n_threads, open_gap = settings
        self.machine, self.duals = start.machine, start.duals
        self.theta = first_theta(self.penalty, self.machine.W) if start.theta is None else start.theta
        self.visits, self.stationarity, self._accuracy = 0, np.inf, COARSEST
        self._value, self._largest_theta = self.penalty.apart(self.machine.W), LARGEST * max(self.theta, 1.0)
        self._near_steps, self._last_gain = 0, np.inf
        self._small = has_interior_point(problem)
        self._patience = epochs_before_interior_points(problem) // 2 if self._small else NEWTON_PATIENCE
        self._crawls = open_gap > 0.0 if self._small else open_gap > HOPELESS and self._newton_fits(self.duals)
        self._crawls |= not has_loop(problem)

    # -- the model --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._tangent, self._scale, self._allowed = self._tangent_at(self.machine)
        if not self._crawls:
            self._loop = ModelAscent(self.problem, self._tangent, self.duals, self._scale, self._seed)
            self._seed = (self._seed + 1) % (1 << 31)
            self._visits_before, self._asked, self._bound = self.visits, self._accuracy, -np.inf
            self._stall = Stall(PATIENCE, 0.9, must_pay=True)

    def improve(self) -> Look:
        self._tried, promise = self._exactly() if self._crawls else self._by_ascent()
        gain = self.machine.primal - self._tangent.model(self._tried.W, self._tried.loss)
        return Look(gain, promise, promise <= self._allowed)

    def _by_ascent(self) -> tuple[Attempt, float]:
        """A machine by the dual loop, and the promise; that is proven only if it is little."""
        loop = self._loop
        loop.advance(self._asked, min(self.max_visits - self.visits, self._patience * self.problem.n_rows))
        self.visits = self._visits_before + loop.visits
        tried = loop.attempt(self._n_threads)
        promise = self.machine.primal - loop.proximal_bound()
        if promise <= self._allowed:
            self._bound = max(self._bound, self._tangent.bound(self.problem, tried.duals))
            promise = self._promised(self._bound)
        return tried, promise

    def _exactly(self) -> tuple[Attempt, float]:
        """The same by interior points, or by Newton's method with multipliers."""
        n = self.problem.n_rows
        left = max(1, (self.max_visits - self.visits) // n)
        accuracy = 0.1 * min(self._allowed, self._accuracy * self._scale)
        if self._small:
            tried, steps = solve_exactly(self.problem, self._tangent, accuracy, left)
        elif self.duals is not None and np.isfinite(price_of_newton(self.problem, self.duals)):
            tried, steps = solve_by_newton(self.problem, self._tangent, self.duals, accuracy, left)
        else:
            tried, steps = solve_generally(self.problem, self._tangent, self.duals, accuracy, left)
            self.duals = tried.duals
        self.visits = min(self.max_visits, self.visits + steps * n)
        return tried, self._promised(self._tangent.bound(self.problem, tried.duals))

    def _promised(self, bound: float) -> float:
        """The promise by a proven bound, noted as what is known of stationarity."""
        promise = self.machine.primal - bound
        self.stationarity = self.tol * promise / max(self._allowed, 1e-300)
        return promise

    @property
    def _is_over(self) -> bool:
        return self.visits >= self.max_visits

    @property
    def is_exhausted(self) -> bool:
        return self._crawls or self._is_over  # exact methods have done what they can

    def tighten(self, look: Look) -> bool:
        gap = look.promise - look.gain
        stalls = self._stall.note(gap)
        if self._gives_up() or (stalls and self._has_another_method()):
            self._crawls, self.duals = True, self._tried.duals  # this model and all to come by another method
            return True
        self._asked = 0.3 * min(self._asked, gap / self._scale) if self._stall.waited else 0.3 * gap / self._scale
        return not stalls

    def _gives_up(self) -> bool:
        """Whether the dual loop crawls on this model, and another method can take over."""
        n = self.problem.n_rows
        slow = self._loop.visits >= self._patience * n
        if self._small:
            return slow or (self.visits >= self._patience * n and self._accuracy <= LATE)
        dear = self.visits < NEWTON_SHARE * self.max_visits  # Newton's steps cost more than epochs that lead somewhere
        return slow and not dear and self._newton_fits(self._tried.duals)

    def _has_another_method(self) -> bool:
        return self._small or self._newton_fits(self._tried.duals)

    def _newton_fits(self, duals: SparseDuals | None) -> bool:
        """One of Newton's methods: on free duals, or on the unknowns."""
        if duals is not None and np.isfinite(price_of_newton(self.problem, duals)):
            return True
        return self.problem.row_domains.domain.has_plain_faces and general_newton_fits(self.problem)

    def _tangent_at(self, machine: Machine) -> tuple[Tangent, float, float]:
        """The model at a machine, the size of F, and the promise at which the machine counts as stationary."""
        value = self._value if machine is self.machine else self.penalty.apart(machine.W)
        scale = self.penalty.above_least(machine.primal)
        tangent = Tangent(machine, value, self.penalty.pull(machine.W), self.theta)
        # what the model without its proximal term promises is at most kappa times as much
        factor = min(tangent.kappa, HEAVIEST)
        return tangent, scale, self.tol * scale / factor

    # -- the machine ------------------------------------------------------------------------------------------------

    def take(self, look: Look) -> str:
        W, b, loss, self.duals = self._tried
        apart = self.penalty.apart(W)
        primal = loss + 0.5 * float(np.vdot(W, W)) + apart
        taken = look.gain > 0.0 and primal <= self.machine.primal - FAIR * look.gain
        if taken:
            self._move_to(Machine(W, b, primal), apart)
        if look.is_little:
            return "stationary"
        if taken:
            if not self._is_over:
                self._last_gain = look.gain / self._scale
                self._accuracy = float(np.clip(0.3 * look.gain / self._scale, 0.1 * self.tol, COARSEST))
                self._adapt()
            if self._jumps():
                return "stationary"
        elif not self._is_over:
            self.theta = max(2.0 * self.theta, 0.1)
            return "stalled" if self.theta > self._largest_theta else ""
        return "max_iter" if self._is_over else ""

    def _move_to(self, machine: Machine, apart: float) -> None:
        self.machine, self._value = machine, apart
        self._note(machine, self.visits)

    def _adapt(self) -> None:
        """The curvature of P seen along the step, with a margin, is the next theta."""
        tangent = self._tangent
        step = self.machine.W - tangent.machine.W
        square = float(np.vdot(step, step))
        if square > 0.0:
            above = self._value - tangent.value - float(np.vdot(tangent.slope, step))
            self.theta = float(np.clip(1.5 * 2.0 * above / square, 0.25 * self.theta, self.theta))

    def _jumps(self) -> bool:
        """Whether Newton's method leads to a stationary machine; tried when steps have become small, ever more rarely."""
        if self.duals is None or not self._jump_is_due():
            return False
        found = newton_on_face(self.problem, self.penalty, self.machine, self.duals)
        if found is None or not found[0].primal <= self.machine.primal:
            return False
        machine, duals = found
        tangent, _, allowed = self._tangent_at(machine)
        promise = machine.primal - tangent.bound(self.problem, duals)
        if promise > allowed:
            return False
        self._move_to(machine, tangent.value)
        self.duals, self.stationarity = duals, self.tol * promise / max(allowed, 1e-300)
        return True

    def _jump_is_due(self) -> bool:
        near = self._crawls or (self.tol < NEAR and self._last_gain <= NEAR)
        if not near or not affordable(self.problem, self.penalty):
            return False
        if not np.isfinite(self.penalty.angles.curvature(self.machine.W)):  # singular, and no floor
            return False
        self._near_steps += 1
        return self._crawls or self._near_steps.bit_count() == 1


def first_theta(penalty: AnglePenalty, W: Array) -> float:
    # a tiny singular value has a huge curvature, but will not stay tiny
    usual = 1.0 + penalty.omega / max(float(np.vdot(W, W)), 1e-300)
    return min(0.5 * penalty.omega * penalty.angles.curvature(W), 100.0 * usual, LARGEST_THETA)
