"""From scores to label sets: the cut, and its choice by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold

Array = NDArray[np.float64]

FOLDS = 5


def label_sets(scores: NDArray[Any], cut: float) -> NDArray[np.bool_]:
    """Labels whose score reaches the cut; where none does, the label of the highest score."""
    sets = scores >= cut
    empty = np.flatnonzero(~sets.any(axis=1))
    sets[empty, scores[empty].argmax(axis=1)] = True
    return sets


def best_cut(scores: Array, Y: NDArray[np.int8], weight: Array) -> float:
    """The cut with the highest weighted mean Jaccard index of predicted and true label sets.

    A row's predicted set is its m highest scores, m >= 1; lowering the cut adds them one at a time. So one sort of all
    scores judges all cuts. If Y holds -1, zeros are unknown and left out of both sets.
    """
    known = Y != 0 if (Y < 0).any() else np.ones(Y.shape, dtype=bool)
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    hits = np.take_along_axis(Y > 0, order, axis=1).cumsum(axis=1)
    chosen = np.take_along_axis(known, order, axis=1).cumsum(axis=1)
    union = chosen + (Y > 0).sum(axis=1, keepdims=True) - hits
    jaccard = np.where(union > 0, hits / np.maximum(union, 1), 1.0)
    gains = (np.diff(jaccard, axis=1) * weight[:, None]).ravel()
    events = ranked[:, 1:].ravel()
    down = np.argsort(-events, kind="stable")
    events, total = events[down], np.cumsum(gains[down])
    # a cut lies between two different scores, or above all
    last_of_equals = np.append(events[:-1] > events[1:], True)
    values = np.append(0.0, np.where(last_of_equals, total, -np.inf))
    best = int(values.argmax())
    if best == 0:
        return float(np.nextafter(events[0], np.inf)) if ranked[:, 0].max() <= events[0] else _between(
            float(ranked[:, 0].max()), float(events[0])
        )
    return _between(float(events[best - 1]), float(events[best]) if best < len(events) else float(events[-1]) - 1.0)


def _between(high: float, low: float) -> float:
    middle = 0.5 * (high + low)
    return middle if low < middle else high


def cross_validated_cut(
    fit: Callable[[Any, Any, Array, NDArray[np.intp]], Any],
    X: Any,
    table: sparse.csr_array,
    weight: Array,
    seed: int,
    pairwise: bool,
) -> float:
    """The best cut for scores of rows that the machine has not seen.

    ``fit(X, Y, weight, columns)`` fits a machine to some rows and columns. A column without members in a fold is left out of
    it and scored minus infinity there.
    """
    n, c = table.shape
    scores, seen = np.full((n, c), -np.inf), np.zeros(n, dtype=bool)
    for train, test in KFold(min(FOLDS, n), shuffle=True, random_state=seed).split(np.empty(n)):
        part = table[train]
        columns = np.unique(part.indices[part.data > 0])
        if len(columns) < 2:
            continue
        rows, others = (X[train][:, train], X[test][:, train]) if pairwise else (X[train], X[test])
        machine = fit(rows, part[:, columns], weight[train], columns)
        scores[np.ix_(test, columns)] = machine.decision_function(others)
        seen[test] = True
    if not seen.any():
        raise ValueError("threshold='auto' needs labels that at least two rows have each; set threshold to a number.")
    return best_cut(np.nan_to_num(scores[seen], neginf=-1e300), table[seen].toarray(), weight[seen])
