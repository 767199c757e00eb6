"""The iteration of Zhang & Zhou (2017), Algorithm 1: rounds that freeze the rival's score. It may raise F."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polymargin.certificate import Ledger
from polymargin.solvers.ascent.margin_step import Ascent, solve_step
from polymargin.solvers.types import Machine, Solution

_INNER = 0.3  # relative gap of a round, in tolerances


def paper_rounds(ascent: Ascent, ledger: Ledger, max_iter: int) -> Solution:
    """The paper's iteration until it stands still: returns the machine of the last round, which need not be the best one.

    It stands still when a round that was solved to the tolerance changes neither F nor W by more than that. A round that
    `max_iter` cuts short does not count, unless it is the first.
    """
    seen = ascent.look()
    machine, duals = ascent.machine(seen.stated), ascent.duals()
    rounds, change, status = [seen.stated], np.inf, "max_iter"
    ledger.at_hand = lambda: machine
    while ascent.left > 0 and status != "stationary":
        ascent.relinearise()
        seen = solve_step(ascent, _INNER * ledger.tol)
        solved = seen.relaxed - seen.dual <= ledger.tol * seen.relaxed
        if solved or len(rounds) == 1:
            before, machine, duals = machine, ascent.machine(seen.stated), ascent.duals()
            rounds.append(seen.stated)
            change = _relative_change(before, machine)
            status = "stationary" if solved and change <= ledger.tol else status
    ledger.add(machine.primal, ascent.bound_without_upper_part(), ascent.n_iter)
    certificate = replace(ledger.close(min(max_iter, ascent.n_iter)), status=status)
    return Solution(machine, duals, certificate, rounds=tuple(rounds), last_change=change)


def _relative_change(before: Machine, now: Machine) -> float:
    """Of F or of W, whichever is larger."""
    of_value = abs(now.primal - before.primal) / max(now.primal, 1e-300)
    return max(of_value, float(np.linalg.norm(now.W - before.W)) / max(float(np.linalg.norm(now.W)), 1e-300))
