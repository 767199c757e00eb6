"""From a machine in feature space back to the rows: f_k(x) = sum_i A_ik k(x_i, x) + b_k over few support rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.estimators.fitting.returned import QUICK, negligible
from polymargin.features.kernel_map import KernelMap
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import Machine, Solution, SparseDuals, Start

if TYPE_CHECKING:
    from polymargin.solvers.ascent.kernels.dual import KernelSolution

_ATTEMPTS = 4  # at ever tighter tolerances
_FEWEST_ROWS = 1000  # below, the map is quick and the solvers behind it reach any tolerance
_LOW_RANK = 1.0 / 16.0  # rank of a map, relative to its rows, up to which it beats the kernel dual
_MOST_DUALS = 50_000_000  # the kernel dual keeps n x c arrays
_NOISE = 256.0 * float(np.finfo(np.float64).eps)  # what sums of kernel values may lose
_COPY_ENTRIES = 1 << 20  # features copied, or kernel values computed, at a time: in between Ctrl-C is heard

Array = NDArray[np.float64]


class Expansion(NamedTuple):
    """Coefficients ``A (n_support, c)`` on the rows `support`, offsets, and R and F of the machine they make.

    `moved` is how far R or F by the kernel is from that by the features, in which the bound was proven. `coordinates` are
    those of all rows, in which the solution's class vectors are, if there is no map of all rows.
    """

    support: NDArray[np.intp]
    A: Array
    b: Array
    penalty: float
    primal: float
    moved: float = 0.0
    coordinates: Array | None = None


def features_or_none(mapping: KernelMap, rows: Any, weight: Array, n_classes: int) -> NDArray[Any] | None:
    """Rows of a feature map, or None where methods without a map of all rows do better: many rows, a kernel of high rank.

    A kernel that may be indefinite goes through the map, which finds that out.
    """
    n = rows.shape[0]
    unsuited = mapping.n_components or mapping.may_be_indefinite or n < _FEWEST_ROWS or n * n_classes > _MOST_DUALS
    if unsuited:
        return mapping.fit_transform(rows, weight)
    highest = int(_LOW_RANK * n)
    return None if mapping.some_promise_more(rows, weight, highest) else mapping.fit_low_rank(rows, weight, highest)


def solve_by_kernel_dual(
    solve: Callable[..., Solution],
    problem: Problem,
    ledger: Ledger,
    mapping: KernelMap,
    rows: Any,
    *,
    tol: float,
    representative: Callable[[Array], Array],
    max_iter: int,
    start: Start | None,
    seed: int,
    **settings: Any,
) -> tuple[Solution, Expansion]:
    """Solves on the kernel itself, where ``problem.X`` holds the rows themselves.

    What rounding or bad conditioning keeps from the tolerance (very large C, kernels far from a unit diagonal) is left to
    the map and `solve`, if memory has room for the map; where the metric between the classes moves, to the active rows.
    """
    from polymargin.solvers.ascent.kernels.dual import kernel_dual

    ledger.ask(tol)  # nothing is rounded afterwards
    ledger.stage("kernel dual", "many rows, and a kernel of high rank")
    patience = -(-max_iter // 2)
    found = kernel_dual(problem, ledger, mapping, max_iter=patience, seed=seed, start=start)
    left = max_iter - found.certificate.n_iter
    if found.certificate.status not in ("optimal", "interrupted") and left > 0:
        with suppress(MemoryError):
            settings |= {"tol": tol, "representative": representative, "max_iter": left, "seed": seed}
            if not problem.penalty.identity_hessian:
                return _on_active_rows(solve, problem, ledger, mapping, rows, found, **settings)
            mapping = replace(mapping, gamma=mapping.gamma_)  # as the weights made it
            mapped = replace(problem, X=mapping.fit_transform(problem.X))
            settings["start"] = Start(found.duals, found.b)
            ledger.ask(tol, anew=True)  # the factor differs from K by rounding: it proves its own values
            solution, expansion = solve_and_expand(solve, mapped, ledger, mapping, rows, **settings)
            return _after(solution, max_iter - left), expansion
    return _of_kernel(found, representative)


def _on_active_rows(
    solve: Callable[..., Solution],
    problem: Problem,
    ledger: Ledger,
    mapping: KernelMap,
    rows: Any,
    found: KernelSolution,
    **settings: Any,
) -> tuple[Solution, Expansion]:
    """What the kernel dual has left open; the better of the two machines, and of the two bounds."""
    from polymargin.estimators.kernels.active_rows import solve_on_active_rows

    start = Start(found.duals, found.b, found.scales)
    solution, expansion = solve_on_active_rows(solve, problem, ledger, mapping, rows, start=start, **settings)
    solution = _after(solution, found.certificate.n_iter)
    primal = min(solution.certificate.primal, found.primal)
    certificate = replace(solution.certificate, dual=max(solution.certificate.dual, found.certificate.dual))
    certificate = certificate.of_primal(primal, settings["tol"], lambda: problem.rounding_at(primal))
    if solution.certificate.primal <= found.primal:
        return solution._replace(certificate=certificate), expansion
    return _of_kernel(found._replace(certificate=certificate), settings["representative"])


def _of_kernel(found: KernelSolution, representative: Callable[[Array], Array]) -> tuple[Solution, Expansion]:
    """What the kernel dual has found."""
    expansion = Expansion(found.support, found.A, representative(found.b), found.penalty, found.primal)
    machine = Machine(found.W, found.b, found.primal)
    return Solution(machine, found.duals, found.certificate, scales=found.scales), expansion


def _after(solution: Solution, n_iter: int) -> Solution:
    """With the iterations of what went before."""
    certificate = replace(solution.certificate, n_iter=solution.certificate.n_iter + n_iter)
    return solution._replace(certificate=certificate)


def solve_and_expand(
    solve: Callable[..., Solution],
    problem: Problem,
    ledger: Ledger,
    mapping: KernelMap,
    rows: Any,
    *,
    tol: float,
    representative: Callable[[Array], Array],
    max_iter: int,
    start: Start | None,
    attempts: int = _ATTEMPTS,
    **settings: Any,
) -> tuple[Solution, Expansion]:
    """Solves in feature space and expands the machine in as few rows as keep the promise of `tol`.

    The signed duals have few non-zero rows, but make the very machine of the solution only in the limit: if theirs misses
    the tolerance, the solver goes on to a tighter one. In the end, with a Nystroem map, which knows only its own landmarks,
    with the definite part of a kernel, and from a solver without such duals, W is expanded on the pivots of the map. The
    certificate is that of the expansion.
    """
    left = max_iter
    best: Machine | None = None
    rounds: tuple[float, ...] = ()
    for attempt in range(attempts):
        ledger.ask(tol * 0.1**attempt, bounds_anew=True)  # what earlier duals proved says nothing about those that come now
        solution = solve(problem, ledger, max_iter=left, start=start, **settings)
        left -= solution.certificate.n_iter
        rounds += solution.rounds[1 if rounds else 0 :]  # a later attempt starts where the last one ended
        best = solution.machine if best is None or solution.machine.primal < best.primal else best
        duals = None if mapping.n_components or mapping.cut_ else solution.duals  # landmarks, a definite part: no rows else
        b = representative(solution.machine.b)
        expansion = None if duals is None else _on_support_rows(problem, duals, solution, b, mapping, rows, tol)
        sparse_enough = expansion is not None and bool(
            np.isfinite(expansion.primal)
            and expansion.primal - (ledger.dual - expansion.moved) <= tol * abs(expansion.primal)
        )
        if sparse_enough or duals is None or not ledger.done or left <= 0:
            break
        start = Start(duals, solution.start_b, solution.scales)
    if expansion is None or not sparse_enough:
        assert best is not None  # there was an attempt
        on_pivots = _on_pivots(problem, best.W, representative(best.b), mapping, rows, tol)
        made = [on_pivots] if expansion is None else [on_pivots, expansion]
        moved, expansion = max(one.moved for one in made), min(made, key=_finite_primal)
    else:
        moved = expansion.moved
    # R* of the duals grows by as much as R of their machine, if R is quadratic, and by about as much if not
    bound = solution.certificate.dual - moved
    certificate = replace(solution.certificate, n_iter=max_iter - left, dual=bound)
    certificate = certificate.of_primal(expansion.primal, tol, lambda: _hidden(problem, expansion, mapping))
    return solution._replace(certificate=certificate, rounds=rounds), expansion


def _finite_primal(made: Expansion) -> float:
    return made.primal if np.isfinite(made.primal) else np.inf


def _on_support_rows(
    problem: Problem, duals: SparseDuals, solution: Solution, b: Array, mapping: KernelMap, rows: Any, tol: float
) -> Expansion:
    support, A = coefficients(problem, duals, solution.scales, solution.machine.W)
    W = combination(problem.X, support, A)
    made = Expansion(support, A, b, problem.penalty_value(W, b), problem.primal(W, b))
    return _on_the_kernel(problem, made, W, mapping, rows, tol)


def coefficients(problem: Any, duals: SparseDuals, scales: Array | None, W: Array) -> tuple[NDArray[np.intp], Array]:
    """Rows with duals and the coefficients on them that make the machine W, ``W = X[rows]' A``, to the tolerance."""
    support, A = problem.signed_duals(duals)
    if scales is not None:
        A *= scales
    mixing = problem.penalty.mixing(W)
    A = A if mixing is None else A @ mixing
    if problem.penalty.fixes_sum:
        A -= A.mean(axis=1, keepdims=True)
    return support, A


