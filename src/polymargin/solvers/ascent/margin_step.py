"""One convex step of the margin distribution machine in the making.

Its native loop is ``_core/band/band_loop.hpp``; on data with few features Newton steps end it
(``newton/proximal.py``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.problems.classes import Problem
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.driver import UNLIMITED, Driver, Rhythm
from polymargin.solvers.ascent.loops import open_band_loop
from polymargin.solvers.ascent.moves import FreeIntercept, Move
from polymargin.solvers.bounds import Ray, Repaired, balancing_factors, hidden_by_rounding
from polymargin.solvers.newton.proximal import Point, ProximalNewton
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, SparseDuals, Start

Array = NDArray[np.float64]

_PLAIN = Rhythm(epochs=UNLIMITED, inner=1.0)
_WITH_INTERCEPT = Rhythm(epochs=10, grace=8)
_SLICE_EPOCHS = 10  # of coordinate ascent before the next look at F
_LATE_EPOCHS = 600  # before Newton steps that are expensive
_FIRST_EPOCHS = 5  # of coordinate ascent before Newton steps


def is_small(problem: Problem) -> bool:
    return problem.n_rows * problem.n_classes <= cost_model.SMALL_MARGIN_STEP


class Settings(NamedTuple):
    budget: int  # row visits in all
    seed: int
    n_threads: int


class Seen(NamedTuple):
    """Values of the iterate: F, the convex function Q of this round, and the bound D of Q."""

    stated: float
    relaxed: float
    dual: float


def solve_step(ascent: Ascent, tol: float) -> Seen:
    """One convex problem to a relative gap of `tol`."""
    while True:
        ascent.improve(tol)
        seen = ascent.look()
        if seen.relaxed - seen.dual <= tol * seen.relaxed or ascent.left <= 0:
            return seen


class Ascent(Driver[native.BandLoop]):
    """The native loop on one convex problem after another, and Newton steps for it. Its limit is that of a phase."""

    def __init__(self, problem: Problem, settings: Settings, start: Start | None = None, frozen: bool = False):
        # rows with small violations wait their turn, where coordinate ascent does most of the work
        waiting = not is_small(problem) and not cost_model.newton_matrix_fits(problem)
        loop = open_band_loop(problem, settings.seed, frozen, waiting)
        self.budget, self._problem, self._n_threads = settings.budget, problem, settings.n_threads
        self._newton = ProximalNewton(problem, loop) if cost_model.newton_on_unknowns_fits(problem) else None
        self._slice, self._patience = _SLICE_EPOCHS * problem.n_rows, _LATE_EPOCHS * problem.n_rows
        self._prompt = self._newton is not None and (self._newton.direct or is_small(problem))
        if self._prompt:  # so many visits before Newton steps: about as much work as one or two of them
            work = int(problem.n_rows * (_FIRST_EPOCHS + 2.0 * cost_model.epochs_of_newton_step(problem)))
            self._slice = self._patience = min(work, 50 * problem.n_rows)  # leaves enough iterations for Newton steps
        self._point: Point | None = None  # the machine of the last Newton step
        # short rounds pay where coordinate ascent does the work
        self.prefers_short_rounds = not self._prompt and not is_small(problem) and not problem.fit_intercept
        self._reach, moves = problem.longest_row, list[Move]()
        if problem.fit_intercept:
            intercept = FreeIntercept(loop, *centre_and_spread(problem.X))
            self._reach += intercept.reach
            moves = [] if self._prompt else [intercept]  # prompt Newton steps move the offsets themselves
        if start is not None:
            loop.set_duals(*start.duals)
            if problem.fit_intercept:
                intercept.place(start.b)
        super().__init__(loop, problem.n_rows, settings.budget, _WITH_INTERCEPT if moves else _PLAIN, moves)

    @property
    def unspent(self) -> int:
        """Visits that are left when this phase is over."""
        return self.budget - self.visits

    def start_phase(self, epochs: int | None) -> None:
        """At most so many epochs before the next phase."""
        self.limit = self.budget if epochs is None else min(self.budget, self.visits + epochs * self.n_rows)

    @property
    def crawls(self) -> bool:
        """Whether a phase was too short, and not the budget."""
        return self.left <= 0 and self.unspent > 0

    def relinearise(self, gently: bool = False) -> None:
        """The next convex problem, at the machine that was last looked at; `gently` before `run_epochs`."""
        self.loop.relinearise(gently)
        self.start_anew()

    def run_epochs(self, epochs: int, tol: float) -> None:
        """Some epochs of the rows that matter."""
        self.loop.ascend(min(self.left, epochs * self.n_rows), tol)

    def improve(self, tol: float) -> bool:
        """Ascends until the gap is probably below `tol`, and says so, or for a while; by Newton steps where they pay."""
        if self.left <= 0:
            return False
        if self._point is None:
            if self.rhythm is _PLAIN:
                self.advance(tol, self._slice)
            else:
                self.advance_to_look(tol)
            # with an intercept the estimate is that of the proximal problem: Newton steps have the true one
            if not (self._problem.fit_intercept and self._prompt) and self.promises(tol):
                return True
            if self._newton is None or self.visits < self._patience or self.left <= 0:
                return False
        assert self._newton is not None
        self._point = self._newton.ascend(*self._iterate(), tol, max(1, self.left // self.n_rows))
        return True

    def _iterate(self) -> tuple[Array, Array]:
        if self._point is not None:
            return self._point.W, self._point.b
        b = self.loop.intercepts() if self._problem.fit_intercept else np.zeros(self._problem.n_classes)
        return self.loop.weights(), b

    def look(self) -> Seen:
        """The true values of the iterate: one pass over the data."""
        if self._point is not None:  # its pass has just been made
            return Seen(self._point.stated, self._point.primal, self.bound())
        half_norm, (stated, relaxed) = 0.5 * self.loop.squared_norm, self.loop.evaluate(self._n_threads)
        return Seen(half_norm + stated, half_norm + relaxed, self.bound())

    def bound(self) -> float:
        """Dual value; with a free intercept that after a repair to ``sum_i tau_ik = 0``."""
        if self._problem.fit_intercept:
            return self._best_on_ray(balancing_factors(self.loop.flows()))
        half_norm, flow = 0.5 * self.loop.squared_norm, float(self.loop.flows().sum())
        return float(self.loop.concave_part) - half_norm - hidden_by_rounding(flow, math.sqrt(2.0 * half_norm), self._reach)

    def machine(self, primal: float) -> Machine:
        return Machine(*self._iterate(), primal)

    def duals(self) -> SparseDuals:
        """Signed duals whose value is the bound: a negative one is beta, beside the class it is measured against (frozen:
        beside no class)."""
        duals = SparseDuals(*self.loop.duals())
        if not self._problem.fit_intercept:
            return duals
        return self._repaired(balancing_factors(self.loop.flows())).duals(duals, self._problem.y)

    def bound_without_upper_part(self) -> float:
        """A bound of F itself: the best multiple of the duals of its lower part, which is convex."""
        return self._best_on_ray(np.ones((self._problem.n_classes, self._problem.n_classes)))

    def _repaired(self, factors: Array) -> Repaired:
        linear, quadratic = self.loop.scaled(factors)
        return Repaired(factors, Ray(linear, quadratic, room=np.inf))

    def _best_on_ray(self, factors: Array) -> float:
        """The bound of the best multiple of the duals times a factor for each pair of classes."""
        ray = self._repaired(factors).ray
        flow = ray.best * float((factors * self.loop.flows()).sum())
        norm = math.sqrt(2.0 * max(0.0, ray.value))  # |W|^2 / 2 of these duals is at most as much
        return ray.value - hidden_by_rounding(flow, norm, self._reach)
