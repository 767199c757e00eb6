"""Newton's method for smooth losses of the scores and any penalty that has Hessian products.

    min_{W, b}  F(W, b) = sum_i u_i loss(s_i, y_i) + R(W, b)

Each step solves one Newton system (`newton_system.py`) and is shortened until F falls enough. A penalty that is not smooth
is blurred by a part of the gap that is still open; a maximum has its own slacks and multipliers (`largest.py`). Every
iterate is certified: with the derivatives
``T_i = u_i dloss(s_i)`` Fenchel's equality gives ``-u_i loss*(T_i / u_i) = u_i loss(s_i) - <T_i, s_i>``, so a loss need not
know its conjugate; it must not be negative anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.bounds import lower_bound
from polymargin.solvers.interior.systems import Curvature, NewtonSystem, ProductCurvature, SoftmaxCurvature, StarCurvature
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Machine, Solution, Start

Array = NDArray[np.float64]

BLUR = 0.05  # of the open gap
ENOUGH = 0.1  # of the decrease that the slope promises: across a kink, whole steps fall forth and back
TO_BOUNDARY = 0.99
EPS = float(np.finfo(float).eps)
_ROUNDINGS = 4.0  # in each of many numbers that are summed: what they may hide is taken off the bound
PATIENCE = 15  # steps without halving the gap or lowering F by a thousandth


class _Losses:
    """Value, derivatives and curvature of the weighted losses, in the core where it knows the loss."""

    def __init__(self, problem: Problem):
        self.loss, self.y, self.cost = problem.loss, problem.y, problem.cost
        shape = problem.n_rows, problem.n_classes
        self.kernel = getattr(native, self.loss.score_kernel) if self.loss.score_kernel else None
        self.T, self.W, self.each = np.empty(shape), np.empty(shape), np.arange(shape[0])
        self.classes = [np.flatnonzero(problem.y == k) for k in range(shape[1])] if self.kernel else []

    def value(self, S: Array) -> float:
        if self.kernel is not None:
            value = float(self.kernel(S, self.y, self.cost, self.T, self.W))
            return value if self.loss.score_kernel != "softmax" else self._cross_entropy(S)
        return float(self.cost @ np.asarray(self.loss.value(S, self.y), dtype=np.float64))

    def _cross_entropy(self, S: Array) -> float:
        """``-u log P`` of the own classes from the others' probabilities: 1 - P of the kernel has lost what is left."""
        missed = -self.T[self.each, self.y] / self.cost
        right = missed < 0.5
        rest = self.cost[~right] @ self.loss.value(S[~right], self.y[~right])
        return float(-(self.cost[right] @ np.log1p(-missed[right])) + rest)

    def at(self, S: Array) -> tuple[float, Array, Curvature]:
        value = self.value(S)
        if self.kernel is None:
            T = self.cost[:, None] * np.asarray(self.loss.gradient(S, self.y), dtype=np.float64)
            return value, T, ProductCurvature(self.loss, S, self.y, self.cost)
        if self.loss.score_kernel == "softmax":
            return value, self.T, SoftmaxCurvature(self.W, self.cost)
        return value, self.T, StarCurvature(self.W, self.y, self.classes)


