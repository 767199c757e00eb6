"""Numbers of a page and sentences about them: everything a page says with a number in it is made here, from the records."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from polymargin.comparison.statistics import corrected_t_test

from .chances import Edges, edges
from .harness import goes_on
from .plan import Case, Paper, Printed, Table
from .records import DIRECTORY, Record, Store

LOWER_IS_BETTER = ("hamming",)
LEVEL = 0.05
PAPER_RUNS = 10  # what the papers average over
FEW_SPLITS = 5  # means of fewer are called a first look
TESTED_SPLITS = 3  # fewer are not tested: the t distribution of one degree of freedom finds next to nothing


@dataclass(frozen=True)
class Cell:
    """The scores of one machine on one data set, by split, in percent."""

    values: dict[int, float]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    @property
    def std(self) -> float:
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else float("nan")


class Shortfall(NamedTuple):
    """A machine of the paper that is worse here than printed, by more than two standard errors."""

    table: Table
    data: str
    machine: str
    ours: float
    printed: float
    error: float


class Tally(NamedTuple):
    """Data sets by the outcome of a test; `few` have too few splits for one."""

    better: int
    equal: int
    worse: int
    few: int = 0

    @property
    def tested(self) -> int:
        return self.better + self.equal + self.worse

    def __str__(self) -> str:
        counts = [f"{self.better}/{self.equal}/{self.worse}"] if self.tested or not self.few else []
        return ", ".join([*counts, *([f"{self.few} too few splits"] if self.few else [])])


class Results:
    """The records of a paper, read for its page."""

    def __init__(self, paper: Paper, directory: Path = DIRECTORY):
        self.paper, self.directory, self._store = paper, directory, Store(paper, directory)

    def table(self, key: str) -> Table:
        return next(table for table in self.paper.tables if table.key == key)

    def cases(self, table: Table) -> list[Case]:
        """Those that have been run, in the order of the plan."""
        return [case for case in table.cases if self._store.of(table, case.data)]

    def records(self, table: Table, case: Case) -> list[Record]:
        return self._store.of(table, case.data)

    def splits(self, table: Table, case: Case) -> list[int]:
        """Complete ones: every machine still in the race has a record."""
        found = {(r["split"], r["machine"]): r for r in self.records(table, case)}
        staying = [one.name for one in table.candidates(case) if goes_on(found.get((0, one.name)), case)]
        splits = sorted({split for split, _ in found})
        return [split for split in splits if all((split, name) in found for name in staying)]

    def cell(self, table: Table, case: Case, machine: str, metric: str = "") -> Cell | None:
        splits, metric = set(self.splits(table, case)), metric or table.metrics[0]
        values = {
            r["split"]: 100 * r["scores"][metric]
            for r in self.records(table, case)
            if r["machine"] == machine and "scores" in r and r["split"] in splits
        }
        return Cell(values) if values else None

    def on_training_rows(self, table: Table, case: Case, machine: str) -> float | None:
        """Mean accuracy on the rows of the last fits, in percent; None where it was not recorded."""
        found = [r["train"] for r in self.records(table, case) if r["machine"] == machine and "train" in r]
        return 100 * float(np.mean(found)) if found else None

    def edges(self, table: Table, machine: str = "") -> Edges:
        """Choices of the smallest and the largest C, over the table's data sets."""
        found = [edges(table, case, self.records(table, case), machine) for case in self.cases(table)]
        return Edges(*(sum(one[k] for one in found) for k in range(3)))

    def printed(self, table: Table, data: str, machine: str, metric: str = "") -> tuple[float, float | None] | None:
        """Mean and standard deviation, in percent."""
        found = table.printed.get(metric or table.metrics[0], {}).get(data, {}).get(table.same_as.get(machine, machine))
        if found is None:
            return None
        mean, std = found
        return 100 * mean / table.unit, None if std is None else 100 * std / table.unit

    def machines(self, table: Table) -> list[str]:
        """In the order of the plan; those a paper prints and we do not have come last."""
        own = dict.fromkeys(one.name for case in table.cases for one in table.candidates(case))
        if table.only_run:
            return [*own]
        shown = [case.data for case in table.cases]
        theirs = (name for per in table.printed.values() for data, row in per.items() if data in shown for name in row)
        return [*own, *(name for name in dict.fromkeys(theirs) if name not in own)]

    def best(self, table: Table, case: Case, metric: str = "", leave_out: Sequence[str] = ()) -> list[str]:
        """Machines with the highest mean, as it is shown; those that left after the first split do not take part."""
        metric = metric or table.metrics[0]
        sign = -1 if metric in LOWER_IS_BETTER else 1
        full = len(self.splits(table, case))
        cells = {name: self.cell(table, case, name, metric) for name in self.machines(table) if name not in leave_out}
        means = {name: sign * round(c.mean, 1) for name, c in cells.items() if c and len(c.values) == full}
        return [name for name, mean in means.items() if mean == max(means.values())]

    def best_printed(self, table: Table, data: str, metric: str = "") -> list[str]:
        metric = metric or table.metrics[0]
        sign = -1 if metric in LOWER_IS_BETTER else 1
        means = {name: sign * cell[0] for name, cell in table.printed.get(metric, {}).get(data, {}).items()}
        return [name for name, mean in means.items() if mean == max(means.values())]

    def tally(self, table: Table, machine: str, rival: str, metric: str = "", corrected: bool = True) -> Tally:
        """On how many data sets `machine` is significantly better, not different, worse; paired t-tests at 5 %."""
        counts: Counter[int] = Counter()
        few = 0
        for case in self.cases(table):
            ours, theirs = (self.cell(table, case, name, metric) for name in (machine, rival))
            common = sorted(set(ours.values) & set(theirs.values)) if ours and theirs else []
            if ours is None or theirs is None or len(common) < TESTED_SPLITS:
                few += bool(common)
                continue
            share = self._share(table, case) if corrected else 0.0
            test = corrected_t_test([ours.values[s] for s in common], [theirs.values[s] for s in common], share)
            counts[int(np.sign(test.mean)) if test.p_value < LEVEL else 0] += 1
        return Tally(counts[1], counts[0], counts[-1], few)

    @staticmethod
    def _share(table: Table, case: Case) -> float:
        """Test rows for each training row."""
        if table.kind == "folds":
            return 1 / (table.folds - 1)
        return case.test / case.train if case.train else case.test / (1 - case.test)

    def shortfalls(self) -> Iterator[Shortfall]:
        """Differences of more than two standard errors below the printed number, for machines of this library."""
        for table in self.paper.tables:
            for case in self.cases(table):
                for name in table.own:
                    ours, theirs = self.cell(table, case, name), self.printed(table, case.data, name)
                    if ours is None or theirs is None or len(ours.values) < 2:
                        continue
                    error = float(np.hypot(ours.std / len(ours.values) ** 0.5, (theirs[1] or 0.0) / PAPER_RUNS**0.5))
                    if ours.mean < theirs[0] - 2 * error:
                        yield Shortfall(table, case.data, name, ours.mean, theirs[0], error)


