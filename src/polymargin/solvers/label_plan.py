"""Which solver for One versus None: coordinate ascent, and an interior point where that crawls and this is cheap."""

from __future__ import annotations

import numpy as np

from polymargin.certificate import Ledger
from polymargin.label_problem import LabelProblem
from polymargin.solvers.ascent.labels import label_ascent
from polymargin.solvers.types import Solution, Start

_LARGEST_STEP = 2e10  # operations of one interior-point step
_LARGEST_ARRAYS = 8_000_000  # numbers it holds: 64 MB
_STEPS = 25  # what an interior point usually takes
_LONGEST_PATIENCE = 800  # epochs: leaves room for the interior point within the default max_iter
_SPEED = 8.0  # how many times faster its matrix products run than the ascent's dot products


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
    from polymargin.solvers.interior.labels import label_interior

    return label_interior(problem, ledger, max_iter=left, so_far=solution)


def _patience(problem: LabelProblem) -> int:
    """Epochs to try before an interior point: about its work; unlimited if it cannot be used."""
    from polymargin.solvers.interior.label_system import entries, flops

    step = flops(problem)
    if step > _LARGEST_STEP or entries(problem) > _LARGEST_ARRAYS:
        return int(np.iinfo(np.int32).max)
    epoch = 4.0 * (problem.n_rows + len(problem.cost)) * max(1, problem.n_features)
    return min(_LONGEST_PATIENCE, 100 + int(_STEPS * step / (_SPEED * epoch)))
