"""Candidates: the machines of this library and the papers' rivals, each with the grid it is given."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.svm import SVC, LinearSVC

from polymargin.comparison import Candidate

Values = Sequence[Any]
CODE_CLASSES = 7  # 2^6 - 1 = 63 binary machines; with ten classes it would be 511


def ours(machine: Any, name: str, grid: Mapping[str, Values], **fixed: Any) -> Candidate:
    return Candidate(name, machine(**{"random_state": 0, **fixed}), dict(grid), ours=True)


def linear_svc(**fixed: Any) -> LinearSVC:
    return LinearSVC(**{"random_state": 0, "max_iter": 3000, **fixed})


def one_vs_rest(name: str, Cs: Values, **fixed: Any) -> Candidate:
    return Candidate(name, linear_svc(**fixed), {"C": Cs})


def one_vs_one(name: str, Cs: Values, **fixed: Any) -> Candidate:
    return Candidate(name, OneVsOneClassifier(linear_svc(**fixed)), {"estimator__C": Cs})


def output_codes(name: str, Cs: Values, **fixed: Any) -> Candidate:
    return Candidate(name, ExhaustiveCodes(linear_svc(**fixed)), {"estimator__C": Cs})


def logistic(name: str, Cs: Values) -> Candidate:
    return Candidate(name, LogisticRegression(max_iter=1000), {"C": Cs})


def sparse_logistic(name: str, Cs: Values) -> Candidate:
    """Multinomial with an l1 penalty; SAGA is scikit-learn's only solver for it."""
    return Candidate(
        name, LogisticRegression(l1_ratio=1.0, solver="saga", tol=1e-3, max_iter=300, random_state=0), {"C": Cs}
    )


def kernel_svc(name: str, Cs: Values, gammas: Values = ("scale",)) -> Candidate:
    return Candidate(name, SVC(), {"gamma": gammas, "C": Cs})


def kernel_one_vs_rest(name: str, Cs: Values, gammas: Values) -> Candidate:
    return Candidate(name, OneVsRestClassifier(SVC()), {"estimator__gamma": gammas, "estimator__C": Cs})


def linear_one_vs_rest(name: str, Cs: Values) -> Candidate:
    return Candidate(name, OneVsRestClassifier(linear_svc()), {"estimator__C": Cs})


class ExhaustiveCodes(ClassifierMixin, BaseEstimator):
    """Error-correcting output codes with all 2^(k-1) - 1 columns (Dietterich & Bakiri 1995); scikit-learn's are random."""

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> "ExhaustiveCodes":
        self.classes_, index = np.unique(y, return_inverse=True)
        rest = itertools.product((0, 1), repeat=len(self.classes_) - 1)
        self.codes_ = np.array([(1, *bits) for bits in rest if 0 in bits]).T  # a row for each class
        self.machines_ = [clone(self.estimator).fit(X, column[index]) for column in self.codes_.T]
        return self

    def predict(self, X: Any) -> Any:
        bits = np.column_stack([machine.predict(X) for machine in self.machines_])
        distance = (bits[:, None, :] != self.codes_).sum(axis=2)
        return self.classes_[distance.argmin(axis=1)]
