"""scikit-learn's machines for label matrices that know some entries only: 1 has the label, -1 has it not, 0 is unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.validation import check_is_fitted


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
