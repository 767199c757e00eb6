"""The contract of a penalty."""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties.capabilities import (
    Along,
    Carried,
    ClassScaling,
    Coupling,
    HessianModel,
    Kink,
    PairPowers,
    Ray,
    Threshold,
)
from polymargin.penalties.pairs.blurred import Blurred

if TYPE_CHECKING:
    from polymargin.penalties.angular import AnglePenalty

Array = NDArray[np.float64]

_ENTRIES_AT_ONCE = 1 << 20


class Penalty(abc.ABC):
    """A function R of the class vectors ``W (d, c)``; the intercept is not penalised, unless by `offset_value`.

    Everything that a solver may ask for is declared here; None and False mean "not offered", and so does the error of a
    method that says who misses what. A penalty is a value: its parameters do not change, but for what `AnglePenalty` says.

    Attributes
    ----------
    name : str
        How errors and documents call it.
    identity_hessian : bool
        Whether ``R(W) = 1/2 |W|^2``, which makes ``W = sum_i x_i tau_i'`` in the dual loops.
    rotation_invariant : bool
        Whether ``R(QW) = R(W)`` for every orthogonal Q: then W may be sought in the span of the rows.
    fixes_sum : bool
        Whether R is finite at ``sum_k w_k = 0`` only, which rounded vectors miss.
    centres : bool
        Whether one vector added to all w_k is best chosen such that they add up to zero.
    tilt : array (d, c) or None
        ``-<tilt, W>`` is the linear part of R, beside `class_metric`.
    has_model : bool
        Whether it has `model` and `conjugate_along`, for Newton's methods on class vectors.
    class_scales : ClassScaling or None
        R as a minimum over class scales.
    pair_powers : PairPowers or None
        R as powers of the distances of pairs.
    """

    name: str
    identity_hessian: ClassVar[bool] = False
    rotation_invariant: bool = False
    fixes_sum: ClassVar[bool] = False
    centres: bool = False
    has_model: bool = False
    tilt: Array | None = None

    @abc.abstractmethod
    def value(self, W: Array) -> float:
        """``R(W)``."""

    def value_of_sparse(self, W: Any) -> float:
        """The same of a CSR matrix."""
        return self.value(W.toarray())

    @abc.abstractmethod
    def gradient(self, W: Array) -> Array:
        """A (sub)gradient of R at W."""

    @abc.abstractmethod
    def conjugate(self, Z: Array) -> float:
        """``max_W <Z, W> - R(W)``."""

    @abc.abstractmethod
    def minimizer(self, Z: Array) -> Array:
        """The W that attains the conjugate at Z."""

    def longest_vector(self, value: float, n_classes: int) -> float:
        """No class vector of a W with ``R(W) <= value`` is longer; here for penalties of at least ``1/2 |W|^2``."""
        return math.sqrt(2.0 * max(0.0, value))

    def mixing(self, W: Array) -> Array | None:
        """(c, c) matrix M with ``W = X'T M`` at an optimum with signed duals T; None if that is the identity."""
        return None

    # ---- moves of dual ascent -----------------------------------------------------------------------------------------

    @property
    def class_scales(self) -> ClassScaling | None:
        return None

    @property
    def pair_powers(self) -> PairPowers | None:
        return None

    def coupling(self, n_classes: int) -> Coupling | None:
        """The Hessian of a quadratic R between the classes, for label problems; None if R is no such function."""
        return None

    @property
    def threshold(self) -> Threshold | None:
        """What shortens Z to W, if R is ``1/2 |W|^2`` and such a norm."""
        return None

    @property
    def angular(self) -> AnglePenalty | None:
        """R itself if it is ``1/2 |W|^2`` and a part that is not convex, for descent by convex models."""
        return None

    # ---- any loss: Newton's method with multipliers on the unknowns -----------------------------------------------------

    def class_metric(self, W: Array) -> Array | None:
        """(c, c) matrix L with ``dR = W L`` at W, but for `kink` and `tilt`; ``1/2 <W, W L>`` grows as fast as R at least.

        None if R offers no such model of itself; then it is `smooth` and has its `model`, or no method takes it.
        """
        return None

    @property
    def kink(self) -> Kink | None:
        """The part of R that is a norm, beside ``1/2 |W|^2``."""
        return None

    def best_shift(self, Z: Array) -> Array:
        """About the v (d, 1) with the least ``R*(Z + v 1')``: the conjugate if the class vectors must add up to zero."""
        return np.asarray(-Z.mean(axis=1, keepdims=True))

    # ---- Newton's methods on class vectors ----------------------------------------------------------------------------

    @property
    def smooth(self) -> bool:
        """Whether R has a second derivative everywhere; if not, `model` blurs it."""
        return True

    def width(self, W: Array, blur: float) -> float:
        """The width of kinks in `model` that blurs R by about `blur` near W; 0 if R is smooth."""
        return 0.0

    def model(self, W: Array, width: float) -> HessianModel:
        """R near W: value, gradient, Hessian products, with kinks of this width where it is not smooth."""
        self._misses("model for Newton's method")

    def carried(self, W: Array, mu: float) -> Carried:
        """R as Newton's methods carry it along, from W and products of mu; most penalties have none."""
        return Blurred(self)

    def value_along(self, W: Array) -> Along:
        """``R(t W)`` as a function of t >= 0."""
        return lambda t: self.value(t * W)

    def conjugate_along(self, model: Any, Z: Array) -> tuple[Along, Ray]:
        """An upper bound of ``R*(t Z)`` as a function of t and its shape, tight for t = 1 at the gradient of the model."""
        self._misses("bound of its conjugate along a ray")

    # ---- offsets ------------------------------------------------------------------------------------------------------

    def offset_value(self, b: Array) -> float:
        """What the offsets cost; most machines leave them free."""
        return 0.0

    def offset_gradient(self, b: Array) -> Array:
        """Its gradient, linear in b."""
        return np.zeros_like(b)

    def offset_conjugate(self, sums: Array, scale: float) -> float:
        """``max_b <sums, b> - offset_value(b)``.

        Free offsets need sums of 0, up to the rounding of numbers as large as `scale`.
        """
        return 0.0 if np.abs(sums).max() <= 1e-9 * max(1.0, scale) else np.inf

    def _misses(self, what: str) -> NoReturn:
        raise NotImplementedError(f"the penalty '{self.name}' has no {what}")


def sum_of_squares(W: Array) -> float:
    """``|W|^2``, some rows at a time: squares of all entries would take as much memory as W."""
    step = max(1, _ENTRIES_AT_ONCE // max(1, W.shape[1]))
    return float(sum((W[start : start + step] ** 2).sum() for start in range(0, W.shape[0], step)))
