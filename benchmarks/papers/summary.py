"""`docs/results/README.md`: a sentence for each paper, all machines on all data sets, ranks; and the main README's lines."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .pages import HEAD, ROOT, markdown
from .plan import Paper
from .ranks import Ranks, average_ranks, picture
from .reading import Results, listed
from .records import DIRECTORY

README = ROOT / "README.md"
PICTURE = "critical-difference.svg"
BEGIN, END = "<!-- papers:begin -->", "<!-- papers:end -->"


def summary_pages(results: Mapping[str, Results]) -> dict[str, str]:
    """The summary and its picture; without the common comparison only the list of pages."""
    parts = ["# The papers' tables, reproduced", HEAD.format(records="../../benchmarks/results/papers")]
    papers = [found for key, found in results.items() if key != "alike"]
    parts.append("\n".join(f"- [{r.paper.title}]({r.paper.key}.md). {_first(r)}" for r in papers))
    parts.append("Beside them: [ISM³ against softmax on FashionMNIST](ism3.md).")
    alike = results.get("alike")
    if alike is None or not _complete(alike):
        return {"README.md": "\n\n".join(parts) + "\n"}
    table, ranks = _scores(alike)
    parts += [
        f"## All machines, tuned alike\n\n[The page of this comparison](alike.md) has deviations, tests and settings. "
        f"{alike.paper.tables[0].protocol}",
        table,
        _verdict(ranks),
        f"![Average ranks and the critical difference]({PICTURE})",
    ]
    return {"README.md": "\n\n".join(parts) + "\n", PICTURE: picture(ranks)}


def _first(results: Results) -> str:
    lines = results.paper.reading(results)
    return lines[0] if lines else ""


def ranks_of(results: Results) -> Ranks:
    return _scores(results)[1]


def _complete(results: Results) -> bool:
    """Whether there is a data set on which every machine has a result on every split."""
    table = results.paper.tables[0]
    return any(
        all((cell := results.cell(table, case, name)) and len(cell.values) == n for name in results.machines(table))
        for case in results.cases(table)
        for n in [len(results.splits(table, case))]
    )


def _scores(results: Results) -> tuple[str, Ranks]:
    """The table of mean accuracies, and the ranks over the data sets on which everybody has a result."""
    table = results.paper.tables[0]
    machines = results.machines(table)
    rows, complete = [], []
    for case in results.cases(table):
        cells = [results.cell(table, case, name) for name in machines]
        best = results.best(table, case)
        shown = ["–" if cell is None else f"{cell.mean:.1f}" for cell in cells]
        shown = [f"**{text}**" if name in best else text for name, text in zip(machines, shown, strict=True)]
        rows.append([case.data, str(len(results.splits(table, case))), *shown])
        if all(cell is not None and len(cell.values) == len(results.splits(table, case)) for cell in cells):
            complete.append([round(cell.mean, 4) for cell in cells if cell is not None])
    ranks = average_ranks(tuple(machines), np.array(complete).reshape(-1, len(machines)))
    by_name = dict(zip(ranks.names, ranks.average, strict=True))
    rows.append(["**average rank**", f"{ranks.n_data} sets", *(f"{by_name[name]:.2f}" for name in machines)])
    return markdown(["data set", "splits", *machines], rows), ranks


def _verdict(ranks: Ranks) -> str:
    known = np.isfinite(ranks.p_value)
    test = f"Friedman's test for equal ranks: p = {ranks.p_value:.1g}" if known else "Too few data sets for a test"
    top = next((g for g in ranks.groups if g[0] == 0), (0, 0))
    tied = listed(ranks.names[: top[1] + 1])
    return (
        f"{test}, {ranks.n_data} data sets. Best average rank: {ranks.names[0]} ({ranks.average[0]:.2f}). Ranks that differ "
        f"by less than {ranks.critical:.2f} cannot be told apart (Nemenyi, 5 %): {tied}."
    )


def write_readme(papers: Sequence[Paper], directory: Path = DIRECTORY) -> None:
    """Puts the three lines between the markers of the main README, if the common comparison has been run."""
    results = {paper.key: Results(paper, directory) for paper in papers}
    if "alike" not in results or not _complete(results["alike"]):
        return
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}\n{readme_lines(results)}\n{END}{after}", "utf-8")


def readme_lines(results: Mapping[str, Results]) -> str:
    """What stands between the markers in the main README."""
    ranks = ranks_of(results["alike"])
    top = next((g for g in ranks.groups if g[0] == 0), (0, 0))
    papers = [found for key, found in results.items() if key != "alike"]
    shown = ", ".join(f"{name} {rank:.1f}" for name, rank in zip(ranks.names, ranks.average, strict=True))
    short = [
        (found.paper.key, one.table.metrics[0], one.data, one.table.same_as.get(one.machine, one.machine))
        for found in papers
        for one in found.shortfalls()
    ]
    return "\n".join([
        f"- All machines tuned alike on {ranks.n_data} data sets, average ranks: {shown}.",
        f"- The first {top[1] + 1} of them cannot be told apart on so many sets (critical difference {ranks.critical:.1f}).",
        f"- {len(set(short))} numbers that the papers print for their own machine are missed here, by more than two "
        f"standard errors and by one protocol at least ({len(short)} entries, as some have several protocols or "
        "iterations): [each page](docs/results/README.md) says by how much, what was tried, and which claims hold.",
    ])  # fmt: skip
