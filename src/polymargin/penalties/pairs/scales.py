"""Distances of pairs of class vectors as one number, in the two scales of M3SVC.

    power    sum r^p                              p = inf:  (max r)^2
    norm     (c - 1)/4 (mean r^p)^(2/p)           p = inf:  (c - 1)/4 (max r)^2

Both are ``factor |r|_p^degree``, and one is a growing function of the other: they have the same machines, at another C. In
the scale of a norm C means the same for every p and number of classes: equal distances have the same R for all p, and with
p = 2 it is ``1/2 |W|^2`` at sum zero. Second derivatives follow those of ``sum r^p``, and the gradient itself:

    d2R = steepness (p - 1) diag(r^(p-2)) + bend dR dR',     dR = steepness r^(p-1),     bend = (degree - p) / (degree R).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties.capabilities import Ray

Array = NDArray[np.float64]

_LARGEST_LOG = 700.0  # of a double


class Growth(NamedTuple):
    """R at distances ``r = unit u``: its value, and slopes ``steepness u^(p-1)``."""

    value: float
    steepness: float
    u: Array
    unit: float
    bend: float

    def slopes(self, power: float, less: int) -> Array:
        """``dR/dr / r^less`` of R made of powers p; 0 where that is beyond all bounds."""
        with np.errstate(all="ignore"):
            found = self.steepness / np.float64(self.unit) ** less * self.u ** (power - 1.0 - less)
        found[~np.isfinite(found)] = 0.0
        return np.asarray(found)


class Scale(ABC):
    """One of the two, for a power p."""

    name: str

    def __init__(self, p: float):
        self.p = p

    @property
    @abstractmethod
    def degree(self) -> float:
        """``R(t r) = t^degree R(r)``."""

    @abstractmethod
    def factor(self, n_pairs: int) -> float:
        """R over ``|r|_p^degree``."""

    @abstractmethod
    def at(self, r: Array) -> Growth:
        """R and its slopes at distances r, for a finite p."""

    @abstractmethod
    def log_weights(self, squares: Array) -> Array:
        """Logarithms of ``dR/dr / r`` at these squared distances, for a finite p."""

    @abstractmethod
    def width(self, r: Array, blur: float) -> float:
        """The eta such that R grows by `blur` if every r^p grows by eta^p, for a finite p."""

    def along(self, r: Array, ridge: float) -> Callable[[float], float]:
        """``R(t r) + t^2 ridge`` as a function of t >= 0.

        In parts of the largest distance: a large power of a number far from 1 is beyond all doubles, that of a product need
        not be.
        """
        top = float(r.max(initial=0.0))
        if top == 0.0:
            return lambda t: t * t * ridge
        degree = self.degree
        with np.errstate(under="ignore"):
            whole = self.factor(len(r)) * _norm(r / top, self.p) ** degree

        def value(t: float) -> float:
            try:
                return float(t * top) ** degree * whole + float(t * t) * ridge
            except OverflowError:
                return float("inf")

        return value

    def longest(self, value: float, n_pairs: int) -> float:
        """The longest distance that R may have, if it is at most `value`."""
        return float((max(0.0, value) / self.factor(n_pairs)) ** (1.0 / self.degree))

    def flow_ray(self, s: Array, square: float) -> Ray:
        """The shape of ``R*(t s) + t^2 square``, for R of distances alone."""
        if self.degree == 2.0:
            return Ray(0.0, 2.0, self.dual_square(s) + square, np.inf)
        if self.p == 1.0:
            return Ray(0.0, 2.0, square, 1.0 / max(float(s.max(initial=0.0)), 1e-300))
        q = self.p / (self.p - 1.0)
        return Ray((self.p - 1.0) * float(((s / self.p) ** q).sum()), q, square, np.inf)

    def dual_square(self, s: Array) -> float:
        """The conjugate of a square: ``|s|_q^2 / (4 factor)`` with the dual norm."""
        q = np.inf if self.p == 1.0 else 1.0 if np.isinf(self.p) else self.p / (self.p - 1.0)
        top = float(s.max(initial=0.0))
        return (top * _norm(s / top, q)) ** 2 / (4.0 * self.factor(len(s))) if top > 0.0 else 0.0


class PowerScale(Scale):
    """``sum r^p``, as the paper has it."""

    name = "power"

    @property
    def degree(self) -> float:
        return 2.0 if np.isinf(self.p) else self.p

    def factor(self, n_pairs: int) -> float:
        return 1.0

    def at(self, r: Array) -> Growth:
        return Growth(float((r**self.p).sum()), self.p, r, 1.0, 0.0)

    def log_weights(self, squares: Array) -> Array:
        return np.asarray(np.log(self.p) + (0.5 * self.p - 1.0) * np.log(squares))

    def width(self, r: Array, blur: float) -> float:
        return float((blur / max(1, len(r))) ** (1.0 / self.p))


class NormScale(Scale):
    """``(c - 1)/4 (mean r^p)^(2/p)``."""

    name, degree = "norm", 2.0

    def factor(self, n_pairs: int) -> float:
        n_classes = 0.5 + np.sqrt(0.25 + 2.0 * n_pairs)
        shared = 1.0 if np.isinf(self.p) else n_pairs ** (-2.0 / self.p)
        return float(0.25 * (n_classes - 1.0) * shared)

    def at(self, r: Array) -> Growth:
        """Where all distances are 0, which has no second derivative, the slopes are those of equal distances."""
        top, factor, p = float(r.max(initial=0.0)), self.factor(len(r)), self.p
        if not top > 0.0:
            return Growth(0.0, 2.0 * factor * len(r) ** (2.0 / p - 1.0), np.ones_like(r), 1.0, 0.0)
        u = r / top
        whole = float((u**p).sum())
        value = factor * top * top * whole ** (2.0 / p)
        return Growth(value, 2.0 * factor * top * whole ** (2.0 / p - 1.0), u, top, (2.0 - p) / (2.0 * value))

    def log_weights(self, squares: Array) -> Array:
        p, top = self.p, float(squares.max(initial=1e-200))
        logs = np.log(squares / top)
        whole = float(np.exp(0.5 * p * logs).sum())
        return np.asarray(np.log(2.0 * self.factor(len(squares))) + (2.0 / p - 1.0) * np.log(whole) + (0.5 * p - 1.0) * logs)

    def width(self, r: Array, blur: float) -> float:
        m, p, top = max(1, len(r)), self.p, float(r.max(initial=0.0))
        if not top > 0.0:
            return float((blur / self.factor(m)) ** 0.5 * m ** (-1.0 / p))
        u = r / top
        share = blur / (self.factor(m) * top * top * _norm(u, p) ** 2)
        grown = np.expm1(min(0.5 * p * np.log1p(share), _LARGEST_LOG))
        return float(top * (_norm(u, p) * (grown / m) ** (1.0 / p)))


SCALES: dict[str, type[Scale]] = {"norm": NormScale, "power": PowerScale}


def _norm(u: Array, p: float) -> float:
    """``|u|_p`` of numbers of at most 1, one of which is 1."""
    return 1.0 if np.isinf(p) else float((u**p).sum()) ** (1.0 / p)
