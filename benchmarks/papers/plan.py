"""What a paper's file states: its tables, their data sets with a budget of seconds, machines, protocol, printed numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from polymargin.comparison import Candidate

SCALINGS = {"none": "raw", "unit": "[0, 1]", "symmetric": "[−1, 1]", "standard": "standardised"}
LIMITS = (1e-8, 1e8)  # of a C that grows, where no paper says otherwise
Printed = Mapping[str, Mapping[str, tuple[float, float | None]]]  # data set -> machine -> mean and standard deviation


@dataclass(frozen=True)
class Case:
    """A data set of a table.

    `budget` is seconds for the whole case, all machines and splits. `grid` says which of the paper file's grids is used,
    `inner` how many folds choose the parameters, `rows` the size of a stratified sample (None: all rows), `test` and
    `train` a share or a number of rows, `scale` overrides the table's.
    """

    data: str
    budget: float
    grid: str = "full"
    inner: int = 3
    rows: int | None = None
    test: float | int = 0.2
    train: int | None = None
    scale: str | None = None
    tol: float = 1e-3
    leave_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    `kind` is how rows are split: "holdout" (seeded draws), "folds" (repeated k-fold), "seed 42", "seeds" (the same draw with
    other seeds), "fixed" or "all" (tested on the training rows). `choice` is where parameters are chosen: "nested" (inside
    the training rows), "test" (on the test rows: what some papers did) or "folds" (the best mean over the folds that are
    reported). With `scalings` scaling and intercept are chosen too. Where C `grows`, the grid's values are a start: a value
    ten times beyond them is tried as long as the outermost is the best, within the two limits; with `apart` each value of a
    machine's own parameters has a C that grows by itself, else they share one. `own` names the machines of
    the paper, `printed` maps a metric to its numbers, `unit` is their 100 %.
    """

    key: str
    title: str
    protocol: str
    cases: tuple[Case, ...]
    machines: Callable[[Case], list[Candidate]]
    splits: int
    own: tuple[str, ...]
    kind: str = "holdout"
    folds: int = 5
    choice: str = "nested"
    scale: str = "standard"
    scalings: tuple[str, ...] = ()  # of SCALINGS
    grows: tuple[float, float] | None = None
    apart: bool = False
    scale_first: bool = False
    metrics: tuple[str, ...] = ("accuracy",)
    per_class: bool = False
    printed: Mapping[str, Printed] = field(default_factory=dict)
    unit: float = 1.0
    same_as: Mapping[str, str] = field(default_factory=dict)  # our variants of a machine, and the machine the paper prints
    notes: Mapping[str, str] = field(default_factory=dict)  # about a data set
    only_run: bool = False  # no columns for machines that are printed, but not run

    def candidates(self, case: Case) -> list[Candidate]:
        return [one for one in self.machines(case) if one.name not in case.leave_out]


class Reason(NamedTuple):
    """Why a printed number is not reached: `mark` is "Proven", "Likely" or "Open"."""

    mark: str
    text: str


Values = dict[str, Any]  # what a part of a figure has measured, as JSON keeps it
Parts = Mapping[str, Values]


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, made anew.

    `measure(part)` fits and gives numbers, one record for each of `parts` (mostly data sets); `settings` is what they depend
    on, and stands on the page: a record with other settings is not this figure's. `draw(canvas, found)` puts them on a
    matplotlib figure of `size` inches, `says(found)` what is to be seen, beside what the paper shows. `quick` are parts that
    need no data.
    """

    key: str
    title: str
    settings: str
    parts: tuple[str, ...]
    measure: Callable[[str], Values]
    draw: Callable[[Any, Parts], None]
    says: Callable[[Parts], Sequence[str]]
    size: tuple[float, float] = (9.0, 5.0)
    quick: tuple[str, ...] = ("iris",)
    alt: str = ""


@dataclass(frozen=True)
class Paper:
    """A page: `reading(results)` gives its first sentences, `reasons(results)` what experiments say about printed numbers,
    `tried` what was tried where we are worse, beginning with a mark as a reason does, `figures` the paper's figures.
    """

    key: str
    title: str
    source: str
    tables: tuple[Table, ...]
    reading: Callable[[Any], Sequence[str]]
    tried: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (table, data set); "" stands for all data sets
    reasons: Callable[[Any], Sequence[Reason]] = lambda results: ()
    figures: tuple[Figure, ...] = ()


def settings_of(table: Table, case: Case, candidate: Candidate) -> str:
    """What a result depends on besides data, split and versions. A record with other settings is not this table's."""
    grid = "; ".join(f"{name} {_values(values)}" for name, values in candidate.grid.items()) or "nothing to choose"
    fixed = [f"tol {case.tol:g}"] if candidate.ours else []
    sample = [f"{case.rows} rows"] if case.rows else []
    folds = [] if table.choice != "nested" or not candidate.grid else [f"{case.inner} folds"]
    frame = [f"scaling {' '.join(table.scalings)}, intercept on and off"] if table.scalings else []
    chosen = any(len(values) > 1 for values in candidate.grid.values())
    alone = [name for name, values in candidate.grid.items() if len(values) > 1 and name.rpartition("__")[2] != "C"]
    each = f"for each {' and '.join(alone)} by itself, " if table.apart and alone else ""
    growth = (
        [f"C goes on by tens within {_values(table.grows)}, {each}of equals the middle one"]
        if table.grows and chosen
        else []
    )
    return "; ".join([grid, *growth, *frame, *folds, *fixed, *sample])


def _values(values: Sequence[Any]) -> str:
    return " ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)
