"""Displays of classes against classes: pairwise margins and angles."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polymargin.diagnostics.pairs import angles, pairwise_margins
from polymargin.diagnostics.view import view_of
from polymargin.plotting import _drawing as drawing

_NUMBERS_UP_TO = 12  # classes
_LABELS_UP_TO = 25


class _PairsDisplay:
    """A symmetric matrix over the classes as a heat map: numbers in it for few classes, thinned labels for many."""

    _what: ClassVar[str]
    _units: ClassVar[tuple[str, str]]  # of a linear machine, of a kernel machine

    def __init__(self, matrix: Any, classes: Any = None, unit: str | None = None):
        self.unit = self._units[0] if unit is None else unit
        self.matrix = np.asarray(matrix, dtype=np.float64)
        self.classes = np.arange(len(self.matrix)) if classes is None else np.asarray(classes)
        if self.matrix.shape != (len(self.classes), len(self.classes)):
            raise ValueError(f"matrix has shape {self.matrix.shape} for {len(self.classes)} classes; it must be square.")

    @staticmethod
    def _compute(estimator: Any, K: Any) -> NDArray[np.float64]:
        raise NotImplementedError

    @classmethod
    def from_estimator(cls, estimator: Any, *, K: Any = None, order: str = "given", ax: Any = None) -> Any:
        """Draw for a fitted machine; `K` is the training kernel matrix of a precomputed kernel, `order` as in `plot`."""
        view = view_of(estimator)
        return cls(cls._compute(estimator, K), view.classes, cls._units[view.is_kernel]).plot(ax, order=order)

    @classmethod
    def from_predictions(cls, matrix: Any, *, classes: Any = None, order: str = "given", ax: Any = None) -> Any:
        """Draw a matrix that was computed before, e.g. by :mod:`polymargin.diagnostics`."""
        return cls(matrix, classes).plot(ax, order=order)

    def plot(self, ax: Any = None, *, order: str = "given", cmap: str = "viridis") -> Any:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            New ones if None.
        order : {"given", "similar"}, default="given"
            Classes as they are, or so that similar ones are neighbours (average linkage); useful with many classes.
        cmap : str, default="viridis"
            A color map whose lightness rises steadily can be read in grey.
        """
        if order not in ("given", "similar"):
            raise ValueError(f"order={order!r} is not valid: use 'given' or 'similar'.")
        c = len(self.classes)
        self.order_ = np.arange(c) if order == "given" or c < 3 else _similar_together(self.matrix)
        shown = self.matrix[np.ix_(self.order_, self.order_)].copy()
        shown[~np.isfinite(shown)] = np.nan
        np.fill_diagonal(shown, np.nan)
        size = float(np.clip(2.5 + 0.4 * c, 4.6, 8.0))
        self.ax_, self.figure_ = drawing.axes(ax, layout="compressed", figsize=(size * 1.15, size))
        self.image_ = self.ax_.imshow(np.ma.masked_invalid(shown), cmap=cmap, interpolation="nearest")
        self.ax_.patch.set(facecolor="white", hatch="////", edgecolor="0.75")  # the diagonal, and pairs without a number
        self.figure_.colorbar(self.image_, ax=self.ax_, label=f"{self._what} ({self.unit})", shrink=0.85)
        positions, texts = drawing.thin_labels(self.classes[self.order_], _LABELS_UP_TO)
        rotation = 90 if max(map(len, texts)) > 3 else 0
        self.ax_.set_xticks(positions, texts, rotation=rotation)
        self.ax_.set_yticks(positions, texts)
        every = "" if len(positions) == c else f" (1 in {positions[1]} of {c} is named)"
        self.ax_.set(xlabel="class" + every, ylabel="class")
        if c <= _NUMBERS_UP_TO:
            self._write_numbers(shown)
        return self

    def _write_numbers(self, shown: NDArray[np.float64]) -> None:
        for (row, column), value in np.ndenumerate(shown):
            if not np.isnan(value):
                dark = self.image_.norm(value) < 0.55  # viridis: dark is low
                look = {"color": "white" if dark else "black", "fontsize": "small"}
                self.ax_.text(column, row, _short(value), ha="center", va="center", **look)


class PairwiseMarginDisplay(_PairsDisplay):
    """Heat map of the margins between classes, ``2 / |w_k - w_l|``.

    Parameters
    ----------
    matrix : array of shape (n_classes, n_classes)
    classes : array of shape (n_classes,), default=None
    unit : str, default=None
        What the color bar says; None: units of X.

    Attributes
    ----------
    matrix, classes, unit
        The data.
    order_, ax_, figure_, image_
        Order in which classes were drawn, and what matplotlib made.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.plotting import PairwiseMarginDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> PairwiseMarginDisplay.from_estimator(CrammerSingerSVC().fit(X, y)).matrix.shape
    (3, 3)
    """

    _what = "pairwise margin 2 / |w_k − w_l|"
    _units = ("units of X", "units of the kernel's space")

    @staticmethod
    def _compute(estimator: Any, K: Any) -> NDArray[np.float64]:
        return pairwise_margins(estimator, K=K)


class AngleDisplay(_PairsDisplay):
    """Heat map of the angles between class vectors, in degrees. Parameters and attributes as `PairwiseMarginDisplay`."""

    _what = "angle between class vectors"
    _units = ("degrees", "degrees")

    @staticmethod
    def _compute(estimator: Any, K: Any) -> NDArray[np.float64]:
        return angles(estimator, K=K)


def _short(value: float) -> str:
    """Three digits at most, aligned where numbers are of one size."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2f}" if value >= 0.0995 else f"{value:.1g}"


def _similar_together(matrix: NDArray[np.float64]) -> NDArray[np.intp]:
    """Order of the leaves of an average-linkage tree; large entries are far apart."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    finite = np.where(np.isfinite(matrix), matrix, np.nanmax(np.where(np.isfinite(matrix), matrix, np.nan)))
    np.fill_diagonal(finite, 0.0)
    return np.asarray(leaves_list(linkage(squareform(finite, checks=False), "average", optimal_ordering=len(matrix) <= 200)))
