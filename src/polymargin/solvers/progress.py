"""How far a method is from its end: extrapolation of fixed points, stalls, pace."""

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
