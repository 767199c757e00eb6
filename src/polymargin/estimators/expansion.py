"""From a machine in feature space back to the rows: f_k(x) = sum_i A_ik k(x_i, x) + b_k over few support rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.features import KernelMap
from polymargin.problem import Problem
from polymargin.solvers import Machine, Solution, SparseDuals, WarmStart

_ATTEMPTS = 4  # at ever tighter tolerances

Array = NDArray[np.float64]


class Expansion(NamedTuple):
    """Coefficients ``A (n_support, c)`` on the rows `support`, offsets, and R and F of the machine they make."""

    support: NDArray[np.intp]
    A: Array
    b: Array
    penalty: float
    primal: float


def solve_and_expand(
    solve: Callable[..., Solution],
    problem: Problem,
    ledger: Ledger,
    mapping: KernelMap,
    *,
    max_iter: int,
    start: WarmStart | None,
    **settings: Any,
) -> tuple[Solution, Expansion]:
    """Solves in feature space and expands the machine in as few rows as keep the promise of ``ledger.tol``.

    The signed duals have few non-zero rows, but make the very machine of the solution only in the limit: if theirs misses
    the tolerance, the solver goes on to a tighter one. In the end, with a Nystroem map, which knows only its own landmarks,
    and from a solver without such duals, W is expanded on the pivots of the map, exactly.
    """
    tol, left = ledger.tol, max_iter
    best: Machine | None = None
    rounds: tuple[float, ...] = ()
    for attempt in range(_ATTEMPTS):
        ledger.tol = tol * 0.1**attempt
        solution = solve(problem, ledger, max_iter=left, start=start, **settings)
        left -= solution.certificate.n_iter
        rounds += solution.rounds[1 if rounds else 0 :]  # a later attempt starts where the last one ended
        best = solution.machine if best is None or solution.machine.primal < best.primal else best
        duals = None if mapping.n_components else solution.duals
        expansion = None if duals is None else _on_support_rows(problem, duals, solution)
        sparse_enough = expansion is not None and expansion.primal - ledger.dual <= tol * abs(expansion.primal)
        if sparse_enough or duals is None or not ledger.done or left <= 0:
            break
        start = WarmStart(duals, solution.machine.b, solution.scales)
    if expansion is None or not sparse_enough:
        assert best is not None  # there was an attempt
        expansion = _on_pivots(problem, best, mapping)
    certificate = replace(solution.certificate, n_iter=max_iter - left).of_primal(expansion.primal, tol)
    return solution._replace(certificate=certificate, rounds=rounds), expansion


def _on_support_rows(problem: Problem, duals: SparseDuals, solution: Solution) -> Expansion:
    support, A = problem.signed_duals(duals)
    if solution.scales is not None:
        A *= solution.scales
    mixing, b = problem.penalty.mixing(solution.machine.W), solution.machine.b
    A = A if mixing is None else A @ mixing
    W = np.asarray(problem.X[support].T @ A, dtype=np.float64)
    return Expansion(support, A, b, problem.penalty_value(W, b), problem.primal(W, b))


def _on_pivots(problem: Problem, machine: Machine, mapping: KernelMap) -> Expansion:
    order = np.argsort(mapping.pivots_)
    A = np.asarray(mapping.coefficients(machine.W), dtype=np.float64)[order]
    return Expansion(mapping.pivots_[order], A, machine.b, problem.penalty_value(machine.W, machine.b), machine.primal)
