"""Measures of label matrices that know what is unknown, of ranked labels, and of probabilities.

In a label matrix 1 has the label, -1 is known not to have it, 0 is unknown. scikit-learn's own measures count every entry
that is not 0 as a label, -1 too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin import validation
from polymargin.calibration import measures
from polymargin.calibration.costs import cost_matrix
from polymargin.ranked_labels import label_propensities, ndcg_at_k, precision_at_k, propensity_scored_precision_at_k

__all__ = [
    "METRICS",
    "OF_CUTS",
    "brier_score",
    "expected_calibration_error",
    "expected_cost",
    "known_label_score",
    "known_label_scorer",
    "label_propensities",
    "ndcg_at_k",
    "precision_at_k",
    "propensity_scored_precision_at_k",
]

Flags = NDArray[np.bool_]

__all__ = ["brier_score", "expected_calibration_error", "expected_cost", "known_label_score", "known_label_scorer"]


def expected_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    n_bins: int = measures.BINS,
    strategy: str = "uniform",
    sample_weight: Any = None,
    classes: Any = None,
) -> float:
    """How far the confidence of predictions is from their accuracy, on average: 0 if 80 % of those at 0.8 are right.

    Rows are put into bins by the probability of their most probable class; the error is the mean over rows of the distance
    between mean confidence and share of right rows of their bin (Guo et al. 2017).

    Parameters
    ----------
    y_true : array of shape (n_samples,)
    y_prob : array of shape (n_samples, n_classes), or (n_samples,) for the second of two classes
    n_bins : int, default=15
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of the same width, or of about the same number of rows.
    sample_weight : array of shape (n_samples,), default=None
    classes : array of shape (n_classes,), default=None
        The classes of the columns, as in ``classes_``; needed if some do not occur in `y_true`.

    Examples
    --------
    >>> from polymargin.metrics import expected_calibration_error
    >>> expected_calibration_error([0, 1, 1, 1], [[0.75, 0.25], [0.25, 0.75], [0.25, 0.75], [0.75, 0.25]])
    0.0
    """
    return measures.reliability(y_true, y_prob, n_bins, strategy, sample_weight, classes).error


def brier_score(y_true: Any, y_prob: Any, *, sample_weight: Any = None, classes: Any = None) -> float:
    """Mean squared distance of probabilities from what happened, summed over all classes: 0 is best, 2 is worst.

    For two classes it is twice scikit-learn's ``brier_score_loss``. Arguments as in :func:`expected_calibration_error`.

    Examples
    --------
    >>> from polymargin.metrics import brier_score
    >>> brier_score([0, 1], [[1.0, 0.0], [0.5, 0.5]])
    0.25
    """
    y, P = measures.checked_probabilities(y_true, y_prob, classes)
    return measures.brier(y, P, validation.sample_weights(sample_weight, len(y)))


class Entries(NamedTuple):
    """Entries of a label matrix and of its prediction, each of shape (n_rows, n_labels)."""

    known: Flags
    right: Flags  # members that were predicted
    extra: Flags  # predicted, but known not to be members
    lost: Flags  # members that were not predicted


def expected_cost(y_true: Any, y_pred: Any, cost: Any, *, labels: Any = None, sample_weight: Any = None) -> float:
    """The mean cost of predictions, by a matrix of costs.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)
    cost : array, DataFrame or dict of dict of shape (n_classes, n_classes)
        What it costs to predict the column where the row is true, in the order of `labels`, or by the names of the classes.
    labels : array of shape (n_classes,), default=None
        All classes; None is those that occur in `y_true` or `y_pred`, sorted.
    sample_weight : array of shape (n_samples,), default=None

    Examples
    --------
    >>> from polymargin.metrics import expected_cost
    >>> expected_cost(["ill", "ill", "well"], ["ill", "well", "ill"], [[0, 10], [1, 0]])  # to miss the ill costs 10
    3.6666666666666665
    """
    truth, found = np.asarray(y_true), np.asarray(y_pred)
    if truth.shape != found.shape or truth.ndim != 1:
        raise ValueError(f"y_true and y_pred must be one label a row; their shapes are {truth.shape} and {found.shape}.")
    classes = np.unique(np.concatenate([truth, found])) if labels is None else np.asarray(labels)
    order = np.argsort(classes, kind="stable")
    places = []
    for name, values in (("y_true", truth), ("y_pred", found)):
        unknown = np.setdiff1d(values, classes)
        if len(unknown):
            raise ValueError(f"{name} has the label {unknown.tolist()[0]!r}, which is not among labels.")
        places.append(order[np.searchsorted(classes, values, sorter=order)])
    weight = validation.sample_weights(sample_weight, len(truth))
    return float(np.average(cost_matrix(cost, classes)[tuple(places)], weights=weight))


def known_label_score(
    y_true: Any, y_pred: Any, *, metric: str = "jaccard", zeros: str = "auto", sample_weight: Any = None
) -> float:
    """How well label sets were predicted, judged by the known entries only.

    Parameters
    ----------
    y_true : array or sparse matrix of shape (n_samples, n_labels)
        1 has the label, -1 is known not to have it; `zeros` says what 0 is.
    y_pred : array or sparse matrix of shape (n_samples, n_labels)
        What is above 0 counts as predicted.
    metric : {"jaccard", "micro_f1", "macro_f1", "subset_accuracy", "label_accuracy", "hamming_loss"}, default="jaccard"
        "jaccard" is the mean over rows of the share of predicted members among all that are predicted or members, 1 where
        there are none. "subset_accuracy" is the share of rows without a wrong entry, "label_accuracy" that of right entries,
        "hamming_loss" that of wrong ones (less is better).
    zeros : {"auto", "unknown", "absent"}, default="auto"
        What 0 means in `y_true`. "auto": unknown if there is any -1, else not a member, as everywhere else. In
        cross-validation say "unknown", so that a fold without -1 is judged as the others are.
    sample_weight : array of shape (n_samples,), default=None

    Returns
    -------
    float
        Rows and labels without a known entry are left out. Without unknown entries it is what scikit-learn's measure of that
        name gives.

    Examples
    --------
    >>> from polymargin.metrics import known_label_score
    >>> Y = [[1, 0, -1], [0, 1, 1]]
    >>> known_label_score(Y, [[1, 1, 0], [0, 1, 0]])
    0.75
    >>> known_label_score(Y, [[1, 1, 0], [0, 1, 0]], metric="subset_accuracy")
    0.5
    """
    validation.one_of("metric", metric, tuple(_METRICS))
    found = entries(y_true, y_pred, zeros)
    weight = validation.sample_weights(sample_weight, len(found.known))
    if not (found.known.any(axis=1) & (weight > 0)).any():
        raise ValueError("y_true has no known entry (1 or -1) to compare with.")
    return float(_METRICS[metric](found, weight))


def known_label_scorer(metric: str = "jaccard", zeros: str = "unknown") -> Any:
    """:func:`known_label_score` for scikit-learn's ``scoring=``; of "hamming_loss" it is the negative.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from polymargin import OneVsNoneSVC
    >>> from polymargin.metrics import known_label_scorer
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]] * 3)
    >>> Y = np.array([[1, -1], [1, 0], [0, 1], [-1, 1]] * 3)
    >>> search = GridSearchCV(OneVsNoneSVC(), {"C": [1.0, 10.0]}, scoring=known_label_scorer(), cv=2).fit(X, Y)
    >>> bool(search.best_score_ > 0.5)
    True
    """
    from sklearn.metrics import make_scorer

    validation.one_of("metric", metric, tuple(_METRICS))
    validation.one_of("zeros", zeros, _ZEROS)
    return make_scorer(known_label_score, greater_is_better=metric != "hamming_loss", metric=metric, zeros=zeros)


def entries(y_true: Any, y_pred: Any, zeros: str = "auto") -> Entries:
    """Which entries are known, and which of them were predicted how."""
    validation.one_of("zeros", zeros, _ZEROS)
    truth, predicted = _matrix("y_true", y_true), _matrix("y_pred", y_pred)
    if truth.shape != predicted.shape:
        raise ValueError(f"y_true has shape {truth.shape}, but y_pred has {predicted.shape}.")
    if not np.isin(truth, (-1, 0, 1)).all():
        raise ValueError("y_true must hold 1 (has the label), 0 and -1 (known not to have it) only.")
    unknown = zeros == "unknown" or (zeros == "auto" and bool((truth < 0).any()))
    known = truth != 0 if unknown else np.ones(truth.shape, dtype=bool)
    member, chosen = truth > 0, predicted > 0
    return Entries(known, member & chosen, known & chosen & ~member, member & ~chosen)


def per_label(found: Entries) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Precision, recall, F1 and number of known members of each label."""
    right, members = found.right.sum(axis=0), (found.right | found.lost).sum(axis=0)
    chosen = right + found.extra.sum(axis=0)
    return _ratio(right, chosen, 0.0), _ratio(right, members, 0.0), _ratio(2.0 * right, chosen + members, 0.0), members


