"""LIBLINEAR's Crammer-Singer solver as scikit-learn ships it: the one real rival."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from .base import Coefficients, Rival, ladder


def fit(X: Any, y: np.ndarray, C: float, tol: float) -> LinearSVC:
    machine = LinearSVC(
        multi_class="crammer_singer", fit_intercept=False, C=C, tol=tol, max_iter=10_000_000, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(X, y)


def coefficients(model: LinearSVC) -> Coefficients:
    return model.coef_, np.zeros(len(model.coef_))


RIVAL = Rival("liblinear", "sklearn", "cs", ladder(1.0, 1e-6), fit, coefficients)
