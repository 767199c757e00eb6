"""Dual ascent over all parts, with the face of a native loop: the driver, its moves and the proofs see no difference.

Every part climbs from the common machine as if the others stood still; together they go too far in what they agree on, not
far enough in what only one of them sees. One step size cannot serve both. As in conjugate gradients the last move is a
second direction: the best point of the plane, rows brought back into their domains, the best step towards that, if it is
better than the best step of the climbs alone. A round is two sums over the parts.

The machine of the duals swings around the best one long after their value has settled. So the losses that a round asks for
are those of machines on the way from the best one so far to that of the duals, and the best of these is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.distributed import work
from polymargin.distributed.communicator import NUMBER, Communicator
from polymargin.distributed.work import Climbed, Intercept, Looks, Scaled, Shared, Sums, Turned
from polymargin.problems.classes import Problem
from polymargin.solvers.types import NO_DUALS, Machine, SparseDuals

Array = NDArray[np.float64]

EPOCHS = 2  # of a climb beside the others, which costs a round of messages
EPOCHS_OF_TURNS = 1  # of a visit in turn: rows are read for it, but their neighbours on disk are not waited for
_PROMISED, _KNOWN = 0.7, 0.98  # of a tolerance, before a slice ends early: by an estimate, and by the gap itself
_ON_THE_WAY = (0.25, 0.5, 1.0)  # from the best machine to that of the duals


class Direction(NamedTuple):
    """A move of the duals: of the linear part of their value, and of the sums of rows.

    Squared losses take half the square of the duals off their value: its product of the duals with the move, and of that
    with itself.
    """

    linear: float
    V: Array
    sums: Array
    with_duals: float = 0.0
    with_itself: float = 0.0

    def times(self, t: float) -> Direction:
        return Direction(t * self.linear, t * self.V, t * self.sums)


class PartsLoop:
    """The duals stay with their parts; here are their sums."""

    epochs = 0  # in which rows were seen one after the other: estimates are those of the end of a round

    def __init__(self, problem: Problem, parts: Communicator, seed: int):
        self.problem, self.parts, self._seed = problem, parts, seed
        d, c = problem.n_features, problem.n_classes
        self.shared = Shared(np.zeros((d, c)), np.zeros(c), None, None)
        self.dual_sum, self.estimate, self.visits, self.rounds = 0.0, np.inf, 0, 0
        self._last: Direction | None = None
        self._best: Machine | None = None  # that has been looked at
        self.watch: Callable[[int, float], None] | None = None  # is told rounds and relative gaps, of the proximal problem
        self._pending: tuple[float, bool] | None = None  # a move that the parts have not heard of yet

    # ---- the climb --------------------------------------------------------------------------------------------------------

    def ascend(self, max_visits: int, tol: float) -> None:
        """Rounds until the gap promises `tol`, or until so many rows have been visited."""
        stop = self.visits + max_visits
        while self.visits < stop:
            self._round()
            self.parts.settle()
            if self.watch is not None:
                self.watch(self.rounds, self.estimate / max(abs(self.dual + self.estimate), 1e-300))
            share = _KNOWN if self._is_plain else _PROMISED
            if self.estimate <= share * tol * abs(self.dual + self.estimate):
                return

    def _round(self) -> None:
        """Climbs side by side, and the move that is made of them."""
        pending, self._pending = self._pending, None
        asked = self._looks()
        settings = asked, EPOCHS, self._seed, self.rounds, NUMBER
        got: Climbed = self.parts.total(work.climb, pending, self.shared, *settings)
        self._see(asked, got.losses)
        with_duals, with_itself, with_last, of_duals, of_last = map(float, got.squares)
        ahead = Direction(got.linear, got.V, got.sums, with_duals, with_itself)
        step, gain = self._best_step(ahead)
        chosen, to_aim = ahead, False
        if self._last is not None:
            last = self._last._replace(with_duals=of_duals, with_itself=of_last)
            aimed = self._aimed(ahead, last, with_last)
            step_there, gain_there = self._best_step(aimed)
            if gain_there > gain:
                chosen, step, to_aim = aimed, step_there, True
        self._go(chosen, step)
        self._last, self._pending = chosen.times(step), (step, to_aim)
        self._count(EPOCHS)

    def _looks(self) -> Looks:
        machine = self.shared.machine
        if self._best is None:
            return Looks(*machine, *machine, at=(1.0,))
        return Looks(self._best.W, self._best.b, *machine, at=_ON_THE_WAY)

    def _see(self, asked: Looks, losses: Array) -> None:
        """Keeps the best machine, and estimates the gap, with what all parts have lost with those that were asked for."""
        of_duals = self._gap(float(losses[-1]))
        for t, loss in zip(asked.at, losses, strict=True):
            W, b = asked.W + t * (asked.to_W - asked.W), asked.b + t * (asked.to_b - asked.b)
            value = float(loss) + self.problem.penalty_value(W, b)
            if self._best is None or value < self._best.primal:
                self._best = Machine(W, b, value)
        assert self._best is not None
        self.estimate = max(0.0, self._best.primal - self.dual) if self._is_plain else of_duals

    @property
    def _is_plain(self) -> bool:
        """Whether the dual is that of the machine itself, not of a proximal problem, or one with class scales."""
        return self.shared.intercept is None and self.shared.scales is None

    def _aimed(self, ahead: Direction, last: Direction, between: float) -> Direction:
        """The best point of the plane, as far as the rows' domains let it be reached."""
        t = self._best_of_plane(ahead, last, between)
        got: Sums = self.parts.total(work.aim, *t)
        return Direction(got.linear, got.V, got.sums, *map(float, got.squares))

    def _count(self, epochs: int) -> None:
        self.visits += epochs * self.problem.n_rows
        self.rounds += 1

    def _go(self, direction: Direction, step: float) -> None:
        self.dual_sum += step * (direction.linear - direction.with_duals - 0.5 * step * direction.with_itself)
        V, sums = self.shared.V + step * direction.V, self.shared.sums + step * direction.sums
        self.shared = self.shared._replace(V=V, sums=sums)

    def _tell(self) -> None:
        """The parts take the last move before anything else is asked of their duals."""
        if self._pending is not None:
            self.parts.total(work.move, *self._pending)
            self._pending = None

    # ---- the dual along directions ----------------------------------------------------------------------------------------

    def _inner(self, a: Any, b: Any) -> float:
        """The product in which the quadratic part of the proximal problem's dual is half a square."""
        A, B = (self._centred(one) for one in (a, b))
        scales = self.shared.scales
        product = float(np.vdot(A, B)) if scales is None else float(np.einsum("jk,jk,k->", A, B, scales))
        return product + self._inverse_rho * float(a.sums @ b.sums)

    def _centred(self, one: Any) -> Array:
        return self.shared._replace(V=one.V, sums=one.sums).centred

    def _slope(self, direction: Direction) -> float:
        """How fast the dual rises along it."""
        pull = float(self.centre() @ direction.sums) + self._inner(self.shared, direction)
        return direction.linear - direction.with_duals - pull

    def _best_step(self, direction: Direction) -> tuple[float, float]:
        """The best part of a move, and what the dual gains by it."""
        slope, bend = self._slope(direction), self._inner(direction, direction) + direction.with_itself
        t = 1.0 if slope >= bend else max(0.0, slope / bend)
        return t, t * slope - 0.5 * t * t * bend

    def _best_of_plane(self, first: Direction, second: Direction, between: float) -> tuple[float, float]:
        bend, across = self._inner(first, first) + first.with_itself, self._inner(first, second) + between
        other = self._inner(second, second) + second.with_itself
        slopes = np.array([self._slope(first), self._slope(second)])
        H = np.array([[bend, across], [across, other]])
        t = np.linalg.lstsq(H, slopes, rcond=1e-12)[0]
        return float(t[0]), float(t[1])

    # ---- what a native loop says of itself --------------------------------------------------------------------------------

    @property
    def dual(self) -> float:
        """Of the proximal problem, with an intercept."""
        return self.dual_sum - float(self.centre() @ self.shared.sums) - 0.5 * self._inner(self.shared, self.shared)

    @property
    def squared_norm(self) -> float:
        """``|W|^2``, with class scales ``sum_k |w_k|^2 / beta_k``."""
        squares = self.squared_norms()
        return float(squares.sum() if self.shared.scales is None else self.shared.scales @ squares)

    def squared_norms(self) -> Array:
        Z = self.shared.centred
        return np.asarray(np.einsum("jk,jk->k", Z, Z))

    @property
    def flow(self) -> float:
        """``sum_il a_il``."""
        plain = self.problem.loss.unit_targets and not self.problem.loss.squared
        return self.dual_sum if plain else float(self._totals().flow)

    def _totals(self) -> Sums:
        self._tell()
        found: Sums = self.parts.total(work.sums)
        return found

    def _gap(self, loss: float) -> float:
        """Of the proximal problem: W and the offsets have the squares of the dual in their penalties."""
        return loss + 0.5 * self._inner(self.shared, self.shared) - self.dual

    @property
    def has_average(self) -> bool:
        return self._best is not None

    def averaged_value(self, n_threads: int) -> float:
        """Of the best machine that has been looked at."""
        assert self._best is not None
        return self._best.primal

    def averaged_machine(self) -> tuple[Array, Array]:
        assert self._best is not None
        return self._best.W, self._best.b

    def loss(self, n_threads: int) -> float:
        """Of all rows, at the machine of the duals."""
        return float(self.parts.total(work.loss_at, *self.shared.machine))

    def weights(self) -> Array:
        return self.shared.machine[0]

    def intercepts(self) -> Array:
        return self.shared.machine[1]

    def flows(self) -> Array:
        self._tell()
        return np.asarray(self.parts.total(work.flows))

    def scaled(self, factors: Array) -> tuple[float, float, float, float]:
        got = self._scaled(factors)
        return float(got.room), float(got.linear), float(np.vdot(got.V, got.V)), float(got.square)

    def totals_of(self, factors: Array) -> tuple[float, float, float, Array]:
        got = self._scaled(factors)
        return float(got.room), float(got.linear), float(got.square), np.asarray(np.einsum("jk,jk->k", got.V, got.V))

    def _scaled(self, factors: Array) -> Scaled:
        self._tell()
        got: Scaled = self.parts.total(work.scaled, factors)
        return got

    def duals(self) -> SparseDuals:
        """They stay with their parts."""
        return NO_DUALS

    def set_duals(self, *duals: Any) -> None:
        raise TypeError("fits of parts start from nothing, or from their checkpoint")

    def restore(self) -> None:
        """Parts look at all classes every time."""

    # ---- moves ------------------------------------------------------------------------------------------------------------

    @property
    def _inverse_rho(self) -> float:
        return 0.0 if self.shared.intercept is None else self.shared.intercept.inverse_rho

    def start_intercept(self, means: Array, inverse_rho: float) -> None:
        self.shared = self.shared._replace(intercept=Intercept(means, inverse_rho, np.zeros(self.problem.n_classes)))

    def sums(self) -> Array:
        return self.shared.sums

    def centre(self) -> Array:
        return np.zeros_like(self.shared.sums) if self.shared.intercept is None else self.shared.intercept.centre

    def move_centre(self, to: Array) -> None:
        assert self.shared.intercept is not None
        self.shared = self.shared._replace(intercept=self.shared.intercept._replace(centre=np.array(to)))

    def rescale(self, scales: Array, squared_norms: Array) -> None:
        self.shared = self.shared._replace(scales=scales)


class TurnsLoop(PartsLoop):
    """The same where parts are visited one after the other anyway: each begins where the one before it has come to.

    What it climbs is all made, so that a pass is as good as an epoch over all rows, in blocks.
    """

    def _round(self) -> None:
        asked = self._looks()
        settings = self.shared, asked, EPOCHS_OF_TURNS, self._seed, self.rounds, NUMBER
        got: Turned
        (V, sums), got = self.parts.chain(work.turn, self._seed, (self.shared.V, self.shared.sums), *settings)
        loss_of_duals = self._gap(float(got.losses[-1])) + self.dual  # F of the proximal problem, where the pass began
        self.dual_sum += got.value
        self.shared = self.shared._replace(V=V, sums=sums)
        self._see(asked, got.losses)
        if not self._is_plain:
            self.estimate = max(0.0, loss_of_duals - self.dual)
        self._count(EPOCHS_OF_TURNS)
