"""Machines whose class vectors are kept apart (``penalties/angular.py``): start, descent, record and warm start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.penalties import AtSumZero, SquaredNorm
from polymargin.penalties.angular import AnglePenalty, angles_between, smallest_angle
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.row_ascent import dual_ascent
from polymargin.solvers.convex import solve_convex
from polymargin.solvers.models.angles.angle_models import DescentEnd, Place, Settings, angular, descend_by_tangents
from polymargin.solvers.models.angles.rounded import KINK
from polymargin.solvers.models.angles.row_space import canonical, look_at_rows
from polymargin.solvers.models.angles.starts import WIDEST, Classical, Memory, Starts, facts_of_loss
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

START_TOL, START_EPOCHS = 1e-3, 300  # the machine without angles is only the start: no need to know it better
OFFSET_EPOCHS = 1000  # for the best offsets of W = 0: one row a class
FLOOR = 1e-6  # of a typical singular value of the machine without angles
NARROWER = 0.3  # factor on the width of rounded kinks from round to round, down to KINK
_ROUNDS = 12  # of kinks

Array = NDArray[np.float64]


class AngularNotes(NamedTuple):
    """What the solver tells of its way: the objective and the smallest angle of each step, and what to remember."""

    objectives: tuple[float, ...]
    min_angles: tuple[float, ...]
    stationarity: float | None
    memory: Memory | None


def solve_apart(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Memory | Start | None = None,
    n_starts: int = 1,
) -> Solution:
    """Solves a problem with an `AnglePenalty`, which is settled here. ``Solution.notes`` is a `AngularNotes`."""
    run = _Run(problem, ledger, max_iter, seed, n_threads, start)
    if run.penalty.omega == 0.0:
        return run.without_angles(start if isinstance(start, Start) else run.near())
    assert not isinstance(start, Start)  # there are no duals of the whole machine
    return run.with_angles(n_starts)


class _Run:
    """A fit with its record: the best machine by the exact F, and one entry for each step that improved it."""

    def __init__(
        self, problem: Problem, ledger: Ledger, max_iter: int, seed: int, n_threads: int, start: Memory | Start | None
    ):
        self.problem, self.ledger, self.penalty = problem, ledger, angular(problem)
        self.max_iter, self.seed, self.n_threads = max_iter, seed, n_threads
        self.rows = look_at_rows(problem)
        self.last = start if isinstance(start, Memory) and start.fits(problem, self.rows.fingerprint) else None
        self.plain = replace(problem, penalty=AtSumZero(SquaredNorm()) if problem.loss.sums_to_zero else SquaredNorm())
        self.spent = 0  # visits of methods that have ended
        self.best = Machine(np.zeros((0, 0)), np.zeros(0), np.inf)
        self.objectives: list[float] = []
        self.min_angles: list[float] = []

    # -- the machine without angles ---------------------------------------------------------------------------------

    def without_angles(self, start: Start | None) -> Solution:
        """omega = 0: the machine without angles itself."""
        solution = self._plainly(solve_convex, self.ledger, self.max_iter, start)
        self._settle_at(Classical.of(solution, self.ledger))
        memory = self._memory(solution.machine, solution.duals, 0.0)
        objectives = tuple(record.primal for record in solution.certificate.history)
        angle = smallest_angle(angles_between(solution.machine.W))
        return solution._replace(notes=AngularNotes(objectives, (angle,), None, memory))

    def near(self) -> Start | None:
        """Where the machine without angles of a warm start is."""
        duals = None if self.last is None else self.last.scaled(self.last.classical.duals, self.problem.cost)
        return None if self.last is None or duals is None else Start(duals, self.last.classical.machine.b)

    def _coarsely(self) -> Classical:
        if self.last is not None and np.array_equal(self.last.cost, self.problem.cost):
            return self.last.classical
        tol = self.ledger.tol
        ledger = Ledger(max(tol, START_TOL), rounding=self.plain.rounding_at)
        solution = self._plainly(dual_ascent, ledger, min(self.max_iter, START_EPOCHS), self.near())
        left = self.max_iter - self.epochs(0)
        if ledger.dual >= 0.99 * _without_vectors(self.plain).primal and ledger.tol > tol and left > 0:
            ledger.ask(tol)  # all but W = 0: that is worth a proof
            again = None if solution.duals is None else Start(solution.duals, solution.machine.b)
            solution = self._plainly(solve_convex, ledger, left, again)
        return Classical.of(solution, ledger)

    def _plainly(
        self, solve: Callable[..., Solution], ledger: Ledger, max_iter: int, start: Start | None
    ) -> Solution:
        settings = {"max_iter": max_iter, "seed": self.seed, "n_threads": self.n_threads, "start": start}
        solution = solve(self.plain, ledger, **settings)
        self.spent += solution.certificate.n_iter * self.problem.n_rows
        machine = solution.machine
        if sparse.issparse(machine.W):  # whose angles are asked for
            solution = solution._replace(machine=machine._replace(W=machine.W.toarray()))
        return solution

    def _settle_at(self, classical: Classical) -> None:
        """The angles know their rank and their scale."""
        rank = min(self.rows.basis.shape[1], self.problem.n_classes - self.problem.loss.sums_to_zero)
        self.classical = classical
        self.penalty.settle(rank, FLOOR * float(np.sqrt(classical.size / max(1, rank))))

    # -- the descent ------------------------------------------------------------------------------------------------

    def with_angles(self, n_starts: int) -> Solution:
        problem, ledger, penalty = self.problem, self.ledger, self.penalty
        ledger.stage("machine without angles", "where the descent starts, and its bound")
        self._settle_at(self._coarsely())
        ledger.leave_out(penalty.least)
        self.bound = self.classical.bound + penalty.least
        zero = _without_vectors(problem)
        if zero.primal - self.bound <= ledger.tol * (zero.primal - penalty.least):  # nothing can be better
            end = DescentEnd(Place(zero, self.classical.duals), 0.0, "optimal", 0)
        else:
            end = self._descend(n_starts)
            # it may have stopped above what is known without any vectors, or there: then with the best offsets
            if end.status != "stationary" or zero.primal <= self.best.primal:
                zero = _without_vectors(problem, _fitted_offsets(self.plain, ledger.tol))
            if zero.primal <= self.best.primal:  # the descent tends to W = 0, or should have
                # the angles bend without limit at W = 0: no model promises anything
                end = end.with_machine(zero, 0.0 if end.status == "stationary" else end.stationarity)
        if end.machine is zero:
            penalty.settle(penalty.angles.rank, 0.0)
        self.note(end.machine)
        certificate = replace(ledger.close(self.epochs(0), end.status), stationarity=end.stationarity)
        best = canonical(self.best, self.rows) if problem.to_rivals else self.best
        memory = self._memory(best, end.place.duals, end.place.theta)
        notes = AngularNotes(tuple(self.objectives), tuple(self.min_angles), end.stationarity, memory)
        return Solution(best, None, certificate, notes=notes)

    def _descend(self, n_starts: int) -> DescentEnd:
        settings = Settings(self.ledger.tol, self.left, self.seed, self.n_threads, self.classical.open_gap)
        found = Starts(self.problem, self.classical, self.rows, self.last, settings)
        self.note(found.known.machine)
        self.ledger.stage("descent by convex models", "angles between class vectors are not convex")
        begin, passes = found.best(n_starts, self.max_iter - self.epochs(0))
        self.spent += passes * self.problem.n_rows
        self.note(begin.machine)
        if self.penalty.angles.smooth:
            return self._by_tangents(self.problem, begin, settings)
        return self._past_kinks(begin, settings._replace(tol=0.5 * settings.tol))

    def _by_tangents(self, problem: Problem, start: Place, settings: Settings) -> DescentEnd:
        rounded = angular(problem)

        def note(machine: Machine, visits: int) -> None:
            self.note(self._exact(machine, rounded), visits)

        end = descend_by_tangents(problem, start, settings._replace(max_visits=self.left), note)
        self.spent += end.visits
        return end

    def _past_kinks(self, place: Place, settings: Settings) -> DescentEnd:
        """Rounds with rounded kinks, whose multipliers settle, until rounded and exact F agree."""
        angles, width = (self.penalty.angles, WIDEST) if place.angles is None else (place.angles, KINK)
        for _ in range(_ROUNDS):
            angles = angles.rounded(width)
            rounded = self.penalty.with_(angles=angles)
            problem = replace(self.problem, penalty=rounded)
            machine = place.machine._replace(primal=problem.primal(place.machine.W, place.machine.b))
            end = self._by_tangents(problem, place._replace(machine=machine), settings)
            exact = self._exact(end.machine, rounded)
            apart = (exact.primal - end.machine.primal) / self.penalty.above_least(exact.primal)
            end = end.with_machine(exact, end.stationarity + max(0.0, apart))
            if end.status != "stationary" or apart <= settings.tol:
                return end
            place, angles, width = end.place, angles.settled_at(exact.W), max(KINK, NARROWER * width)
        return end._replace(status="stalled")

    def _exact(self, machine: Machine, rounded: AnglePenalty) -> Machine:
        """The machine with the F of exact kinks."""
        if rounded is self.penalty:
            return machine
        return machine._replace(primal=machine.primal - rounded.apart(machine.W) + self.penalty.apart(machine.W))

    # -- the record -------------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        return self.max_iter * self.problem.n_rows - self.spent

    def epochs(self, visits: int) -> int:
        """All so far, with the visits of a method that is running."""
        return min(self.max_iter, -(-(self.spent + visits) // self.problem.n_rows))

    def note(self, machine: Machine, visits: int = 0) -> None:
        if machine.primal < self.best.primal:
            self.best = machine
            self.ledger.at_hand = lambda: self.best
            self.ledger.add(machine.primal, self.bound, self.epochs(visits))
            self.objectives.append(machine.primal)
            self.min_angles.append(smallest_angle(angles_between(machine.W)))

    def _memory(self, machine: Machine, duals: SparseDuals | None, theta: float | None) -> Memory:
        y, cost, omega = self.problem.y, self.problem.cost, self.penalty.omega
        loss = facts_of_loss(self.problem)
        return Memory(self.rows.fingerprint, y, cost, omega, self.classical, machine, duals, theta, loss)


def _without_vectors(problem: Problem, *others: Array) -> Machine:
    """W = 0 with the best of some offsets: equal scores, a margin for the class of the largest costs, and `others`."""
    c, costs = problem.n_classes, _costs(problem)
    leading = np.eye(c)[costs.argmax()]
    offsets = [np.zeros(c), *others]
    if problem.fit_intercept:
        offsets += [leading - leading.mean()] if problem.loss.sums_to_zero else [leading, -np.ones(c), 2.0 * leading - 1.0]
    losses = [float(costs @ problem.loss.value(np.tile(b, (c, 1)), np.arange(c))) for b in offsets]
    best, W = int(np.argmin(losses)), np.zeros((problem.n_features, c))
    return Machine(W, offsets[best], losses[best] + problem.penalty.value(W))


def _fitted_offsets(plain: Problem, tol: float) -> Array:
    """What a machine finds that sees nothing of the rows but their classes."""
    if not plain.fit_intercept:
        return np.zeros(plain.n_classes)
    costs = _costs(plain)
    present = np.flatnonzero(costs).astype(np.int32)  # a part of the rows may lack classes
    classes = replace(plain, X=np.zeros((len(present), 1)), y=present, cost=costs[present])
    ledger = Ledger(min(tol, START_TOL), rounding=classes.rounding_at)
    return solve_convex(classes, ledger, max_iter=OFFSET_EPOCHS, seed=0).machine.b


def _costs(problem: Problem) -> Array:
    """Of the rows of each class."""
    return np.bincount(problem.y, problem.cost, problem.n_classes).astype(np.float64, copy=False)
