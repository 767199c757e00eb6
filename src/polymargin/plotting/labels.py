"""Displays of many labels: how well each is predicted, and which errors come together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin import metrics
from polymargin.plotting import _drawing as drawing
from polymargin.plotting.heatmaps import _PairsDisplay

_SCORES = ("precision", "recall", "F1")


class LabelScoresDisplay:
    """Precision, recall and F1 of each label, the most frequent first: a picture that stays one with thousands of labels.

    Parameters
    ----------
    scores : array of shape (3, n_labels)
        Precision, recall and F1.
    members : array of shape (n_labels,)
        How many rows are known to have each label.
    labels : sequence of n_labels names, default=None

    Attributes
    ----------
    scores, members, labels
        The data.
    order_, ax_, figure_
        Order in which labels were drawn, and what matplotlib made.

    Examples
    --------
    >>> from polymargin.plotting import LabelScoresDisplay
    >>> display = LabelScoresDisplay.from_predictions([[1, 0], [1, 1]], [[1, 0], [1, 0]])
    >>> display.scores[1].tolist()
    [1.0, 0.0]
    """

    def __init__(self, scores: Any, members: Any, labels: Any = None):
        self.scores, self.members = np.asarray(scores, dtype=np.float64), np.asarray(members)
        self.labels = np.arange(len(self.members)) if labels is None else np.asarray(labels)
        if self.scores.shape != (3, len(self.members)) or len(self.labels) != len(self.members):
            raise ValueError(f"scores has shape {self.scores.shape} for {len(self.members)} labels; it must have 3 rows.")

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Any:
        """Draw for a fitted machine and a label matrix y, which may hold -1."""
        names = getattr(estimator, "_label_names", None)
        return cls.from_predictions(y, estimator.predict(X), labels=names, ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Any, *, labels: Any = None, ax: Any = None) -> Any:
        """Draw for label matrices; if `y_true` holds -1, its zeros are unknown and do not count."""
        *scores, members = metrics.per_label(metrics.entries(y_true, y_pred))
        return cls(scores, members, labels).plot(ax)

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on new ones."""
        self.order_ = np.argsort(-self.members, kind="stable")
        self.ax_, self.figure_ = drawing.axes(ax, figsize=(8.0, 3.6))
        places = np.arange(len(self.order_))
        for number, (name, values) in enumerate(zip(_SCORES, self.scores, strict=True)):
            look = {"marker": drawing.MARKERS[number], "color": drawing.COLORS[number], "linestyle": "", "markersize": 4}
            self.ax_.plot(places, values[self.order_], label=name, **look)
        positions, texts = drawing.thin_labels(self.labels[self.order_], 25)
        self.ax_.set_xticks(positions, texts, rotation=90 if max(map(len, texts), default=0) > 3 else 0)
        self.ax_.set(xlabel="label, the most frequent first", ylabel="score", ylim=(-0.03, 1.03))
        self.ax_.legend(ncols=3, **drawing.ABOVE)
        return self


class LabelErrorsDisplay(_PairsDisplay):
    """Heat map of errors that come together: of the rows on which either of two labels is wrong, the share with both wrong.

    Parameters and attributes as `PairwiseMarginDisplay`; 0 means that two labels are never wrong on the same row.

    Examples
    --------
    >>> from polymargin.plotting import LabelErrorsDisplay
    >>> display = LabelErrorsDisplay.from_labels([[1, 0, 1], [1, 1, 0]], [[0, 1, 1], [1, 0, 0]])
    >>> display.matrix[0, 1].item()
    0.5
    """

    _what = "errors of two labels on the same row"
    _units = ("share of the rows with either", "share of the rows with either")

    @classmethod
    def from_labels(cls, y_true: Any, y_pred: Any, *, labels: Any = None, order: str = "given", ax: Any = None) -> Any:
        """Draw for label matrices; unknown entries are no errors."""
        return cls(errors_together(y_true, y_pred), labels).plot(ax, order=order)

    @classmethod
    def from_estimator(  # type: ignore[override]
        cls, estimator: Any, X: Any, y: Any, *, order: str = "given", ax: Any = None
    ) -> Any:
        """Draw for a fitted machine and a label matrix y, which may hold -1."""
        names = getattr(estimator, "_label_names", None)
        return cls.from_labels(y, estimator.predict(X), labels=names, order=order, ax=ax)


def errors_together(y_true: Any, y_pred: Any) -> NDArray[np.float64]:
    """Of the rows on which either of two labels is wrong, the share with both wrong; 0 where there are none."""
    found = metrics.entries(y_true, y_pred)
    wrong = (found.extra | found.lost).astype(np.float64)
    both = wrong.T @ wrong
    either = np.diag(both)[:, None] + np.diag(both) - both
    return np.asarray(np.divide(both, either, out=np.zeros_like(both), where=either > 0.0))
