"""Newton's method for smooth losses of the scores and any penalty that has Hessian products.

    min_{W, b}  F(W, b) = sum_i u_i loss(s_i, y_i) + R(W, b)

Each step solves one Newton system (`interior/systems/stacked.py`) and is shortened until F falls enough. A penalty that is
not smooth is blurred by a part of the gap that is still open; a maximum has its own slacks and multipliers. Every iterate is
certified: with the derivatives ``T_i = u_i dloss(s_i)`` Fenchel's equality gives
``-u_i loss*(T_i / u_i) = u_i loss(s_i) - <T_i, s_i>``, so a loss need not know its conjugate; it must not be negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.bounds import lower_bound
from polymargin.solvers.interior.systems import Curvature, NewtonSystem, ProductCurvature, SoftmaxCurvature, StarCurvature
from polymargin.solvers.newton.line_search import backtrack
from polymargin.solvers.progress import Stall
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Machine, Solution, Start

Array = NDArray[np.float64]

BLUR = 0.05  # of the open gap
ENOUGH = 0.1  # of the decrease that the slope promises: across a kink, whole steps fall forth and back
TO_BOUNDARY = 0.99
SHORTEST = 2e-12  # step
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
    return _SmoothNewton(problem, ledger, start).solve(max_iter)


class _SmoothNewton:
    """The iterate V with its scores S, the best one so far, and what is known of the iterate."""

    def __init__(self, problem: Problem, ledger: Ledger, start: Start | None):
        rotate = problem.penalty.rotation_invariant and start is None
        design = Design(problem.X, problem.cost, problem.fit_intercept, rotate)
        self.problem, self.penalty, self.ledger, self.design = problem, problem.penalty, ledger, design
        self.losses = _Losses(problem)
        self.V = np.zeros((design.n_unknowns, problem.n_classes))
        if start is not None:
            self.V[: design.r] = start.W
            if problem.fit_intercept:
                self.V[design.r] = start.b + design.mean @ start.W
        self.S = design.scores(self.V)
        self.carried = self.penalty.carried(self.V[: design.r], BLUR * self.losses.value(self.S))
        self.best, self.best_V, self.n_iter = np.inf, self.V, 0
        self._stall = Stall(PATIENCE, 0.5, 0.999)
        ledger.at_hand = self.machine

    def solve(self, max_iter: int) -> Solution:
        while True:
            self._evaluate()
            self._certify()
            status = self._end(max_iter)
            if status:
                break
            direction, slope = self._direction()
            if not self._search(direction, slope):
                status = "stalled"
                break
        return Solution(self.machine(), None, self.ledger.close(max(1, self.n_iter), status))

    def machine(self) -> Machine:
        W, b = self.design.machine(self.best_V)
        return Machine(W - W.mean(axis=1, keepdims=True), b - b.mean(), self.best)

    def _evaluate(self) -> None:
        """F, the derivatives and curvatures of its parts; the penalty blurred, or with slacks and multipliers."""
        self.value, self.T, self.curvature = self.losses.at(self.S)
        self.W, self.b = self.design.split(self.V)
        blur = BLUR * (self.ledger.gap if np.isfinite(self.ledger.gap) else self.value)
        self.carried.sharpen(self.W, blur)
        self.mu = blur / max(1, self.carried.n_products)
        self.model = self.carried.model(self.W)
        self.gradient = self.design.adjoint(self.T)
        primal = self.value + self.penalty.value(self.W) + self.penalty.offset_value(self.b)
        if primal < self.best:
            self.best, self.best_V = primal, self.V

    def _certify(self) -> None:
        S, T, value = self.S, self.T, self.value
        differences = S - S[self.losses.each, self.problem.y][:, None]
        pulled = float(np.vdot(T, differences))  # sum_k T_ik = 0: only differences count
        sizes = float(np.abs(T).sum(axis=1) @ self.design.score_scale(self.W))
        hidden = _ROUNDINGS * EPS * (value + abs(pulled) + sizes)
        bound = lower_bound(self.penalty, self.model, self.design, self.gradient, value - pulled, 1.0, hidden)
        self.ledger.add(self.best, bound, max(1, self.n_iter))

    def _end(self, max_iter: int) -> str:
        """What to say if this is the end, else nothing."""
        stalls = self._stall.note(self.ledger.gap, self.best)
        if self.ledger.done or self.n_iter == max_iter:
            return "max_iter"
        return "stalled" if stalls else ""

    def _direction(self) -> tuple[Array, float]:
        """Newton's step and the slope of F along it."""
        system = NewtonSystem(self.design, self.penalty, self.model, self.curvature, self.problem.n_classes)
        G = self.gradient + system.penalty_gradient(self.carried.aim(self.model, self.mu, correct=False), self.V)
        D = system.solve(-G, 0.05, 250)
        self.carried.follow(self.model, D[: self.design.r])
        return D, float((G * D).sum())

    def _search(self, D: Array, slope: float) -> bool:
        """Moves along the step until F has fallen enough; False if rounding forbids that."""
        V, S, dS, losses, carried = self.V, self.S, self.design.scores(D), self.losses, self.carried

        def trial(t: float) -> tuple[float, None]:
            W, b = self.design.split(V + t * D)
            with np.errstate(over="ignore"):
                rough = carried.value_after(W, t, self.mu)
                return losses.value(S + t * dS) + rough + self.penalty.offset_value(b), None

        here, _ = trial(0.0)
        rounding = 1e-15 * abs(here) + EPS * float(losses.cost @ (1.0 + np.ptp(S, axis=1)))
        longest = min(1.0, TO_BOUNDARY * carried.longest())
        t, _ = backtrack(trial, here, slope, share=ENOUGH, shortest=SHORTEST, longest=longest, rounding=rounding)
        if t > 0.0:
            self.V, self.S, self.n_iter = V + t * D, S + t * dS, self.n_iter + 1
            carried.take(t)
        return t > 0.0
