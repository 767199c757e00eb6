"""The best few classes of each row, block by block: no array of all rows and classes comes into being."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from polymargin import validation
from polymargin.estimators.parts.array_libraries import any_arrays

BLOCK_ENTRIES = 1 << 22  # scores, kernel values or entries of class vectors held at a time
_FEWEST_CLASSES = 16  # that share a look at the rows


class TopScores(NamedTuple):
    """The best scores of each row and their classes, both of shape (n_samples, k), best first, ties to the lower class."""

    scores: NDArray[Any]
    classes: NDArray[Any]


class TopPredictions:
    """A mixin of all machines: their best classes."""

    kernel: str
    classes_: NDArray[Any]
    class_vectors_: Any
    class_offsets_: NDArray[Any]
    dual_coef_: Any

    if TYPE_CHECKING:

        def _scores(self, X: Any, vectors: Any, offsets: NDArray[Any]) -> NDArray[Any]: ...

    @any_arrays
    def predict_topk(self, X: Any, k: int = 5) -> NDArray[Any]:
        """The k classes, or columns of the label matrix, with the highest scores, best first, ties to the lower class.

        No array of all rows and classes is made; ``decision_function(X, top=k)`` has the scores too.

        Returns
        -------
        ndarray of shape (n_samples, k)
        """
        return self._top_scores(self._rows_to_score(X), "k", k).classes

    def _top_scores(self, X: Any, name: str, k: Any) -> TopScores:
        """Of validated rows; `name` is what the user calls k."""
        if validation.whole(name, k, 1, "classes a row") > len(self.classes_):
            raise ValueError(f"{name}={k!r} is not valid: there are {len(self.classes_)} classes.")
        best = self._best(X, int(k))
        return TopScores(best.scores, np.asarray(self.classes_[best.places]))

    def _rows_to_score(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def _best(self, X: Any, k: int) -> Best:
        """The best classes of validated rows."""
        offsets, linear = self.class_offsets_, self.kernel == "linear"
        vectors = self.class_vectors_ if linear else self.dual_coef_
        dtype = score_type(X, vectors, self.kernel)
        if linear:
            return best_of_vectors(X, vectors, offsets, k, dtype)
        best = Best(X.shape[0], k, dtype)
        for rows in slices(X.shape[0], BLOCK_ENTRIES // len(offsets)):
            best.see(rows, self._scores(X[rows], vectors, offsets).astype(dtype, copy=False))
        return best


class Best:
    """The k best scores of each row among those seen so far, and the places of their classes."""

    def __init__(self, n_rows: int, k: int, dtype: Any):
        self.scores = np.full((n_rows, k), -np.inf, dtype=dtype)
        self.places = np.zeros((n_rows, k), dtype=np.intp)

    def see(self, rows: slice, S: NDArray[Any], first: int = 0) -> None:
        """Scores of some rows for the classes `first`, `first` + 1, ..., all after those that the rows have seen."""
        k = self.scores.shape[1]
        found = best_places(S, k)
        scores = np.concatenate([self.scores[rows], np.take_along_axis(S, found, axis=1)], axis=1)
        places = np.concatenate([self.places[rows], found + first], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        self.scores[rows] = np.take_along_axis(scores, order, axis=1)
        self.places[rows] = np.take_along_axis(places, order, axis=1)


def best_places(S: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Columns of the k largest entries of each row, largest first, ties to the lower column; all if there are fewer."""
    if k == 1:
        return S.argmax(axis=1)[:, None]
    if k >= S.shape[1]:
        return np.argsort(-S, axis=1, kind="stable")
    found = np.sort(np.argpartition(-S, k - 1, axis=1)[:, :k], axis=1)
    values = np.take_along_axis(S, found, axis=1)
    found = np.take_along_axis(found, np.argsort(-values, axis=1, kind="stable"), axis=1)
    tied = np.flatnonzero((values.min(axis=1)[:, None] <= S).sum(axis=1) > k)  # a partition takes any of those
    found[tied] = np.argsort(-S[tied], axis=1, kind="stable")[:, :k]
    return found


def best_of_vectors(X: Any, vectors: Any, offsets: NDArray[Any], k: int, dtype: Any) -> Best:
    """The best of ``X @ vectors.T + offsets``.

    Sparse vectors are read as inverted lists, feature by feature: a row meets only the classes that its features have.
    """
    n_classes, best = vectors.shape[0], Best(X.shape[0], k, dtype)
    width = n_classes
    if sparse.issparse(vectors):
        lists = sparse.csr_array(vectors.T)
    elif sparse.issparse(X):  # a product copies the vectors, class after class in the place of feature after feature
        width = min(n_classes, max(_FEWEST_CLASSES, BLOCK_ENTRIES // max(1, X.shape[1])))
    for classes in slices(n_classes, width):
        part = lists if sparse.issparse(vectors) else vectors[classes].T
        if sparse.issparse(X) and not sparse.issparse(part):
            part = np.ascontiguousarray(part)
        for rows in slices(X.shape[0], BLOCK_ENTRIES // max(width, 1 if sparse.issparse(X) else X.shape[1])):
            S = np.asarray(safe_sparse_dot(X[rows], part, dense_output=True)) + offsets[classes]
            best.see(rows, S.astype(dtype, copy=False), classes.start)
    return best


def slices(length: int, step: int) -> Iterator[slice]:
    """Neighbours, at least one and at most `step` at a time."""
    step = max(1, step)
    return (slice(start, min(length, start + step)) for start in range(0, length, step))


def score_type(X: Any, vectors: Any, kernel: Any) -> Any:
    """Scores of a kernel machine are summed in double precision and given in the precision of the rows."""
    return np.result_type(X.dtype, vectors.dtype) if kernel == "linear" else X.dtype
