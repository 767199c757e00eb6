"""The proximal method of multipliers with Newton steps: for data on which dual ascent crawls.

A machine ``min_v R(v) + sum_i max_{a in A_i} <a, e_i(v)> - h_i(a)`` with margins e that are linear in its unknowns v is not
smooth. Around duals a' that are known already it becomes so,

    min_v  R(v) + sum_i max_{a in A_i} <a, e_i(v)> - h_i(a) - |a - a'_i|^2 / (2 sigma)

and the duals that attain the maximum are the next a'. The larger sigma, the fewer rounds are needed, and the more Newton
steps each of them takes. This is the augmented Lagrangian method with semismooth Newton steps. What differs is the linear
algebra: on free duals where those are few (`augmented.py`), on the unknowns where those are few (`proximal.py`).

References: Rockafellar, Math. Oper. Res. 1 (1976) 97-116; Li, Sun & Toh, SIAM J. Optim. 28 (2018) 433-458.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")  # a machine, and what is known of the smooth problem there
D = TypeVar("D")  # a Newton step


class Round(NamedTuple, Generic[P]):
    """How a round ended: where, after how many steps, how long the last one was, and if `stops` ended it."""

    point: P
    steps: int
    length: float
    stopped: bool


class MultiplierMethod(ABC, Generic[P, D]):
    """Rounds of Newton steps on one smooth problem each, and the moves of its centre between them."""

    def rounds(self) -> Round[P] | None:
        """Rounds until the method has got there or gives up; how the last one ended, None if a system was too large."""
        while True:
            end = self._round()
            if end is None:
                return None
            if not self._move_centre(end):
                return end

    def _round(self) -> Round[P] | None:
        point, steps, length = self._begin_round(), 0, 1.0
        while not self._stops(point, steps):
            direction = self._direction(point)
            if direction is None:
                return None
            length, point = self._search(point, direction)
            steps += length > 0.0
            if self._is_solved(point, direction, length):
                return Round(point, steps, length, stopped=False)
            point = self._between_steps(point, steps, length)
        return Round(point, steps, length, stopped=True)

    @abstractmethod
    def _begin_round(self) -> P:
        """The point at hand, seen from the centre."""

    @abstractmethod
    def _stops(self, point: P, steps: int) -> bool:
        """Whether no further step is wanted, or allowed."""

    @abstractmethod
    def _direction(self, point: P) -> D | None:
        """Newton's step; None if its system is too large."""

    @abstractmethod
    def _search(self, point: P, direction: D) -> tuple[float, P]:
        """How far to go, and where that leads; a length of 0 is a step that rounding forbids."""

    @abstractmethod
    def _is_solved(self, point: P, direction: D, length: float) -> bool:
        """Whether the smooth problem is solved as far as it pays, a step having led to this point."""

    def _between_steps(self, point: P, steps: int, length: float) -> P:
        """The point of the next step: the same, unless the smooth problem changes on the way."""
        return point

    @abstractmethod
    def _move_centre(self, end: Round[P]) -> bool:
        """Moves to the duals of the point, and adapts sigma; whether there is another round."""
