"""Pages out of records: `docs/results/*.md` with the picture of ranks. They are never edited by hand."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median, median_low

from .chances import Edges
from .figures import section
from .plan import SCALINGS, Case, Paper, Table, settings_of
from .reading import LOWER_IS_BETTER, Results, listed, mean_recalls
from .records import DIRECTORY, Record

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = ROOT / "docs" / "results"
NAMES = {
    "accuracy": "Accuracy, %",
    "macro_f1": "Macro-averaged F, %",
    "jaccard": "Accuracy score (Jaccard index), %",
    "hamming": "Hamming loss, %",
    "subset_accuracy": "Exact label sets, %",
    "label_accuracy": "Right entries of the label matrix, %",
}
HEAD = "Written by `python -m benchmarks papers pages` from [recorded runs]({records}); do not edit it by hand."
LEGEND = (
    "Upper line: ours, mean ± standard deviation. Lower line: the paper's number and (ours − paper). Bold: the best of a "
    "row. †: not all splits, see below."
)
TESTS = (
    "Better / not different / worse, counted over data sets with three splits at least (first metric, paired t-test at "
    "5 %). The last column corrects for training sets that share rows (Nadeau & Bengio 2003); the plain test, the papers' "
    "one, finds them too easily."
)
ENDINGS = (
    'Every search ends with one fit on all training rows, the last fit; "optimal" is a duality gap below the tolerance, '
    '"stationary" the same for a non-convex machine. Fits that did not converge (max_iter, or a ConvergenceWarning of '
    "scikit-learn) are counted, those inside the searches too. Seconds are processor seconds of a whole search."
)
EDGES = (
    "Searches that chose the smallest or the largest C they could have. Where C grows, that is a limit, which is hardly "
    "ever reached: a search ends as soon as the next value is no better. Other parameters have few values, which stand with "
    "the grids; their ends are not counted."
)
REASONS = (
    "What experiments with this harness say about printed numbers. Proven: it follows from arithmetic or from certified "
    "optima. Likely: an experiment gives the printed number, or speaks against the plain reading. Open: nothing that was "
    "tried explains it."
)
SHORTFALLS = (
    "Machines of the paper that are worse here than printed by more than two standard errors (of the two means together; a "
    "paper that prints no deviation counts as exact), and what was tried:"
)


def paper_page(results: Results) -> str:
    """The page of one paper."""
    paper = results.paper
    records = f"../../benchmarks/results/papers/{paper.key}.jsonl"
    parts = [f"# {paper.title}", f"{paper.source}. {HEAD.format(records=records)}"]
    parts.append("## Reading\n\n" + "\n".join(f"- {line}" for line in [*paper.reading(results), _how_much(results)]))
    reasons = [f"- **{reason.mark}.** {reason.text}" for reason in paper.reasons(results)]
    if reasons:
        parts.append(f"## Reasons\n\n{REASONS}\n\n" + "\n".join(reasons))
    for table in paper.tables:
        if results.cases(table):
            parts += _table_section(results, table)
    parts += [*section(paper, results.directory), *_shortfalls(results), *_edges(results), *_certificates(results)]
    return "\n\n".join(parts) + "\n"


def _how_much(results: Results) -> str:
    """How many splits there are, so that nobody takes "not different" for "equal"."""
    pairs = [(table, case) for table in results.paper.tables if table.splits > 1 for case in table.cases]
    counts = [len(results.splits(table, case)) if case in results.cases(table) else 0 for table, case in pairs]
    short = sorted(n for n, (table, _) in zip(counts, pairs, strict=True) if n < table.splits)
    said = f"How much this rests on: {len(counts) - len(short)} of {len(counts)} pairs of table and data set have all splits"
    if short:
        spread = f"{short[0]}" if short[0] == short[-1] else f"{short[0]} to {short[-1]}"
        said += (
            f", the others {spread}, either because the next would not fit into the budget or because it has not been run "
            "yet (`python -m benchmarks papers run`)"
        )
    return said + '. Few splits show large differences only: "not different" does not mean equal.'


# -- a table -------------------------------------------------------------------------------------------------------------


def _table_section(results: Results, table: Table) -> list[str]:
    parts = [f"## {table.title}", f"{table.protocol} {LEGEND if table.printed else ''}".strip()]
    for metric in table.metrics:
        hint = " (lower is better)" if metric in LOWER_IS_BETTER else ""
        parts.append(f"**{NAMES[metric]}**{hint}\n\n{_grid(results, table, metric)}")
    if table.per_class:
        parts.append(_recalls(results, table))
    run = [case.data for case in results.cases(table)]
    notes = [f"{data}: {text}." for data, text in table.notes.items() if data in run]
    absent = [data for data in next(iter(table.printed.values()), {}) if data not in run]
    if absent:
        notes.append(f"Printed, but not run here: {listed(absent)}.")
    notes += _left_early(results, table)
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes))
    parts += [*_tallies(results, table), *_chosen(results, table)]
    return [*parts, _settings(results, table)]


def _grid(results: Results, table: Table, metric: str) -> str:
    machines = results.machines(table)
    printed = table.printed.get(metric, {})
    run = results.cases(table)
    known = [name for name in table.own if any(results.on_training_rows(table, case, name) for case in run)]
    inside = known if metric == "accuracy" and table.kind != "all" else []
    columns = [*machines, *(f"{name}, on its training rows" for name in inside)]
    header = ["data set", "splits", *columns, "best here", *(["best in the paper"] if printed else [])]
    rows = []
    for case in results.cases(table):
        best = results.best(table, case, metric)
        full = len(results.splits(table, case))
        cells = [_cell(results, table, case, name, metric, name in best, full) for name in machines]
        seen = [results.on_training_rows(table, case, name) for name in inside]
        cells += ["–" if value is None else f"{value:.1f}" for value in seen]
        last = [_winners(results.best_printed(table, case.data, metric)) if case.data in printed else ""] if printed else []
        rows.append([case.data, str(full), *cells, _winners(best), *last])
    return markdown(header, rows)


def _winners(names: Sequence[str]) -> str:
    return "; ".join(names) if len(names) < 4 else f"{len(names)} alike"


def _cell(results: Results, table: Table, case: Case, name: str, metric: str, bold: bool, full: int) -> str:
    ours, theirs = results.cell(table, case, name, metric), results.printed(table, case.data, name, metric)
    if ours is None:
        upper = "–"
    else:
        shown = f"**{ours.mean:.1f}**" if bold else f"{ours.mean:.1f}"
        upper = shown + (f" ± {ours.std:.1f}" if len(ours.values) > 1 else "") + ("†" if len(ours.values) < full else "")
    if theirs is None:
        return upper
    return f"{upper}<br>{theirs[0]:.1f}" + (f" ({ours.mean - theirs[0]:+z.1f})" if ours else "")


def _left_early(results: Results, table: Table) -> list[str]:
    """Who left the race, and why."""
    notes = []
    for case in results.cases(table):
        splits = results.splits(table, case)
        for record in results.records(table, case):
            if "error" in record:
                why = f"ended after {record['seconds']:.0f} s" if record["error"] == "too slow" else record["error"]
                notes.append(f"{case.data}, split {record['split'] + 1}, {record['machine']}: {why}.")
        if len(splits) < 2:
            continue
        for one in table.candidates(case):
            found = [r for r in results.records(table, case) if r["machine"] == one.name and "scores" in r]
            if 0 < len(found) < len(splits):
                seconds, several = found[0]["seconds"], "one split" if len(found) == 1 else f"{len(found)} splits"
                notes.append(
                    f"† {case.data}, {one.name}: too slow here, {seconds:.0f} s for its first split; {several} only."
                )
    return notes


def _tallies(results: Results, table: Table) -> list[str]:
    """Paired tests of the paper's machines against all others."""
    rows = []
    for own in table.own:
        for rival in results.machines(table):
            corrected = results.tally(table, own, rival)
            if rival != own and corrected.tested:
                rows.append([own, rival, str(results.tally(table, own, rival, corrected=False)), str(corrected)])
    if not rows:
        return []
    return [f"{TESTS}\n\n{markdown(['machine', 'against', 'plain t-test', 'corrected'], rows)}"]


