"""Where the descent of a machine with angles starts.

The objective is not convex, and the heavier the angles, the worse is the stationary point next to the machine without them.
Known machines are that one with a common vector (``row_space.py``), and the last one of a warm start. Where omega is not
small beside ``|W|^2`` of the machine without angles, and a bound leaves much open, a path is followed from there:

    a rounded path   L-BFGS with an omega that grows and a hinge less and less rounded (``rounded.py``); also from a random
                     machine, if that promises more
    a climb          exact descents with an omega that grows: for hard margins, where a rounded hinge is no help

Further starts are rounded paths from other random machines. The best is taken, by the exact F.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.models.angles.angle_models import Place, Settings, angular, descend_by_tangents
from polymargin.solvers.models.angles.rounded import GROWTH, NARROW, WIDTHS, follow, unit_of_width
from polymargin.solvers.models.angles.row_space import Rows, random_machine, starts
from polymargin.solvers.types import Machine, Solution, SparseDuals

HEAVY = 0.5  # omega, in |W|^2 of the machine without angles, from which paths are followed
WORTH = 0.02  # and the share of F that a bound must leave open
NEAR = 3.0  # omega in the same unit up to which the kinks at the known start are worth keeping
HARD = 0.1  # widths, relative to the usual ones, below which margins are hard
WIDEST = 0.1  # width of rounded kinks at first
CLIMB_GROWTH, CLIMB_TOL = 4.0, 1e-3  # of omega, and how exact the machines are on the way
LONGEST = 1e6  # way of omega
_SHARE = 0.8  # of the passes over the rows that a path may take

Array = NDArray[np.float64]


class Classical(NamedTuple):
    """The machine of a problem without angles, its duals and the bound they prove."""

    machine: Machine
    duals: SparseDuals | None
    bound: float
    open_gap: float  # relative; 0 if it was solved to the coarse tolerance of a start

    @classmethod
    def of(cls, solution: Solution, ledger: Ledger) -> Classical:
        return cls(solution.machine, solution.duals, ledger.dual, 0.0 if ledger.done else ledger.rel_gap)

    @property
    def size(self) -> float:
        """``|W|^2``."""
        return float(np.vdot(self.machine.W, self.machine.W))


class Memory(NamedTuple):
    """What a fit leaves for a warm start, all of it for the rows as the solver saw them; `fingerprint` knows those."""

    fingerprint: Array
    y: NDArray[np.int32]
    cost: Array
    omega: float
    classical: Classical
    machine: Machine
    duals: SparseDuals | None
    theta: float | None
    loss: tuple[str, tuple[float, ...], bytes]

    def fits(self, problem: Problem, fingerprint: Array) -> bool:
        same_shape = self.machine.W.shape == (problem.n_features, problem.n_classes) and self.loss == facts_of_loss(problem)
        return same_shape and np.array_equal(self.y, problem.y) and np.array_equal(self.fingerprint, fingerprint)

    def scaled(self, duals: SparseDuals | None, cost: Array) -> SparseDuals | None:
        """The duals, feasible for other costs."""
        if duals is None:
            return None
        return duals._replace(values=duals.values * np.repeat(cost / self.cost, np.diff(duals.starts)))


def facts_of_loss(problem: Problem) -> tuple[str, tuple[float, ...], bytes]:
    """What makes two losses the same."""
    loss = problem.loss
    return loss.name, loss.row_parameters, np.asarray(loss.targets(problem.n_classes)).tobytes()


class Starts:
    """The starts of one problem, for descents with these settings."""

    def __init__(
        self, problem: Problem, classical: Classical, rows: Rows, memory: Memory | None, settings: Settings
    ):
        self.problem, self.penalty, self.classical, self.memory = problem, angular(problem), classical, memory
        self.settings = settings
        self.known = self._known(rows)

    def best(self, n_starts: int, max_passes: int) -> tuple[Place, int]:
        """The best start, and the passes over the rows that it took; each path may take a part of `max_passes`."""
        best, spent, most = self.known, 0, int(_SHARE * max_passes)
        if most and self._path_pays():
            path, spent = self._path(most)
            best = min(best, path, key=_primal)
        for number in range(1, n_starts if most else 1):
            path, passes = self._follow([self._random(self.settings.seed, number)], WIDTHS, most)
            if _primal(path) < _primal(best):
                best, spent = path, passes
        return best, spent

    def _known(self, rows: Rows) -> Place:
        """The best machine without a path."""
        problem, memory = self.problem, self.memory
        best = min(starts(problem, self.penalty, self.classical.machine, rows), key=lambda machine: machine.primal)
        if memory is not None:
            last = _valued(problem, memory.machine)
            if last.primal <= best.primal:
                return Place(last, memory.scaled(memory.duals, problem.cost), memory.theta)
        return Place(best, self.classical.duals)

    def _path_pays(self) -> bool:
        primal, bound = _primal(self.known), self.classical.bound + self.penalty.least
        weight = self.penalty.omega
        if self.penalty.angles.smooth:  # where most rows meet their margins the known start is good
            weight *= unit_of_width(self.problem, primal)
        return weight >= HEAVY * self.classical.size and primal - bound > WORTH * (primal - self.penalty.least)

    def _path(self, most: int) -> tuple[Place, int]:
        machine, omega, memory = self.known.machine, self.penalty.omega, self.memory
        lightest = max(self.classical.size, omega / LONGEST)  # where the angles do not outweigh the rest
        if unit_of_width(self.problem, machine.primal) < HARD:
            return self._climb(lightest, most)
        kinks = not self.penalty.angles.smooth and omega <= NEAR * lightest
        if kinks or (memory is not None and memory.omega > omega / GROWTH):
            return self._follow([(machine, omega)], NARROW, most)  # wide rounding would leave its basin
        return self._follow([(machine, lightest), self._random(0)], WIDTHS, most)

    def _random(self, *seed: int) -> tuple[Machine, float]:
        rng = np.random.default_rng(seed)
        size = float(np.sqrt(self.classical.size)) or 1.0
        return random_machine(self.problem, size, rng), self.penalty.omega

    def _follow(self, begins: list[tuple[Machine, float]], widths: tuple[float, ...], most: int) -> tuple[Place, int]:
        return follow(self.problem, begins, widths, most, self.settings.tol)

    def _climb(self, omega: float, most: int) -> tuple[Place, int]:
        n, visits, place = self.problem.n_rows, 0, self.known
        while omega < self.penalty.omega / CLIMB_GROWTH and visits < most * n:
            penalty = self.penalty.with_(omega, self.penalty.angles.rounded(WIDEST))
            problem = replace(self.problem, penalty=penalty)
            start = Place(_valued(problem, place.machine), place.duals)
            settings = self.settings._replace(tol=CLIMB_TOL, max_visits=most * n - visits)
            end = descend_by_tangents(problem, start, settings, lambda machine, visits: None)
            place, visits, omega = end.place, visits + end.visits, CLIMB_GROWTH * omega
        return Place(_valued(self.problem, place.machine), place.duals), -(-visits // n)


def _valued(problem: Problem, machine: Machine) -> Machine:
    """The machine with its objective in this problem."""
    return machine._replace(primal=problem.primal(machine.W, machine.b))


def _primal(start: Place) -> float:
    return start.machine.primal
