"""Displays of probabilities: whether they are kept, and what it buys to abstain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.calibration import measures
from polymargin.calibration.measures import Bins
from polymargin.plotting import _drawing as drawing

Array = NDArray[np.float64]


class Kept(NamedTuple):
    """How well probabilities were kept: bins of confidence, expected calibration error, log loss, Brier score."""

    bins: Bins
    calibration_error: float
    log_loss: float
    brier_score: float

    def __str__(self) -> str:
        return f"ECE {self.calibration_error:.3f}, log loss {self.log_loss:.3f}, Brier {self.brier_score:.3f}"


class ReliabilityDisplay:
    """Whether the most probable class is as often right as it is probable, for any number of classes.

    Above the share of right rows in bins of confidence, with the diagonal they should lie on; below how many rows are in
    each bin. The legend has expected calibration error, log loss and Brier score. Make one with `from_estimator` or
    `from_predictions`.

    Parameters
    ----------
    kept : dict
        A `Kept` by the name of the machine.

    Attributes
    ----------
    kept
        The data: ``kept[name].bins``, ``.calibration_error``, ``.log_loss``, ``.brier_score``.
    axes_, figure_, lines_
        What matplotlib made: reliability and histogram.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.plotting import ReliabilityDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = CrammerSingerSVC(C=0.01, probability=True).fit(X[:1000], y[:1000])
    >>> display = ReliabilityDisplay.from_estimator(machine, X[1000:], y[1000:])
    >>> bool(display.kept["CrammerSingerSVC"].calibration_error < 0.1)
    True
    """

    def __init__(self, kept: dict[str, Kept]):
        self.kept = kept

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        name: str | None = None,
        axes: Any = None,
    ) -> ReliabilityDisplay:
        """Draw for a fitted classifier with `predict_proba`, a list of them, or a dict of them by name."""
        found = {}
        for label, machine in drawing.named(estimator, name).items():
            found[label] = _kept(y, machine.predict_proba(X), n_bins, strategy, machine.classes_)
        return cls(found).plot(axes)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        classes: Any = None,
        n_bins: int = 10,
        strategy: str = "uniform",
        name: str = "machine",
        axes: Any = None,
    ) -> ReliabilityDisplay:
        """Draw from labels and probabilities (n, c); `classes` names the columns, by default the sorted labels."""
        return cls({name: _kept(y_true, y_prob, n_bins, strategy, classes)}).plot(axes)

    def plot(self, axes: Any = None) -> ReliabilityDisplay:
        """Draw on two `axes`, or on new ones."""
        if axes is None:
            shape: dict[str, Any] = {"height_ratios": (3, 1), "figsize": (5.2, 6.0)}
            _, axes = drawing.pyplot().subplots(2, 1, sharex=True, layout="constrained", **shape)
        self.axes_ = np.asarray(axes, dtype=object).ravel()
        if len(self.axes_) != 2:
            raise ValueError(f"axes has {len(self.axes_)} axes; two are needed, for reliability and histogram.")
        self.figure_ = self.axes_[0].figure
        top, below = self.axes_
        top.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        self.lines_ = [self._draw(number, name) for number, name in enumerate(self.kept)]
        top.set(ylabel="share of right rows", ylim=(-0.03, 1.03), xlim=(0, 1.01))  # lines at 0 and 1 are seen
        below.set(xlabel="probability of the most probable class", ylabel="share of rows")
        top.legend(**drawing.ABOVE)
        return self

    def _draw(self, number: int, name: str) -> Any:
        kept, (top, below) = self.kept[name], self.axes_
        look, bins = drawing.style(number), kept.bins
        marker = drawing.MARKERS[number % len(drawing.MARKERS)]
        filled = bins.weight > 0
        drawn = (bins.confidence[filled], bins.accuracy[filled])
        line = top.plot(*drawn, marker=marker, markersize=4, label=f"{name}\n{kept}", **look)[0]
        below.stairs(bins.weight / bins.weight.sum(), bins.edges, **look)
        return line


def _kept(y: Any, P: Any, n_bins: int, strategy: str, classes: Any) -> Kept:
    bins = measures.reliability(y, P, n_bins, strategy, None, classes)
    found = measures.checked_probabilities(y, P, classes)
    return Kept(bins, bins.error, measures.log_loss(*found), measures.brier(*found))


class Curve(NamedTuple):
    """Risk at every coverage, both rising with the number of accepted rows, the area under the curve, and a chosen point."""

    coverage: Array
    risk: Array
    area: float
    chosen: tuple[float, float] | None = None


class RiskCoverageDisplay:
    """How the share of errors among accepted rows grows with the share that is accepted, the surest first.

    The area under the curve (AURC) is the mean risk over all coverages: less is better. The point of a
    :class:`~polymargin.RejectOption` is marked. Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    curves : dict
        A `Curve` by the name of the machine.

    Attributes
    ----------
    curves
        The data: ``curves[name].coverage``, ``.risk``, ``.area``, ``.chosen``.
    ax_, figure_, lines_
        What matplotlib made.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from polymargin import CrammerSingerSVC, RejectOption
    >>> from polymargin.plotting import RiskCoverageDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> sure = RejectOption(CrammerSingerSVC(C=0.01), coverage=0.9).fit(X[:1000], y[:1000])
    >>> display = RiskCoverageDisplay.from_estimator(sure, X[1000:], y[1000:])
    >>> bool(display.curves["RejectOption"].area < 0.1)
    True
    """

    def __init__(self, curves: dict[str, Curve]):
        self.curves = curves

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None
    ) -> RiskCoverageDisplay:
        """Draw for a fitted classifier or :class:`~polymargin.RejectOption`, a list of them, or a dict of them by name."""
        from polymargin.rejection.confidence import confidence, support_of

        curves = {}
        for label, machine in _named(estimator, name).items():
            inner = getattr(machine, "estimator_", machine) if hasattr(machine, "accepts") else machine
            wrong = np.asarray(inner.predict(X)) != np.asarray(y)
            curve = _curve(wrong, confidence(*support_of(inner, X)))
            if hasattr(machine, "accepts"):
                accepted = machine.accepts(X)
                risk = float(wrong[accepted].mean()) if accepted.any() else 0.0
                curve = curve._replace(chosen=(float(accepted.mean()), risk))
            curves[label] = curve
        return cls(curves).plot(ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, confidence: Any, *, name: str = "machine", ax: Any = None
    ) -> RiskCoverageDisplay:
        """Draw from labels, predictions and how sure they are."""
        wrong = np.asarray(y_true) != np.asarray(y_pred)
        sure = np.asarray(confidence, dtype=np.float64)
        if sure.shape != wrong.shape:
            raise ValueError(f"confidence has shape {sure.shape}, but y_true has {wrong.shape}.")
        return cls({name: _curve(wrong, sure)}).plot(ax)

    def plot(self, ax: Any = None) -> RiskCoverageDisplay:
        """Draw on `ax`, or on new axes."""
        self.ax_, self.figure_ = drawing.axes(ax, figsize=(6.4, 4.4))
        self.lines_ = []
        for number, (name, curve) in enumerate(self.curves.items()):
            look = drawing.style(number)
            label = f"{name} (AURC {curve.area:.4f})"
            self.lines_ += self.ax_.plot(curve.coverage, curve.risk, label=label, drawstyle="steps-post", **look)
            if curve.chosen is not None:
                self.ax_.plot(*curve.chosen, marker="o", markersize=7, color=look["color"], linestyle="none")
        self.ax_.set(xlabel="coverage: share of rows that are accepted", ylabel="risk: share of errors among them")
        self.ax_.set_xlim(0, 1)
        self.ax_.set_ylim(bottom=0)
        self.ax_.grid(alpha=0.3)
        self.ax_.legend(**drawing.ABOVE)
        return self


def _named(estimator: Any, name: str | None) -> dict[str, Any]:
    """As for other displays; a reject option goes by its own name, not by that of its machine."""
    if hasattr(estimator, "accepts"):
        return {name or type(estimator).__name__: estimator}
    return drawing.named(estimator, name)


def _curve(wrong: NDArray[np.bool_], sure: Array) -> Curve:
    """Rows of equal confidence are accepted together."""
    order = np.argsort(-sure, kind="stable")
    accepted = np.arange(1, len(sure) + 1)
    risk = np.cumsum(wrong[order]) / accepted
    last_of_equals = np.append(sure[order][:-1] > sure[order][1:], True)
    ends = np.flatnonzero(last_of_equals)
    steps = np.diff(np.append(0, accepted[ends])) / len(sure)
    return Curve(accepted[ends] / len(sure), risk[ends], float(steps @ risk[ends]))
