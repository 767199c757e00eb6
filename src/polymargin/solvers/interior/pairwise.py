"""Interior point for the pairwise (Weston-Watkins) hinge with any penalty that has Hessian products.

    min_{W, b}  sum_i u_i sum_{k != y} [1 - (s_y - s_k)]_+  +  R(W, b)

The block of the pairs (`blocks/native_pairs.py`), eliminated, leaves one system in (W, b): the penalty's Hessian plus a star
of weights per row (`systems/stacked.py`). R need not be quadratic: a step is shortened until R follows its quadratic model.
A maximum brings slacks and multipliers of its own (`penalties/largest.py`); another penalty that is not smooth is blurred by
a part of what the pairs' products leave open (`penalties/blurred.py`).

Every iterate is certified (`pair_iterate.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.cost_model import LARGEST_MATRIX
from polymargin.solvers.interior.blocks.native_pairs import NativePairs
from polymargin.solvers.interior.central_path import Path, follow_central_path
from polymargin.solvers.interior.pair_iterate import PairIterate, solution_of, with_better_machine
from polymargin.solvers.interior.systems.curvature import StarCurvature
from polymargin.solvers.interior.systems.stacked import NewtonSystem, assembled
from polymargin.solvers.progress import Stall
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Solution, Start

Array = NDArray[np.float64]

FOLLOWS = 0.25  # how far R may leave its model, as a part of the step's curvature
LITTLE = 0.1  # of all products: a maximum may rise by that
BLUR = 0.1  # of the sum of all products
HOLD = 10.0, 3.0  # blur and products wait while so many times their sum is open: R smooth, and not
CG_STEPS = 150  # at most, for a system that is not factorised
PATIENCE = 20  # iterations without halving the gap


def hinge_path(problem: Problem, ledger: Ledger, *, max_iter: int, start: Start | None = None) -> tuple[Solution, Array]:
    """Solves `problem` until ``ledger.tol`` is certified; also returns the multipliers (n, c) of the end."""
    used, warm = 0, None
    if start is not None:
        warm = _PairPath(problem, Design(problem.X, problem.cost, problem.fit_intercept, rotate=False), ledger)
        status, used = "max_iter", 1
        if not warm.start_warm(start):
            status, used = _follow(warm, max_iter)
        if ledger.done or used >= max_iter:
            return solution_of(warm, ledger, used, status)
    now = _PairPath(problem, Design(problem.X, problem.cost, problem.fit_intercept, _worth_rotating(problem)), ledger)
    now.start_cold()
    status, n_iter = _follow(now, max_iter - used)
    solution, multipliers = solution_of(now, ledger, used + n_iter, status)
    return with_better_machine(solution, warm, ledger.tol), multipliers


def _follow(path: _PairPath, max_iter: int) -> tuple[str, int]:
    status, n_iter = follow_central_path(path, max_iter)
    return status, max(1, n_iter)


def _worth_rotating(problem: Problem) -> bool:
    """Fewer coordinates help if a matrix is to be assembled in them, and dense rows in any case; sparse rows stay sparse."""
    if not problem.penalty.rotation_invariant:
        return False
    return not sparse.issparse(problem.X) or (problem.n_rows + 1) * problem.n_classes <= LARGEST_MATRIX


class _PairPath(PairIterate, Path):
    """The pairs of an iterate inside all bounds on the stacked system, and the blur of R."""

    block: NativePairs
    to_boundary = 0.99

    def __init__(self, problem: Problem, design: Design, ledger: Ledger):
        super().__init__(problem, design)
        self.ledger, self.block = ledger, NativePairs(self)
        self.inexact = not assembled(design, problem.n_classes)  # else Newton systems are solved exactly
        self.stall = Stall(PATIENCE, 0.5, 0.5)

    def support(self) -> NDArray[np.bool_]:
        """The pairs whose multipliers are not on their way to 0."""
        return super().support() & ((self.block.s < self.A) | (1e-3 * self.cost[:, None] < self.A))

    # -- where it starts

    def start_cold(self) -> None:
        """Along the class means, with multipliers that balance R there."""
        penalty = self.problem.penalty
        margins = self.start_along_means()
        W = self.V[: self.design.r]
        slope = float((penalty.model(W, penalty.width(W, 1e-3 * penalty.value(W))).gradient * W).sum())
        share = np.clip(slope / margins if margins > 0.0 else 0.5, 1e-3, 0.5)
        self._start_inside(np.broadcast_to((share * self.cost)[:, None], self.S.shape))

    def start_warm(self, start: Start, share: float = 1e-3) -> bool:
        """From an earlier fit; True if that is good enough, else its multipliers are moved away from their bounds."""
        design, penalty, ledger = self.design, self.problem.penalty, self.ledger
        self.V = design.unknowns(start.W, start.b)
        self.S = design.scores(self.V)
        self.A[:] = start.duals.dense(self.A.shape[1])
        W = self.V[: design.r]
        self.certify(ledger, penalty.model(W, penalty.width(W, 0.1 * ledger.tol * penalty.value(W))), 1)
        if not ledger.done:
            u = self.cost[:, None]
            self._start_inside(np.clip(self.A, share * u, (1.0 - share) * u))
        return ledger.done

    def _start_inside(self, A: Array) -> None:
        self.block.start(A)
        self.block.penalty.sharpen(self.V[: self.design.r], BLUR * self._products)

    @property
    def _products(self) -> float:
        """The sum of all of them: what is open on the central path."""
        return self.block.mean * self.block.n_products

    # -- what it proves

    def prove(self, n_iter: int) -> bool:
        """Also the model of R near W."""
        self.model = self.block.penalty.model(self.V[: self.design.r])
        self.certify(self.ledger, self.model, max(1, n_iter))
        return self.ledger.done

    def stalls(self) -> bool:
        """Neither the gap nor what is open falls, though the products have, or for very long."""
        stalls = self.stall.note(self.ledger.gap, self.open)  # a steep R falls to e^-1 in a step, whatever its best
        rounding = 0.5 * self._products < 0.01 * self.ledger.gap
        return stalls and (rounding or self.stall.waited > 3 * PATIENCE)

    # -- a step

    def linearise(self) -> None:
        # what neither the products nor the blur explain is imbalance: first balance the iterate, then go on
        self.hold = self.open > HOLD[not self.problem.penalty.smooth] * (self._products + self.block.penalty.blur)
        curvature = StarCurvature(self.block.linearise(), self.y, self.classes)
        self.system = NewtonSystem(self.design, self.problem.penalty, self.model, curvature, self.S.shape[1])

    def direction_of(self, pull: Array, target: float) -> tuple[Array, Array]:
        design, penalty, model = self.design, self.block.penalty, self.model
        aimed = penalty.aim(model, target, correct=self.block.predicted is not None)
        G = self.system.penalty_gradient(aimed, self.V) + design.adjoint(pull)
        D = self.system.solve(-G, _cg_tolerance(self.open / self.value), CG_STEPS)
        penalty.follow(model, D[: design.r], self.system.stretch_pulls)
        return D, self.system.scores(D)

    def shortened(self, size: float) -> float:
        """The longest of size, 0.7 size, ... at which R is close to its quadratic model."""
        model, penalty, D = self.model, self.block.penalty, self.dV[: self.design.r]
        bend = float((model.product(D) * D).sum())
        allowed = FOLLOWS * (bend + self.block.curvature)
        little = 1e-13 * abs(model.value) + (LITTLE * self._products if penalty.n_products else 0.0)
        while size > 1e-10 and not penalty.strays(size, bend) <= size * size * allowed + little:
            size *= 0.7
        return size

    def mehrotra_target(self, size: float) -> tuple[float, float]:
        target = self.block.mehrotra_target(size)
        return (self.block.mean, self.block.mean) if self.hold else target

    def step(self, size: float) -> None:
        super().step(size)
        if self.system.rounds_scores:
            self.S = self.design.scores(self.V)
        if not self.hold:
            blur = max(BLUR * self._products, (1.0 - 0.8 * size) * self.block.penalty.blur)
            self.block.penalty.sharpen(self.V[: self.design.r], blur)


def _cg_tolerance(rel_gap: float) -> float:
    """Rough directions do far from the optimum."""
    return 3e-2 if rel_gap > 0.2 else 1e-2 if rel_gap > 1e-3 else 1e-3
