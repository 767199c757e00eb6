"""The comparison as one self-contained page: table, pictures, settings. No network, no scripts; for screens and print."""

from __future__ import annotations

import html
import io
import platform
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from polymargin import __version__
from polymargin.comparison.result import described

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.recommendation { border-left: .3rem solid #2a6f97; padding: .6rem 1rem; background: #2a6f9718; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: 600; } tr.worse td { opacity: .6; }
figure { margin: 1rem 0; background: white; padding: .5rem; border-radius: .3rem; }
figure svg { max-width: 100%; height: auto; display: block; margin: auto; }
figcaption, .small { font-size: .85rem; opacity: .8; } figure figcaption { color: #333; opacity: 1; }
pre { overflow-x: auto; background: #8882; padding: .7rem; border-radius: .3rem; font-size: .85rem; }
@media print { body { max-width: none; margin: 0; font-size: 10pt; } h2, figure, table { break-inside: avoid; } }
"""


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
        _picture(
            "Scores",
            lambda: comparison.plot().figure,
            "Nested cross-validation; intervals are corrected for overlapping training sets.",
        ),
        *_inside(comparison),
        _settings(comparison, command),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>polymargin comparison</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body></html>\n"
    )


def _table(comparison: Any) -> str:
    names = list(comparison.table[0].scores)
    measured = [name.replace("_", " ") for name in names]
    heads = ["machine", *measured, "splits", "tune + fit", "predict", "p", "chosen most often"]
    lines = ["<tr>" + "".join(f"<th>{html.escape(head)}</th>" for head in heads) + "</tr>"]
    for row in comparison.table:
        best = row.machine == comparison.winner
        kind = ' class="best"' if best else ' class="worse"' if row.p_value <= 0.05 else ""
        cells = [row.machine]
        for name in names:
            value = f"{row.scores[name]:.3f}" if name in row.scores else "–"
            cells.append(value + (row.spread if name == comparison.metric else ""))
        cells += [str(row.n_splits), f"{row.fit_seconds:.2f} s", f"{1000 * row.predict_seconds:.1f} ms"]
        cells += [comparison.told_apart(row), described(row.params)]
        lines.append(f"<tr{kind}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    notes = [f"{html.escape(name)}: {html.escape(why)}." for name, why in comparison.dropped.items()]
    short = [row for row in comparison.table if row.n_not_converged]
    notes += [f"{html.escape(row.machine)}: {row.n_not_converged} fits ended before their tolerance." for row in short]
    said = (
        "<p class='small'>p: corrected resampled t-test against the best machine, corrected for several comparisons (Holm). "
        "Faint rows are worse than the best (p &lt; 0.05). " + " ".join(notes) + "</p>"
    )
    return f"<h2>Table</h2><div class='scroll'><table>{''.join(lines)}</table></div>{said}"


def _inside(comparison: Any) -> list[str]:
    """Margins, closest classes and convergence of the best of our machines, on the first split's held-out rows."""
    ours = [row.machine for row in comparison.table if row.ours][:3]
    if not ours or np.ndim(comparison.fitted_on_split(ours[0]).y_test) == 2:
        return []
    from polymargin.diagnostics import confusable_pairs
    from polymargin.plotting import ConvergenceDisplay, MarginDistributionDisplay

    fits = {name: comparison.fitted_on_split(name) for name in ours}
    first = fits[ours[0]]
    machines = {name: fit.model for name, fit in fits.items()}
    pairs = confusable_pairs(first.model, first.X_test, first.y_test, n_pairs=8)
    rows = "".join(
        f"<tr><td>{html.escape(str(pair.first))} – {html.escape(str(pair.second))}</td><td>{pair.margin:.3g}</td>"
        f"<td>{pair.angle:.0f}°</td><td>{pair.first_as_second} + {pair.second_as_first}</td>"
        f"<td>{pair.error_rate:.1%}</td></tr>"
        for pair in pairs
    )
    certificates = {name: fit.model[-1].certificate_ for name, fit in fits.items()}
    return [
        _picture(
            "Margins of held-out rows",
            lambda: MarginDistributionDisplay.from_estimator(machines, first.X_test, first.y_test).figure_,
            "Left of 0 are errors. The first split's test rows.",
        ),
        f"<h2>Classes that sit closest ({html.escape(ours[0])})</h2><div class='scroll'><table><tr><th>pair</th>"
        f"<th>margin</th><th>angle</th><th>errors on held-out rows</th><th>share</th></tr>{rows}</table></div>",
        _picture(
            "Convergence",
            lambda: ConvergenceDisplay.from_certificates(certificates).figure_,
            "Relative duality gap over the time of the last fit: how far the machine can at most be from its optimum.",
        ),
    ]


def _picture(heading: str, draw: Callable[[], Any], caption: str) -> str:
    try:
        import matplotlib
    except ModuleNotFoundError:
        return f"<h2>{heading}</h2><p class='small'>pip install matplotlib to see this picture.</p>"
    import matplotlib.pyplot as plt

    # fixed ids and no date: the same comparison makes the same page
    with matplotlib.rc_context({"svg.hashsalt": "polymargin", "svg.fonttype": "path"}):
        figure, text = draw(), io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    svg = _unique_ids(svg, re.sub(r"\W+", "-", heading.lower()))
    return f"<h2>{heading}</h2><figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _unique_ids(svg: str, prefix: str) -> str:
    """Several pictures on a page must not share ids."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)


def _settings(comparison: Any, command: str) -> str:
    import scipy
    import sklearn

    lines = [f"{name} = {value!r}" for name, value in comparison.settings.items()]
    lines += [
        f"{candidate.name}: {candidate.estimator!r}".replace("\n", " ") + f", tuned over {candidate.grid}"
        for candidate in comparison.candidates
    ]
    versions = (
        f"polymargin {__version__}, scikit-learn {sklearn.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Python {platform.python_version()}"
    )
    said = f"<pre>{html.escape(command)}</pre>" if command else ""
    if comparison.settings["budget"] is not None:
        said += "<p class='small'>Measured time decides who leaves under a budget: another run may end differently.</p>"
    details = re.sub(r" +", " ", "\n".join(lines)).replace("np.float64(", "(")
    return (
        f"<h2>To repeat this</h2>{said}<details><summary>Settings and grids</summary>"
        f"<pre>{html.escape(details)}</pre></details><p class='small'>{html.escape(versions)}</p>"
    )
