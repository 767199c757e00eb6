"""Concave-convex rounds for the multi-class optimal margin distribution machine.

    F(W, b) = 1/2 |W|^2 + sum_i kappa_i ([1 - theta - gamma_i]_+^2 + mu [gamma_i - 1 - theta]_+^2)

with ``kappa_i = u_i / (1 - theta)^2`` and the margins ``gamma_i = s_y - max_{l != y} s_l``. The second term is not convex. A
round replaces it, at the machine W_t:

- "cccp": by ``[s_y - s_r - 1 - theta]_+^2`` with the rival ``r_i = argmax_{l != y} s_l`` of W_t. As ``s_r <= max_l s_l``,
  the convex function Q_t lies above F everywhere and meets it at W_t: whatever lowers Q_t below F(W_t) lowers F.
- "paper": by ``[s_y - M_i - 1 - theta]_+^2`` with the number ``M_i = max_{l != y} s_l`` of W_t (Zhang & Zhou 2017,
  Algorithm 1). That is neither above F nor a descent method: w_r does not feel the constraint.

Each round is one convex problem for the native loop (``ascent/margin_step.py``), started from the last duals; on data with
few features Newton steps end it, and where they crawl too interior points take over (``rival_steps.py``). Its dual value
D_t bounds Q_t from below, so ``F(W_t) - D_t`` bounds what a round can gain: "cccp" stops once that is below
``tol * F(W_t)`` (``rival_rounds.py``).

With two classes there is one rival only: Q_t is F, which is convex, and the bound is one of its optimum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polymargin.losses import CrammerSingerHinge
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.margin_step import Ascent, Settings, solve_step
from polymargin.solvers.ascent.row_ascent import dual_ascent
from polymargin.solvers.models.descent import descend
from polymargin.solvers.models.rivals.restarts import best_of
from polymargin.solvers.models.rivals.rounds import (
    INNER,
    START,
    BestMachine,
    RivalModels,
    Steps,
    short_rounds,
    without_vectors,
)
from polymargin.solvers.models.rivals.steps import InteriorRounds, suits
from polymargin.solvers.types import Machine, Solution, Start

_START_EPOCHS = 100  # that each of the two convex machines may take that are tried as starts
_ROUGH_START = 0.2  # relative gap where the first rounds are short: they lead far away from any start
_PAPER_ACCURACY = 0.3  # relative gap of a round of the paper, in tolerances


def concave_convex(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    relaxation: str = "cccp",
    n_starts: int = 1,
) -> Solution:
    """Descends from `start`, or from the better of two convex machines, until a round can gain no more than ``ledger.tol``.

    With `n_starts` above 1 also from others (`restarts.py`), each with `max_iter` of its own; two classes have one minimum.

    For "cccp" the machine is the best one seen, shortened if W = 0 is better, and the certificate holds its F and the bound
    D_t of the last convex function Q_t. For "paper" it is the last one, and the bound is that of F without its upper part,
    as these rounds bound nothing. ``Solution.rounds`` is F after each round. "paper" must not have a free intercept: one
    constant added to all offsets would meet its upper constraints.
    """
    settings = Settings(max_iter * problem.n_rows, seed, n_threads)
    if relaxation == "paper":
        return paper_rounds(problem, Ascent(problem, settings, start, frozen=True), ledger, max_iter)
    first = _descend(problem, settings, ledger, max_iter, start)
    if n_starts == 1 or problem.n_classes == 2:
        return first

    def descend_from(other: Problem, noted: Ledger, begin: Start | None) -> Solution:
        return _descend(other, settings, noted, max_iter, begin)

    return best_of(problem, ledger, first, n_starts, seed, descend_from)


def _descend(problem: Problem, settings: Settings, ledger: Ledger, max_iter: int, start: Start | None) -> Solution:
    steps = best_start(problem, settings, ledger.tol) if start is None else Ascent(problem, settings, start)
    seen = steps.look()
    best = BestMachine(problem, steps, seen.stated)
    ledger.at_hand = best.at_hand
    if isinstance(steps, Ascent) and steps.prefers_short_rounds and steps.unspent > 0:
        steps = short_rounds(problem, settings, steps, seen, ledger, best)
        if best.settled(ledger):
            return best.close(ledger, steps.n_iter, max_iter, "max_iter")
    models = RivalModels(problem, steps, ledger, best)
    status = descend(models)
    return best.close(ledger, models.steps.n_iter, max_iter, status)


def best_start(problem: Problem, settings: Settings, tol: float) -> Steps:
    """The better of the optima of the squared-hinge and the hinge machine of Crammer and Singer, both roughly solved.

    Neither always leads to the better minimum, and both are cheap. Short rounds start at the squared hinge.
    """
    squared = Ascent(problem, settings)
    squared.start_phase(_START_EPOCHS)
    squared_value = solve_step(squared, _ROUGH_START if squared.prefers_short_rounds else START).stated
    if squared.crawls and suits(problem) and not squared.prefers_short_rounds:
        rounds = InteriorRounds(problem, INNER * tol, squared)
        rounds.start_at_hinges(START)
        return rounds
    epochs = min(squared.unspent // problem.n_rows, _START_EPOCHS)
    if squared.prefers_short_rounds or epochs < 1:
        return squared
    hinge_machine = replace(problem, loss=CrammerSingerHinge())
    ledger = Ledger(START, rounding=hinge_machine.rounding_at)
    found = dual_ascent(hinge_machine, ledger, max_iter=epochs, seed=settings.seed, n_threads=settings.n_threads)
    assert found.duals is not None  # dual ascent has them
    hinge = Ascent(problem, settings, Start(found.duals, found.machine.b))
    spent = squared.visits + found.certificate.n_iter * problem.n_rows
    start = hinge if hinge.look().stated < squared_value else squared
    start.spent = spent - start.loop.visits
    return start


# -- the paper's own iteration ----------------------------------------------------------------------------------------


def paper_rounds(problem: Problem, ascent: Ascent, ledger: Ledger, max_iter: int) -> Solution:
    """The iteration of Zhang & Zhou (2017) until it stands still: returns the last machine, which need not be the best one.

    It stands still when a round that was solved to the tolerance changes neither F nor W by more than that. A round that
    `max_iter` cuts short does not count, unless it is the first. Where it stands still above W = 0 it is "stalled": that is
    no machine to be content with.
    """
    seen = ascent.look()
    machine, duals = ascent.machine(seen.stated), ascent.duals()
    rounds, change, status = [seen.stated], np.inf, "max_iter"
    ledger.at_hand = lambda: machine
    while ascent.unspent > 0 and status != "stationary":
        ascent.relinearise()
        seen = solve_step(ascent, _PAPER_ACCURACY * ledger.tol)
        solved = seen.relaxed - seen.dual <= ledger.tol * seen.relaxed
        if solved or len(rounds) == 1:
            before, machine, duals = machine, ascent.machine(seen.stated), ascent.duals()
            rounds.append(seen.stated)
            change = _relative_change(before, machine)
            status = "stationary" if solved and change <= ledger.tol else status
    if status == "stationary" and machine.primal - without_vectors(problem).primal > ledger.tol * machine.primal:
        status = "stalled"
    ledger.add(machine.primal, ascent.bound_without_upper_part(), ascent.n_iter)
    certificate = replace(ledger.close(min(max_iter, ascent.n_iter)), status=status)
    return Solution(machine, duals, certificate, rounds=tuple(rounds), last_change=change)


def _relative_change(before: Machine, now: Machine) -> float:
    """Of F or of W, whichever is larger."""
    of_value = abs(now.primal - before.primal) / max(now.primal, 1e-300)
    return max(of_value, float(np.linalg.norm(now.W - before.W)) / max(float(np.linalg.norm(now.W)), 1e-300))