def combination(X: Any, support: NDArray[np.intp], A: Array) -> Array:
    """``X[support]' A``, without a copy of all these rows."""
    W = np.zeros((X.shape[1], A.shape[1]))
    step = max(1, _COPY_ENTRIES // max(1, X.shape[1]))
    for start in range(0, len(support), step):
        part = slice(start, start + step)
        W += X[support[part]].T @ A[part]
    return W


def _on_pivots(problem: Problem, W: Array, b: Array, mapping: KernelMap, rows: Any, tol: float) -> Expansion:
    order = np.argsort(mapping.pivots_)
    if problem.penalty.fixes_sum:
        W = W - W.mean(axis=1, keepdims=True)
    A = np.asarray(mapping.coefficients(W), dtype=np.float64)[order]
    made = Expansion(mapping.pivots_[order], A, b, problem.penalty_value(W, b), problem.primal(W, b))
    return _on_the_kernel(problem, made, None, mapping, rows, tol)


def _on_the_kernel(
    problem: Problem, made: Expansion, W: Array | None, mapping: KernelMap, rows: Any, tol: float
) -> Expansion:
    """The expansion with R and F by the kernel instead of by its features, where that is quick or can matter.

    Features leave out the residual E = K - Phi Phi', and are rounded. R is invariant to rotation: class vectors W in feature
    space and ``A'EA`` beside it make the class vectors in the kernel's space. W is None on pivots, where E is 0.
    """
    work = problem.n_rows * len(made.support) * problem.n_classes
    if work > QUICK and _hidden(problem, made, mapping) <= negligible(tol, made.primal):
        return made
    S = expanded_scores(mapping, rows, made)
    penalty = made.penalty
    if W is not None:
        at_support = S[made.support]
        noise = _NOISE * float((np.abs(made.A) * np.abs(at_support)).sum(axis=0).max(initial=0.0))
        left_out = at_support - problem.X[made.support] @ W  # E A, before anything is summed
        beside, without = _roots(made.A.T @ left_out, noise)
        vectors = np.vstack([W, beside])
        if without.any():  # rounded features may be longer than the kernel says: then only their products are right
            vectors = _roots(vectors.T @ vectors - without.T @ without, 0.0)[0]
        penalty = problem.penalty_value(vectors, made.b)
    primal = problem.total_loss(S + made.b) + penalty
    moved = max(abs(primal - made.primal), abs(penalty - made.penalty))
    return made._replace(penalty=penalty, primal=primal, moved=moved if np.isfinite(moved) else 0.0)


def expanded_scores(mapping: KernelMap, rows: Any, made: Expansion) -> Array:
    """Scores of all rows without offsets, by the kernel itself."""
    S = np.empty((rows.shape[0], made.A.shape[1]))
    others = made.support if mapping.kernel == "precomputed" else rows[made.support]
    step = max(1, _COPY_ENTRIES // max(1, len(made.support)))
    for start in range(0, rows.shape[0], step):
        some = slice(start, start + step)
        S[some] = mapping.kernel_rows(rows[some], others) @ made.A
    return S


def _hidden(problem: Problem, made: Expansion, mapping: KernelMap) -> float:
    """What residual and rounding of the features may hide in F, in the scale of the coefficients."""
    error = mapping.largest_residual_ if not mapping.n_components else 0.0
    error += 16.0 * float(np.finfo(problem.X.dtype).eps) * mapping.largest_value_
    sizes = np.abs(made.A).sum(axis=0).max(initial=0.0)
    slope = 2.0 * (problem.n_classes - 1)
    return float(slope * problem.cost.sum() * sizes * error + sizes**2 * error)


def _roots(G: Array, noise: float) -> tuple[Array, Array]:
    """Matrices (c, c) with ``H'H - N'N = G`` for a symmetric G, up to noise; N is that of a kernel that is not definite."""
    values, vectors = np.linalg.eigh(0.5 * (G + G.T))
    values = np.where(np.abs(values) > noise, values, 0.0)
    beside, without = (np.sqrt(np.maximum(part, 0.0))[:, None] * vectors.T for part in (values, -values))
    return beside, without
