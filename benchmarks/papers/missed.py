"""Over all papers: the printed numbers that are missed by most, and how searches and fits ended."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .chances import Edges
from .pages import markdown
from .reading import Results, Shortfall

SHOWN = 10
LARGEST = (
    f"The {SHOWN} numbers of the papers' own machines that are missed by most, of those missed by more than two standard "
    "errors under one protocol at least: the lowest mean of a protocol that misses them, the highest of all protocols, and "
    "whether the reason is proven, likely or open."
)


class Missed(NamedTuple):
    """A printed number of a paper's own machine, and what the protocols here have for it, in percent."""

    results: Results
    data: str
    machine: str
    printed: float
    worst: Shortfall
    here: dict[str, float]  # by the title of the table

    @property
    def short(self) -> float:
        return self.printed - self.worst.ours

    @property
    def mark(self) -> str:
        """The first word of what is said about it."""
        tried, key = self.results.paper.tried, self.worst.table.key
        return (tried.get((key, self.data)) or tried[key, ""]).split(" ")[0].rstrip(".:,")


def missed(papers: Sequence[Results]) -> list[Missed]:
    """The largest shortfalls first; several protocols for one number are one entry."""
    found = []
    for results in papers:
        groups: dict[tuple[str, str, str], list[Shortfall]] = defaultdict(list)
        for one in results.shortfalls():
            groups[one.table.metrics[0], one.data, one.table.same_as.get(one.machine, one.machine)].append(one)
        for (metric, data, machine), several in groups.items():
            worst = min(several, key=lambda one: one.ours)
            here = dict(_protocols(results, metric, data, machine))
            found.append(Missed(results, data, machine, worst.printed, worst, here))
    return sorted(found, key=lambda one: -one.short)


def _protocols(results: Results, metric: str, data: str, machine: str) -> Iterator[tuple[str, float]]:
    """Every table that has this machine on these rows; the best of its variants."""
    for table in results.paper.tables:
        for case in results.cases(table):
            names = [one.name for one in table.candidates(case) if table.same_as.get(one.name, one.name) == machine]
            cells = [results.cell(table, case, name, metric) for name in names] if metric in table.metrics else []
            means = [cell.mean for cell in cells if cell]
            if case.data == data and means:
                yield table.title, max(means)


def largest(papers: Sequence[Results]) -> str:
    """A table for the summary."""
    rows = []
    for one in missed(papers)[:SHOWN]:
        best = max(one.here, key=lambda title: one.here[title])
        paper = f"[{one.results.paper.key}]({one.results.paper.key}.md)"
        lowest, highest = f"{one.worst.ours:.1f} ({one.worst.table.title})", f"{one.here[best]:.1f} ({best})"
        rows.append([paper, one.data, one.machine, f"{one.printed:.1f}", lowest, highest, one.mark])
    header = ["paper", "data set", "machine", "printed, %", "lowest here", "highest here", "reason"]
    return f"{LARGEST}\n\n{markdown(header, rows)}"


def totals(papers: Sequence[Results]) -> str:
    """Edges and certificates of all pages together."""
    edges = [results.edges(table) for results in papers for table in results.paper.tables]
    total = Edges(*(sum(one[k] for one in edges) for k in range(3)))
    records = [
        record
        for results in papers
        for table in results.paper.tables
        for case in results.cases(table)
        for record in results.records(table, case)
        if "scores" in record
    ]
    endings = Counter(record["status"] for record in records if "status" in record)
    ended = ", ".join(f"{count:,} {status}" for status, count in endings.most_common())
    fits, failed = (sum(record[key] for record in records) for key in ("fits", "not_converged"))
    return (
        f"In all {total.searches:,} searches chose a C, {total.lowest + total.highest} of them ({100 * total.share:.1f} %) "
        f"the smallest or the largest they could have. Of {endings.total():,} searches for machines of this library the "
        f"last fit ended so: {ended}. {fits:,} fits in all, of which {failed:,} did not converge, those of scikit-learn's "
        "machines among them."
    )
