"""Penalties that keep the class vectors apart: ``R(W) = 1/2 |W|^2 + (omega/2) A(W)``, with A one of

    angular       log sum_j s_j^2 - (1/r) sum_j log s_j^2,   s_1 .. s_r the singular values of W    (Li et al. 2017, Eq. 9)
    cosine        mean_{i<j} |cos(w_i, w_j)|                                                        (Yu et al. 2011)
    incoherence   (mean_{i<j} cos(w_i, w_j)^2)^(1/2)                                                (Bao et al. 2013)
    diversity     -mean_{i<j} t_ij + var_{i<j} t_ij,         t_ij = arccos |cos(w_i, w_j)|          (Xie et al. 2015)

None is convex. W lies in a space of dimension p, the span of the rows: r = min(p, c) singular values can be positive.
A `floor` d, far below |W|, makes A finite everywhere: ``s^2 + d^2`` stands for ``s^2`` and ``|w|^2 + d^2`` for ``|w|^2``.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties.base import Array, Penalty


def angles_between(W: Array) -> Array:
    """Angles between the lines along the class vectors, in degrees (Li et al. 2017, Eq. 3): 0 to 90, ``(c, c)``.

    A vector of length 0 counts as at right angles to all others.
    """
    norms = np.linalg.norm(W, axis=0)
    unit = W / np.where(norms > 0.0, norms, 1.0)
    angles = np.degrees(np.arccos(np.clip(np.abs(unit.T @ unit), 0.0, 1.0)))
    np.fill_diagonal(angles, 0.0)
    return np.asarray(angles)


def smallest_angle(angles: Array) -> float:
    """The smallest off the diagonal."""
    return float(np.where(np.eye(len(angles), dtype=bool), np.inf, angles).min())


@dataclass(frozen=True)
class Angles:
    """A as a value: none of its attributes changes. Kinks are rounded to a `width`, about `multipliers` (see `Pairwise`)."""

    rank: int
    floor: float
    width: float = 0.0
    multipliers: Array | float = 0.0
    smooth: ClassVar[bool] = False  # whether there are no kinks, but where vectors vanish

    @property
    def least(self) -> float:
        """A lower bound of A."""
        return 0.0

    def value(self, W: Array) -> float:
        raise NotImplementedError

    def gradient(self, W: Array) -> Array:
        raise NotImplementedError

    def curvature(self, W: Array) -> float:
        """An estimate of the largest curvature of A at W."""
        raise NotImplementedError

    def rounded(self, width: float) -> Self:
        return replace(self, width=width)

    def settled_at(self, W: Array) -> Self:
        """The multipliers of the rounded kinks at W are the next to be rounded about."""
        return self


@dataclass(frozen=True)
class Angular(Angles):
    """The decorrelation regulariser: least, log r, when all r singular values are equal."""

    smooth: ClassVar[bool] = True

    @property
    def least(self) -> float:
        return math.log(self.rank)

    def value(self, W: Array) -> float:
        squares = self._squares(np.linalg.svd(W, compute_uv=False))
        if not squares.any():  # floor 0: the limit of a vanishing floor
            return self.least
        with np.errstate(divide="ignore"):
            return float(np.log(squares.sum()) - np.log(squares).mean())

    def gradient(self, W: Array) -> Array:
        U, s, Vt = np.linalg.svd(W, full_matrices=False)
        squares, s, r = self._squares(s), s[: self.rank], self.rank
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(s > 0.0, 2.0 * s / squares.sum() - 2.0 * s / (r * squares), 0.0)
        return (U[:, :r] * slopes) @ Vt[:r]

    def curvature(self, W: Array) -> float:
        squares = self._squares(np.linalg.svd(W, compute_uv=False))
        return 2.0 / float(squares.sum()) + 2.0 / (self.rank * float(squares.min())) if squares.all() else math.inf

    def _squares(self, s: NDArray[np.floating[Any]]) -> Array:
        padded = np.zeros(self.rank)  # W may have fewer rows than the rank of the features
        padded[: min(len(s), self.rank)] = s[: self.rank]
        return padded**2 + self.floor**2


@dataclass(frozen=True)
class Pairwise(Angles):
    """A function of the cosines s of all pairs of class vectors. A vector of length 0 is at right angles to all others.

    ``|s|`` has a kink at right angles, where the best angles often lie. It is the largest of ``m s`` with ``|m| <= 1``; a
    `width` w rounds it to the largest of ``m s - w/2 (m - m')^2``. Rounded and exact values agree at an s of 0 whose
    multiplier is m': as `multipliers` settle, kinks are met exactly by a w that is not small.
    """

    def value(self, W: Array) -> float:
        S, _, pairs = self._cosines(W)
        return self._of_cosines(S[pairs])[0]

    def gradient(self, W: Array) -> Array:
        """With the subgradient 0 of ``|s|`` at 0."""
        S, norms, pairs = self._cosines(W)
        P = np.zeros_like(S)
        P[pairs] = self._of_cosines(S[pairs])[1]
        P += P.T
        return (W / norms) @ P / norms - W * ((P * S).sum(axis=1) / norms**2)

    def curvature(self, W: Array) -> float:
        _, norms, _ = self._cosines(W)
        return 2.0 / (len(norms) * float(np.square(norms).min())) if norms.all() else math.inf

    def settled_at(self, W: Array) -> Self:
        S, _, pairs = self._cosines(W)
        return replace(self, multipliers=self._sizes(S[pairs])[1])

    def _cosines(self, W: Array) -> tuple[Array, Array, tuple[NDArray[Any], ...]]:
        gram = W.T @ W
        norms = np.sqrt(gram.diagonal() + self.floor**2)
        safe = np.where(norms > 0.0, norms, 1.0)
        return np.clip(gram / np.outer(safe, safe), -1.0, 1.0), safe, np.triu_indices(len(gram), 1)

    def _sizes(self, s: Array) -> tuple[Array, Array]:
        """``|s|``, rounded, and the multipliers, which are its slopes."""
        if not self.width:
            return np.abs(s), np.sign(s)
        m = np.clip(self.multipliers + s / self.width, -1.0, 1.0)
        return m * s - 0.5 * self.width * (m - self.multipliers) ** 2, m

    def _of_cosines(self, s: Array) -> tuple[float, Array]:
        """A and its slopes in the cosines of all pairs."""
        raise NotImplementedError


@dataclass(frozen=True)
class Cosine(Pairwise):
    def _of_cosines(self, s: Array) -> tuple[float, Array]:
        sizes, m = self._sizes(s)
        return float(sizes.mean()), m / s.size


@dataclass(frozen=True)
class Incoherence(Pairwise):
    """``|s| / sqrt(pairs)`` for the vector s of all cosines, whose multipliers are a vector of length 1 at most."""

    def _sizes(self, s: Array) -> tuple[Array, Array]:
        if not self.width:
            length = float(np.linalg.norm(s))
            return s * s / length if length > 0.0 else np.zeros_like(s), s / length if length > 0.0 else np.zeros_like(s)
        m = self.multipliers + s / self.width
        m = m / max(1.0, float(np.linalg.norm(m)))
        return m * s - 0.5 * self.width * (m - self.multipliers) ** 2, m

    def _of_cosines(self, s: Array) -> tuple[float, Array]:
        sizes, m = self._sizes(s)
        root = math.sqrt(s.size)
        return float(sizes.sum()) / root, m / root


@dataclass(frozen=True)
class Diversity(Pairwise):
    @property
    def least(self) -> float:
        return -0.5 * math.pi

    def _of_cosines(self, s: Array) -> tuple[float, Array]:
        sizes, m = self._sizes(s)
        angles = np.arccos(sizes)
        mean = angles.mean()
        # next to an angle of 0 the slope of arccos is unbounded: it ends at 1e6
        slopes = -m / np.sqrt(np.maximum(1.0 - sizes * sizes, 1e-12))
        return float(angles.var() - mean), (2.0 * (angles - mean) - 1.0) * slopes / s.size


REGULARIZERS: dict[str, type[Angles]] = {
    "angular": Angular,
    "cosine": Cosine,
    "incoherence": Incoherence,
    "diversity": Diversity,
}


class AnglePenalty(Penalty):
    """``1/2 |W|^2 + (omega/2) A(W)``. Not convex: `conjugate` and `minimizer` are those of ``1/2 |W|^2 + (omega/2) min A``.

    So ``Problem.dual`` is still a lower bound.

    `settle` is the one thing about any penalty that changes: only the solver knows the rows, and with them the rank and the
    scale of A. What it leaves there is what it returns the objective of.
    """

    name = "angular regulariser"

    def __init__(self, omega: float, regularizer: str = "angular", rank: int = 1, floor: float = 0.0):
        self.omega, self.regularizer = omega, regularizer
        self.settle(rank, floor)

    def settle(self, rank: int, floor: float) -> None:
        """Says how many singular values can be positive, and where they are floored."""
        self.angles = REGULARIZERS[self.regularizer](max(1, rank), floor)

    @property
    def angular(self) -> AnglePenalty:
        return self

    def with_(self, omega: float | None = None, angles: Angles | None = None) -> AnglePenalty:
        """The same with another weight, or with rounded kinks."""
        other = copy(self)
        other.omega = self.omega if omega is None else omega
        other.angles = self.angles if angles is None else angles
        return other

    @property
    def least(self) -> float:
        """The constant part of the lower bound ``R(W) >= 1/2 |W|^2 + least``."""
        return 0.5 * self.omega * self.angles.least

    def above_least(self, value: float) -> float:
        """A value of F without its constant, for ratios: at least what rounding may hide of it."""
        return max(value - self.least, float(np.finfo(np.float64).eps) * abs(value), 1e-300)

    def apart(self, W: Array) -> float:
        """``(omega/2) A(W)``."""
        return 0.5 * self.omega * self.angles.value(W) if self.omega else 0.0

    def pull(self, W: Array) -> Array:
        """``(omega/2) grad A(W)``."""
        return 0.5 * self.omega * self.angles.gradient(W)

    def longest_vector(self, value: float, n_classes: int) -> float:
        return super().longest_vector(value - self.least, n_classes)

    def value(self, W: Array) -> float:
        return 0.5 * float((W * W).sum()) + self.apart(W)

    def gradient(self, W: Array) -> Array:
        return W + self.pull(W)

    def conjugate(self, Z: Array) -> float:
        return 0.5 * float((Z * Z).sum()) - self.least

    def minimizer(self, Z: Array) -> Array:
        return Z
