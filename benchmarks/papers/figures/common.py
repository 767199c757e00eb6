"""What the figures share: rows, rounding, panels and colours."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from polymargin.plotting._drawing import COLORS, LINES, MARKERS

from ..plan import Parts, Values
from ..protocol import data_of, scaler

GREY = "0.6"


def rows_of(name: str, kind: str, rows: int | None = None) -> tuple[Any, Any]:
    """All rows, scaled at once, and the numbers of their classes."""
    X, y = data_of(name, rows)
    scale = scaler(kind, X)
    return X if scale is None else scale.fit_transform(X), np.unique(y, return_inverse=True)[1]


def folds_of(name: str, kind: str, rows: int | None = None, n: int = 5) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Training and test rows of stratified folds, scaled by the training rows."""
    X, y = data_of(name, rows)
    y = np.unique(y, return_inverse=True)[1]
    small = int(np.bincount(y).min()) < n
    splits = _plain_folds(len(y), n) if small else StratifiedKFold(n, shuffle=True, random_state=0).split(X, y)
    for train, test in splits:
        scale = scaler(kind, X[train])
        inside, outside = X[train], X[test]
        if scale is not None:
            inside, outside = scale.fit_transform(inside), scale.transform(outside)
        yield inside, y[train], outside, y[test]


def _plain_folds(n_rows: int, n: int) -> Iterator[tuple[Any, Any]]:
    """For classes with fewer rows than folds."""
    order = np.random.default_rng(0).permutation(n_rows)
    for k in range(n):
        yield np.sort(np.delete(order, slice(k, None, n))), np.sort(order[k::n])


def rounded(values: Any, digits: int = 5) -> Any:
    """Lists of rounded numbers, as JSON keeps them."""
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return array.tolist()
    with np.errstate(divide="ignore", invalid="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(np.where(array == 0, 1.0, array))))
    found = np.vectorize(lambda v, k: float(round(float(v), int(k))))(array, places)
    return found.tolist()


def panels(canvas: Any, found: Parts, columns: int = 3, **how: Any) -> Iterator[tuple[Any, str, Values]]:
    """Axes with a title for each part."""
    lines = -(-len(found) // columns)
    axes = np.ravel(canvas.subplots(lines, min(columns, len(found)), squeeze=False, **how))
    for ax in axes[len(found) :]:
        ax.remove()
    for ax, (part, values) in zip(axes, found.items(), strict=False):
        ax.set_title(part, fontsize=10)
        ax.tick_params(labelsize=8)
        yield ax, part, values


def line(number: int, marker: bool = True) -> dict[str, Any]:
    """Colour, dashes and marker of the so-many-th curve; where colours begin again, dashes and markers do not."""
    again = number + number // len(COLORS)
    look: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "linestyle": LINES[again % len(LINES)], "linewidth": 1.4}
    return {**look, **({"marker": MARKERS[again % len(MARKERS)], "markersize": 3.5} if marker else {})}


def legend(canvas: Any, ax: Any, columns: int = 4, more: Sequence[Any] = ()) -> None:
    """One for all panels, above them."""
    handles, labels = ax.get_legend_handles_labels()
    for other in more:
        extra = other.get_legend_handles_labels()
        handles, labels = handles + extra[0], labels + extra[1]
    canvas.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
