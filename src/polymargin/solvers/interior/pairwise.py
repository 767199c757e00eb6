"""Interior point for the pairwise (Weston-Watkins) hinge with any penalty that has Hessian products.

    min_{W, b}  sum_i u_i sum_{k != y} [1 - (s_y - s_k)]_+  +  R(W, b)

Slacks and multipliers live in the native pairs (``_core/score_kernels.hpp``). Eliminated, they leave one system in
(W, b) per Newton step: the penalty's Hessian plus a star of weights per row (`newton_system.py`). R need not be
quadratic: a step is shortened until R follows its quadratic model. A penalty that is not smooth is blurred by a part
of what the pairs' products leave open.

Every iterate is certified (`pair_iterate.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.interior.pair_iterate import PairIterate, solution_of, with_better_machine
from polymargin.solvers.interior.systems import LARGEST_MATRIX, NewtonSystem, StarCurvature, assembled
from polymargin.solvers.newton.smooth import stacked_gradient
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Solution, Start

Array = NDArray[np.float64]

TO_BOUNDARY = 0.99
FOLLOWS = 0.25  # how far R may leave its model, as a part of the step's curvature
LITTLE = 0.1  # of all products: a maximum may rise by that
BLUR = 0.1  # of the sum of all products
HOLD = 3.0  # blur and products wait while so many times their sum is open
CG_STEPS = 150  # at most, for a system that is not factorised
PATIENCE = 20  # iterations without halving the gap


class _Interior(PairIterate):
    """An iterate inside all bounds: slacks s and xi and the multipliers B of the hinges' other sides."""

    def __init__(self, problem: Problem, design: Design):
        super().__init__(problem, design)
        self.B, self.xi, self.s = (np.zeros_like(self.S) for _ in range(3))
        self.omega = np.zeros_like(self.S)
        self.mu = self.blur = 0.0
        self.largest: Any = None
        self.inexact = not assembled(design, problem.n_classes)  # else Newton systems are solved exactly

    @property
    def pairs(self) -> tuple[Array, Array, Array, Array, Array]:
        return self.S, self.A, self.B, self.xi, self.s

    @property
    def n_pairs(self) -> int:
        return int(self.S.size - len(self.y))

    @property
    def n_products(self) -> int:
        """Of slacks and multipliers, all of which are mu on the central path."""
        return 2 * self.n_pairs + (0 if self.largest is None else self.largest.n_products)

    def support(self) -> NDArray[np.bool_]:
        """The pairs whose multipliers are not on their way to 0."""
        return super().support() & ((self.s < self.A) | (1e-3 * self.cost[:, None] < self.A))

    def start_cold(self) -> None:
        """Along the class means, with multipliers that balance R there."""
        penalty = self.problem.penalty
        margins = self.start_along_means()
        W = self.V[: self.design.r]
        slope = float((penalty.model(W, 1e-3 * penalty.value(W)).gradient * W).sum())
        share = np.clip(slope / margins if margins > 0.0 else 0.5, 1e-3, 0.5)
        self._start_pairs(np.broadcast_to((share * self.cost)[:, None], self.S.shape))

    def start_warm(self, start: Start, V: Array) -> None:
        self.V = V
        self.S = self.design.scores(V)
        self.A[:] = start.duals.dense(self.A.shape[1])

    def push_inside(self, share: float) -> None:
        """Warm multipliers away from their bounds."""
        u = self.cost[:, None]
        self._start_pairs(np.clip(self.A, share * u, (1.0 - share) * u))

    def _start_pairs(self, A: Array) -> None:
        rows = np.arange(len(self.y))
        x = 1.0 - (self.S[rows, self.y][:, None] - self.S)
        room = max(float(np.abs(x).mean()), 1e-3)
        self.A[:] = A
        self.B[:] = self.cost[:, None] - A
        self.s[:] = np.maximum(-x, 0.0) + room
        self.mu = float((self.A * self.s).mean())
        self.s[:] = np.maximum(self.s, 0.1 * self.mu / self.A)
        self.xi[:] = self.mu / self.B + np.maximum(x, 0.0)
        for array in (self.A, self.B, self.xi, self.s):
            array[rows, self.y] = 0.0
        self.mu = float((self.A * self.s).sum() + (self.B * self.xi).sum()) / (2.0 * self.n_pairs)
        self.largest = self.problem.penalty.largest(self.V[: self.design.r], self.mu)
        self.blur = BLUR * 2.0 * self.mu * self.n_pairs if self.blurs else 0.0

    @property
    def blurs(self) -> bool:
        """Whether R has to be blurred."""
        return self.largest is None and not self.problem.penalty.smooth

    def model(self) -> Any:
        """R near W, blurred if it is not smooth; a maximum comes with its multipliers."""
        W = self.V[: self.design.r]
        return self.problem.penalty.model(W, self.blur) if self.largest is None else self.largest.model(W)


def hinge_path(problem: Problem, ledger: Ledger, *, max_iter: int, start: Start | None = None) -> tuple[Solution, Array]:
    """Solves `problem` until ``ledger.tol`` is certified; also returns the multipliers (n, c) of the end."""
    used, warm = 0, None
    if start is not None:
        warm = _Interior(problem, Design(problem.X, problem.cost, problem.fit_intercept, rotate=False))
        status, used = _follow_warm(warm, start, ledger, max_iter)
        if ledger.done or used >= max_iter:
            return solution_of(warm, ledger, used, status)
    now = _Interior(problem, Design(problem.X, problem.cost, problem.fit_intercept, _worth_rotating(problem)))
    now.start_cold()
    status, n_iter = _follow(now, ledger, max_iter - used)
    solution, multipliers = solution_of(now, ledger, used + n_iter, status)
    return with_better_machine(solution, warm, ledger.tol), multipliers


