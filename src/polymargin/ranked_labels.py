"""Measures of the labels at the top of a ranking: precision, gain and their propensity-scored kin, at k.

The truth is a label matrix, dense or sparse, or one class a row; the ranking is what `predict_topk` returns, best first.
Sparse matrices stay sparse. The formulas are those of the Extreme Classification Repository (Jain, Prabhu & Varma, KDD
2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin import validation

Array = NDArray[np.float64]


def precision_at_k(y_true: Any, y_top: Any, k: int = 1, *, sample_weight: Any = None) -> float:
    """How many of the k best labels a row has, as a share of k, on average: P@k.

    Parameters
    ----------
    y_true : array or sparse matrix of shape (n_samples, n_labels), or array of shape (n_samples,)
        Entries above 0 are labels of the row; or the class of each row.
    y_top : array of shape (n_samples, at least k)
        Columns of `y_true`, or classes, best first: what `predict_topk` returns.
    k : int, default=1
    sample_weight : array of shape (n_samples,), default=None

    Examples
    --------
    >>> from polymargin.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[0, 2], [0, 1]], k=2)
    0.75
    """
    hits = _hits(y_true, y_top, k)
    return float(np.average(hits.mean(axis=1), weights=validation.sample_weights(sample_weight, len(hits))))


def ndcg_at_k(y_true: Any, y_top: Any, k: int = 5, *, sample_weight: Any = None) -> float:
    """Discounted gain of the k best labels, as a share of the most that the row's labels allow, on average: nDCG@k.

    A hit in place j counts ``1 / log2(j + 1)``. Rows without a label count 0. Arguments as in :func:`precision_at_k`.

    Examples
    --------
    >>> from polymargin.metrics import ndcg_at_k
    >>> ndcg_at_k([[1, 0, 1], [0, 1, 0]], [[0, 2], [1, 0]], k=2)
    1.0
    """
    hits, discounts = _hits(y_true, y_top, k), 1.0 / np.log2(np.arange(2, k + 2))
    most = np.append(0.0, np.cumsum(discounts))[np.minimum(_counts(y_true), k)]
    gains = np.divide(hits @ discounts, most, out=np.zeros(len(hits)), where=most > 0.0)
    return float(np.average(gains, weights=validation.sample_weights(sample_weight, len(hits))))


def propensity_scored_precision_at_k(
    y_true: Any, y_top: Any, propensities: Any, k: int = 1, *, sample_weight: Any = None
) -> float:
    """Precision at k where a hit of label l counts ``1 / propensities[l]``, as a share of the most that is possible: PSP@k.

    Rare labels count more: some of those that a row has are missing from the truth. Other arguments as in
    :func:`precision_at_k`; the truth is a label matrix.

    Parameters
    ----------
    propensities : array of shape (n_labels,)
        How likely a label that a row has is in the truth: :func:`label_propensities` of the training labels.

    Examples
    --------
    >>> from polymargin.metrics import propensity_scored_precision_at_k
    >>> propensity_scored_precision_at_k([[1, 1]], [[0]], [0.5, 0.25], k=1)  # the other label would have counted twice
    0.5
    """
    hits, Y = _hits(y_true, y_top, k), _members(y_true)
    gains = 1.0 / np.asarray(propensities, dtype=np.float64)
    if gains.shape != (Y.shape[1],) or not (np.isfinite(gains) & (gains > 0.0)).all():
        raise ValueError(f"propensities must be {Y.shape[1]} numbers above 0, one a label; its shape is {gains.shape}.")
    weight = validation.sample_weights(sample_weight, len(hits))
    reached = (hits * gains[np.asarray(y_top)[:, :k]]).sum(axis=1)
    most = np.array([np.sort(gains[Y.indices[a:b]])[-k:].sum() for a, b in zip(Y.indptr, Y.indptr[1:], strict=False)])
    if not weight @ most > 0.0:
        raise ValueError("y_true has no row with a label.")
    return float(weight @ reached) / float(weight @ most)


def label_propensities(Y: Any, a: float = 0.55, b: float = 1.5) -> Array:
    """How likely each label is to be written down where it applies, from how often it was in the training labels.

    ``p_l = 1 / (1 + c exp(-a log(n_l + b)))`` with n_l the rows that have label l and ``c = (log n - 1) (b + 1)^a`` (Jain,
    Prabhu & Varma). The repository uses a = 0.5, b = 0.4 for Wikipedia, 0.6 and 2.6 for Amazon, 0.55 and 1.5 for all others.

    Examples
    --------
    >>> from polymargin.metrics import label_propensities
    >>> label_propensities([[1, 0], [1, 0], [1, 1]]).round(2).tolist()
    [0.93, 0.91]
    """
    members = _members(Y)
    counts = np.bincount(members.indices, minlength=members.shape[1])
    c = (np.log(members.shape[0]) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + c * np.exp(-a * np.log(counts + b))), dtype=np.float64)


def _hits(y_true: Any, y_top: Any, k: int) -> Array:
    """1 where one of the k best labels of a row is one of its labels, ``(n, k)``."""
    validation.whole("k", k, 1, "labels a row")
    top = np.asarray(y_top)
    n_rows = _shape(y_true)[0]
    if top.ndim != 2 or top.shape[0] != n_rows:
        raise ValueError(f"y_top must have a row of labels for each of {n_rows} rows, best first; its shape is {top.shape}.")
    if top.shape[1] < k:
        raise ValueError(f"k={k} is not valid: y_top has {top.shape[1]} labels a row.")
    top = top[:, :k]
    if len(_shape(y_true)) == 1:
        return np.asarray(np.asarray(y_true)[:, None] == top, dtype=np.float64)
    Y = _members(y_true)
    if top.dtype.kind not in "iu" or top.min(initial=0) < 0 or top.max(initial=0) >= Y.shape[1]:
        raise ValueError(f"y_top must hold columns of y_true, 0 to {Y.shape[1] - 1}.")
    found = Y[np.repeat(np.arange(len(top)), k), top.ravel()]
    return np.asarray(found, dtype=np.float64).reshape(top.shape)


def _shape(y: Any) -> tuple[int, ...]:
    return tuple(y.shape) if hasattr(y, "shape") else np.asarray(y).shape


def _members(Y: Any) -> sparse.csr_array:
    """1 where rows have labels."""
    if len(_shape(Y)) != 2:
        raise ValueError(f"a label matrix of shape (n_samples, n_labels) is needed; this one has shape {_shape(Y)}.")
    members = sparse.csr_array(sparse.csr_array(Y) > 0)
    members.eliminate_zeros()
    return members


def _counts(y: Any) -> NDArray[np.intp]:
    """Labels of each row."""
    return np.ones(_shape(y)[0], dtype=np.intp) if len(_shape(y)) == 1 else np.diff(_members(y).indptr)
