"""Margins of logistic regression (M3SVM's paper, Eq. 29): how far a border can be moved while the loss stays small."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin import validation
from polymargin.diagnostics.pairs import distances_of_gram
from polymargin.diagnostics.view import Array, view_of

_HALVINGS = 60
NOTHING_KNOWN = float(np.log(2.0))  # mean loss of a row where both classes have the same score


def logistic_margins(est: Any, X: Any, y: Any, *, level: float = NOTHING_KNOWN) -> Array:
    """``(b_max - b_min) / |w_k - w_l|`` for each pair of classes, Eq. 29 of M3SVM.

    The border between two classes may be moved from b_min to b_max before the mean of ``log(1 + exp(-t (s_k - s_l + b)))``
    over the rows of both, t = 1 for class k and -1 for class l, exceeds `level`. The hinge has a margin of fixed score,
    ``2 / |w_k - w_l|``; a logistic loss has none, and this stands in for it.

    Parameters
    ----------
    est, X, y
        A fitted machine, its training rows and labels, as in :func:`~polymargin.diagnostics.margins`.
    level : float, default=log 2
        The paper's epsilon, which it leaves open, divided by the rows of the pair. log 2 is the loss of a border that knows
        nothing. A smaller level gives smaller margins.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        0 where no border of this direction has so small a loss; infinite where a class has no rows, and on the diagonal.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import M3SVC
    >>> from polymargin.diagnostics import logistic_margins
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = M3SVC(loss="logistic", random_state=0).fit(scale(X), y)
    >>> widths = logistic_margins(machine, scale(X), y)
    >>> bool(widths[0, 2] > widths[1, 2])
    True
    """
    validation.positive("level", level, "e.g. 0.69, the loss of a border that knows nothing")
    view = view_of(est)
    rows, own = view.rows(X), view.indices(y)
    S = view.scores(rows)
    lengths = distances_of_gram(view.gram(rows if view.is_precomputed else None))
    found = np.full(lengths.shape, np.inf)
    for k in range(view.n_classes):
        for m in range(k + 1, view.n_classes):
            first, second = S[own == k], S[own == m]
            if len(first) and len(second):
                signs = np.concatenate([np.ones(len(first)), -np.ones(len(second))])
                gaps = np.concatenate([first[:, k] - first[:, m], second[:, k] - second[:, m]])
                reach = _reach(gaps, signs, level)
                found[k, m] = found[m, k] = reach / lengths[k, m] if reach else 0.0
    return found


def _reach(gaps: Array, signs: Array, level: float) -> float:
    """Length of the interval of b on which the mean loss is at most `level`; the loss is convex in b."""

    def loss(b: float) -> float:
        return float(np.logaddexp(0.0, -signs * (gaps + b)).mean())

    def slope(b: float) -> float:
        return float((-signs / (1.0 + np.exp(np.clip(signs * (gaps + b), -700.0, 700.0)))).mean())

    far = float(np.abs(gaps).max()) + len(gaps) * level + 1.0  # there the rows of one class alone cost more than `level`
    best = _root(slope, -far, far)
    if loss(best) > level:
        return 0.0
    return _root(lambda b: loss(b) - level, best, far) - _root(lambda b: level - loss(b), -far, best)


def _root(rising: Any, low: float, high: float) -> float:
    """Where a function that goes from negative to positive changes its sign."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rising(middle) > 0.0 else (middle, high)
    return 0.5 * (low + high)
