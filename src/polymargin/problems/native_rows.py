"""Rows as the core reads them, and the loss of a machine on many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import WIDE, native

if TYPE_CHECKING:
    from polymargin.problems.classes import Problem

Array = NDArray[np.float64]

_MANY_CLASSES = 200  # of sparse rows
_MANY_PRODUCTS = 100_000_000  # of dense ones


def native_rows(X: Any) -> native.Rows:
    """The rows as native loops read them, borrowed: column numbers in four bytes, starts of rows in eight."""
    if not sparse.issparse(X):
        return native.Rows(X, WIDE)
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"X has {X.shape[1]} columns, more than the {np.iinfo(np.int32).max} that native loops can number")
    return native.Rows(*_stored(X), X.shape[1])


def has_native_loss(problem: Problem, W: Any) -> bool:
    """Whether the core sums up the loss of class vectors W, without blocks of scores, by the threads of the problem.

    With thousands of classes, blocks of scores and products of sparse matrices take longer than the fit; of dense rows a
    tenth of it. Where they do not, the sums are those that anybody makes of the arrays.
    """
    X = problem.X
    if sparse.issparse(X):
        return problem.n_classes >= _MANY_CLASSES and can_have_native_loss(problem, W)
    return X.size * problem.n_classes >= _MANY_PRODUCTS and can_have_native_loss(problem, W)


def can_have_native_loss(problem: Problem, W: Any) -> bool:
    """Whether the core can."""
    X = problem.X
    if problem.loss.row_problem is None or problem.loss.domain is None or W.dtype != np.float64:
        return False
    if X.shape[0] != problem.n_rows:  # they are elsewhere
        return False
    if sparse.issparse(X):
        in_rows = W.format == "csr" if sparse.issparse(W) else bool(W.flags.c_contiguous)
        return X.shape[1] <= np.iinfo(np.int32).max and in_rows
    return not sparse.issparse(W) and bool(X.flags.c_contiguous) and bool(W.flags.c_contiguous)


def native_loss(problem: Problem, W: Any, b: Array) -> float:
    """``sum_i u_i loss_i``, W an array or a CSR matrix."""
    name, loss = problem.loss.row_problem, problem.loss
    assert name is not None
    given, n_threads = (name, native_rows(problem.X), problem.y, problem.cost), problem.n_threads
    targets = None if loss.unit_targets else np.ascontiguousarray(loss.targets(problem.n_classes))
    b = np.ascontiguousarray(b, dtype=np.float64)
    if sparse.issparse(W):
        return native.machine_loss(*given, *_stored(W), b, loss.row_parameters, n_threads, targets)
    return native.machine_loss(*given, W, b, loss.row_parameters, n_threads, targets)


def _stored(A: Any) -> tuple[Any, NDArray[np.int32], NDArray[np.int64]]:
    """Values, column numbers and starts of the rows of a CSR matrix."""
    stored = slice(0, int(A.indptr[-1]))
    return A.data[stored], A.indices[stored].astype(np.int32, copy=False), A.indptr.astype(np.int64, copy=False)
