"""What is run when: all candidates on all splits if there is time, otherwise by successive halving.

A rung is a set of splits that every candidate still in the race is measured on. With a time budget, after each rung the cost
of the rest is estimated from the times seen; if it does not fit, the worse half leaves (Jamieson & Talwalkar 2016). Large
data begins with a scouting rung on a stratified sample, so that a slow machine is known before it is run on everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from polymargin.comparison.evaluation import Record

SCOUT_FROM = 3000  # rows
SCOUT_ROWS = 1000

Split = tuple[NDArray[np.intp], NDArray[np.intp]]
Runner = Callable[[Sequence[tuple[str, int]]], Iterable[Record]]


class Race:
    """The candidates still in the race and the records so far."""

    def __init__(self, names: Sequence[str], metric: str, budget: float | None, workers: int = 1):
        self.alive = list(names)
        self.records: list[Record] = []
        self.dropped: dict[str, str] = {}
        self._metric = metric
        self._began = time.perf_counter()
        self._budget = budget
        self._workers = workers

    @property
    def seconds_left(self) -> float:
        return np.inf if self._budget is None else self._budget - (time.perf_counter() - self._began)

    def run(self, rungs: Sequence[Sequence[int]], runner: Runner, growth: float = 1.0) -> None:
        """Measures all candidates on the rungs; `growth` is how much longer a later split takes than the first rung's."""
        for k, rung in enumerate(rungs):
            late = bool(self.records) and self.seconds_left <= 0
            if late and any(record.split >= 0 for record in self.records):
                break
            # scouting alone is no result: late or not, one split of the data itself is measured
            tasks = [(name, split) for split in (rung[:1] if late else rung) for name in self.alive]
            for record in runner(tasks):
                self.records.append(record)
                if record.error:
                    self._drop(record.machine, record.error)
            later = sum(len(r) for r in rungs[k + 1 :])
            if later and np.isfinite(self.seconds_left):
                self._halve(later, growth if k == 0 else 1.0)

    def _halve(self, splits_left: int, growth: float) -> None:
        """Drops the worse half until what is left fits into the time that is left."""
        while len(self.alive) > 2:
            per_split = sum(growth * self._mean_seconds(name) for name in self.alive) / self._workers
            if splits_left * per_split <= self.seconds_left:
                return
            ranked = sorted(self.alive, key=self._mean_score)
            worst = ranked[: max(1, len(ranked) // 2)]
            for name in worst:
                if len(self.alive) > 2:
                    self._drop(name, "left the race: the time was given to better machines")

    def _drop(self, name: str, reason: str) -> None:
        if name in self.alive:
            self.alive.remove(name)
            self.dropped[name] = reason

    def _of(self, name: str) -> list[Record]:
        return [record for record in self.records if record.machine == name]

    def _mean_seconds(self, name: str) -> float:
        return float(np.mean([record.fit_seconds + record.predict_seconds for record in self._of(name)]))

    def _mean_score(self, name: str) -> float:
        sign = -1.0 if self._metric == "log_loss" else 1.0
        return float(np.mean([sign * record.scores.get(self._metric, -np.inf) for record in self._of(name)]))


def rungs_of(n_splits: int, first: int) -> list[list[int]]:
    """The first split, the rest of the first repetition, then one repetition at a time."""
    splits = list(range(n_splits))
    rungs = [splits[:1], splits[1:first]]
    rungs += [splits[start : start + first] for start in range(first, n_splits, first)]
    return [rung for rung in rungs if rung]
