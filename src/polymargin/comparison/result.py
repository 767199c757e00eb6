"""What a comparison found: table, tests, recommendation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._indexing import _safe_indexing

from polymargin.comparison.candidates import Candidate
from polymargin.comparison.evaluation import STEP, Record
from polymargin.comparison.plan import AS_SLOW, AS_WORSE
from polymargin.comparison.scoring import PROBABILITY_METRICS
from polymargin.comparison.statistics import Difference, corrected_t_test, half_width, holm


@dataclass(frozen=True)
class Row:
    """One line of the table: a machine's mean scores, its interval, and the comparison with the winner."""

    machine: str
    ours: bool
    n_splits: int
    scores: dict[str, float]
    interval: float  # half the width of the 95 % interval of the deciding metric
    fit_seconds: float
    predict_seconds: float
    probability_worse: float  # that the winner is better than this machine
    p_value: float  # of the difference to the winner, corrected
    params: dict[str, Any]  # chosen most often
    n_not_converged: int

    @property
    def spread(self) -> str:
        """The interval as it is printed: nothing for a single split."""
        return f" ± {self.interval:.3f}" if np.isfinite(self.interval) else ""


class FittedOnSplit(NamedTuple):
    """A tuned and fitted pipeline and the rows it has not seen."""

    model: Any
    X_test: Any
    y_test: Any


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`compare_machines`.

    Attributes
    ----------
    records : tuple of Record
        One for each machine and split.
    metric : str
        What decides.
    table : tuple of Row
        Machines from best to worst.
    winner : str
        The machine with the best mean score.
    recommendation : str
        One sentence that says which machine, how good, and how sure.
    dropped : dict
        Machines that left the race, and why.
    """

    records: tuple[Record, ...]
    metric: str
    test_share: float
    candidates: tuple[Candidate, ...]
    dropped: dict[str, str]
    settings: dict[str, Any]
    shape: tuple[int, int, int]
    _search: Callable[[Candidate], Any] = field(repr=False)
    _data: tuple[Any, Any] = field(repr=False)
    _first_split: tuple[Any, Any] = field(repr=False)
    _fitted: dict[str, FittedOnSplit] = field(default_factory=dict, repr=False)

    def scores(self, machine: str) -> dict[int, float]:
        """Scores of a machine by split, in the deciding metric."""
        return {r.split: r.scores[self.metric] for r in self.records if r.machine == machine and r.scores}

    @cached_property
    def winner(self) -> str:
        stayed = [name for name in self._names if name not in self.dropped] or self._names
        shared = set.intersection(*(set(self.scores(name)) for name in stayed))
        finalists = stayed if shared else [max(stayed, key=lambda name: len(self.scores(name)))]
        return min(finalists, key=lambda name: self._rank(name, shared or set(self.scores(finalists[0]))))

    def _rank(self, machine: str, splits: set[int]) -> tuple[float, ...]:
        """Best first: by the mean of the deciding metric, then of the others, then in the order of the candidates.

        Nothing here is measured time, so a comparison without a budget can be repeated.
        """
        records = [record for record in self._of(machine) if record.split in splits]
        others = [name for name in records[0].scores if name not in (self.metric, *PROBABILITY_METRICS)]
        # means of the same scores in another order may differ in the last bit
        means = [-round(_mean_of(records, name), 12) for name in (self.metric, *others)]
        return (*means, float(self._names.index(machine)))

    @property
    def resolution(self) -> float:
        """What one test row is worth: 1 / n_test."""
        return (1.0 + self.test_share) / (self.test_share * self.shape[0])

    def difference(self, first: str, second: str) -> Difference:
        """Paired comparison of two machines on the splits they share."""
        one, other = self.scores(first), self.scores(second)
        shared = sorted(set(one) & set(other))
        return corrected_t_test(
            [one[k] for k in shared], [other[k] for k in shared], self.test_share, resolution=self.resolution
        )

    @cached_property
    def table(self) -> tuple[Row, ...]:
        others = [name for name in self._names if name != self.winner]
        tests = {name: self.difference(self.winner, name) for name in others}
        stayed = [name for name in others if name not in self.dropped]  # those who left early are not tested
        corrected = dict(zip(stayed, holm([tests[name].p_value for name in stayed]), strict=True))
        rows = [self._row(name, tests.get(name), corrected.get(name, 1.0)) for name in self._names]
        rows.sort(key=lambda row: -round(row.scores[self.metric], 12))
        # those who left were measured on fewer splits: they stand below those who stayed
        return tuple(sorted(rows, key=lambda row: (row.machine != self.winner, row.machine in self.dropped)))

    @property
    def ties(self) -> tuple[str, ...]:
        """Machines that stayed to the end and that the tests cannot tell from the winner (corrected p-value above 0.05)."""
        return tuple(row.machine for row in self.table[1:] if row.p_value > 0.05 and row.machine not in self.dropped)

    @property
    def left_early(self) -> tuple[str, ...]:
        """Machines that left the race and have scores of some splits only."""
        return tuple(row.machine for row in self.table[1:] if row.machine in self.dropped)

    @property
    def notes(self) -> tuple[str, ...]:
        """Why machines left, a line each."""
        return tuple(f"{name}: {why}" for name, why in self.dropped.items())

    @property
    def recommendation(self) -> str:
        """Which machine, how good, how sure."""
        best = self.table[0]
        said = f"Use {best.machine}" + (f" ({described(best.params)})" if best.params else "")
        said += f": {self.metric.replace('_', ' ')} {best.scores[self.metric]:.3f}{best.spread}"
        rivals, early = [row for row in self.table[1:] if row.machine not in self.dropped], self._left_early_as()
        if not rivals:
            return said + ("; no other machine stayed" + early if early else "; it had no rival") + "."
        said += f". It beats the runner-up, {rivals[0].machine}, with probability {rivals[0].probability_worse:.0%}"
        if not self.ties:
            rest = "all others that stayed" if early else "all others"
            return said + f", and {rest} are worse (p < 0.05 each){early}."
        fastest = min([best.machine, *self.ties], key=self._seconds)
        said += f"; {len(self.ties)} of {len(rivals)} others cannot be told from it"
        if fastest != best.machine:
            times = self._seconds(best.machine) / self._seconds(fastest)
            said += f", the fastest of them is {fastest} (tuned and fitted in 1/{times:.1f} of the time)"
        return said + early + "."

    def _left_early_as(self) -> str:
        """How many machines left for which reason, and how many of them have no score at all."""
        counts = {kind: sum(why.startswith(kind) for why in self.dropped.values()) for kind in (AS_WORSE, AS_SLOW)}
        counts["failed"] = len(self.dropped) - sum(counts.values())
        unseen = sum(name not in self._names for name in self.dropped)
        said = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n)
        if not said:
            return ""
        return f"; {len(self.dropped)} left early ({said})" + (f", {unseen} of them without a score" if unseen else "")

    def fit_winner(self) -> Any:
        """The recommended machine with its preprocessing, tuned and fitted on all data."""
        return self._winner_model

    @cached_property
    def _winner_model(self) -> Any:
        return self._search(self._candidate(self.winner)).fit(*self._data).best_estimator_

    def fitted_on_split(self, machine: str, **settings: Any) -> FittedOnSplit:
        """A machine with the parameters that the first split chose, and `settings`, fitted on that split's training rows."""
        key = f"{machine} {settings}"
        if key not in self._fitted:
            (X, y), (train, test) = self._data, self._first_split
            chosen = next(record.params for record in self._of(machine) if record.split == 0)
            model = self._search(self._candidate(machine)).estimator
            model.set_params(**{f"{STEP}__{name}": value for name, value in {**chosen, **settings}.items()})
            model.fit(_safe_indexing(X, train), _safe_indexing(y, train))
            self._fitted[key] = FittedOnSplit(model, _safe_indexing(X, test), _safe_indexing(y, test))
        return self._fitted[key]

    @property
    def first_test_rows(self) -> Any:
        """Numbers of the rows that the first split left out, counted from 0."""
        return self._first_split[1]

    def _candidate(self, machine: str) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.name == machine)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the data, ready for JSON."""
        return {
            "winner": self.winner,
            "recommendation": self.recommendation,
            "metric": self.metric,
            "table": [asdict(row) for row in self.table],
            "records": [asdict(record) for record in self.records],
            "dropped": self.dropped,
            "settings": self.settings,
            "shape": list(self.shape),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, default=str)

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        import pandas as pd

        flat = [
            {
                "machine": row.machine,
                **row.scores,
                "interval": row.interval,
                "p_value": row.p_value,
                "fit_seconds": row.fit_seconds,
                "predict_seconds": row.predict_seconds,
                "n_splits": row.n_splits,
                "params": row.params,
            }
            for row in self.table
        ]
        return pd.DataFrame(flat).set_index("machine")

    def told_apart(self, row: Row) -> str:
        """What stands in the column of p-values."""
        if row.machine == self.winner:
            return ""
        return "left" if row.machine in self.dropped else f"{row.p_value:.3f}"

    def __str__(self) -> str:
        names = list(self.table[0].scores)
        width = max(len(row.machine) for row in self.table)
        lines = ["  ".join([f"{'machine':{width}s}", *(f"{n:>18s}" for n in names), "splits", f"{'fit s':>8s}", "p-value"])]
        for row in self.table:
            cells = [f"{row.machine:{width}s}"]
            for name in names:
                value = f"{row.scores[name]:.3f}" if name in row.scores else "-"
                cells.append(f"{value + row.spread if name == self.metric else value:>18s}")
            cells += [f"{row.n_splits:6d}", f"{row.fit_seconds:8.2f}", self.told_apart(row).rjust(7)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, "", self.recommendation, *self.notes])

    def plot(self, ax: Any = None) -> Any:
        """Mean scores with 95 % intervals, best on top; hollow marks are worse than the winner (p < 0.05).

        Returns
        -------
        matplotlib Axes
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 0.32 * len(self.table) + 1.3), layout="constrained")
        for height, row in enumerate(reversed(self.table)):
            told_apart = row.machine != self.winner and row.p_value <= 0.05
            ax.errorbar(
                row.scores[self.metric], height, xerr=row.interval, fmt="o" if row.ours else "s", capsize=3,
                color="black" if row.ours else "0.5", markerfacecolor="white" if told_apart else None,
            )
        ax.set_yticks(range(len(self.table)), [row.machine for row in reversed(self.table)])
        ax.axvline(self.table[0].scores[self.metric], color="0.8", linewidth=1, zorder=0)
        ax.set_xlim(right=min(ax.get_xlim()[1], 1.005))  # no score is above 1
        ax.set_xlabel(f"{self.metric.replace('_', ' ')}, mean and 95 % interval")
        ax.set_title("circles: polymargin, squares: others; hollow: worse than the best (p < 0.05)", fontsize=9)
        return ax

    @cached_property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(record.machine for record in self.records if record.scores))

    def _of(self, machine: str) -> list[Record]:
        return [record for record in self.records if record.machine == machine and record.scores]

    def _seconds(self, machine: str) -> float:
        return float(np.mean([record.fit_seconds for record in self._of(machine)]))

    def _row(self, machine: str, test: Difference | None, p_value: float) -> Row:
        records = self._of(machine)
        shared = [name for name in records[0].scores if all(name in record.scores for record in records)]
        chosen = [json.dumps(record.params, sort_keys=True, default=str) for record in records]
        most_often = chosen.index(max(chosen, key=chosen.count))
        return Row(
            machine=machine,
            ours=self._candidate(machine).ours,
            n_splits=len(records),
            scores={name: _mean_of(records, name) for name in shared},
            interval=half_width(list(self.scores(machine).values()), self.test_share, self.resolution),
            fit_seconds=self._seconds(machine),
            predict_seconds=float(np.mean([record.predict_seconds for record in records])),
            probability_worse=0.5 if test is None else test.probability,
            p_value=p_value,
            params=records[most_often].params,
            n_not_converged=sum(record.n_not_converged for record in records),
        )


def described(params: dict[str, Any]) -> str:
    """Parameters as a person would write them."""
    texts = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in params.items()}
    return ", ".join(f"{name.rpartition('__')[2]}={text}" for name, text in texts.items())


def _mean_of(records: list[Record], name: str) -> float:
    values: NDArray[np.float64] = np.array([record.scores[name] for record in records])
    return float(values.mean())
