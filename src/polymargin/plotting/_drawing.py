"""What the displays share: matplotlib on use, styles that survive a grey printer, names and labels."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "x", "D", "v")
# dark to light, so that the order is kept in grey
COLORS = ("#1b1b3a", "#1f5fa8", "#c2571a", "#2a9d6f", "#b06fc4", "#8a8a8a")

ABOVE = {"frameon": False, "loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}  # a legend that covers no curve


def pyplot() -> ModuleType:
    """matplotlib.pyplot, or how to get it."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            'pictures need matplotlib, which is not installed: pip install "polymargin[plot]"', name=error.name
        ) from error
    return pyplot


def axes(ax: Any, layout: str = "constrained", **figure: Any) -> tuple[Any, Any]:
    """The axes to draw on and their figure; new ones if `ax` is None."""
    if ax is not None:
        return ax, ax.figure
    plt = pyplot()
    fig, ax = plt.subplots(layout=layout, **figure)
    return ax, fig


def style(number: int) -> dict[str, Any]:
    """Line style and color of the so-many-th curve."""
    return {"linestyle": LINES[number % len(LINES)], "color": COLORS[number % len(COLORS)]}


def named(machines: Any, name: str | None = None) -> dict[str, Any]:
    """Machines by name: from one machine, several, or a mapping."""
    if isinstance(machines, Mapping):
        if name is not None:
            raise ValueError("name= is for a single machine; a mapping has its own names.")
        return {str(key): machine for key, machine in machines.items()}
    if not isinstance(machines, (list, tuple)):
        return {name or name_of(machines): machines}
    found: dict[str, Any] = {}
    for machine in machines:
        base = label = name_of(machine)
        number = 2
        while label in found:
            label, number = f"{base} {number}", number + 1
        found[label] = machine
    return found


def name_of(machine: Any) -> str:
    """Class name of the classifier, through searches and pipelines."""
    from polymargin.diagnostics.view import view_of

    return view_of(machine).name


def thin_labels(labels: NDArray[Any], at_most: int) -> tuple[NDArray[np.intp], list[str]]:
    """Positions and texts of at most so many evenly spaced labels."""
    step = max(1, -(-len(labels) // at_most))
    positions = np.arange(0, len(labels), step)
    return positions, [shorten(labels[i]) for i in positions]


def shorten(label: Any, length: int = 16) -> str:
    text = str(label)
    return text if len(text) <= length else text[: length - 1] + "…"
