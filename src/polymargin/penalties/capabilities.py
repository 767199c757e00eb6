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


class Threshold(NamedTuple):
    """``R = 1/2 |W|^2 + l1 norm``: W is Z shortened by l1, each entry, or the classes of a feature as one vector."""

    l1: float
    by_features: bool


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


class Carried(Protocol):
    """R as a Newton method carries it along: blurred (`blurred.py`), or a maximum with its multipliers (`largest.py`)."""

    blur: float  # how far it is from R, about

    @property
    def n_products(self) -> int:
        """Of slacks and multipliers."""

    def sharpen(self, W: Array, blur: float) -> None:
        """Another blur, near W, if it has any."""

    def model(self, W: Array) -> Any:
        """R near W."""

    def aim(self, model: Any, mu: float, *, correct: bool) -> Any:
        """The model whose gradient a Newton system takes that aims at products of mu; `correct` for the last moves."""

    def follow(self, model: Any, D: Array, pulls: Array | None = None) -> None:
        """Notes the step D of W; `pulls` are those of the model's stretches, if they are known."""

    def longest(self) -> float:
        """The longest step that keeps slacks and multipliers positive."""

    def products_after(self, a: float) -> float:
        """Their sum after a step of length a."""

    def strays(self, a: float, bend: float) -> float:
        """How far R leaves its model, of second derivative `bend` along the step, within a step of length a."""

    def value_after(self, W: Array, a: float, mu: float) -> float:
        """R, or its barrier, after a step of length a, which leads to W."""

    def take(self, a: float) -> None:
        """Moves on with W."""


class Kink(Protocol):
    """A norm of the class vectors, ``max_{Y in B} <Y, W>`` over a ball B, by the projection onto it."""

    def project(self, Y: Array) -> Array:
        """The nearest point of the ball."""

    def along(self, Y: Array, V: Array) -> Array:
        """How the projection of Y moves if Y moves by V."""


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
    """R made of powers p of the distances of pairs, and ``epsilon |W|^2``: the move of ascent with weights of pairs."""

    @property
    def p(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    def squares(self, W: Array) -> Array:
        """Squared distances of all pairs k < l."""

    def log_weights(self, squares: Array) -> Array:
        """log Q of ``dR = sum_{k<l} Q_kl (w_k - w_l)(e_k - e_l)'`` at these squared distances."""


Along = Callable[[float], float]  # a function of the length of a ray
