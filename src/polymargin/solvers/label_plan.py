"""Which solver for One versus None: coordinate ascent, and an interior point where that crawls and this is cheap."""

from __future__ import annotations

import numpy as np

from polymargin.certificate import Ledger
from polymargin.label_problem import LabelProblem
from polymargin.solvers.ascent.labels import label_ascent
from polymargin.solvers.cost_model import epochs_of_label_interior_points, label_interior_points_fit
from polymargin.solvers.interior.labels import label_interior
from polymargin.solvers.types import Solution, Start

_LONGEST_PATIENCE = 800  # epochs: leaves room for the interior point within the default max_iter


def solve_labels(
    problem: LabelProblem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
) -> Solution:
    """Solves `problem` to ``ledger.tol``."""
    patience = min(max_iter, _patience(problem))
    solution = label_ascent(problem, ledger, max_iter=patience, seed=seed, n_threads=n_threads, start=start)
    left = max_iter - solution.certificate.n_iter
    if ledger.done or left <= 0:
        return solution
    return label_interior(problem, ledger, max_iter=left, so_far=solution)


def _patience(problem: LabelProblem) -> int:
    """Epochs to try before an interior point: about its work; unlimited if it cannot be used."""
    if not label_interior_points_fit(problem):
        return int(np.iinfo(np.int32).max)
    return min(_LONGEST_PATIENCE, 100 + epochs_of_label_interior_points(problem))
