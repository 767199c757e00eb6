"""What moves beside the duals of an ascent, in few numbers: offsets, class scales, weights of pairs of classes.

Each is a fixed-point iteration ``x <- x + f(x)``, made between two slices of epochs. All that move at a time are one
iteration, as they depend on each other, and Anderson's extrapolation shortens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.penalties import Penalty
from polymargin.penalties.block_norm import half_square
from polymargin.penalties.capabilities import ClassScaling
from polymargin.solvers.ascent.loops import LoopOfRows
from polymargin.solvers.progress import Anderson

if TYPE_CHECKING:
    from polymargin.solvers.ascent.pair_weights import PairMetric

Array = NDArray[np.float64]

_PART_OF_SQUARE = 0.2  # of the mean squared norm of the centred rows, for 1/rho
_DRIFT = 0.5  # of log beta, after which classes that left a row's list are looked at again
_FIRST_MOVES = 3  # of weights of pairs, which never rest
_PRICE = 3e-5, 0.3  # relative, and in tolerances: weights of pairs that cost less than both rest
_STRETCH = 2.0  # how far new weights of pairs may stretch the duals at once


class Move:
    """One of them. A slice of epochs is followed by `see`, and `step` and `go` come before the next one."""

    def see(self) -> None:
        """Reads from the loop what price and step are made of."""

    def price(self) -> float:
        """What the gap has more than the loop's own estimate, because the numbers are not yet where they should be."""
        return 0.0

    def step(self, tol: float) -> tuple[Array, Array] | None:
        """Where the numbers are and the step they would make; None if they rest, as a gap of `tol` does not need them."""
        raise NotImplementedError

    def go(self, to: Array) -> None:
        """Moves there."""
        raise NotImplementedError


class FixedPoint:
    """Some moves as one iteration. While some rest, the others are another one."""

    def __init__(self, moves: Sequence[Move]):
        self.moves = moves
        self._who: tuple[int, ...] = ()
        self._memory = Anderson()

    def go(self, tol: float) -> None:
        steps = {k: step for k, move in enumerate(self.moves) if (step := move.step(tol)) is not None}
        if not steps:
            return
        if tuple(steps) != self._who:
            self._who, self._memory = tuple(steps), Anderson()
        x, f = (np.concatenate(parts) for parts in zip(*steps.values(), strict=True))
        ends = np.cumsum([len(at) for at, _ in steps.values()])
        for k, to in zip(steps, np.split(self._memory(x, f), ends[:-1]), strict=True):
            self.moves[k].go(to)


class FreeIntercept(Move):
    """The proximal-point iteration on b: the centre of ``(rho/2) |b - centre|^2`` moves to b."""

    def __init__(
        self,
        loop: LoopOfRows | native.RankingLoop,
        means: Array,
        mean_square: float,
        scale: float = 1.0,
        least: float = 0.0,
    ):
        """With the rows' means and mean squared distance from them (``centre_and_spread``).

        A constant 1/rho of a part of that, times the `scale` of the class vectors, keeps the row sub-problems well
        conditioned; it must be at `least` so large.
        """
        self._loop, self._means = loop, means
        self._inverse_rho = max(_PART_OF_SQUARE * mean_square * scale if mean_square > 0.0 else 1.0, least)
        loop.start_intercept(means, self._inverse_rho)

    @property
    def reach(self) -> float:
        """How much longer than a row it may be when it is centred."""
        return float(np.linalg.norm(self._means))

    def place(self, b: Array, W: Array | None = None) -> None:
        """Starts at offsets b, beside class vectors W or those of the loop's duals."""
        self._loop.move_centre(b + self._means @ (self._loop.weights() if W is None else W))

    def step(self, tol: float) -> tuple[Array, Array]:
        return self._loop.centre(), self._inverse_rho * self._loop.sums()

    def go(self, to: Array) -> None:
        self._loop.move_centre(to)


class LabelOffsets(Move):
    """The same for One versus None, whose loop knows its next centre."""

    def __init__(self, loop: native.LabelLoop):
        self._loop = loop

    def step(self, tol: float) -> tuple[Array, Array]:
        centre = self._loop.centre()
        return centre, self._loop.next_centre() - centre

    def go(self, to: Array) -> None:
        self._loop.move_centre(to)


