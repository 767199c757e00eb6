"""One convex step of the margin distribution machine in the making.

Its native loop is ``_core/margin_distribution_loop.hpp``; on data with few features Newton steps end it
(``proximal_newton.py``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.problem import Problem
from polymargin.solvers.ascent.loops import open_band_loop
from polymargin.solvers.bounds import balancing_factors
from polymargin.solvers.newton import proximal as proximal_newton
from polymargin.solvers.newton.proximal import Point, ProximalNewton
from polymargin.solvers.progress import Anderson
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, SparseDuals, Start

Array = NDArray[np.float64]

_SLICE_EPOCHS = 10  # of coordinate ascent before the next look at F
_LATE_EPOCHS = 600  # before Newton steps that are expensive
_FIRST_EPOCHS = 5  # of coordinate ascent before Newton steps
_NEVER = np.iinfo(np.int64).max
_EPOCHS = 10  # between two moves of the centre of the proximal intercept
_SMALL = 20_000  # rows times classes up to which time does not matter
_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)  # of a sum of duals, relative to their size


def is_small(problem: Problem) -> bool:
    return problem.n_rows * problem.n_classes <= _SMALL


class Settings(NamedTuple):
    budget: int  # row visits in all
    seed: int
    n_threads: int


class Seen(NamedTuple):
    """Values of the iterate: F, the convex function Q of this round, and the bound D of Q."""

    stated: float
    relaxed: float
    dual: float


def open_ascent(problem: Problem, settings: Settings, start: Start | None = None, frozen: bool = False) -> Ascent:
    kind = ProximalAscent if problem.fit_intercept else Ascent
    return kind(problem, settings, start, frozen)


def hidden_by_rounding(flow: float, norm: float, reach: float) -> float:
    """How much too high a bound may be: duals of size `flow` on rows of norm `reach` at most make a W of this norm.

    Rounding disturbs sums of duals, and with a free intercept leaves sum_i tau_i a little beside 0; it disturbs W in units
    of ``flow * reach``, and the bound by that times |W|.
    """
    return _ROUNDING * flow * (1.0 + norm * reach)


def solve_step(ascent: Ascent, tol: float) -> Seen:
    """One convex problem to a relative gap of `tol`."""
    while True:
        ascent.improve(tol)
        seen = ascent.look()
        if seen.relaxed - seen.dual <= tol * seen.relaxed or ascent.left <= 0 or ascent.crawls:
            return seen


class Ascent:
    """The native loop without an intercept."""

    def __init__(self, problem: Problem, settings: Settings, start: Start | None, frozen: bool):
        # rows with small violations wait their turn, where coordinate ascent does most of the work
        waiting = not is_small(problem) and not proximal_newton.factorises(problem)
        self.loop = open_band_loop(problem, settings.seed, frozen, waiting)
        self.budget = settings.budget
        self.spent = 0  # visits of other loops that count too
        self._phase_end = _NEVER
        self.n_rows = problem.n_rows
        self._n_classes = problem.n_classes
        self._n_threads = settings.n_threads
        self._newton = ProximalNewton(problem, self.loop) if proximal_newton.suits(problem) else None
        self._slice, self._patience = _SLICE_EPOCHS * problem.n_rows, _LATE_EPOCHS * problem.n_rows
        self._prompt = self._newton is not None and (self._newton.direct or is_small(problem))
        if self._prompt:  # so many visits before Newton steps: about as much work as one or two of them
            work = int(problem.n_rows * (_FIRST_EPOCHS + 2.0 * proximal_newton.epochs_of_a_step(problem)))
            self._slice = self._patience = min(work, 50 * problem.n_rows)  # leaves enough iterations for Newton steps
        self._point: Point | None = None  # the machine of the last Newton step
        # short rounds pay where coordinate ascent does the work
        self.restless = not self._prompt and not is_small(problem) and not problem.fit_intercept
        self._reach = problem.longest_row
        self._prepare(problem)
        if start is not None:
            self.loop.set_duals(*start.duals)
            self._place(start.b)

    def _prepare(self, problem: Problem) -> None:
        pass

    def _place(self, b: Array) -> None:
        pass

    @property
    def visits(self) -> int:
        return int(self.loop.visits) + self.spent

    @property
    def left(self) -> int:
        return self.budget - self.visits

    @property
    def n_iter(self) -> int:
        return -(-self.visits // self.n_rows)

    def start_phase(self, epochs: int | None) -> None:
        self._phase_end = _NEVER if epochs is None else self.visits + epochs * self.n_rows

    @property
    def crawls(self) -> bool:
        return self.visits >= self._phase_end

    @property
    def _room(self) -> int:
        return min(self.left, self._phase_end - self.visits)

    def relinearise(self, gently: bool = False) -> None:
        """The next convex problem, at the machine that was last looked at; `gently` before `hurry`."""
        self.loop.relinearise(gently)

    def hurry(self, epochs: int, tol: float) -> None:
        """Some epochs of the rows that matter."""
        self.loop.ascend(min(self._room, epochs * self.n_rows), tol)

    def improve(self, tol: float) -> bool:
        """Ascends until the gap is probably below `tol`, and says so, or for a while; by Newton steps where they pay."""
        if self._room <= 0:
            return False
        if self._point is None:
            self._ascend_by_coordinates(tol)
            if self._promising(tol):
                return True
            if self._newton is None or self.visits < self._patience or self._room <= 0:
                return False
        assert self._newton is not None
        W, b = (self._point.W, self._point.b) if self._point else self._iterate()
        self._point = self._newton.ascend(W, b, tol, max(1, self._room // self.n_rows))
        return True

    def _ascend_by_coordinates(self, tol: float) -> None:
        self.loop.restore()
        self.loop.ascend(min(self._room, self._slice), tol)

    def _promising(self, tol: float) -> bool:
        return bool(self.loop.estimate <= tol * abs(self.loop.dual + self.loop.estimate))

    def _iterate(self) -> tuple[Array, Array]:
        return self.loop.weights(), np.zeros(self._n_classes)

    def look(self) -> Seen:
        """The true values of the iterate: one pass over the data."""
        half_norm = 0.5 * self.loop.squared_norm
        if self._point is not None:  # its pass has just been made
            return Seen(self._point.stated, self._point.primal, self._bound(half_norm))
        stated, relaxed = self.loop.evaluate(self._n_threads)
        return Seen(half_norm + stated, half_norm + relaxed, self._bound(half_norm))

    def _bound(self, half_norm: float) -> float:
        flow = float(self.loop.flows().sum())
        return float(self.loop.concave_part) - half_norm - hidden_by_rounding(flow, math.sqrt(2.0 * half_norm), self._reach)

    def bound(self) -> float:
        return self._bound(0.5 * self.loop.squared_norm)

    def machine(self, primal: float) -> Machine:
        return Machine(*((self._point.W, self._point.b) if self._point else self._iterate()), primal)

    def duals(self) -> SparseDuals:
        """Signed duals: a negative one is beta, beside the class it is measured against (frozen: beside no class)."""
        return SparseDuals(*self.loop.duals())

    def bound_without_upper_part(self) -> float:
        """A bound of F itself: the best multiple of the duals of its lower part, which is convex."""
        return self._best_on_ray(np.ones((self._n_classes, self._n_classes)))

    def _best_on_ray(self, factors: Array) -> float:
        """The bound of the best multiple of the duals times a factor for each pair of classes."""
        linear, quadratic = self.loop.scaled(factors)
        t = _best_multiple(linear, quadratic)
        value = 0.5 * t * linear  # |W|^2 / 2 of these duals is at most as much
        flow = t * float((factors * self.loop.flows()).sum())
        return value - hidden_by_rounding(flow, math.sqrt(2.0 * value), self._reach)


class ProximalAscent(Ascent):
    """The same with a free intercept: a proximal-point loop on b, as in `polymargin.solvers.ascent.driver`."""

    def _prepare(self, problem: Problem) -> None:
        self._means, mean_square = centre_and_spread(problem.X)
        self._reach += float(np.linalg.norm(self._means))
        self._inverse_rho = 0.2 * mean_square if mean_square > 0.0 else 1.0
        self._y = problem.y
        self.loop.start_intercept(self._means, self._inverse_rho)
        self._extrapolate = Anderson()
        self._moves = 0

    def _place(self, b: Array) -> None:
        self.loop.move_centre(b + self._means @ self.loop.weights())

    def relinearise(self, gently: bool = False) -> None:
        super().relinearise(gently)
        self._extrapolate = Anderson()  # another fixed point
        self._moves = 0

    def _ascend_by_coordinates(self, tol: float) -> None:
        if self._prompt:
            super()._ascend_by_coordinates(tol)
            return
        loop = self.loop
        for move in range(8 + self._moves // 8):
            if self._room <= 0:
                break
            if self._moves > 0:
                loop.move_centre(self._extrapolate(loop.centre(), self._inverse_rho * loop.sums()))
            self._moves += 1
            loop.restore()
            loop.ascend(min(_EPOCHS * self.n_rows, self._room), 0.3 * tol)
            if move >= self._moves // 8 and self._promising(tol):
                break

    def _promising(self, tol: float) -> bool:
        # with an intercept the estimate is that of the proximal problem: Newton steps have the true one
        return not self._prompt and super()._promising(tol)

    def _bound(self, half_norm: float) -> float:
        """Dual value after a repair to ``sum_i tau_ik = 0``: one factor for each pair of classes, then the best multiple."""
        return self._best_on_ray(balancing_factors(self.loop.flows()))

    def _iterate(self) -> tuple[Array, Array]:
        return self.loop.weights(), self.loop.intercepts()

    def duals(self) -> SparseDuals:
        """The repaired duals: those whose value is the bound."""
        duals = SparseDuals(*self.loop.duals())
        factors = balancing_factors(self.loop.flows())
        t = _best_multiple(*self.loop.scaled(factors))
        own, other = np.repeat(self._y, np.diff(duals.starts)), duals.classes
        scale = np.where(duals.values > 0.0, factors[own, other], factors[other, own])
        return duals._replace(values=duals.values * (t * scale))


def _best_multiple(linear: float, quadratic: float) -> float:
    """The t >= 0 that maximises ``t linear - t^2 quadratic``."""
    return 0.5 * linear / quadratic if linear > 0.0 and quadratic > 0.0 else 0.0
