"""Machines with angles by L-BFGS: a rounded hinge, and a weight of the angles that grows.

The largest piece of a row's hinge, ``E_l = 1[l != y] + s_l - s_y``, is replaced by

    w log sum_l exp(E_l / w)          with the slopes u_i p_il,   p_i = softmax(E_i / w)

and kinks of the angles are rounded too. That is smooth, and L-BFGS learns the curvature of the angles, which the convex
models of ``convex_model.py`` can only bound. First omega grows from where the angles do not outweigh the loss, then w falls,
and multipliers of kinks settle. What is found is a start for the exact descent, and ``u_i p_il`` are its duals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from polymargin.penalties.angular import AnglePenalty
from polymargin.problem import Problem
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, SparseDuals, sparse_duals

WIDTHS = 0.3, 0.1, 0.01, 1e-3  # of the rounded hinge, in margins
NARROW = WIDTHS[2:]  # for machines that are near a good one
KINK = 0.01  # least width of rounded kinks, in cosines
GROWTH = 10.0  # of omega
NARROWER = 3.0  # the last width, again and again
ENOUGH = 1e-2, 1e-4  # relative decrease of a step, in tolerances, at which a rung, and one of the last, is left
_SCREEN = 0.3  # of the passes that each beginning may take
_SAME, _ALIKE = 1e-4, 0.02  # relative distances of values at the first widths
_WORTH = 0.3  # decrease of the exact F from rung to rung, in tolerances
_STEPS = 200  # of one rung
_BLOCK = 1 << 18  # scores held at a time
_NEGLIGIBLE = 1e-4  # share of a row's cost below which a dual is 0

Array = NDArray[np.float64]


class Found(NamedTuple):
    """The machine at the end of a path, by the exact F, its duals, and how many passes over the rows it took."""

    machine: Machine
    duals: SparseDuals
    multipliers: Array | float  # of kinks
    passes: int


class Begin(NamedTuple):
    """A machine from which a path may begin, and the first omega there."""

    machine: Machine
    omega: float


def follow(
    problem: Problem, penalty: AnglePenalty, begins: list[Begin], widths: tuple[float, ...], most: int, tol: float
) -> Found:
    """From the most promising machines along both paths, with at most about so many passes over the rows.

    Which ones promise most is seen at the first widths.
    """
    best = min(begin.machine.primal for begin in begins)
    widths = tuple(unit_of_width(problem, penalty, best) * width for width in widths)
    paths = [_Path(problem, penalty, begin, int(_SCREEN * most), tol) for begin in begins]
    for path in paths:
        path.grow(widths[0])
        for width in widths[:-2]:
            path.narrow(width, ENOUGH[0])
    left = most - sum(path.passes for path in paths)
    chosen = _promising(paths, _ALIKE if penalty.angles.smooth else 0.0)  # past kinks the way is too long for two
    ends = [path.finish(widths, left // len(chosen)) for path in chosen]
    return min(ends, key=lambda end: end.machine.primal)._replace(passes=sum(path.passes for path in paths))


def _promising(paths: list[_Path], alike: float) -> list[_Path]:
    """The lowest, and others that are as low but not the same."""
    first, *others = sorted(paths, key=lambda path: path.value)
    return [first, *(other for other in others if _SAME < other.value / first.value - 1.0 < alike)]


def unit_of_width(problem: Problem, penalty: AnglePenalty, primal: float) -> float:
    """Rows that meet their margins must not feel a rounded hinge: the smaller F is, relative to the costs, the less."""
    return min(1.0, float(np.sqrt(max(0.0, primal - penalty.least) / problem.cost.sum())))


class _Path:
    """A machine on its way."""

    def __init__(self, problem: Problem, penalty: AnglePenalty, begin: Begin, most: int, tol: float):
        self.rounded, self.penalty, self.omega, self.most, self.tol = _Rounded(problem), penalty, begin.omega, most, tol
        self.v, self.value, self.passes = self.rounded.packed(begin.machine.W, begin.machine.b), np.inf, 0

    def grow(self, width: float) -> None:
        """omega grows to its value."""
        while self.omega < 0.3 * self.penalty.omega:
            self._minimise(self.omega, width, ENOUGH[0])
            self.omega *= GROWTH

    def narrow(self, width: float, enough: float) -> None:
        self._minimise(self.penalty.omega, width, enough)
        self.rounded.settle_kinks(self.v)

    def _minimise(self, omega: float, width: float, enough: float) -> None:
        self.rounded.set(self.penalty.with_omega(omega), width)
        options = {"maxiter": _STEPS, "maxfun": max(1, self.most - self.passes), "ftol": enough * self.tol, "gtol": 0.0}
        with np.errstate(all="ignore"):  # a step may go too far: it is taken back
            end = minimize(self.rounded, self.v, jac=True, method="L-BFGS-B", options=options)
        self.v, self.value, self.passes = end.x, float(end.fun), self.passes + int(end.nfev)

    def finish(self, widths: tuple[float, ...], most: int) -> Found:
        """The last widths; the very last is divided by `NARROWER` as long as that lowers the exact F enough."""
        self.most = self.passes + most
        self.narrow(widths[-2], ENOUGH[0])
        width, found = widths[-1], None
        while True:
            self.narrow(width, ENOUGH[1])
            before, found = found, self.found(found)
            fallen = np.inf if before is None else max(0.0, before.machine.primal - found.machine.primal)
            if self.passes >= self.most or fallen <= _WORTH * self.tol * (found.machine.primal - self.penalty.least):
                return found
            width /= NARROWER

    def found(self, before: Found | None) -> Found:
        """The better one of the machine now and the one before, by the exact F."""
        W, b = self.rounded.unpacked(self.v)
        with np.errstate(all="ignore"):
            primal, self.passes = self.rounded.problem.primal(W, b), self.passes + 1
        primal = primal if np.isfinite(primal) else np.inf
        if before is not None and before.machine.primal <= primal:
            return before
        return Found(Machine(W, b, primal), self.rounded.duals(self.v), self.rounded.multipliers, self.passes)


class _Rounded:
    """F less its constant with a rounded hinge, and its gradient, as a function of one vector.

    With an intercept the offsets are those of centred rows, so that class vectors stay in the span of the rows' differences,
    in units of the columns, so that they bend F as class vectors do.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.shape = problem.n_features, problem.n_classes
        self.means, self.unit = np.zeros(problem.n_features), 1.0
        self.multipliers: Array | float = 0.0
        if problem.fit_intercept:
            self.means, mean_square = centre_and_spread(problem.X)
            self.unit = float(np.sqrt(mean_square / max(1, problem.n_features))) or 1.0

    def set(self, penalty: AnglePenalty, width: float) -> None:
        self.penalty, self.width = penalty, width
        penalty.angles = penalty.angles.rounded(max(width, KINK), self.multipliers)

    def settle_kinks(self, v: Array) -> None:
        self.penalty.angles = self.penalty.angles.settled_at(self.unpacked(v)[0])
        self.multipliers = self.penalty.angles.multipliers

    def packed(self, W: Array, b: Array) -> Array:
        offsets = (b + self.means @ W) / self.unit if self.problem.fit_intercept else np.zeros(0)
        return np.concatenate([W.ravel(), offsets])

    def unpacked(self, v: Array) -> tuple[Array, Array]:
        d, c = self.shape
        W = v[: d * c].reshape(d, c).copy()
        return W, (self.unit * v[d * c :] - self.means @ W if self.problem.fit_intercept else np.zeros(c))

    def __call__(self, v: Array) -> tuple[float, Array]:
        W, b = self.unpacked(v)
        value, slopes, sums = 0.0, np.zeros(self.shape), np.zeros(self.shape[1])
        for X, y, cost in self._blocks():
            loss, T = self._pieces(X, y, cost, W, b)
            value += loss
            slopes += np.asarray(X.T @ T)
            sums += T.sum(axis=0)
        value += self.penalty.value(W) - self.penalty.least
        slopes += self.penalty.gradient(W)
        if not self.problem.fit_intercept:
            return value, slopes.ravel()
        return value, np.concatenate([(slopes - np.outer(self.means, sums)).ravel(), self.unit * sums])

    def duals(self, v: Array) -> SparseDuals:
        W, b = self.unpacked(v)
        parts = []
        for X, y, cost in self._blocks():
            A = self._pieces(X, y, cost, W, b)[1]
            A[np.arange(len(y)), y] = 0.0
            A[cost[:, None] * _NEGLIGIBLE > A] = 0.0
            parts.append(sparse_duals(A))
        starts = np.concatenate([[0], *(np.diff(part.starts) for part in parts)]).cumsum()
        classes, values = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        return SparseDuals(starts, classes, values)

    def _pieces(self, X: Any, y: NDArray[np.int32], cost: Array, W: Array, b: Array) -> tuple[float, Array]:
        """The loss of some rows and its slopes in their scores."""
        rows = np.arange(len(y))
        E = np.asarray(X @ W, dtype=np.float64) + b
        E += 1.0 - E[rows, y][:, None]
        E[rows, y] = 0.0
        top = E.max(axis=1)
        E -= top[:, None]
        E /= self.width
        np.exp(E, out=E)
        total = E.sum(axis=1)
        loss = float(cost @ (top + self.width * np.log(total)))
        E *= (cost / total)[:, None]
        E[rows, y] -= cost
        return loss, E

    def _blocks(self) -> Iterator[tuple[Any, NDArray[np.int32], Array]]:
        """Some rows at a time, in double precision."""
        p, n = self.problem, self.problem.n_rows
        width = p.n_classes if sparse.issparse(p.X) else max(p.n_classes, p.n_features)
        step = max(1, _BLOCK // width)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            yield p.X[rows].astype(np.float64, copy=False), p.y[rows], p.cost[rows]