def _worth_rotating(problem: Problem) -> bool:
    """Fewer coordinates help if a matrix is to be assembled in them, and dense rows in any case; sparse rows stay sparse."""
    if not problem.penalty.rotation_invariant:
        return False
    return not sparse.issparse(problem.X) or (problem.n_rows + 1) * problem.n_classes <= LARGEST_MATRIX


def _follow_warm(now: _Interior, start: Start, ledger: Ledger, max_iter: int) -> tuple[str, int]:
    """From an earlier fit; if that leads nowhere, the caller starts again."""
    design = now.design
    V = design.unknowns(start.W, start.b)
    now.start_warm(start, V)
    blur = 0.1 * ledger.tol * now.problem.penalty.value(start.W)
    now.certify(ledger, now.problem.penalty.model(V[: design.r], blur), 1)
    if ledger.done:
        return "max_iter", 1
    now.push_inside(1e-3)
    return _follow(now, ledger, max_iter)


def _follow(now: _Interior, ledger: Ledger, max_iter: int) -> tuple[str, int]:
    mark, mark_open, waited = np.inf, np.inf, 0
    for n_iter in range(max_iter + 1):
        model = now.model()
        now.certify(ledger, model, max(1, n_iter))
        if ledger.done or n_iter == max_iter:
            return "max_iter", max(1, n_iter)
        waited += 1
        if ledger.gap <= 0.5 * mark or now.open <= 0.5 * mark_open:  # a steep R falls to e^-1 in a step, whatever its best
            mark, mark_open, waited = min(mark, ledger.gap), min(mark_open, now.open), 0
        if waited > PATIENCE and (now.mu * now.n_pairs < 0.01 * ledger.gap or waited > 3 * PATIENCE):
            return "stalled", n_iter
        try:
            with np.errstate(all="ignore"):
                moved = _step(now, model)
        except (FloatingPointError, np.linalg.LinAlgError):
            return "stalled", max(1, n_iter)
        if not moved:
            return "stalled", max(1, n_iter)
    raise AssertionError("unreachable")


def _step(now: _Interior, model: Any) -> bool:
    """One predictor-corrector step; False if rounding leaves none."""
    design, penalty, largest = now.design, now.problem.penalty, now.largest
    _, b = design.split(now.V)
    # what neither the products nor the blur explain is imbalance: first balance the iterate, then go on
    hold = now.open > (10.0 if penalty.smooth else HOLD) * (now.mu * now.n_products + now.blur)
    curvature = StarCurvature(now.omega, now.y, now.classes)
    cg_tol = _cg_tolerance(now.open / now.value)
    system: NewtonSystem | None = None
    dS_predictor: Array | None = None
    mu = 0.0  # the predictor aims at the optimum itself
    for corrects in (False, True):
        native.pair_system(now.y, mu, *now.pairs, dS_predictor, now.T, now.omega)
        if system is None:
            system = NewtonSystem(design, penalty, model, curvature, now.S.shape[1])
        aimed = model if largest is None else largest.aim(model, mu, correct=corrects)
        base = stacked_gradient(design, penalty, aimed, np.zeros_like(now.V), b)  # of the penalty alone
        D, _ = system.solve(-(base + design.adjoint(now.T)), cg_tol, CG_STEPS)
        if not np.isfinite(D).all():
            return False
        if largest is not None:
            largest.follow(model.W, D[: design.r], system.stretch_pulls)
        dS = system.scores(D)
        report = native.assess_step(now.y, mu, *now.pairs, dS, dS_predictor)
        longest = min(report[0], report[1], 1e300 if largest is None else largest.longest())
        a = min(1.0, (TO_BOUNDARY if corrects else 1.0) * longest)
        a = _while_R_follows(now, model, D[: design.r], a, report[6])
        sums = report[2] + a * (report[3] + report[4]) + a * a * report[5]
        sums += 0.0 if largest is None else largest.products_after(a)
        if not corrects:
            after = sums / now.n_products
            mu = now.mu * (1.0 if hold else float(np.clip(after / now.mu, 1e-4, 1.0)) ** 3)
            dS_predictor = dS
    if a < 1e-10:
        return False
    native.take_step(now.y, mu, *now.pairs, dS, dS_predictor, a, a)
    now.V = now.V + a * D
    if system is not None and system.rounds_scores:
        now.S = design.scores(now.V)
    if largest is not None:
        largest.take(a)
    now.mu = sums / now.n_products
    if now.blurs and not hold:
        now.blur = max(BLUR * sums, (1.0 - 0.8 * a) * now.blur)
    return True


def _cg_tolerance(rel_gap: float) -> float:
    """Rough directions do far from the optimum."""
    return 3e-2 if rel_gap > 0.2 else 1e-2 if rel_gap > 1e-3 else 1e-3


def _while_R_follows(now: _Interior, model: Any, D: Array, a: float, loss_curvature: float) -> float:
    """The longest of a, 0.7 a, ... at which R is close to its quadratic model."""
    slope = float((model.gradient * D).sum())
    bend = float((model.product(D) * D).sum())
    allowed = FOLLOWS * (bend + loss_curvature)
    penalty, little = now.problem.penalty, 1e-13 * abs(model.value)
    if now.largest is not None:
        little += LITTLE * now.mu * now.n_products

    def strays(a: float) -> float:
        if now.largest is not None:
            return float(now.largest.rise(a))
        there = penalty.model(model.W + a * D, now.blur).value
        return abs(there - model.value - a * slope - 0.5 * a * a * bend)

    while a > 1e-10 and not strays(a) <= a * a * allowed + little:
        a *= 0.7
    return a
