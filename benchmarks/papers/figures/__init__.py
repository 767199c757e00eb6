"""The papers' figures: fits are recorded as JSON lines, pictures and pages are made of the records alone."""

import io
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from polymargin.datasets import DatasetError

from ..plan import Figure, Paper, Parts
from ..records import DIRECTORY, read, versions
from . import angular, m3svm, mcodm, one_vs_none

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images" / "papers"
FIGURES: dict[str, tuple[Figure, ...]] = {
    "m3svm": m3svm.FIGURES,
    "mcodm": mcodm.FIGURES,
    "one_vs_none": one_vs_none.FIGURES,
    "angular": angular.FIGURES,
}
DOTS, TONES = 110, 64  # an inch; of a picture
INTRODUCTION = (
    "The paper's figures made anew by `python -m benchmarks papers figures {key}`, from [recorded fits]"
    "(../../benchmarks/results/papers/figures/{key}.jsonl). The papers give pictures without numbers: what is said of "
    "theirs is read from their text and captions."
)


def path_of(paper: Paper, directory: Path = DIRECTORY) -> Path:
    return directory / "figures" / f"{paper.key}.jsonl"


def found_of(paper: Paper, figure: Figure, directory: Path = DIRECTORY) -> Parts:
    """The recorded parts of a figure, in its order; only those with its present settings."""
    known = {
        record["part"]: record["values"]
        for record in read(path_of(paper, directory))
        if (record["figure"], record["settings"]) == (figure.key, figure.settings)
    }
    return {part: known[part] for part in figure.parts if part in known}


def run_figures(papers: Sequence[Paper], directory: Path = DIRECTORY, echo: Callable[[str], None] = print) -> int:
    """Measures what is missing; counts new records."""
    new = 0
    for paper in papers:
        for figure in paper.figures:
            done = found_of(paper, figure, directory)
            for part in figure.parts:
                if part not in done:
                    new += _record(paper, figure, part, directory, echo)
    return new


def _record(paper: Paper, figure: Figure, part: str, directory: Path, echo: Callable[[str], None]) -> bool:
    began = time.process_time()
    try:
        values = figure.measure(part)
    except DatasetError as error:
        echo(f"{figure.key} {part}: left out; {error}")
        return False
    seconds = round(time.process_time() - began, 2)
    path = path_of(paper, directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"figure": figure.key, "part": part, "settings": figure.settings, "values": values, "seconds": seconds}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**record, "versions": versions()}, separators=(",", ":")) + "\n")
    echo(f"{figure.key} {part}: {seconds:.1f} s")
    return True


def draw_figures(papers: Sequence[Paper], directory: Path = DIRECTORY, target: Path = IMAGES) -> list[Path]:
    """A picture for each figure that has records."""
    from matplotlib.figure import Figure as Canvas

    target.mkdir(parents=True, exist_ok=True)
    written = []
    for paper in papers:
        for figure in paper.figures:
            found = found_of(paper, figure, directory)
            if found:
                canvas = Canvas(figsize=figure.size, layout="constrained")
                figure.draw(canvas, found)
                path = target / f"{figure.key}.png"
                _save(canvas, path)
                written.append(path)
    return written


def _save(canvas: Any, path: Path) -> None:
    """With a palette: a third of the bytes."""
    from PIL import Image

    content = io.BytesIO()
    canvas.savefig(content, dpi=DOTS)
    Image.open(content).convert("RGB").quantize(TONES).save(path, optimize=True)


def section(paper: Paper, directory: Path = DIRECTORY) -> list[str]:
    """The part of a paper's page."""
    parts = []
    for figure in paper.figures:
        found = found_of(paper, figure, directory)
        if found:
            parts.append(f"### {figure.title}\n\n{figure.settings}")
            parts.append(f"![{figure.alt or figure.title}](../images/papers/{figure.key}.png)")
            parts.append(
                "\n".join(f"- {line}" if line and not line.startswith("|") else line for line in figure.says(found))
            )
    return [f"## Figures\n\n{INTRODUCTION.format(key=paper.key)}", *parts] if parts else []
