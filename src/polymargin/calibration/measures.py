"""How good probabilities are: reliability of the most probable class in bins, Brier score, log loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin import validation

Array = NDArray[np.float64]

STRATEGIES = ("uniform", "quantile")
BINS = 15
_LEAST = 1e-15  # probability of what was thought impossible, in a logarithm


class Bins(NamedTuple):
    """Rows by their confidence: edges (n_bins + 1,), and of each bin its weight, mean confidence and share of right rows."""

    edges: Array
    weight: Array
    confidence: Array  # NaN where no row is
    accuracy: Array

    @property
    def error(self) -> float:
        """The expected calibration error: mean distance of confidence and accuracy."""
        filled = self.weight > 0
        distance = np.abs(self.confidence - self.accuracy)[filled]
        return float(np.average(distance, weights=self.weight[filled]))


def checked_probabilities(y_true: Any, y_prob: Any, classes: Any = None) -> tuple[NDArray[np.intp], Array]:
    """Class indices (-1 for classes without a column) and probabilities (n, c) of rows.

    `classes` are those of the columns; None is the sorted labels of `y_true`, whose number must then fit.
    """
    y, P = np.asarray(y_true).ravel(), np.asarray(y_prob, dtype=np.float64)
    if P.ndim == 1:  # of the second of two classes
        P = np.column_stack([1.0 - P, P])
    if P.ndim != 2 or len(P) != len(y):
        raise ValueError(f"y_prob has shape {P.shape}; it needs a row for each of {len(y)} labels of y_true.")
    if not (np.isfinite(P).all() and (P >= 0.0).all() and np.allclose(P.sum(axis=1), 1.0, atol=1e-4)):
        raise ValueError("y_prob must hold probabilities: no row may have negative entries or another sum than 1.")
    names = np.unique(y) if classes is None else np.asarray(classes)
    if len(names) != P.shape[1]:
        hint = "" if classes is not None else " in y_true; give the classes of the columns with classes="
        raise ValueError(f"y_prob has {P.shape[1]} columns, but there are {len(names)} classes{hint}.")
    order = np.argsort(names, kind="stable")
    place = np.minimum(np.searchsorted(names[order], y), len(names) - 1)
    indices = order[place]
    return np.where(names[indices] == y, indices, -1), P


def reliability(y_true: Any, y_prob: Any, n_bins: int, strategy: str, sample_weight: Any, classes: Any) -> Bins:
    """Rows in bins of the probability of their most probable class."""
    validation.whole("n_bins", n_bins, 1, "for example 15")
    validation.one_of("strategy", strategy, STRATEGIES)
    y, P = checked_probabilities(y_true, y_prob, classes)
    weight = validation.sample_weights(sample_weight, len(y))
    top, right = P.max(axis=1), P.argmax(axis=1) == y
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    if strategy == "quantile":
        edges = np.quantile(top, edges)
    bins = np.clip(np.searchsorted(edges, top, side="left") - 1, 0, n_bins - 1)
    in_bin = np.bincount(bins, weight, n_bins).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = (np.bincount(bins, weight * values, n_bins) / in_bin for values in (top, right))
        confidence, accuracy = means
    return Bins(edges, in_bin, confidence, accuracy)


def brier(y: NDArray[np.intp], P: Array, weight: Array | None = None) -> float:
    """Mean squared distance of the probabilities from what happened, over all classes: 0 to 2."""
    own = np.where(y < 0, 0.0, P[np.arange(len(y)), y])
    return float(np.average((P * P).sum(axis=1) - 2.0 * own + 1.0, weights=weight))


def log_loss(y: NDArray[np.intp], P: Array, weight: Array | None = None) -> float:
    """Mean negative logarithm of the probability of what happened."""
    own = np.where(y < 0, 0.0, P[np.arange(len(y)), y])
    return float(np.average(-np.log(np.maximum(own, _LEAST)), weights=weight))


def all_measures(y_true: Any, y_prob: Any, classes: Any = None) -> dict[str, float]:
    """Log loss, Brier score and expected calibration error.

    Of a label matrix, each known entry is a row with two classes: has the label, has it not.
    """
    if np.ndim(y_true) == 2:
        Y = np.asarray(y_true)
        known = Y != 0 if (Y < 0).any() else np.ones(Y.shape, dtype=bool)
        y_true, y_prob, classes = Y[known] > 0, np.asarray(y_prob)[known], [False, True]
    y, P = checked_probabilities(y_true, y_prob, classes)
    bins = reliability(y_true, y_prob, BINS, "uniform", None, classes)
    return {"log_loss": log_loss(y, P), "brier_score": brier(y, P), "calibration_error": bins.error}
