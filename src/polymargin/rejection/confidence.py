"""How sure a classifier is of a row, and how strange each class would be for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def support_of(estimator: Any, X: Any) -> tuple[Array, bool]:
    """What speaks for each class, (n, c), and whether these are probabilities, which are taken if there are any."""
    if hasattr(estimator, "predict_proba"):
        return _matrix(estimator.predict_proba(X)), True
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
        return _matrix(np.column_stack([-scores / 2, scores / 2]) if scores.ndim == 1 else scores), False
    raise TypeError(f"{type(estimator).__name__} has neither predict_proba nor decision_function to say how sure it is.")


def _matrix(support: Any) -> Array:
    if isinstance(support, list) or np.ndim(support) != 2:
        raise ValueError("a reject option needs one class a row; for label matrices cut the probability of each label.")
    return np.asarray(support, dtype=np.float64)


def confidence(support: Array, are_probabilities: bool) -> Array:
    """Of the best class: its probability, or by how much its score leads."""
    if are_probabilities:
        return np.asarray(support.max(axis=1))
    best = np.partition(support, -2, axis=1)
    return np.asarray(best[:, -1] - best[:, -2])


def strangeness(support: Array, are_probabilities: bool) -> Array:
    """Of every class, (n, c): 1 less its probability, or how far its score is behind the best."""
    return 1.0 - support if are_probabilities else support.max(axis=1, keepdims=True) - support
