"""Newton's method with multipliers on the unknowns: any loss of margins with any penalty that has a model.

The smooth problems of `multipliers.py` in the unknowns V = [W; b] themselves,

    min_V  R_q(W) + sum_i max_{a in A_i} <a, e_i> - h_i(a) - |a - a'_i|^2 / (2 sigma)
                  + max_{Y in B} <Y, W> - |Y - Y'|^2 / (2 sigma_W)  +  |b - b'|^2 / (2 kappa),

with margins' violations e (losses/margins.py), the domains A_i of the loss (h is the square of a squared loss), and the kink
of the penalty, if it has one, by its ball B. R_q is R itself where it is smooth, and otherwise a quadratic model
``1/2 <W, W L>`` that is above it and moves after every round. Where class vectors must add up to zero the unknowns are
coordinates of that subspace. A Newton step is one dense system if the unknowns are few, or conjugate gradients.

Every round ends with a certificate: the duals are balanced if the offsets are free, and R* is that of the penalty itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.bounds import hidden_by_rounding
from polymargin.solvers.linear import conjugate_gradients, definite
from polymargin.solvers.newton.line_search import backtrack
from polymargin.solvers.newton.multipliers import MultiplierMethod, Round
from polymargin.solvers.newton.row_terms import RowsAt, RowsInMemory, RowTerms
from polymargin.solvers.newton.smooth_part import SmoothPart, smooth_part
from polymargin.solvers.progress import Stall
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start, sparse_duals

Array = NDArray[np.float64]

_FIRST_KINK = 10.0  # sigma_W: in curvatures of R
_GROWTH = ((3, 8.0), (8, 4.0), (20, 2.0), (60, 1.0))  # of sigma, after a round of so many steps at most
_LARGEST, _LARGEST_SQUARED = 1e9, 1e4  # sigma, in first ones; squares of duals need no more
_KAPPA, _LARGEST_KAPPA = 10.0, 1e4  # of the offsets' proximal term, over all costs: at first, and as sigma grows
_STEPS = 60  # of one round
_EXACT = 1e-5  # what a Newton step promises at the end of a round, in parts of what the duals moved or the gap asked for
_ARMIJO, _SHORTEST = 1e-4, 1e-9
_PATIENCE = 12  # rounds that do not halve the gap
_CG_STEPS, _CG_TOL = 200, 1e-3


def general_newton(
    problem: Problem, ledger: Ledger, max_iter: int, start: Start | None, rows: RowTerms | None = None
) -> Solution:
    """Rounds until ``ledger.tol`` is certified; the status is "stalled" if rounding ends them.

    `rows` are those of the problem, unless they are elsewhere.
    """
    if rows is None:
        n, c = problem.n_rows, problem.n_classes
        rows = RowsInMemory(problem, np.zeros((n, c)) if start is None else start.duals.dense(c))
    return _General(problem, rows, ledger, start).run(max_iter)


class _Point(NamedTuple):
    """Unknowns, what they make, the value of the smooth problem there and its gradient."""

    U: Array
    V: Array
    value: float
    rows: RowsAt
    Y: Array | None  # what the projection onto the kink's ball is of
    gradient: Array


class _General(MultiplierMethod[_Point, Array]):
    def __init__(self, problem: Problem, rows: RowTerms, ledger: Ledger, start: Start | None):
        self.problem, self._rows, self.ledger = problem, rows, ledger
        self._r, c = rows.n_features, problem.n_classes
        self._basis = _sum_zero_basis(c) if problem.loss.sums_to_zero else None
        self._columns = np.eye(c) if self._basis is None else self._basis
        self.n_iter, self._kink = 0, problem.penalty.kink
        V = np.zeros((rows.n_unknowns, c))
        if start is not None and start.W.size:
            V = rows.unknowns(start.W, start.b)
        self._V = V
        self._U = V if self._basis is None else V @ self._basis
        self._R: SmoothPart = smooth_part(problem.penalty, self._model_at(V))
        self._Y = np.zeros((self._r, c))
        self._growth = 1.0
        self._q = self._columns.shape[1]
        self._best = Machine(*rows.machine(V), problem.primal(*rows.machine(V)))
        self._best_duals: SparseDuals | None = sparse_duals(np.zeros((problem.X.shape[0], c)))
        ledger.at_hand = lambda: self._best

    def _model_at(self, V: Array) -> Array:
        """Class vectors around which R is modelled at first: those along the class means if there are none."""
        W = V[: self._r]
        if W.any():
            return W
        Z = self._rows.along_means()
        return Z - Z.mean(axis=1, keepdims=True) if Z.any() else np.ones_like(Z)

    def run(self, max_iter: int) -> Solution:
        self._last, self._stall = max_iter, Stall(_PATIENCE, 0.5)
        with np.errstate(all="ignore"):  # bad steps overflow; what is not finite is not kept
            end = self.rounds()
        out_of_steps = end is None or self.n_iter >= self._last
        certificate = self.ledger.close(self.n_iter, "max_iter" if out_of_steps else "stalled")
        return Solution(self._best, self._best_duals, certificate, scales=self._R.scales)

    # -- one round --------------------------------------------------------------------------------------------------

    def _begin_round(self) -> _Point:
        self._centre_b = self._V[self._r :].copy()
        self._kappa = min(_KAPPA * self._growth, _LARGEST_KAPPA) / float(self.problem.cost.sum())
        self._sigma_W = _FIRST_KINK * self._growth * self._R.curvature
        return self._point(self._U)

    def _stops(self, point: _Point, steps: int) -> bool:
        return steps >= _STEPS or self.n_iter >= self._last

    def _search(self, point: _Point, direction: Array) -> tuple[float, _Point]:
        slope = float((point.gradient * direction).sum())
        self._promised = -slope

        def trial(t: float) -> tuple[float, _Point]:
            reached = self._point(point.U + t * direction)
            return reached.value, reached

        noise = 1e-14 * abs(point.value)
        t, reached = backtrack(trial, point.value, slope, share=_ARMIJO, shortest=_SHORTEST, rounding=noise)
        return (t, reached) if t > 0.0 else (0.0, point)

    def _is_solved(self, point: _Point, direction: Array, length: float) -> bool:
        asked = self.ledger.tol * abs(self.ledger.primal) if np.isfinite(self.ledger.primal) else 0.0
        return length == 0.0 or self._promised <= _EXACT * max(point.rows.moved, asked)

    def _move_centre(self, end: Round[_Point]) -> bool:
        point = end.point
        self._rows.accept(point.rows)
        self._U, self._V = point.U, point.V
        if self._kink is not None and point.Y is not None:
            self._Y = self._kink.project(point.Y)
        self._certify()
        if self.ledger.done or self.n_iter >= self._last:
            return False
        growth = next((factor for most, factor in _GROWTH if end.steps <= most), 0.5)
        self._growth = min(growth * self._growth, _LARGEST_SQUARED if self.problem.loss.squared else _LARGEST)
        self._R = self._R.moved(self._V[: self._r])
        return not self._stall.note(self.ledger.gap)

    # -- the smooth problem -----------------------------------------------------------------------------------------

    def _point(self, U: Array) -> _Point:
        V = U if self._basis is None else U @ self._basis.T
        rows, W = self._rows.at(V, self._growth), V[: self._r]
        value, G = rows.value, rows.gradient
        value += self._R.value(W)
        G[: self._r] += self._R.gradient(W)
        Y = None
        if self._kink is not None:
            Y = self._Y + self._sigma_W * W
            pushed = self._kink.project(Y)
            value += float(np.vdot(pushed, W)) - 0.5 * float(np.square(pushed - self._Y).sum()) / self._sigma_W
            G[: self._r] += pushed
        if self.problem.fit_intercept:
            b, moved = V[self._r], V[self._r] - self._centre_b[0]
            value += 0.5 * float(moved @ moved) / self._kappa + self.problem.penalty.offset_value(b)
            G[self._r] += moved / self._kappa + self.problem.penalty.offset_gradient(b)
        return _Point(U, V, value, rows, Y, G if self._basis is None else G @ self._basis)

    # -- Newton's step ----------------------------------------------------------------------------------------------

    def _direction(self, point: _Point) -> Array | None:
        self.n_iter += 1
        if point.U.size <= self._rows.largest_system:
            solve = definite(self._hessian(point))
            if solve is None:
                return -point.gradient
            return -solve(np.ascontiguousarray(point.gradient.T).ravel()).reshape(self._q, -1).T
        diagonal = self._diagonal(point)
        return -conjugate_gradients(
            lambda D: self._product(point, D), lambda D: D / diagonal, point.gradient, _CG_TOL, _CG_STEPS
        )

    def _product(self, point: _Point, D: Array) -> Array:
        V = D if self._basis is None else D @ self._basis.T
        r, H = self._r, self._rows.product(point.rows, self._growth, V)
        H[:r] += self._R.product(point.V[:r], V[:r])
        if self._kink is not None and point.Y is not None:
            H[:r] += self._sigma_W * self._kink.along(point.Y, V[:r])
        if self.problem.fit_intercept:
            H[r] += V[r] / self._kappa + self.problem.penalty.offset_gradient(V[r])
        return H if self._basis is None else H @ self._basis

    def _hessian(self, point: _Point) -> Array:
        """Dense, class by class."""
        r, q, penalised = self._rows.n_unknowns, self._q, self._r
        H = self._rows.hessian(point.rows, self._growth, self._columns)
        self._R.add_to(H, point.V[:penalised], self._basis)
        if self._kink is not None and point.Y is not None:
            self._add_kink(H, point.Y)
        if self.problem.fit_intercept:
            offsets = np.eye(q) / self._kappa + self._offset_curvature * np.eye(q)
            H[:, penalised, :, penalised] += offsets
        return H.reshape(q * r, q * r)

    @property
    def _offset_curvature(self) -> float:
        return float(self.problem.penalty.offset_gradient(np.ones(1))[0])

    def _add_kink(self, H: Array, Y: Array) -> None:
        """Feature by feature, class by class of the basis."""
        assert self._kink is not None
        d, columns = len(Y), self._columns
        each = np.arange(d)
        for k in range(self._q):
            moves = self._sigma_W * self._kink.along(Y, np.tile(columns[:, k], (d, 1))) @ columns  # (d, q)
            for other in range(self._q):
                H[other, each, k, each] += moves[:, other]

    def _diagonal(self, point: _Point) -> Array:
        """Of the Hessian, about: (r, q)."""
        squares = self._rows.diagonal(point.rows, self._growth)
        squares[self._r :] += 1.0 / self._kappa
        squares[: self._r] += self._R.curvature + (0.0 if self._kink is None else self._sigma_W)
        return squares if self._basis is None else np.maximum(squares @ np.square(self._basis), 1e-300)

    def _with_zeros(self, W: Array, Z: Array) -> tuple[Array, Array]:
        """The class vectors that the duals make, some entries of which are 0, and W with the same zeros."""
        made = self.problem.penalty.minimizer(Z)
        W = np.where(made != 0.0, W, 0.0)
        if self._basis is not None:
            count = np.maximum((made != 0.0).sum(axis=1, keepdims=True), 1)
            W = np.where(made != 0.0, W - W.sum(axis=1, keepdims=True) / count, 0.0)
        return made, W

    # -- what it proves ---------------------------------------------------------------------------------------------

    def _certify(self) -> None:
        """Notes the machine and the bound of the duals; keeps the best of both."""
        problem = self.problem
        proven = self._rows.proven(problem.fit_intercept and not self._offset_curvature)
        Z = proven.Z
        W, b = self._rows.machine(self._V)
        for vectors in (W,) if self._kink is None else self._with_zeros(W, Z):
            primal = problem.primal(vectors, b)
            if primal <= self._best.primal or not np.isfinite(self._best.primal):
                self._best = Machine(vectors, b, primal)
        dual = proven.linear - self._R.conjugate(Z, self._V[: self._r])
        if problem.fit_intercept:
            dual -= problem.penalty.offset_conjugate(proven.sums, float(problem.cost.sum()))
        size = float(np.sqrt(np.square(self._V[: self._r]).sum()))
        dual -= hidden_by_rounding(proven.flow, size, problem.longest_row)
        if dual >= self.ledger.dual or self._best_duals is None or not len(self._best_duals.values):
            self._best_duals = proven.duals
        self.ledger.add(self._best.primal, dual if np.isfinite(dual) else -np.inf, max(1, self.n_iter))


def _sum_zero_basis(c: int) -> Array:
    """Orthonormal columns (c, c - 1) that span the vectors of sum zero."""
    basis: Any = np.linalg.qr(np.hstack([np.ones((c, 1)), np.eye(c)[:, : c - 1]]))[0][:, 1:]
    return np.asarray(basis - basis.mean(axis=0))
