"""The method of multipliers on the duals that are free to move: for wide data, where interior points would be too large.

Many columns, rows that can be separated, a large C: then the Hessian of the dual on its face is badly conditioned, and
ascent takes tens of thousands of epochs. The smooth problems of `multipliers.py` are here

    min_{W, b}  1/2 |W|^2 + |b - b'|^2 / (2 kappa) + sum_i max_{a in A_i} <a, e_i> - |a - a'_i|^2 / (2 sigma),
    e_il = 1 - (s_iy - s_il),      a', b' the duals and offsets before,      kappa = infinity in the limit

with the projections of ``a' + sigma e`` onto the polytope A_i of the loss as duals. The linear system of a Newton step has
one unknown for each dual that is free to move, and those are about as many as support pairs:

    (G / sigma + M) dz = change of e along the residual
    M_jl = (<x_j, x_l> + kappa) (e_own - e_rival)_j' (e_own - e_rival)_l

An open row has own = y and G the identity. A closed one, whose duals keep their sum u_i, gives and takes between its largest
dual (own) and the others: there G is the identity plus ones. Every round ends with a certificate. With the class scales beta
of a block norm, ``w_k = beta_k X' tau_k`` and the rows' part of M has beta between its signs; beta moves after every round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin._core import native
from polymargin.losses.domains.domain import Projected
from polymargin.penalties.block_norm import class_norms
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import cost_model
from polymargin.solvers.bounds import Ray, balanced_duals, signed
from polymargin.solvers.newton.free_pairs import FreePairs, free_pairs
from polymargin.solvers.newton.line_search import backtrack
from polymargin.solvers.newton.multipliers import MultiplierMethod, Round
from polymargin.solvers.progress import Anderson, Stall
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Machine, Solution, signs_of, sparse_duals

Array = NDArray[np.float64]

_FIRST_SIGMA = 50.0  # in 1 / mean squared length of the rows
_LONGEST = 10.0  # at first: a dual moves by so many of its bounds, for a margin that is missed by 1
_LARGEST_SIGMA, _LARGEST_KAPPA = 1e9, 1e4  # in the same unit, and in mean squared lengths
_GROWTH = ((2, 7.5), (6, 3.0), (29, 1.7), (30, 0.1))  # of sigma, after a round of so many steps at most
_STEPS = 30  # of one round
_EXACT = 0.01  # squared residual of a round, in squared changes of the duals
_ARMIJO, _SHORTEST = 1e-4, 2e-6
_PATIENCE = 8  # rounds that do not halve the gap


def multiplier_newton(
    problem: Problem, ledger: Ledger, max_iter: int, so_far: Solution, given: Array | None = None
) -> Solution:
    """Rounds until ``ledger.tol`` is certified; the status is "stalled" if rounding or too many duals end them.

    Scores that are `given` are added to those of the machine.
    """
    return _Multipliers(problem, ledger, so_far, given).run(max_iter)


class _Point(NamedTuple):
    """A machine, its scores, what the rows add to the smooth problem, the duals that attain it, and the residual."""

    V: Array
    S: Array
    rows_value: float
    at: Projected
    residual: Array


class _Multipliers(MultiplierMethod[_Point, Array]):
    def __init__(self, problem: Problem, ledger: Ledger, so_far: Solution, given: Array | None):
        assert so_far.duals is not None
        self.problem, self.ledger, self.best = problem, ledger, so_far
        ledger.at_hand = lambda: self.best.machine
        self.n_iter = so_far.certificate.n_iter
        self._own = np.arange(problem.n_rows), problem.y
        self._given = np.zeros((1, 1)) if given is None else given
        self._polytope = problem.row_domains
        self._design = Design(problem.X, problem.cost, problem.fit_intercept, rotate=True)
        self._scales = np.ones(problem.n_classes) if so_far.scales is None else so_far.scales
        self._extrapolate = Anderson()
        self._square = max(self._design.mean_square * float(self._scales.mean()), 1e-300)
        self._sigma = min(_FIRST_SIGMA / self._square, _LONGEST * float(np.median(problem.cost)))
        self._A = so_far.duals.dense(problem.n_classes)
        self._kappa = 1.0
        self._V = self._pulls(signed(self._A, problem.y))
        if problem.fit_intercept:
            W = self._V[:-1]
            self._V[-1] = so_far.machine.b + self._design.mean @ W
        self._S = self._design.scores(self._V) + self._given

    def run(self, max_iter: int) -> Solution:
        self._last, self._stall = self.n_iter + max_iter, Stall(_PATIENCE, 0.5)
        end = self.rounds()
        out_of_steps = end is not None and self.n_iter >= self._last
        return self.best._replace(
            certificate=self.ledger.close(self.n_iter, "max_iter" if out_of_steps else "stalled"), crawled=True
        )

    # -- one round --------------------------------------------------------------------------------------------------

    def _begin_round(self) -> _Point:
        self._kappa = self._square * min(1.0 + self._sigma * self._square, _LARGEST_KAPPA)
        self._centre = self._V[-1].copy()
        self._most = min(_STEPS, self._last - self.n_iter)
        return self._point(self._V, self._S, *self._rows_part(self._S))

    def _stops(self, point: _Point, steps: int) -> bool:
        return steps >= self._most

    def _direction(self, point: _Point) -> Array | None:
        """The residual plus the pulls of the free duals' steps."""
        pairs = free_pairs(point.at, self.problem.y)
        if len(pairs.rows) > cost_model.MOST_FREE_DUALS:
            return None
        self.n_iter += 1
        if not len(pairs.rows):
            return point.residual
        changes = pairs.errors(self._design.scores(point.residual))
        tau = pairs.signed(self._solve(pairs, changes), point.S.shape)
        return np.asarray(point.residual + self._pulls(tau))

    def _solve(self, pairs: FreePairs, changes: Array) -> Array:
        K, at = self._design.products.of(pairs.rows)
        M = np.zeros((len(at), len(at)))  # of what nobody writes, sums are formed too
        labels = pairs.own.astype(np.int32), pairs.rivals.astype(np.int32)
        native.pair_matrix(K, at.astype(np.int32), *labels, np.diag(self._scales), M)  # the upper triangle
        if self.problem.fit_intercept:
            signs = signs_of(pairs.own, pairs.rivals, self.problem.n_classes)
            M = dsyrk(self._kappa, signs, beta=1.0, c=M.T, lower=1, overwrite_c=1).T
        M[np.diag_indices_from(M)] += 1.0 / self._sigma
        inside = np.flatnonzero(pairs.closed)  # pairs of one row lie side by side
        for members in np.split(inside, np.flatnonzero(np.diff(pairs.rows[inside])) + 1):
            M[np.ix_(members, members)] += 1.0 / self._sigma
        factor, failed = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        return np.zeros(len(changes)) if failed else np.asarray(dpotrs(factor, changes, lower=1)[0])

    def _search(self, point: _Point, direction: Array) -> tuple[float, _Point]:
        across = self._design.scores(direction)
        from_centre = point.V.copy()
        if self.problem.fit_intercept:
            from_centre[-1] -= self._centre
        linear, bend = self._inner(from_centre, direction), self._inner(direction, direction)
        slope = -self._inner(point.residual, direction)

        def trial(t: float) -> tuple[float, tuple[Array, float, Projected]]:
            S = point.S + t * across
            rows_value, at = self._rows_part(S)
            return rows_value + t * linear + 0.5 * t * t * bend, (S, rows_value, at)

        t, reached = backtrack(trial, point.rows_value, slope, share=_ARMIJO, shortest=_SHORTEST)
        return (t, self._point(point.V + t * direction, *reached)) if t > 0.0 else (t, point)

    def _is_solved(self, point: _Point, direction: Array, length: float) -> bool:
        moved = float(np.square(point.at.A - self._A).sum()) / self._sigma
        enough = _EXACT * max(moved, self.ledger.tol * abs(self.ledger.primal))
        return length == 0.0 or self._inner(point.residual, point.residual) <= enough

    def _move_centre(self, end: Round[_Point]) -> bool:
        self._A, self._V, self._S = end.point.at.A, end.point.V, end.point.S
        self._certify()
        if self.ledger.done or self.n_iter >= self._last:
            return False
        growth = next(factor for most, factor in _GROWTH if end.steps <= most)
        self._sigma = min(growth * self._sigma, _LARGEST_SIGMA / self._square)
        self._move_scales()
        return not self._stall.note(self.ledger.gap)

    def _move_scales(self) -> None:
        """The class scales of a block norm follow the lengths of the class vectors (Eq. 14 of its paper)."""
        scaling = self.problem.penalty.class_scales
        if scaling is not None:
            step = scaling.log_step(self._scales, class_norms(self._V[: self._design.r]))
            self._scales = scaling.scales_at(self._extrapolate(np.log(self._scales), step))

    # -- the smooth problem -----------------------------------------------------------------------------------------

    def _point(self, V: Array, S: Array, rows_value: float, at: Projected) -> _Point:
        residual = self._pulls(signed(at.A, self.problem.y)) - V
        if self.problem.fit_intercept:
            residual[-1] += self._centre
        return _Point(V, S, rows_value, at, residual)

    def _rows_part(self, S: Array) -> tuple[float, Projected]:
        errors = 1.0 - S[self._own][:, None] + S
        errors[self._own] = 0.0
        at = self._polytope.project(self._A + self._sigma * errors)
        return float(np.vdot(at.A, errors)) - 0.5 * float(np.square(at.A - self._A).sum()) / self._sigma, at

    def _pulls(self, tau: Array) -> Array:
        """The machine of duals, its offsets counted from their centre."""
        pulls = self._design.adjoint(tau)
        pulls[: self._design.r] *= self._scales
        pulls[self._design.r :] *= self._kappa
        return pulls

    def _inner(self, V: Array, other: Array) -> float:
        """The product in which the penalty is half a square."""
        r = self._design.r
        offsets = float(np.vdot(V[r:], other[r:])) / self._kappa
        return float(np.vdot(V[:r] / self._scales, other[:r])) + offsets

    # -- what it proves ---------------------------------------------------------------------------------------------

    def _certify(self) -> None:
        """Notes the machine and the bound of the duals; keeps the best of both."""
        problem, A = self.problem, self._A
        if problem.fit_intercept:
            A = balanced_duals(A, problem.y)
        tau = signed(A, problem.y)
        total = float(A.sum()) - float((tau * self._given).sum())
        conjugate = problem.penalty.conjugate(self._design.adjoint(tau)[: self._design.r])  # of degree 2
        ray = Ray(total, conjugate, self._polytope.room(A))
        W, b = self._design.machine(self._V)
        primal = problem.total_loss(self._design.scores(self._V) + self._given) + problem.penalty.value(W)
        dual = ray.value
        if primal < self.best.machine.primal:
            self.best = self.best._replace(machine=Machine(W, b, primal))
        if dual >= self.ledger.dual:
            scales = None if self.best.scales is None else self._scales
            self.best = self.best._replace(duals=sparse_duals(ray.best * A), scales=scales)
        self.ledger.add(primal, dual, self.n_iter)
