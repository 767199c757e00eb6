"""The scaling of scores that makes their probabilities likely.

Classes: ``p = (1 - lapse) softmax(Z) + lapse / c``. Labels: ``p_k = sigmoid(z_k)``. With scores S of rows left out,

    Z = a (S + S D) + beta

One slope a = 1 / temperature for all classes; biases beta and the mixing D of scores only if they pay. All is convex in the
scaled scores:

- slope and biases by Newton's method on ``sum_i v_i NLL_i + 1/2 |gamma|^2``, ``beta = B gamma`` with one of few matrices B
  (none, a common bias, one bias a class), weights v of mean 1. Targets are smoothed by one pseudo-row in all, so that a
  finite slope is best even where all rows are right. The ridge is a prior of log odds about 1, felt by classes of few rows.
- D (and beta) by L-BFGS, with a prior of standard deviation 0.1 on the entries of D (matrix scaling; Guo et al. 2017, Kull
  et al. 2019). It repairs what a machine's scores confuse.
- without D: the lapse, the share of rows about which scores say nothing (odd rows, wrong labels), with the slope that goes
  with it.

What is added to the slope is decided by the likelihood of rows that had no part in fitting it (`fit_scaling`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize, minimize_scalar

from polymargin.selection.folds import Folds

Array = NDArray[np.float64]

_STEPS = 100  # of Newton's method; ten are usual
_ENOUGH = 1e-5  # relative decrease promised by a step that is not worth it
_FIRST = 500  # rows that find the slope to start from
_STEEP = 2.5  # slope that Newton's method starts from, over the spread of the scores: it creeps up from flatter ones
_PARTS = 3  # of the rows, to choose what pays
_CLEARLY = 3.0  # standard errors of a gain that need not be looked at again
_ROWS_A_BIAS = 50  # of each class, on average: fewer learn the offsets of a fold's machine by heart
_MOST_WORK = 2e9  # n c^2 up to which biases, and
_MOST_MIXING = 5e6  # up to which mixing is considered, with
_ROWS_TO_MIX = 1500, 10  # rows at least, and for each entry of D
_ROWS_WANTED = 1800, 5000  # for a few numbers, and at most for the entries of D
_PRIOR = 100.0  # inverse variance of the entries of D
_FLATTEST = 1e-9  # slope, relative to the spread of the scores: below, they say nothing


class Scaling(NamedTuple):
    """Slope a, biases, the mixing I + D (None is I) and the lapse."""

    slope: float
    biases: Array
    mixing: Array | None = None
    lapse: float = 0.0

    def apply(self, S: NDArray[Any]) -> NDArray[Any]:
        """Scaled scores, in the precision of S."""
        mixed = S if self.mixing is None else S @ self.mixing.astype(S.dtype)
        return np.asarray(mixed * S.dtype.type(self.slope) + self.biases.astype(S.dtype))


class Terms(NamedTuple):
    """The negative log likelihood of scaled scores: value, gradient in the scores, and probabilities."""

    value: float
    gradient: Array  # (n, c), weighted
    P: Array  # (n, c)


class Likelihood(Protocol):
    """What happened, as far as scalings are judged by it."""

    @property
    def weight(self) -> Array:
        """Of the rows, or of all entries."""

    @property
    def mixes(self) -> bool:
        """Whether scores of several classes may tell about one."""

    @property
    def lapses(self) -> bool:
        """Whether a row may belong to any class, whatever its scores are."""

    def bases(self) -> list[Array]:
        """The matrices B to choose among, from the simplest."""

    def terms(self, Z: Array) -> Terms:
        """Of scaled scores."""

    def curvature(self, P: Array, S: Array, B: Array) -> Array:
        """The Hessian of the value in (a, gamma)."""

    def losses(self, Z: Array) -> Array:
        """Negative log likelihood of each row, weighted, without smoothing."""

    def part(self, rows: NDArray[Any]) -> Likelihood:
        """Of some rows."""

    def folds(self, n_folds: int, seed: int) -> Folds:
        """Rows that are left out together."""


Fit = Callable[[Array, Likelihood, Scaling], Scaling]


def rows_wanted(n_classes: int) -> int:
    """How many rows should have scores; more of them are not worth their time."""
    usual, most = _ROWS_WANTED
    for_mixing = _ROWS_TO_MIX[1] * n_classes**2
    return max(usual, for_mixing) if for_mixing <= most else usual


def fit_scaling(S: Array, outcomes: Likelihood, seed: int = 0) -> Scaling:
    """The scaling of these scores: a slope, and what pays beside it by the likelihood of rows left out."""
    c, S = S.shape[1], np.asfortranarray(S)  # class by class: maxima and sums over few classes take half of the time
    plain = newton(S, outcomes, outcomes.bases()[0], _first_slope(S, outcomes))
    best, at_stake = plain, outcomes.losses(plain.apply(S))  # one number learns nothing by heart
    richer = _richer(len(S), c, outcomes)
    for fit in richer:
        losses, of_some = _left_out_losses(S, outcomes, fit, plain, at_stake, seed, is_last=fit is richer[-1])
        if _pays(at_stake - losses):
            best, at_stake = fit(S, outcomes, of_some), losses
    return with_lapse(S, outcomes, best) if outcomes.lapses and best.mixing is None else best


def _richer(n: int, c: int, outcomes: Likelihood) -> list[Fit]:
    """What may be fitted beside the slope, as far as rows and time allow."""
    found: list[Fit] = [with_biases] if n * c**2 <= _MOST_WORK and n >= _ROWS_A_BIAS * c else []
    fewest, an_entry = _ROWS_TO_MIX
    mixes = outcomes.mixes and c > 2 and n * c**2 <= _MOST_MIXING and n >= max(fewest, an_entry * c**2)
    return [*found, with_mixing] if mixes else found


def _pays(gains: Array, errors: float = 1.0) -> bool:
    """Whether the rows gain in sum, by more than so many standard errors."""
    return float(gains.sum()) > errors * float(gains.std() * np.sqrt(len(gains)))


def _left_out_losses(
    S: Array, outcomes: Likelihood, fit: Fit, start: Scaling, at_stake: Array, seed: int, *, is_last: bool
) -> tuple[Array, Scaling]:
    """The loss of every row by a scaling of others, and the last of these scalings.

    Of some rows only, once these say that it does not pay, or, where nothing else is to be compared with it, that it does.
    """
    folds, found, scaling = outcomes.folds(_PARTS, seed), at_stake.copy(), start
    for fold in range(_PARTS):
        out = folds == fold
        if out.any():
            scaling = fit(np.asfortranarray(S[~out]), outcomes.part(~out), start)
            found[out] = outcomes.part(out).losses(scaling.apply(S[out]))
        gains = at_stake - found
        if gains.sum() < 0.0 or (is_last and _pays(gains[folds <= fold], _CLEARLY)):
            break
    return found, scaling


# ---- slope and biases ---------------------------------------------------------------------------------------------------


def _first_slope(S: Array, outcomes: Likelihood) -> Scaling | None:
    """By some of the rows, where there are many."""
    if len(S) < 4 * _FIRST:
        return None
    some = np.arange(0, len(S), len(S) // _FIRST)
    return newton(S[some], outcomes.part(some), outcomes.bases()[0], None)


def with_biases(S: Array, outcomes: Likelihood, start: Scaling) -> Scaling:
    """Slope and one bias a class."""
    return newton(S, outcomes, outcomes.bases()[-1], start)


def newton(S: Array, outcomes: Likelihood, B: Array, start: Scaling | None = None) -> Scaling:
    """The best slope, and biases in the span of B."""
    spread = float(S.std())
    if not spread > 0.0:
        return Scaling(1.0, np.zeros(S.shape[1]))
    x = np.zeros(1 + B.shape[1])
    x[0] = _STEEP / spread if start is None else start.slope
    if start is not None and B.shape[1]:
        x[1:] = np.linalg.lstsq(B, start.biases, rcond=None)[0]
    now = _at(x, S, outcomes, B)
    for _ in range(_STEPS):
        gradient = np.append(np.einsum("ik,ik->", now.gradient, S), B.T @ now.gradient.sum(axis=0) + x[1:])
        H = outcomes.curvature(now.P, S, B)
        H[np.arange(1, len(x)), np.arange(1, len(x))] += 1.0
        step = -gradient / H[0] if len(x) == 1 and H[0, 0] > 0.0 else np.linalg.lstsq(H, -gradient, rcond=None)[0]
        promise = -float(gradient @ step)
        if not promise > _ENOUGH * abs(now.value):
            break
        found = _descended(x, step, promise, now.value, S, outcomes, B)
        if found is None:
            break
        x, now = found
    return Scaling(max(float(x[0]), _FLATTEST / spread), B @ x[1:])


def _at(x: Array, S: Array, outcomes: Likelihood, B: Array) -> Terms:
    terms = outcomes.terms(x[0] * S + B @ x[1:])
    return terms._replace(value=terms.value + 0.5 * float(x[1:] @ x[1:]))


def _descended(
    x: Array, step: Array, promise: float, value: float, S: Array, outcomes: Likelihood, B: Array
) -> tuple[Array, Terms] | None:
    """Halves the step until it keeps some of its promise; the slope stays positive."""
    t = 1.0 if x[0] + step[0] > 0.0 else -0.9 * x[0] / step[0]
    for _ in range(30):
        there = _at(x + t * step, S, outcomes, B)
        if there.value <= value - 1e-4 * t * promise:
            return x + t * step, there
        t *= 0.5
    return None


# ---- mixing -------------------------------------------------------------------------------------------------------------


def with_mixing(S: Array, outcomes: Likelihood, start: Scaling) -> Scaling:
    """The same slope with the best D and biases; `start` may have some of both.

    Each class has its column of E = (D, biases), in coordinates in which it is about as steep in all directions.
    """
    c, Z = S.shape[1], start.slope * S
    A = np.asfortranarray(np.column_stack([Z, np.ones(len(Z))]))
    prior = np.append(np.full(c, _PRIOR), 1.0)
    P = outcomes.terms(Z).P
    steepness = np.stack([(A.T * v) @ A for v in (P * (1.0 - P)).T]) + np.diag(prior)
    to_column = np.linalg.inv(np.linalg.cholesky(steepness)).transpose(0, 2, 1)

    def columns(x: Array) -> Array:
        return np.asarray((to_column @ x.reshape(c, c + 1, 1))[..., 0])

    def value(x: Array) -> tuple[float, Array]:
        E = columns(x)
        terms = outcomes.terms(Z + (E @ A.T).T)  # class by class
        gradient = terms.gradient.T @ A + prior * E
        return terms.value + 0.5 * float((prior * E * E).sum()), (gradient[:, None, :] @ to_column).ravel()

    x0, settings = np.zeros((c, c + 1)), {"ftol": _ENOUGH, "maxiter": 100}
    if start.mixing is not None:
        known = np.column_stack([start.mixing.T - np.eye(c), start.biases])
        x0 = np.linalg.solve(to_column, known[..., None])[..., 0]
    E = columns(minimize(value, x0.ravel(), jac=True, method="L-BFGS-B", options=settings).x).T
    return start._replace(biases=E[-1].copy(), mixing=np.eye(c) + E[:-1])


# ---- lapse --------------------------------------------------------------------------------------------------------------


def with_lapse(S: Array, outcomes: Likelihood, start: Scaling) -> Scaling:
    """The lapse, and how much sharper the scores are to be beside it: the best of all pairs.

    None where the scaling is the best without one and a small lapse beside it makes the rows less likely: no small change of
    both is better then.
    """
    Z, c = start.apply(S), S.shape[1]

    def profile(log_factor: float) -> tuple[float, float]:
        own = np.exp(-outcomes.losses(np.exp(log_factor) * Z) / outcomes.weight)
        return _best_lapse(own, 1.0 / c, outcomes.weight)

    at_once, lapse = profile(0.0)
    if lapse == 0.0:
        return start
    found = minimize_scalar(lambda x: profile(x)[0], bounds=(0.0, 1.5), method="bounded", options={"xatol": 2e-2})
    value, lapse = profile(found.x)
    if not value < at_once or lapse == 0.0:
        return start
    factor = float(np.exp(found.x))
    return start._replace(slope=factor * start.slope, biases=factor * start.biases, lapse=lapse)


def _best_lapse(own: Array, chance: float, weight: Array) -> tuple[float, float]:
    """The negative log likelihood of probabilities ``own`` beside the best lapse, and that lapse: it is convex in it."""
    change = chance - own

    def slope(lapse: float) -> float:
        return -float(weight @ (change / np.maximum(own + lapse * change, 1e-300)))

    if slope(0.0) >= 0.0:
        lapse = 0.0
    elif slope(1.0) <= 0.0:
        lapse = 1.0
    else:
        lapse = float(brentq(slope, 0.0, 1.0, xtol=1e-9))
    lapse = 0.0 if lapse < 1e-8 else lapse
    return -float(weight @ np.log(np.maximum(own + lapse * change, 1e-300))), lapse
