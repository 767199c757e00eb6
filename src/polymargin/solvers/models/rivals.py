"""Concave-convex rounds for the multi-class optimal margin distribution machine.

    F(W, b) = 1/2 |W|^2 + sum_i kappa_i ([1 - theta - gamma_i]_+^2 + mu [gamma_i - 1 - theta]_+^2)

with ``kappa_i = u_i / (1 - theta)^2`` and the margins ``gamma_i = s_y - max_{l != y} s_l``. The second term is not convex. A
round replaces it, at the machine W_t:

- "cccp": by ``[s_y - s_r - 1 - theta]_+^2`` with the rival ``r_i = argmax_{l != y} s_l`` of W_t. As ``s_r <= max_l s_l``,
  the convex function Q_t lies above F everywhere and meets it at W_t: whatever lowers Q_t below F(W_t) lowers F.
- "paper": by ``[s_y - M_i - 1 - theta]_+^2`` with the number ``M_i = max_{l != y} s_l`` of W_t (Zhang & Zhou 2017,
  Algorithm 1). That is neither above F nor a descent method: w_r does not feel the constraint.

Each round is one convex problem for the native loop (``band_ascent.py``), started from the last duals; on data with few
features Newton steps end it, and where they crawl too interior points take over (``band_interior.py``). Its dual value D_t
bounds Q_t from below, so ``F(W_t) - D_t`` bounds what a round can gain: "cccp" stops once that is below ``tol * F(W_t)``
(``band_rounds.py``).

With two classes there is one rival only: Q_t is F, which is convex, and the bound is one of its optimum.
"""

from __future__ import annotations

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.ascent.margin_step import Ascent, Settings
from polymargin.solvers.models import rival_steps as band_interior
from polymargin.solvers.models.paper_rounds import paper_rounds
from polymargin.solvers.models.rival_rounds import INNER, Descent, descending_rounds, restless_rounds
from polymargin.solvers.models.rival_starts import Steps, best_start, pace
from polymargin.solvers.models.rival_steps import InteriorSteps
from polymargin.solvers.types import Solution, Start


def concave_convex(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    relaxation: str = "cccp",
) -> Solution:
    """Descends from `start`, or from the better of two convex machines, until a round can gain no more than ``ledger.tol``.

    For "cccp" the machine is the best one seen, and the certificate holds its F and the bound D_t of the last convex
    function Q_t. For "paper" it is the last one, and the bound is that of F without its upper part, as these rounds bound
    nothing. ``Solution.rounds`` is F after each round. "paper" must not have a free intercept: one constant added to all
    offsets would meet its upper constraints.
    """
    settings = Settings(max_iter * problem.n_rows, seed, n_threads)
    if relaxation == "paper":
        return paper_rounds(Ascent(problem, settings, start, frozen=True), ledger, max_iter)
    return _descend(problem, settings, ledger, max_iter, start)


def _descend(problem: Problem, settings: Settings, ledger: Ledger, max_iter: int, start: Start | None) -> Solution:
    interior = InteriorSteps(problem, INNER * ledger.tol) if band_interior.suits(problem) else None
    steps: Steps = best_start(problem, settings, interior) if start is None else Ascent(problem, settings, start)
    seen = steps.look()
    descent = Descent(steps, seen.stated, convex=problem.n_classes == 2)
    ledger.at_hand = lambda: descent.machine
    if isinstance(steps, Ascent) and steps.restless and steps.left > 0:
        steps = restless_rounds(problem, settings, steps, seen, ledger, descent)
        if descent.settled(ledger):
            return descent.close(ledger, steps.n_iter, max_iter, "max_iter")
    steps, status = descending_rounds(steps, interior, ledger, descent, pace(problem))
    return descent.close(ledger, steps.n_iter, max_iter, status)
