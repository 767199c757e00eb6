"""The arrays that an estimator returns, and the certificate of just these.

A solver proves its values for double-precision arrays, often of centred rows. What the user gets is rounded to the precision
of the data and stands beside the data as it is: far from zero, or with a large C, that may cost more than the tolerance. So
the objective of the returned arrays is evaluated where rounding can matter, and they stay in double precision where single
precision would break the promise, or a constraint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.features.shift import towards_zero
from polymargin.problems.certificate import Certificate, Ledger
from polymargin.solvers import Machine, Solution

_ROOM = 0.95  # of the tolerance for the solver, where the result is going to be rounded
QUICK = 100_000  # products of an evaluation that is always made
_NEGLIGIBLE = 1e-3  # part of the tolerance that rounding may take without a look, and
_STRICTEST = 1e-6  # of this one, if the user's is coarser

Array = NDArray[np.float64]


class Returned(NamedTuple):
    """Class vectors (c, d), offsets (c,) and their certificate."""

    vectors: NDArray[Any]
    offsets: NDArray[Any]
    certificate: Certificate


def solver_tolerance(tol: float, dtype: Any) -> float:
    """What a solver is asked for: a little less than the user wants, if rounding to single precision comes after it."""
    return tol if dtype == np.float64 else _ROOM * tol


def as_returned(problem: Any, solution: Solution, b: Array, tol: float) -> Returned:
    """The solution's class vectors, with these offsets, in the precision of the data if that keeps the promise."""
    W = solution.machine.W
    if _is_ready(problem, solution.machine):
        ready, kind = solution.machine, problem.X.dtype
        end = solution.certificate.of_primal(ready.primal, tol, lambda: problem.rounding(W, ready.b))
        return Returned(_by_class(W.astype(kind)), ready.b.astype(kind), end)
    if problem.penalty.fixes_sum:
        W = W - W.mean(axis=1, keepdims=True)
    exact = _measured(problem, W, b, solution, tol)
    if problem.X.dtype != np.float64 and not problem.penalty.fixes_sum:
        single = W.astype(problem.X.dtype)
        offsets = b if problem.fixes_sum_of_offsets else np.asarray(b, dtype=problem.X.dtype)
        machine = single.astype(np.float64), offsets.astype(np.float64)
        value = exact.primal if _are_equal(machine, (W, b)) else problem.primal(*machine)
        rounded = exact.of_primal(value, tol, lambda: problem.rounding(*machine))
        if rounded.converged or (not exact.converged and rounded.primal - exact.primal <= tol * abs(exact.primal)):
            return Returned(_by_class(single), offsets, rounded)
    return Returned(_by_class(W), b, exact)


def _is_ready(problem: Any, machine: Machine) -> bool:
    """Whether the solver has judged it in the precision of the data, with offsets that add up to zero but for that."""
    kind = problem.X.dtype
    if kind == np.float64 or problem.fixes_sum_of_offsets or problem.penalty.fixes_sum or sparse.issparse(machine.W):
        return False
    W, b = machine.W, machine.b
    if abs(b.mean()) > np.finfo(kind).eps * np.abs(b).max(initial=0.0) or W.size * problem.n_rows <= QUICK:
        return False
    return np.array_equal(W.astype(kind), W) and np.array_equal(b.astype(kind), b)


def _are_equal(machine: tuple[Any, Array], other: tuple[Any, Array]) -> bool:
    """Whether two machines, one the other's copy in some precision, are the same."""
    entries = [W.data if sparse.issparse(W) else W for W, _ in (machine, other)]
    return np.array_equal(machine[1], other[1]) and np.array_equal(*entries)


def _by_class(W: Any) -> NDArray[Any]:
    """W (d, c) as class vectors (c, d)."""
    return np.asarray(W.T.toarray()) if sparse.issparse(W) else np.ascontiguousarray(W.T)


def negligible(tol: float, primal: float) -> float:
    """What may stay unseen of an objective."""
    return _NEGLIGIBLE * min(tol, _STRICTEST) * abs(primal)


def _measured(problem: Any, W: Any, b: Array, solution: Solution, tol: float) -> Certificate:
    """The certificate with the objective of W and b beside the rows as they are; the solver's own where that is costly and
    rounding cannot matter."""
    rounding, primal = problem.rounding(W, b), solution.machine.primal
    if W.shape[0] * W.shape[1] * problem.n_rows <= QUICK or not rounding <= negligible(tol, primal):
        primal = problem.primal(W, b)
    return solution.certificate.of_primal(primal, tol, lambda: rounding)


def solve_or_keep(solve: Callable[..., Solution], problem: Any, ledger: Ledger, **settings: Any) -> Solution:
    """Solves; if the user interrupts and wants to keep it, the machine that the solver has at hand."""
    try:
        solution = solve(problem, ledger, **settings)
        ledger.at_hand = None  # it holds the solver, with a second copy of W
        return solution
    except KeyboardInterrupt:
        machine = ledger.at_hand() if ledger.keeps_interrupted and ledger.at_hand is not None else None
        if machine is None:
            raise
        certificate = replace(ledger.close(ledger.n_iter, "interrupted"), status="interrupted")
        return Solution(machine, None, certificate.of_primal(machine.primal, ledger.tol))


def solve_near_zero(
    solve: Callable[..., Solution], problem: Any, ledger: Ledger, free_offsets: bool, *, start: Any, **settings: Any
) -> Solution:
    """Solves with the columns that are far from zero moved there, if the offsets are free, and moves the offsets back.

    A start has the offsets of the moved rows, as `Solution.start_b` gives them.
    """
    moved = towards_zero(problem.X) if free_offsets else None
    if moved is None:
        return solve_or_keep(solve, problem, ledger, start=start, **settings)
    X, means = moved
    near = replace(problem, X=X)
    solution = solve_or_keep(solve, near, ledger, start=start, **settings)
    machine = solution.machine
    return solution._replace(machine=machine._replace(b=machine.b - means @ machine.W), inner_b=machine.b)