def _recalls(results: Results, table: Table) -> str:
    """Recall of each class on page-blocks, the paper's Table 5."""
    from .angular import PER_CLASS

    case = next((case for case in results.cases(table) if case.data == "pageblocks"), None)
    if case is None:
        return ""
    rows = []
    for name in results.machines(table):
        means = mean_recalls(results, table, case, name)
        if means:
            cells = [f"{100 * mean:.1f}" for mean in means]
            for k, theirs in enumerate(PER_CLASS.get(name, ())):
                cells[k] += f"<br>{theirs:.1f} ({100 * means[k] - theirs:+z.1f})"
            rows.append([name, *cells])
    header = ["machine", *(f"class {k + 1}" for k in range(len(rows[0]) - 1))]
    title = "**Table 5: accuracy in each class of page-blocks, %** (the paper: one split, 3 to 492 test rows a class)"
    return f"{title}\n\n{markdown(header, rows)}"


def _chosen(results: Results, table: Table) -> list[str]:
    """How often which scaling was chosen, and an intercept, machine by machine, and which C."""
    if not table.scalings and not table.grows:
        return []
    rows = []
    for name in results.machines(table):
        found = [r for case in results.cases(table) for r in results.records(table, case) if r["machine"] == name]
        params = [record["params"] for record in found if "params" in record]
        Cs = sorted(value for one in params for key, value in one.items() if key.rpartition("__")[2] == "C")
        if Cs:
            ranges = [f"{Cs[0]:g} to {Cs[-1]:g}", f"{median_low(Cs):g}"]
            scaled = [str(sum(one.get("scaling") == kind for one in params)) for kind in table.scalings]
            switched = [value for one in params for key, value in one.items() if key.endswith("fit_intercept")]
            offsets = [str(sum(switched)) if switched else "always"] if table.scalings else []
            rows.append([name, str(len(params)), *ranges, *scaled, *offsets])
    frames = [*(SCALINGS[kind] for kind in table.scalings), "with intercept"] if table.scalings else []
    header = ["machine", "searches", "C", "its median", *frames]
    return [f"What was chosen:\n\n{markdown(header, rows)}"]


