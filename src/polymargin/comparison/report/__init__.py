"""The comparison as one self-contained page: tables, pictures, settings. No network, no scripts; for screens and print."""

from __future__ import annotations

import html
import platform
from typing import Any

import numpy as np

from polymargin import __version__
from polymargin.comparison.report import held_out
from polymargin.comparison.report.machines import inside
from polymargin.comparison.report.parts import STYLE, picture, table
from polymargin.comparison.result import described

__all__ = ["html_report"]


def html_report(comparison: Any, *, title: str = "", command: str = "") -> str:
    """The page as a string.

    Parameters
    ----------
    comparison : Comparison
        Result of :func:`polymargin.compare_machines`.
    title : str
        What the data is.
    command : str
        The command line that repeats the comparison, if there is one.
    """
    n, d, c = comparison.shape
    sections = [
        f"<h1>Which machine suits this data?</h1><p>{html.escape(title or f'{n} rows, {d} features, {c} classes')}</p>",
        f'<p class="recommendation">{html.escape(comparison.recommendation)}</p>',
        _table(comparison),
        picture(
            "Scores",
            lambda: comparison.plot().figure,
            "Nested cross-validation; intervals are corrected for overlapping training sets.",
        ),
        *_one_class_a_row(comparison),
        _settings(comparison, command),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>polymargin comparison</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body></html>\n"
    )


def _table(comparison: Any) -> str:
    names = list(comparison.table[0].scores)
    measured = [name.replace("_", " ") for name in names]
    heads = ["machine", *measured, "splits", "tune + fit", "predict", "p", "chosen most often"]
    rows, kinds = [], []
    for row in comparison.table:
        kinds.append("best" if row.machine == comparison.winner else "worse" if row.p_value <= 0.05 else "")
        cells = [row.machine]
        for name in names:
            value = f"{row.scores[name]:.3f}" if name in row.scores else "–"
            cells.append(value + (row.spread if name == comparison.metric else ""))
        cells += [str(row.n_splits), f"{row.fit_seconds:.2f} s", f"{1000 * row.predict_seconds:.1f} ms"]
        rows.append([*cells, comparison.told_apart(row), described(row.params)])
    notes = [f"{html.escape(name)}: {html.escape(why)}." for name, why in comparison.dropped.items()]
    short = [row for row in comparison.table if row.n_not_converged]
    notes += [f"{html.escape(row.machine)}: fits that ended before their tolerance: {row.n_not_converged}." for row in short]
    said = (
        "<p class='small'>p: corrected resampled t-test against the best machine, corrected for several comparisons (Holm). "
        "Faint rows are worse than the best (p &lt; 0.05). " + " ".join(notes) + "</p>"
    )
    return "<h2>Table</h2>" + table(heads, rows, kinds=kinds) + said


def _one_class_a_row(comparison: Any) -> list[str]:
    """What is about classes: of the winner, and of the best of our machines where theirs have no answer."""
    if np.ndim(comparison.fitted_on_split(comparison.winner).y_test) == 2:
        return []
    sections = held_out.confusions(comparison, comparison.winner)
    ours = [row.machine for row in comparison.table if row.ours][:3]
    if ours:
        sections += [held_out.calibration(comparison, ours[0]), held_out.features(comparison, ours)]
        sections += inside(comparison, ours)
    return sections


def _settings(comparison: Any, command: str) -> str:
    import scipy
    import sklearn

    versions = (
        f"polymargin {__version__}, scikit-learn {sklearn.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Python {platform.python_version()}"
    )
    said = f"<pre>{html.escape(command)}</pre>" if command else ""
    if comparison.settings["budget"] is not None:
        said += "<p class='small'>Measured time decides who leaves under a budget: another run may end differently.</p>"
    settings = [[name, _plain(value)] for name, value in comparison.settings.items()]
    grids = [
        [candidate.name, " ".join(repr(candidate.estimator).split()), _grid(candidate.grid)]
        for candidate in comparison.candidates
    ]
    return (
        f"<h2>To repeat this</h2>{said}<details><summary>Settings and grids</summary>"
        + table(["setting", "value"], settings, "text")
        + table(["machine", "estimator", "tuned over"], grids, "text")
        + f"</details><p class='small'>{html.escape(versions)}</p>"
    )


def _grid(grid: dict[str, Any]) -> str:
    """``C: 0.01, 0.1, 1; gamma: scale, 0.1``."""
    return "; ".join(f"{name}: {', '.join(map(_plain, values))}" for name, values in grid.items()) or "nothing"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)
