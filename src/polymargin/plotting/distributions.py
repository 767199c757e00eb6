"""Displays of rows: how their margins are distributed, how many of each class are right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.diagnostics.margins import margins, margins_of_scores
from polymargin.plotting import _drawing as drawing

Array = NDArray[np.float64]

_MARGIN = "margin: own score minus best other score\n(below 0 wrong, below 1 inside the hinge)"
_DISTANCE = "signed distance from the border of the own class\n(units of X or of the kernel's space; below 0 wrong)"


class MarginDistributionDisplay:
    """Distribution of the margins of rows, of one machine or several over each other.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    margins : dict
        Margins (n,) by the name of the machine.
    normalized : bool, default=False
        Whether they are distances in units of X rather than differences of scores.

    Attributes
    ----------
    margins, normalized
        The data, also after `plot`.
    ax_, figure_, lines_
        What matplotlib made.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC, WestonWatkinsSVC
    >>> from polymargin.plotting import MarginDistributionDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> machines = [CrammerSingerSVC().fit(X, y), WestonWatkinsSVC().fit(X, y)]
    >>> display = MarginDistributionDisplay.from_estimator(machines, X, y)
    >>> display.margins["WestonWatkinsSVC"].shape
    (150,)
    """

    def __init__(self, margins: dict[str, Array], normalized: bool = False):
        self.margins = margins
        self.normalized = normalized

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        normalize: bool = False,
        K: Any = None,
        name: str | None = None,
        kind: str = "cumulative",
        ax: Any = None,
    ) -> MarginDistributionDisplay:
        """Draw margins of the rows X, y for a fitted classifier, a list of them, or a dict of them by name.

        `normalize` and `K` are those of :func:`polymargin.diagnostics.margins`. Multi-label: known entries of all labels.
        """
        found = {
            label: _known(margins(machine, X, y, normalize=normalize, K=K))
            for label, machine in drawing.named(estimator, name).items()
        }
        return cls(found, normalize).plot(ax, kind=kind)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        scores: Any,
        *,
        classes: Any = None,
        name: str = "machine",
        kind: str = "cumulative",
        ax: Any = None,
    ) -> MarginDistributionDisplay:
        """Draw margins from labels and scores (n, c), or (n,) for two classes: the score of the second minus the first.

        `classes` names the columns; by default the sorted labels of `y_true`.
        """
        S = np.asarray(scores, dtype=np.float64)
        S = np.column_stack([-S / 2, S / 2]) if S.ndim == 1 else S
        labels = np.unique(y_true) if classes is None else np.asarray(classes)
        if len(labels) != S.shape[1]:
            raise ValueError(f"scores has {S.shape[1]} columns for {len(labels)} classes; pass classes=, one per column.")
        order = np.argsort(labels, kind="stable")
        own = order[np.minimum(np.searchsorted(labels, y_true, sorter=order), len(labels) - 1)]
        if (labels[own] != np.asarray(y_true)).any():
            raise ValueError("y_true has labels that are not in classes.")
        return cls({name: margins_of_scores(S, own)}).plot(ax, kind=kind)

    def plot(self, ax: Any = None, *, kind: str = "cumulative", bins: int = 50) -> MarginDistributionDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            New ones if None.
        kind : {"cumulative", "histogram"}, default="cumulative"
            Share of the rows with a smaller margin, or shares of the rows in bins of equal width.
        bins : int, default=50
            Number of bins, the same for all machines.
        """
        if kind not in ("cumulative", "histogram"):
            raise ValueError(f"kind={kind!r} is not valid: use 'cumulative' or 'histogram'.")
        self.ax_, self.figure_ = drawing.axes(ax, figsize=(6.4, 4.4))
        draw = self._draw_steps if kind == "cumulative" else self._draw_histogram
        self.lines_ = [draw(number, name, bins) for number, name in enumerate(self.margins)]
        self.ax_.axvline(0.0, color="0.25", linewidth=0.8)
        if not self.normalized:
            self.ax_.axvline(1.0, color="0.25", linewidth=0.8, linestyle=(0, (1, 2)))
        what = _DISTANCE if self.normalized else _MARGIN
        share = "share of rows with a smaller value" if kind == "cumulative" else "share of rows per bin"
        self.ax_.set(xlabel=what, ylabel=share)
        self.ax_.set_ylim(bottom=0.0, top=1.0 if kind == "cumulative" else None)
        self.ax_.legend(**drawing.ABOVE)
        return self

    def _draw_steps(self, number: int, name: str, bins: int) -> Any:
        values = np.sort(self.margins[name])
        shares = np.arange(1, len(values) + 1) / len(values)
        return self.ax_.plot(values, shares, drawstyle="steps-post", label=self._label(name), **drawing.style(number))[0]

    def _draw_histogram(self, number: int, name: str, bins: int) -> Any:
        every = np.concatenate(list(self.margins.values()))
        edges = np.linspace(every.min(), every.max() + 1e-12, bins + 1)
        shares = np.histogram(self.margins[name], edges)[0] / len(self.margins[name])
        return self.ax_.stairs(shares, edges, label=self._label(name), linewidth=1.4, **drawing.style(number))

    def _label(self, name: str) -> str:
        values = self.margins[name]
        return f"{name} (mean {values.mean():.3g}, variance {values.var():.3g})"


