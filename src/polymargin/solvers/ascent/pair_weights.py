"""Dual ascent for powers of the distances between class vectors: a class metric on top of the native loop.

    min_{W, b}  sum_i u_i sum_{k != y} [1 - (s_y - s_k)]_+  +  sum_{k<l} |w_k - w_l|^p  +  eps (|W|^2 + |b|^2)

or with the norm of the distances in place of the sum of powers (`penalties/pairs/scales.py`).

For fixed weights Q_kl of the pairs the penalty ``1/2 sum_{k<l} Q_kl |w_k - w_l|^2 + eps |W|^2`` is a metric L between the
classes, and the native loop climbs the dual of a Weston-Watkins machine with that metric: ``W = Z P``, ``Z = X' tau``, P the
inverse of L. At the optimum ``Q_kl = p |w_k - w_l|^(p-2)``, times one number if R is a norm; between epochs log Q goes a
part theta of the way there. An error of log Q shrinks by factors

    1 - theta (1 + (p - 2) j),   0 <= j <= 1,

where j says how far the distances give way to their weights: theta = 2/p is the best part for p > 2. For p <= 2 the metric
majorises the penalty, and Q goes all the way.

The price of wrong weights, ``R(W) + R*(Z) - <W, Z>``, is a part of the gap that takes (c, c) matrices only; weights that
cost little rest. While the loop runs the intercept is free. Once the pairs that matter are known, Newton steps on them end
the fit (``newton/active_set.py``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.penalties.capabilities import PairPowers
from polymargin.penalties.pairs.pairwise import pair_indices
from polymargin.problems.certificate import Ledger
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.driver import Driver, Proof, Rhythm
from polymargin.solvers.ascent.loops import native_loop
from polymargin.solvers.ascent.moves import FreeIntercept, Move, PairWeights
from polymargin.solvers.interior.pair_iterate import PairIterate
from polymargin.solvers.newton.faces.active_set import newton_on_pairs
from polymargin.solvers.progress import Forecast, Stall
from polymargin.solvers.rows import centre_and_coupling
from polymargin.solvers.types import Start, sparse_duals

Array = NDArray[np.float64]

_RHYTHM = Rhythm(epochs=5, grace=12, restores="look")
_FIRST_NEWTON, _AGAIN = 4, 2  # slices before Newton steps are tried, and until they are tried again if they were of use
_SETTLED = 0.03  # of the pairs with multipliers: if fewer came and went in a slice, the pairs are quiet
_QUIET = 3  # slices of quiet pairs after which Newton steps are tried, or one
_CHEAP = 2.0  # if the price of the weights is below so many tolerances
_FUSED = 1e-6  # of the largest distance: shorter ones count as long as this
_SPAN = 50  # epochs over which the pace is seen
_PATIENCE = 200  # epochs that do not halve the gap, or half of all so far
_RANGE = 28.0  # of log Q: a wider one cannot be inverted


class PairMetric:
    """Weights Q of the pairs of classes, the metric L they make and its inverse P on vectors of sum 0."""

    def __init__(self, penalty: PairPowers, W: Array):
        self.penalty, self.c = penalty, W.shape[1]
        self.part = 2.0 / penalty.p if penalty.p > 2.0 else 1.0
        self.set(self.wanted(W))

    def wanted(self, W: Array) -> Array:
        """log Q that the distances of W ask for."""
        squares = self.penalty.squares(W)
        shortest = _FUSED**2 * float(squares.max(initial=0.0))
        return self.penalty.log_weights(np.maximum(squares, max(shortest, 1e-200)))

    def step(self, W: Array) -> Array:
        """The move of log Q towards what W asks for."""
        return np.asarray(self.part * (self.wanted(W) - self.log_Q))

    def set(self, log_Q: Array) -> None:
        c = self.c
        log_Q = np.maximum(log_Q, log_Q.max() - _RANGE)
        Q = np.zeros((c, c))
        with np.errstate(over="ignore"):
            Q[pair_indices(c)] = np.exp(log_Q)
        Q += Q.T
        L = np.diag(Q.sum(axis=1) + 2.0 * self.penalty.epsilon) - Q
        if not np.isfinite(L).all():
            raise np.linalg.LinAlgError("the weights of pairs are beyond all bounds")
        self.log_Q, self.L = log_Q, L
        P = np.linalg.inv(self.L + np.trace(self.L) / c**2)
        P -= P.mean(axis=0)
        P -= P.mean(axis=1, keepdims=True)
        self.P = np.ascontiguousarray(0.5 * (P + P.T))


def pair_weighted_ascent(now: PairIterate, ledger: Ledger, *, max_iter: int, seed: int, start: Start | None) -> int:
    """Climbs until ``ledger.tol`` is certified or it no longer helps; returns the epochs used."""
    if start is not None:  # it may be good enough as it is
        now.V = now.design.unknowns(start.W, start.b)
        now.S = now.design.scores(now.V)
        now.A = np.minimum(start.duals.dense(now.A.shape[1]), now.cost[:, None])
        now.certify(ledger, now.problem.penalty.model(now.V[: now.design.r], 0.0), 1)
        if ledger.done:
            return 1
    ascent = _PairAscent(now, ledger, max_iter, seed, start)
    ascent.driver.climb(ledger, ascent, ascent.enough, ascent.wants_look)
    return max(1, min(max_iter, ascent.driver.n_iter))


class _PairAscent(Proof):
    """The metric, the loop for it, and when Newton steps are tried. Iterate and best machine are those of `now`."""

    def __init__(self, now: PairIterate, ledger: Ledger, max_iter: int, seed: int, start: Start | None):
        self._now, self._ledger, self._seed = now, ledger, seed
        if start is None:
            now.start_along_means()
        self._spread = centre_and_coupling(now.design.X) if now.problem.fit_intercept else None
        assert now.problem.penalty.pair_powers is not None
        self._penalty, n = now.problem.penalty, now.problem.n_rows
        W = now.V[: now.design.r] if start is None else start.W
        self._metric = PairMetric(now.problem.penalty.pair_powers, W)
        self.driver = Driver(self._loop(), n, max_iter * n, _RHYTHM, self._moves)
        if start is not None:
            self._load(start.duals.dense(now.A.shape[1]), start.b)
        self._pairs = np.empty(0, dtype=np.intp)
        self._quiet, self._settled, self._next_newton, self._gap_of_newton = 0, False, _FIRST_NEWTON, np.inf
        self._stall, self._forecast = Stall(_PATIENCE, 0.5, share=0.5), Forecast(_SPAN)

    def _loop(self, **settings: int) -> native.RowLoop:
        """A new loop, with its moves."""
        design, problem = self._now.design, self._now.problem
        loop = native_loop("box", "between_classes", design.X, problem, self._seed, waiting=True)
        self._weights = PairWeights(loop, self._penalty, self._metric, **settings)
        self._moves: list[Move] = [self._weights]
        self._intercept: FreeIntercept | None = None
        if self._spread is not None:
            self._intercept = FreeIntercept(loop, *self._spread)
            self._moves.append(self._intercept)
        return loop

    def _load(self, A: Array, b: Array) -> None:
        """Duals and offsets into a loop that has none yet."""
        self.driver.loop.set_duals(*sparse_duals(np.minimum(A, self._now.cost[:, None])))
        if self._intercept is not None:
            self._intercept.place(b)

    def note(self, ledger: Ledger, epochs: int) -> None:
        now, design, loop, W = self._now, self._now.design, self.driver.loop, self._weights.W
        now.V = np.vstack([W, loop.intercepts() + design.mean @ W]) if design.fit_intercept else W
        now.S = design.scores(now.V)
        starts, classes, values = loop.duals()
        now.A[:] = 0.0
        now.A[np.repeat(now.own, np.diff(starts)), classes] = values
        self._bound = now.certify(ledger, self._penalty.model(W, 0.0), epochs)

    def wants_look(self) -> bool:
        """Whether the pairs that matter seem to be known: Newton steps begin with a look."""
        self._quiet = self._quiet + 1 if self._share_changed() <= _SETTLED else 0
        self._settled = self.driver.slices >= self._next_newton and (
            self._quiet >= _QUIET
            or (self._quiet > 0 and self._weights.price() <= _CHEAP * self._ledger.tol * self._weights.size)
        )
        return self._settled

    def _share_changed(self) -> float:
        """How many pairs have got or lost their multipliers since the last call, in parts of those that have one."""
        starts, classes, _ = self.driver.loop.duals()
        pairs = np.repeat(self._now.own, np.diff(starts)) * self._metric.c + classes
        before, self._pairs = self._pairs, pairs
        return len(np.setxor1d(before, pairs, assume_unique=True)) / max(1, len(pairs))

    def enough(self) -> bool:
        """Tries Newton steps if it is time; says when all is done or too many epochs are of no use."""
        slices = self.driver.slices
        if self._stall.note(self._ledger.gap, at=self.driver.visits / self.driver.n_rows) or self._is_too_slow():
            return True
        if self._settled:
            helped = self._newton()
            self._next_newton = slices + (_AGAIN if helped else max(_AGAIN, slices // 2))  # too early, it was dear
        return self._ledger.done

    def _is_too_slow(self) -> bool:
        """Whether the epochs that are left will not do, and interior points would."""
        epochs, left = self.driver.visits // self.driver.n_rows, self.driver.left / self.driver.n_rows
        needed = self._forecast.needed(epochs, float(np.log(self._ledger.rel_gap / self._ledger.tol)))
        if needed is None or epochs < cost_model.FEWEST_EPOCHS or needed <= left:
            return False
        design = self._now.design
        return cost_model.assembly_fits(self._now.problem.n_rows, design.r + design.fit_intercept, self._metric.c)

    def _newton(self) -> bool:
        """Newton steps; whether they got so far that another loop goes on from there."""
        now, metric, ledger, before = self._now, self._metric, self._ledger, self._metric.log_Q
        helped = newton_on_pairs(now, metric, ledger, self._bound, self.driver.visits // self.driver.n_rows)
        if ledger.done:
            return True
        if not (helped and ledger.gap <= 0.9 * self._gap_of_newton):
            metric.set(before)  # the loop's
            return False
        self._gap_of_newton = ledger.gap
        self._seed += 1  # else it might run in circles
        self.driver.reopen(self._loop(first=0), self._moves)
        self._load(now.A, now.design.split(now.V)[1])
        return True
