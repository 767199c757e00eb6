"""What a penalty puts between the classes of the kernel dual: W = Z M, for sums ``Z = X' tau`` that are never formed.

Their inner products ``N = Z'Z = tau' K tau`` come from duals and sums of kernel values, and say all that a penalty asks
which no rotation changes: class vectors stand here in c coordinates, as the root H of ``N = H'H``, and ``W = H M``.

    1/2 |W|^2              M is the identity
    class scales           M = diag(beta), and the norms of Z, the diagonal of N, are enough
    weights of pairs       M = P, the inverse of the metric L between the classes

Scales and weights move as in the loops of rows (``moves.py``), between rounds of a working set. Inside of a block no class
feels what another one has moved, so that a row need not list all of them: it moves in a metric diag(h), and only what it has
moved is mixed by M. The dual never falls while M is below twice diag(h) on vectors of sum 0. These do not see a part
``u1' + 1u'`` of M, and without it weights of pairs leave little beside the diagonal.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties import Penalty
from polymargin.penalties.capabilities import ClassScaling, PairPowers
from polymargin.solvers.ascent import moves
from polymargin.solvers.ascent.pair_weights import PairMetric
from polymargin.solvers.bounds import Ray, bound_of_sums
from polymargin.solvers.types import Start

Array = NDArray[np.float64]

_MOST_EXCEEDED = 1.5  # how far a step may exceed what diag(h) says; at 2 the dual would stand still
_LEAST_SCALE = 1e-3  # of the mean one
_SETTLING = 30  # moves of a metric that follows duals which stand still


def metric_of(penalty: Penalty, n_classes: int, start: Start | None = None) -> Identity | Scaled | Paired:
    """The metric of a penalty that `is_metric`."""
    if penalty.identity_hessian:
        return Identity()
    if penalty.class_scales is not None:
        return Scaled(penalty.class_scales, n_classes, None if start is None else start.scales)
    assert penalty.pair_powers is not None
    return Paired(penalty, penalty.pair_powers, n_classes, settles=start is not None)


def is_metric(penalty: Penalty) -> bool:
    """Whether the kernel dual takes it. With p = 1 class scales do not converge by themselves."""
    scaling = penalty.class_scales
    return penalty.identity_hessian or penalty.pair_powers is not None or (scaling is not None and scaling.p > 1.0)


class Identity:
    """``R = 1/2 |W|^2``."""

    mixing: Array | None = None  # M, if it is not diagonal
    scales: Array | None = None  # h, or the diagonal of M
    is_fixed = True

    def products(self, T: Array, G: Array) -> Array:
        """What is needed of ``T' G``, (m, c) each, made symmetric."""
        return np.asarray(np.einsum("ik,ik->k", T, G))

    def see(self, products: Array, linear: float) -> None:
        """N, or its diagonal, and the linear part of the dual."""
        self._squares = products

    def price(self) -> float:
        """What the gap has more than those of the rows."""
        return 0.0

    def step(self, tol: float) -> bool:
        """Moves if a gap of `tol` needs that; whether it did."""
        return False

    def scores(self, S: Array) -> Array:
        """Scores (c, n) of sums S of kernel values."""
        return S

    def coefficients(self, T: Array) -> Array:
        """Those of the rows in the class vectors."""
        return T

    def vectors(self) -> Array:
        """W in coordinates of its own, (0, c) if nobody needs it."""
        return np.empty((0, len(self._squares)))

    def penalty(self) -> float:
        """R of the machine."""
        return 0.5 * float(self._squares.sum())

    def bound(self, products: Array, sums: Array | None, linear: float, room: float) -> float:
        """The largest value on the ray through duals with these products, sums and linear part."""
        return Ray(linear, 0.5 * float(products.sum()), room).value