def wins(
    results: Results, table: Table, machine: str, metric: str = "", leave_out: Sequence[str] = ()
) -> tuple[int, int, int, int]:
    """Data sets where `machine` has the highest mean, of how many; and the same in the paper, on the same data sets."""
    cases = [case for case in results.cases(table) if results.cell(table, case, machine, metric)]
    here = sum(machine in results.best(table, case, metric, leave_out) for case in cases)
    printed = [case for case in cases if results.printed(table, case.data, machine, metric)]
    there = sum(machine in results.best_printed(table, case.data, metric) for case in printed)
    return here, len(cases), there, len(printed)


def by_split(results: Results, table: Table, first: str, second: str, metric: str = "") -> dict[str, dict[int, float]]:
    """Data set by data set, split by split, the difference of two machines, in points, where both have run."""
    found = {}
    for case in results.cases(table):
        a, b = (results.cell(table, case, name, metric) for name in (first, second))
        common = sorted(set(a.values) & set(b.values)) if a and b else []
        if a and b and common:
            found[case.data] = {split: a.values[split] - b.values[split] for split in common}
    return found


def by_set(results: Results, table: Table, first: str, second: str, metric: str = "") -> dict[str, float]:
    """Data set by data set, the mean difference of two machines, in points."""
    found = by_split(results, table, first, second, metric)
    return {data: float(np.mean(list(gaps.values()))) for data, gaps in found.items()}


