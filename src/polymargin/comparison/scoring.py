"""What is measured on predictions, and the scorer that tuning uses: the same numbers inside and outside."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn import metrics

from polymargin.calibration import measures
from polymargin.metrics import known_label_score

MULTICLASS_METRICS = ("accuracy", "balanced_accuracy", "macro_f1")
PROBABILITY_METRICS = ("neg_log_loss", "neg_brier_score")  # of class labels, by machines with probabilities
MULTILABEL_METRICS = ("jaccard", "micro_f1", "macro_f1", "subset_accuracy")
KNOWN_LABELS_METRIC = "label_accuracy"  # for label matrices with -1


def metrics_of(multilabel: bool, known_only: bool = False) -> tuple[str, ...]:
    """Names of the metrics that may decide; the first is the default."""
    if not multilabel:
        return (*MULTICLASS_METRICS, *PROBABILITY_METRICS)
    return (*MULTILABEL_METRICS, KNOWN_LABELS_METRIC) if known_only else MULTILABEL_METRICS


def score_all(
    y: Any, predicted: Any, probabilities: Any = None, classes: Any = None, *, known_only: bool = False
) -> dict[str, float]:
    """All metrics that are defined for this kind of target.

    With `known_only` the label matrix y holds 1, -1 and 0 for unknown, and unknown entries count nowhere.
    """
    if getattr(y, "ndim", 1) == 2:
        return _of_labels(y, predicted, known_only)
    labels = np.unique(y)
    scores = {
        "accuracy": metrics.accuracy_score(y, predicted),
        "balanced_accuracy": metrics.recall_score(y, predicted, labels=labels, average="macro", zero_division=0.0),
        "macro_f1": metrics.f1_score(y, predicted, labels=labels, average="macro", zero_division=0.0),
    }
    if probabilities is not None:
        y, P = measures.checked_probabilities(y, probabilities, classes)
        scores |= {"neg_log_loss": -measures.log_loss(y, P), "neg_brier_score": -measures.brier(y, P)}
    return scores


def _of_labels(y: Any, predicted: Any, known_only: bool) -> dict[str, float]:
    zeros = "unknown" if known_only else "absent"
    scores = {name: known_label_score(y, predicted, metric=name, zeros=zeros) for name in MULTILABEL_METRICS}
    if known_only:
        scores[KNOWN_LABELS_METRIC] = known_label_score(y, predicted, metric=KNOWN_LABELS_METRIC, zeros=zeros)
    return scores


class OutOfTime(BaseException):
    """The time that was given is over. No Exception: what it interrupts must not take it for one of its own."""


@dataclass
class Scorer:
    """``scorer(estimator, X, y)``: one metric. It is called after each fit of a tuning, so it also keeps the time.

    Attributes
    ----------
    metric : str
    known_only : bool
        As in `score_all`.
    deadline : float
        By `time.time`; later calls raise `OutOfTime`.
    n_calls : int
        How many there were.
    """

    metric: str
    known_only: bool = False
    deadline: float = float("inf")
    n_calls: int = field(default=0, compare=False)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        if time.time() > self.deadline:
            raise OutOfTime
        self.n_calls += 1
        if self.metric not in PROBABILITY_METRICS:
            return score_all(y, estimator.predict(X), known_only=self.known_only)[self.metric]
        return score_all(y, estimator.predict(X), estimator.predict_proba(X), estimator.classes_)[self.metric]
