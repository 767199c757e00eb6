"""How seconds and memory grow with the number of classes: a picture of the synthetic series."""

from pathlib import Path
from typing import Any

from .cases import SERIES


def draw(kept: dict[str, Any], path: Path) -> bool:
    """Seconds, and peak memory, for each class, side by side; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    measured = {c: kept.get(f"zipf:{c}", {}) for c in SERIES}
    panels = (("seconds", 1e3, "milliseconds a class"), ("extra", 1e-3, "kilobytes a class, at the peak"))
    for axis, (name, unit, label) in zip(figure.subplots(1, 2), panels, strict=True):
        for side in ("flat", "tree", "LinearSVC", "omikuji", "napkinXC"):
            points = [(m[side]["labels"], unit * m[side][name] / m[side]["labels"]) for m in measured.values() if side in m]
            style = "o-" if side in ("flat", "tree") else "x:"
            axis.loglog(*zip(*points, strict=True), style, label=side)
        axis.set(xlabel="classes with rows", ylabel=label)
        axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=130)
    return True
