"""The meta-estimator that predicts or abstains."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from polymargin import validation
from polymargin.rejection import thresholds
from polymargin.rejection.confidence import confidence, strangeness, support_of
from polymargin.selection.folds import weight_argument

_GRID_SHARE = 5  # one in so many held-out rows says which thresholds are tested


class RejectOption(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that abstains where it is not sure, by a threshold with a guarantee for finitely many rows.

    The estimator is fitted to a part of the rows. The others choose the threshold on its confidence: the probability of the
    best class if it has `predict_proba`, else by how much the best score leads. Exactly one of `coverage`, `risk` and `cost`
    says what is wanted. Guarantees hold for any estimator and distribution, if rows to come are drawn like these rows.

    Parameters
    ----------
    estimator : classifier
        Cloned and fitted. Inside :class:`sklearn.frozen.FrozenEstimator` a fitted one is taken as it is, and all rows given
        to `fit` choose the threshold; they must be others than those it was fitted to.
    coverage : float, default=None
        Share of rows to accept, 0 < coverage <= 1: a row to come is accepted with at least this probability.
    risk : float, default=None
        Share of errors among accepted rows, 0 < risk < 1: with probability at least 1 - `delta` over the held-out rows, the
        true one is at most this. "Learn then test" with exact binomial p-values in a fixed sequence of thresholds
        (Angelopoulos et al. 2021; the bounds of Clopper and Pearson). If nothing can be proven all rows are rejected, with a
        warning.
    cost : float, default=None
        Cost of a rejection where an error costs 1, 0 < cost < 1 (Chow 1970): rows whose most probable class has a
        probability below 1 - cost are rejected. Needs `predict_proba`; as good as the probabilities are.
    delta : float, default=0.05
        For `risk`: how often the guarantee may fail.
    held_out : float, default=0.2
        Share of the rows that are not fitted to.
    reject_label : label, default=None
        What `predict` says for rejected rows. None: -1 where classes are numbers (one less than the lowest if -1 is a
        class), "rejected" where they are texts.
    random_state : int, RandomState instance or None, default=None
        Which rows are held out. None is one and the same choice.

    Attributes
    ----------
    estimator_ : classifier
        The fitted one.
    threshold_ : float
        Rows with at least this confidence are accepted.
    classes_ : ndarray of shape (n_classes,)
    reject_label_ : label
    coverage_, risk_ : float
        Share of accepted rows, and of errors among them, on the held-out rows.
    n_held_out_ : int

    Notes
    -----
    Sample weights are those of the fit; guarantees count every row once. `score` is the accuracy among accepted rows (1 if
    there are none).

    References
    ----------
    C. K. Chow. On optimum recognition error and reject tradeoff. IEEE Trans. Information Theory, 1970.

    A. N. Angelopoulos, S. Bates, E. J. Candes, M. I. Jordan and L. Lei. Learn then test. 2021.

    V. Vovk, A. Gammerman and G. Shafer. Algorithmic learning in a random world. 2005 (conformal sets).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from polymargin import CrammerSingerSVC, RejectOption
    >>> X, y = load_digits(return_X_y=True)
    >>> sure = RejectOption(CrammerSingerSVC(C=0.01, probability=True), risk=0.05).fit(X[:1500], y[:1500])
    >>> accepted = sure.accepts(X[1500:])
    >>> labels = sure.predict(X[1500:])  # -1 where it abstains
    >>> bool((labels[~accepted] == -1).all() and accepted.mean() > 0.5)
    True
    >>> sure.predict_set(X[1500:], alpha=0.05).shape  # which classes are possible
    (297, 10)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float | None = None,
        risk: float | None = None,
        cost: float | None = None,
        delta: float = 0.05,
        held_out: float = 0.2,
        reject_label: Any = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.coverage = coverage
        self.risk = risk
        self.cost = cost
        self.delta = delta
        self.held_out = held_out
        self.reject_label = reject_label
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RejectOption:
        """Fit the estimator to a part of the rows and choose the threshold by the others.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            For the fit of the estimator.

        Returns
        -------
        self
        """
        self._check_parameters()
        if y is None:
            raise ValueError("RejectOption requires y to be passed, but the target y is None.")
        X, y, sample_weight = indexable(X, column_or_1d(y, warn=True), sample_weight)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        out = self._choose_rows(y)
        self.estimator_ = self._fitted(X, y, sample_weight, ~out)
        self.classes_ = np.asarray(self.estimator_.classes_)
        self.reject_label_ = self._checked_label()
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._choose_threshold(_safe_indexing(X, np.flatnonzero(out)), y[out])
        return self

    def _check_parameters(self) -> None:
        given = [name for name in ("coverage", "risk", "cost") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(f"{name}={getattr(self, name)!r}" for name in given) or "none"
            raise ValueError(f"RejectOption needs exactly one of coverage=, risk= and cost=, such as risk=0.02; got {said}.")
        for name in (*given, "delta", "held_out"):
            value = validation.number(name, getattr(self, name))
            if not (0.0 < value < 1.0 or (name == "coverage" and value == 1.0)):
                raise ValueError(f"{name}={value!r} is not valid: it is a share between 0 and 1, for example 0.05 or 0.9.")

        if not self._is_frozen and get_tags(self.estimator).input_tags.pairwise:
            raise ValueError(
                "RejectOption cannot hold rows of a precomputed kernel matrix out; fit the estimator first, and give it as "
                "sklearn.frozen.FrozenEstimator with kernel values of other rows."
            )

    @property
    def _is_frozen(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator)

    def _choose_rows(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows are held out: any, whatever their class is, as the rows to come are."""
        if self._is_frozen:
            return np.ones(len(y), dtype=bool)
        order = np.random.default_rng(validation.seed_of(self.random_state)).permutation(len(y))
        out = np.asarray(order < round(self.held_out * len(y)))
        if not out.any() or out.all():
            raise ValueError(
                f"held_out={self.held_out!r} with n_samples={len(y)} leaves no row to fit to or none to hold out; give more."
            )
        return out

    def _fitted(self, X: Any, y: NDArray[Any], sample_weight: Any, kept: NDArray[np.bool_]) -> Any:
        if self._is_frozen:
            return self.estimator
        rows = np.flatnonzero(kept)
        weight = None if sample_weight is None else validation.sample_weights(sample_weight, len(y))[rows]
        fresh = clone(self.estimator)
        return fresh.fit(_safe_indexing(X, rows), y[rows], **weight_argument(fresh, weight))

    def _checked_label(self) -> Any:
        names, label = self.classes_.tolist(), self.reject_label
        if label is None and self.classes_.dtype.kind in "iuf":
            label = type(names[0])(-1) if -1 not in names else min(names) - 1
        elif label is None and all(isinstance(name, str) for name in names):
            label = "rejected"
        if label is None:
            raise ValueError(f"classes such as {names[0]!r} need a reject_label= of your choice.")
        if label in names:
            raise ValueError(f"reject_label={label!r} is a class of y; choose another one.")
        return label

    # ---- held-out rows ----------------------------------------------------------------------------------------------

    def _choose_threshold(self, X: Any, y: NDArray[Any]) -> None:
        support, are_probabilities = support_of(self.estimator_, X)
        sure = confidence(support, are_probabilities)
        wrong = self.estimator_.predict(X) != y
        self.n_held_out_ = len(y)
        self._strangeness = self._of_truth(strangeness(support, are_probabilities), y)
        self.threshold_ = self._threshold(sure, np.asarray(wrong), are_probabilities)
        accepted = sure >= self.threshold_
        self.coverage_ = float(accepted.mean())
        self.risk_ = float(wrong[accepted].mean()) if accepted.any() else 0.0

    def _of_truth(self, strange: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
        """Strangeness of the true class; infinite for classes that the estimator does not know."""
        place = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        return np.where(self.classes_[place] == y, strange[np.arange(len(y)), place], np.inf)

    def _threshold(self, sure: NDArray[np.float64], wrong: NDArray[np.bool_], are_probabilities: bool) -> float:
        if self.cost is not None:
            if not are_probabilities:
                raise ValueError(
                    f"cost={self.cost!r} is weighed against probabilities, and {type(self.estimator_).__name__} has no "
                    "predict_proba; machines of polymargin have it with probability=True."
                )
            return 1.0 - float(self.cost)
        if self.coverage is not None:
            return thresholds.for_coverage(sure, float(self.coverage))
        return self._proven(sure, wrong)

    def _proven(self, sure: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float:
        """By a fifth of the rows for the sequence of thresholds, and the others to test them."""
        assert self.risk is not None
        aside = np.random.default_rng(validation.seed_of(self.random_state)).permutation(len(sure)) % _GRID_SHARE == 0
        needed = thresholds.fewest_rows(self.risk, self.delta)
        if (~aside).sum() < needed:
            raise ValueError(
                f"risk={self.risk!r} with delta={self.delta!r} can be proven by {needed} held-out rows or more; there are "
                f"{(~aside).sum()} (of {len(sure)}, a fifth of which chooses thresholds). Give more rows, a larger held_out "
                "or a larger risk."
            )
        found = thresholds.for_risk(sure[~aside], wrong[~aside], sure[aside], float(self.risk), float(self.delta))
        if found == np.inf:
            warnings.warn(
                f"No threshold has a risk that is proven to be at most {self.risk:g}: all rows are rejected. Give more "
                "rows, a larger held_out, or a larger risk or delta.",
                UserWarning,
                stacklevel=5,
            )
        return found

    # ---- using it ---------------------------------------------------------------------------------------------------

    def confidence(self, X: Any) -> NDArray[np.float64]:
        """How sure the estimator is of each row: the probability of the best class, or the lead of its score."""
        check_is_fitted(self)
        return confidence(*support_of(self.estimator_, X))

    def accepts(self, X: Any) -> NDArray[np.bool_]:
        """Which rows are predicted; the others are rejected."""
        return np.asarray(self.confidence(X) >= self.threshold_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row, `reject_label_` for those that are rejected."""
        accepted = self.accepts(X)
        labels = np.asarray(self.estimator_.predict(X))
        return labels if accepted.all() else _with_label(labels, ~accepted, self.reject_label_)

    def predict_or_reject(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The class of every row, rejected or not, and which rows are accepted."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X)), self.accepts(X)

    def predict_set(self, X: Any, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Sets of classes that hold the true one with probability at least 1 - alpha (split conformal prediction).

        The probability is over held-out rows and the row to come. Nothing is rejected; an empty set says that no class fits.

        Returns
        -------
        ndarray of bool, of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        if not 0.0 < validation.number("alpha", alpha) < 1.0:
            raise ValueError(f"alpha={alpha!r} is not valid: the share of sets that may miss, for example 0.1.")
        highest = thresholds.quantile_of_strangeness(self._strangeness, alpha)
        return np.asarray(strangeness(*support_of(self.estimator_, X)) <= highest)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy among accepted rows; 1 if there are none."""
        labels, accepted = self.predict_or_reject(X)
        weight = validation.sample_weights(sample_weight, len(accepted)) * accepted
        return float(np.average(labels == np.asarray(y), weights=weight)) if weight.any() else 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = copy.copy(inner.input_tags)
        tags.input_tags.pairwise = False
        tags.classifier_tags = copy.copy(tags.classifier_tags)
        tags.classifier_tags.multi_label = False
        return tags


def _with_label(labels: NDArray[Any], rejected: NDArray[np.bool_], label: Any) -> NDArray[Any]:
    """The labels with another one in some places, in a type that holds both."""
    kind = np.asarray(label).dtype
    out = labels.astype(np.result_type(labels.dtype, kind) if labels.dtype.kind == kind.kind else object)
    out[rejected] = label
    return out
