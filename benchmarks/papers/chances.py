"""Equal chances: one range of regularisation for everybody, scaling and intercept as choices, and edges of grids counted.

Every machine here is a squared norm plus C times a sum of losses. The norm is 1/2 |W|^2, or the machine's own in the scale
in which it is that for p = 2 (M3SVM's `scale="norm"`, the lp norm); the loss of a row is 1 where its class ties with a rival
(the cross-entropy of logistic regression: the logarithm of the number of classes that tie). So one C is about the same
amount of regularisation for all of them, and all start from the same values of it.

Where a search ends on an outermost value that is better than all others, it goes on beyond it, whoever's search it is: no
fixed range is wide enough for all data. It goes on from the best point of all: a value of p, omega or theta that is not the
best one keeps the range it had, though its own best C may be at an end of that. Where a table has them `apart`, each of
these values has a range that goes on by itself. On few rows many values of C are right on
equally many of them; of these the one nearest to the middle of the start is taken, and not whichever end is looked at
first.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from polymargin.comparison import Candidate

from .plan import Case, Table

Point = tuple[float, dict[str, Any]]  # a score and the parameters it belongs to
CS = (0.01, 0.1, 1.0, 10.0, 100.0)
GOES_ON, APART = (
    f"C goes on by tens beyond its first values as long as the outermost is better than all others{for_whom}; of equals the "
    "one nearest to the middle of the first values is taken."
    for for_whom in (
        ", with whichever values of the machine's own parameters",
        ", for each value of an own parameter by itself",
    )
)
SAME_START = "C of everybody starts from the same values."
GROWTH = f"{SAME_START} {GOES_ON}"
STATED = (
    f"{GROWTH} Each machine is ½‖W‖² (M³SVM and the ℓp norm in the scale in which p = 2 "
    "is that) plus C times losses that are 1 where two classes tie, so one C is about the same regularisation for all. "
    "Scaling and intercept are chosen too, with C and the machine's own parameters, inside the training rows."
)


def frames(scalings: Sequence[str], intercept: str) -> Iterator[dict[str, Any]]:
    """Scaling with intercept on and off. With a free one [-1, 1] is [0, 1] with a quarter of C: left out there."""
    for kind in scalings:
        if not intercept:
            yield {"prepare__kind": kind}
            continue
        if kind != "symmetric" or "unit" not in scalings:
            yield {"prepare__kind": kind, intercept: True}
        yield {"prepare__kind": kind, intercept: False}


def intercept_of(candidate: Candidate) -> str:
    """The parameter that switches the intercept on and off; empty if there is none."""
    known = candidate.estimator.get_params()
    return next((name for name in ("fit_intercept", "estimator__fit_intercept") if name in known), "")


def name_of_c(grid: Mapping[str, Any]) -> str:
    """What C is called in a grid; empty if it is not there."""
    return next((name for name in grid if name.rpartition("__")[2] == "C"), "")


def best(points: Sequence[Point], start: Mapping[str, Sequence[float]] | None = None) -> dict[str, Any]:
    """The parameters of the highest score: the first of equals, or those with C nearest to the middle of the start."""
    if start is None:
        return max(points, key=lambda point: point[0])[1]
    name = name_of_c(start)
    middle = math.log10(min(start[name]) * max(start[name])) / 2
    return max(points, key=lambda point: (round(point[0], 9), -round(abs(math.log10(point[1][name]) - middle), 9)))[1]


def beyond(tried: Collection[float], chosen: float, limits: tuple[float, float]) -> float | None:
    """The C to try next if the chosen one is the outermost; None if it is not, or if there is no room."""
    steps = [chosen / 10] * (chosen == min(tried)) + [chosen * 10] * (chosen == max(tried))
    return next((C for C in (float(f"{step:.6g}") for step in steps) if limits[0] <= C <= limits[1]), None)


class Edges(NamedTuple):
    """How many searches chose the smallest and the largest C they could have, of how many that had a choice."""

    lowest: int
    highest: int
    searches: int

    @property
    def share(self) -> float:
        return (self.lowest + self.highest) / self.searches if self.searches else 0.0


def edges(table: Table, case: Case, records: Sequence[dict[str, Any]], machine: str = "") -> Edges:
    """Of one machine, or of all."""
    lowest = highest = searches = 0
    for candidate in table.candidates(case):
        name = name_of_c(candidate.grid)
        if not name or len(candidate.grid[name]) < 2 or (machine and candidate.name != machine):
            continue
        ends = [float(f"{end:.6g}") for end in _ends(candidate.grid[name], table.grows)]
        chosen = [r["params"][name] for r in records if r["machine"] == candidate.name and name in r.get("params", {})]
        lowest += chosen.count(ends[0])
        highest += chosen.count(ends[1])
        searches += len(chosen)
    return Edges(lowest, highest, searches)


def _ends(values: Sequence[float], limits: tuple[float, float] | None) -> tuple[float, float]:
    """The outermost values of C; those that can be reached by tens where it grows."""
    low, high = min(values), max(values)
    if limits is not None:
        while low / 10 >= limits[0] * (1 - 1e-9):
            low /= 10
        while high * 10 <= limits[1] * (1 + 1e-9):
            high *= 10
    return low, high
