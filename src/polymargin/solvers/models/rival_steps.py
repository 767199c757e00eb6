"""The convex steps of the margin distribution machine by interior points, where everything else crawls.

    sum_i kappa_i ( t_i^2 + mu e_i^2 ),    t_i = max_l [1 - theta + s_l - s_y]_+,    e_i = [s_y - s_r - 1 - theta]_+

The first part is the squared Crammer-Singer block with ``1 - theta`` in place of 1. The second has one slack a row,
``h = beta / (2 kappa mu) - (s_y - s_r - 1 - theta)``, with the multiplier ``beta``: an edge between the classes y and r.
Off the own class the duals of both parts are signed: ``-tau_l = a_l``, less beta at class r. At the optimum
``a_r beta = 0``, and taking the same from both lowers no dual value, so that nothing is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.losses.margin_distribution import MarginDistributionLoss
from polymargin.problem import Problem
from polymargin.solvers.ascent.margin_step import Ascent, Seen
from polymargin.solvers.bounds import hidden_by_rounding
from polymargin.solvers.interior.blocks import Array, Labels, SquaredCrammerSinger
from polymargin.solvers.interior.central_path import InteriorPointResult, interior_point
from polymargin.solvers.plan import interior_points_fit
from polymargin.solvers.types import Machine, SparseDuals, sparse_duals

_LEAST_EXCESS = 1e-2  # h and beta start at margins that exceed the band by at least so much
_IDLE = 1e-9  # duals below, relative to the largest, are what an interior point leaves of zeros


def suits(problem: Problem) -> bool:
    """Whether interior points are affordable, and every class has rows of its own."""
    return interior_points_fit(problem) and np.unique(problem.y).size == problem.n_classes


class InteriorSteps:
    """Convex steps solved one by one; `spent` counts the steps of all interior points."""

    def __init__(self, problem: Problem, tol: float):
        loss = problem.loss
        assert isinstance(loss, MarginDistributionLoss)
        self._problem, self._tol = problem, tol
        self._theta, self._mu = loss.theta, loss.mu
        self._kappa = problem.cost / (1.0 - loss.theta) ** 2
        self._rows = problem.X.astype(np.float64, copy=False)
        self._reach = problem.longest_row
        self.spent = 0

    def squared_hinge(self, tol: float, max_iter: int) -> Machine:
        """The optimum of the first part alone: with ``W / (1 - theta)`` that is the squared Crammer-Singer machine."""
        found = self._interior_point(self._kappa, "squared_crammer_singer", tol, max_iter)
        return self._machine(found.W * (1.0 - self._theta), found.b * (1.0 - self._theta))

    def hinge(self, tol: float, max_iter: int) -> Machine:
        found = self._interior_point(self._problem.cost, "crammer_singer", tol, max_iter)
        return self._machine(found.W, found.b)

    def _machine(self, W: Array, b: Array) -> Machine:
        return Machine(W, b, self._problem.primal(W, b))

    def rivals(self, machine: Machine) -> Labels:
        S = np.asarray(self._rows @ machine.W) + machine.b
        S[np.arange(len(S)), self._problem.y] = -np.inf
        return np.asarray(S.argmax(axis=1), dtype=np.intp)

    def solve(self, rivals: Labels, max_iter: int) -> tuple[Machine, SparseDuals, float]:
        """The step at these rivals: a machine and its F, signed duals, and a bound of the step's optimum."""

        def block(y: Labels, kappa: Array, n_classes: int, proximal: Array, order: Labels) -> Band:
            return Band(y, kappa, n_classes, proximal, rivals[order], self._theta, self._mu)

        found = self._interior_point(self._kappa, block, self._tol, max_iter)
        a = np.where(np.abs(found.a) > _IDLE * np.abs(found.a).max(), found.a, 0.0)
        hidden = hidden_by_rounding(float(np.abs(a).sum()), float(np.linalg.norm(found.W)), self._reach)
        return self._machine(found.W, found.b), sparse_duals(a), found.dual - hidden

    def _interior_point(self, cost: Array, block: Any, tol: float, max_iter: int) -> InteriorPointResult:
        problem = self._problem
        arrays = self._rows, problem.y.astype(np.intp), cost, problem.n_classes
        found = interior_point(*arrays, block, fit_intercept=problem.fit_intercept, tol=tol, max_iter=max_iter)
        self.spent += max(1, found.n_iter)
        return found


