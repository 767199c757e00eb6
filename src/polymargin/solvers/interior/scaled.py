"""The end of small lp-norm fits: interior points for fixed class scales, and a fixed point of the class scales.

For scales beta the machine is a quadratic one (`quadratic.py`), which an interior point solves to rounding. The map from
beta to the scales of its solution (Eq. 14 of the paper) contracts, the slower the closer p is to 1; Anderson's extrapolation
of log beta makes a few steps of it. At p = 1 it does not contract: there `mixture.py` chooses the scales. Every machine and
every dual on the way is a bound of the lp-norm problem itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.penalties.block_norm import class_norms
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.bounds import Ray, balanced_duals, signed
from polymargin.solvers.interior.mixture import Found, Mixture
from polymargin.solvers.interior.quadratic import interior_point
from polymargin.solvers.progress import Anderson
from polymargin.solvers.types import Machine, Solution, sparse_duals

Array = NDArray[np.float64]

_MOST_STEPS = 60
_TIGHTER = 0.1  # what an interior point is asked for, in tolerances


def finish_with_scaled_interior_points(
    problem: Problem, ledger: Ledger, max_iter: int, so_far: Solution, exact_below: float
) -> Solution:
    """Ends a fit that dual ascent began; stops when the gap is closed, and for tolerances up to `exact_below` not before
    the scales stand still, too. At p = 1 they never do: there a mixture of duals says where to go on.
    """
    scaling = problem.penalty.class_scales
    assert scaling is not None and so_far.scales is not None
    extrapolate, mixture = Anderson(), Mixture() if np.isinf(scaling.dual_p) else None
    scales, best = so_far.scales, so_far
    settles = ledger.tol <= exact_below and mixture is None
    settled = 1e-3 * np.sqrt(ledger.tol)  # the gap is quadratic in the error of the scales; so is W not
    n_iter, last_residual = so_far.certificate.n_iter, np.inf
    left = max_iter
    for _ in range(_MOST_STEPS):
        result = interior_point(problem, tol=_TIGHTER * ledger.tol, max_iter=left, scales=scales)
        left -= max(1, result.n_iter)
        n_iter += max(1, result.n_iter)
        primal = problem.primal(result.W, result.b)
        found, ray = _feasible(problem, result.a)
        ledger.add(primal, ray.value, n_iter)
        solved, step = scales, scaling.log_step(scales, class_norms(result.W))
        if mixture is None:
            scales, residual = scaling.scales_at(extrapolate(np.log(scales), step)), float(np.abs(step).max())
        else:
            mixed, wanted = mixture.add(found, ledger.primal, ledger.tol)
            ledger.add(primal, _feasible(problem, mixed)[1].value, n_iter)
            scales, residual = scaling.normalised(wanted), np.inf
        if primal <= best.machine.primal or primal - ledger.dual <= ledger.tol * abs(primal):  # the last is the most exact
            best = Solution(Machine(result.W, result.b, primal), sparse_duals(ray.best * found.a), best.certificate, solved)
        rounding = ledger.done and last_residual < np.inf and 0.5 * last_residual <= residual < 1e-6
        if left <= 0 or (ledger.done and (residual <= settled or not settles)) or rounding:
            break
        last_residual = min(last_residual, residual)
    certificate = ledger.close(n_iter, "max_iter" if left <= 0 else "stalled")
    return best._replace(certificate=certificate.of_primal(best.machine.primal, ledger.tol))


def _feasible(problem: Problem, a: Array) -> tuple[Found, Ray]:
    """The duals, inside their domains, balanced if the intercept is free, and their multiples in the lp-norm dual."""
    y, cost = problem.y, problem.cost
    if problem.fit_intercept:
        a = balanced_duals(a, y)
    if not problem.loss.squared:  # then nothing bounds the duals
        room = problem.row_domains.room(a)
        a = room * a if room > 0.0 else problem.row_domains.repaired(a)  # a cone: no multiple of these lies in it
    roots = 0.5 * a.sum(axis=1) / np.sqrt(cost) if problem.loss.squared else np.zeros(len(cost))
    tau = signed(a, y)
    Z = np.asarray(problem.X.T @ tau, dtype=np.float64)
    if problem.fit_intercept and not sparse.issparse(problem.X):
        Z = (problem.X - problem.X.mean(axis=0, dtype=np.float64)).T @ tau
    linear = float((problem.loss.targets(problem.n_classes)[y] * a).sum())
    room = np.inf if problem.loss.squared else 1.0
    return Found(a, linear, Z, roots), Ray(linear, problem.penalty.conjugate(Z) + float(roots @ roots), room)
