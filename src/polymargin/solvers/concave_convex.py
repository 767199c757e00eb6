"""Concave-convex rounds for the multi-class optimal margin distribution machine.

    F(W, b) = 1/2 |W|^2 + sum_i kappa_i ([1 - theta - gamma_i]_+^2 + mu [gamma_i - 1 - theta]_+^2)

with ``kappa_i = u_i / (1 - theta)^2`` and the margins ``gamma_i = s_y - max_{l != y} s_l``. The second term is not convex. A
round replaces it, at the machine W_t:

- "cccp": by ``[s_y - s_r - 1 - theta]_+^2`` with the rival ``r_i = argmax_{l != y} s_l`` of W_t. As ``s_r <= max_l s_l``,
  the convex function Q_t lies above F everywhere and meets it at W_t: whatever lowers Q_t below F(W_t) lowers F.
- "paper": by ``[s_y - M_i - 1 - theta]_+^2`` with the number ``M_i = max_{l != y} s_l`` of W_t (Zhang & Zhou 2017,
  Algorithm 1). That is neither above F nor a descent method: w_r does not feel the constraint.

Each round is one convex problem for the native loop (``_core/margin_distribution_loop.hpp``), started from the last duals;
on data with few features Newton steps end it, and where they crawl too interior points take over (``band_interior.py``). Its
dual value D_t bounds Q_t from below, so ``F(W_t) - D_t`` bounds what a round can gain: "cccp" stops once that is below
``tol * F(W_t)``. Until then a round goes on until it has a good share of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.certificate import Ledger
from polymargin.losses import CrammerSingerHinge
from polymargin.losses.margin_distribution import MarginDistributionLoss
from polymargin.problem import Problem
from polymargin.solvers import band_interior, proximal_newton
from polymargin.solvers.band_interior import InteriorSteps
from polymargin.solvers.dual_ascent import (
    Anderson,
    Machine,
    Solution,
    SparseDuals,
    WarmStart,
    centre_and_spread,
    dual_ascent,
)
from polymargin.solvers.flows import balancing_factors
from polymargin.solvers.proximal_newton import Point, ProximalNewton

Array = NDArray[np.float64]

_START_EPOCHS = 100  # that each of them may take
_ROUND_EPOCHS = 200  # that a round may take before interior points end the fit, if they can
_INNER = 0.1  # smallest relative gap a round asks for, in tolerances
_TIGHTER = 0.25  # of that, when a round has not gained enough
_SLICE_EPOCHS = 10  # of coordinate ascent before the next look at F
_LATE_EPOCHS = 600  # before Newton steps that are expensive
_FIRST_EPOCHS = 5  # of coordinate ascent before Newton steps
_PATIENCE = 20  # rounds of the paper's iteration without a new best
_NEVER = np.iinfo(np.int64).max
_EPOCHS = 10  # between two moves of the centre of the proximal intercept


def concave_convex(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: WarmStart | None = None,
    relaxation: str = "cccp",
) -> Solution:
    """Descends from `start`, or from the better of two convex machines, until a round can gain no more than ``ledger.tol``.

    The certificate holds F of the best machine seen and, for "cccp", the bound D_t of the last convex function Q_t; for
    "paper" a bound of F without its upper part, as its rounds bound nothing. ``Solution.rounds`` is F after each round.
    "paper" must not have a free intercept: one constant added to all offsets would meet its upper constraints.
    """
    settings = _Settings(max_iter * problem.n_rows, seed, n_threads)
    if relaxation == "paper":
        return _paper_rounds(_open(problem, settings, start, frozen=True), ledger, max_iter)
    interior = InteriorSteps(problem, _INNER * ledger.tol) if band_interior.suits(problem) else None
    steps = _best_start(problem, settings, interior) if start is None else _open(problem, settings, start)
    return _descending_rounds(steps, interior, ledger, max_iter, _pace(problem))


def _is_small(problem: Problem) -> bool:
    return problem.n_rows * problem.n_classes <= _SMALL


class _Pace(NamedTuple):
    """How well the starts and the rounds before the last are solved."""

    start: float  # relative gap of the two convex machines that are tried as starts
    round: float  # relative gap a round asks for first, in units of what the last could gain
    enough: float  # share of its own possible gain that ends a round


_QUICK = _Pace(1e-2, 1.0, 0.2)  # takes less time and often ends lower
_PRECISE = _Pace(1e-2, 0.1, 0.5)  # nearly equal problems reach the same minimum
_SMALL = 20_000  # rows times classes up to which time does not matter


def _pace(problem: Problem) -> _Pace:
    return _PRECISE if _is_small(problem) else _QUICK


class _Settings(NamedTuple):
    budget: int  # row visits in all
    seed: int
    n_threads: int


class _Seen(NamedTuple):
    """Values of the iterate: F, the convex function Q of this round, and the bound D of Q."""

    stated: float
    relaxed: float
    dual: float


# -- the rounds ------------------------------------------------------------------------------------------------------


def _descending_rounds(
    steps: _Steps, interior: InteriorSteps | None, ledger: Ledger, max_iter: int, pace: _Pace
) -> Solution:
    """Rounds that never raise F, until one could gain no more than the tolerance."""
    best, duals = steps.machine(steps.look().stated), steps.duals()
    rounds, decrease, tol, stuck = [best.primal], 0.0, pace.start, False
    while True:
        steps.relinearise()
        steps.start_phase(_ROUND_EPOCHS if interior else None)
        level = best.primal  # Q meets F here
        ledger.start_anew(level)  # the bounds of earlier rounds do not hold for this Q
        seen = _one_round(steps, ledger, tol, pace.enough)
        tol = min(pace.start, pace.round * ledger.rel_gap)  # the next round has about as much to gain
        if seen.stated < level:
            decrease = (level - seen.stated) / level
            best, duals = steps.machine(seen.stated), steps.duals()
            rounds.append(best.primal)
        # F below the bound of Q fell by more than Q could: the next rivals may give more
        finished = ledger.done and best.primal >= ledger.dual
        if finished or steps.left <= 0:
            break
        if interior is not None and steps.crawls and isinstance(steps, _Ascent):
            steps = _InteriorRounds(interior, best, duals, steps)
        elif steps.crawls and best.primal >= level:
            stuck = True
            break
    # what the last round could gain at most stays the gap, unless its end proves less
    bound = ledger.dual if finished else best.primal - ledger.gap
    if not finished:
        ledger.start_anew(best.primal)
    ledger.add(best.primal, min(bound, best.primal), steps.n_iter)
    ledger.primal = best.primal
    certificate = ledger.close(min(max_iter, steps.n_iter), "stalled" if stuck else "max_iter")
    if finished:
        certificate = replace(certificate, status="stationary")
    certificate = replace(certificate, stationarity=certificate.rel_gap, bounds="last convex round")
    return Solution(best, duals, certificate, rounds=tuple(rounds), last_change=decrease)


def _one_round(steps: _Steps, ledger: Ledger, tol: float, enough: float) -> _Seen:
    """Ascends until F has `enough` of the possible gain, or none is possible, or it takes too long."""
    level = ledger.primal
    while True:
        tol = max(tol, _INNER * ledger.tol)
        reached = steps.improve(tol)
        seen = steps.look()
        ledger.add(level, seen.dual, steps.n_iter)
        if ledger.done or level - seen.stated >= enough * ledger.gap or steps.left <= 0 or steps.crawls:
            return seen
        if reached:
            tol *= _TIGHTER


def _paper_rounds(ascent: _Ascent, ledger: Ledger, max_iter: int) -> Solution:
    """The paper's iteration, which may raise F: ends at a fixed point, or when it has long not found a better machine."""
    best, duals = ascent.machine(ascent.look().stated), ascent.duals()
    rounds, change, since, status = [best.primal], np.inf, 0, "max_iter"
    while ascent.left > 0:
        ascent.relinearise()
        seen = _solve_step(ascent, 0.3 * ledger.tol)
        since += 1
        change = abs(seen.stated - rounds[-1]) / seen.stated
        rounds.append(seen.stated)
        if seen.stated < best.primal:
            best, duals, since = ascent.machine(seen.stated), ascent.duals(), 0
        if ascent.left > 0 and (change <= ledger.tol or since >= _PATIENCE):
            status = "stationary" if change <= ledger.tol else "stalled"
            break
    ledger.add(best.primal, ascent.bound_without_upper_part(), ascent.n_iter)
    certificate = replace(ledger.close(min(max_iter, ascent.n_iter)), status=status)
    return Solution(best, duals, certificate, rounds=tuple(rounds), last_change=change)


