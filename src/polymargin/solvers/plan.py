"""Which way for which problem: what its targets, loss and penalty offer decides, never a class by name.

    a margin band (convex once rivals are fixed)    models/rivals.py
    angles between class vectors (not convex)       models/angles.py
    everything else with one class a row            convex.py
    pairs of rows and labels                        `solve_labels` here
    label sets                                      `solve_sets` here

Every method that begins is noted on the certificate, with the reason (`Certificate.stages`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.problems.labels import LabelProblem
from polymargin.problems.sets import SetProblem
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.labels.pairs import label_ascent
from polymargin.solvers.ascent.labels.rankings import ranking_ascent
from polymargin.solvers.convex import solve_convex
from polymargin.solvers.interior.labels import label_interior
from polymargin.solvers.label_by_label import solve_label_by_label
from polymargin.solvers.models.angles.descend import solve_apart
from polymargin.solvers.models.majorisation import majorisation
from polymargin.solvers.models.rivals.descend import concave_convex
from polymargin.solvers.types import Solution, Start

_LONGEST_LABEL_ASCENT = 800  # epochs: leaves room for the interior point within the default max_iter
_FEWEST_LABEL_EPOCHS = 100


def solve(problem: Problem, ledger: Ledger, **settings: Any) -> Solution:
    """Solves `problem` to ``ledger.tol``, or until a descent is stationary.

    `settings` are max_iter, seed, n_threads and start; `relaxation` and `n_starts` of a margin band, `n_starts` of angles.
    """
    if problem.loss.margin_band is not None:
        ledger.stage("convex rounds", "the loss is convex for given rivals")
        return concave_convex(problem, ledger, **settings)
    if problem.penalty.angular is not None:
        return solve_apart(problem, ledger, **settings)
    return solve_convex(problem, ledger, **settings)


def solve_labels(
    problem: LabelProblem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    majorise: bool = False,
) -> Solution:
    """Solves a label problem to ``ledger.tol``; `majorise` asks for the paper's own method."""
    if majorise:
        ledger.stage("majorisation", "it was asked for")
        return majorisation(problem, ledger, max_iter=max_iter, start=start)
    ledger.stage("dual ascent over labels", "it ends most fits within few epochs")
    epochs = cost_model.epochs_from(start, min(max_iter, _epochs_before_interior_points(problem)))
    solution = label_ascent(problem, ledger, max_iter=epochs, seed=seed, n_threads=n_threads, start=start)
    left = max_iter - solution.certificate.n_iter
    if ledger.done or left <= 0:
        return solution
    ledger.stage("interior points", "ascent crawls, and their system is small")
    return label_interior(problem, ledger, max_iter=left, so_far=solution)._replace(crawled=True)


def solve_sets(
    problem: SetProblem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
) -> Solution:
    """Solves a problem with label sets to ``ledger.tol``."""
    if problem.loss.splits:
        return solve_label_by_label(problem, ledger, max_iter=max_iter, seed=seed, n_threads=n_threads, start=start)
    ledger.stage("dual ascent over ranked rows", "the labels of a row are compared")
    return ranking_ascent(problem, ledger, max_iter=max_iter, seed=seed, n_threads=n_threads, start=start)


def _epochs_before_interior_points(problem: LabelProblem) -> int:
    """About their work; unlimited if they cannot be used."""
    if not cost_model.label_interior_points_fit(problem):
        return int(np.iinfo(np.int32).max)
    return min(_LONGEST_LABEL_ASCENT, _FEWEST_LABEL_EPOCHS + cost_model.epochs_of_label_interior_points(problem))
