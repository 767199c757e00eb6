"""Label matrices that know some entries only: 1 has the label, -1 has it not, 0 is unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.validation import check_is_fitted


def known_label_accuracy(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
    """Share of the known entries that are predicted right.

    Parameters
    ----------
    y_true : array of shape (n_samples, n_labels)
        1 (has the label), -1 (has it not) and 0 (unknown, not counted).
    y_pred : array of shape (n_samples, n_labels)
        Above 0 means that the label is predicted.
    sample_weight : array of shape (n_samples,), default=None
    """
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    weight = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    counts = (truth != 0) * weight[:, None]
    if not counts.sum() > 0:
        raise ValueError("y_true knows no entry: all are 0, which means unknown.")
    return float((counts * ((truth > 0) == (predicted > 0))).sum() / counts.sum())


def without_unknown(y_true: Any, y_pred: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both as 0/1 with unknown entries 0: where neither has a label, the usual measures count nothing."""
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    return (truth > 0).astype(np.int64), ((truth != 0) & (predicted > 0)).astype(np.int64)


class KnownLabelsClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """One binary classifier per label, each fitted on the rows that know its label: scikit-learn's machines for such data.

    Parameters
    ----------
    estimator : classifier
        Cloned for each label. A label of which only members, or only others, are known is predicted as that.

    Attributes
    ----------
    estimators_ : list
        A fitted classifier per label, or the constant 0 or 1.
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> KnownLabelsClassifier:
        """Fit a classifier per label.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples, n_labels)
            1, -1 and 0 for unknown.
        """
        y = np.asarray(y)
        self.n_features_in_ = int(X.shape[1])
        self.classes_ = np.arange(y.shape[1])
        self.estimators_ = [self._fit_label(X, column) for column in y.T]
        return self

    def _fit_label(self, X: Any, column: NDArray[Any]) -> Any:
        rows = np.flatnonzero(column)
        has = (column[rows] > 0).astype(np.int64)
        if len(np.unique(has)) < 2:
            return int(has[0]) if len(has) else 0
        return clone(self.estimator).fit(_safe_indexing(X, rows), has)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """0/1 label matrix."""
        check_is_fitted(self)
        n = X.shape[0]
        columns = [np.full(n, part) if isinstance(part, int) else part.predict(X) for part in self.estimators_]
        return np.column_stack(columns).astype(np.int64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
