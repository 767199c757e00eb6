"""Where an ascent starts on a path over C, from the last two solutions.

Between two values at which a dual meets or leaves a bound all duals are linear in the costs (Hastie et al. 2004). So the
duals at new costs u are about

    a(s) = P(a_2 + s (a_2 - a_1)),      s = (u - u_2) / (u_2 - u_1),

P the projection onto the domains, which catches those that meet a bound on the way. That is nearly exact for text with a
large C, and where all duals sit at their bounds. Where the path bends, or duals are not unique (few columns), less is
better. The dual values at a_1 and a_2 are known, that of a(s) is the loop's: three points of a parabola, whose top says how
far to go. A multiple of a_2 may be better still. Nothing that is proven rests on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.problems.classes import Problem
from polymargin.solvers.types import Passed, SparseDuals, Start, sparse_duals

Array = NDArray[np.float64]

_FARTHEST = 20.0  # steps of the path at once
_ALMOST = 0.95  # of the way is all of it
_TINY = 1e-12  # of a cost: duals below it are rounding


def place(problem: Problem, loop: native.RowLoop, start: Start, passed: tuple[Passed, Passed]) -> Array:
    """Gives the loop the best duals that the path suggests; returns offsets for them."""
    first, last = passed
    reach = (1.0 - last.cost) / (last.cost - first.cost)
    by_multiple = _best_multiple(last)
    if -1.0 <= reach <= _FARTHEST:
        s, value = reach, _set(loop, _along(problem, first, last, reach))
        top = _top(first.dual, last.dual, value, reach)
        if 0.0 <= top < _ALMOST * reach:
            s, value = top, _set(loop, _along(problem, first, last, top))
        if value >= by_multiple[0]:
            return last.b + s * (last.b - first.b)
    loop.set_duals(*last.duals._replace(values=by_multiple[1] * last.duals.values))
    return start.b


def _set(loop: native.RowLoop, duals: SparseDuals) -> float:
    loop.set_duals(*duals)
    return float(loop.dual)


def _along(problem: Problem, first: Passed, last: Passed, s: float) -> SparseDuals:
    shape = (problem.n_rows, problem.n_classes)
    one, two = (sparse.csr_array((a.values, a.classes, a.starts), shape=shape) for a in (first.duals, last.duals))
    A = ((1.0 + s) * two - s * one).toarray()
    A[np.abs(A) <= _TINY * problem.cost[:, None]] = 0.0
    return sparse_duals(problem.row_domains.project(A).A)


def _top(first: float, last: float, far: float, reach: float) -> float:
    """Where the parabola through these values at -1, 0 and `reach` is highest, between the last two."""
    if reach <= 0.0:
        return reach
    bend = 2.0 * (reach * (last - first) - (far - last)) / (reach * (1.0 + reach))
    slope = last - first - 0.5 * bend
    return float(np.clip(slope / bend, 0.0, reach)) if bend > 0.0 else reach


def _best_multiple(last: Passed) -> tuple[float, float]:
    """The highest dual value of a multiple of the last duals that is feasible, and the multiple."""
    linear = float(last.duals.values.sum())
    norm = 2.0 * (linear - last.dual)
    multiple = min(1.0 / last.cost, linear / norm) if norm > 0.0 else 1.0 / last.cost
    return multiple * linear - 0.5 * multiple**2 * norm, multiple
