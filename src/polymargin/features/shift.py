"""Columns far from zero, moved to zero where an unpenalised intercept makes that harmless.

    x . w + b = (x - m) . w + (b + m . w)

so a machine that is fitted to the rows x - m is the one of the rows x with other offsets. The solvers centre what they can
without touching X, but a column at 1e6 with a spread of 1 would cost them twelve of their sixteen digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_FAR = 1e3  # a column is far from zero if its mean is so many times its standard deviation
_SAMPLE = 512  # rows that tell whether there may be such columns


def towards_zero(X: Any) -> tuple[Any, NDArray[np.float64]] | None:
    """Rows ``X - m`` of the dtype of X, and m; None if no column is far from zero, or if zeros would have to be filled in.

    Near m the differences are exact in floating point: nothing is lost.
    """
    if not _far_columns(X[:: max(1, X.shape[0] // _SAMPLE)]).any():
        return None
    far = _far_columns(X)
    if sparse.issparse(X):
        far &= _stored(X) == X.shape[0]
    if not far.any():
        return None
    columns = np.flatnonzero(far)
    values = X[:, columns].toarray() if sparse.issparse(X) else X[:, columns]
    shift = np.zeros(X.shape[1], dtype=X.dtype)  # within a column's range: a constant column becomes 0 exactly
    shift[columns] = np.clip(_means(X)[columns].astype(X.dtype), values.min(axis=0), values.max(axis=0))
    return _minus(X, shift), shift.astype(np.float64)


def moved_alike(A: Any, B: Any) -> tuple[Any, Any]:
    """Two sets of rows, less the first row of the second: their differences stay what they are.

    In sparse rows only columns without zeros are moved; others are not far from zero.
    """
    if not (sparse.issparse(A) or sparse.issparse(B)):
        return A - B[0], B - B[0]
    A, B = sparse.csr_array(A), sparse.csr_array(B)
    full = (_stored(A) == A.shape[0]) & (_stored(B) == B.shape[0])
    if not full.any():
        return A, B
    origin = np.where(full, B[[0]].toarray().ravel(), 0.0)
    return _minus(A, origin), _minus(B, origin)


def _far_columns(X: Any) -> NDArray[np.bool_]:
    """Columns whose mean hides their spread, unless the spread of the whole rows hides the mean."""
    means = _means(X)
    apart = _minus(X, means.astype(X.dtype))
    if sparse.issparse(apart):
        squares = np.bincount(apart.indices, np.square(apart.data, dtype=np.float64), X.shape[1]).astype(np.float64)
        squares += (X.shape[0] - _stored(X)) * np.square(means)
    else:
        squares = np.einsum("ij,ij->j", apart, apart, dtype=np.float64)
    spread, sizes = np.sqrt(squares / X.shape[0]), np.abs(means)
    return np.asarray((sizes > _FAR * spread) & (sizes > np.linalg.norm(spread)))


def _means(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.mean(axis=0, dtype=np.float64), dtype=np.float64).ravel()


def _stored(X: Any) -> NDArray[np.intp]:
    return np.bincount(X.indices, minlength=X.shape[1])


def _minus(X: Any, means: NDArray[Any]) -> Any:
    """The rows less the means; of a sparse matrix its stored entries."""
    if not sparse.issparse(X):
        return X - means
    apart = X.copy()
    apart.data -= means[apart.indices]
    return apart
