"""Dual ascent for the block norm ``R = 1/2 (sum_k |w_k|^p)^(2/p)``: class scales on top of the native loop.

R is a minimum over class scales beta (penalties/block_norm.py). For fixed beta the machine is a Crammer-Singer machine with
the penalty ``sum_k |w_k|^2 / (2 beta_k)``, whose dual the native loop climbs: duals a make ``z_k = sum_i tau_ik x_i`` and
``w_k = beta_k z_k``. Between some epochs beta moves. The true dual needs no beta,

    D = sum_i A_i - 1/2 |(z_k)|_{2,p*}^2        (squared hinge: A_i - A_i^2 / (4 u_i)),    A_i = sum_l a_il,

so that the gap of w and a splits into the loop's own gap and the price of wrong class scales, which costs c numbers:

    P(w) - D(a) = sum_i (row gap) + [ 1/2 |w|_{2,p}^2 + 1/2 |z|_{2,p*}^2 - <w, z> ].

(Lei, Dogan, Binder & Kloft 2015, Algorithm 1, Problems 11 and 13.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.certificate import Ledger
from polymargin.penalties import BlockNorm
from polymargin.penalties.block_norm import half_square
from polymargin.problem import Problem
from polymargin.solvers.dual_ascent import Machine, Solution, SparseDuals, WarmStart, _Anderson, _centre_and_spread
from polymargin.solvers.flows import balancing_factors

Array = NDArray[np.float64]

import os
EPOCHS = int(os.environ.get("LP_EPOCHS", "2"))
MODE = os.environ.get("LP_MODE", "plain")


def class_weighted_ascent(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: WarmStart | None = None,
) -> Solution:
    """Solves `problem` until ``ledger.tol`` is certified or ``max_iter`` epochs are used up."""
    run = _Run(problem, seed, n_threads, start)
    machine = run.ascend(ledger, max_iter * problem.n_rows)
    n_iter = min(max_iter, -(-run.loop.visits // problem.n_rows))
    return Solution(machine, run.feasible_duals(), ledger.close(n_iter), run.scales)


def _open_loop(problem: Problem, seed: int) -> Any:
    X, name = problem.X, problem.loss.scaled_row_problem
    if name is None or not isinstance(problem.penalty, BlockNorm):
        raise TypeError(
            f"class-weighted ascent needs a loss with a scaled row sub-problem and a block norm; got the loss "
            f"'{problem.loss.name}' with the penalty '{problem.penalty.name}'"
        )
    if not sparse.issparse(X):
        return native.dense(name, X, problem.y, problem.cost, problem.n_classes, False, seed)
    arrays = (X.data, X.indices, X.indptr)
    return native.csr(name, *arrays, X.shape[1], problem.y, problem.cost, problem.n_classes, True, seed)


class _Run:
    """One ascent: the native loop, its class scales and the centre of a free intercept."""

    def __init__(self, problem: Problem, seed: int, n_threads: int, start: WarmStart | None):
        assert isinstance(problem.penalty, BlockNorm)
        self.problem, self.penalty, self.n_threads = problem, problem.penalty, n_threads
        self.loop = _open_loop(problem, seed)
        c = problem.n_classes
        self.scales = self.penalty.class_scales(np.ones(c))
        if start is not None and start.scales is not None:
            self.scales = start.scales
        self.loop.rescale(self.scales, np.zeros(c))
        if problem.fit_intercept:
            means, mean_square = _centre_and_spread(problem.X)
            self.inverse_rho = 0.2 * mean_square * float(np.median(self.scales)) if mean_square > 0.0 else 1.0
            self.loop.start_intercept(means, self.inverse_rho)
        if start is not None:
            self.loop.set_duals(*start.duals)
            if problem.fit_intercept:
                self.loop.move_centre(start.b + means @ self.loop.weights())
        self.move_centre = _Anderson()
        self.drift = 0.0

    def ascend(self, ledger: Ledger, budget: int) -> Machine:
        problem, loop, n = self.problem, self.loop, self.problem.n_rows
        best: Machine | None = None
        outer = next_check = 0
        inner_tol = 0.3 * ledger.tol
        anderson = _Anderson()
        while True:
            epochs = 10 if problem.fit_intercept else EPOCHS
            loop.ascend(max(1, min(epochs * n, budget - loop.visits)), inner_tol)
            outer += 1
            squares = loop.squared_norms()
            wrong_scales = self.price_of_scales(squares)
            estimate = loop.estimate + wrong_scales
            scale = abs(loop.dual + loop.estimate)
            out_of_budget = loop.visits >= budget
            promising = estimate <= 0.7 * ledger.tol * scale
            if os.environ.get("LP_V"): print(outer, loop.visits/n, "inner %.2e scales %.2e" % (loop.estimate/scale, wrong_scales/scale))
            if (outer >= next_check and promising) or out_of_budget or outer >= next_check + 50:
                primal, dual = self.primal(squares), self.dual(squares)
                ledger.add(primal, dual, loop.visits // n)
                if os.environ.get("LP_V"): print("   P %.8g D %.8g" % (primal, dual))
                if best is None or primal < best.primal:
                    best = Machine(loop.weights(), loop.intercepts(), primal)
                if ledger.done or out_of_budget:
                    return best
                next_check = outer + max(1, outer // 8)
                loop.restore()
            inner_tol = max(0.3 * ledger.tol, 0.3 * wrong_scales / scale)
            if problem.fit_intercept:
                loop.move_centre(self.move_centre(loop.centre(), self.inverse_rho * loop.sums()))
                loop.restore()
            new = self.penalty.class_scales(self.scales * np.sqrt(squares))
            if MODE == "anderson":
                x = np.log(self.scales)
                y = anderson(x, np.log(new) - x)
                new = np.exp(y); 
                new /= (new ** (self.penalty.p/(2-self.penalty.p))).sum() ** ((2-self.penalty.p)/self.penalty.p)
            self.drift += float(np.abs(np.log(new/self.scales)).max())
            self.scales = new
            loop.rescale(self.scales, squares)
            if self.drift > 0.5:
                loop.restore(); self.drift = 0.0

    def price_of_scales(self, squares: Array) -> float:
        norms = np.sqrt(squares)
        inner = float(self.scales @ squares)
        penalty = self.penalty
        return half_square(self.scales * norms, penalty.p) + half_square(norms, penalty.dual_p) - inner

    def primal(self, squares: Array) -> float:
        return half_square(self.scales * np.sqrt(squares), self.penalty.p) + self.loop.loss(self.n_threads)

    def dual(self, squares: Array) -> float:
        if not self.problem.fit_intercept:
            return self.loop.dual_sum - half_square(np.sqrt(squares), self.penalty.dual_p)
        room, total, quadratic = self.balanced_totals()[1:]
        t = min(room, total / (2.0 * quadratic)) if quadratic > 0.0 else room
        return t * total - t * t * quadratic

    def balanced_totals(self) -> tuple[Array, float, float, float]:
        factors = balancing_factors(self.loop.flows())
        room, total, losses, squares = self.loop.totals_of(factors)
        return factors, room, total, 0.5 * losses + half_square(np.sqrt(squares), self.penalty.dual_p)

    def feasible_duals(self) -> SparseDuals:
        duals = SparseDuals(*self.loop.duals())
        if not self.problem.fit_intercept:
            return duals
        factors, room, total, quadratic = self.balanced_totals()
        t = min(room, total / (2.0 * quadratic)) if quadratic > 0.0 else room
        y = self.problem.y
        rows = np.repeat(np.arange(len(y)), np.diff(duals.starts))
        return duals._replace(values=duals.values * (t * factors[y[rows], duals.classes]))
