"""Kernel machines of many rows, most of which need no dual: a feature map of the active rows alone.

No loss is negative. So what bounds the objective of some rows bounds that of all, and the machine of some rows is that of
all as soon as the others lose next to nothing: ``F of all rows - D of some`` is a gap as any other. Where F is not convex, a
machine that no step improves on some rows is improved by none on all. Repeat:

1. the machine of the active rows, by their feature map and the methods of the linear machines (``expansion.py``);
2. its scores of all rows, by the kernel;
3. rows with a dual stay active, and the others with the largest losses become so.

A map costs the cube of its rows, or less as long as rounds are coarse: then it may leave a part of the kernel out. Losses of
margins to rivals start with the duals of the classical machine, whose loop needs no map (``solvers/ascent/kernels``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.estimators.kernels.expansion import Expansion, combination, expanded_scores, solve_and_expand
from polymargin.features.kernel_map import KernelMap
from polymargin.penalties import SquaredNorm
from polymargin.problems.certificate import Certificate, Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import Machine, Solution, SparseDuals, Start
from polymargin.solvers.ascent.loops import is_plain

_FIRST = 512  # active rows of the first round, if nothing is known
_JOIN = 256  # rows that become active in a round, if so many lose, and at most as many as there are, or these
_MOST = 0.6  # of the rows: beyond it all are active
_CLASSICAL = 0.03  # relative gap of the classical machine that a fit starts from
_COARSEST = 0.05  # relative gap of a round; later ones a part of the last gap
_PART = 0.1
_SHARE = 0.5  # of the tolerance: that of the last rounds, as soon as few of the other rows lose
_FEW = 0.1  # of the active ones
_LEFT_OUT = 0.01  # of the kernel, in units of a coarse round's gap
_ROUNDS = 100  # far more than it ever takes

Array = NDArray[np.float64]
Kept = NDArray[np.bool_]


class _Round(NamedTuple):
    """A machine of the active rows, its expansion on rows of all with R and F of all, scores and losses of all rows."""

    solution: Solution
    made: Expansion
    scores: Array  # without offsets
    losses: Array
    active: Kept

    def interrupted(self) -> _Round:
        certificate = replace(self.solution.certificate, status="interrupted")
        return self._replace(solution=self.solution._replace(certificate=certificate))

    @property
    def others_lose(self) -> NDArray[np.intp]:
        return np.flatnonzero(~self.active & (self.losses > 0.0))


def solve_on_active_rows(
    solve: Callable[..., Solution],
    problem: Any,
    ledger: Ledger,
    mapping: KernelMap,
    rows: Any,
    *,
    tol: float,
    max_iter: int,
    start: Start | None,
    seed: int,
    **settings: Any,
) -> tuple[Solution, Expansion]:
    """Solves with the kernel of `mapping`, whose gamma is known, where ``problem.X`` holds the rows themselves."""
    ledger.ask(tol)
    ledger.stage("active rows", "many rows, a kernel of high rank, and a machine without a loop for kernels")
    spent, inner = 0.0, _COARSEST
    if start is None:
        start, spent = _classical_start(problem, ledger, mapping, max_iter, seed)
    order = np.random.default_rng(seed).permutation(problem.n_rows)
    anchors = problem.one_of_each(order)
    active = _marked(problem.n_rows, anchors, order[:_FIRST] if start is None else problem.support_rows(start.duals))
    now: _Round | None = None
    best: _Round | None = None
    for _ in range(_ROUNDS):
        if active.mean() > _MOST:
            active[:] = True
        left = max(1, int((max_iter - spent) * problem.n_rows / active.sum()))
        limits = {"inner": inner, "tol": tol, "max_iter": left, "seed": seed}
        try:
            now = _solved(solve, problem, ledger, mapping, rows, active, start, now, **limits, **settings)
        except KeyboardInterrupt:
            if best is None or not ledger.keeps_interrupted:
                raise
            now = best = best.interrupted()
            break
        spent += now.solution.certificate.n_iter * active.mean()
        if not problem.is_convex:
            ledger.start_anew(float("inf"))  # a bound on the last convex round
        ledger.add(now.made.primal, now.solution.certificate.dual, int(np.ceil(spent)))
        best = now if best is None or now.made.primal <= best.made.primal else best
        ends = inner <= _SHARE * tol and not len(now.others_lose)  # another round would do the same
        if ledger.done or ends or spent >= max_iter or now.solution.certificate.status == "interrupted":
            break
        start = _start_of(problem, now)
        few = len(now.others_lose) <= _FEW * active.sum()
        inner = _SHARE * tol if few else float(np.clip(_PART * ledger.rel_gap, _SHARE * tol, _COARSEST))
        active = _next(problem, now, anchors)
    assert now is not None and best is not None
    best = now if now.solution.certificate.converged else best
    return _end(problem, ledger, best, tol, min(max_iter, int(np.ceil(spent))))


def _solved(
    solve: Callable[..., Solution],
    problem: Any,
    ledger: Ledger,
    mapping: KernelMap,
    rows: Any,
    active: Kept,
    start: Start | None,
    last: _Round | None,
    inner: float,
    tol: float,
    **settings: Any,
) -> _Round:
    """One round, with a map that leaves out next to nothing if it may be the last one."""
    part = problem.part(active)
    coarse = inner > _SHARE * tol
    own = replace(mapping, gamma=mapping.gamma_, trace_tol=_LEFT_OUT * inner if coarse else None)
    mapped = replace(part, X=own.fit_transform(part.X))
    small = Ledger(inner, rounding=mapped.rounding_at)
    small.keeps_interrupted = ledger.keeps_interrupted
    begin = None if start is None else _on_map(mapped, start, active, last)
    found, made = solve_and_expand(solve, mapped, small, own, part.X, tol=inner, start=begin, attempts=1, **settings)
    made = made._replace(support=np.flatnonzero(active)[made.support])
    scores = expanded_scores(mapping, rows, made)
    losses = problem.losses(scores + made.b)
    ledger.say(f"{part.n_rows} active rows of {problem.n_rows}, {int((losses[~active] > 0.0).sum())} others lose")
    return _Round(found, made._replace(primal=made.penalty + float(losses.sum())), scores, losses, active)


def _on_map(mapped: Any, start: Start, active: Kept, last: _Round | None) -> Start:
    """The duals of the active rows, and the last machine or what they make: methods start from the one or the other."""
    duals = start.duals.part(active)
    if last is None:
        support, A = mapped.signed_duals(duals)
    else:
        still = active[last.made.support]
        support, A = (np.cumsum(active) - 1)[last.made.support[still]], last.made.A[still]
    return start._replace(duals=duals, W=combination(mapped.X, support, A))


def _start_of(problem: Any, now: _Round) -> Start | None:
    """That of the next round."""
    found = now.solution
    if found.duals is None:
        return None
    return Start(problem.spread(found.duals, now.active), found.start_b, found.scales)


def _next(problem: Any, now: _Round, anchors: NDArray[np.intp]) -> Kept:
    """Rows with a dual, one of each class, and the worst of the others."""
    duals = now.solution.duals
    kept = now.active.copy()
    if duals is not None:
        kept = _marked(len(kept), anchors, np.flatnonzero(now.active)[problem.part(now.active).support_rows(duals)])
    others = np.flatnonzero(~kept & (now.losses > 0.0))
    joining = max(_JOIN, int(kept.sum()))
    if len(others) > joining:
        others = others[np.argpartition(-now.losses[others], joining)[:joining]]
    kept[others] = True
    return kept


def _marked(n: int, *rows: NDArray[np.intp]) -> Kept:
    kept = np.zeros(n, dtype=bool)
    for some in rows:
        kept[some] = True
    return kept


def _classical_start(
    problem: Any, ledger: Ledger, mapping: KernelMap, max_iter: int, seed: int
) -> tuple[Start | None, float]:
    """Duals of the same loss with ``1/2 |W|^2``, which are feasible with any penalty; and the epochs they took."""
    from polymargin.solvers.ascent.kernels.dual import kernel_dual

    if not (isinstance(problem, Problem) and is_plain(problem.loss)):
        return None, 0.0
    classical = replace(problem, penalty=SquaredNorm())
    coarse = Ledger(_CLASSICAL, rounding=classical.rounding_at)
    coarse.keeps_interrupted = ledger.keeps_interrupted
    found = kernel_dual(classical, coarse, mapping, max_iter=max_iter, seed=seed)
    if found.certificate.status == "interrupted":
        return Start(found.duals, found.b), float(max_iter)  # one short round makes it a machine
    return Start(found.duals, found.b), float(found.certificate.n_iter)


def _end(problem: Any, ledger: Ledger, best: _Round, tol: float, n_iter: int) -> tuple[Solution, Expansion]:
    """The round's solution as one of all rows. Class vectors and rows are in coordinates of the class vectors' span."""
    found, made = best.solution, best.made
    closed = ledger.close(n_iter, found.certificate.status)
    certificate: Certificate = replace(
        found.certificate, n_iter=n_iter, seconds=closed.seconds, history=closed.history, stages=closed.stages
    ).of_primal(made.primal, tol, lambda: ledger.rounding(made.primal))
    duals: SparseDuals | None = None if found.duals is None else problem.spread(found.duals, best.active)
    W = np.linalg.qr(found.machine.W, mode="r")
    made = made._replace(coordinates=best.scores @ np.linalg.pinv(W))
    machine = Machine(W, found.machine.b, made.primal)
    return found._replace(machine=machine, duals=duals, certificate=certificate, notes=None), made
