"""The majorisation of the One versus None paper, for comparison (``solver="mm"``).

The hinge ``[h]_+ = (h + |h|) / 2`` is replaced by ``(h + sqrt(h^2 + eps^2)) / 2``, which is above it by at most eps/2, and
that by the parabola ``(h + z)^2 / (4 z) + eps^2 / (4 z)`` with ``z = sqrt(h^2 + eps^2)`` at the last iterate, which
touches it there. So the smooth objective falls with every step, and as eps only shrinks it goes on falling and stays above
F. One step is a weighted least-squares problem (`LabelSystem`), whose weights make duals ``a = u (1 + h/z) / 2`` for the
bound. The paper has eps = 0 and divides by z.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin.problems.certificate import Ledger
from polymargin.problems.labels import LabelProblem
from polymargin.solvers.cost_model import LARGEST_LABEL_BLOCKS, label_system_entries
from polymargin.solvers.interior.systems.labels import LabelSystem
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

Array = NDArray[np.float64]


def majorisation(
    problem: LabelProblem,
    ledger: Ledger,
    *,
    max_iter: int,
    start: Start | None = None,
    history: list[float] | None = None,
) -> Solution:
    """Majorise and minimise until ``ledger.tol`` is certified or `max_iter` steps are used up.

    `history` receives the smooth objective of every iterate: it never rises.
    """
    entries = label_system_entries(problem)
    if entries > LARGEST_LABEL_BLOCKS:
        raise ValueError(
            f"solver='mm' would hold {8e-9 * entries:.1f} GB of factorised blocks for {problem.n_classes} classes "
            f"and {problem.n_features} features; use solver='auto'."
        )
    system = LabelSystem(problem)
    signs, cost = problem.y.signs, problem.cost
    theta = np.zeros((system.order, system.c))
    if start is not None:
        W = problem.penalty.minimizer(problem.class_sums(start.duals.values))
        theta = system.theta(W, start.b)
    eps, best, n_iter, status = 1.0, None, 0, "max_iter"
    ledger.at_hand = lambda: best
    while True:
        W, b = problem.feasible(*system.machine(theta))
        h = 1.0 - signs * system.scores(theta)
        z = np.sqrt(h * h + eps * eps)
        primal, a = problem.primal(W, b), 0.5 * cost * (1.0 + h / z)
        ledger.add(primal, problem.bound(a, primal), n_iter)
        if best is None or primal < best.primal:
            best = Machine(W, b, primal)
        if history is not None:
            history.append(problem.penalty_value(W, b) + 0.5 * float(cost @ (h + z)))
        if ledger.done or n_iter >= max_iter:
            break
        # no finer than the gap that is left: the smooth objective is above F by up to eps/2 times the costs
        eps = min(eps, max(0.1 * ledger.gap / float(cost.sum()), 1e-3 * eps, 1e-12))
        z = np.sqrt(h * h + eps * eps)
        if not system.factorise(0.5 * cost / z):
            status = "stalled"
            break
        theta = system.solve(system.sums(0.5 * cost * signs * (1.0 + z) / z))
        n_iter += 1
    duals = SparseDuals(problem.y.starts, problem.y.labels, problem.repaired(a))
    return Solution(best, duals, ledger.close(max(1, n_iter), status))
