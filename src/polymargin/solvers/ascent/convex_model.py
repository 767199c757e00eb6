"""One convex model of a penalty that is not convex: ``1/2 |W|^2`` plus a linear function of W.

At a machine (W_t, b_t) a smooth part P of the penalty (``penalty.apart``) with gradient H is replaced by its tangent and a
proximal term:

    m(W, b) = sum_i u_i loss_i(W, b) + 1/2 |W|^2 + P(W_t) + <H, W - W_t> + theta/2 |W - W_t|^2

That is, up to a constant, the machine ``kappa/2 |W - W0|^2 + sum_i u_i loss_i`` with ``kappa = 1 + theta`` and
``W0 = (theta W_t - H) / kappa``: the native loop solves it with costs ``u/kappa``, its vectors started at W0. Duals a give
``W = W0 + X'tau / kappa`` and the bound

    D = sum_il a_il delta_yl - h(a) - kappa/2 |W|^2 + P(W_t) - <H, W_t> + theta/2 |W_t|^2  (free intercept: sum_i tau_ik = 0)

on the model, with targets delta and the squares h of a squared loss. ``F(W_t) - D`` is what the model promises at most; it
is 0 only at stationary points. Where class vectors must add up to zero, W is centred, and no native loop takes a W0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.penalties import AtSumZero, Penalty, ShiftedNorm, SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.driver import UNLIMITED, Driver, Rhythm
from polymargin.solvers.ascent.loops import open_loop
from polymargin.solvers.ascent.moves import FreeIntercept, Move
from polymargin.solvers.bounds import Ray, balanced_sparse_duals, class_sums, feasible
from polymargin.solvers.interior.quadratic import interior_point
from polymargin.solvers.newton.augmented import multiplier_newton
from polymargin.solvers.newton.general import general_newton
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start, sparse_duals

_PLAIN = Rhythm(epochs=UNLIMITED, inner=1.0)
_WITH_INTERCEPT = Rhythm(epochs=10)
_REACH = 0.01  # of an offset in one proximal step, if all duals pull
_LOST = 1e-13  # of sums of squares, by rounding

Array = NDArray[np.float64]


class Tangent(NamedTuple):
    """The machine at which P is replaced by its tangent: P and its gradient there, and theta."""

    machine: Machine
    value: float
    slope: Array
    theta: float

    @property
    def kappa(self) -> float:
        return 1.0 + self.theta

    @property
    def base(self) -> Array:
        return np.ascontiguousarray((self.theta * self.machine.W - self.slope) / self.kappa)

    @property
    def constant(self) -> float:
        W = self.machine.W
        return self.value - float(np.vdot(self.slope, W)) + 0.5 * self.theta * float(np.vdot(W, W))

    def relative(self, accuracy: float) -> float:
        """An absolute accuracy of m as a relative one of the machine that is solved, which is m plus a constant."""
        rest = 0.5 * self.kappa * float(np.vdot(self.base, self.base)) - self.constant
        return accuracy / max(self.machine.primal + rest, accuracy, 1e-300)

    def model(self, W: Array, loss: float) -> float:
        """m of class vectors with this loss."""
        step = W - self.machine.W
        linear = self.value + float(np.vdot(self.slope, step))
        return loss + 0.5 * float(np.vdot(W, W)) + linear + 0.5 * self.theta * float(np.vdot(step, step))

    def bound(self, problem: Problem, duals: SparseDuals) -> float:
        """D of duals, balanced first if the intercept is free; the best along their ray."""
        kappa, base, y, c = self.kappa, self.base, problem.y, problem.n_classes
        if problem.fit_intercept:
            duals = balanced_sparse_duals(problem, duals)
        duals, room = feasible(problem, duals)
        Z = class_sums(problem, duals) / kappa
        if problem.loss.sums_to_zero:
            base, Z = (part - part.mean(axis=1, keepdims=True) for part in (base, Z))
        targets = problem.loss.targets(c)[y[duals.rows], duals.classes]
        linear = float(targets @ duals.values) - kappa * float(np.vdot(base, Z))
        ray = Ray(linear, 0.5 * kappa * float(np.vdot(Z, Z)) + _squares(problem, duals), room)
        return ray.value - 0.5 * kappa * float(np.vdot(base, base)) + self.constant


def _squares(problem: Problem, duals: SparseDuals) -> float:
    """What a squared loss takes off."""
    if not problem.loss.squared:
        return 0.0
    square = problem.row_domains.domain.square(duals.dense(problem.n_classes), problem.y)
    return float((0.25 * square / problem.cost).sum())


class Attempt(NamedTuple):
    """A machine that a model proposes: its loss, and the duals that made it, for the problem's own costs."""

    W: Array
    b: Array
    loss: float
    duals: SparseDuals


