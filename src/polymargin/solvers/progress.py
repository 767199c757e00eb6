"""How far a method is from its end: extrapolation of fixed points, stalls, forecasts."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Anderson:
    """Anderson's extrapolation (type II) of the fixed-point iteration ``x <- x + f(x)`` with a short memory.

    A proposal many times longer than the plain step is distrusted and replaced by it.
    """

    def __init__(self, memory: int = 5, longest: float = 20.0):
        self._points: deque[Array] = deque(maxlen=memory + 1)
        self._steps: deque[Array] = deque(maxlen=memory + 1)
        self._longest = longest

    def __call__(self, x: Array, f: Array) -> Array:
        self._points.append(x)
        self._steps.append(f)
        plain = x + f
        if len(self._points) < 2:
            return plain
        dF = np.diff(np.asarray(self._steps), axis=0)
        dX = np.diff(np.asarray(self._points), axis=0)
        gram = dF @ dF.T
        ridge = 1e-10 * np.trace(gram)
        if not ridge > 0.0:
            return plain
        weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), dF @ f)
        proposal = plain - (dX + dF).T @ weights
        if np.abs(proposal - x).max() > self._longest * np.abs(f).max():
            return plain
        return proposal


class Stall:
    """Says when values no longer fall: none has come down to its factor of its mark for more than `patience` steps.

    Marks are the least values at the last progress, so that slow progress adds up; if each step `must_pay`, they are the
    least values of all steps. `share` is a part of all steps so far that a method may wait if that is more.
    """

    def __init__(self, patience: float, *factors: float, must_pay: bool = False, share: float = 0.0):
        self._patience, self._factors, self._must_pay, self._share = patience, factors, must_pay, share
        self._marks = [np.inf] * len(factors)
        self._now = self._since = 0.0

    @property
    def waited(self) -> float:
        """Steps since the last progress."""
        return self._now - self._since

    def note(self, *values: float, at: float | None = None, excused: bool = False) -> bool:
        """Notes the values of another step, or of step `at`; whether they have stalled.

        A step that is `excused` counts as progress, and its values are the marks.
        """
        self._now = self._now + 1.0 if at is None else at
        marks = list(zip(values, self._factors, self._marks, strict=True))
        fell = any(value <= factor * mark for value, factor, mark in marks)
        if excused:
            self._marks = list(values)
        elif fell or self._must_pay:
            self._marks = [min(mark, value) for value, _, mark in marks]
        if fell or excused:
            self._since = self._now
        return self.waited > max(self._patience, self._share * self._now)


class Forecast:
    """How many more steps something needs, from the pace at which its distance to the goal has fallen lately."""

    def __init__(self, span: int):
        self._span = span  # steps over which the pace is seen, at least
        self._seen: tuple[int, float] | None = None

    def needed(self, step: int, distance: float) -> float | None:
        """Steps from here; None while that cannot be said."""
        before = self._seen
        if before is not None and step - before[0] < self._span:
            return None
        self._seen = step, distance
        if before is None:
            return None
        rate = (before[1] - distance) / (step - before[0])
        return distance / rate if rate > 0.0 else np.inf
