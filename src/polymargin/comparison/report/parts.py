"""What the page is made of: its style, tables, pictures."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p, figure, pre { max-width: 60rem; }
.recommendation { border-left: .3rem solid #2a6f97; padding: .6rem 1rem; background: #2a6f9718; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #8884; vertical-align: top; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child, .text td, .text th { text-align: left; white-space: normal; min-width: 7rem; }
th:last-child, td:last-child, .text td { text-align: left; white-space: normal; min-width: 6rem; overflow-wrap: anywhere; }
tr.best td { font-weight: 600; } tr.worse td { opacity: .6; }
.counts td, .counts th { text-align: center; min-width: 2rem; overflow-wrap: normal; white-space: nowrap; }
.counts th:first-child { text-align: left; }
figure { margin: 1rem 0; background: white; padding: .5rem; border-radius: .3rem; }
figure svg { max-width: 100%; height: auto; display: block; margin: auto; }
figcaption, .small { font-size: .85rem; opacity: .8; } figure figcaption { color: #333; opacity: 1; }
pre { overflow-x: auto; background: #8882; padding: .7rem; border-radius: .3rem; font-size: .85rem; }
@media (max-width: 40rem) { th, td { padding: .25rem .4rem; } .scroll { font-size: .9rem; } }
@media (prefers-color-scheme: dark) { figure { filter: invert(.9) hue-rotate(180deg); } }
@media print { body { max-width: none; margin: 0; font-size: 10pt; } h2, figure, table { break-inside: avoid; } }
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", kinds: Sequence[str] = ()) -> str:
    """A table of texts; `kind` is its class, `kinds` those of its rows."""
    lines = ["<tr>" + "".join(f"<th>{html.escape(head)}</th>" for head in heads) + "</tr>"]
    for number, row in enumerate(rows):
        of_row = f' class="{kinds[number]}"' if kinds and kinds[number] else ""
        lines.append(f"<tr{of_row}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table class="{kind}">{"".join(lines)}</table></div>'


def picture(heading: str, draw: Callable[[], Any], caption: str) -> str:
    """A figure as SVG under its heading, or how to get it."""
    title = f"<h2>{html.escape(heading)}</h2>"
    try:
        import matplotlib
    except ModuleNotFoundError:
        return f"{title}<p class='small'>pip install matplotlib to see this picture.</p>"
    import matplotlib.pyplot as plt

    # fixed ids and no date: the same comparison makes the same page
    with matplotlib.rc_context({"svg.hashsalt": "polymargin", "svg.fonttype": "path"}):
        figure, text = draw(), io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    svg = _unique_ids(svg, re.sub(r"\W+", "-", heading.lower()))
    return f"{title}<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _unique_ids(svg: str, prefix: str) -> str:
    """Several pictures on a page must not share ids."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)
