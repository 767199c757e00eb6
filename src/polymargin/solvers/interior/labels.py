"""Interior point for One versus None: Mehrotra's predictor-corrector on the system of `LabelSystem`.

    min  R(W) + R_b(b) + sum_p u_p xi_p    subject to   g_p = t_p s_p + xi_p - 1 >= 0,  xi_p >= 0

with multipliers a_p of the first and ``e_p = u_p - a_p`` of the second constraint. Slacks and multipliers are eliminated
pair by pair: ``da = h (rho - t ds)``, ``h = 1 / (g/a + xi/e)``. Every iterate is certified by F and the bound of its
repaired duals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.label_problem import LabelProblem
from polymargin.solvers.interior.label_system import LabelSystem
from polymargin.solvers.types import Machine, Solution, SparseDuals

Array = NDArray[np.float64]

_TO_BOUNDARY = 0.995
_PATIENCE = 5  # steps without a better gap before rounding is blamed


class _Iterate(NamedTuple):
    theta: Array
    a: Array
    e: Array
    g: Array
    xi: Array

    def complementarity(self) -> float:
        return float(self.a @ self.g + self.e @ self.xi) / (2 * len(self.a))


def label_interior(problem: LabelProblem, ledger: Ledger, *, max_iter: int, so_far: Solution) -> Solution:
    """Goes on from another solver's solution: its machine stays if this finds none better."""
    system = LabelSystem(problem)
    signs, cost = problem.y.signs, problem.cost
    scores = np.zeros(len(cost))
    room = np.maximum(1.0 - signs * scores, 0.0)
    at = _Iterate(np.zeros((system.order, system.c)), 0.5 * cost, 0.5 * cost, np.ones_like(cost), room + 1.0)
    best, duals, before = so_far.machine, so_far.duals, so_far.certificate.n_iter
    n_iter, smallest, waited = 0, np.inf, 0
    ledger.at_hand = lambda: best
    while n_iter < max_iter and waited < _PATIENCE:
        step = _step(system, at, signs, cost)
        if step is None:
            break
        at = step
        n_iter += 1
        W, b = problem.feasible(*system.machine(at.theta))
        primal, a = problem.primal(W, b), problem.repaired(at.a)
        ledger.add(primal, problem.bound(a, primal), before + n_iter)
        if primal < best.primal:
            best = Machine(W, b, primal)
        duals = SparseDuals(problem.y.starts, problem.y.labels, a)
        if ledger.done:
            break
        gap = at.complementarity()
        waited = 0 if gap < 0.9 * smallest else waited + 1
        smallest = min(smallest, gap)
    status = "max_iter" if n_iter >= max_iter else "stalled"
    return Solution(best, duals, ledger.close(before + n_iter, status))


def _step(system: LabelSystem, at: _Iterate, signs: Array, cost: Array) -> _Iterate | None:
    """One predictor-corrector step; None if rounding makes it impossible."""
    h = 1.0 / (at.g / at.a + at.xi / at.e)
    if not np.isfinite(h).all() or not system.factorise(h):
        return None
    scores = system.scores(at.theta)
    infeasible = signs * scores + at.xi - 1.0 - at.g

    def direction(target_a: Array, target_e: Array) -> _Iterate:
        """Newton towards ``a g = target_a``, ``e xi = target_e``."""
        shift = target_e / at.e - at.xi
        rho = target_a / at.a - at.g - shift - infeasible
        theta = system.solve(system.sums(signs * (at.a + h * rho) + h * scores))
        da = h * (rho - signs * (system.scores(theta) - scores))
        dxi = shift + at.xi / at.e * da
        dg = target_a / at.a - at.g - at.g / at.a * da
        return _Iterate(theta - at.theta, da, -da, dg, dxi)

    zero = np.zeros_like(cost)
    affine = direction(zero, zero)
    t = _longest(at, affine)
    mu = at.complementarity()
    after = _moved(at, affine, t).complementarity()
    target = mu * (after / mu) ** 3
    move = direction(target - affine.a * affine.g, target - affine.e * affine.xi)
    if not all(np.isfinite(part).all() for part in move):
        return None
    t = min(1.0, _TO_BOUNDARY * _longest(at, move))
    return _moved(at, move, t) if t > 1e-12 else None


def _longest(at: _Iterate, move: _Iterate) -> float:
    """The longest step in [0, 1] that keeps slacks and multipliers non-negative."""
    t = 1.0 / _TO_BOUNDARY
    for value, change in zip(at[1:], move[1:], strict=True):
        falling = change < 0.0
        if falling.any():
            t = min(t, float((value[falling] / -change[falling]).min()))
    return t


def _moved(at: _Iterate, move: _Iterate, t: float) -> _Iterate:
    return _Iterate(*(value + t * change for value, change in zip(at, move, strict=True)))
