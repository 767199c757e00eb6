"""Shifted machines: ``1/2 |W|^2`` plus a linear function of W, the convex models of penalties that are not convex.

At a machine (W_t, b_t) a smooth part P of the penalty (``penalty.apart``) with gradient H is replaced by its tangent and a
proximal term:

    m(W, b) = sum_i u_i loss_i(W, b) + 1/2 |W|^2 + P(W_t) + <H, W - W_t> + theta/2 |W - W_t|^2

That is, up to a constant, the machine ``kappa/2 |W - W0|^2 + sum_i u_i loss_i`` with ``kappa = 1 + theta`` and
``W0 = (theta W_t - H) / kappa``: the native loop solves it with costs ``u/kappa``, its vectors started at W0. Duals a give
``W = W0 + X'tau / kappa`` and the bound

    D = sum_il a_il - kappa/2 |W|^2 + P(W_t) - <H, W_t> + theta/2 |W_t|^2         (free intercept: sum_i tau_ik = 0)

on the model. ``F(W_t) - D`` is what the model promises at most; it is 0 only at stationary points.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.certificate import Ledger
from polymargin.penalties import SquaredNorm
from polymargin.problem import Problem
from polymargin.solvers.ascent.loops import open_loop
from polymargin.solvers.bounds import balancing_factors
from polymargin.solvers.interior.quadratic import interior_point
from polymargin.solvers.newton.augmented import multiplier_newton
from polymargin.solvers.progress import Anderson
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, Solution, SparseDuals, sparse_duals

_BLOCK = 1024  # rows
_REACH = 0.01  # of an offset in one proximal step, if all duals pull

Array = NDArray[np.float64]


class Tangent(NamedTuple):
    """The machine at which P is replaced by its tangent: P and its gradient there, and theta."""

    machine: Machine
    value: float
    slope: Array
    theta: float

    @property
    def kappa(self) -> float:
        return 1.0 + self.theta

    @property
    def base(self) -> Array:
        return np.ascontiguousarray((self.theta * self.machine.W - self.slope) / self.kappa)

    @property
    def constant(self) -> float:
        W = self.machine.W
        return self.value - float(np.vdot(self.slope, W)) + 0.5 * self.theta * float(np.vdot(W, W))

    def relative(self, accuracy: float) -> float:
        """An absolute accuracy of m as a relative one of the machine that is solved, which is m plus a constant."""
        rest = 0.5 * self.kappa * float(np.vdot(self.base, self.base)) - self.constant
        return accuracy / max(self.machine.primal + rest, accuracy, 1e-300)

    def model(self, W: Array, loss: float) -> float:
        """m of class vectors with this loss."""
        step = W - self.machine.W
        linear = self.value + float(np.vdot(self.slope, step))
        return loss + 0.5 * float(np.vdot(W, W)) + linear + 0.5 * self.theta * float(np.vdot(step, step))

    def bound(self, problem: Problem, duals: SparseDuals) -> float:
        """D of duals, balanced first if the intercept is free; the best along their ray."""
        kappa, rows = self.kappa, duals.rows
        if problem.fit_intercept:
            flows = np.zeros((problem.n_classes, problem.n_classes))
            np.add.at(flows, (problem.y[rows], duals.classes), duals.values)
            duals = duals.times(balancing_factors(flows), problem.y)
        tau = signed(duals, problem.y, problem.n_classes)
        Z = np.asarray(_product(problem.X, tau)) / kappa
        total, square = float(duals.values.sum()), kappa * float(np.vdot(Z, Z))
        sums = np.bincount(rows, duals.values, problem.n_rows)
        room = float(np.min(problem.cost / np.maximum(sums, problem.cost)))
        base = self.base
        slope = total - kappa * float(np.vdot(base, Z))
        t = min(room, max(0.0, slope / square)) if square > 0.0 else room
        return t * slope - 0.5 * t * t * square - 0.5 * kappa * float(np.vdot(base, base)) + self.constant


class Attempt(NamedTuple):
    """A machine that a model proposes: its loss, and the duals that made it, for the problem's own costs."""

    W: Array
    b: Array
    loss: float
    duals: SparseDuals