def primal_newton(problem: Problem, ledger: Ledger, *, max_iter: int, start: Start | None = None) -> Solution:
    """Solves `problem` until ``ledger.tol`` is certified or `max_iter` Newton steps are used up."""
    rotate = problem.penalty.rotation_invariant and start is None
    design = Design(problem.X, problem.cost, problem.fit_intercept, rotate)
    losses, penalty = _Losses(problem), problem.penalty
    V = np.zeros((design.n_unknowns, problem.n_classes))
    if start is not None:
        V[: design.r] = start.W
        if problem.fit_intercept:
            V[design.r] = start.b + design.mean @ start.W
    S = design.scores(V)
    best, best_V = np.inf, V
    status, mark, mark_best, waited, n_iter = "max_iter", np.inf, np.inf, 0, 0
    largest = penalty.largest(V[: design.r], BLUR * losses.value(S))

    def at_hand() -> Machine:
        W, b = design.machine(best_V)
        return Machine(W - W.mean(axis=1, keepdims=True), b - b.mean(), best)

    ledger.at_hand = at_hand
    while True:
        blur = BLUR * (ledger.gap if np.isfinite(ledger.gap) else losses.value(S))
        value, T, curvature = losses.at(S)
        W, b = design.split(V)
        model = penalty.model(W, blur) if largest is None else largest.model(W)
        primal = value + penalty.value(W) + penalty.offset_value(b)
        if primal < best:
            best, best_V = primal, V
        gradient = design.adjoint(T)
        pulled = float(np.vdot(T, S - S[losses.each, problem.y][:, None]))  # sum_k T_ik = 0: only differences count
        hidden = _ROUNDINGS * EPS * (value + abs(pulled) + float(np.abs(T).sum(axis=1) @ design.score_scale(W)))
        ledger.add(best, lower_bound(penalty, model, design, gradient, value - pulled, 1.0, hidden), max(1, n_iter))
        waited += 1
        if ledger.gap <= 0.5 * mark or best <= 0.999 * mark_best:
            mark, mark_best, waited = min(mark, ledger.gap), best, 0
        if ledger.done or n_iter == max_iter:
            break
        if waited > PATIENCE:
            status = "stalled"
            break
        rough = _Rough(penalty, blur, largest)
        G = stacked_gradient(design, penalty, rough.aimed(model), gradient, b)
        system = NewtonSystem(design, penalty, model, curvature, problem.n_classes)
        D, _ = system.solve(-G, 0.05, 250)
        rough.follow(W, D[: design.r])
        dS = design.scores(D)
        a = _step_length(losses, design, rough, V, S, D, dS, float((G * D).sum()))
        if a == 0.0:
            status = "stalled"
            break
        V, S, n_iter = V + a * D, S + a * dS, n_iter + 1
        rough.take(a)
    return Solution(at_hand(), None, ledger.close(max(1, n_iter), status))


def stacked_gradient(design: Design, penalty: Any, model: Any, gradient: Array, b: Array) -> Array:
    """Gradient of the whole objective from that of the losses."""
    G = gradient.copy()
    G[: design.r] += model.gradient
    if design.fit_intercept:
        offset = penalty.offset_gradient(b)
        G[design.r] += offset
        G[: design.r] -= np.outer(design.mean, offset)
    return G


class _Rough:
    """A penalty that is not smooth, as a step sees it: blurred, or a maximum with its barrier."""

    def __init__(self, penalty: Any, blur: float, largest: Any):
        self.penalty, self.blur, self.largest = penalty, blur, largest
        self.mu = 0.0 if largest is None else blur / largest.n_products

    def aimed(self, model: Any) -> Any:
        """The model whose gradient the step is to make vanish."""
        return model if self.largest is None else self.largest.aim(model, self.mu, correct=False)

    def follow(self, W: Array, D: Array) -> None:
        if self.largest is not None:
            self.largest.follow(W, D)

    def longest(self) -> float:
        return 1.0 if self.largest is None else min(1.0, TO_BOUNDARY * float(self.largest.longest()))

    def value(self, W: Array, a: float) -> float:
        """R at W, which is where a step of length a leads."""
        if self.largest is None:
            return float(self.penalty.model(W, self.blur).value)
        return float(self.penalty.ridge_value(W)) + float(self.largest.barrier(a, self.mu))

    def take(self, a: float) -> None:
        if self.largest is not None:
            self.largest.take(a)


def _step_length(
    losses: _Losses, design: Design, rough: _Rough, V: Array, S: Array, D: Array, dS: Array, slope: float
) -> float:
    """The first of 1, 1/2, 1/4, ... with enough decrease; 0 if rounding leaves none."""

    def value(a: float) -> float:
        W, b = design.split(V + a * D)
        with np.errstate(over="ignore"):
            return losses.value(S + a * dS) + rough.value(W, a) + rough.penalty.offset_value(b)

    here, a = value(0.0), rough.longest()
    rounding = 1e-15 * abs(here) + EPS * float(losses.cost @ (1.0 + np.ptp(S, axis=1)))
    while a > 1e-12:
        if value(a) <= here + ENOUGH * a * slope + rounding:
            return a
        a *= 0.5
    return 0.0
