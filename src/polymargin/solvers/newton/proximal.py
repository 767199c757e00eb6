"""The method of multipliers in the unknowns of the machine: one convex step of the margin distribution machine.

With few features most rows keep a dual, and coordinate ascent needs thousands of epochs. The machine itself has few
unknowns. With the duals tau' so far as the centre, the step's dual is regularised by ``(delta_i / 2) |tau_i - tau'_i|^2``;
that makes its primal smooth (``_core/margin_distribution_newton.hpp``)::

    min_{W, b}  Phi(W, b) = 1/2 |W|^2 + sum_i phi_i(x_i W + b),      gradient  W - X' tau(W, b),  - sum_i tau_i(W, b)

The rounds are those of `multipliers.py`, delta (the damping) taking the place of 1 / sigma: a few dozen passes over the
data. The damping also changes within a round.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.problems.classes import Problem
from polymargin.solvers.cost_model import newton_matrix_fits
from polymargin.solvers.linear import conjugate_gradients, definite
from polymargin.solvers.newton.line_search import backtrack
from polymargin.solvers.newton.multipliers import MultiplierMethod, Round

Array = NDArray[np.float64]

_SOLVED = 2e-2  # Newton's decrement, relative to what the smoothing leaves, at which the centre moves
_DAMPING = 3e-2, 1e-3, 1e6  # delta_i / min(|x_i|^2, 1/(2 kappa_i)) at first, at least and at most (it is |x_i|^2 then)
_EASIER, _HARDER = 0.6, 3.0  # changes of it
_SUFFICIENT = 1e-4  # of the slope, in the line search
_SHORTEST = 2.0**-14  # step
_ROUNDING = 1e-14  # of Phi: a slope below it leads nowhere
_CG_STEPS, _CG_ACCURACY = 60, 0.1


class Point(NamedTuple):
    """A machine, Phi and its gradient there, F, the step's objective and the value of the maximising duals."""

    W: Array
    b: Array
    smooth: float
    gradient: Array  # (d + 1, c) with the offsets' in the last row, (d, c) if these are not free
    stated: float
    primal: float
    dual: float  # exact without an intercept, else an estimate


class _Step(NamedTuple):
    """What Newton's method takes off the machine, stacked like the gradient, and how steep Phi falls along it."""

    V: Array
    slope: float


class ProximalNewton(MultiplierMethod[Point, _Step]):
    """Newton steps on the loop's convex problem; the damping is kept from call to call."""

    def __init__(self, problem: Problem, loop: native.BandLoop):
        self._problem = problem
        self._loop = loop
        self._damping = 0.0
        self.direct = newton_matrix_fits(problem)
        self._solve = _by_matrix if self.direct else _ConjugateGradients(problem)

    def ascend(self, W: Array, b: Array, tol: float, max_passes: int) -> Point:
        """Improves the machine, and the loop's duals with it, until their gap is below `tol`."""
        self._tol, self._last = tol, self._loop.visits + max_passes * self._problem.n_rows
        if not self._damping > 0.0:
            self._damping = _DAMPING[0] * self._slackness()
        self._machine = W, b
        end = self.rounds()
        assert end is not None
        return end.point

    def _slackness(self) -> float:
        """How far the duals are below the size that losses of 1 give them: the smoothing should be as wide as then."""
        problem = self._problem
        assert problem.loss.margin_band is not None
        size = float(np.abs(self._loop.duals()[2]).sum())
        largest = 2.0 * float(problem.cost.sum()) / (1.0 - problem.loss.margin_band.theta) ** 2
        return min(max(1.0, largest / size), _DAMPING[2]) if size > 0.0 else 1.0

    def _begin_round(self) -> Point:
        return self._at(*self._machine)

    def _at(self, W: Array, b: Array) -> Point:
        """One pass over the data; the loop notes the maximising duals."""
        smooth, stated, relaxed, concave, pull, sums = self._loop.newton_pass(W, b, self._damping)
        half_norm = 0.5 * float(np.vdot(W, W))
        gradient = np.vstack([W - pull, -sums]) if self._problem.fit_intercept else W - pull
        dual = concave - 0.5 * float(np.vdot(pull, pull))
        if self._problem.fit_intercept:  # about what a repair of the duals to sum_i tau_i = 0 costs
            dual -= float(np.abs(sums) @ np.abs(b - b.mean()))
        return Point(W, b, half_norm + smooth, gradient, half_norm + stated, half_norm + relaxed, dual)

    def _stops(self, point: Point, steps: int) -> bool:
        # while sum_i tau_i is not 0 the value of the duals is no bound and may lie above
        return abs(point.primal - point.dual) <= self._tol * point.primal

    def _direction(self, point: Point) -> _Step:
        V = self._solve(self._loop, point)
        return _Step(V, float(np.vdot(V, point.gradient)))

    def _search(self, point: Point, direction: _Step) -> tuple[float, Point]:
        if not direction.slope > _ROUNDING * abs(point.smooth):
            return 0.0, point

        d = len(point.W)

        def trial(length: float) -> tuple[float, Point]:
            ahead = self._at(point.W - length * direction.V[:d], point.b - length * direction.V[d:].sum(axis=0))
            return ahead.smooth, ahead

        length, ahead = backtrack(trial, point.smooth, -direction.slope, share=_SUFFICIENT, shortest=_SHORTEST)
        if length > 0.0:
            return length, ahead
        return _SHORTEST, ahead if ahead.smooth <= point.smooth else self._at(point.W, point.b)

    def _is_solved(self, point: Point, direction: _Step, length: float) -> bool:
        # Phi is below the step's objective by about the gap that its smoothing leaves
        enough = direction.slope <= _SOLVED * (point.primal - point.smooth)
        return enough or length <= _SHORTEST or self._out_of_passes

    @property
    def _out_of_passes(self) -> bool:
        return bool(self._loop.visits >= self._last)

    def _between_steps(self, point: Point, steps: int, length: float) -> Point:
        """More smoothing suits Newton's method better where its steps are short or many."""
        if length == 1.0 and steps % 5:
            return point
        self._damp(_harder(length))
        return self._at(point.W, point.b)

    def _move_centre(self, end: Round[Point]) -> bool:
        self._loop.accept_newton()
        if end.stopped or self._out_of_passes:
            return False
        self._damp(_harder(end.length) if end.length < 1.0 else _EASIER if end.steps <= 2 else 1.0)
        self._machine = end.point.W, end.point.b
        return True

    def _damp(self, factor: float) -> None:
        self._damping = min(max(factor * self._damping, _DAMPING[1]), _DAMPING[2])