def _solve_step(ascent: _Ascent, tol: float) -> _Seen:
    """One convex problem to a relative gap of `tol`."""
    while True:
        ascent.improve(tol)
        seen = ascent.look()
        if seen.relaxed - seen.dual <= tol * seen.relaxed or ascent.left <= 0 or ascent.crawls:
            return seen


# -- where they start ------------------------------------------------------------------------------------------------


def _best_start(problem: Problem, settings: _Settings, interior: InteriorSteps | None) -> _Steps:
    """The better of the optima of the squared-hinge and the hinge machine of Crammer and Singer, both roughly solved.

    Neither always leads to the better minimum, and both are cheap.
    """
    tol = _pace(problem).start
    squared = _open(problem, settings)
    squared.start_phase(_START_EPOCHS)
    squared_value = _solve_step(squared, tol).stated
    if interior is not None and squared.crawls and squared.left > 0:
        return _start_by_interior_points(interior, squared, tol)
    epochs = min(squared.left // problem.n_rows, _START_EPOCHS)
    if epochs < 1:
        return squared
    hinge_machine = replace(problem, loss=CrammerSingerHinge())
    found = dual_ascent(hinge_machine, Ledger(tol), max_iter=epochs, seed=settings.seed, n_threads=settings.n_threads)
    assert found.duals is not None  # dual ascent has them
    hinge = _open(problem, settings, WarmStart(found.duals, found.machine.b))
    spent = squared.visits + found.certificate.n_iter * problem.n_rows
    start = hinge if hinge.look().stated < squared_value else squared
    start.spent = spent - (start.loop.visits)
    return start


def _start_by_interior_points(interior: InteriorSteps, ascent: _Ascent, tol: float) -> _InteriorRounds:
    found = []
    for solve in (interior.squared_hinge, interior.hinge):
        epochs = ascent.left // ascent.n_rows - interior.spent
        if epochs > 0:
            found.append(solve(tol, epochs))
    best = min(found, key=lambda machine: machine.primal)
    return _InteriorRounds(interior, best, ascent.duals(), ascent)


def _open(problem: Problem, settings: _Settings, start: WarmStart | None = None, frozen: bool = False) -> _Ascent:
    kind = _ProximalAscent if problem.fit_intercept else _Ascent
    return kind(problem, settings, start, frozen)


# -- one convex problem in the making --------------------------------------------------------------------------------


class _Ascent:
    """The native loop without an intercept."""

    def __init__(self, problem: Problem, settings: _Settings, start: WarmStart | None, frozen: bool):
        self.loop = _open_loop(problem, settings.seed, frozen)
        self.budget = settings.budget
        self.spent = 0  # visits of other loops that count too
        self._phase_end = _NEVER
        self.n_rows = problem.n_rows
        self._n_classes = problem.n_classes
        self._n_threads = settings.n_threads
        self._newton = ProximalNewton(problem, self.loop) if proximal_newton.suits(problem) else None
        self._slice, self._patience = _SLICE_EPOCHS * problem.n_rows, _LATE_EPOCHS * problem.n_rows
        self._prompt = self._newton is not None and (self._newton.direct or _is_small(problem))
        if self._prompt:  # so many visits before Newton steps: about as much work as one or two of them
            work = int(problem.n_rows * (_FIRST_EPOCHS + 2.0 * proximal_newton.epochs_of_a_step(problem)))
            self._slice = self._patience = min(work, 50 * problem.n_rows)  # leaves enough iterations for Newton steps
        self._point: Point | None = None  # the machine of the last Newton step
        self._prepare(problem)
        if start is not None:
            self.loop.set_duals(*start.duals)
            self._place(start.b)

    def _prepare(self, problem: Problem) -> None:
        pass

    def _place(self, b: Array) -> None:
        pass

    @property
    def visits(self) -> int:
        return int(self.loop.visits) + self.spent

    @property
    def left(self) -> int:
        return self.budget - self.visits

    @property
    def n_iter(self) -> int:
        return -(-self.visits // self.n_rows)

    def start_phase(self, epochs: int | None) -> None:
        self._phase_end = _NEVER if epochs is None else self.visits + epochs * self.n_rows

    @property
    def crawls(self) -> bool:
        return self.visits >= self._phase_end

    @property
    def _room(self) -> int:
        return min(self.left, self._phase_end - self.visits)

    def relinearise(self) -> None:
        """The next convex problem, at the machine that was last looked at."""
        self.loop.relinearise()

    def improve(self, tol: float) -> bool:
        """Ascends until the gap is probably below `tol`, and says so, or for a while; by Newton steps where they pay."""
        if self._room <= 0:
            return False
        if self._point is None:
            self._ascend_by_coordinates(tol)
            if self._promising(tol):
                return True
            if self._newton is None or self.visits < self._patience or self._room <= 0:
                return False
        assert self._newton is not None
        W, b = (self._point.W, self._point.b) if self._point else self._iterate()
        self._point = self._newton.ascend(W, b, tol, max(1, self._room // self.n_rows))
        return True

    def _ascend_by_coordinates(self, tol: float) -> None:
        self.loop.restore()
        self.loop.ascend(min(self._room, self._slice), tol)

    def _promising(self, tol: float) -> bool:
        return bool(self.loop.estimate <= tol * abs(self.loop.dual + self.loop.estimate))

    def _iterate(self) -> tuple[Array, Array]:
        return self.loop.weights(), np.zeros(self._n_classes)

    def look(self) -> _Seen:
        """The true values of the iterate: one pass over the data."""
        half_norm = 0.5 * self.loop.squared_norm
        if self._point is not None:  # its pass has just been made
            return _Seen(self._point.stated, self._point.primal, self._bound(half_norm))
        stated, relaxed = self.loop.evaluate(self._n_threads)
        return _Seen(half_norm + stated, half_norm + relaxed, self._bound(half_norm))

    def _bound(self, half_norm: float) -> float:
        return float(self.loop.concave_part) - half_norm

    def machine(self, primal: float) -> Machine:
        return Machine(*((self._point.W, self._point.b) if self._point else self._iterate()), primal)

    def duals(self) -> SparseDuals:
        """Signed duals: a negative one is beta, beside the class it is measured against (frozen: beside no class)."""
        return SparseDuals(*self.loop.duals())

    def bound_without_upper_part(self) -> float:
        """A bound of F itself: the best multiple of the duals of its lower part, which is convex."""
        return _best_on_ray(*self.loop.scaled(np.ones((self._n_classes, self._n_classes))))


class _InteriorRounds:
    """The same rounds by interior points, which go on from the best machine of an ascent; each solves its step at once."""

    def __init__(self, interior: InteriorSteps, best: Machine, duals: SparseDuals, ascent: _Ascent):
        self._interior, self._machine, self._duals = interior, best, duals
        self._epochs = ascent.budget // ascent.n_rows
        self._before = ascent.n_iter
        self._bound = -np.inf
        self.crawls = False

    @property
    def n_iter(self) -> int:
        return self._before + self._interior.spent

    @property
    def left(self) -> int:
        return self._epochs - self.n_iter

    def start_phase(self, epochs: int | None) -> None:
        self.crawls = False

    def relinearise(self) -> None:
        self._rivals = self._interior.rivals(self._machine)

    def improve(self, tol: float) -> bool:
        if self.left > 0:
            self._machine, self._duals, self._bound = self._interior.solve(self._rivals, self.left)
        self.crawls = True  # whatever it has not reached, another attempt would not
        return True

    def look(self) -> _Seen:
        return _Seen(self._machine.primal, np.nan, self._bound)

    def machine(self, primal: float) -> Machine:
        return self._machine

    def duals(self) -> SparseDuals:
        return self._duals


_Steps = _Ascent | _InteriorRounds


class _ProximalAscent(_Ascent):
    """The same with a free intercept: a proximal-point loop on b, as in `polymargin.solvers.dual_ascent`."""

    def _prepare(self, problem: Problem) -> None:
        self._means, mean_square = centre_and_spread(problem.X)
        self._inverse_rho = 0.2 * mean_square if mean_square > 0.0 else 1.0
        self._y = problem.y
        self.loop.start_intercept(self._means, self._inverse_rho)
        self._extrapolate = Anderson()
        self._moves = 0

    def _place(self, b: Array) -> None:
        self.loop.move_centre(b + self._means @ self.loop.weights())

    def relinearise(self) -> None:
        super().relinearise()
        self._extrapolate = Anderson()  # another fixed point
        self._moves = 0

    def _ascend_by_coordinates(self, tol: float) -> None:
        if self._prompt:
            super()._ascend_by_coordinates(tol)
            return
        loop = self.loop
        for move in range(8 + self._moves // 8):
            if self._room <= 0:
                break
            if self._moves > 0:
                loop.move_centre(self._extrapolate(loop.centre(), self._inverse_rho * loop.sums()))
            self._moves += 1
            loop.restore()
            loop.ascend(min(_EPOCHS * self.n_rows, self._room), 0.3 * tol)
            if move >= self._moves // 8 and self._promising(tol):
                break

    def _promising(self, tol: float) -> bool:
        # with an intercept the estimate is that of the proximal problem: Newton steps have the true one
        return not self._prompt and super()._promising(tol)

    def _bound(self, half_norm: float) -> float:
        """Dual value after a repair to ``sum_i tau_ik = 0``: one factor for each pair of classes, then the best multiple."""
        return _best_on_ray(*self.loop.scaled(balancing_factors(self.loop.flows())))

    def _iterate(self) -> tuple[Array, Array]:
        return self.loop.weights(), self.loop.intercepts()

    def duals(self) -> SparseDuals:
        """The repaired duals: those whose value is the bound."""
        duals = SparseDuals(*self.loop.duals())
        factors = balancing_factors(self.loop.flows())
        linear, quadratic = self.loop.scaled(factors)
        t = 0.5 * linear / quadratic if quadratic > 0.0 else 0.0
        own, other = np.repeat(self._y, np.diff(duals.starts)), duals.classes
        scale = np.where(duals.values > 0.0, factors[own, other], factors[other, own])
        return duals._replace(values=duals.values * (t * scale))


def _best_on_ray(linear: float, quadratic: float) -> float:
    """The maximum of ``t linear - t^2 quadratic`` over t >= 0."""
    return 0.25 * linear * linear / quadratic if linear > 0.0 and quadratic > 0.0 else 0.0


def _open_loop(problem: Problem, seed: int, frozen: bool) -> Any:
    loss = problem.loss
    if not isinstance(loss, MarginDistributionLoss) or not problem.penalty.identity_hessian:
        raise TypeError(
            f"concave-convex rounds need the margin distribution loss and the penalty 1/2 |W|^2; got the loss "
            f"'{loss.name}' with the penalty '{problem.penalty.name}'"
        )
    X, rest = problem.X, (problem.y, problem.cost, problem.n_classes, loss.theta, loss.mu, frozen)
    if not sparse.issparse(X):
        # rows with small violations wait their turn, where coordinate ascent does most of the work
        waiting = not _is_small(problem) and not proximal_newton.factorises(problem)
        return native.dense_margin_distribution(X, *rest, waiting, seed)
    return native.csr_margin_distribution(X.data, X.indices, X.indptr, X.shape[1], *rest, True, seed)