class ShiftedLoop:
    """The native loop on one model, started at the given duals."""

    def __init__(self, problem: Problem, tangent: Tangent, duals: SparseDuals | None, scale: float, seed: int):
        self.problem, self.tangent = problem, tangent
        kappa = tangent.kappa
        self._cost = problem.cost / kappa
        self._loop = open_loop(replace(problem, cost=self._cost, penalty=SquaredNorm()), seed)
        # the loop's tolerance is relative to the value of its dual: make that `scale`, the size of F
        self._surplus = scale - (tangent.machine.primal if np.isfinite(tangent.machine.primal) else 0.0)
        constant = (tangent.constant + self._surplus) / kappa
        if problem.fit_intercept:
            self._means, mean_square = centre_and_spread(problem.X)
            usual = 0.2 * mean_square if mean_square > 0.0 else 1.0
            # a large theta makes costs and with them duals small, but must not make offsets slow
            self._inverse_rho = max(usual, _REACH / float(self._cost.sum()))
            self._loop.start_intercept(self._means, self._inverse_rho)
        self._loop.set_base(tangent.base, constant)
        if duals is not None:
            self._loop.set_duals(duals.starts, duals.classes, duals.values / kappa)
        if problem.fit_intercept:
            self._loop.move_centre(tangent.machine.b + self._means @ tangent.machine.W)
        self._extrapolate = Anderson()

    @property
    def visits(self) -> int:
        return int(self._loop.visits)

    def ascend(self, max_visits: int, tol: float) -> None:
        """Some epochs; with an intercept at most ten, and before each but the first the proximal centre moves."""
        if not self.problem.fit_intercept:
            if self.visits:
                self._loop.restore()
            self._loop.ascend(max_visits, tol)
            return
        if self.visits:
            self._loop.move_centre(self._extrapolate(self._loop.centre(), self._inverse_rho * self._loop.sums()))
            self._loop.restore()
        self._loop.ascend(min(10 * self.problem.n_rows, max_visits), 0.3 * tol)

    def attempt(self, n_threads: int) -> Attempt:
        starts, classes, values = self._loop.duals()
        duals = SparseDuals(starts, classes, values * self.tangent.kappa)
        b = self._loop.intercepts() if self.problem.fit_intercept else np.zeros(self.problem.n_classes)
        return Attempt(self._loop.weights(), b, float(self._loop.loss(n_threads)) * self.tangent.kappa, duals)

    def proximal_bound(self) -> float:
        """The loop's own dual: a bound on the model, with an intercept on the model with its proximal term in b."""
        return float(self._loop.dual) * self.tangent.kappa - self._surplus


def solve_exactly(problem: Problem, tangent: Tangent, accuracy: float, max_iter: int) -> tuple[Attempt, int]:
    """The model's minimum to an absolute accuracy, by the interior point, and how many Newton steps that took."""
    model = replace(problem, cost=problem.cost / tangent.kappa)
    given = np.asarray(problem.X @ tangent.base, dtype=np.float64)
    result = interior_point(model, tol=tangent.relative(accuracy), max_iter=max_iter, given=given)
    return _attempt(problem, tangent, result.W, result.b, sparse_duals(result.a)), result.n_iter


def solve_by_newton(
    problem: Problem, tangent: Tangent, duals: SparseDuals, accuracy: float, max_iter: int
) -> tuple[Attempt, int]:
    """The same by Newton's method with multipliers, from these duals; less accurate if too many of them are free."""
    kappa, base, (W, b, _) = tangent.kappa, tangent.base, tangent.machine
    model = replace(problem, cost=problem.cost / kappa, penalty=SquaredNorm())
    ledger = Ledger(tangent.relative(accuracy), rounding=model.rounding_at)
    so_far = Solution(Machine(W - base, b, np.inf), duals._replace(values=duals.values / kappa), ledger.close(0))
    found = multiplier_newton(
        model,
        ledger,
        max_iter,
        so_far,
        given=np.asarray(problem.X @ base, dtype=np.float64),
    )
    assert found.duals is not None
    return _attempt(problem, tangent, found.machine.W, found.machine.b, found.duals), found.certificate.n_iter


def _attempt(problem: Problem, tangent: Tangent, shift: Array, b: Array, duals: SparseDuals) -> Attempt:
    W = shift + tangent.base
    S = np.asarray(problem.X @ W, dtype=np.float64) + b
    loss = float(problem.cost @ problem.loss.value(S, problem.y))
    return Attempt(W, b, loss, duals._replace(values=tangent.kappa * duals.values))


def signed(duals: SparseDuals, y: NDArray[np.int32], n_classes: int) -> Any:
    """tau as a sparse (n, c) matrix: ``tau_il = -a_il``, ``tau_iy = sum_l a_il``."""
    n, rows = len(y), duals.rows
    own = np.bincount(rows, duals.values, n)
    entries = np.concatenate([-duals.values, own])
    where = np.concatenate([rows, np.arange(n)]), np.concatenate([duals.classes, y])
    return sparse.csr_array((entries, where), shape=(n, n_classes))


def _product(X: Any, tau: Any) -> Any:
    """X' tau, (d, c); a dense X block by block, as single precision would be copied."""
    if sparse.issparse(X):
        return (X.T @ tau).toarray()
    Z = np.zeros((tau.shape[1], X.shape[1]))
    for start in range(0, X.shape[0], _BLOCK):
        Z += tau[start : start + _BLOCK].T @ X[start : start + _BLOCK]
    return Z.T
