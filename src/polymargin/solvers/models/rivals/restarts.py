"""Further starts for the margin distribution machine: machines of the same rows with other weights, drawn at random.

The minimum is a local one. Where the rounds end depends on the rivals they begin with; rows that weigh more or less, each by
an exponential variable of mean 1, give other rivals and duals that are feasible for the true weights too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.types import Solution, Start

Descend = Callable[[Problem, Ledger, Start | None], Solution]
_ROUGH = 1e-2  # relative gap of the machine with other weights: it is a start only


def best_of(problem: Problem, ledger: Ledger, first: Solution, n_starts: int, seed: int, descend: Descend) -> Solution:
    """The lowest end of `first` and ``n_starts - 1`` further descents; its certificate has the seconds of all."""
    began, best = time.perf_counter() - first.certificate.seconds, first
    ledger.at_hand = lambda: best.machine
    for number in range(1, n_starts):
        weights = np.random.default_rng([seed, number]).exponential(size=problem.n_rows)
        other = replace(problem, cost=problem.cost * weights)
        begin = descend(other, Ledger(_ROUGH, rounding=other.rounding_at), None)
        assert begin.duals is not None  # rounds have them
        start = Start(begin.duals, begin.machine.b)
        end = descend(problem, Ledger(ledger.tol, rounding=problem.rounding_at), start)
        if end.machine.primal < best.machine.primal:
            best = end
        ledger.say(f"start {number + 1} of {n_starts}: objective {end.machine.primal:.8g}, best {best.machine.primal:.8g}")
    spent = time.perf_counter() - began
    return best._replace(certificate=replace(best.certificate, seconds=spent, stages=first.certificate.stages))
