"""`python -m benchmarks papers`: the papers' tables by one harness, their records and the pages made of them."""

import argparse
import math
import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from polymargin.comparison import Candidate

from . import alike, angular, lp_norm, m3svm, mcodm, networks, one_vs_none
from .figures import FIGURES, draw_figures, run_figures
from .harness import run
from .pages import PAGES, write_pages
from .plan import Case, Paper, Table
from .records import DIRECTORY
from .summary import write_readme

PAPERS: dict[str, Paper] = {
    module.PAPER.key: replace(module.PAPER, figures=FIGURES.get(module.PAPER.key, ()))
    for module in (m3svm, lp_norm, angular, one_vs_none, alike, mcodm)
}


def quick(paper: Paper) -> Paper:
    """The same tables on data that comes with scikit-learn or needs none, two splits, one value less than three each."""
    figures = tuple(replace(figure, parts=figure.quick) for figure in paper.figures)
    return replace(paper, tables=tuple(_quick_table(table) for table in paper.tables), figures=figures)


def _quick_table(table: Table) -> Table:
    multilabel = "jaccard" in table.metrics or table.kind == "fixed"
    kept = tuple(case for case in table.cases if case.data in ("toy", "synthetic")) if multilabel else _bundled(table)
    cases = tuple(replace(case, budget=20.0, inner=2, tol=1e-2) for case in kept)
    return replace(table, cases=cases, splits=min(2, table.splits), machines=_Thin(table))


def _bundled(table: Table) -> tuple[Case, ...]:
    return (Case("iris", 20.0, table.cases[0].grid),)


class _Thin:
    """The table's machines with the first and last value of C only, and the first of everything else."""

    def __init__(self, table: Table):
        self.machines = table.machines

    def __call__(self, case: Case) -> list[Candidate]:
        return [replace(one, grid={k: _ends(k, v) for k, v in one.grid.items()}) for one in self.machines(case)]


def _ends(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    return (values[0], values[-1]) if name.endswith("C") and len(values) > 1 else tuple(values[:1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "run what is missing of the tables, the figures or the networks, or write the pages from the records"
    parser.add_argument("what", choices=("run", "figures", "networks", "pages"), help=what)
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)} (default all)")
    parser.add_argument("--workers", type=int, default=1, help="units at the same time (default 1)")
    parser.add_argument("--tables", nargs="+", metavar="KEY", help="only these tables, e.g. equal seeds (default all)")
    parser.add_argument("--data", nargs="+", metavar="NAME", help="run only these data sets (default all)")
    parser.add_argument("--splits", type=int, help="at most so many splits in this run")
    parser.add_argument("--largest", type=float, default=math.inf, metavar="SECONDS", help="only cases with such a budget")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no network after so many (default no limit)")
    parser.add_argument("--records", type=Path, help="folder of the JSON lines (default benchmarks/results/papers)")
    parser.add_argument("--pages", type=Path, help="folder of the pages (default docs/results)")


def main(args: argparse.Namespace) -> None:
    unknown = [name for name in args.papers if name not in PAPERS]
    if unknown:
        raise SystemExit(f"there is no paper {unknown[0]!r}; there are {', '.join(PAPERS)}")
    papers = [PAPERS[name] for name in args.papers or PAPERS]
    if args.tables and args.what == "pages":
        raise SystemExit("a page has all tables of its paper: leave --tables out")
    records = args.records or (DIRECTORY.with_name("papers-quick") if args.quick else DIRECTORY)
    if args.quick:
        papers = [quick(paper) for paper in papers]
    if args.tables:
        papers = [replace(paper, tables=tuple(t for t in paper.tables if t.key in args.tables)) for paper in papers]
    if args.what == "run":
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # the units end with the run, as with Ctrl-C
        try:
            limits = {"at_most": args.splits, "largest": args.largest, "data": args.data}
            new = run(papers, directory=records, workers=args.workers, echo=partial(print, flush=True), **limits)
        except KeyboardInterrupt:
            raise SystemExit("interrupted; the same command goes on from here") from None
        print(f"{new} new records in {records}")
        return
    if args.what == "figures":
        new = run_figures(papers, records, partial(print, flush=True))
        images = {"target": records / "images"} if args.quick else {}
        written = draw_figures(papers, records, **images)
        print(f"{new} new records, {len(written)} pictures; `papers pages` writes what is said of them")
        return
    if args.what == "networks":
        print(
            f"{networks.run(records, args.seconds, partial(print, flush=True))} new records; `papers pages` writes the page"
        )
        return
    target = args.pages or (records if args.quick else PAGES)
    for path in write_pages(papers, records, target):
        print(f"written: {path}")
    if target == PAGES:
        write_readme(papers, records)
