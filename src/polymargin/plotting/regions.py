"""Where in a plane which class is predicted, with the lines that rows should reach and the rows that hold the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.diagnostics.view import View, view_of
from polymargin.plotting import _drawing as drawing

Array = NDArray[np.float64]
_ROOM = 0.08  # of the range of the rows, on each side
_LINES = ("margin", "score")
_BLOCK = 1 << 16  # points that are scored at a time


class DecisionRegionsDisplay:
    """Regions of the classes of a machine of two columns, lines at 1, and support rows.

    Make one with `from_estimator`.

    Parameters
    ----------
    x, y : ndarray
        Positions of the columns and rows of the grid.
    regions : ndarray of shape (len(y), len(x))
        Number of the predicted class at each point.
    values : ndarray of shape (n_classes, len(y), len(x))
        What the lines are drawn of: for each class its lead over the best other one ("margin"), or its score ("score").
    rows, labels : ndarray
        The rows that are shown, and the numbers of their classes.
    support : ndarray
        Numbers of the support rows among them.
    classes : ndarray
        Class labels.
    lines : {"margin", "score"}
        What `values` are.
    names : tuple of two str
        Names of the two columns.

    Attributes
    ----------
    ax_, figure_, regions_, lines_, points_, support_
        What matplotlib made; `support_` is None without support rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.plotting import DecisionRegionsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CrammerSingerSVC(C=10.0, random_state=0).fit(X[:, 2:], y)
    >>> display = DecisionRegionsDisplay.from_estimator(machine, X[:, 2:], y)
    >>> display.regions.shape, display.lines
    ((200, 200), 'margin')
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        regions: NDArray[np.intp],
        values: Array,
        *,
        rows: Array,
        labels: NDArray[np.intp],
        support: NDArray[np.intp],
        classes: NDArray[Any],
        lines: str = "margin",
        names: tuple[str, str] = ("column 1", "column 2"),
    ):
        self.x, self.y, self.regions, self.values = x, y, regions, values
        self.rows, self.labels, self.support, self.classes = rows, labels, support, classes
        self.lines, self.names = lines, names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        lines: str | None = None,
        resolution: int = 200,
        ax: Any = None,
    ) -> DecisionRegionsDisplay:
        """Draw for a fitted machine.

        Parameters
        ----------
        estimator : fitted machine
            One of polymargin's or a scikit-learn classifier with one score per class, of two columns; also in a Pipeline.
        X, y : rows of two columns, and their class labels
            The training rows, if support rows are to be marked.
        lines : {"margin", "score"}, default=None
            Lines where a class is ahead of all others by 1, or where its own score is 1. None: "score" for machines with a
            `threshold`, whose labels stand for themselves (:class:`~polymargin.OneVsNoneSVC`), "margin" for all others.
        resolution : int, default=200
            Points of the grid along each side.
        ax : matplotlib axes, default=None
            New ones if None.
        """
        view = view_of(estimator)
        rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise ValueError(f"X has shape {rows.shape}; a plane has two columns: fit on two, or on a projection to two.")
        if lines is None:
            lines = "score" if hasattr(view.estimator, "threshold") else "margin"
        if lines not in _LINES:
            raise ValueError(f"lines={lines!r} is not valid: use 'margin' or 'score'.")
        if isinstance(resolution, bool) or not isinstance(resolution, int) or resolution < 2:
            raise ValueError(f"resolution={resolution!r} is not valid: it must be an integer of at least 2 (try 200).")
        labels = view.indices(y)
        across, up = (_side(rows[:, k], resolution) for k in range(2))
        S = _scores(view, across, up)
        shape = (resolution, resolution)
        return cls(
            across,
            up,
            S.argmax(axis=1).reshape(shape),
            (S if lines == "score" else _leads(S)).T.reshape(-1, *shape),
            rows=rows,
            labels=labels,
            support=_support(view.estimator, len(rows)),
            classes=view.classes,
            lines=lines,
            names=_names(X),
        ).plot(ax)

    def plot(self, ax: Any = None) -> DecisionRegionsDisplay:
        """Draw on `ax`, or on new axes."""
        self.ax_, self.figure_ = drawing.axes(ax, figsize=(6.0, 5.0))
        colors = [drawing.COLORS[k % len(drawing.COLORS)] for k in range(len(self.classes))]
        edges = np.arange(len(self.classes) + 1) - 0.5
        self.regions_ = self.ax_.contourf(self.x, self.y, self.regions, levels=edges, colors=colors, alpha=0.25)
        self.lines_ = [
            self.ax_.contour(self.x, self.y, value, levels=[1.0], colors=[color], linewidths=1.0)
            for value, color in zip(self.values, colors, strict=True)
            if value.min() < 1.0 < value.max()
        ]
        self.points_ = []
        for k, name in enumerate(self.classes):
            shown = self.rows[self.labels == k]
            look = {"marker": drawing.MARKERS[k % len(drawing.MARKERS)], "color": colors[k], "s": 18}
            self.points_.append(self.ax_.scatter(*shown.T, label=drawing.shorten(name), **look))
        self.support_ = None
        if len(self.support):
            around = {"s": 60, "facecolors": "none", "edgecolors": "0.2", "linewidths": 0.7, "label": "support rows"}
            self.support_ = self.ax_.scatter(*self.rows[self.support].T, **around)
        self.ax_.set(xlabel=self.names[0], ylabel=self.names[1])
        self.ax_.legend(**drawing.ABOVE, ncols=4)
        return self


def _side(column: Array, resolution: int) -> Array:
    low, high = float(column.min()), float(column.max())
    room = _ROOM * (high - low) or 1.0
    return np.linspace(low - room, high + room, resolution)


def _scores(view: View, x: Array, y: Array) -> Array:
    points = np.column_stack([part.ravel() for part in np.meshgrid(x, y)])
    blocks = [points[i : i + _BLOCK] for i in range(0, len(points), _BLOCK)]
    return np.vstack([_class_scores(view, view.rows(block)) for block in blocks])


def _class_scores(view: View, rows: Any) -> Array:
    """Scores of the single classes, of two as well, where a machine tells them: `decision_function` has their difference."""
    if view.n_classes != 2 or not hasattr(view.estimator, "class_offsets_"):
        return view.scores(rows)
    found = view.estimator.decision_function(rows, top=2)
    first_is_best = found.classes[:, :1] == view.classes[0]
    return np.where(first_is_best, found.scores, found.scores[:, ::-1])


def _leads(S: Array) -> Array:
    """Of each class over the best of the others."""
    ordered = np.sort(S, axis=1)
    best, second = ordered[:, [-1]], ordered[:, [-2]]
    return S - np.where(best == S, second, best)


def _support(est: Any, n_rows: int) -> NDArray[np.intp]:
    """Empty where the machine has none, or was fitted on other rows."""
    found = np.asarray(getattr(est, "support_", ()), dtype=np.intp)
    return found if len(found) and found.max() < n_rows else np.empty(0, dtype=np.intp)


def _names(X: Any) -> tuple[str, str]:
    columns = [str(name) for name in getattr(X, "columns", ("column 1", "column 2"))]
    return columns[0], columns[1]