def difference(results: Results, table: Table, first: str, second: str, metric: str = "") -> tuple[float, int]:
    """Mean over the data sets of the difference of two machines, in points, and the number of data sets."""
    found = list(by_set(results, table, first, second, metric).values())
    return (float(np.mean(found)), len(found)) if found else (float("nan"), 0)


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def standing(results: Results, table: Table, machine: str, metric: str = "", leave_out: Sequence[str] = ()) -> str:
    """On how many data sets a machine has the highest mean, here and in the paper."""
    here, of, there, printed = wins(results, table, machine, metric, leave_out)
    paper = f" (in the paper: on {there} of these {printed})" if printed else ""
    return f"the highest mean on {here} of {of} data sets{few_splits(results, table, machine)}{paper}"


def few_splits(results: Results, table: Table, machine: str) -> str:
    """A word of caution where a data set has so few splits that a mean says little."""
    cells = [results.cell(table, case, machine) for case in results.cases(table)]
    counts = [len(cell.values) for cell in cells if cell]
    if not counts or min(counts) >= FEW_SPLITS:
        return ""
    several = "split" if min(counts) == 1 else "splits"
    return f", a first look at {min(counts)} {several}{'' if max(counts) == min(counts) else ' or more'}"


def against(results: Results, table: Table, machine: str, rivals: Sequence[str], metric: str = "") -> str:
    """Counts of paired tests and mean differences, rival by rival."""
    parts = []
    for rival in rivals:
        points, n = difference(results, table, machine, rival, metric)
        if n:
            parts.append(
                f"{rival} {results.tally(table, machine, rival, metric)} ({points:+z.1f} points on average over {n} sets)"
            )
    return "; ".join(parts) or "no data yet"


def to_paper(results: Results, table: Table, machine: str, metric: str = "") -> tuple[float, int]:
    """Mean over the data sets of (ours - printed), and their number."""
    found = []
    for case in results.cases(table):
        ours, theirs = results.cell(table, case, machine, metric), results.printed(table, case.data, machine, metric)
        if ours and theirs:
            found.append(ours.mean - theirs[0])
    return (float(np.mean(found)), len(found)) if found else (float("nan"), 0)


def mean_of(results: Results, key: str, data: str, machine: str, metric: str = "") -> str:
    """A mean as it is shown, or a dash."""
    table = results.table(key)
    cells = [results.cell(table, case, machine, metric) for case in results.cases(table) if case.data == data]
    return f"{cells[0].mean:.1f}" if cells and cells[0] else "–"


def spread_of(results: Results, key: str, data: str, machine: str) -> str:
    """Mean ± standard deviation, as they are shown, or a dash."""
    table = results.table(key)
    cells = [results.cell(table, case, machine) for case in results.cases(table) if case.data == data]
    return f"{cells[0].mean:.1f} ± {cells[0].std:.1f}" if cells and cells[0] else "–"


def printed_of(results: Results, key: str, data: str, machine: str, spread: bool = False) -> str:
    """What the paper prints, as ours are shown."""
    found = results.printed(results.table(key), data, machine)
    if found is None:
        return "–"
    return f"{found[0]:.1f} ± {found[1]:.1f}" if spread and found[1] is not None else f"{found[0]:.1f}"


def most_printed(printed: Printed, data: str, unit: float, leave_out: Sequence[str] = ()) -> str:
    """The highest mean that a paper prints for a data set, as ours are shown."""
    return f"{100 / unit * max(mean for name, (mean, _) in printed[data].items() if name not in leave_out):.1f}"


def mean_recalls(results: Results, table: Table, case: Case, machine: str) -> list[float]:
    """Recall of each class, mean over the splits in which it has test rows; empty without records."""
    found = [r["scores"]["recall"] for r in results.records(table, case) if r["machine"] == machine and "scores" in r]
    return [float(np.mean([v for v in column if v is not None])) for column in zip(*found, strict=True)]
