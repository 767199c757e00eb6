"""Machines with angles by L-BFGS: a rounded hinge, and a weight of the angles that grows.

The largest of a row's violations ``E_l`` and 0 is replaced by

    w log (1 + sum_l exp(E_l / w))          with the slopes u_i p_il,   p_i = softmax((E_i, 0) / w)

Other losses of margins, ``max_a <a, E>`` over a domain, by ``max_a <a, E> - w/2 |a|^2``; squared ones stay as they are.
Kinks of the angles are rounded too. That is smooth, and L-BFGS learns the curvature of the angles, which the convex models
of ``convex_model.py`` can only bound. First omega grows from where the angles do not outweigh the loss, then w falls, and
multipliers of kinks settle. What is found is a start for the exact descent, and the slopes are its duals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from polymargin.problems.classes import Problem
from polymargin.solvers.models.angles.angle_models import Place, angular
from polymargin.solvers.models.angles.row_space import blocks
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, SparseDuals, sparse_duals

WIDTHS = 0.3, 0.1, 0.01, 1e-3  # of the rounded hinge, in margins
NARROW = WIDTHS[2:]  # for machines that are near a good one
KINK = 0.01  # least width of rounded kinks, in cosines
GROWTH = 10.0  # of omega
NARROWER = 3.0  # the last width, again and again
ENOUGH = 1e-2, 1e-4  # relative decrease of a step, in tolerances, at which a rung, and one of the last, is left
_SCREEN = 0.3  # of the passes that each beginning may take
_WORTH = 0.3  # decrease of the exact F from rung to rung, in tolerances
_STEPS = 200  # of one rung
_NEGLIGIBLE = 1e-4  # share of a row's cost below which a dual is 0

Array = NDArray[np.float64]


def follow(
    problem: Problem, begins: list[tuple[Machine, float]], widths: tuple[float, ...], most: int, tol: float
) -> tuple[Place, int]:
    """From the most promising machine along both paths, in at most about so many passes over the rows.

    The machines come with their first omega. Which one promises most is seen at the first widths. Returns the end, by the
    exact F, and the passes.
    """
    unit = unit_of_width(problem, min(machine.primal for machine, _ in begins))
    widths = tuple(unit * width for width in widths)
    paths = [_Path(problem, *begin, int(_SCREEN * most), tol) for begin in begins]
    for path in paths:
        path.grow(widths[0])
        for width in widths[:-2]:
            path.narrow(width, ENOUGH[0])
    chosen = min(paths, key=lambda path: path.value)
    end = chosen.finish(widths, most - sum(path.passes for path in paths))
    return end, sum(path.passes for path in paths)


def unit_of_width(problem: Problem, primal: float) -> float:
    """Rows that meet their margins must not feel a rounded hinge: the smaller F is, relative to the costs, the less."""
    return min(1.0, float(np.sqrt(max(0.0, primal - angular(problem).least) / problem.cost.sum())))


class _Path:
    """A machine on its way, as one vector.

    With an intercept the offsets are those of centred rows, so that class vectors stay in the span of the rows' differences,
    in units of the columns, so that they bend F as class vectors do.
    """

    def __init__(self, problem: Problem, machine: Machine, omega: float, most: int, tol: float):
        self.problem, self.penalty, self.omega, self.most, self.tol = problem, angular(problem), omega, most, tol
        self.angles, self.value, self.passes = self.penalty.angles, np.inf, 0
        self._v = machine.W.ravel()
        if problem.fit_intercept:
            self._means, mean_square = centre_and_spread(problem.X)
            self._unit = float(np.sqrt(mean_square / max(1, problem.n_features))) or 1.0
            self._v = np.append(self._v, (machine.b + self._means @ machine.W) / self._unit)

    def grow(self, width: float) -> None:
        """omega grows to its value."""
        while self.omega < 0.3 * self.penalty.omega:
            self._minimise(self.omega, width, ENOUGH[0])
            self.omega *= GROWTH

    def narrow(self, width: float, enough: float) -> None:
        self._minimise(self.penalty.omega, width, enough)
        self.angles = self.angles.settled_at(self._machine(self._v)[0])

    def finish(self, widths: tuple[float, ...], most: int) -> Place:
        """The last widths; the very last is divided by `NARROWER` as long as that lowers the exact F enough."""
        self.most = self.passes + most
        self.narrow(widths[-2], ENOUGH[0])
        width, best = widths[-1], None
        while True:
            self.narrow(width, ENOUGH[1])
            W, b = self._machine(self._v)
            with np.errstate(all="ignore"):
                primal, self.passes = self.problem.primal(W, b), self.passes + 1
            primal = primal if np.isfinite(primal) else np.inf
            fallen = np.inf if best is None else best.machine.primal - primal
            if best is None or fallen > 0.0:
                best = Place(Machine(W, b, primal), self._duals(W, b), angles=self.angles)
            if self.passes >= self.most or not fallen > _WORTH * self.tol * (best.machine.primal - self.penalty.least):
                return best
            width /= NARROWER

    def _minimise(self, omega: float, width: float, enough: float) -> None:
        self.angles = self.angles.rounded(max(width, KINK))
        self._rounded, self._width = self.penalty.with_(omega, self.angles), width
        options = {"maxiter": _STEPS, "maxfun": max(1, self.most - self.passes), "ftol": enough * self.tol, "gtol": 0.0}
        with np.errstate(all="ignore"):  # a step may go too far: it is taken back
            end = minimize(self._value, self._v, jac=True, method="L-BFGS-B", options=options)
        self.passes += int(end.nfev)
        if np.isfinite(end.fun) and np.isfinite(end.x).all():
            self._v, self.value = end.x, float(end.fun)

    def _machine(self, v: Array) -> tuple[Array, Array]:
        d, c = self.problem.n_features, self.problem.n_classes
        W, offsets = self._allowed(v[: d * c].reshape(d, c).copy()), v[d * c :]
        if not self.problem.fit_intercept:
            return W, np.zeros(c)
        return W, self._unit * self._allowed(offsets[None])[0] - self._means @ W

    def _allowed(self, V: Array) -> Array:
        """Vectors that add up to zero, if they must."""
        return V - V.mean(axis=1, keepdims=True) if self.problem.loss.sums_to_zero else V

    def _value(self, v: Array) -> tuple[float, Array]:
        """F less its constant with a rounded hinge, and its gradient."""
        if not np.isfinite(v).all():  # a step beyond all numbers
            return np.inf, np.zeros_like(v)
        W, b = self._machine(v)
        value, slopes, sums = 0.0, np.zeros_like(W), np.zeros_like(b)
        for X, y, cost in blocks(self.problem):
            loss, A = rounded_loss(self.problem, np.asarray(X @ W) + b, y, cost, self._width)
            T = self.problem.row_domains.domain.margins.derivative(A, y)
            value += loss
            slopes += np.asarray(X.T @ T)
            sums += T.sum(axis=0)
        value += self._rounded.value(W) - self._rounded.least
        slopes += self._rounded.gradient(W)
        if not self.problem.fit_intercept:
            return value, self._allowed(slopes).ravel()
        slopes -= np.outer(self._means, sums)
        return value, np.append(self._allowed(slopes), self._unit * self._allowed(sums[None]))

    def _duals(self, W: Array, b: Array) -> SparseDuals:
        parts = []
        for X, y, cost in blocks(self.problem):
            A = rounded_loss(self.problem, np.asarray(X @ W) + b, y, cost, self._width)[1]
            A[cost[:, None] * _NEGLIGIBLE > A] = 0.0
            parts.append(sparse_duals(A))
        starts = np.concatenate([[0], *(np.diff(part.starts) for part in parts)]).cumsum()
        classes, values = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        return SparseDuals(starts, classes, values)


def rounded_loss(problem: Problem, S: Array, y: NDArray[np.int32], cost: Array, width: float) -> tuple[float, Array]:
    """The rounded loss of rows with scores S, and its duals, the slopes in the violations."""
    loss, domain = problem.loss, problem.row_domains.domain
    E = domain.margins.violations(S, y, loss.targets(S.shape[1]))
    if loss.squared:  # smooth as it is
        values, A = domain.largest_squared(E, y)
        return float(cost @ values), cost[:, None] * A
    if domain.is_maximum:
        return _rounded_maximum(E, domain.margins.present(y, S.shape[1]), cost, width)
    A = domain.project(E / width, y, np.ones(len(y))).A
    values = (A * E).sum(axis=1) - 0.5 * width * np.square(A).sum(axis=1)
    return float(cost @ values), cost[:, None] * A


def _rounded_maximum(E: Array, present: NDArray[np.bool_], cost: Array, width: float) -> tuple[float, Array]:
    """The logarithm of a sum of exponentials: of the violations, and of 0."""
    E = np.where(present, E, -np.inf)
    top = np.maximum(E.max(axis=1), 0.0)
    P = np.exp((E - top[:, None]) / width)
    total = P.sum(axis=1) + np.exp(-top / width)
    return float(cost @ (top + width * np.log(total))), P * (cost / total)[:, None]
