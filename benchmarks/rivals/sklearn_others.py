"""Scikit-learn's other linear classifiers: one-versus-rest machines (LIBLINEAR) and softmax regression (L-BFGS).

Other problems: their numbers are a time and an accuracy at their default tolerance, never a relP.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from .base import Coefficients, Rival


def fitter(make: Callable[[float, float], Any]) -> Callable[[Any, np.ndarray, float, float], Any]:
    def fit(X: Any, y: np.ndarray, C: float, tol: float) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return make(C, tol).fit(X, y)

    return fit


def one_versus_rest(C: float, tol: float) -> LinearSVC:
    return LinearSVC(fit_intercept=False, C=C, tol=tol, random_state=0)


def softmax(C: float, tol: float) -> LogisticRegression:
    return LogisticRegression(fit_intercept=False, C=C, tol=tol, max_iter=1000)


def coefficients(model: Any) -> Coefficients:
    W = np.asarray(model.coef_, dtype=np.float64)
    if len(W) == 1:  # two classes share one vector
        W = np.concatenate([-W, W])
    return W, np.zeros(len(W))


RIVALS = (
    Rival("linearsvc-ovr", "sklearn", None, (1e-4,), fitter(one_versus_rest), coefficients),
    Rival("logistic", "sklearn", None, (1e-4,), fitter(softmax), coefficients),
)
