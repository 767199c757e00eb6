"""A proximal Newton method for one convex step of the margin distribution machine, where coordinate ascent crawls.

With few features most rows keep a dual, and coordinate ascent needs thousands of epochs. The machine itself
has few unknowns. With the duals tau' so far as the centre, the step's dual is regularised by
``(delta_i / 2) |tau_i - tau'_i|^2``; that makes its primal smooth (``_core/margin_distribution_newton.hpp``)::

    min_{W, b}  Phi(W, b) = 1/2 |W|^2 + sum_i phi_i(x_i W + b),      gradient  W - X' tau(W, b),  - sum_i tau_i(W, b)

Newton steps with a line search minimise it, then the maximising duals become the next centre. This is the augmented
Lagrangian method with semismooth Newton steps (Rockafellar 1976; Li, Sun & Toh 2018): a few dozen passes over the data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from polymargin.problem import Problem

Array = NDArray[np.float64]

_LARGEST_MATRIX = 1200  # unknowns for which the Newton matrix is formed
_MOST_FEATURES = 1000  # for the preconditioner of conjugate gradients, beyond that
_MOST_UNKNOWNS = 50_000
_SOLVED = 2e-2  # Newton's decrement, relative to what the smoothing leaves, at which the centre moves
_DAMPING = 3e-2, 1e-3, 1e6  # delta_i / min(|x_i|^2, 1/(2 kappa_i)) at first, at least and at most (it is |x_i|^2 then)
_EASIER, _HARDER = 0.6, 3.0  # changes of it
_SUFFICIENT = 1e-4  # of the slope, in the line search
_SHORTEST = 1e-4  # step
_ROUNDING = 1e-14  # of Phi: a slope below it leads nowhere
_CG_STEPS, _CG_ACCURACY = 60, 1e-2


def suits(problem: Problem) -> bool:
    """Whether Newton steps are affordable: few features."""
    d = problem.n_features
    return 0 < d <= _MOST_FEATURES and (d + 1) * problem.n_classes <= _MOST_UNKNOWNS


def factorises(problem: Problem) -> bool:
    """Whether the Newton matrix is formed."""
    return suits(problem) and (problem.n_features + 1) * problem.n_classes <= _LARGEST_MATRIX


def epochs_of_a_step(problem: Problem) -> float:
    """The work of a Newton step, in epochs of coordinate ascent."""
    n, d, c = problem.n_rows, problem.n_features, problem.n_classes
    unknowns = (d + 1) * c
    solving = 3.0 * n * d * d + unknowns**3 / 3.0 if unknowns <= _LARGEST_MATRIX else 60.0 * n * d
    return 1.0 + solving / (4.0 * n * d * c)


class Point(NamedTuple):
    """A machine, Phi and its gradient there, F, the step's objective and the value of the maximising duals."""

    W: Array
    b: Array
    smooth: float
    dW: Array
    db: Array
    stated: float
    primal: float
    dual: float  # exact without an intercept, else an estimate