class ModelAscent(Driver[native.RowLoop]):
    """The native loop on one model, started at the given duals; slice by slice, as its caller decides when it is enough."""

    def __init__(self, problem: Problem, tangent: Tangent, duals: SparseDuals | None, scale: float, seed: int):
        self._problem, self._kappa, machine = problem, tangent.kappa, tangent.machine
        model = _solved(problem, tangent)
        loop, moves = open_loop(model, seed), list[Move]()
        if problem.fit_intercept:
            # a large theta makes costs and with them duals small, but must not make offsets slow
            intercept = FreeIntercept(loop, *centre_and_spread(problem.X), least=_REACH / float(model.cost.sum()))
            moves.append(intercept)
        # the loop's tolerance is relative to the value of its dual: make that `scale`, the size of F
        self._surplus = scale - (machine.primal if np.isfinite(machine.primal) else 0.0)
        loop.set_base(tangent.base, (tangent.constant + self._surplus) / self._kappa)
        if duals is not None:
            loop.set_duals(duals.starts, duals.classes, duals.values / self._kappa)
        if problem.fit_intercept:
            intercept.place(machine.b, machine.W)
        super().__init__(loop, problem.n_rows, UNLIMITED, _WITH_INTERCEPT if moves else _PLAIN, moves)

    def attempt(self, n_threads: int) -> Attempt:
        starts, classes, values = self.loop.duals()
        b = self.loop.intercepts() if self._problem.fit_intercept else np.zeros(self._problem.n_classes)
        loss = float(self.loop.loss(n_threads)) * self._kappa
        return Attempt(self.loop.weights(), b, loss, SparseDuals(starts, classes, values * self._kappa))

    def proximal_bound(self) -> float:
        """The loop's own dual: a bound on the model, with an intercept on the model with its proximal term in b."""
        return float(self.loop.dual) * self._kappa - self._surplus


def _solved(problem: Problem, tangent: Tangent) -> Problem:
    """The machine that is solved, but for W0."""
    return replace(problem, cost=problem.cost / tangent.kappa, penalty=SquaredNorm())


def has_loop(problem: Problem) -> bool:
    """Whether the native loop takes the models: class vectors that must add up to zero couple its classes."""
    return problem.loss.row_problem is not None and not problem.loss.sums_to_zero


def solve_generally(
    problem: Problem, tangent: Tangent, duals: SparseDuals | None, accuracy: float, max_iter: int
) -> tuple[Attempt, int]:
    """The model's minimum to an absolute accuracy by Newton's method on the unknowns, which takes any loss of margins."""
    W, b, primal = tangent.machine
    shifted: Penalty = ShiftedNorm(tangent.kappa, tangent.kappa * tangent.base, tangent.constant)
    model = replace(problem, penalty=AtSumZero(shifted) if problem.loss.sums_to_zero else shifted)
    # the model is a difference of squares, each as large as theta: what they lose is no gap
    squares = tangent.kappa * (float(np.vdot(W, W)) + float(np.vdot(tangent.base, tangent.base))) + abs(tangent.constant)
    lost = _LOST * squares
    ledger = Ledger(accuracy / max(abs(primal), accuracy), rounding=lambda value: model.rounding_at(value) + lost)
    found = general_newton(model, ledger, max_iter, None if duals is None else Start(duals, b, W=W))
    assert found.duals is not None
    return Attempt(*found.machine[:2], _loss_of(problem, *found.machine[:2]), found.duals), found.certificate.n_iter


def solve_exactly(problem: Problem, tangent: Tangent, accuracy: float, max_iter: int) -> tuple[Attempt, int]:
    """The model's minimum to an absolute accuracy, by the interior point, and how many Newton steps that took."""
    given = np.asarray(problem.X @ tangent.base, dtype=np.float64)
    tol = tangent.relative(accuracy)
    found = interior_point(_solved(problem, tangent), tol=tol, max_iter=max_iter, given=given)
    return _attempt(problem, tangent, found.W, found.b, sparse_duals(found.a)), found.n_iter


def solve_by_newton(
    problem: Problem, tangent: Tangent, duals: SparseDuals, accuracy: float, max_iter: int
) -> tuple[Attempt, int]:
    """The same by Newton's method with multipliers, from these duals; less accurate if too many of them are free."""
    base, (W, b, _), model = tangent.base, tangent.machine, _solved(problem, tangent)
    ledger = Ledger(tangent.relative(accuracy), rounding=model.rounding_at)
    duals = duals._replace(values=duals.values / tangent.kappa)
    so_far = Solution(Machine(W - base, b, np.inf), duals, ledger.close(0))
    given = np.asarray(problem.X @ base, dtype=np.float64)
    found = multiplier_newton(model, ledger, max_iter, so_far, given=given)
    assert found.duals is not None
    return _attempt(problem, tangent, found.machine.W, found.machine.b, found.duals), found.certificate.n_iter


def _attempt(problem: Problem, tangent: Tangent, shift: Array, b: Array, duals: SparseDuals) -> Attempt:
    W = shift + tangent.base
    return Attempt(W, b, _loss_of(problem, W, b), duals._replace(values=tangent.kappa * duals.values))


def _loss_of(problem: Problem, W: Array, b: Array) -> float:
    S = np.asarray(problem.X @ W, dtype=np.float64) + b
    return float(problem.cost @ problem.loss.value(S, problem.y))
