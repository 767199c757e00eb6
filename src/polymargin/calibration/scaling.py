"""The scaling of scores that makes their probabilities likely.

Classes: ``p = softmax(a S + beta)``. Labels: ``p_k = sigmoid(a s_k + beta_k)``. One slope a = 1 / temperature for all, and

    a, gamma = argmin  sum_i v_i NLL_i(a S_i + B gamma) + 1/2 |gamma|^2,      beta = B gamma

with weights v of mean 1 and one of few matrices B: none (a temperature alone), a common bias, one bias a class. The likelihood
is that of smoothed targets, one pseudo-row in all, so that a finite slope is best even where all rows are right. The ridge
is a prior of log odds about 1, felt by classes of few rows. The problem is convex: Newton's method.

Which B is decided by the likelihood of rows that had no part in fitting it (`fit_scaling`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polymargin.folds import Folds

Array = NDArray[np.float64]

_STEPS = 100  # of Newton's method; ten are usual
_ENOUGH = 1e-10  # relative decrease promised by a step that is not worth it
_PARTS = 3  # of the rows, to choose among matrices B
_MOST_WORK = 1e10  # n m^2 of the largest system: beyond, biases are not considered
_FLATTEST = 1e-9  # slope, relative to the spread of the scores: below, they say nothing


class Scaling(NamedTuple):
    """Slope, biases, and whether the biases were worth it."""

    slope: float
    biases: Array
    has_biases: bool = False

    def apply(self, S: NDArray[np.floating]) -> NDArray[np.floating]:
        """Scaled scores, in the precision of S."""
        return S * S.dtype.type(self.slope) + self.biases.astype(S.dtype)


class Terms(NamedTuple):
    """The negative log likelihood of scaled scores: value, gradient in the scores, and probabilities."""

    value: float
    gradient: Array  # (n, c), weighted
    P: Array  # (n, c)


class Likelihood(Protocol):
    """What happened, as far as scalings are judged by it."""

    def bases(self) -> list[Array]:
        """The matrices B to choose among, from the simplest."""

    def terms(self, Z: Array) -> Terms:
        """Of scaled scores."""

    def curvature(self, P: Array, S: Array, B: Array) -> Array:
        """The Hessian of the value in (a, gamma)."""

    def losses(self, Z: Array) -> Array:
        """Negative log likelihood of each row, weighted, without smoothing."""

    def part(self, rows: NDArray[np.bool_]) -> Likelihood:
        """Of some rows."""

    def folds(self, n_folds: int, seed: int) -> Folds:
        """Rows that are left out together."""


def fit_scaling(S: Array, outcomes: Likelihood, seed: int = 0) -> Scaling:
    """The scaling of these scores; a larger B is taken if rows left out gain more than a standard error by it."""
    S = S - S.mean(axis=1, keepdims=True) if outcomes.bases()[0].shape[1] == 0 else S  # conditions the sums, nothing else
    bases = [B for B in outcomes.bases() if len(S) * B.shape[1] ** 2 <= _MOST_WORK]
    best, losses = bases[0], None
    for B in bases[1:]:
        losses = _left_out_losses(S, outcomes, best, seed) if losses is None else losses
        others = _left_out_losses(S, outcomes, B, seed)
        gain = losses - others
        if gain.mean() > gain.std() / np.sqrt(len(gain)):
            best, losses = B, others
    return newton(S, outcomes, best)._replace(has_biases=best is not bases[0])


def _left_out_losses(S: Array, outcomes: Likelihood, B: Array, seed: int) -> Array:
    folds = outcomes.folds(_PARTS, seed)
    found = np.zeros(len(S))
    for fold in range(_PARTS):
        left_out = folds == fold
        if left_out.any():
            scaling = newton(S[~left_out], outcomes.part(~left_out), B)
            found[left_out] = outcomes.part(left_out).losses(scaling.apply(S[left_out]))
    return found


def newton(S: Array, outcomes: Likelihood, B: Array) -> Scaling:
    """The best slope, and biases in the span of B."""
    spread = float(S.std())
    if not spread > 0.0:
        return Scaling(1.0, np.zeros(S.shape[1]))
    x = np.zeros(1 + B.shape[1])
    x[0] = 1.0 / spread
    now = _at(x, S, outcomes, B)
    for _ in range(_STEPS):
        gradient = _gradient(x, now, S, B)
        H = outcomes.curvature(now.P, S, B)
        H[np.arange(1, len(x)), np.arange(1, len(x))] += 1.0
        step = np.linalg.lstsq(H, -gradient, rcond=None)[0]
        promise = -float(gradient @ step)
        if not promise > _ENOUGH * abs(now.value):
            break
        x, now, moved = _descended(x, step, promise, now, S, outcomes, B)
        if not moved:
            break
    return Scaling(max(float(x[0]), _FLATTEST / spread), B @ x[1:])


def _at(x: Array, S: Array, outcomes: Likelihood, B: Array) -> Terms:
    terms = outcomes.terms(x[0] * S + B @ x[1:])
    return terms._replace(value=terms.value + 0.5 * float(x[1:] @ x[1:]))


def _gradient(x: Array, now: Terms, S: Array, B: Array) -> Array:
    return np.append(np.vdot(now.gradient, S), B.T @ now.gradient.sum(axis=0) + x[1:])


def _descended(
    x: Array, step: Array, promise: float, now: Terms, S: Array, outcomes: Likelihood, B: Array
) -> tuple[Array, Terms, bool]:
    """Halves the step until it keeps some of its promise; the slope stays positive."""
    t = 1.0 if x[0] + step[0] > 0.0 else -0.9 * x[0] / step[0]
    for _ in range(30):
        there = _at(x + t * step, S, outcomes, B)
        if there.value <= now.value - 1e-4 * t * promise:
            return x + t * step, there, True
        t *= 0.5
    return x, now, False
