"""Known labels of rows: from 1-d y, or from a label matrix with +1 (member), -1 (known non-member) and 0 (unknown)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.problems.labels import Pairs


def names_of(Y: Any) -> tuple[str, ...] | None:
    """The names of the labels, if the matrix is a data frame."""
    return tuple(map(str, Y.columns)) if hasattr(Y, "columns") else None


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


def members(table: sparse.csr_array) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Row and label of every member."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    chosen = table.data > 0
    return rows[chosen], table.indices[chosen]
