"""The central path, followed by Mehrotra's predictor-corrector over a block and a system.

A *block* holds what a loss adds to the unknowns V: slacks and multipliers of its rows, whose products are all equal on the
central path and 0 at the optimum. A *system* is what is left of a Newton step once they are eliminated: a linear system in V
alone. `Path` joins the two; what a machine does in its own way (a penalty that is not quadratic, what an iterate proves,
when rounding is to blame) are methods of its path.

References: Mehrotra, SIAM J. Optim. 2 (1992) 575-601 (predictor-corrector); Gondzio, Comput. Optim. Appl. 6 (1996) 137-156
(centrality correctors).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHORTEST = 1e-10  # a step below is none: rounding has taken over
N_CORRECTORS, LONGER = 3, 0.4  # at most so many centrality correctors, each for a step longer by so much
LONG_ENOUGH = 0.9  # a step that needs no corrector
WORTHWHILE = 0.02  # a corrector that lengthens the step by less is the last


class Block(Protocol):
    """Slacks and multipliers of a loss, and the direction they are about to take."""

    direction: Any

    def linearise(self) -> Any:
        """Condenses them at the iterate: the curvature in the scores, as the system takes it."""

    def aim(self, target: Any) -> Array:
        """Aims at multiplier x slack = target: what pulls at the scores as long as these stay, or the change of that."""

    def follow(self, dS: Array) -> None:
        """Completes the direction that was aimed at with that of the scores."""

    def longest_step(self) -> float:
        """The longest step along the direction that keeps everything non-negative."""

    def mehrotra_target(self, size: float) -> tuple[Any, float]:
        """Target of the corrector after an affine step of this size, and its barrier parameter."""

    def gondzio_target(self, target: Any, size: float, barrier: float) -> Any:
        """Target of a centrality corrector for a step of this size; None if there is no such corrector."""

    def step(self, size: float) -> None:
        """Moves along the direction."""


class Path(ABC):
    """An iterate inside all bounds, and the direction it is about to take."""

    block: Block
    V: Array  # the unknowns
    dV: Array  # their direction
    to_boundary = 0.995  # of the longest step

    @abstractmethod
    def prove(self, n_iter: int) -> bool:
        """Evaluates and certifies the iterate; whether that is enough."""

    @abstractmethod
    def stalls(self) -> bool:
        """Whether rounding has stopped the progress; asked once after each `prove`."""

    @abstractmethod
    def linearise(self) -> None:
        """Condenses the block at the iterate and factorises the system."""

    @abstractmethod
    def direction_of(self, pull: Array, target: Any) -> tuple[Array, Array]:
        """Solves the system for what the block aims at: directions of V and of the scores."""

    def newton(self, target: Any) -> float:
        """The direction towards products equal to `target`; its longest step, 0 if rounding leaves none."""
        self.dV, dS = self.direction_of(self.block.aim(target), target)
        if not np.isfinite(self.dV).all():
            return 0.0
        self.block.follow(dS)
        return self.longest_step()

    def longest_step(self) -> float:
        """The longest step along the direction that keeps slacks and multipliers non-negative."""
        return self.block.longest_step()

    def shortened(self, size: float) -> float:
        """A step no longer than `size` that what is not linear allows."""
        return size

    def mehrotra_target(self, size: float) -> tuple[Any, float]:
        """Target of the corrector after an affine step of this size, and its barrier parameter."""
        return self.block.mehrotra_target(size)

    def step(self, size: float) -> None:
        """Moves along the direction."""
        self.block.step(size)
        self.V += size * self.dV


def follow_central_path(path: Path, max_iter: int) -> tuple[str, int]:
    """Follows the path until it has proved enough or can do no more: what to say then if it is not enough, and its steps."""
    n_iter = 0
    while not path.prove(n_iter) and n_iter < max_iter:
        if path.stalls():
            return "stalled", n_iter
        try:
            with np.errstate(all="ignore"):  # at the limit of rounding a direction may overflow: it is not taken
                size = _choose_direction(path)
        except (FloatingPointError, np.linalg.LinAlgError):
            size = 0.0
        if not size > SHORTEST:
            return "stalled", n_iter
        path.step(size)
        n_iter += 1
    return "max_iter", n_iter


def _choose_direction(path: Path) -> float:
    """Predictor, corrector and as many centrality correctors as pay; returns how far to go."""
    path.linearise()
    longest = path.newton(0.0)  # the predictor aims at the optimum itself
    if not longest > 0.0:
        return 0.0
    target, barrier = path.mehrotra_target(path.shortened(min(1.0, longest)))
    longest = _with_correctors(path, target, barrier, path.newton(target))
    return path.shortened(min(1.0, path.to_boundary * longest))


def _with_correctors(path: Path, target: Any, barrier: float, longest: float) -> float:
    """Centrality correctors while they lengthen the step; returns the longest one."""
    for _ in range(N_CORRECTORS):
        if longest > LONG_ENOUGH:
            break
        kept = path.dV, path.block.direction
        target = path.block.gondzio_target(target, min(1.0, longest + LONGER), barrier)
        if target is None:
            break
        longer = path.newton(target)
        if not longer > longest:
            path.dV, path.block.direction = kept
            break
        gained, longest = longer - longest, longer
        if gained < WORTHWHILE:
            break
    return longest
