"""scikit-learn's SVC and LinearSVC, played by our machines: the same parameters and attributes, our fits.

Parameters that only steer LIBSVM or LIBLINEAR are taken and left alone. Two classes get C/2, with which our machines are the
binary one (docs/coming-from-scikit-learn.md). Our `tol` is a gap, theirs a violation: the tighter of both is used.
"""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from polymargin import CrammerSingerSVC, WestonWatkinsSVC

TIGHT = 1e-9  # they compare coefficients


class StandIn(ClassifierMixin, BaseEstimator):
    """Hands everything to a machine that is made in `fit`."""

    made = 0  # stand-ins that were fitted, of all kinds

    def fit(self, X, y, sample_weight=None):
        StandIn.made += 1
        classes = len(np.unique(np.asarray(y))) if np.ndim(y) == 1 else 0
        self.machine_ = self._machine(self.C / 2 if classes == 2 else self.C)
        self.machine_.fit(X, y, sample_weight)
        self.rows_ = X.tocsr() if sparse.issparse(X) else np.asarray(X)
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
        """The machine with the settings of now; one that is not fitted says so itself."""
        machine = vars(self).get("machine_") or self._machine(self.C)
        return machine.set_params(probability=getattr(self, "probability", False))

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
        names = ("kernel", "degree", "gamma", "coef0", "class_weight", "verbose", "random_state", "probability", "max_iter")
        given = {name: getattr(self, name) for name in names}
        return named("SVC", WestonWatkinsSVC)(C, tol=min(self.tol, TIGHT), warm_start=True, **given)

    # Theirs are sparse where the rows are, keep the support rows for a linear kernel too, and have one row of coefficients
    # for two classes. Ours are always dense, linear machines keep no rows, and every class has its row of coefficients.

    @property
    def coef_(self):
        return self._as_rows(self._fitted().coef_)

    @property
    def dual_coef_(self):
        rows = self._fitted().dual_coef_
        return self._as_rows(rows[1:] - rows[:1] if len(rows) == 2 else rows)

    @property
    def support_vectors_(self):
        return self.rows_[self.support_]

    def _as_rows(self, found):
        return sparse.csr_matrix(found) if sparse.issparse(self.rows_) else found


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