class Scaled(Identity):
    """A block norm, by class scales."""

    is_fixed = False

    def __init__(self, scaling: ClassScaling, n_classes: int, scales: Array | None):
        self._scaling, self._squares = scaling, np.zeros(n_classes)
        self._moves = moves.ClassScales(self, scaling, np.ones(n_classes) if scales is None else scales)
        self._point = moves.FixedPoint([self._moves])

    def see(self, products: Array, linear: float) -> None:
        self._squares = np.maximum(products, 0.0)
        self._moves.see()

    def price(self) -> float:
        return self._moves.price()

    def step(self, tol: float) -> bool:
        if self._squares.any():
            self._point.go(tol)
        return True

    def scores(self, S: Array) -> Array:
        return self._moves.scales[:, None] * S

    def coefficients(self, T: Array) -> Array:
        return self._moves.scales * T

    def vectors(self) -> Array:
        return np.diag(self._moves.scales * np.sqrt(self._squares))

    def penalty(self) -> float:
        return self._moves.primal_penalty

    def bound(self, products: Array, sums: Array | None, linear: float, room: float) -> float:
        return Ray(linear, self._moves.conjugate(np.maximum(products, 0.0)), room).value

    # what the move asks

    def squared_norms(self) -> Array:
        return self._squares

    def rescale(self, scales: Array, squares: Array) -> None:
        self.scales = np.ascontiguousarray(scales)

    def restore(self) -> None:
        """Nothing rests."""


class Paired(Identity):
    """Powers of the distances between class vectors, by weights of pairs."""

    is_fixed = False

    def __init__(self, penalty: Penalty, powers: PairPowers, n_classes: int, settles: bool):
        self._penalty, self._c, self._settles = penalty, n_classes, settles
        self._metric = PairMetric(powers, np.eye(n_classes))
        self._root, self.dual_sum = np.zeros((n_classes, n_classes)), 0.0
        self._moves = moves.PairWeights(self, penalty, self._metric)
        self._point = moves.FixedPoint([self._moves])

    def products(self, T: Array, G: Array) -> Array:
        N = T.T @ G
        return np.asarray(0.5 * (N + N.T))

    def see(self, products: Array, linear: float) -> None:
        self._root, self.dual_sum = _root(products), linear
        if self._settles and self._root.any():
            self._settles = False
            for _ in range(_SETTLING):
                self._moves.see()
                self._go(0.0)
            self._point = moves.FixedPoint([self._moves])
        self._moves.see()

    def price(self) -> float:
        return max(0.0, self._moves.price())

    def step(self, tol: float) -> bool:
        if not self._root.any():
            return False
        before = self._metric.log_Q
        self._go(tol)
        return self._metric.log_Q is not before

    def _go(self, tol: float) -> None:
        with suppress(np.linalg.LinAlgError):  # weights beyond all bounds: they stay
            self._point.go(tol)

    def scores(self, S: Array) -> Array:
        return np.asarray(self._metric.P @ S)

    def coefficients(self, T: Array) -> Array:
        return np.asarray(T @ self._metric.P)

    def vectors(self) -> Array:
        return self.weights()

    def penalty(self) -> float:
        return self._penalty.value(self.weights())

    def bound(self, products: Array, sums: Array | None, linear: float, room: float) -> float:
        model = self._penalty.model(self.weights(), 0.0)
        return bound_of_sums(self._penalty, model, _root(products), sums, linear, room)

    # what the move asks

    def weights(self) -> Array:
        return np.asarray(self._root @ self._metric.P)

    @property
    def dual(self) -> float:
        return self.dual_sum

    def change_metric(self, P: Array, multiple: float) -> None:
        self.mixing, self.scales = P, separate_scales(P)


def separate_scales(P: Array) -> Array:
    """h such that ``x' P x`` is about ``sum_k h_k x_k^2`` for x of sum 0, and nowhere much larger."""
    c = len(P)
    off = P - np.diag(np.diag(P))
    if c == 2:
        across = np.full(2, 0.5 * P[0, 1])
    else:  # the u with u_k + u_l nearest to P_kl, over the pairs
        sums = off.sum(axis=1)
        across = (sums - sums.sum() / (2.0 * c - 2.0)) / (c - 2.0)
    h = np.diag(P) - 2.0 * across
    h = np.maximum(h, _LEAST_SCALE * max(float(h.mean()), 1e-300))
    basis = np.linalg.qr(np.eye(c)[:, 1:] - 1.0 / c)[0]
    lower = np.linalg.inv(np.linalg.cholesky(basis.T * h @ basis))
    largest = float(np.linalg.eigvalsh(lower @ (basis.T @ P @ basis) @ lower.T)[-1])
    return np.ascontiguousarray(max(1.0, largest / _MOST_EXCEEDED) * h)


def _root(N: Array) -> Array:
    """H with ``H'H = N``."""
    values, vectors = np.linalg.eigh(N)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
