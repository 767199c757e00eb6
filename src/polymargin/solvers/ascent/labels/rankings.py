"""Rows whose labels are ranked: dual ascent over rows, natively (``_core/loops/ranking_loop.hpp``), and what duals prove.

Duals a_kl of pairs of a member k and a non-member l are flows between labels. Free offsets ask that they circulate:
`balancing_factors` makes them do so, and a multiple brings them back below their bounds. For the worst pair the loop keeps
the sums p_k and r_l of a row's pairs only; the flows ``p_k r_l / sum p`` have these sums.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.problems.certificate import Ledger
from polymargin.problems.duals import sparse_duals
from polymargin.problems.native_rows import native_rows
from polymargin.problems.sets import SetProblem
from polymargin.solvers.ascent.driver import Driver, Proof, Rhythm
from polymargin.solvers.ascent.moves import FreeIntercept
from polymargin.solvers.bounds import balancing_factors, room_of_sums
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Solution, Start

Array = NDArray[np.float64]

_RHYTHM = Rhythm(epochs=10, grace=8)
_MOST_DUALS = 50_000_000  # 400 MB


class RankedPairs:
    """The sides of the rows, and where duals of the loop belong to."""

    def __init__(self, problem: SetProblem):
        T = problem.y.dense(slice(0, problem.n_rows))
        n, self.c = T.shape
        self.worst = problem.loss.name == "max_ranking"
        sides = np.stack([T > 0, T < 0], axis=1)
        self.counts = sides.sum(axis=2)  # (n, 2)
        self.labels = np.nonzero(sides)[2].astype(np.int32)
        self.starts = np.append(0, np.cumsum(self.counts)).astype(np.int64)
        sizes = self.counts.sum(axis=1) if self.worst else self.counts.prod(axis=1)
        self.sizes = np.where(self.counts.all(axis=1), sizes, 0)
        if self.sizes.sum() > _MOST_DUALS:
            raise ValueError(
                f"loss={problem.loss.name!r} keeps {self.sizes.sum():.3g} numbers for pairs of labels of a row, more than "
                f"{_MOST_DUALS:.3g}; use loss='relevance', or fewer rows."
            )
        self.rows = np.repeat(np.arange(n), self.sizes)
        self._place = np.arange(len(self.rows)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)

    @cached_property
    def own(self) -> NDArray[np.int32]:
        """The member of each pair."""
        return self.labels[self.starts[2 * self.rows] + self._place // self.counts[self.rows, 1]]

    @cached_property
    def other(self) -> NDArray[np.int32]:
        return self.labels[self.starts[2 * self.rows + 1] + self._place % self.counts[self.rows, 1]]

    @cached_property
    def _entry(self) -> tuple[NDArray[np.int32], Array]:
        """Of the worst pair: the label of each dual, and its sign."""
        return self.labels[self.starts[2 * self.rows] + self._place], np.where(
            self._place < self.counts[self.rows, 0], 1.0, -1.0
        )

    def tau(self, a: Array) -> Array:
        """Signed duals (n, c)."""
        out = np.zeros((len(self.sizes), self.c))
        if self.worst:
            labels, signs = self._entry
            out[self.rows, labels] = signs * a
            return out
        np.add.at(out, (self.rows, self.own), a)
        np.subtract.at(out, (self.rows, self.other), a)
        return out

    def duals_from(self, tau: Array, cost: Array) -> Array:
        """Feasible duals near these signed ones."""
        up, down = np.maximum(tau, 0.0), np.maximum(-tau, 0.0)
        if self.worst:
            labels, signs = self._entry
            level = np.minimum(np.minimum(up.sum(axis=1), down.sum(axis=1)), cost)
            sums = np.where(signs > 0.0, up.sum(axis=1)[self.rows], down.sum(axis=1)[self.rows])
            return np.asarray(np.abs(tau[self.rows, labels]) * level[self.rows] / np.maximum(sums, 1e-300))
        mass = np.maximum(up.sum(axis=1), 1e-300)
        a = up[self.rows, self.own] * down[self.rows, self.other] / mass[self.rows]
        return np.asarray(np.minimum(a, self.caps(cost)))

    def caps(self, cost: Array) -> Array:
        return np.asarray((cost / np.maximum(self.counts.prod(axis=1), 1))[self.rows])

    def balanced(self, a: Array, cost: Array) -> Array:
        """Signed duals that circulate, back below their bounds."""
        if not self.worst:
            flows = np.bincount(self.own * np.int64(self.c) + self.other, a, self.c**2).astype(np.float64)
            factors = balancing_factors(flows.reshape(self.c, self.c))
            moved = a * factors[self.own, self.other]
            return self.tau(moved * room_of_sums(moved, self.caps(cost)))
        tau = self.tau(a)
        up, down = np.maximum(tau, 0.0), np.maximum(-tau, 0.0)
        shares = up / np.maximum(up.sum(axis=1, keepdims=True), 1e-300)
        factors = balancing_factors(shares.T @ down)
        up, down = shares * (down @ factors.T), down * (shares @ factors)
        return np.asarray((up - down) * room_of_sums(up.sum(axis=1), cost))


class _RankingProof(Proof):
    def __init__(self, problem: SetProblem, loop: native.RankingLoop, pairs: RankedPairs):
        self.problem: SetProblem = problem
        self._loop, self._pairs = loop, pairs
        self.bound, self.duals = -np.inf, sparse_duals(np.zeros((problem.n_rows, problem.n_classes)))

    def iterate(self) -> tuple[Array, Array]:
        W = self._loop.weights()
        return W, self._loop.intercepts() if self.problem.fit_intercept else np.zeros(W.shape[1])

    def values(self, tol: float) -> tuple[float, float]:
        problem, a = self.problem, self._loop.duals()
        tau = self._pairs.balanced(a, problem.cost) if problem.fit_intercept else self._pairs.tau(a)
        duals = sparse_duals(tau)
        bound = problem.bound(duals, float(np.maximum(tau, 0.0).sum()))
        if bound > self.bound:
            self.bound, self.duals = bound, duals
        return problem.primal(*self.iterate()), bound


def ranking_ascent(
    problem: SetProblem, ledger: Ledger, *, max_iter: int, seed: int, n_threads: int = 1, start: Start | None = None
) -> Solution:
    """Solves `problem` until ``ledger.tol`` is certified or ``max_iter`` epochs are used up."""
    pairs = RankedPairs(problem)
    loop = native.ranking_loop(
        native_rows(problem.X), pairs.starts, pairs.labels, problem.cost, pairs.worst, problem.n_classes, seed
    )
    moves = [FreeIntercept(loop, *centre_and_spread(problem.X))] if problem.fit_intercept else []
    proof = _RankingProof(problem, loop, pairs)
    ledger.at_hand = proof.at_hand
    driver = Driver(loop, problem.n_rows, max_iter * problem.n_rows, _RHYTHM, moves)
    if start is not None:
        loop.set_duals(pairs.duals_from(start.duals.dense(problem.n_classes), problem.cost))
        for move in moves:
            move.place(start.b)
        proof.note(ledger, 0)
    if start is None or not ledger.done:
        driver.climb(ledger, proof)
    return Solution(proof.best_machine, proof.duals, ledger.close(max(1, min(max_iter, driver.n_iter))))
