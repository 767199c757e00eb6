"""The iteration of Zhang & Zhou (2017), Algorithm 1: rounds that freeze the rival's score. It may raise F."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polymargin.certificate import Ledger
from polymargin.solvers.band_ascent import Ascent, solve_step
from polymargin.solvers.dual_ascent import Solution

_PATIENCE = 20  # rounds without a new best


def paper_rounds(ascent: Ascent, ledger: Ledger, max_iter: int) -> Solution:
    """The paper's iteration, which may raise F: ends at a fixed point, or when it has long not found a better machine."""
    best, duals = ascent.machine(ascent.look().stated), ascent.duals()
    rounds, change, since, status = [best.primal], np.inf, 0, "max_iter"
    while ascent.left > 0:
        ascent.relinearise()
        seen = solve_step(ascent, 0.3 * ledger.tol)
        since += 1
        change = abs(seen.stated - rounds[-1]) / seen.stated
        rounds.append(seen.stated)
        if seen.stated < best.primal:
            best, duals, since = ascent.machine(seen.stated), ascent.duals(), 0
        if ascent.left > 0 and (change <= ledger.tol or since >= _PATIENCE):
            status = "stationary" if change <= ledger.tol else "stalled"
            break
    ledger.add(best.primal, ascent.bound_without_upper_part(), ascent.n_iter)
    certificate = replace(ledger.close(min(max_iter, ascent.n_iter)), status=status)
    return Solution(best, duals, certificate, rounds=tuple(rounds), last_change=change)