class InteriorRounds:
    """The same rounds by interior points, which go on from the best machine of an ascent; each solves its step at once."""

    def __init__(self, interior: InteriorSteps, best: Machine, duals: SparseDuals, ascent: Ascent):
        self._interior, self._machine, self._duals = interior, best, duals
        self._epochs = ascent.budget // ascent.n_rows
        self._before = ascent.n_iter
        self._bound = -np.inf
        self.crawls = False

    @property
    def n_iter(self) -> int:
        return self._before + self._interior.spent

    @property
    def left(self) -> int:
        return self._epochs - self.n_iter

    def start_phase(self, epochs: int | None) -> None:
        self.crawls = False

    def relinearise(self) -> None:
        self._rivals = self._interior.rivals(self._machine)

    def improve(self, tol: float) -> bool:
        if self.left > 0:
            self._machine, self._duals, self._bound = self._interior.solve(self._rivals, self.left)
        self.crawls = True  # whatever it has not reached, another attempt would not
        return True

    def look(self) -> Seen:
        return Seen(self._machine.primal, np.nan, self._bound)

    def machine(self, primal: float) -> Machine:
        return self._machine

    def duals(self) -> SparseDuals:
        return self._duals


class Band(SquaredCrammerSinger):
    """Targets and products have a row more than those of the squared hinge: that of beta."""

    def __init__(self, y: Labels, kappa: Array, n_classes: int, proximal: Array, rival: Labels, theta: float, mu: float):
        super().__init__(y, kappa, n_classes, proximal)
        self.offset *= 1.0 - theta
        self.lower, self.upper = 1.0 - theta, 1.0 + theta
        self.at_rival = rival * y.size + np.arange(y.size)  # flat index of (r_i, i)
        self.stiffness = 2.0 * mu * kappa

    def _excess(self, S: Array) -> Array:
        return S.ravel()[self.own] - S.ravel()[self.at_rival]

    def _join(self, tau: Array, beta: Array) -> Array:
        """tau with beta, which pulls the classes y and r together."""
        flat = tau.ravel()
        flat[self.own] -= beta
        flat[self.at_rival] += beta
        return tau

    def start(self, S: Array) -> None:
        super().start(S)
        above = self._excess(S) - self.upper
        e = np.maximum(above, 0.0) + np.maximum(_LEAST_EXCESS, 0.1 * np.abs(above))
        self.beta, self.h = self.stiffness * e, e - above

    def loss(self, S: Array) -> float:
        below = super().loss(S)
        self.above = self._excess(S) - self.upper
        return below + 0.5 * float(self.stiffness @ np.maximum(self.above, 0.0) ** 2)

    def complementarity(self) -> float:
        return super().complementarity() + float(self.beta @ self.h)

    def pull(self) -> Array:
        return self._join(super().pull(), self.beta)

    def gain(self, tau: Array) -> float:
        beta = np.maximum(tau.ravel()[self.at_rival], 0.0)
        sums = tau.ravel()[self.own] + beta
        gains = sums * (self.lower - sums / (4.0 * self.weight)) - beta * (self.upper + beta / (2.0 * self.stiffness))
        return float(gains.sum())

    def linearise(self) -> tuple[Array | None, Array | None]:
        mesh, star = super().linearise()
        assert star is not None
        self.give = self.h + self.beta / self.stiffness
        self.edge = self.beta / self.give
        self.upper_residual = self.beta / self.stiffness - self.above - self.h
        star.ravel()[self.at_rival] += self.edge
        return mesh, star

    def aim(self, target: Array | float) -> Array:
        lower, upper = (target, target) if np.ndim(target) == 0 else (target[:-1], target[-1])  # type: ignore[index]
        tau = super().aim(lower)
        self.aimed = (upper - self.beta * (self.h + self.upper_residual)) / self.give
        return self._join(tau, self.aimed)

    def follow(self, dS: Array) -> None:
        super().follow(dS)
        rise = self._excess(dS)
        d_beta = self.aimed + self.edge * rise
        dA, df, dt = self.direction
        d_h = d_beta / self.stiffness - rise + self.upper_residual
        self.direction = np.vstack([dA, d_beta]), np.vstack([df, d_h]), dt

    def _multipliers(self) -> tuple[Array, Array]:
        return np.vstack([self.A, self.beta]), np.vstack([self.f, self.h])

    def longest_step(self) -> float:
        (A, f), (dA, df, _) = self._multipliers(), self.direction
        rate = -min(float((dA / A).min()), float((df / f).min()))
        return 1.0 / rate if rate > 0 else np.inf

    def step(self, size: float) -> None:
        dA, df, dt = self.direction
        for value, change in ((self.A, dA[:-1]), (self.beta, dA[-1]), (self.f, df[:-1]), (self.h, df[-1]), (self.t, dt)):
            value += size * change

    def products(self, size: float) -> Array:
        (A, f), (dA, df, _) = self._multipliers(), self.direction
        return (A + size * dA) * (f + size * df)

    def clip(self, a: Array) -> Array:
        clipped = np.maximum(a, 0.0)
        clipped.ravel()[self.at_rival] = a.ravel()[self.at_rival]
        return clipped

    def mean_hinge(self, primal: float, class_cost: Array) -> Array:
        return 1.0 - self.lower + super().mean_hinge(primal, class_cost)
