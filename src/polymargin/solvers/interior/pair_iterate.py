"""An iterate of the pairwise hinge with any penalty, and what it proves.

    min_{W, b}  sum_i u_i sum_{k != y} [1 - (s_y - s_k)]_+  +  R(W, b)

Multipliers ``0 <= A_ik <= u_i`` of the pairs (row, rival class) are the duals. Every iterate is certified: F with the exact
hinge, at the best multiple of the iterate, against the bound of its multipliers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.bounds import balanced_duals, lower_bound
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Machine, Solution, sparse_duals

Array = NDArray[np.float64]

_FAR = 10.0  # times the worth of the multipliers
_EPS = float(np.finfo(np.float64).eps)
_ROUNDINGS = 4.0
_RELATIVE = 1e-9  # of the largest multiplier: below it is none


class PairIterate:
    """Unknowns, scores and multipliers, and the best machine so far."""

    def __init__(self, problem: Problem, design: Design):
        n, c = problem.n_rows, problem.n_classes
        self.problem, self.design = problem, design
        self.y, self.cost, self.own = problem.y, problem.cost, np.arange(n)
        self.classes = [np.flatnonzero(problem.y == k) for k in range(c)]
        self.V = np.zeros((design.n_unknowns, c))
        self.S, self.A, self.T = np.zeros((n, c)), np.zeros((n, c)), np.empty((n, c))
        self.value = self.open = np.inf  # F of the iterate, and how far it is above its own bound
        self.inexact = True  # whether the multipliers may be out of balance
        self.best: tuple[float, Array] | None = None
        self._room = np.empty(0)

    def start_along_means(self) -> float:
        """The multiple of the class means with the least F; returns the weighted sum of its margins."""
        design, y = self.design, self.y
        Y = np.full(self.S.shape, -1.0 / self.S.shape[1])
        Y[self.own, y] += 1.0
        V = design.adjoint(Y * (self.cost / self.cost.sum())[:, None])
        if design.fit_intercept:
            V[design.r] = 0.0
        S = design.scores(V)
        size = float(np.abs(S).max())
        margins = float(self.cost @ (S.shape[1] * S[self.own, y] - S.sum(axis=1)))
        t = 0.0
        if size > 0.0 and margins > 0.0:
            with np.errstate(all="ignore"):
                V, S = V / size, S / size
                F = self._along(V, S)
                found = [(F(t), t) for t in 4.0 ** np.arange(-12.0, 9.0)]
                value, t = min((pair for pair in found if np.isfinite(pair[0])), default=(0.0, 0.0))
                t = _refined(F, value, t)[1]
        self.V, self.S = (t * V, t * S) if t > 0.0 else (np.zeros_like(V), np.zeros_like(S))
        return t * margins / size if t > 0.0 else 0.0

    def room(self, size: int) -> Array:
        """Numbers to write into, the same each time: fresh pages are dear."""
        if size > len(self._room):
            self._room = np.empty(size + size // 16)
        return self._room[:size]

    def support(self) -> NDArray[np.bool_]:
        """The pairs whose multipliers are not 0."""
        return np.asarray(_RELATIVE * self.A.max(initial=0.0) < self.A)

    def _along(self, V: Array, S: Array) -> Callable[[float], float]:
        """F of t V as a function of t."""
        W, b = self.design.split(V)
        penalty = self.problem.penalty
        R, offsets = penalty.value_along(W), penalty.offset_value(b)
        return lambda t: native.hinge_value(S, self.y, self.cost, t) + R(t) + t * t * offsets

    def certify(self, ledger: Ledger, model: Any, n_iter: int, pulls: Array | None = None) -> float:
        """Adds the iterate's values to the ledger; returns its bound. `pulls` are those of the multipliers, if known."""
        t, primal = self._best_multiple()
        if self.best is None:  # W = 0 at least, where powers of distances overflow
            self.best = (self.problem.trivial_value(), np.zeros_like(self.V))
        if primal < self.best[0]:
            self.best = (primal, t * self.V)
            ledger.at_hand = lambda: best_machine(self)
        bound = 0.0 if self._far_from_balance() else self._bound(self.A, model, pulls)
        if self.design.fit_intercept and primal - bound > ledger.tol * primal and self.inexact:
            bound = max(bound, self._bound(self.balanced(), model))
        ledger.add(self.best[0], bound, n_iter)
        self.open = self.value - bound
        return bound

    def _bound(self, A: Array, model: Any, pulls: Array | None = None) -> float:
        gradient = -(self.pulls(A) if pulls is None else pulls)
        longest, sums = 1.0 / max(float((A.max(axis=1) / self.cost).max()), 1e-300), A.sum(axis=1)
        hidden = self._rounding(model.W, sums)
        return lower_bound(self.problem.penalty, model, self.design, gradient, float(sums.sum()), longest, hidden)

    def _rounding(self, W: Array, sums: Array) -> float:
        """What rounding hides in the pulls, and in the values: a machine a hair longer than one whose margins seem to be 1
        has them, and costs so much more."""
        return _ROUNDINGS * _EPS * float(sums @ (1.0 + self.design.score_scale(W)))

    def pulls(self, A: Array) -> Array:
        """``Z' tau`` of the centred rows, stacked like the unknowns."""
        T = self.T
        np.negative(A, out=T)
        T[self.own, self.y] = A.sum(axis=1)
        return self.design.adjoint(T)

    def _far_from_balance(self) -> bool:
        """Whether the sums of the multipliers cost more than the multipliers can be worth."""
        if not (self.design.fit_intercept and self.inexact):
            return False
        total = float(self.A.sum())
        return bool(self.problem.penalty.offset_conjugate(self.sums(), total) > _FAR * total)

    def sums(self) -> Array:
        """``sum_i tau_i``, which a free intercept wants to vanish."""
        return np.asarray(np.bincount(self.y, self.A.sum(axis=1), self.A.shape[1]) - self.A.sum(axis=0))

    def balanced(self) -> Array:
        """Multipliers whose sums over the rows vanish; inexact steps leave them unbalanced, and epsilon forgives little."""
        return balanced_duals(self.A, self.y)

    def _best_multiple(self) -> tuple[float, float]:
        """F is convex along the ray through the iterate; near the optimum 1 is best, before it seldom is."""
        F = self._along(self.V, self.S)
        self.value = F(1.0)
        best, at = _refined(F, self.value, 1.0)
        return at, best


