"""Coordinate ascent over pairs of rows and labels, for One versus None: the native loop is ``_core/label_loop.hpp``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.problems.certificate import Ledger
from polymargin.problems.labels import LabelProblem
from polymargin.solvers.ascent.driver import Driver, Proof, Rhythm
from polymargin.solvers.ascent.loops import open_label_loop
from polymargin.solvers.ascent.moves import LabelOffsets
from polymargin.solvers.types import Solution, SparseDuals, Start

Array = NDArray[np.float64]

_RHYTHM = Rhythm(epochs=10, grace=8)
_NEGLIGIBLE = 1e-3  # part of the tolerance that rounding may take without a second look
_LONG = 1e4  # rows that are not scaled: the loop's own loss is not relied on
_MOVED = 1e-12  # of weights and offsets: the loop's own loss is then theirs


def label_ascent(
    problem: LabelProblem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
) -> Solution:
    """Solves `problem` until ``ledger.tol`` is certified or ``max_iter`` epochs are used up."""
    loop, means = open_label_loop(problem, seed)
    proof = _LabelProof(problem, loop, n_threads)
    ledger.at_hand = proof.at_hand
    driver = Driver(loop, problem.n_rows, max_iter * problem.n_rows, _RHYTHM, [LabelOffsets(loop)])
    if start is not None:  # it may be good enough as it is
        loop.set_duals(start.duals.values)
        loop.move_centre(start.b + means @ problem.penalty.minimizer(problem.class_sums(start.duals.values)))
        proof.note(ledger, 0)
    if start is None or not ledger.done:
        driver.climb(ledger, proof)
    duals = SparseDuals(problem.y.starts, problem.y.labels, problem.repaired(loop.duals()))
    return Solution(proof.best_machine, duals, ledger.close(max(1, min(max_iter, driver.n_iter))))


class _LabelProof(Proof):
    def __init__(self, problem: LabelProblem, loop: native.LabelLoop, n_threads: int):
        self.problem: LabelProblem = problem
        self._loop, self._n_threads = loop, n_threads

    def iterate(self) -> tuple[Array, Array]:
        return self.problem.feasible(self._loop.weights(), self._loop.offsets())

    def values(self, tol: float) -> tuple[float, float]:
        problem, loop = self.problem, self._loop
        found = loop.weights(), loop.offsets()
        W, b = problem.feasible(*found)
        moved = any(_has_moved(new, old) for new, old in zip((W, b), found, strict=True))
        primal = loop.loss(self._n_threads) + problem.penalty_value(W, b)
        # centred rows may cancel in the loop, and long rows in the sums it has kept
        if moved or problem.longest_row > _LONG or problem.rounding(W, b) > _NEGLIGIBLE * tol * abs(primal):
            primal = problem.primal(W, b)
        return primal, problem.bound(loop.duals(), primal)


def _has_moved(new: Array, old: Array) -> bool:
    return new is not old and bool(np.linalg.norm(new - old) > _MOVED * np.linalg.norm(old))
