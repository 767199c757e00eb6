"""Margins of rows: ``gamma = s_y - max_{k != y} s_k`` for a row of class y; negative means wrongly classified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.diagnostics.pairs import distances_of_gram
from polymargin.diagnostics.view import Array, view_of

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def margins(est: Any, X: Any, y: Any, *, normalize: bool = False, K: Any = None) -> Array:
    """Margin of each row: the score of its own class minus the best score of the others.

    Parameters
    ----------
    est : fitted classifier
        Any classifier whose `decision_function` gives one score per class (for two classes their difference), alone, at the
        end of a Pipeline or inside a search.
    X, y : rows and their labels
        `y` of shape (n,) holds class labels. For a multi-label machine `y` of shape (n, n_labels) holds 1 (has the label)
        and 0, or 1, -1 (known not to have it) and 0 (unknown).
    normalize : bool, default=False
        Divide each difference of scores by ``|w_y - w_k|`` before the smallest is taken: the signed distance of the row from
        the border of its class, in units of X (or of the kernel's space). Only these can be compared between machines whose
        vectors have different lengths.
    K : array of shape (n_train, n_train), default=None
        Training kernel matrix; needed to normalize with ``kernel="precomputed"``.

    Returns
    -------
    ndarray of shape (n,), or (n, n_labels) for a multi-label machine
        Multi-label: ``t_ik (s_ik - cut)`` with t = 1 for a label the row has and -1 for one it has not, where `cut` is the
        machine's threshold (0 if it has none); unknown entries are NaN. Divided by ``|w_k|`` if normalized.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.diagnostics import margins
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CrammerSingerSVC(tol=1e-6, random_state=0).fit(X, y)
    >>> gamma = margins(machine, X, y)
    >>> int((gamma <= 0).sum()) == int((machine.predict(X) != y).sum())
    True
    """
    view = view_of(est)
    S = view.scores(view.rows(X))
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1:
        signed = _signs(y, S.shape) * (S - _cut(view.estimator))
        return signed / np.sqrt(view.gram(K).diagonal()) if normalize else signed
    return margins_of_scores(S, view.indices(y), distances_of_gram(view.gram(K)) if normalize else None)


def margins_of_scores(S: Array, y: NDArray[np.integer], distances: Array | None = None) -> Array:
    """``min_{k != y} (s_y - s_k)``, each divided by the distance of the two class vectors if these are given."""
    if len(S) != len(y):
        raise ValueError(f"X has {len(S)} rows, but y has {len(y)}.")
    rows = np.arange(len(y))
    lead = S[rows, y][:, None] - S
    if distances is not None:
        with np.errstate(divide="ignore", invalid="ignore"):  # equal vectors: no border, or none to the rival
            lead = np.where(lead == 0.0, 0.0, lead / distances[y])
    lead[rows, y] = np.inf
    return np.asarray(lead.min(axis=1))


@dataclass(frozen=True)
class MarginStats:
    """Numbers that describe some margins.

    Attributes
    ----------
    n_rows : int
        How many margins (multi-label: known entries).
    mean, variance, minimum : float
        NaN if there are none.
    quantiles : dict
        At 5, 25, 50, 75 and 95 %.
    wrong : float
        Share of margins that are not positive: ties count as errors, as in the theorems.
    inside : float
        Share of margins below 1, where the hinge losses are positive.
    """

    n_rows: int
    mean: float
    variance: float
    minimum: float
    quantiles: dict[float, float]
    wrong: float
    inside: float

    @classmethod
    def of(cls, values: Array) -> MarginStats:
        values = values[~np.isnan(values)]
        if not len(values):
            nan = float("nan")
            return cls(0, nan, nan, nan, dict.fromkeys(QUANTILES, nan), nan, nan)
        return cls(
            n_rows=len(values),
            mean=float(values.mean()),
            variance=float(values.var()),
            minimum=float(values.min()),
            quantiles=dict(zip(QUANTILES, np.quantile(values, QUANTILES).tolist(), strict=True)),
            wrong=float((values <= 0).mean()),
            inside=float((values < 1).mean()),
        )


@dataclass(frozen=True)
class MarginSummary:
    """Margins of all rows and of each class (multi-label: of each label's known entries); ``print`` shows a table."""

    overall: MarginStats
    per_class: Mapping[Any, MarginStats]

    def __str__(self) -> str:
        head = f"{'class':>14} {'rows':>7} {'mean':>9} {'variance':>9} {'5 %':>9} {'median':>9} {'95 %':>9} {'wrong':>7}"
        named = [("all", self.overall), *((str(label), stats) for label, stats in self.per_class.items())]
        return "\n".join([head, *(_line(name, stats) for name, stats in named)])


def margin_summary(est: Any, X: Any, y: Any, *, normalize: bool = False, K: Any = None) -> MarginSummary:
    """Mean, variance, quantiles and errors of the margins, of all rows and of each class.

    Parameters are those of :func:`margins`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from polymargin.diagnostics import margin_summary
    >>> X, y = load_iris(return_X_y=True)
    >>> summary = margin_summary(LogisticRegression(max_iter=500).fit(X, y), X, y)
    >>> list(summary.per_class), summary.overall.n_rows, round(summary.overall.wrong, 3)
    ([0, 1, 2], 150, 0.027)
    """
    values, y = margins(est, X, y, normalize=normalize, K=K), np.asarray(y)
    view = view_of(est)
    labels = view.classes.tolist()
    if values.ndim == 2:
        return MarginSummary(MarginStats.of(values.ravel()), {k: MarginStats.of(values[:, i]) for i, k in enumerate(labels)})
    own = view.indices(y)
    return MarginSummary(MarginStats.of(values), {k: MarginStats.of(values[own == i]) for i, k in enumerate(labels)})


def _signs(Y: NDArray[Any], shape: tuple[int, ...]) -> Array:
    """1 for labels a row has, -1 for those it has not, NaN for unknown ones (0 beside -1)."""
    if Y.shape != shape:
        raise ValueError(f"y has shape {Y.shape}, but the machine's scores have shape {shape}.")
    if not np.isin(Y, (-1, 0, 1)).all():
        raise ValueError("y of a multi-label machine must hold 0 and 1, or -1, 0 (unknown) and 1.")
    absent = np.nan if (Y == -1).any() else -1.0
    return np.where(Y == 0, absent, np.asarray(Y, dtype=np.float64))


def _cut(estimator: Any) -> float:
    """The score from which on a label is assigned."""
    for name in ("threshold_", "threshold"):
        value = getattr(estimator, name, None)
        if isinstance(value, Real) and not isinstance(value, bool):
            return float(value)
    return 0.0


def _line(name: str, stats: MarginStats) -> str:
    low, median, high = (stats.quantiles[q] for q in (0.05, 0.5, 0.95))
    numbers = " ".join(f"{value:9.4g}" for value in (stats.mean, stats.variance, low, median, high))
    return f"{name[:14]:>14} {stats.n_rows:7d} {numbers} {stats.wrong:6.1%}"