def _harder(length: float) -> float:
    """Factor of the damping after a step of this length; 0 stands for one that rounding forbids."""
    return _HARDER * max(1.0, 0.25 / length) if length > 0.0 else 1.0


def _by_matrix(loop: native.BandLoop, point: Point) -> Array:
    """Newton's step by the factorised matrix."""
    (d, c), e = point.W.shape, len(point.gradient)
    blocks = loop.newton_matrix().reshape(c, d + 1, c, d + 1)
    H = np.ascontiguousarray(blocks[:, :e, :, :e]).reshape(c * e, c * e)
    H.reshape(-1)[:: c * e + 1].reshape(c, e)[:, :d] += 1.0
    if e > d:  # one constant in b is free, and a class without active rows has no curvature
        offsets = slice(d, None, e)
        level = float(H.diagonal()[offsets].mean()) or 1.0
        H[offsets, offsets] += level / c + 1e-9 * level * np.eye(c)
    inverse = definite(H)
    return point.gradient if inverse is None else np.ascontiguousarray(inverse(point.gradient.T.ravel()).reshape(c, e).T)


class _ConjugateGradients:
    """Newton's step, roughly, for rows centred by their mean m.

    It is preconditioned by the classes' curvatures on the rows' principal axes.
    """

    def __init__(self, problem: Problem):
        self._problem = problem

    def __call__(self, loop: native.BandLoop, point: Point) -> Array:
        (mean, axes, squares), n, d = self._axes, self._problem.n_rows, len(point.W)
        weights = loop.newton_curvature() / n
        shrunk = 1.0 / (1.0 + np.outer(squares, weights))
        level = 1.0 / np.maximum(n * weights, 1e-9 * n * weights.max() + 1e-300)

        def precondition(R: Array) -> Array:
            return np.vstack([axes @ (shrunk * (axes.T @ R[:d])), level * R[d:]])

        def product(P: Array) -> Array:
            out, sums = loop.newton_product(P[:d], P[d:].sum(axis=0) - mean @ P[:d])
            return np.vstack([P[:d] + out - np.outer(mean, sums), sums])[: len(P)]

        # in centred coordinates b' = b + m W, so that dPhi/dW' = dPhi/dW - m dPhi/db
        right = point.gradient.copy()
        right[:d] -= np.outer(mean, right[d:].sum(axis=0))
        V = conjugate_gradients(product, precondition, right, _CG_ACCURACY, _CG_STEPS)
        V[d:] -= mean @ V[:d]
        return V

    @cached_property
    def _axes(self) -> tuple[Array, Array, Array]:
        """Mean, principal axes and squared lengths along them."""
        X = self._problem.X
        gram = X.T @ X
        gram = np.asarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=np.float64)
        mean = np.zeros(X.shape[1])
        if self._problem.fit_intercept:
            mean = np.asarray(X.T @ np.full(X.shape[0], 1.0 / X.shape[0], dtype=X.dtype), dtype=np.float64)
            gram -= X.shape[0] * np.outer(mean, mean)
        squares, axes = np.linalg.eigh(gram)
        return mean, axes, np.maximum(squares, 0.0)