def _matrix(name: str, Y: Any) -> NDArray[Any]:
    Y = Y.toarray() if sparse.issparse(Y) else np.asarray(Y)
    if Y.ndim != 2 or Y.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a matrix of numbers with shape (n_samples, n_labels); it has shape {Y.shape}.")
    return Y


# ---- measures: of entries and the weights of the rows ---------------------------------------------------------------------


def _ratio(part: NDArray[Any], whole: NDArray[Any], otherwise: float) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(np.shape(part), otherwise), where=np.asarray(whole) > 0)


def _jaccard(found: Entries, weight: NDArray[np.float64]) -> float:
    right = found.right.sum(axis=1)
    union = right + found.extra.sum(axis=1) + found.lost.sum(axis=1)
    return _mean_of_rows(_ratio(right, union, 1.0), found, weight)


def _subset_accuracy(found: Entries, weight: NDArray[np.float64]) -> float:
    return _mean_of_rows(1.0 - (found.extra | found.lost).max(axis=1), found, weight)


def _mean_of_rows(values: NDArray[Any], found: Entries, weight: NDArray[np.float64]) -> float:
    rows = found.known.any(axis=1)
    return float(np.average(values[rows], weights=weight[rows]))


def _hamming_loss(found: Entries, weight: NDArray[np.float64]) -> float:
    return float(weight @ (found.extra | found.lost).sum(axis=1)) / float(weight @ found.known.sum(axis=1))


