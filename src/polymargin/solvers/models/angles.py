"""Machines whose class vectors are kept apart (``penalties/angular.py``): start, descent, record and warm start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.penalties import SquaredNorm
from polymargin.penalties.angular import AnglePenalty, angles_between, smallest_angle
from polymargin.problem import Problem
from polymargin.solvers.ascent.row_ascent import dual_ascent
from polymargin.solvers.convex import solve_convex
from polymargin.solvers.models.angle_models import DescentEnd, Place, Settings, descend_by_tangents
from polymargin.solvers.models.angle_starts import WIDEST, Classical, Memory, Starts
from polymargin.solvers.models.rounded import KINK
from polymargin.solvers.models.row_space import canonical, look_at_rows
from polymargin.solvers.types import Machine, Solution, Start

START_TOL, START_EPOCHS = 1e-3, 300  # the Crammer-Singer machine is only the start: no need to know it better
FLOOR = 1e-6  # of a typical singular value of the Crammer-Singer machine
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
    penalty = problem.penalty.angular
    if penalty is None:
        raise TypeError(f"descent by convex models needs a penalty of angles; got '{problem.penalty.name}'")
    rows = look_at_rows(problem)
    rank = min(rows.basis.shape[1], problem.n_classes)
    if isinstance(start, Memory) and not start.fits(problem, rows.fingerprint):
        start = None
    if penalty.omega == 0.0:
        return _without_angles(problem, ledger, penalty, rank, rows.fingerprint, max_iter, seed, n_threads, start)
    assert not isinstance(start, Start)  # there are no duals of the whole machine
    ledger.stage("Crammer-Singer machine", "where the descent starts, and its bound")
    classical, spent = _classical(problem, ledger.tol, max_iter, seed, n_threads, start)
    penalty.settle(rank, FLOOR * float(np.linalg.norm(classical.machine.W)) / np.sqrt(max(1, rank)))
    ledger.leave_out(penalty.least)
    run = _Recorded(problem, ledger, penalty, classical.bound + penalty.least, spent, max_iter)
    zero = _without_vectors(problem)
    if zero.primal - run.bound <= ledger.tol * (zero.primal - penalty.least):  # nothing can be better
        end = DescentEnd(Place(zero, classical.duals, 0.0), 0.0, "optimal", 0)
    else:
        settings = Settings(ledger.tol, run.budget, seed, n_threads, classical.open_gap)
        found = Starts(problem, penalty, classical, rows, start, settings)
        run.note(found.known.machine, 0)
        ledger.stage("descent by convex models", "angles between class vectors are not convex")
        begin, passes = found.best(n_starts, max_iter - run.epochs(0))
        run.spent += passes * problem.n_rows
        run.note(begin.machine, 0)
        end = run.descend(begin, settings)
        if zero.primal <= run.best.primal:  # the descent tends to W = 0, or should have
            # the angles bend without limit at W = 0: no model promises anything
            end = end.with_machine(zero, 0.0 if end.status == "stationary" else end.stationarity)
    if end.machine is zero:
        penalty.settle(rank, 0.0)
    run.note(end.machine, end.visits)
    certificate = replace(ledger.close(run.epochs(end.visits), end.status), stationarity=end.stationarity)
    best = canonical(run.best, rows)
    _, duals, theta, _ = end.place
    memory = Memory(rows.fingerprint, problem.y, problem.cost, penalty.omega, classical, best, duals, theta)
    notes = AngularNotes(tuple(run.objectives), tuple(run.min_angles), end.stationarity, memory)
    return Solution(best, None, certificate, notes=notes)


def _without_vectors(problem: Problem) -> Machine:
    """The best machine with W = 0: equal scores, or a margin for a class that has more than half of the costs."""
    costs = np.bincount(problem.y, problem.cost, problem.n_classes)
    total, largest = float(costs.sum()), float(costs.max())
    b, loss = np.zeros(problem.n_classes), total
    if problem.fit_intercept and 2.0 * largest > total:
        b[costs.argmax()], loss = 1.0, 2.0 * (total - largest)
    W = np.zeros((problem.n_features, problem.n_classes))
    return Machine(W, b, loss + problem.penalty.value(W))


class _Recorded:
    """The descent with its record: the best machine by the exact F, and one entry for each step that improved it."""

    def __init__(self, problem: Problem, ledger: Ledger, penalty: AnglePenalty, bound: float, spent: int, max_iter: int):
        self.problem, self.ledger, self.penalty, self.bound, self.spent = problem, ledger, penalty, bound, spent
        self.max_iter, self.budget = max_iter, max_iter * problem.n_rows
        self.best = Machine(np.zeros((0, 0)), np.zeros(0), np.inf)
        self.objectives: list[float] = []
        self.min_angles: list[float] = []

    def epochs(self, visits: int) -> int:
        return min(self.max_iter, -(-(self.spent + visits) // self.problem.n_rows))

    def note(self, machine: Machine, visits: int) -> None:
        if machine.primal < self.best.primal:
            self.best = machine
            self.ledger.at_hand = self._at_hand
            self.ledger.add(machine.primal, self.bound, self.epochs(visits))
            self.objectives.append(machine.primal)
            self.min_angles.append(smallest_angle(angles_between(machine.W)))

    def _at_hand(self) -> Machine:
        """The best machine of a descent that is interrupted; its F is that of exact kinks."""
        self.penalty.angles = self.penalty.angles.rounded(0.0)
        return self.best

    def descend(self, start: Place, settings: Settings) -> DescentEnd:
        end = DescentEnd(start, np.inf, "max_iter", 0)
        return self._further(end, settings, self.note) if self.penalty.angles.smooth else self._past_kinks(end, settings)

    def _further(self, end: DescentEnd, settings: Settings, note: Callable[[Machine, int], None]) -> DescentEnd:
        """A descent from where another one ended, with the visits that are left."""
        settings = settings._replace(max_visits=self.budget - self.spent - end.visits)
        more = descend_by_tangents(self.problem, self.penalty, end.place, settings, note)
        return more._replace(visits=end.visits + more.visits)

    def _past_kinks(self, end: DescentEnd, settings: Settings) -> DescentEnd:
        """Rounds with rounded kinks, whose multipliers settle, until rounded and exact F agree."""
        penalty, tol, multipliers = self.penalty, settings.tol, end.place.multipliers
        width = WIDEST if multipliers is None else KINK
        penalty.angles = penalty.angles.rounded(width, 0.0 if multipliers is None else multipliers)
        for _ in range(_ROUNDS):
            before = end.visits

            def note(machine: Machine, visits: int, before: int = before) -> None:
                self.note(self._exact(machine), before + visits)

            penalty.angles = penalty.angles.rounded(width)
            rounded = end.machine._replace(primal=self.problem.primal(end.machine.W, end.machine.b))
            end = self._further(end.with_machine(rounded, np.inf), settings._replace(tol=0.5 * tol), note)
            exact = self._exact(end.machine)
            apart = (exact.primal - end.machine.primal) / (exact.primal - penalty.least)
            end = end.with_machine(exact, end.stationarity + max(0.0, apart))
            if end.status != "stationary" or apart <= 0.5 * tol:
                break
            penalty.angles = penalty.angles.settled_at(end.machine.W)
            width = max(KINK, NARROWER * width)
        else:
            end = end._replace(status="stalled")
        penalty.angles = penalty.angles.rounded(0.0)
        return end

    def _exact(self, machine: Machine) -> Machine:
        """The machine with the F of exact kinks."""
        exact, W = self.penalty.with_omega(self.penalty.omega), machine.W
        return machine._replace(primal=machine.primal - self.penalty.apart(W) + exact.apart(W))


def _without_angles(
    problem: Problem,
    ledger: Ledger,
    penalty: AnglePenalty,
    rank: int,
    fingerprint: Array,
    max_iter: int,
    seed: int,
    n_threads: int,
    start: Memory | Start | None,
) -> Solution:
    """omega = 0: the Crammer-Singer machine itself."""
    plain = replace(problem, penalty=SquaredNorm())
    warm = start if isinstance(start, Start) else _classical_start(problem, start)
    solution = solve_convex(plain, ledger, max_iter=max_iter, seed=seed, n_threads=n_threads, start=warm)
    penalty.settle(rank, FLOOR * float(np.linalg.norm(solution.machine.W)) / np.sqrt(max(1, rank)))
    classical = Classical(solution.machine, solution.duals, ledger.dual, 0.0 if ledger.done else ledger.rel_gap)
    memory = Memory(fingerprint, problem.y, problem.cost, 0.0, classical, solution.machine, solution.duals, 0.0)
    objectives = tuple(record.primal for record in solution.certificate.history)
    angle = smallest_angle(angles_between(solution.machine.W))
    return solution._replace(notes=AngularNotes(objectives, (angle,), None, memory))


def _classical_start(problem: Problem, start: Memory | None) -> Start | None:
    duals = None if start is None else start.scaled(start.classical.duals, problem.cost)
    return None if start is None or duals is None else Start(duals, start.classical.machine.b)


def _classical(
    problem: Problem, tol: float, max_iter: int, seed: int, n_threads: int, start: Memory | None
) -> tuple[Classical, int]:
    """The Crammer-Singer machine, coarsely, and the row visits it took."""
    if start is not None and np.array_equal(start.cost, problem.cost):
        return start.classical, 0
    plain = replace(problem, penalty=SquaredNorm())
    ledger = Ledger(max(tol, START_TOL), rounding=plain.rounding_at)
    near = _classical_start(problem, start)
    solution = dual_ascent(plain, ledger, max_iter=min(max_iter, START_EPOCHS), seed=seed, n_threads=n_threads, start=near)
    spent = solution.certificate.n_iter
    if ledger.dual >= 0.99 * _without_vectors(plain).primal and ledger.tol > tol and spent < max_iter:
        ledger.ask(tol)  # all but W = 0: that is worth a proof
        again = None if solution.duals is None else Start(solution.duals, solution.machine.b)
        solution = solve_convex(plain, ledger, max_iter=max_iter - spent, seed=seed, n_threads=n_threads, start=again)
        spent += solution.certificate.n_iter
    open_gap = 0.0 if ledger.done else ledger.rel_gap
    return Classical(solution.machine, solution.duals, ledger.dual, open_gap), spent * problem.n_rows
