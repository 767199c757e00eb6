"""Equal chances: one range of regularisation for everybody, scaling and intercept as choices, and edges of grids counted.

Every machine here is a squared norm plus C times a sum of losses. The norm is 1/2 |W|^2, or the machine's own in the scale
in which it is that for p = 2 (M3SVM's `scale="norm"`, the lp norm); the loss of a row is 1 where its class ties with a rival
(the cross-entropy of logistic regression: the logarithm of the number of classes that tie). So one C is about the same
amount of regularisation for all of them, and all get the same values of it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from polymargin.comparison import Candidate

from .plan import Case, Table

CS = tuple(10.0**k for k in range(-4, 6))
STATED = (
    "The same C from 0.0001 to 100,000 for every machine: each is ½‖W‖² (M³SVM and the ℓp norm in the scale in which p = 2 "
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


class Edges(NamedTuple):
    """How many searches chose the smallest and the largest C, of how many that had a choice."""

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
        name = next((name for name in candidate.grid if name.rpartition("__")[2] == "C"), "")
        if not name or len(candidate.grid[name]) < 2 or (machine and candidate.name != machine):
            continue
        ends = [float(f"{end:.6g}") for end in (min(candidate.grid[name]), max(candidate.grid[name]))]
        chosen = [r["params"][name] for r in records if r["machine"] == candidate.name and name in r.get("params", {})]
        lowest += chosen.count(ends[0])
        highest += chosen.count(ends[1])
        searches += len(chosen)
    return Edges(lowest, highest, searches)