class ProximalNewton:
    """Newton steps on the loop's convex problem; the damping is kept from call to call."""

    def __init__(self, problem: Problem, loop: Any):
        self._problem = problem
        self._loop = loop
        self._damping = 0.0
        self.direct = factorises(problem)
        self._basis: tuple[Array, Array, Array] | None = None

    def ascend(self, W: Array, b: Array, tol: float, max_passes: int) -> Point:
        """Improves the machine, and the loop's duals with it, until their gap is below `tol`."""
        last = self._loop.visits + max_passes * self._problem.n_rows
        if not self._damping > 0.0:
            self._damping = _DAMPING[0] * self._slackness()
        point = self._at(W, b)
        steps = 0
        while True:
            # while sum_i tau_i is not 0 the value of the duals is no bound and may lie above
            if abs(point.primal - point.dual) <= tol * point.primal:
                self._loop.accept_newton()
                return point
            W_step, b_step = self._direction(point)
            slope = float(np.vdot(W_step, point.dW) + np.vdot(b_step, point.db))
            length = 0.0
            if slope > _ROUNDING * abs(point.smooth):
                point, length = self._search(point, W_step, b_step, slope)
            steps += 1
            # Phi is below the step's objective by about the gap that its smoothing leaves
            solved = slope <= _SOLVED * (point.primal - point.smooth) or length <= _SHORTEST
            out_of_passes = self._loop.visits >= last
            if solved or out_of_passes:
                self._loop.accept_newton()
                if out_of_passes:
                    return point
                self._damp(_harder(length) if length < 1.0 else _EASIER if steps <= 2 else 1.0)
                steps = 0
                point = self._at(point.W, point.b)
            elif length < 1.0 or steps % 5 == 0:  # more smoothing suits Newton's method better
                self._damp(_harder(length))
                point = self._at(point.W, point.b)

    def _slackness(self) -> float:
        """How far the duals are below the size that losses of 1 give them: the smoothing should be as wide as then."""
        problem = self._problem
        assert problem.loss.margin_band is not None
        size = float(np.abs(self._loop.duals()[2]).sum())
        largest = 2.0 * float(problem.cost.sum()) / (1.0 - problem.loss.margin_band.theta) ** 2
        return min(max(1.0, largest / size), _DAMPING[2]) if size > 0.0 else 1.0

    def _damp(self, factor: float) -> None:
        self._damping = min(max(factor * self._damping, _DAMPING[1]), _DAMPING[2])

    def _at(self, W: Array, b: Array) -> Point:
        smooth, stated, relaxed, concave, pull, sums = self._loop.newton_pass(W, b, self._damping)
        half_norm = 0.5 * float(np.vdot(W, W))
        free = -sums if self._problem.fit_intercept else np.zeros_like(sums)
        dual = concave - 0.5 * float(np.vdot(pull, pull))
        if self._problem.fit_intercept:  # about what a repair of the duals to sum_i tau_i = 0 costs
            dual -= float(np.abs(sums) @ np.abs(b - b.mean()))
        values = half_norm + smooth, W - pull, free, half_norm + stated, half_norm + relaxed, dual
        return Point(W, b, *values)

    def _search(self, point: Point, W_step: Array, b_step: Array, slope: float) -> tuple[Point, float]:
        length = 1.0
        while True:
            ahead = self._at(point.W - length * W_step, point.b - length * b_step)
            if ahead.smooth <= point.smooth - _SUFFICIENT * length * slope:
                return ahead, length
            if length <= _SHORTEST:
                return (ahead if ahead.smooth <= point.smooth else self._at(point.W, point.b)), length
            length *= 0.5

    def _direction(self, point: Point) -> tuple[Array, Array]:
        return self._by_matrix(point) if self.direct else self._by_conjugate_gradients(point)

    def _by_matrix(self, point: Point) -> tuple[Array, Array]:
        (d, c), free = point.W.shape, self._problem.fit_intercept
        blocks = self._loop.newton_matrix().reshape(c, d + 1, c, d + 1)
        e = d + 1 if free else d
        H = np.ascontiguousarray(blocks[:, :e, :, :e]).reshape(c * e, c * e)
        H.reshape(-1)[:: c * e + 1].reshape(c, e)[:, :d] += 1.0
        gradient = point.dW.T
        if free:  # one constant in b is free, and a class without active rows has no curvature
            offsets = slice(d, None, e)
            level = float(H.diagonal()[offsets].mean()) or 1.0
            H[offsets, offsets] += level / c + 1e-9 * level * np.eye(c)
            gradient = np.column_stack([gradient, point.db])
        step = _solved(H, gradient.ravel()).reshape(c, e)
        return np.ascontiguousarray(step[:, :d].T), step[:, d] if free else np.zeros(c)

    def _by_conjugate_gradients(self, point: Point) -> tuple[Array, Array]:
        """With rows centred by their mean m, and preconditioned by the classes' curvatures on the rows' principal axes."""
        mean, axes, squares = self._axes()
        free, n = self._problem.fit_intercept, self._problem.n_rows
        weights = self._loop.newton_curvature() / n
        spread = 1.0 / (1.0 + np.outer(squares, weights))
        level = 1.0 / np.maximum(n * weights, 1e-9 * n * weights.max() + 1e-300)

        def precondition(r: tuple[Array, Array]) -> tuple[Array, Array]:
            return axes @ (spread * (axes.T @ r[0])), level * r[1] if free else r[1]

        def product(p: tuple[Array, Array]) -> tuple[Array, Array]:
            out, sums = self._loop.newton_product(np.ascontiguousarray(p[0]), p[1] - mean @ p[0])
            return p[0] + out - np.outer(mean, sums), sums if free else np.zeros_like(sums)

        # in centred coordinates b' = b + m W, so that dPhi/dW' = dPhi/dW - m dPhi/db
        step = _conjugate_gradients(product, precondition, (point.dW - np.outer(mean, point.db), point.db))
        return step[0], step[1] - mean @ step[0]

    def _axes(self) -> tuple[Array, Array, Array]:
        if self._basis is None:
            X = self._problem.X
            gram = X.T @ X
            gram = np.asarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=np.float64)
            mean = np.zeros(X.shape[1])
            if self._problem.fit_intercept:
                mean = np.asarray(X.T @ np.full(X.shape[0], 1.0 / X.shape[0], dtype=X.dtype), dtype=np.float64)
                gram -= X.shape[0] * np.outer(mean, mean)
            squares, axes = np.linalg.eigh(gram)
            self._basis = mean, axes, np.maximum(squares, 0.0)
        return self._basis


def _solved(H: Array, right: Array) -> Array:
    """The solution of ``H x = right``, of which the lower half is read; with a ridge where rounding made H indefinite."""
    ridge = 0.0
    while ridge < 1.0:
        try:
            return np.asarray(cho_solve(cho_factor(H, lower=True, check_finite=False), right, check_finite=False))
        except LinAlgError:
            ridge = max(100.0 * ridge, 1e-14)
            H.reshape(-1)[:: len(H) + 1] *= 1.0 + ridge
    return right / np.maximum(H.diagonal(), 1e-300)


def _harder(length: float) -> float:
    """Factor of the damping after a step of this length; 0 stands for one that rounding forbids."""
    return _HARDER * max(1.0, 0.25 / length) if length > 0.0 else 1.0


def _conjugate_gradients(product: Any, precondition: Any, right: tuple[Array, Array]) -> tuple[Array, Array]:
    """A rough solution x of ``product(x) = right``, for pairs of arrays."""
    r, x = right, (np.zeros_like(right[0]), np.zeros_like(right[1]))
    z = p = precondition(r)
    rz = enough = _dot(r, z)
    enough *= _CG_ACCURACY
    for _ in range(_CG_STEPS):
        image = product(p)
        curvature = _dot(p, image)
        if not curvature > 0.0:
            break
        t = rz / curvature
        x, r = _plus(x, t, p), _plus(r, -t, image)
        z = precondition(r)
        rz, before = _dot(r, z), rz
        if rz <= enough:
            break
        p = _plus(z, rz / before, p)
    return x


def _dot(u: tuple[Array, Array], v: tuple[Array, Array]) -> float:
    return float(np.vdot(u[0], v[0]) + np.vdot(u[1], v[1]))


def _plus(u: tuple[Array, Array], t: float, v: tuple[Array, Array]) -> tuple[Array, Array]:
    return u[0] + t * v[0], u[1] + t * v[1]
