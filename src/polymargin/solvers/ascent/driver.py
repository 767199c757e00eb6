"""Dual block-coordinate ascent: one driver for all native loops.

The loops themselves are native (``_core``). Here is what surrounds them: slices of epochs, the moves of offsets, scales and
weights between them (``moves.py``), and when to look at the true gap. A loop's own estimate of its gap costs nothing, but
rows at rest and moves that are not at their end are no part of it; a look takes a pass over the data.

`dual_ascent` is the plainest case, machines with ``R = 1/2 |W|^2``: off-class duals ``a_il >= 0`` make ``W = X' tau`` with
``tau_iy = sum_l a_il``, ``tau_il = -a_il``, and

    P = sum_i u_i loss_i + 1/2 |W|^2        D = sum_il a_il - 1/2 |W|^2        (free intercept: sum_i tau_ik = 0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.ascent.loops import open_loop
from polymargin.solvers.ascent.moves import FixedPoint, FreeIntercept, Move
from polymargin.solvers.bounds import Ray, Repaired, balancing_factors, value_of_loop
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

Array = NDArray[np.float64]
Watch = Callable[[int, Callable[[], SparseDuals]], bool]

UNLIMITED = int(np.iinfo(np.int64).max)


class Rhythm(NamedTuple):
    """How long slices are, and when the true gap is looked at: if it promises the tolerance, or after some slices anyway."""

    epochs: int  # of a slice
    grace: int = 0  # slices without promise before a look
    again: int | None = None  # the same after the first look, if it is another number
    rarer: bool = True  # at least an eighth of all slices so far lies between two looks
    promise: float = 1.0  # estimate that promises the tolerance, in tolerances
    inner: float = 0.3  # relative gap that ends a slice early, in tolerances
    loosely: bool = False  # or in units of what the moves still cost, if that is more
    # when rows look at all classes again, unless a move asks for it: before each slice, after a look, after a promise
    restores: Literal["slice", "look", "promise", "never"] = "slice"

    def next_look(self, slices: int) -> tuple[int, int]:
        """In how many slices a look is next due, if promising and at the latest."""
        earliest = slices + max(1, slices // 8) if self.rarer else slices
        return earliest, earliest + (self.grace if self.again is None else self.again)


class Proof:
    """What an ascent proves when it is looked at; keeps the best machine."""

    best: Machine | None = None

    def values(self, tol: float) -> tuple[float, float]:
        """Primal and dual value of the iterate."""
        raise NotImplementedError

    def machine(self, primal: float) -> Machine:
        """The machine that was last looked at."""
        raise NotImplementedError

    def note(self, ledger: Ledger, epochs: int) -> None:
        primal, dual = self.values(ledger.tol)
        ledger.add(primal, dual, epochs)
        if self.best is None or primal < self.best.primal:
            self.best = self.machine(primal)

    @property
    def best_machine(self) -> Machine:
        assert self.best is not None
        return self.best


class Driver:
    """A native loop and its moves, up to a limit on the visits of rows."""

    def __init__(self, loop: Any, n_rows: int, limit: int, rhythm: Rhythm, moves: Sequence[Move] = ()):
        self.n_rows, self.limit, self.rhythm = n_rows, limit, rhythm
        self.spent = 0  # visits of other loops that count too
        self.loop, self._moves = loop, FixedPoint(moves)
        self.start_anew()

    def reopen(self, loop: Any, moves: Sequence[Move]) -> None:
        """Goes on with another loop."""
        self.spent = self.visits
        self.loop, self._moves, self._is_fresh = loop, FixedPoint(moves), True

    def start_anew(self) -> None:
        """The loop's problem is another one: no moves before its first slice, nothing is remembered of them."""
        self.slices, self._earliest, self._latest = 0, 0, self.rhythm.grace
        self._moves, self._is_fresh, self._looked = FixedPoint(self._moves.moves), True, False

    @property
    def visits(self) -> int:
        return int(self.loop.visits) + self.spent

    @property
    def left(self) -> int:
        return self.limit - self.visits

    @property
    def n_iter(self) -> int:
        """Epochs, those that were begun too."""
        return -(-self.visits // self.n_rows)

    def climb(
        self,
        ledger: Ledger,
        proof: Proof,
        enough: Callable[[], bool] = lambda: False,
        wants_look: Callable[[], bool] = lambda: False,
    ) -> None:
        """Climbs until ``ledger.tol`` is proven, the limit is reached or, after a look, it is `enough`.

        `wants_look` is asked after every slice, and may have reasons of its own to look.
        """
        while True:
            self.advance_to_look(ledger.tol, wants_look)
            proof.note(ledger, max(1, self.visits // self.n_rows))
            if ledger.done or enough() or self.left <= 0:
                return

    def advance_to_look(self, tol: float, wants_look: Callable[[], bool] = lambda: False) -> None:
        """Slices until the true gap should be looked at."""
        while True:
            self.advance(tol)
            if wants_look() or self._look_is_due(tol):
                self._looked = True
                self._earliest, self._latest = self.rhythm.next_look(self.slices)
                return

    def advance(self, tol: float, most: int = UNLIMITED) -> None:
        """Moves, if it is not the first slice, and a slice of epochs."""
        inner = self.rhythm.inner * tol
        if self.rhythm.loosely and not self._is_fresh and self._size > 0.0:  # neither part is driven far below the other
            inner = max(inner, self.rhythm.inner * self._price() / self._size)
        self._move(tol)
        self.loop.ascend(min(self.rhythm.epochs * self.n_rows, self.left, most), inner)
        self.slices += 1
        self._is_fresh = self._looked = False
        for move in self._moves.moves:
            move.see()

    def _move(self, tol: float) -> None:
        after = self.rhythm.restores
        restores = after == "slice"
        if not self._is_fresh:
            restores = restores or (after == "look" and self._looked) or (after == "promise" and self.promises(tol))
            restores = self._moves.go(tol, restores) or restores
        if restores:
            self.loop.restore()

    def promises(self, tol: float) -> bool:
        """Whether the estimate of the gap is so small that a look at the true one should end the climb."""
        estimate, goal = self.loop.estimate, self.rhythm.promise * tol * self._size
        return bool(estimate <= goal and estimate + self._price() <= goal)

    @property
    def _size(self) -> float:
        """About F of the loop's own problem."""
        return float(abs(self.loop.dual + self.loop.estimate))

    def _price(self) -> float:
        return sum(move.price() for move in self._moves.moves)

    def _look_is_due(self, tol: float) -> bool:
        late = self.slices >= self._latest or self.left <= 0
        return late or (self.slices >= self._earliest and self.promises(tol))


class RowsProof(Proof):
    """Of loops over rows with ``R = 1/2 |W|^2``. With a free intercept the duals are repaired first."""

    def __init__(self, problem: Problem, loop: Any, n_threads: int):
        self.problem, self.loop, self._n_threads = problem, loop, n_threads
        self._repaired: Repaired | None = None
        self._inside: SparseDuals | None = None  # where no multiple of the repaired duals is

    def penalty(self) -> float:
        """R of the iterate."""
        return 0.5 * float(self.loop.squared_norm)

    def dual(self, matters: float) -> float:
        """Dual value of the loop's duals; `matters` says what rounding may hide without harm."""
        return value_of_loop(self.loop, self.problem.n_classes, self.problem.longest_row, matters)

    def ray(self, factors: Array) -> Ray:
        """That of the loop's duals times a factor for each pair of classes."""
        room, total, squared_norm = self.loop.scaled(factors)
        self._inside = None
        if room == 0.0:  # a cone: no multiple of these duals lies in it
            outside = SparseDuals(*self.loop.duals()).times(factors, self.problem.y)
            self._inside, total, squared_norm = self.problem.moved_inside(outside)
            room = 1.0
        return Ray(total, 0.5 * squared_norm, room)

    def values(self, tol: float) -> tuple[float, float]:
        primal = self.penalty() + float(self.loop.loss(self._n_threads))
        if not self.problem.fit_intercept:
            return primal, self.dual(tol * primal)
        factors = balancing_factors(self.loop.flows())
        self._repaired = Repaired(factors, self.ray(factors))
        return primal, self._repaired.ray.value

    def machine(self, primal: float) -> Machine:
        b = self.loop.intercepts() if self.problem.fit_intercept else np.zeros(self.problem.n_classes)
        return Machine(self.loop.weights(), b, primal)

    def at_hand(self) -> Machine:
        """The machine that the loop has come to, looked at or not."""
        W, b, _ = self.machine(np.nan)
        return Machine(W, b, self.problem.primal(W, b))

    def duals(self) -> SparseDuals:
        """The duals whose value is the bound."""
        duals = SparseDuals(*self.loop.duals())
        if self._repaired is None:
            return duals
        if self._inside is not None:
            return self._inside._replace(values=self._repaired.ray.best * self._inside.values)
        return self._repaired.duals(duals, self.problem.y)


def climb_rows(
    proof: RowsProof,
    ledger: Ledger,
    plain: Rhythm,
    with_intercept: Rhythm,
    *,
    max_iter: int,
    moves: Sequence[Move] = (),
    scale: float = 1.0,
    start: Start | None = None,
    gives_up: Watch | None = None,
) -> Solution:
    """From `start` until ``ledger.tol`` is certified or ``max_iter`` epochs are used up; a free intercept moves too.

    `scale` is that of the class vectors. `gives_up` is asked after looks at the true gap, with the epochs so far and a
    function that gets the duals.
    """
    problem, loop = proof.problem, proof.loop
    intercept = FreeIntercept(loop, *centre_and_spread(problem.X), scale) if problem.fit_intercept else None
    if start is not None:
        loop.set_duals(*start.duals)
        if intercept is not None:
            intercept.place(start.b)
    ledger.at_hand = proof.at_hand
    moves, rhythm = (moves, plain) if intercept is None else ([*moves, intercept], with_intercept)
    driver = Driver(loop, problem.n_rows, max_iter * problem.n_rows, rhythm, moves)

    def enough() -> bool:
        return gives_up is not None and gives_up(driver.visits // problem.n_rows, lambda: SparseDuals(*loop.duals()))

    driver.climb(ledger, proof, enough)
    return Solution(proof.best_machine, proof.duals(), ledger.close(min(max_iter, driver.n_iter)))


_PLAIN = Rhythm(epochs=100, grace=1, rarer=False, inner=1.0, restores="promise")
_WITH_INTERCEPT = Rhythm(epochs=10, grace=8)


def dual_ascent(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    gives_up: Watch | None = None,
) -> Solution:
    """Solves `problem` until ``ledger.tol`` is certified or ``max_iter`` epochs are used up, or `gives_up` says so."""
    proof = RowsProof(problem, open_loop(problem, seed), n_threads)
    return climb_rows(proof, ledger, _PLAIN, _WITH_INTERCEPT, max_iter=max_iter, start=start, gives_up=gives_up)