class LoopOfScales(Protocol):
    """What class scales ask of a loop: the squared norms of Z, and to follow them."""

    def squared_norms(self) -> Array: ...
    def rescale(self, scales: Array, squares: Array) -> None: ...
    def restore(self) -> None: ...


class LoopOfPairs(Protocol):
    """What weights of pairs ask of a loop: its class vectors, in any coordinates, its dual, and to follow them."""

    def weights(self) -> Array: ...
    @property
    def dual(self) -> float: ...
    @property
    def dual_sum(self) -> float: ...
    def change_metric(self, P: Array, multiple: float) -> None: ...


class ClassScales(Move):
    """Class scales beta of a block norm (``row_ascent.py``): log beta follows the lengths of the class vectors."""

    def __init__(self, loop: LoopOfScales, scaling: ClassScaling, scales: Array):
        self._loop, self._scaling, self._drift = loop, scaling, 0.0
        self.scales, self.squares = scaling.normalised(scales), np.zeros(len(scales))  # of the norms |z_k|
        loop.rescale(self.scales, self.squares)

    def see(self) -> None:
        self.squares = self._loop.squared_norms()

    def price(self) -> float:
        """Fenchel's inequality for w and z, in the block norms."""
        penalty = self.primal_penalty + self.conjugate(self.squares)
        return max(0.0, penalty - float(self.scales @ self.squares))

    @property
    def primal_penalty(self) -> float:
        """R of the class vectors ``beta_k z_k``."""
        return half_square(self.scales * np.sqrt(self.squares), self._scaling.p)

    def conjugate(self, squares: Array) -> float:
        """R* of vectors z_k of these squared norms."""
        return half_square(np.sqrt(squares), self._scaling.dual_p)

    def step(self, tol: float) -> tuple[Array, Array]:
        return np.log(self.scales), self._scaling.log_step(self.scales, self.scales * np.sqrt(self.squares))

    def go(self, to: Array) -> None:
        before, self.scales = self.scales, self._scaling.scales_at(to)
        self._loop.rescale(self.scales, self.squares)
        self._drift += float(np.abs(np.log(self.scales / before)).max())
        if self._drift > _DRIFT:
            self._drift = 0.0
            self._loop.restore()


class PairWeights(Move):
    """Weights Q of pairs of classes (``pair_weights.py``): log Q follows the distances between the class vectors."""

    def __init__(self, loop: LoopOfPairs, penalty: Penalty, metric: PairMetric, first: int = _FIRST_MOVES):
        self._loop, self._penalty, self._metric = loop, penalty, metric
        self._first = first  # moves that are always made, before they may rest
        self._price: float | None = None
        loop.change_metric(metric.P, 1.0)

    def see(self) -> None:
        self.W = self._loop.weights()
        self._Z = self.W @ self._metric.L
        self._price = None

    @property
    def size(self) -> float:
        """What is relative is so to it."""
        return max(abs(self._loop.dual), 1e-300)

    def price(self) -> float:
        """Fenchel's inequality ``R(W) + R*(Z) >= <W, Z>``: (c, c) matrices only."""
        if self._price is None:
            cost, _ = self._penalty.conjugate_along(self._penalty.model(self.W, 0.0), self._Z)
            self._price = self._penalty.value(self.W) + cost(1.0) - float((self.W * self._Z).sum())
        return self._price

    def step(self, tol: float) -> tuple[Array, Array] | None:
        if self._first <= 0 and not self.price() > min(_PRICE[0], _PRICE[1] * tol) * self.size:
            return None
        self._first -= 1
        return self._metric.log_Q, self._metric.step(self.W)

    def go(self, to: Array) -> None:
        """Moves the duals too, to their best multiple for the new metric; the loop restores its rows itself."""
        self._metric.set(to)
        norm = float((self._Z * (self._Z @ self._metric.P)).sum())
        multiple = self._loop.dual_sum / norm if norm > 0.0 else 1.0
        self._loop.change_metric(self._metric.P, float(np.clip(multiple, 1.0 / _STRETCH, _STRETCH)))
