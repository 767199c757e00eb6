"""Machines whose class vectors are kept apart (``penalties/angular.py``): start, descent, record and warm start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.penalties import SquaredNorm
from polymargin.penalties.angular import AnglePenalty, Pairwise, angles_between, smallest_angle
from polymargin.problem import Problem
from polymargin.solvers.choice import solve
from polymargin.solvers.descent import Descent, descend
from polymargin.solvers.dual_ascent import Machine, Solution, SparseDuals, WarmStart, dual_ascent
from polymargin.solvers.row_space import Rows, canonical, look_at_rows, starts

START_TOL, START_EPOCHS = 1e-3, 300  # the Crammer-Singer machine is only the start: no need to know it better
FLOOR = 1e-6  # of a typical singular value of the Crammer-Singer machine
_WIDTHS = (0.1, 0.01, 1e-3, 1e-4)  # of rounded kinks, one after the other

Array = NDArray[np.float64]


class Classical(NamedTuple):
    """The Crammer-Singer machine of a problem, its duals and the bound they prove."""

    machine: Machine
    duals: SparseDuals | None
    bound: float
    open_gap: float  # relative; 0 if it was solved to the coarse tolerance of a start


class Memory(NamedTuple):
    """What a fit leaves for a warm start. `fingerprint` tells whether the rows are the same."""

    fingerprint: Array
    y: NDArray[np.int32]
    cost: Array
    classical: Classical
    machine: Machine
    duals: SparseDuals | None
    theta: float

    def fits(self, problem: Problem, fingerprint: Array) -> bool:
        same_shape = self.machine.W.shape == (problem.n_features, problem.n_classes)
        return same_shape and np.array_equal(self.y, problem.y) and np.array_equal(self.fingerprint, fingerprint)


class Spread(NamedTuple):
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
    start: Memory | WarmStart | None = None,
) -> Solution:
    """Solves a problem with an `AnglePenalty`, which is settled here. ``Solution.notes`` is a `Spread`."""
    penalty = problem.penalty
    assert isinstance(penalty, AnglePenalty)
    rows = look_at_rows(problem)
    rank = min(rows.basis.shape[1], problem.n_classes)
    if isinstance(start, Memory) and not start.fits(problem, rows.fingerprint):
        start = None
    if penalty.omega == 0.0:
        return _without_angles(problem, ledger, penalty, rank, rows.fingerprint, max_iter, seed, n_threads, start)
    assert not isinstance(start, WarmStart)  # there are no duals of the whole machine
    classical, spent = _classical(problem, ledger.tol, max_iter, seed, n_threads, start)
    W, b, _ = classical.machine
    penalty.settle(rank, FLOOR * float(np.linalg.norm(W)) / np.sqrt(max(1, rank)))
    way = _Way(problem, ledger, penalty, classical.bound + penalty.least, spent)
    zero = Machine(np.zeros_like(W), b, _value_at_zero(problem, b))
    if zero.primal - way.bound <= ledger.tol * abs(zero.primal):  # nothing can be better: W = 0 is the optimum
        penalty.settle(rank, 0.0)
        way.note(zero, 0)
        end = Descent(zero, classical.duals, 0.0, 0.0, "optimal", 0)
    else:
        machine, duals, theta = _start(problem, penalty, classical, rows, start)
        way.note(machine, 0)
        settings = seed, n_threads, classical.open_gap
        end = way.descend(machine, duals, theta, max_iter * problem.n_rows, settings)
    certificate = replace(ledger.close(way.epochs(end.visits, max_iter), end.status), stationarity=end.stationarity)
    best = canonical(way.best, rows)
    memory = Memory(rows.fingerprint, problem.y, problem.cost, classical, best, end.duals, end.theta)
    notes = Spread(tuple(way.objectives), tuple(way.min_angles), end.stationarity, memory)
    return Solution(best, None, certificate, notes=notes)


def _value_at_zero(problem: Problem, b: Array) -> float:
    """F(0, b), without a pass over the rows: the loss depends on the class only."""
    losses = problem.loss.value(np.tile(b, (problem.n_classes, 1)), np.arange(problem.n_classes))
    return float(problem.cost @ losses[problem.y]) + problem.penalty.value(np.zeros((problem.n_features, problem.n_classes)))


class _Way:
    """The descent and its record: the best machine by the exact F, and one entry for each step that improved it."""

    def __init__(self, problem: Problem, ledger: Ledger, penalty: AnglePenalty, bound: float, spent: int):
        self.problem, self.ledger, self.penalty, self.bound, self.spent = problem, ledger, penalty, bound, spent
        self.best = Machine(np.zeros((0, 0)), np.zeros(0), np.inf)
        self.objectives: list[float] = []
        self.min_angles: list[float] = []

    def epochs(self, visits: int, max_iter: int) -> int:
        return min(max_iter, -(-(self.spent + visits) // self.problem.n_rows))

    def note(self, machine: Machine, visits: int) -> None:
        if machine.primal < self.best.primal:
            self.best = machine
            self.ledger.add(machine.primal, self.bound, -(-(self.spent + visits) // self.problem.n_rows))
            self.objectives.append(machine.primal)
            self.min_angles.append(smallest_angle(angles_between(machine.W)))

    def descend(
        self, machine: Machine, duals: SparseDuals | None, theta: float, budget: int, settings: tuple[int, int, float]
    ) -> Descent:
        seed, n_threads, open_gap = settings
        angles, tol, left = self.penalty.angles, self.ledger.tol, budget - self.spent

        def run(end: Descent, tol: float, note: Callable[[Machine, int], None]) -> Descent:
            now = (self.problem, self.penalty, end.machine, end.duals, end.theta, tol, left - end.visits)
            more = descend(*now, seed, n_threads, note, open_gap)
            return more._replace(visits=end.visits + more.visits)

        end = Descent(machine, duals, theta, np.inf, "max_iter", 0)
        if not isinstance(angles, Pairwise):
            return run(end, tol, self.note)
        for width in _WIDTHS:  # |cos| with ever less rounded kinks: the first tell where the others should start
            angles.width, before = width, end.visits
            rounded = end.machine._replace(primal=self._with_width(end.machine, 0.0, width))
            end = run(
                end._replace(machine=rounded),
                tol,
                lambda m, v, w=width, b=before: self._note_exact(m, b + v, w),  # type: ignore[misc]
            )
            end = end._replace(machine=end.machine._replace(primal=self._with_width(end.machine, width, 0.0)))
        angles.width = 0.0
        return end

    def _note_exact(self, machine: Machine, visits: int, width: float) -> None:
        self.note(machine._replace(primal=self._with_width(machine, width, 0.0)), visits)

    def _with_width(self, machine: Machine, of: float, to: float) -> float:
        """F with kinks of another width; leaves the penalty at the width it has."""
        angles = self.penalty.angles
        assert isinstance(angles, Pairwise)
        kept, values = angles.width, []
        for angles.width in (of, to):
            values.append(self.penalty.apart(machine.W))
        angles.width = kept
        return machine.primal - values[0] + values[1]


def _without_angles(
    problem: Problem,
    ledger: Ledger,
    penalty: AnglePenalty,
    rank: int,
    fingerprint: Array,
    max_iter: int,
    seed: int,
    n_threads: int,
    start: Memory | WarmStart | None,
) -> Solution:
    """omega = 0: the Crammer-Singer machine itself."""
    plain = replace(problem, penalty=SquaredNorm())
    warm = start if isinstance(start, WarmStart) else _classical_start(problem, start)
    solution = solve(plain, ledger, max_iter=max_iter, seed=seed, n_threads=n_threads, start=warm)
    penalty.settle(rank, FLOOR * float(np.linalg.norm(solution.machine.W)) / np.sqrt(max(1, rank)))
    classical = Classical(solution.machine, solution.duals, ledger.dual, True)
    memory = Memory(fingerprint, problem.y, problem.cost, classical, solution.machine, solution.duals, 0.0)
    objectives = tuple(record.primal for record in solution.certificate.history)
    return solution._replace(notes=Spread(objectives, (smallest_angle(angles_between(solution.machine.W)),), None, memory))


def _classical_start(problem: Problem, start: Memory | None) -> WarmStart | None:
    if start is None or start.classical.duals is None:
        return None
    return WarmStart(_scaled(start.classical.duals, problem.cost / start.cost), start.classical.machine.b)


def _scaled(duals: SparseDuals, factors: Array) -> SparseDuals:
    return duals._replace(values=duals.values * np.repeat(factors, np.diff(duals.starts)))


def _classical(
    problem: Problem, tol: float, max_iter: int, seed: int, n_threads: int, start: Memory | None
) -> tuple[Classical, int]:
    """The Crammer-Singer machine, coarsely, and the row visits it took."""
    if start is not None and np.array_equal(start.cost, problem.cost):
        return start.classical, 0
    plain = replace(problem, penalty=SquaredNorm())
    ledger = Ledger(max(tol, START_TOL))
    near = _classical_start(problem, start)
    solution = dual_ascent(
        plain, ledger, max_iter=min(max_iter, START_EPOCHS), seed=seed, n_threads=n_threads, start=near
    )
    spent = solution.certificate.n_iter
    if ledger.dual >= 0.99 * plain.trivial_value() and ledger.tol > tol and spent < max_iter:
        ledger.tol = tol  # all but W = 0: that is worth a proof
        again = None if solution.duals is None else WarmStart(solution.duals, solution.machine.b)
        solution = solve(plain, ledger, max_iter=max_iter - spent, seed=seed, n_threads=n_threads, start=again)
        spent += solution.certificate.n_iter
    open_gap = 0.0 if ledger.done else ledger.rel_gap
    return Classical(solution.machine, solution.duals, ledger.dual, open_gap), spent * problem.n_rows


def _start(
    problem: Problem, penalty: AnglePenalty, classical: Classical, rows: Rows, memory: Memory | None
) -> tuple[Machine, SparseDuals | None, float]:
    """The best machine to start from, with duals and theta that suit it."""
    best = min(starts(problem, penalty, classical.machine, rows), key=lambda machine: machine.primal)
    if memory is not None:
        W, b, _ = memory.machine
        last = Machine(W, b, problem.primal(W, b))
        if last.primal <= best.primal:
            duals = None if memory.duals is None else _scaled(memory.duals, problem.cost / memory.cost)
            return last, duals, memory.theta
    # a tiny singular value has a huge curvature, but will not stay tiny
    usual = 1.0 + penalty.omega / float(np.vdot(best.W, best.W))
    return best, classical.duals, min(0.5 * penalty.omega * penalty.angles.curvature(best.W), 100.0 * usual)
