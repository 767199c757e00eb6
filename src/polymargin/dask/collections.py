"""Dask's arrays, data frames and delayed blocks as parts: one for each block of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.distributed.communicator import tree_sum
from polymargin.distributed.disk.sources import Labels, checked, labels_of

Array = NDArray[np.float64]


class Described(NamedTuple):
    """What is to be known of the rows before they become problems."""

    classes: NDArray[Any]
    weights: Array  # of the classes, in sum
    n_features: int
    dtype: Any
    labels: Labels | None = None

    def plus(self, other: Described) -> Described:
        if self.n_features != other.n_features:
            raise ValueError(f"the blocks of X differ: some have {self.n_features} columns, some {other.n_features}")
        if (self.labels is None) != (other.labels is None):
            raise ValueError("the blocks of y differ: some are label matrices, and some have one class a row")
        dtype = np.result_type(self.dtype, other.dtype)
        if self.labels is not None and other.labels is not None:
            labels = self.labels.plus(other.labels)
            return Described(self.classes, self.weights + other.weights, self.n_features, dtype, labels)
        classes = np.union1d(self.classes, other.classes)
        weights = np.zeros(len(classes))
        for one in (self, other):
            weights[np.searchsorted(classes, one.classes)] += one.weights
        return Described(classes, weights, self.n_features, dtype)


def delayed_rows(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Blocks of rows, (X, y, weights) each, as delayed values. X may be a list of delayed pairs or triples already."""
    from dask.delayed import delayed

    if y is None:
        if not isinstance(X, (list, tuple)) or not X:
            raise TypeError("without y, X must be a list of delayed blocks (X, y) or (X, y, sample_weight)")
        return [delayed(_rows_of_tuple)(block) for block in X]
    columns = [_blocks_of(one) for one in (X, y, sample_weight) if one is not None]
    if len({len(blocks) for blocks in columns}) != 1:
        counts = ", ".join(str(len(blocks)) for blocks in columns)
        raise ValueError(f"X, y and sample_weight have different numbers of blocks ({counts}): rechunk or repartition them")
    return [delayed(_rows)(*block) for block in zip(*columns, strict=True)]


def _blocks_of(collection: Any) -> list[Any]:
    if isinstance(collection, (list, tuple)):
        return list(collection)
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"a {type(collection).__name__} has no blocks: give dask arrays, dask data frames or lists of delayed blocks, "
            "or use the machine of polymargin itself"
        )
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "rechunk"):
        collection = collection.rechunk({1: -1})  # all columns of a row in one block
    return list(np.ravel(collection.to_delayed()))


def _rows_of_tuple(block: tuple[Any, ...]) -> Any:
    return _rows(*block)


def _rows(X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Checked rows of one block; those of a data frame as an array."""
    X = X.to_numpy() if hasattr(X, "to_numpy") else X
    y = y if sparse.issparse(y) else np.asarray(y)
    chunk = (X, y) if sample_weight is None else (X, y, np.asarray(sample_weight))
    return checked(chunk)


def describe(rows: Any) -> Described:
    X, y, weight = rows
    if sparse.issparse(y):
        total = np.full(y.shape[1], weight.sum())
        return Described(np.arange(y.shape[1]), total, X.shape[1], X.dtype, labels_of(y, weight))
    classes, of = np.unique(y, return_inverse=True)
    weights = np.zeros(len(classes))
    np.add.at(weights, of, weight)
    return Described(classes, weights, X.shape[1], X.dtype)


def described(parts: list[Described]) -> Described:
    return tree_sum(parts)


def problem_of_rows(problem_of: Any, classes: NDArray[Any], rows: Any) -> Any:
    X, y, weight = rows
    return problem_of(X, y if sparse.issparse(y) else np.searchsorted(classes, y).astype(np.int32), weight)
