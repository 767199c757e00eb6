"""What is run when: all candidates on all splits if there is time, otherwise a race.

With a time budget all candidates begin the first split. Those that do not get done within an equal share of some time have
a second chance, the quickest first, as long as there is room. Then the race goes on one split at a time, so that all who are
in it have been measured on the same splits. A candidate leaves for one of two reasons, and keeps the scores it has:

- it is clearly worse: on at least `LEAST_SPLITS` splits the interval of its paired differences to the leader lies below 0,
  by the same corrected test (and Holm's correction) that the table uses. One bad split is no reason;
- it is slow: it did not get done with the first split, or it takes more than `SLOW` times the median of the others and
  without it they get to `LEAST_SPLITS` splits. The leader does not leave for that.

The race ends when the next split would not be done in time. Large data begins with a sample, so that the cost of a machine
is known before it is run on everything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from polymargin.comparison.evaluation import Limits, Record
from polymargin.comparison.statistics import corrected_t_test, holm

SCOUT_FROM = 3000  # rows
SCOUT_ROWS = 1000
LEAST_SPLITS = 3  # before anyone is called worse
LEVEL = 0.05
SLOW = 2.0
FIRST_SHARE = 0.5  # of the time that is left may go into the first split
SCOUT_SHARE = 0.25
PROBING = 0.4  # of either: for all, before the rest goes to those who seem to get done in it
GUESS = 2.5  # times as long as it seems a machine may take
AS_WORSE, AS_SLOW = "clearly worse", "too slow for the budget"  # how the reasons begin

Task = tuple[str, int]
Runner = Callable[[Sequence[Task], Callable[[Task], Limits]], Iterable[Record]]


class Race:
    """The candidates still in the race and the records so far.

    Parameters
    ----------
    names : sequence of str
    metric : str
        What decides.
    budget : float or None
        Seconds.
    workers : int
        Tasks that run at the same time.
    test_share : float
        n_test / n_train of a split.
    resolution : float
        What one test row is worth in the metric.
    fits_after : float
        What is to be kept for the leader after the race, in times of its work on a split.
    """

    def __init__(
        self,
        names: Sequence[str],
        metric: str,
        budget: float | None,
        workers: int = 1,
        *,
        test_share: float = 0.25,
        resolution: float = 0.0,
        fits_after: float = 0.0,
    ):
        self.alive = list(names)
        self.records: list[Record] = []
        self.dropped: dict[str, str] = {}
        self._metric = metric
        self._budget = math.inf if budget is None else budget
        self._end = time.time() + self._budget
        self.workers = workers
        self._test_share, self._resolution, self._fits_after = test_share, resolution, fits_after
        self._growth = 1.0
        self._unmeasured: dict[str, Record] = {}

    @property
    def seconds_left(self) -> float:
        """For splits: without what the leader needs afterwards."""
        after = self._fits_after * self._cost(self._leader()) if self._fits_after and self._measured() else 0.0
        return self._end - time.time() - after

    def run(self, n_splits: int, repetition: int, runner: Runner, scout_growth: float | None = None) -> None:
        """Measures the candidates on the splits.

        Parameters
        ----------
        n_splits, repetition : int
            Splits in all, and of one repetition of the cross-validation: when the candidates are looked at.
        runner : callable
            ``runner(tasks, limits)`` yields the records of (name, split) pairs; ``limits(task)`` is asked when one begins.
        scout_growth : float, default=None
            How much longer a split takes than the scouting sample, which is split -1; None is no scouting.
        """
        if math.isinf(self._budget):
            self._measure([(name, split) for split in range(n_splits) for name in self.alive], runner, lambda _: Limits())
            return
        if scout_growth is not None:
            self._first_look(-1, SCOUT_SHARE, runner)
            self._growth = scout_growth
        self._first_look(0, FIRST_SHARE, runner)
        self._at_least_one(runner)
        done = 1
        while done < n_splits and self.alive:
            if done >= LEAST_SPLITS and (done == LEAST_SPLITS or done % repetition == 0):
                self._leave_the_worse()
            self._leave_the_slow(min(LEAST_SPLITS, n_splits) - done)
            affordable = self.seconds_left / self._seconds_per_split()
            if affordable < 1.0:
                break
            until_look = n_splits if affordable >= n_splits - done else done + 1
            slow_first = sorted(self.alive, key=self._cost, reverse=True)  # so that no worker waits for the last one
            self._measure([(name, k) for k in range(done, until_look) for name in slow_first], runner, self._limits)
            done = until_look

    def _measure(self, tasks: Sequence[Task], runner: Runner, limits: Callable[[Task], Limits]) -> None:
        for record in runner(tasks, limits):
            if record.error:
                self._drop(record.machine, record.error)
            if record.progress < 1.0:
                before = self._unmeasured.get(record.machine, record)
                self._unmeasured[record.machine] = max(before, record, key=lambda one: one.progress)
            else:
                self._unmeasured.pop(record.machine, None)
                self.records.append(record)

    def _first_look(self, split: int, share: float, runner: Runner) -> None:
        """One split for everybody: who does not finish within its share of the time is too slow for this budget."""
        begin, seconds = time.time(), share * self.seconds_left
        self._with_equal_shares(sorted(self.alive, key=self._cost), split, begin + PROBING * seconds, runner)
        self._second_chances(split, begin + seconds, runner)
        for name in [name for name in self.alive if not self._of(name, split)]:
            self._drop(name, f"{AS_SLOW}: {self._how_far(name)}{f' of {SCOUT_ROWS} rows' if split < 0 else ''}")

    def _how_far(self, name: str) -> str:
        cut = self._unmeasured[name]
        if cut.progress > 0:  # what is left is mostly slower: paths go from weak to strong losses
            return f"at least about {_guess(cut):.2g} s a split"
        return "not begun with a split"

    def _with_equal_shares(self, names: Sequence[str], split: int, end: float, runner: Runner) -> None:
        waiting = len(names)
        least = 0.5 * (end - time.time()) * self.workers / max(1, waiting)  # also if others took longer than they may

        def limits(task: Task) -> Limits:
            nonlocal waiting
            allowed = max(least, (end - time.time()) * self.workers / waiting)  # what quick ones leave is for the others
            waiting -= 1
            hopeless = self._cost(task[0]) > 2 * allowed  # by the scouting, which is a guess
            return Limits(self._end, allowed, math.inf if hopeless else 0.0)

        self._measure([(name, split) for name in names], runner, limits)

    def _second_chances(self, split: int, end: float, runner: Runner) -> None:
        """Those whose share was too small: the quickest first, judging by how far they came, as long as there is room."""
        late = [self._unmeasured[name] for name in self.alive if name in self._unmeasured]
        guesses = {record.machine: _guess(record) for record in late if record.progress > 0}

        def limits(task: Task) -> Limits:
            guess = guesses[task[0]]
            return Limits(until=end, allowed=GUESS * guess, expected=guess)

        self._measure([(name, split) for name in sorted(guesses, key=lambda name: guesses[name])], runner, limits)

    def _at_least_one(self, runner: Runner) -> None:
        """A result is better than none: if nobody was done in time, the one who seems the quickest is, whatever it takes."""
        if self._measured() or not self._unmeasured:
            return
        quickest = min(self._unmeasured.values(), key=_guess).machine
        self.alive = [quickest]
        del self.dropped[quickest]
        self._measure([(quickest, 0)], runner, lambda _: Limits())

    def _limits(self, task: Task) -> Limits:
        return Limits(until=time.time() + self.seconds_left, expected=self._cost(task[0]))

    def _leave_the_worse(self) -> None:
        leader, others = self._leader(), [name for name in self.alive if name != self._leader()]
        best = self._scores(leader)
        tests = []
        for name in others:
            mine = self._scores(name)
            shared = sorted(set(best) & set(mine))
            enough = len(shared) >= LEAST_SPLITS
            pair = ([best[k] for k in shared], [mine[k] for k in shared]) if enough else ([0.0], [0.0])
            tests.append(corrected_t_test(*pair, self._test_share, self._resolution))
        adjusted = holm([test.p_value for test in tests])
        for name, test, p in zip(others, tests, adjusted, strict=True):
            if p <= LEVEL and test.mean > 0:
                n = len(self._scores(name))
                self._drop(name, f"{AS_WORSE} than {leader} after {n} splits, by {test.mean:.3f} (p = {p:.2g})")

    def _leave_the_slow(self, splits_wanted: int) -> None:
        while len(self.alive) > 2 and splits_wanted * self._seconds_per_split() > self.seconds_left:
            rest = [name for name in self.alive if name != self._leader()]
            slowest = max(rest, key=self._cost)
            if self._cost(slowest) <= SLOW * float(np.median([self._cost(name) for name in self.alive])):
                return
            self._drop(slowest, f"{AS_SLOW}: {self._cost(slowest):.1f} s a split")

    def _seconds_per_split(self) -> float:
        costs = [self._cost(name) for name in self.alive]
        return max(sum(costs) / self.workers, max(costs), 1e-9)

    def _drop(self, name: str, reason: str) -> None:
        if name in self.alive:
            self.alive.remove(name)
            self.dropped[name] = reason

    def _of(self, name: str, split: int | None = None) -> list[Record]:
        return [r for r in self.records if r.machine == name and r.scores and (split is None or r.split == split)]

    def _measured(self) -> bool:
        return any(record.split >= 0 and record.scores for record in self.records)

    def _scores(self, name: str) -> dict[int, float]:
        return {record.split: record.scores[self._metric] for record in self._of(name) if record.split >= 0}

    def _leader(self) -> str:
        return max(self.alive, key=lambda name: float(np.mean(list(self._scores(name).values()) or [-math.inf])))

    def _cost(self, name: str) -> float:
        """Seconds of one split, as far as is known; 0 if nothing is."""
        scouted = [r.fit_seconds + r.predict_seconds for r in self._of(name, -1)]
        splits = [r.fit_seconds + r.predict_seconds for r in self._of(name) if r.split >= 0]
        return float(np.mean(splits)) if splits else self._growth * scouted[0] if scouted else 0.0


def _guess(cut: Record) -> float:
    """Seconds of a split that was cut off, judging by how far it came."""
    return cut.fit_seconds / cut.progress if cut.progress > 0 else math.inf
