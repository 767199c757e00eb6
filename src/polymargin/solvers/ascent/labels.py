"""Coordinate ascent over pairs of rows and labels, for One versus None.

The loop itself is native (``_core/label_loop.hpp``); here is what surrounds it: the proximal-point loop on the offsets,
and the true gap.
"""

from __future__ import annotations

import numpy as np

from polymargin.certificate import Ledger
from polymargin.label_problem import LabelProblem
from polymargin.solvers.ascent.loops import open_label_loop
from polymargin.solvers.progress import Anderson
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

_NEGLIGIBLE = 1e-3  # part of the tolerance that rounding may take without a second look
_LONG = 1e4  # rows that are not scaled: the loop's own loss is not relied on
_EPOCHS = 10  # between moves of the centre
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
    n, budget = problem.n_rows, max_iter * problem.n_rows
    best: Machine | None = None

    def look() -> None:
        """The true gap of the machine at hand."""
        nonlocal best
        found = loop.weights(), loop.offsets()
        W, b = problem.feasible(*found)
        moved = any(np.linalg.norm(new - old) > _MOVED * np.linalg.norm(old) for new, old in zip((W, b), found, strict=True))
        primal = loop.loss(n_threads) + problem.penalty_value(W, b)
        # centred rows may cancel in the loop, and long rows in the sums it has kept
        if moved or problem.longest_row > _LONG or problem.rounding(W, b) > _NEGLIGIBLE * ledger.tol * abs(primal):
            primal = problem.primal(W, b)
        ledger.add(primal, problem.bound(loop.duals(), primal), loop.visits // n)
        if best is None or primal < best.primal:
            best = Machine(W, b, primal)

    def at_hand() -> Machine:
        W, b = problem.feasible(loop.weights(), loop.offsets())
        return Machine(W, b, problem.primal(W, b))

    ledger.at_hand = at_hand
    if start is not None:
        loop.set_duals(start.duals.values)
        loop.move_centre(start.b + means @ problem.penalty.minimizer(problem.class_sums(start.duals.values)))
        look()
    extrapolate = Anderson()
    outer = next_look = 0
    while best is None or not (ledger.done or loop.visits >= budget):
        loop.ascend(min(_EPOCHS * n, budget - loop.visits), 0.3 * ledger.tol)
        outer += 1
        promising = loop.estimate <= ledger.tol * abs(loop.dual + loop.estimate)
        if (outer >= next_look and promising) or outer >= next_look + 8 or loop.visits >= budget:
            look()
            next_look = outer + max(1, outer // 8)
        centre = loop.centre()
        loop.move_centre(extrapolate(centre, loop.next_centre() - centre))
        loop.restore()
    duals = SparseDuals(problem.y.starts, problem.y.labels, problem.repaired(loop.duals()))
    return Solution(best, duals, ledger.close(max(1, min(max_iter, -(-loop.visits // n)))))
