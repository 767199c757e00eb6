"""Relevance: labels that share nothing but the rows, by ascent, and by interior points where that crawls.

Labels are solved some at a time, so that an interrupted fit has what it has. What each proves of itself is added up; the
bound of all comes from the duals once more, in `SetProblem.bound`, which knows what rounding may hide.
"""

from __future__ import annotations

import numpy as np

from polymargin.problems.certificate import Ledger
from polymargin.problems.sets import SetProblem
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.labels.apart import LabelsApart
from polymargin.solvers.interior.labels import label_interior
from polymargin.solvers.types import Solution, SparseDuals, Start

_ROUNDED = 0.9  # of the tolerance: the rest is for what rounding hides from the bound
_FINEST = 1e-3  # of the tolerance: what is still missing then is rounding
_FEWEST_EPOCHS, _MOST_EPOCHS = 100, 800  # of ascent before interior points


def solve_label_by_label(
    problem: SetProblem, ledger: Ledger, *, max_iter: int, seed: int, n_threads: int = 1, start: Start | None = None
) -> Solution:
    """Solves the relevance of every label until ``ledger.tol`` is certified or each has used up ``max_iter`` epochs."""
    apart = LabelsApart(problem, seed, n_threads, start)
    ledger.at_hand = apart.at_hand
    ledger.stage("dual ascent label by label", "the labels share nothing but the rows")
    first = cost_model.epochs_from(start, min(max_iter, _epochs_before_interior_points(problem)))
    tol, groups, steps, crawled = _ROUNDED * ledger.tol, apart.groups(), 0, False
    while True:
        for labels in groups:
            _ascend(apart, labels, tol, first)
        if first < max_iter and len(apart.unfinished(tol)):
            ledger.stage("interior points", "ascent crawls, and the system of a label is small")
            crawled = True
            steps += _end_by_interior_points(apart, tol, max_iter - first)
            first = max_iter  # what rounding keeps from them is left to ascent
        duals = apart.duals
        cost = problem.cost[duals.rows] * problem.y.label_weight[duals.classes]
        bound = problem.bound(duals, problem.loss.value_of_duals(np.abs(duals.values), cost))
        n_iter = min(max_iter, max(1, steps + int(np.ceil(apart.visits.max() / problem.n_rows))))
        ledger.add(apart.machine().primal, bound, n_iter)
        if ledger.done or n_iter >= max_iter or tol < _FINEST * ledger.tol:
            end = ledger.close(n_iter, "max_iter" if n_iter >= max_iter else "stalled")
            return Solution(apart.machine(), duals, end, crawled=crawled)
        tol *= 0.1
        groups = [apart.unfinished(tol)]


def _ascend(apart: LabelsApart, labels: np.ndarray, tol: float, epochs: int) -> None:
    left = epochs * apart.problem.n_rows - int(apart.visits[labels].max(initial=0))
    if len(labels) and left > 0:
        apart.solve(labels, tol, left)


def _epochs_before_interior_points(problem: SetProblem) -> int:
    """About their work; unlimited if they cannot be used, or rows are so many that ascent is never long."""
    if problem.loss.squared or problem.n_rows * problem.n_features > cost_model.LARGEST_ARRAY:
        return int(np.iinfo(np.int32).max)
    one = problem.as_pairs(np.array([0]))
    if not len(one.cost) or not cost_model.label_interior_points_fit(one):
        return int(np.iinfo(np.int32).max)
    return min(_MOST_EPOCHS, _FEWEST_EPOCHS + cost_model.epochs_of_label_interior_points(one))


def _end_by_interior_points(apart: LabelsApart, tol: float, max_iter: int) -> int:
    """The labels that ascent has not ended, one after the other; returns the most steps that one took."""
    most = 0
    for k in apart.unfinished(tol):
        pairs = apart.problem.as_pairs(np.array([k]))
        ledger = Ledger(tol, rounding=pairs.rounding_at)
        none = SparseDuals(pairs.y.starts, pairs.y.labels, np.zeros(len(pairs.cost)))
        found = label_interior(pairs, ledger, max_iter=max_iter, so_far=Solution(apart.part_of(k), none, ledger.close(0)))
        most = max(most, found.certificate.n_iter)
        signed = np.zeros(apart.problem.n_rows)
        assert found.duals is not None
        signed[pairs.pair_rows] = found.duals.values * pairs.y.signs
        apart.take(int(k), found.machine, found.certificate.dual, signed)
    return most
