"""Newton's method with multipliers: for data on which dual ascent crawls and interior points would be too large.

Many columns, rows that can be separated, a large C: then the Hessian of the dual on its face is badly conditioned, and
ascent takes tens of thousands of epochs. The proximal method of multipliers solves a few problems that are smooth instead,

    min_{W, b}  1/2 |W|^2 + |b - b'|^2 / (2 kappa) + sum_i max_{a in A_i} <a, e_i> - |a - a'_i|^2 / (2 sigma),
    e_il = 1 - (s_iy - s_il),      a', b' the duals and offsets before,      kappa = infinity in the limit

and moves to their duals, the projections of ``a' + sigma e`` onto the polytope A_i of the loss. The larger sigma, the fewer
rounds; each is solved by semismooth Newton steps with a line search. Their linear system has one unknown for each dual that
is free to move, and those are about as many as support pairs:

    (G / sigma + M) dz = change of e along the residual
    M_jl = (<x_j, x_l> + kappa) (e_own - e_rival)_j' (e_own - e_rival)_l

An open row has own = y and G the identity. A closed one, whose duals keep their sum u_i, gives and takes between its largest
dual (own) and the others: there G is the identity plus ones. Every round ends with a certificate. With the class scales beta
of a block norm, ``w_k = beta_k X' tau_k`` and the rows' part of M has beta between its signs; beta moves after every round.

References: Rockafellar, Math. Oper. Res. 1 (1976) 97-116; Li, Sun & Toh, SIAM J. Optim. 28 (2018) 433-458.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin._core import native
from polymargin.certificate import Ledger
from polymargin.penalties import BlockNorm
from polymargin.penalties.block_norm import class_norms
from polymargin.problem import Problem
from polymargin.solvers.bounds import balanced_duals, best_multiple
from polymargin.solvers.cost_model import LARGEST_ARRAY
from polymargin.solvers.newton.polytopes import POLYTOPES, Projected
from polymargin.solvers.progress import Anderson
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start, signs_of, sparse_duals

Array = NDArray[np.float64]
Index = NDArray[np.intp]

LARGEST = 5000  # free duals whose system is factorised
_AT_FIRST = 0.6  # of these, as their number grows in the first steps
_FIRST_SIGMA = 50.0  # in 1 / mean squared length of the rows
_LONGEST = 10.0  # at first: a dual moves by so many of its bounds, for a margin that is missed by 1
_LARGEST_SIGMA, _LARGEST_KAPPA = 1e9, 1e4  # in the same unit, and in mean squared lengths
_GROWTH = ((2, 7.5), (6, 3.0), (29, 1.7), (30, 0.1))  # of sigma, after a round of so many steps at most
_STEPS = 30  # of one round
_EXACT = 0.01  # squared residual of a round, in squared changes of the duals
_ARMIJO, _SHORTEST = 1e-4, 1e-6
_PATIENCE = 8  # rounds that do not halve the gap
_USUAL_STEPS = 50


def price_of_newton(problem: Problem, duals: SparseDuals) -> float:
    """About how many flops it takes to go on from these duals; infinite if there are too many."""
    n, c, r = problem.n_rows, problem.n_classes, min(problem.n_rows, problem.n_features)
    free = np.count_nonzero(duals.values < (1.0 - 1e-9) * problem.cost[duals.rows])
    if problem.loss.interior_block not in POLYTOPES or free > _AT_FIRST * LARGEST or n * c > LARGEST_ARRAY:
        return np.inf
    return float(_USUAL_STEPS * (free**3 / 3.0 + 8.0 * n * r * c))


def finish_with_newton(
    problem: Problem, ledger: Ledger, max_iter: int, so_far: Solution, ascend: Callable[[Start, int], Solution]
) -> Solution:
    """Ends a fit that dual ascent began. Where that fails (too many duals), ascent goes on."""
    assert so_far.duals is not None
    if np.isfinite(price_of_newton(problem, so_far.duals)):
        before = so_far.certificate.n_iter
        so_far = multiplier_newton(problem, ledger, max_iter, so_far)
        max_iter -= so_far.certificate.n_iter - before
    if ledger.done or max_iter <= 0:
        return so_far
    assert so_far.duals is not None
    solution = ascend(Start(so_far.duals, so_far.machine.b, so_far.scales), max_iter)
    certificate = replace(solution.certificate, n_iter=so_far.certificate.n_iter + solution.certificate.n_iter)
    machine = min(solution.machine, so_far.machine, key=lambda one: one.primal)
    return solution._replace(machine=machine, certificate=certificate)


def multiplier_newton(
    problem: Problem, ledger: Ledger, max_iter: int, so_far: Solution, given: Array | None = None
) -> Solution:
    """Rounds until ``ledger.tol`` is certified; the status is "stalled" if rounding or too many duals end them.

    Scores that are `given` are added to those of the machine.
    """
    return _Multipliers(problem, ledger, so_far, given).run(max_iter)


class _Smooth(NamedTuple):
    """The part of the smooth problem that the rows add, at some scores, and the duals that attain it."""

    value: float
    at: Projected


class _Multipliers:
    def __init__(self, problem: Problem, ledger: Ledger, so_far: Solution, given: Array | None):
        assert so_far.duals is not None
        self.problem, self.ledger, self.best = problem, ledger, so_far
        ledger.at_hand = lambda: self.best.machine
        self.n_iter = so_far.certificate.n_iter
        self._own = np.arange(problem.n_rows), problem.y
        self._given = np.zeros((1, 1)) if given is None else given
        self._polytope = POLYTOPES[str(problem.loss.interior_block)](problem.y, problem.cost)
        self._design = Design(problem.X, problem.cost, problem.fit_intercept, rotate=True)
        self._scales = np.ones(problem.n_classes) if so_far.scales is None else so_far.scales
        self._extrapolate = Anderson()
        self._square = max(self._design.mean_square * float(self._scales.mean()), 1e-300)
        self._sigma = min(_FIRST_SIGMA / self._square, _LONGEST * float(np.median(problem.cost)))
        self._A = so_far.duals.dense(problem.n_classes)
        self._V = self._pulls(self._signed(self._A), 1.0)
        if problem.fit_intercept:
            W = self._V[:-1]
            self._V[-1] = so_far.machine.b + self._design.mean @ W
        self._S = self._design.scores(self._V) + self._given

    def run(self, max_iter: int) -> Solution:
        last, status, waited, mark = self.n_iter + max_iter, "stalled", 0, np.inf
        while waited <= _PATIENCE:
            steps = self._round(min(_STEPS, last - self.n_iter))
            if steps is None:
                break
            self._certify()
            if self.ledger.done or self.n_iter >= last:
                status = "max_iter"
                break
            waited, mark = (0, self.ledger.gap) if self.ledger.gap <= 0.5 * mark else (waited + 1, mark)
            growth = next(factor for most, factor in _GROWTH if steps <= most)
            self._sigma = min(growth * self._sigma, _LARGEST_SIGMA / self._square)
            self._move_scales()
        return self.best._replace(certificate=self.ledger.close(self.n_iter, status), crawled=True)

    def _move_scales(self) -> None:
        """The class scales of a block norm follow the lengths of the class vectors (Eq. 14 of its paper)."""
        penalty = self.problem.penalty
        if isinstance(penalty, BlockNorm):
            step = penalty.log_step(self._scales, class_norms(self._V[: self._design.r]))
            self._scales = penalty.scales_at(self._extrapolate(np.log(self._scales), step))

    # -- one round --------------------------------------------------------------------------------------------------

    def _round(self, most: int) -> int | None:
        """Newton steps on one smooth problem, and the move to its duals; how many, or None if it is too large."""
        kappa = self._square * min(1.0 + self._sigma * self._square, _LARGEST_KAPPA)
        centre = self._V[-1].copy()
        for step in range(most + 1):
            now = self._smooth(self._S)
            residual = self._pulls(self._signed(now.at.A), kappa) - self._V
            if self.problem.fit_intercept:
                residual[-1] += centre
            moved = float(np.square(now.at.A - self._A).sum()) / self._sigma
            enough = _EXACT * max(moved, self.ledger.tol * abs(self.ledger.primal))
            if step == most or (step > 0 and self._inner(residual, residual, kappa) <= enough):
                break
            direction = self._direction(now.at, residual, kappa)
            if direction is None:
                return None
            self.n_iter += 1
            if not self._search(now.value, direction, residual, centre, kappa):
                break
        self._A = now.at.A
        return step

    def _direction(self, at: Projected, residual: Array, kappa: float) -> Array | None:
        """Newton's step of the machine, the residual plus the pulls of the free duals' steps; None if there are too many."""
        pairs = _free_pairs(at, self.problem.y)
        if len(pairs.rows) > LARGEST:
            return None
        if not len(pairs.rows):
            return residual
        changes = pairs.errors(self._design.scores(residual))
        return np.asarray(residual + self._pulls(pairs.signed(self._solve(pairs, changes, kappa), self._S.shape), kappa))

    def _solve(self, pairs: _Pairs, changes: Array, kappa: float) -> Array:
        K, at = self._design.products.of(pairs.rows)
        M = np.empty((len(at), len(at)))
        labels = pairs.own.astype(np.int32), pairs.rivals.astype(np.int32)
        native.pair_matrix(K, at.astype(np.int32), *labels, np.diag(self._scales), M)  # the upper triangle
        if self.problem.fit_intercept:
            signs = signs_of(pairs.own, pairs.rivals, self.problem.n_classes)
            M = dsyrk(kappa, signs, beta=1.0, c=M.T, lower=1, overwrite_c=1).T
        M[np.diag_indices_from(M)] += 1.0 / self._sigma
        inside = np.flatnonzero(pairs.closed)  # pairs of one row lie side by side
        for members in np.split(inside, np.flatnonzero(np.diff(pairs.rows[inside])) + 1):
            M[np.ix_(members, members)] += 1.0 / self._sigma
        factor, failed = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        return np.zeros(len(changes)) if failed else np.asarray(dpotrs(factor, changes, lower=1)[0])

    def _search(self, rows_value: float, direction: Array, residual: Array, centre: Array, kappa: float) -> bool:
        """Moves along the direction until the smooth problem has fallen enough; False if rounding forbids that."""
        across = self._design.scores(direction)
        from_centre = self._V.copy()
        if self.problem.fit_intercept:
            from_centre[-1] -= centre
        linear, bend = self._inner(from_centre, direction, kappa), self._inner(direction, direction, kappa)
        slope = -self._inner(residual, direction, kappa)
        t = 1.0
        while self._smooth(self._S + t * across).value + t * linear + 0.5 * t * t * bend > rows_value + _ARMIJO * t * slope:
            t *= 0.5
            if t < _SHORTEST:
                return False
        self._V += t * direction
        self._S += t * across
        return True

    def _smooth(self, S: Array) -> _Smooth:
        errors = 1.0 - S[self._own][:, None] + S
        errors[self._own] = 0.0
        at = self._polytope.project(self._A + self._sigma * errors)
        value = float(np.vdot(at.A, errors)) - 0.5 * float(np.square(at.A - self._A).sum()) / self._sigma
        return _Smooth(value, at)

    def _pulls(self, tau: Array, kappa: float) -> Array:
        """The machine of duals, its offsets counted from their centre."""
        pulls = self._design.adjoint(tau)
        pulls[: self._design.r] *= self._scales
        pulls[self._design.r :] *= kappa
        return pulls

    def _inner(self, V: Array, other: Array, kappa: float) -> float:
        """The product in which the penalty is half a square."""
        r = self._design.r
        offsets = float(np.vdot(V[r:], other[r:])) / kappa
        return float(np.vdot(V[:r] / self._scales, other[:r])) + offsets

    # -- what it proves ---------------------------------------------------------------------------------------------

    def _certify(self) -> None:
        """Notes the machine and the bound of the duals; keeps the best of both."""
        problem, A = self.problem, self._A
        if problem.fit_intercept:
            A = balanced_duals(A, problem.y)
        tau = self._signed(A)
        total = float(A.sum()) - float((tau * self._given).sum())
        conjugate = problem.penalty.conjugate(self._design.adjoint(tau)[: self._design.r])  # of degree 2
        t = best_multiple(self._polytope.room(A), total, 2.0 * conjugate)
        W, b = self._design.machine(self._V)
        primal = problem.total_loss(self._design.scores(self._V) + self._given) + problem.penalty.value(W)
        dual = t * total - t * t * conjugate
        if primal < self.best.machine.primal:
            self.best = self.best._replace(machine=Machine(W, b, primal))
        if dual >= self.ledger.dual:
            scales = None if self.best.scales is None else self._scales
            self.best = self.best._replace(duals=sparse_duals(t * A), scales=scales)
        self.ledger.add(primal, dual, self.n_iter)

    def _signed(self, A: Array) -> Array:
        """tau: the pulls of the duals are ``X' tau``."""
        tau = -A
        tau[self._own] = A.sum(axis=1)
        return tau


class _Pairs(NamedTuple):
    """Duals that may move: what each of them gives to the class `own` it takes from its rival."""

    rows: Index
    own: Index
    rivals: Index
    closed: NDArray[np.bool_]  # belongs to a closed row

    def errors(self, S: Array) -> Array:
        """The change of e for a change S of the scores."""
        return np.asarray(S[self.rows, self.rivals] - S[self.rows, self.own])

    def signed(self, steps: Array, shape: tuple[int, ...]) -> Array:
        """tau of steps of these duals."""
        c = shape[1]
        own = np.bincount(self.rows * c + self.own, steps, shape[0] * c)
        return np.asarray((own - np.bincount(self.rows * c + self.rivals, steps, shape[0] * c)).reshape(shape))


def _free_pairs(at: Projected, y: NDArray[np.int32]) -> _Pairs:
    """A closed row's largest dual stands in for its own class: it gives what the others take."""
    rows, rivals = np.nonzero(at.free)
    closed = at.closed[rows]
    own = np.where(closed, at.A.argmax(axis=1)[rows], y[rows])
    kept = ~closed | (rivals != own)
    return _Pairs(rows[kept], own[kept], rivals[kept], closed[kept])
