"""Dual block-coordinate ascent: one driver for all native loops.

The loops themselves are native (``_core``). Here is what surrounds them: slices of epochs, the moves of offsets, scales and
weights between them (``moves.py``), and when to look at the true gap. A loop's own estimate of its gap costs nothing, but
rows at rest and moves that are not at their end are no part of it; a look takes a pass over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.problems.labels import LabelProblem
from polymargin.problems.sets import SetProblem
from polymargin.solvers.ascent.moves import FixedPoint, Move
from polymargin.solvers.types import Machine

Array = NDArray[np.float64]

UNLIMITED = int(np.iinfo(np.int64).max)
_TRUSTED = 1.4  # tolerances that end a slice where estimates are trusted: a loop asks itself for 0.7 of them
_RESTED = 0.02  # of the rows of an epoch may, and its estimate is that of all of them
_NEAR, _SLOW = 2.0, 0.5  # tolerances from which on slices are averaged, and what the last one must have left of an estimate
_AVERAGED = 0.75  # of an estimate at the end of such a slice, which its average has left
_QUICK, _QUICKEST = 0.75, 0.25  # part of an estimate that is left after an epoch; quicker ones do not last

Loop = TypeVar("Loop", native.RowLoop, native.BandLoop, native.LabelLoop, native.RankingLoop)


class Rhythm(NamedTuple):
    """How long slices are, and when the true gap is looked at: if it promises the tolerance, or after some slices anyway."""

    epochs: int  # of a slice
    grace: int = 0  # slices without promise before a look
    inner: float = 0.3  # relative gap that ends a slice early, in tolerances
    loosely: bool = False  # or in units of what the moves still cost, if that is more
    restores: Literal["slice", "look"] = "slice"  # before or after which rows look at all classes again
    foresees: bool = False  # whether a slice ends where the pace of the last one says that the tolerance is reached


class Proof:
    """What an ascent proves when it is looked at; keeps the best machine."""

    problem: Problem | LabelProblem | SetProblem
    best: Machine | None = None

    def values(self, tol: float) -> tuple[float, float]:
        """Primal and dual value of the iterate."""
        raise NotImplementedError

    def iterate(self) -> tuple[Array, Array]:
        """Class vectors and offsets, looked at or not."""
        raise NotImplementedError

    def note(self, ledger: Ledger, epochs: int) -> None:
        primal, dual = self.values(ledger.tol)
        ledger.add(primal, dual, epochs)
        if self.best is None or primal < self.best.primal:
            self.best = Machine(*self.iterate(), primal)

    def trust(self, ledger: Ledger, epochs: int, primal: float) -> bool:
        """Takes what the loop believes about F without a look, if that would cost much; whether it did."""
        return False

    @property
    def best_machine(self) -> Machine:
        assert self.best is not None
        return self.best

    def at_hand(self) -> Machine:
        """The machine that the loop has come to."""
        W, b = self.iterate()
        return Machine(W, b, self.problem.primal(W, b))


class Driver(Generic[Loop]):
    """A native loop and its moves, up to a limit on the visits of rows."""

    def __init__(
        self,
        loop: Loop,
        n_rows: int,
        limit: int,
        rhythm: Rhythm,
        moves: Sequence[Move] = (),
        averages: Callable[[bool], None] | None = None,
    ):
        """`averages` asks the loop to average the epochs of its next slice, or not."""
        self.n_rows, self.limit, self.rhythm = n_rows, limit, rhythm
        self._inner = rhythm.inner
        self._averages, self._is_averaged, self._left = averages, False, 0.0
        self.spent = 0  # visits of other loops that count too
        self.loop: Loop = loop
        self._moves = FixedPoint(moves)
        self.start_anew()

    def reopen(self, loop: Loop, moves: Sequence[Move]) -> None:
        """Goes on with another loop."""
        self.spent = self.visits
        self.loop, self._moves, self._is_fresh = loop, FixedPoint(moves), True

    def start_anew(self) -> None:
        """The loop's problem is another one: no moves before its first slice, nothing is remembered of them."""
        self.slices, self._earliest, self._latest, self._pace = 0, 0, self.rhythm.grace, 1.0
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
        self._inner = _TRUSTED if ledger.trusts_estimates else self.rhythm.inner
        while True:
            self.advance_to_look(ledger.tol, wants_look)
            epochs = max(1, self.visits // self.n_rows)
            if ledger.trusts_estimates and self.promises(ledger.tol) and proof.trust(ledger, epochs, self._size):
                return
            proof.note(ledger, epochs)
            if ledger.done or enough() or self.left <= 0:
                return

    def advance_to_look(self, tol: float, wants_look: Callable[[], bool] = lambda: False) -> None:
        """Slices until the true gap should be looked at."""
        while True:
            self.advance(tol)
            if wants_look() or self._look_is_due(tol):
                self._looked = True
                self._earliest = self.slices + max(1, self.slices // 8)  # looks become rarer
                self._latest = self._earliest + self.rhythm.grace
                return

    def advance(self, tol: float, most: int = UNLIMITED) -> None:
        """Moves, if it is not the first slice, and a slice of epochs."""
        epochs, before = self._epochs_ahead(tol), self._seen_so_far()
        inner = self._inner * tol
        if self.rhythm.loosely and not self._is_fresh and self._size > 0.0:  # neither part is driven far below the other
            inner = max(inner, self.rhythm.inner * self._price() / self._size)
        if not self._is_fresh:
            self._moves.go(tol)
        if self._looked or self.rhythm.restores == "slice":
            self.loop.restore()
        estimate = float(self.loop.estimate)
        self._choose_machine(tol)
        self.loop.ascend(min(epochs * self.n_rows, self.left, most), inner)
        self._left = float(self.loop.estimate) / estimate if 0.0 < estimate < np.inf else 0.0
        self._note_pace(before)
        self.slices += 1
        self._is_fresh = self._looked = False
        for move in self._moves.moves:
            move.see()

    def _choose_machine(self, tol: float) -> None:
        """The average of the next slice's epochs, where it may be the last one.

        Where estimates fall slowly much of them is what the last visits of rows have left in the machine.
        """
        if self._averages is not None:
            self._is_averaged = self._left >= _SLOW and 0.0 < float(self.loop.estimate) <= float(_NEAR * tol * self._size)
            self._averages(self._is_averaged)

    def _seen_so_far(self) -> tuple[float, int, float]:
        """Estimate, epochs, and visits in epochs of all rows."""
        if not self.rhythm.foresees:
            return np.inf, 0, 0.0
        return float(self.loop.estimate), int(self.loop.epochs), self.loop.visits / self.n_rows

    def _note_pace(self, before: tuple[float, int, float]) -> None:
        """What is left of the estimate after an epoch; 1 where that cannot be said, as some rows rested.

        1 too where it is slow, and slices of the usual length lose little.
        """
        self._pace = 1.0
        now = self._seen_so_far()
        epochs, visited = now[1] - before[1], now[2] - before[2]
        if 0.0 < now[0] < before[0] < np.inf and epochs > 0 and abs(visited - epochs) <= _RESTED * epochs:
            pace = (now[0] / before[0]) ** (1.0 / epochs)
            self._pace = max(pace, _QUICKEST) if pace < _QUICK else 1.0

    def _epochs_ahead(self, tol: float) -> int:
        """Of the next slice: no more than the tolerance needs."""
        estimate, goal = float(self.loop.estimate), tol * self._size
        if self._is_fresh or not self._pace < 1.0 or not min(estimate, goal) > 0.0:
            return self.rhythm.epochs
        needed = np.log(goal / estimate) / np.log(self._pace) - 0.5
        return int(np.clip(np.ceil(needed), 1, self.rhythm.epochs))

    def promises(self, tol: float) -> bool:
        """Whether the estimate of the gap is so small that a look at the true one should end the climb.

        Rows were seen half an epoch ago, on average, and what they have gained since is no longer part of the gap.
        """
        part = _AVERAGED if self._is_averaged else self._pace**0.5
        estimate, goal = self.loop.estimate * part, tol * self._size
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
