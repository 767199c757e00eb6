"""Choosing the exponent of the lp-norm machine by cross-validation, in the feature space of the fit.

The folds are cut from the rows of the problem that is to be fitted, so a kernel machine shares one feature map, and each
fold's machines start from the one before: from p = 2 down to 1.1 in five short steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from polymargin.penalties import BlockNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.selection.folds import stratified_folds
from polymargin.solvers import Machine, Solution, Start

CANDIDATES = (2.0, 1.8, 1.5, 1.33, 1.1)
_FOLDS = 3
_COARSE = 1e-3  # relative gap of the folds' machines


def cross_validated_p(
    problem: Problem, solve: Callable[..., Solution], tol: float, max_iter: int, seed: int, n_threads: int
) -> dict[float, float]:
    """Weighted accuracy of every candidate on the rows left out."""
    folds = stratified_folds(problem.y, _FOLDS, seed)
    right = dict.fromkeys(CANDIDATES, 0.0)
    for fold in range(_FOLDS):
        left_out = folds == fold
        if not left_out.any():
            continue
        classes, y = np.unique(problem.y[~left_out], return_inverse=True)
        part = replace(
            problem,
            X=problem.X[~left_out],
            y=y.astype(np.int32),
            cost=problem.cost[~left_out],
            n_classes=len(classes),
            loss=problem.loss.of_classes(classes),
        )
        settings = {"max_iter": max_iter, "seed": seed, "n_threads": n_threads}
        for p, machine in _machines(part, solve, max(tol, _COARSE), settings):
            winners = classes[machine.scores(problem.X[left_out]).argmax(axis=1)]
            right[p] += float(problem.cost[left_out][winners == problem.y[left_out]].sum())
    counted = float(problem.cost[folds >= 0].sum())
    return {p: value / counted if counted > 0.0 else 0.0 for p, value in right.items()}


def _machines(
    problem: Problem, solve: Callable[..., Solution], tol: float, settings: dict[str, int]
) -> Iterator[tuple[float, Machine]]:
    """A machine for every candidate, each started from the one before."""
    start: Start | None = None
    for p in CANDIDATES:
        machine = replace(problem, penalty=BlockNorm(p))
        solution = solve(machine, Ledger(tol, rounding=machine.rounding_at), start=start, **settings)
        yield p, solution.machine
        if solution.duals is not None:
            start = Start(solution.duals, solution.start_b, solution.scales)

