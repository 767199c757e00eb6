"""What the released program of M3SVM does, in NumPy: cross-entropy, 500 full-batch steps of Adam, a random start."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

SHARE = 0.8  # of the rows are training rows; the penalty is divided by the number of all
DECAYS, TINY = (0.9, 0.999), 1e-8  # Adam's, as Kingma and Ba give them


class ReleasedM3(ClassifierMixin, BaseEstimator):
    """Minimises the mean over rows and classes of cross-entropy, plus lam / n times all ordered pairs |w_k - w_l|^p.

    The steps end before the optimum, and where they begin is random: both are part of the result.
    """

    def __init__(self, lam: float = 1e-2, p: float = 4.0, rate: float = 0.01, steps: int = 500, random_state: int = 0):
        self.lam = lam
        self.p = p
        self.rate = rate
        self.steps = steps
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "ReleasedM3":
        for _ in self.fit_steps(X, y):
            pass
        return self

    def fit_steps(self, X: Any, y: Any) -> Iterator[float]:
        """The objective before each step and after the last one; `coef_` and `intercept_` are those it is of."""
        self.classes_, own = np.unique(y, return_inverse=True)
        truth = np.eye(len(self.classes_))[own]
        d, c = X.shape[1], len(self.classes_)
        draw, reach = np.random.default_rng(self.random_state), 1.0 / np.sqrt(d)
        Wb = draw.uniform(-reach, reach, (d + 1, c))  # offsets in the last row
        first, second = np.zeros_like(Wb), np.zeros_like(Wb)
        weight = self.weight(len(own))
        for step in range(1, self.steps + 2):
            self.coef_, self.intercept_ = Wb[:-1].T, Wb[-1]
            S = np.asarray(X @ Wb[:-1]) + Wb[-1]
            P = _softmax(S)
            distances, slope_of_pairs = self._pairs(Wb[:-1])
            yield float(-np.log(np.maximum(P[truth == 1], 1e-300)).sum() / truth.size + weight * distances)
            if step > self.steps:
                return
            T = (P - truth) / truth.size
            slope = np.vstack([np.asarray(X.T @ T) + weight * slope_of_pairs, T.sum(axis=0)])
            first += (1 - DECAYS[0]) * (slope - first)
            second += (1 - DECAYS[1]) * (slope**2 - second)
            root = np.sqrt(second / (1 - DECAYS[1] ** step)) + TINY
            Wb = Wb - self.rate * first / (1 - DECAYS[0] ** step) / root

    def weight(self, n_rows: int) -> float:
        """What multiplies the sum over ordered pairs, with so many training rows."""
        return self.lam * SHARE / n_rows

    def _pairs(self, W: Any) -> Any:
        """The sum over ordered pairs of |w_k - w_l|^p, and its gradient; that is 0 where two vectors are equal."""
        G = W.T @ W
        squares = np.maximum(np.diag(G)[:, None] + np.diag(G) - 2 * G, 0.0)
        with np.errstate(divide="ignore"):
            Q = np.where(squares > 0, 2 * self.p * squares ** (self.p / 2 - 1), 0.0)
        return (squares ** (self.p / 2)).sum(), W * Q.sum(axis=1) - W @ Q

    def predict(self, X: Any) -> Any:
        return self.classes_[(np.asarray(X @ self.coef_.T) + self.intercept_).argmax(axis=1)]


def _softmax(S: Any) -> Any:
    E = np.exp(S - S.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)
