"""Known labels of rows: from 1-d y, or from a label matrix with +1 (member), -1 (known non-member) and 0 (unknown)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.problems.labels import Pairs


def is_label_matrix(y: Any) -> bool:
    """Whether y is two-dimensional with more than one column; a single column is a 1-d y."""
    if not hasattr(y, "shape"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = np.asarray(y)
        except ValueError:  # ragged: scikit-learn says so
            return False
    return len(y.shape) == 2 and int(y.shape[1]) > 1


def names_of(Y: Any) -> tuple[str, ...] | None:
    """The names of the labels, if the matrix is a data frame."""
    return tuple(map(str, Y.columns)) if hasattr(Y, "columns") else None


def as_signed(Y: Any) -> sparse.csr_array:
    """The label matrix as CSR of int8 without stored zeros; other values than -1, 0 and 1 are refused."""
    if not sparse.issparse(Y) and np.asarray(Y).dtype.kind not in "biuf":
        try:
            Y = np.asarray(Y).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError("Unknown label type: a label matrix y must hold the numbers -1, 0 and 1 only.") from error
    table = sparse.csr_array(Y)
    strange = np.setdiff1d(table.data, [-1, 0, 1])
    if len(strange):
        raise ValueError(
            f"Unknown label type: y holds {strange[:5].tolist()!r}, but a label matrix may hold 1 (has the label), 0 "
            "(unknown) and -1 (known not to have it) only."
        )
    table = table.astype(np.int8)
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


def pairs_of(table: sparse.csr_array, row_numbers: NDArray[np.intp] | None = None) -> Pairs:
    """The stored entries as pairs."""
    return Pairs(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data.astype(np.float64), row_numbers)


def one_hot(indices: NDArray[Any], n_classes: int) -> sparse.csr_array:
    """The label matrix of class indices."""
    n = len(indices)
    return sparse.csr_array((np.ones(n, dtype=np.int8), indices, np.arange(n + 1)), shape=(n, n_classes))


def without_unknown(table: sparse.csr_array) -> sparse.csr_array:
    """The table with -1 in the place of every 0."""
    signs = np.where(table.toarray() > 0, 1, -1).astype(np.int8)
    return sparse.csr_array(signs)


def members(table: sparse.csr_array, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Total weight of the members of each class."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    chosen = table.data > 0
    totals = np.bincount(table.indices[chosen], weights=weight[rows[chosen]], minlength=table.shape[1])
    return np.asarray(totals, dtype=np.float64)