def _label_accuracy(found: Entries, weight: NDArray[np.float64]) -> float:
    return 1.0 - _hamming_loss(found, weight)


def _f1(found: Entries, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each label."""
    right, wrong = weight @ found.right, weight @ (found.extra | found.lost)
    return _ratio(2.0 * right, 2.0 * right + wrong, 0.0)


def _macro_f1(found: Entries, weight: NDArray[np.float64]) -> float:
    return float(_f1(found, weight)[found.known.any(axis=0)].mean())


def _micro_f1(found: Entries, weight: NDArray[np.float64]) -> float:
    right, wrong = float((weight @ found.right).sum()), float((weight @ (found.extra | found.lost)).sum())
    return 2.0 * right / (2.0 * right + wrong) if right or wrong else 0.0


_ZEROS = ("auto", "unknown", "absent")
_METRICS: dict[str, Callable[[Entries, NDArray[np.float64]], float]] = {
    "jaccard": _jaccard,
    "micro_f1": _micro_f1,
    "macro_f1": _macro_f1,
    "subset_accuracy": _subset_accuracy,
    "label_accuracy": _label_accuracy,
    "hamming_loss": _hamming_loss,
}
METRICS = tuple(_METRICS)
OF_CUTS = ("jaccard", "micro_f1", "macro_f1", "subset_accuracy")  # those that thresholds are chosen for