class ClassAccuracyDisplay:
    """Accuracy of each class (recall), with 95 % Wilson intervals, of one machine or several beside each other.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    classes : array of shape (n_classes,)
    counts : array of shape (n_classes,)
        Rows of each class.
    correct : dict
        Rightly classified rows of each class (n_classes,) by the name of the machine.

    Attributes
    ----------
    classes, counts, correct, accuracies
        The data.
    ax_, figure_
        What matplotlib made.
    """

    def __init__(self, classes: Any, counts: Any, correct: dict[str, Any]):
        self.classes = np.asarray(classes)
        self.counts = np.asarray(counts)
        self.correct = {name: np.asarray(values) for name, values in correct.items()}

    @property
    def accuracies(self) -> dict[str, Array]:
        """Accuracy of each class by machine, NaN for a class without rows."""
        with np.errstate(invalid="ignore"):
            return {name: values / self.counts for name, values in self.correct.items()}

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, sort: bool = True, ax: Any = None
    ) -> ClassAccuracyDisplay:
        """Draw for a fitted classifier, a list of them, or a dict of them by name, on the rows X, y."""
        predictions = {label: machine.predict(X) for label, machine in drawing.named(estimator, name).items()}
        return cls.from_predictions(y, predictions, sort=sort, ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Any, *, sort: bool = True, ax: Any = None) -> ClassAccuracyDisplay:
        """Draw from labels and predicted labels; `y_pred` may be a dict of predictions by the name of the machine."""
        y_true = np.asarray(y_true)
        if y_true.ndim != 1:
            raise ValueError(f"y_true has shape {y_true.shape}; this needs one class per row.")
        classes, own = np.unique(y_true, return_inverse=True)
        by_name = y_pred if isinstance(y_pred, dict) else {"machine": y_pred}
        correct = {
            name: np.bincount(own[np.asarray(predicted) == y_true], minlength=len(classes))
            for name, predicted in by_name.items()
        }
        return cls(classes, np.bincount(own), correct).plot(ax, sort=sort)

    def plot(self, ax: Any = None, *, sort: bool = True) -> ClassAccuracyDisplay:
        """Draw; with `sort` the class with the lowest mean accuracy is on top."""
        c, m = len(self.classes), len(self.correct)
        height = float(np.clip(1.5 + 0.2 * m + (0.12 + 0.1 * m) * c, 3.0, 8.5))
        self.ax_, self.figure_ = drawing.axes(ax, figsize=(6.4, height))
        mean = np.mean(list(self.accuracies.values()), axis=0)
        order = np.argsort(mean, kind="stable") if sort else np.arange(c)
        for number, (name, correct) in enumerate(self.correct.items()):
            low, high = _wilson(correct[order], self.counts[order])
            center = correct[order] / self.counts[order]
            shift = 0.6 * (number / (m - 1) - 0.5) if m > 1 else 0.0
            self.ax_.errorbar(
                center,
                np.arange(c) + shift,
                xerr=[np.maximum(center - low, 0.0), np.maximum(high - center, 0.0)],
                fmt=drawing.MARKERS[number % len(drawing.MARKERS)],
                color=drawing.style(number)["color"],
                markersize=4 if c <= 40 else 2.5,
                linewidth=0.8,
                label=f"{name} (all rows: {correct.sum() / self.counts.sum():.1%})",
            )
        positions, _ = drawing.thin_labels(self.classes[order], 40)
        texts = [f"{drawing.shorten(self.classes[order][i])} ({self.counts[order][i]})" for i in positions]
        self.ax_.set_yticks(positions, texts, fontsize="small" if c > 15 else None)
        self.ax_.set(ylim=(c - 0.5, -0.5), xlabel="accuracy on the rows of the class, with 95 % interval")
        self.ax_.set_ylabel("class (rows)")
        self.ax_.grid(axis="x", alpha=0.3)
        self.ax_.legend(**drawing.ABOVE)
        return self


def _known(values: Array) -> Array:
    """One row of margins, without unknown entries."""
    return values[~np.isnan(values)]


def _wilson(correct: NDArray[Any], counts: NDArray[Any]) -> tuple[Array, Array]:
    """95 % score interval of a share."""
    z2 = 1.959963985**2
    share = correct / counts
    center = (share + z2 / (2 * counts)) / (1 + z2 / counts)
    half = np.sqrt(z2 * (share * (1 - share) / counts + z2 / (4 * counts**2))) / (1 + z2 / counts)
    return center - half, center + half
