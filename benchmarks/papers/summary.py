"""`docs/results/README.md`: a sentence for each paper, all machines on all data sets, ranks; and the main README's lines."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .missed import largest, missed, totals
from .pages import HEAD, ROOT, markdown
from .plan import Paper, Table
from .ranks import Ranks, average_ranks, picture, rank_biserial
from .reading import Results, by_set, few_splits, listed
from .records import DIRECTORY

README = ROOT / "README.md"
REFERENCE = "Crammer-Singer"
EFFECTS = (
    f"How much a machine differs from {REFERENCE}, in points of accuracy: mean and median over the data sets, the mean in "
    "units "
    "of the deviation between data sets, the rank-biserial correlation of signed ranks (−1 to 1: behind or ahead on all of "
    "them), and data sets by the corrected t-test."
)
BEGIN, END = "<!-- papers:begin -->", "<!-- papers:end -->"


def summary_pages(results: Mapping[str, Results]) -> dict[str, str]:
    """The summary and its pictures; without the common comparison only the list of pages."""
    parts = ["# The papers' tables, reproduced", HEAD.format(records="../../benchmarks/results/papers")]
    papers = [found for key, found in results.items() if key != "alike"]
    parts.append("\n".join(f"- [{r.paper.title}]({r.paper.key}.md). {_first(r)}" for r in papers))
    parts.append(
        "Beside them: [ISM³ against softmax on FashionMNIST](ism3.md), and [with λ tuned, on three sets of "
        "images](ism3-tuned.md)."
    )
    if papers:
        parts.append(f"## What is missed\n\n{totals(list(results.values()))}\n\n{largest(papers)}")
    pages = {}
    for table, alike in _blocks(results):
        shown, ranks = _scores(alike, table)
        name = f"critical-difference{'' if table is alike.paper.tables[0] else f'-{table.key}'}.svg"
        pages[name] = picture(ranks)
        parts += [
            f"## {_title(alike, table)}\n\n[The page of this comparison](alike.md) has deviations, tests and settings. "
            f"{table.protocol}",
            shown,
            _verdict(ranks),
            f"![Average ranks and the critical difference]({name})",
            _effects(alike, table),
        ]
    return {"README.md": "\n\n".join(parts) + "\n", **pages}


def _title(results: Results, table: Table) -> str:
    title = results.paper.title
    return title if table is results.paper.tables[0] else f"{title}: {table.title[0].lower()}{table.title[1:]}"


def _blocks(results: Mapping[str, Results]) -> list[tuple[Table, Results]]:
    """The tables of the common comparison that have been run."""
    alike = results.get("alike")
    return [(table, alike) for table in alike.paper.tables if _complete(alike, table)] if alike else []


def _first(results: Results) -> str:
    lines = results.paper.reading(results)
    return lines[0] if lines else ""


def _complete(results: Results, table: Table) -> bool:
    """Whether there is a data set on which every machine has a result on every split."""
    return any(
        all((cell := results.cell(table, case, name)) and len(cell.values) == n for name in results.machines(table))
        for case in results.cases(table)
        for n in [len(results.splits(table, case))]
    )


def _scores(results: Results, table: Table) -> tuple[str, Ranks]:
    """The table of mean accuracies, and the ranks over the data sets on which everybody has a result."""
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


def _effects(results: Results, table: Table) -> str:
    """How large the differences from Crammer-Singer are, and how steady over the data sets."""
    rows = []
    for name in results.machines(table):
        gaps = np.array(_gaps(results, table, name))
        if name == REFERENCE or not len(gaps):
            continue
        spread = float(np.std(gaps, ddof=1)) if len(gaps) > 1 else 0.0
        standard = f"{np.mean(gaps) / spread:+z.2f}" if spread else "–"
        numbers = [f"{np.mean(gaps):+z.2f}", f"{np.median(gaps):+z.2f}", standard, f"{rank_biserial(gaps):+z.2f}"]
        rows.append([name, *numbers, str(results.tally(table, name, REFERENCE)), str(len(gaps))])
    header = ["machine", "mean", "median", "mean / deviation", "rank-biserial", "better / not different / worse", "sets"]
    return f"{EFFECTS}\n\n{markdown(header, rows)}"


def _gaps(results: Results, table: Table, name: str) -> list[float]:
    """Accuracy minus that of the reference, in points, data set by data set, on the splits that both have."""
    return [round(gap, 6) for gap in by_set(results, table, name, REFERENCE).values()]


def _verdict(ranks: Ranks) -> str:
    known = np.isfinite(ranks.p_value)
    test = f"Friedman's test for equal ranks: p = {ranks.p_value:.1g}" if known else "Too few data sets for a test"
    count = _tied(ranks)
    tied = "so all machines here" if count == len(ranks.names) else listed(ranks.names[:count])
    return (
        f"{test}, {ranks.n_data} data sets. Best average rank: {ranks.names[0]} ({ranks.average[0]:.2f}). Ranks that differ "
        f"by less than {ranks.critical:.2f} cannot be told apart (Nemenyi, 5 %): {tied}."
    )


def write_readme(papers: Sequence[Paper], directory: Path = DIRECTORY) -> None:
    """Puts the three lines between the markers of the main README, if the common comparison has been run."""
    results = {paper.key: Results(paper, directory) for paper in papers}
    if not _blocks(results):
        return
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}\n{readme_lines(results)}\n{END}{after}", "utf-8")


def readme_lines(results: Mapping[str, Results]) -> str:
    """What stands between the markers in the main README."""
    blocks = _blocks(results)
    first, *others = [_scores(found, table)[1] for table, found in blocks]
    looks = [few_splits(found, table, REFERENCE) for table, found in blocks[1:]]
    papers = [found for key, found in results.items() if key != "alike"]
    entries = sum(len(list(found.shortfalls())) for found in papers)
    wide = "".join(
        f" On {ranks.n_data} sets of text and embeddings{look}: {_ranked(ranks)}."
        for ranks, look in zip(others, looks, strict=True)
    )
    return "\n".join([
        f"- All machines tuned alike on {first.n_data} data sets, average ranks: {_ranked(first)}.{wide}",
        f"- {' '.join(_told_apart(ranks) for ranks in (first, *others))}",
        f"- {len(missed(papers))} numbers that the papers print for their own machine are missed here, by more than two "
        f"standard errors and by one protocol at least ({entries} entries, as some have several protocols or "
        "iterations): [each page](docs/results/README.md) says by how much, what was tried, and which claims hold.",
    ])  # fmt: skip


def _tied(ranks: Ranks) -> int:
    """How many machines, the best one included, are within the critical difference of the best."""
    return next((last for first, last in ranks.groups if first == 0), 0) + 1


def _told_apart(ranks: Ranks) -> str:
    count = _tied(ranks)
    whom = (
        "none of the machines can be told apart"
        if count == len(ranks.names)
        else (f"the first {count} of the {len(ranks.names)} machines cannot be told apart")
    )
    return f"On the {ranks.n_data} sets {whom} (ranks that differ by less than {ranks.critical:.1f})."


def _ranked(ranks: Ranks) -> str:
    return ", ".join(f"{name} {rank:.1f}" for name, rank in zip(ranks.names, ranks.average, strict=True))