def _settings(results: Results, table: Table) -> str:
    """Grids, grouped by the data sets that share them."""
    lines = []
    for name in dict.fromkeys(one.name for case in table.cases for one in table.candidates(case)):
        by_text: dict[str, list[str]] = {}
        for case in results.cases(table):
            for one in table.candidates(case):
                if one.name == name:
                    text = settings_of(table, case, one).replace("estimator__", "")
                    by_text.setdefault(text, []).append(case.data)
        lines += [[name, text, listed(data)] for text, data in by_text.items()]
    shown = markdown(["machine", "settings", "data sets"], lines)
    return f"<details><summary>Grids and settings</summary>\n\n{shown}\n\n</details>"


# -- what must be said -----------------------------------------------------------------------------------------------------


def _shortfalls(results: Results) -> list[str]:
    found = list(results.shortfalls())
    if not found:
        return [
            "## Worse than printed\n\nNo machine of the paper is worse here than printed by more than two standard errors."
        ]
    tried = results.paper.tried
    groups: dict[str, list[str]] = {}
    for one in found:
        why = tried.get((one.table.key, one.data), tried.get((one.table.key, ""), ""))
        numbers = f"{one.ours:.1f} here, {one.printed:.1f} printed, standard error {one.error:.1f}"
        groups.setdefault(why, []).append(f"- {one.table.title}, {one.data}, {one.machine}: {numbers}.")
    parts = ["\n".join([*lines, "", why]).rstrip() for why, lines in groups.items()]
    return [f"## Worse than printed\n\n{SHORTFALLS}", *parts]


def _edges(results: Results) -> list[str]:
    """Table by table, machine by machine."""
    rows = []
    for table in results.paper.tables:
        for name in results.machines(table):
            found = results.edges(table, name)
            if found.searches:
                numbers = (found.lowest, found.highest, found.searches)
                rows.append([table.title, name, _growth(table), *map(str, numbers), f"{100 * found.share:.0f} %"])
        total = results.edges(table)
        if total.searches:
            numbers = (total.lowest, total.highest, total.searches)
            shown = [*map(str, numbers), f"**{100 * total.share:.0f} %**"]
            rows.append([table.title, "**all**", _growth(table), *shown])
    if not rows:
        return []
    whole = [results.edges(table) for table in results.paper.tables]
    total = Edges(*(sum(one[k] for one in whole) for k in range(3)))
    shown = [*map(str, total), f"**{100 * total.share:.0f} %**"]
    rows.append(["**all tables**", "**all**", "", *shown])
    header = ["table", "machine", "C grows", "smallest C", "largest C", "searches", "on an edge"]
    return [f"## Edges of the grids\n\n{EDGES}\n\n{markdown(header, rows)}"]


def _growth(table: Table) -> str:
    return "{:g} to {:g}".format(*table.grows) if table.grows else "no"


def _certificates(results: Results) -> list[str]:
    """How the fits ended, machine by machine."""
    groups: dict[str, list[Record]] = {}
    for table in results.paper.tables:
        for case in results.cases(table):
            for record in results.records(table, case):
                if "scores" in record:
                    groups.setdefault(record["machine"], []).append(record)
    rows = []
    for name, records in groups.items():
        certified = [r for r in records if "status" in r]
        statuses = [r["status"] for r in certified]
        ended = ", ".join(f"{statuses.count(s)} {s}" for s in sorted(set(statuses))) or "no certificate"
        gaps = [r["gap"] for r in certified if r["status"] == "optimal" and r["gap"] is not None]
        fits, failed = (sum(r[key] for r in records) for key in ("fits", "not_converged"))
        numbers = [
            f"{max(gaps):.0e}" if gaps else "",
            f"{fits:,}",
            f"{failed:,}",
            f"{median(r['seconds'] for r in records):.1f}",
        ]
        rows.append([name, str(len(records)), ended, *numbers])
    columns = [
        "machine",
        "searches",
        "last fits",
        "largest gap of the optimal",
        "fits in all",
        "not converged",
        "median seconds",
    ]
    return [f"## How the fits ended\n\n{ENDINGS}\n\n{markdown(columns, rows)}"]


# -- all pages -------------------------------------------------------------------------------------------------------------


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def all_pages(papers: Sequence[Paper], directory: Path = DIRECTORY) -> dict[str, str]:
    """File name to content."""
    from . import networks
    from .summary import summary_pages

    results = {paper.key: Results(paper, directory) for paper in papers}
    known = {key: found for key, found in results.items() if any(found.cases(table) for table in found.paper.tables)}
    tuned = {networks.PAGE: text} if (text := networks.page(directory)) else {}
    return {**{f"{key}.md": paper_page(found) for key, found in known.items()}, **tuned, **summary_pages(known)}


def write_pages(papers: Sequence[Paper], directory: Path = DIRECTORY, target: Path = PAGES) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, content in all_pages(papers, directory).items():
        (target / name).write_text(content, "utf-8")
        written.append(target / name)
    return written
