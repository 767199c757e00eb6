"""What a penalty may offer to a solver besides values and conjugates: the types that `Penalty` declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Ray(NamedTuple):
    """``R*(t Z)`` is about ``power * t^exponent + square * t^2`` for t up to `longest`."""

    power: float
    exponent: float
    square: float
    longest: float


class Coupling(NamedTuple):
    """A quadratic R whose Hessian is ``own I + across 11'`` between the classes; an infinite `across` fixes the sum.

    Its inverse is split by classes, ``w_k = scale (z_k - mean z) + common (mean z)`` attains the conjugate at Z.
    """

    scale: float
    common: float
    own: float
    across: float


class HessianModel(Protocol):
    """R near W for Newton's method: a graph on the classes with weights Q and stretches K (`pairwise.py`), and a ridge."""

    @property
    def W(self) -> Array: ...
    @property
    def value(self) -> float: ...
    @property
    def gradient(self) -> Array: ...
    @property
    def Q(self) -> Array: ...
    @property
    def K(self) -> Array: ...
    @property
    def shared(self) -> float: ...
    @property
    def ridge(self) -> float: ...
    def product(self, V: Array) -> Array:
        """Hessian times V."""

    def add_to(self, H: Array, n_rows: int) -> None:
        """Adds the Hessian to H, with `n_rows` rows for each class."""

    def apart(self, n_rows: int) -> tuple[HessianModel, Array, Array]:
        """The model without stretches that have a part in common; their vectors and weights."""


class MaximumTerm(Protocol):
    """Slacks and multipliers of a maximum in R as an interior point carries them along (`largest.py`)."""

    @property
    def n_products(self) -> int: ...
    def products(self) -> float: ...
    def model(self, W: Array) -> Any: ...
    def aim(self, model: Any, mu: float, *, correct: bool) -> Any: ...
    def follow(self, W: Array, D: Array, pulls: Array | None = None) -> None: ...
    def longest(self) -> float: ...
    def products_after(self, a: float) -> float: ...
    def rise(self, a: float) -> float: ...
    def barrier(self, a: float, mu: float) -> float: ...
    def take(self, a: float) -> None: ...


class ClassScaling(Protocol):
    """R as a minimum over class scales, ``min_beta sum_k |w_k|^2 / (2 beta_k)``: the move of ascent with class scales.

    ``R = 1/2 |norms|_p^2`` of the norms of the class vectors, ``R* = 1/2 |norms|_q^2`` with ``q = dual_p``.
    """

    @property
    def p(self) -> float: ...
    @property
    def dual_p(self) -> float: ...
    def of_norms(self, norms: Array) -> Array:
        """The best scales for these norms of the class vectors."""

    def log_step(self, scales: Array, norms: Array) -> Array:
        """How far the best scales are from these, in logarithms."""

    def scales_at(self, logs: Array) -> Array:
        """Normalised scales from their logarithms."""

    def normalised(self, scales: Array) -> Array:
        """The multiple of the scales that is allowed."""


class PairPowers(Protocol):
    """``R = sum_{k<l} |w_k - w_l|^p + epsilon |W|^2`` with a finite p: the move of ascent with weights of pairs."""

    @property
    def p(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    def squares(self, W: Array) -> Array:
        """Squared distances of all pairs k < l."""


Along = Callable[[float], float]  # a function of the length of a ray
