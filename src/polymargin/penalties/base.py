"""The contract of a penalty."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Penalty(abc.ABC):
    """A convex function R of the class vectors ``W (d, c)``; the intercept is not penalised, unless by `offset_value`.

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
    """

    name: ClassVar[str]
    identity_hessian: ClassVar[bool] = False
    rotation_invariant: ClassVar[bool] = False
    fixes_sum: ClassVar[bool] = False

    @abc.abstractmethod
    def value(self, W: Array) -> float:
        """``R(W)``."""

    @abc.abstractmethod
    def gradient(self, W: Array) -> Array:
        """A (sub)gradient of R at W."""

    @abc.abstractmethod
    def conjugate(self, Z: Array) -> float:
        """``max_W <Z, W> - R(W)``."""

    @abc.abstractmethod
    def minimizer(self, Z: Array) -> Array:
        """The W that attains the conjugate at Z."""

    def longest_vector(self, value: float) -> float:
        """No class vector of a W with ``R(W) <= value`` is longer; here for penalties of at least ``1/2 |W|^2``."""
        return math.sqrt(2.0 * max(0.0, value))

    def mixing(self, W: Array) -> Array | None:
        """(c, c) matrix M with ``W = X'T M`` at an optimum with signed duals T; None if that is the identity."""
        return None

    # ---- capabilities that the primal Newton methods ask for ---------------------------------------------------------

    @property
    def smooth(self) -> bool:
        """Whether R has a second derivative everywhere; if not, `model` blurs it."""
        return True

    def model(self, W: Array, blur: float) -> Any:
        """R near W: value, gradient, Hessian products (`pairwise.py`), blurred by about `blur` where it is not smooth."""
        raise NotImplementedError(f"the penalty '{self.name}' has no model for Newton's method")

    def largest(self, W: Array, mu: float) -> Any:
        """Slacks and multipliers of a maximum in R, for interior points (`largest.py`); None if there is no maximum."""
        return None

    def value_along(self, W: Array) -> Callable[[float], float]:
        """``R(t W)`` as a function of t >= 0."""
        return lambda t: self.value(t * W)

    def offset_value(self, b: Array) -> float:
        """What the offsets cost; most machines leave them free."""
        return 0.0

    def offset_conjugate(self, sums: Array, scale: float) -> float:
        """``max_b <sums, b> - offset_value(b)``.

        Free offsets need sums of 0, up to the rounding of numbers as large as `scale`.
        """
        return 0.0 if np.abs(sums).max() <= 1e-9 * max(1.0, scale) else np.inf
