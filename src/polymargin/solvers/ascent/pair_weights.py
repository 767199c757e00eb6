"""Dual ascent for powers of the distances between class vectors: a class metric on top of the native loop.

    min_{W, b}  sum_i u_i sum_{k != y} [1 - (s_y - s_k)]_+  +  sum_{k<l} |w_k - w_l|^p  +  eps (|W|^2 + |b|^2)

For fixed weights Q_kl of the pairs the penalty ``1/2 sum_{k<l} Q_kl |w_k - w_l|^2 + eps |W|^2`` is a metric L between the
classes, and the native loop climbs the dual of a Weston-Watkins machine with that metric: ``W = Z P``, ``Z = X' tau``, P the
inverse of L. At the optimum ``Q_kl = p |w_k - w_l|^(p-2)``; between epochs log Q goes a part theta of the way there. An
error of log Q shrinks by factors

    1 - theta (1 + (p - 2) j),   0 <= j <= 1,

where j says how far the distances give way to their weights: theta = 2/p is the best part for p > 2. For p <= 2 the metric
majorises the penalty, and Q goes all the way.

The price of wrong weights, ``R(W) + R*(Z) - <W, Z>``, is a part of the gap that takes (c, c) matrices only; weights that
cost little rest. While the loop runs the intercept is free. Once the pairs that matter are known, Newton steps on them end
the fit (`pair_face.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.penalties.capabilities import PairPowers
from polymargin.penalties.pairwise import pair_indices
from polymargin.problem import Problem
from polymargin.solvers.ascent.loops import native_loop
from polymargin.solvers.interior.pair_iterate import PairIterate
from polymargin.solvers.newton.active_set import newton_on_pairs
from polymargin.solvers.progress import Anderson
from polymargin.solvers.types import Start, sparse_duals

Array = NDArray[np.float64]

_EPOCHS = 5  # between two moves of weights and centre
_FIRST_MOVES = 3  # weights that always move
_FIRST_CHECK, _CHECK_EVERY = 12, 2  # moves
_PRICE = 3e-5  # relative: weights that cost less rest, or less than a third of the tolerance
_SETTLED = 0.03  # of the pairs with multipliers: if fewer came and went since the last move, the pairs are quiet
_QUIET = 3  # moves of quiet pairs after which Newton steps are tried, or one
_CHEAP = 2.0  # if the price of the weights is below so many tolerances
_FUSED = 1e-6  # of the largest distance: shorter ones count as long as this
_PATIENCE = 200  # epochs
_RANGE = 28.0  # of log Q: a wider one cannot be inverted
_STRETCH = 2.0  # how far new weights may stretch the duals at once


class PairMetric:
    """Weights Q of the pairs of classes, the metric L they make and its inverse P on vectors of sum 0."""

    def __init__(self, penalty: PairPowers, W: Array):
        self.penalty, self.c = penalty, W.shape[1]
        self.part = 2.0 / penalty.p if penalty.p > 2.0 else 1.0
        self.set(self.wanted(W))

    def wanted(self, W: Array) -> Array:
        """log Q that the distances of W ask for."""
        p, squares = self.penalty.p, self.penalty.squares(W)
        shortest = _FUSED**2 * float(squares.max(initial=0.0))
        return np.asarray(np.log(p) + (0.5 * p - 1.0) * np.log(np.maximum(squares, max(shortest, 1e-200))))

    def step(self, W: Array) -> Array:
        """The move of log Q towards what W asks for."""
        return np.asarray(self.part * (self.wanted(W) - self.log_Q))

    def set(self, log_Q: Array) -> None:
        c = self.c
        self.log_Q = log_Q = np.maximum(log_Q, log_Q.max() - _RANGE)
        Q = np.zeros((c, c))
        Q[pair_indices(c)] = np.exp(log_Q)
        Q += Q.T
        self.L = np.diag(Q.sum(axis=1) + 2.0 * self.penalty.epsilon) - Q
        P = np.linalg.inv(self.L + np.trace(self.L) / c**2)
        P -= P.mean(axis=0)
        P -= P.mean(axis=1, keepdims=True)
        self.P = np.ascontiguousarray(0.5 * (P + P.T))


def suits(problem: Problem) -> bool:
    """Whether the penalty is one of distances with a finite power."""
    return problem.penalty.pair_powers is not None


def pair_weighted_ascent(now: PairIterate, ledger: Ledger, *, max_iter: int, seed: int, start: Start | None) -> int:
    """Climbs until ``ledger.tol`` is certified or it no longer helps; returns the epochs used."""
    if start is not None:  # it may be good enough as it is
        now.V = now.design.unknowns(start.W, start.b)
        now.S = now.design.scores(now.V)
        now.A = np.minimum(start.duals.dense(now.A.shape[1]), now.cost[:, None])
        now.certify(ledger, now.problem.penalty.model(now.V[: now.design.r], 0.0), 1)
        if ledger.done:
            return 1
    ascent = _Ascent(now, seed, start)
    ascent.run(ledger, max_iter)
    return max(1, min(max_iter, -(-ascent.visits // now.problem.n_rows)))


class _Ascent:
    """The native loop, its metric and the centre of the intercept."""

    def __init__(self, now: PairIterate, seed: int, start: Start | None):
        self.now, self.seed, self._visits, self._gap_of_newton = now, seed, 0, np.inf
        self._pairs = np.empty(0, dtype=np.intp)
        if start is None:
            now.start_along_means()
        W = now.V[: now.design.r] if start is None else start.W
        assert now.problem.penalty.pair_powers is not None
        self.penalty = now.problem.penalty
        self.metric = PairMetric(now.problem.penalty.pair_powers, W)
        square = now.design.mean_square
        self._inverse_rho = 0.2 * square if square > 0.0 else 1.0
        self._open()
        if start is not None:
            self._load(start.duals.dense(now.A.shape[1]), start.b)

    @property
    def visits(self) -> int:
        return self._visits + int(self.loop.visits)

    def run(self, ledger: Ledger, max_iter: int) -> None:
        n, metric = self.now.problem.n_rows, self.metric
        budget, moves, next_check, next_newton = max_iter * n, 0, _FIRST_CHECK, _FIRST_MOVES + 1
        patience, quiet = _Patience(), 0
        while True:
            self.loop.ascend(min(_EPOCHS * n, budget - self.visits), 0.3 * ledger.tol)
            moves += 1
            W = self.loop.weights()
            Z = W @ metric.L
            size, estimate = max(abs(self.loop.dual), 1e-300), self.loop.estimate
            out_of_budget, near = self.visits >= budget, estimate <= 0.7 * ledger.tol * size
            price = self._price(W, Z) if near or moves > _FIRST_MOVES else np.inf
            quiet = quiet + 1 if self._share_changed() <= _SETTLED else 0
            settled = moves >= next_newton and (quiet >= _QUIET or (quiet > 0 and price <= _CHEAP * ledger.tol * size))
            if settled or moves >= next_check or estimate + price <= 0.7 * ledger.tol * size or out_of_budget:
                bound = self._certify(ledger, W)
                if ledger.done or patience.is_over(ledger, self.visits / n):
                    return
                next_check = moves + _CHECK_EVERY
                helped = settled and self._newton(ledger, bound)
                if ledger.done or out_of_budget:
                    return
                if settled:  # too early, it was as dear as many epochs
                    next_newton = moves + (_CHECK_EVERY if helped else max(_CHECK_EVERY, moves // 2))
                if helped:
                    continue
            if price > min(_PRICE, 0.3 * ledger.tol) * size or moves <= _FIRST_MOVES:
                self._move(W, Z)
            else:
                self._move_centre()

    def _open(self) -> None:
        design, problem = self.now.design, self.now.problem
        self.loop = native_loop("metric_weston_watkins", design.X, problem, self.seed, waiting=True)
        self.loop.change_metric(self.metric.P, 1.0)
        if problem.fit_intercept:
            self.loop.start_intercept(np.ascontiguousarray(design.mean), self._inverse_rho)
        self._extrapolate, self._extrapolate_centre = Anderson(), Anderson()

    def _price(self, W: Array, Z: Array) -> float:
        """What the gap owes to the weights."""
        cost, _ = self.penalty.conjugate_along(self.penalty.model(W, 0.0), Z)
        return self.penalty.value(W) + cost(1.0) - float((W * Z).sum())

    def _share_changed(self) -> float:
        """How many pairs have got or lost their multipliers since the last call, in parts of those that have one."""
        starts, classes, _ = self.loop.duals()
        pairs = np.repeat(self.now.own, np.diff(starts)) * self.metric.c + classes
        before, self._pairs = self._pairs, pairs
        return len(np.setxor1d(before, pairs, assume_unique=True)) / max(1, len(pairs))

    def _newton(self, ledger: Ledger, bound: float) -> bool:
        """Newton steps; whether they got so far that the loop should go on from there."""
        before = self.metric.log_Q
        helped = newton_on_pairs(self.now, self.metric, ledger, bound, self.visits // self.now.problem.n_rows)
        if ledger.done:
            return True
        if helped and ledger.gap <= 0.9 * self._gap_of_newton:
            self._gap_of_newton = ledger.gap
            self._reopen()
            return True
        self.metric.set(before)  # the loop's
        return False

    def _reopen(self) -> None:
        """A loop with the multipliers and the metric that Newton steps left."""
        self._visits = self.visits
        self.seed += 1  # else it might run in circles
        self._open()
        self._load(self.now.A, self.now.design.split(self.now.V)[1])

    def _load(self, A: Array, b: Array) -> None:
        """Duals and offsets into a loop that has none yet."""
        self.loop.set_duals(*sparse_duals(np.minimum(A, self.now.cost[:, None])))
        if self.now.problem.fit_intercept:
            self.loop.move_centre(b + self.now.design.mean @ self.loop.weights())

    def _move(self, W: Array, Z: Array) -> None:
        """Moves weights and centre by one fixed-point iteration, and the duals to their best multiple for the new metric."""
        loop, metric = self.loop, self.metric
        point, step = metric.log_Q, metric.step(W)
        m, free = len(point), self.now.problem.fit_intercept
        if free:
            point, step = np.r_[point, loop.centre()], np.r_[step, self._inverse_rho * loop.sums()]
        point = self._extrapolate(point, step)
        metric.set(point[:m])
        norm = float((Z * (Z @ metric.P)).sum())
        multiple = loop.dual_sum / norm if norm > 0.0 else 1.0
        loop.change_metric(metric.P, float(np.clip(multiple, 1.0 / _STRETCH, _STRETCH)))
        if free:
            loop.move_centre(np.ascontiguousarray(point[m:]))
        self._extrapolate_centre = Anderson()

    def _move_centre(self) -> None:
        if self.now.problem.fit_intercept:
            centre = self._extrapolate_centre(self.loop.centre(), self._inverse_rho * self.loop.sums())
            self.loop.move_centre(np.ascontiguousarray(centre))

    def _certify(self, ledger: Ledger, W: Array) -> float:
        now, design, loop = self.now, self.now.design, self.loop
        now.V = np.vstack([W, loop.intercepts() + design.mean @ W]) if design.fit_intercept else W
        now.S = design.scores(now.V)
        starts, classes, values = loop.duals()
        now.A[:] = 0.0
        now.A[np.repeat(now.own, np.diff(starts)), classes] = values
        return now.certify(ledger, self.penalty.model(W, 0.0), max(1, self.visits // now.problem.n_rows))


class _Patience:
    """Over when many epochs have not halved the gap."""

    def __init__(self) -> None:
        self._mark, self._since = np.inf, 0.0

    def is_over(self, ledger: Ledger, epochs: float) -> bool:
        if ledger.gap <= 0.5 * self._mark:
            self._mark, self._since = ledger.gap, epochs
        return epochs - self._since > max(_PATIENCE, 0.5 * epochs)
