"""Which rows are left out together: folds in which every class, or label, keeps rows to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Folds = NDArray[np.int64]

NEVER = -1  # the fold of rows that are never left out


def stratified_folds(y: NDArray[Any], n_folds: int, seed: int) -> Folds:
    """The fold of each row: every class is dealt out evenly. The only row of a class is never left out."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    counts = np.bincount(y)
    first = np.cumsum(counts) - counts
    place = np.arange(len(y)) - first[y[order]]
    folds = np.empty(len(y), dtype=np.int64)
    folds[order] = np.where(counts[y[order]] == 1, NEVER, (place + y[order]) % n_folds)
    return folds


def label_folds(members: sparse.csr_array, n_folds: int, seed: int) -> Folds:
    """The same for label sets: rows are dealt out by their rarest label, and each label has members outside every fold."""
    n, c = members.shape
    rows, labels = members.nonzero()
    counts = np.bincount(labels, minlength=c)
    rarest = np.full(n, c)
    order = np.argsort(-counts[labels], kind="stable")
    rarest[rows[order]] = labels[order]  # the last one written is the rarest
    folds = stratified_folds(rarest, n_folds, seed)
    inside = np.zeros((n_folds, c), dtype=np.int64)
    left_out = folds[rows] != NEVER
    np.add.at(inside, (folds[rows][left_out], labels[left_out]), 1)
    for fold, label in zip(*np.nonzero(inside == counts), strict=True):
        mine = rows[(labels == label) & (folds[rows] == fold)]
        folds[mine[:1]] = NEVER
    return folds


def weight_argument(estimator: Any, weight: Any) -> dict[str, Any]:
    """Weights of rows as an argument of `fit`; a pipeline's are those of its last step."""
    if weight is None:
        return {}
    from sklearn.pipeline import Pipeline

    name = f"{estimator.steps[-1][0]}__sample_weight" if isinstance(estimator, Pipeline) else "sample_weight"
    return {name: weight}
