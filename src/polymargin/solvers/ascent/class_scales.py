"""Dual ascent for the block norm ``R = 1/2 (sum_k |w_k|^p)^(2/p)``: class scales on top of the native loop.

R is a minimum over class scales beta (penalties/block_norm.py). For fixed beta the machine is a Crammer-Singer machine with
the penalty ``sum_k |w_k|^2 / (2 beta_k)``, whose dual the native loop climbs: duals a make ``z_k = sum_i tau_ik x_i`` and
``w_k = beta_k z_k``. Every other epoch beta moves. The true dual needs no beta,

    D = sum_i A_i - 1/2 |z|_{2,p*}^2        (squared hinge: A_i - A_i^2 / (4 u_i)),      A_i = sum_l a_il,

so that the gap of w and a splits into the loop's own gap and the price of wrong class scales, which takes c numbers:

    P(w) - D(a) = sum_i (row gap) + [ 1/2 |w|_{2,p}^2 + 1/2 |z|_{2,p*}^2 - <w, z> ].

Neither part is driven far below the other. (Lei, Dogan, Binder & Kloft 2015, Algorithm 1, Problems 11 and 13.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.penalties.block_norm import half_square
from polymargin.problem import Problem
from polymargin.solvers.ascent.driver import Watch, machine_of
from polymargin.solvers.ascent.loops import open_scaled_loop
from polymargin.solvers.bounds import balancing_factors, best_multiple
from polymargin.solvers.newton.augmented import finish_with_newton
from polymargin.solvers.plan import Pace, interior_point_patience
from polymargin.solvers.progress import Anderson
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

Array = NDArray[np.float64]

_EPOCHS = 2  # between two moves of the scales
_EPOCHS_WITH_INTERCEPT = 5  # between two moves of scales and centre
_INTERIOR_POINTS = 8  # that end a small fit, usually
_FEW_EPOCHS = 200  # before that, interior points are not worth a thought
_EXACT = 1e-9  # below this tolerance a small fit always ends with interior points: they leave W exact to rounding
_DRIFT = 0.5  # of log beta, after which classes that left a row's list are looked at again


def solve_class_weighted(problem: Problem, ledger: Ledger, *, max_iter: int, **settings: Any) -> Solution:
    """Solves a block-norm `problem` to ``ledger.tol``: dual ascent, then interior points where they pay."""
    patience = interior_point_patience(problem, _INTERIOR_POINTS)
    small = patience < np.iinfo(np.int32).max
    epochs = min(max_iter, patience, max(_FEW_EPOCHS, max_iter // 2)) if small else max_iter
    gives_up = None if small else Pace(problem, ledger, max_iter).gives_up
    solution = class_weighted_ascent(problem, ledger, max_iter=epochs, gives_up=gives_up, **settings)
    left = max_iter - solution.certificate.n_iter
    if left <= 0 or (ledger.done and (not small or ledger.tol > _EXACT)):
        return solution
    if not small:

        def ascend(start: Start, epochs: int) -> Solution:
            return class_weighted_ascent(problem, ledger, max_iter=epochs, **{**settings, "start": start})

        return finish_with_newton(problem, ledger, left, solution, ascend)
    from polymargin.solvers.interior.scaled import finish_with_scaled_interior_points

    return finish_with_scaled_interior_points(problem, ledger, left, solution)


def class_weighted_ascent(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    gives_up: Watch | None = None,
) -> Solution:
    """Climbs until ``ledger.tol`` is certified, ``max_iter`` epochs are used up or `gives_up` says so."""
    ascent = _Ascent(problem, seed, n_threads, start)
    ledger.at_hand = lambda: machine_of(problem, ascent.loop)
    machine = ascent.run(ledger, max_iter * problem.n_rows, gives_up)
    n_iter = min(max_iter, -(-ascent.loop.visits // problem.n_rows))
    return Solution(machine, ascent.feasible_duals(), ledger.close(n_iter), ascent.scales)


class _Ascent:
    """The native loop, its class scales and the centre of a free intercept."""

    def __init__(self, problem: Problem, seed: int, n_threads: int, start: Start | None):
        self.loop = open_scaled_loop(problem, seed)
        assert problem.penalty.class_scales is not None
        self.problem, self.penalty, self.n_threads = problem, problem.penalty.class_scales, n_threads
        self.free_intercept = problem.fit_intercept
        self._extrapolate, self._drift = Anderson(), 0.0
        warm = None if start is None else start.scales
        self.scales = self.penalty.normalised(np.ones(problem.n_classes) if warm is None else warm)
        self.loop.rescale(self.scales, np.zeros(problem.n_classes))
        if self.free_intercept:
            means, mean_square = centre_and_spread(problem.X)
            # as in dual_ascent.py, with a row's curvature for a class of middling scale
            self._inverse_rho = 0.2 * mean_square * float(np.median(self.scales)) if mean_square > 0.0 else 1.0
            self.loop.start_intercept(means, self._inverse_rho)
        if start is not None:
            self.loop.set_duals(*start.duals)
            if self.free_intercept:
                self.loop.move_centre(start.b + means @ self.loop.weights())

    def run(self, ledger: Ledger, budget: int, gives_up: Watch | None) -> Machine:
        loop, n = self.loop, self.problem.n_rows
        visits = n * (_EPOCHS_WITH_INTERCEPT if self.free_intercept else _EPOCHS)
        best: Machine | None = None
        outer = next_check = 0
        inner_tol = 0.3 * ledger.tol
        while True:
            loop.ascend(min(visits, budget - loop.visits), inner_tol)
            outer += 1
            squares = loop.squared_norms()
            price, size = self._price_of_scales(squares), abs(loop.dual + loop.estimate)
            promising = loop.estimate + price <= 0.7 * ledger.tol * size
            out_of_budget = loop.visits >= budget
            if (outer >= next_check and promising) or outer >= next_check + 40 or out_of_budget:
                primal, dual = self._primal(squares), self._dual(squares)
                ledger.add(primal, dual, loop.visits // n)
                if best is None or primal < best.primal:
                    best = Machine(loop.weights(), loop.intercepts(), primal)
                if ledger.done or out_of_budget:
                    return best
                if gives_up is not None and gives_up(loop.visits // n, self.feasible_duals):
                    return best
                next_check = outer + max(1, outer // 8)
                self._drift = np.inf
            inner_tol = max(0.3 * ledger.tol, 0.3 * price / size if size > 0.0 else 0.0)
            self._move(squares)

    def _move(self, squares: Array) -> None:
        """Moves scales and centre; rows look at all classes again if that may have changed what they would drop."""
        loop, before, c = self.loop, self.scales, self.problem.n_classes
        point, step = np.log(before), self.penalty.log_step(before, before * np.sqrt(squares))
        if self.free_intercept:  # one fixed-point iteration in both: they depend on each other
            point, step = np.r_[point, loop.centre()], np.r_[step, self._inverse_rho * loop.sums()]
        point = self._extrapolate(point, step)
        self.scales = self.penalty.scales_at(point[:c])
        loop.rescale(self.scales, squares)
        self._drift += float(np.abs(np.log(self.scales / before)).max())
        if self.free_intercept:
            loop.move_centre(point[c:])
        if self.free_intercept or self._drift > _DRIFT:
            self.loop.restore()
            self._drift = 0.0

    def _price_of_scales(self, squares: Array) -> float:
        """What the gap has more than the loop's own: Fenchel's inequality for w and z, in the block norms."""
        norms = np.sqrt(squares)
        penalty = half_square(self.scales * norms, self.penalty.p) + half_square(norms, self.penalty.dual_p)
        return max(0.0, penalty - float(self.scales @ squares))

    def _primal(self, squares: Array) -> float:
        penalty = half_square(self.scales * np.sqrt(squares), self.penalty.p)
        return penalty + float(self.loop.loss(self.n_threads))

    def _dual(self, squares: Array) -> float:
        if not self.free_intercept:
            return float(self.loop.dual_sum) - half_square(np.sqrt(squares), self.penalty.dual_p)
        _, t, total, quadratic = self._balanced()
        return t * total - t * t * quadratic

    def _balanced(self) -> tuple[Array, float, float, float]:
        """Factors that repair the duals to ``sum_i tau_ik = 0``, the best multiple t of the result, and its two totals."""
        factors = balancing_factors(self.loop.flows())
        room, total, losses, squares = self.loop.totals_of(factors)
        quadratic = 0.5 * losses + half_square(np.sqrt(squares), self.penalty.dual_p)
        return factors, best_multiple(room, total, 2.0 * quadratic), total, quadratic

    def feasible_duals(self) -> SparseDuals:
        """The duals whose value is the bound."""
        duals = SparseDuals(*self.loop.duals())
        if not self.free_intercept:
            return duals
        factors, t, _, _ = self._balanced()
        return duals.times(t * factors, self.problem.y)
