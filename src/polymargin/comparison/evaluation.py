"""One candidate on one split: choose its parameters inside the training part, fit, predict, measure."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils._indexing import _safe_indexing

from polymargin.comparison.candidates import Candidate
from polymargin.paths import PathCV

STEP = "machine"  # the last step of the pipelines


@dataclass(frozen=True)
class Record:
    """What came out.

    Attributes
    ----------
    machine : str
    split : int
    scores : dict of str to float
        Metrics on the test part; higher is better but for "log_loss".
    params : dict
        The parameters that were chosen inside the training part.
    fit_seconds, predict_seconds : float
        Time of the search with the last fit, and of the predictions on the test part.
    n_not_converged : int
        Fits of the search that ended with a ConvergenceWarning.
    error : str
        Why there are no scores; empty if there are.
    """

    machine: str
    split: int
    scores: dict[str, float]
    params: dict[str, Any]
    fit_seconds: float
    predict_seconds: float
    n_not_converged: int
    error: str = ""


def search(candidate: Candidate, preprocessor: Any, y: Any, *, inner: int, scoring: str, seed: int) -> PathCV:
    """The candidate with its preprocessing and its tuning, not yet fitted."""
    steps = [] if preprocessor is None else [("prepare", clone(preprocessor))]
    pipeline = Pipeline([*steps, (STEP, clone(candidate.estimator))])
    grid = {f"{STEP}__{name}": values for name, values in candidate.grid.items()}
    return PathCV(pipeline, grid, cv=folds(y, inner, seed), scoring=scoring)


def folds(y: Any, n_splits: int, seed: int) -> Any:
    """Shuffled folds, stratified where the target allows it."""
    y = np.asarray(y) if not hasattr(y, "toarray") else y
    kind = KFold if y.ndim == 2 else StratifiedKFold
    return kind(n_splits=n_splits, shuffle=True, random_state=seed)


def evaluate(
    candidate: Candidate, X: Any, y: Any, split: int, train: Any, test: Any, preprocessor: Any, settings: dict[str, Any]
) -> Record:
    """Nested: the test part is seen by nothing but the metrics. A candidate that fails says why and the others go on."""
    y_train = _safe_indexing(y, train)
    tuned = search(candidate, preprocessor, y_train, **settings)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tuned.fit(_safe_indexing(X, train), y_train)
        fitted = time.perf_counter()
        X_test = _safe_indexing(X, test)
        predicted = tuned.predict(X_test)
        done = time.perf_counter()
        scores = score_all(_safe_indexing(y, test), predicted, _probabilities(tuned, X_test), tuned.classes_)
    except (ValueError, ArithmeticError, MemoryError) as problem:
        seconds = time.perf_counter() - began
        return Record(candidate.name, split, {}, {}, seconds, 0.0, 0, str(problem).split("\n")[0] or repr(problem))
    not_converged = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    params = {name.removeprefix(f"{STEP}__"): _plain(value) for name, value in tuned.best_params_.items()}
    return Record(candidate.name, split, scores, params, fitted - began, done - fitted, not_converged)


def score_all(y: Any, predicted: Any, probabilities: Any, classes: Any) -> dict[str, float]:
    """All metrics that are defined for this kind of target."""
    if getattr(y, "ndim", 1) == 2:
        y, predicted = (np.asarray(M.toarray() if hasattr(M, "toarray") else M) for M in (y, predicted))
        y = (y > 0).astype(int)
        return {
            "jaccard": metrics.jaccard_score(y, predicted, average="samples", zero_division=1.0),
            "micro_f1": metrics.f1_score(y, predicted, average="micro", zero_division=0.0),
            "macro_f1": metrics.f1_score(y, predicted, average="macro", zero_division=0.0),
            "subset_accuracy": metrics.accuracy_score(y, predicted),
        }
    labels = np.unique(y)
    scores = {
        "accuracy": metrics.accuracy_score(y, predicted),
        "balanced_accuracy": metrics.recall_score(y, predicted, labels=labels, average="macro", zero_division=0.0),
        "macro_f1": metrics.f1_score(y, predicted, labels=labels, average="macro", zero_division=0.0),
    }
    if probabilities is not None and np.isin(labels, classes).all():
        scores["log_loss"] = metrics.log_loss(y, probabilities, labels=classes)
    return scores


def _probabilities(estimator: Any, X: Any) -> Any:
    return estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
