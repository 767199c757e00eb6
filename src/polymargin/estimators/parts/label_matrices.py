"""What machines for label matrices share: reading them, predicting label sets, scoring them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from polymargin import metrics, validation
from polymargin.calibration import ClassOutcomes, LabelOutcomes
from polymargin.estimators.fitting import label_targets
from polymargin.estimators.parts.array_libraries import any_arrays
from polymargin.estimators.parts.top_scores import BLOCK_ENTRIES, slices

if TYPE_CHECKING:
    from polymargin.estimators.base import MarginClassifier as _Base
else:
    _Base = object


class LabelMatrices(_Base):
    """A mixin for machines that take 1-d y or a label matrix. `_label_cut` says from which score a row has a label."""

    _label_type: np.dtype[Any] | None  # of the matrix; None for 1-d y
    _sparse_labels: bool
    _allows_empty_sets = True  # whether a row may be predicted to have no label

    def _validated(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Any]:
        if not validation.is_label_matrix(y):
            return super()._validated(X, y, reset)
        if reset:
            self._label_names = label_targets.names_of(y)
        settings = {"accept_sparse": "csr", "order": "C", "accept_large_sparse": True}
        return validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, reset=reset, **settings)

    @staticmethod
    def _facts_of_classes() -> dict[str, Any]:
        """What a fitted machine remembers of 1-d y."""
        return {"_label_type": None, "_sparse_labels": False}

    @staticmethod
    def _facts_of_matrix(y: Any) -> dict[str, Any]:
        return {
            "classes_": np.arange(y.shape[1]),
            "_label_type": np.dtype(y.dtype if y.dtype.kind in "biuf" else np.int64),
            "_sparse_labels": bool(sparse.issparse(y)),
        }

    def _names_of_labels(self, labels: NDArray[np.intp], n_labels: int) -> list[Any]:
        names = self._label_names or range(n_labels)
        return [names[k] for k in labels]

    def _table_like_fit(self, y: Any) -> sparse.csr_array:
        """y as a table of signs; an error if it is another kind of target than in fit."""
        c = len(self.classes_)
        if self._label_type is not None:
            if not validation.is_label_matrix(y) or y.shape[1] != c:
                raise ValueError(f"y must be a label matrix with {c} columns, as in fit; it has shape {y.shape}.")
            return validation.as_signed(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels {unknown.tolist()!r} that were not seen in fit.")
        return label_targets.one_hot(np.searchsorted(self.classes_, y), c)

    @property
    def _outcome_kind(self) -> type[ClassOutcomes] | type[LabelOutcomes]:
        return ClassOutcomes if self._label_type is None else LabelOutcomes

    def _shaped(self, per_class: Any) -> Any:
        return per_class if self._label_type is not None else super()._shaped(per_class)

    @any_arrays
    def predict(self, X: Any) -> Any:
        """Class of each row, or its label set.

        Returns
        -------
        ndarray of shape (n_samples,), or array or CSR matrix of shape (n_samples, n_classes)
            For 1-d y the class with the highest score, ties to the lower class. For a label matrix 0 and 1: labels whose
            score reaches the threshold; where empty sets are not allowed, the one with the highest score if none does.
        """
        check_is_fitted(self)
        if self._label_type is None:
            return super().predict(X)
        from polymargin.estimators.fitting.cut import label_sets

        X, cut, empty = self._rows_to_score(X), self._label_cut, self._allows_empty_sets
        if not self._sparse_labels:
            return label_sets(self._scores_of(X), cut, empty).astype(self._label_type)
        blocks = slices(X.shape[0], BLOCK_ENTRIES // len(self.classes_))  # sets take little memory, scores much
        sets = [sparse.csr_array(label_sets(self._scores_of(X[rows]), cut, empty)) for rows in blocks]
        return sparse.csr_array(sparse.vstack(sets, format="csr"), dtype=self._label_type)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows that are predicted right: the class, or the whole label set (subset accuracy).

        If y holds -1, only known entries (1 and -1) count; rows without any are left out. Other measures of label sets that
        know the unknown: :func:`polymargin.metrics.known_label_score`.
        """
        check_is_fitted(self)
        if self._label_type is None or not validation.is_label_matrix(y):
            return float(super().score(X, y, sample_weight))
        table = validation.as_signed(y)
        weight = validation.sample_weights(sample_weight, table.shape[0])
        return metrics.known_label_score(table, self.predict(X), metric="subset_accuracy", sample_weight=weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
