"""How seconds and memory grow with the number of classes: a picture of the synthetic series."""

from pathlib import Path
from typing import Any

from .cases import EQUAL_ROWS, SERIES
from .sides import SIDES


def draw(kept: dict[str, Any], path: Path) -> bool:
    """Seconds, and peak memory, for each class, side by side; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    grows = {c: kept.get(f"zipf:{c}", {}) for c in SERIES}
    equal = {c: kept.get(f"zipf-rows:{c}", {}) for c in EQUAL_ROWS}
    lines = [("flat, equal rows", "flat", equal, "C0s--")]
    styles = ("C0o-", "C1o-", "C2x:", "C3x:", "C4x:")
    lines += [(side, side, grows, style) for side, style in zip(SIDES, styles, strict=True)]
    panels = (("seconds", 1e3, "milliseconds a class"), ("extra", 1e-3, "kilobytes a class, at the peak"))
    for axis, (name, unit, label) in zip(figure.subplots(1, 2), panels, strict=True):
        for title, side, measured, style in lines:
            points = [(m[side]["labels"], unit * m[side][name] / m[side]["labels"]) for m in measured.values() if side in m]
            if points:
                axis.loglog(*zip(*points, strict=True), style, label=title)
        axis.set(xlabel="classes with rows", ylabel=label)
        axis.grid(alpha=0.3)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=130)
    return True