def _refined(F: Callable[[float], float], best: float, at: float) -> tuple[float, float]:
    """The least value of a convex function near `at`, to a thousandth, and where it is."""
    step = 0.25
    while step > 1e-3:
        value, t = min((F(t), t) for t in (at * (1.0 + step), at / (1.0 + step)))
        if value < best:
            best, at = value, t
        else:
            step *= 0.25
    return best, at


def solution_of(now: PairIterate, ledger: Ledger, n_iter: int, status: str) -> tuple[Solution, Array]:
    """The best machine of the iterate with its multipliers, sparse and as they are."""
    machine, duals = best_machine(now), sparse_duals(np.where(now.support(), now.A, 0.0))
    # even if an earlier iterate was better: see with_better_machine
    return Solution(machine, duals, ledger.close(n_iter, status).of_primal(machine.primal, ledger.tol)), now.A


def with_better_machine(solution: Solution, earlier: PairIterate | None, tol: float) -> Solution:
    """The solution with an earlier iterate's machine if that is better: the bound holds for all machines alike."""
    if earlier is None or earlier.best is None or earlier.best[0] >= solution.machine.primal:
        return solution
    machine = best_machine(earlier)
    return solution._replace(machine=machine, certificate=solution.certificate.of_primal(machine.primal, tol))


def best_machine(now: PairIterate) -> Machine:
    """The best machine of the iterate so far."""
    assert now.best is not None
    primal, V = now.best
    W, b = now.design.machine(V)
    return Machine(W - W.mean(axis=1, keepdims=True), b - b.mean(), primal)
