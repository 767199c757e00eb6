"""scikit-learn's SVC and LinearSVC, played by our machines: the same parameters and attributes, our fits.

Parameters that only steer LIBSVM or LIBLINEAR are taken and left alone. Two classes get C/2, with which our machines are the
binary one (docs/coming-from-scikit-learn.md). Our `tol` is a gap, theirs a violation: the tighter of both is used.
"""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from polymargin import CrammerSingerSVC, WestonWatkinsSVC

NO_LIMIT = 100_000  # epochs, for max_iter=-1
TIGHT = 1e-9  # they compare coefficients


class StandIn(ClassifierMixin, BaseEstimator):
    """Hands everything to a machine that is made in `fit`."""

    def fit(self, X, y, sample_weight=None):
        classes = len(np.unique(np.asarray(y))) if np.ndim(y) == 1 else 0
        self.machine_ = self._machine(self.C / 2 if classes == 2 else self.C)
        self.machine_.fit(X, y, sample_weight)
        return self

    def predict(self, X):
        return self._fitted().predict(X)

    def decision_function(self, X):
        return self._fitted().decision_function(X)

    @available_if(lambda self: getattr(self, "probability", False))
    def predict_proba(self, X):
        return self._fitted().predict_proba(X)

    @available_if(lambda self: getattr(self, "probability", False))
    def predict_log_proba(self, X):
        return self._fitted().predict_log_proba(X)

    def _fitted(self):
        return vars(self).get("machine_") or self._machine(self.C)  # one that is not fitted says so itself

    def __getattr__(self, name):
        if name.startswith("__") or "machine_" not in vars(self):
            raise AttributeError(name)
        return getattr(self.machine_, name)

    def __sklearn_tags__(self):
        return self._machine(self.C).__sklearn_tags__()


def named(name, machine):
    """The machine under another name, as messages have it."""
    return type(name, (machine,), {})


class SVC(StandIn):
    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability=False,
        tol=1e-3,
        cache_size=200,
        class_weight=None,
        verbose=False,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
    ):
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _machine(self, C):
        limit = NO_LIMIT if self.max_iter == -1 else self.max_iter
        names = ("kernel", "degree", "gamma", "coef0", "class_weight", "verbose", "random_state", "probability")
        given = {name: getattr(self, name) for name in names}
        return named("SVC", WestonWatkinsSVC)(C, max_iter=limit, tol=min(self.tol, TIGHT), warm_start=True, **given)

    @property
    def coef_(self):
        return self._fitted().coef_


class LinearSVC(StandIn):
    def __init__(
        self,
        penalty="l2",
        loss="squared_hinge",
        *,
        dual="auto",
        tol=1e-4,
        C=1.0,
        multi_class="ovr",
        fit_intercept=True,
        intercept_scaling=1,
        class_weight=None,
        verbose=0,
        random_state=None,
        max_iter=1000,
    ):
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _machine(self, C):
        names = ("fit_intercept", "class_weight", "verbose", "random_state", "max_iter")
        given = {name: getattr(self, name) for name in names}
        machine = CrammerSingerSVC if self.multi_class == "crammer_singer" else WestonWatkinsSVC
        return named("LinearSVC", machine)(C, tol=min(self.tol, TIGHT), **given)
