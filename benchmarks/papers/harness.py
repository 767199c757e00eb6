"""Runs what is missing: split by split, all machines of a split before the next one, within each case's budget.

Every unit (table, data set, split, machine) runs in a process of its own, so that one that takes too long can be ended.
Seconds are processor seconds, so that a busy computer changes no table. What comes next is a function of the records alone:
an interrupted run goes on where it stopped, a finished one does nothing.
"""

import math
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, cast

from polymargin.comparison import Candidate
from polymargin.datasets import DatasetError

from .plan import Case, Paper, Table, settings_of
from .protocol import data_of, measure
from .records import DIRECTORY, Record, Store

try:
    import resource
except ModuleNotFoundError:
    resource = None  # type: ignore[assignment]

UNIT_SHARE = 0.5  # of a case's budget: a single unit that takes longer is ended
SLOW_SHARE = 0.34  # a machine whose first split takes longer leaves after it
_METHOD = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"

Echo = Callable[[str], None]


class Unit(NamedTuple):
    split: int
    machine: Candidate


@dataclass(frozen=True)
class Job:
    """A case of a table, and where its results go."""

    store: Store
    table: Table
    case: Case
    at_most: int | None = None  # splits, for a first look at everything

    @property
    def label(self) -> str:
        return f"{self.store.paper.key} {self.table.key} {self.case.data}"

    @property
    def records(self) -> list[Record]:
        return self.store.of(self.table, self.case.data)

    @property
    def spent(self) -> float:
        return sum(record["seconds"] for record in self.records)

    def next_unit(self) -> Unit | None:
        """None once all splits are there, or the next split would not fit into the budget."""
        done = {(record["split"], record["machine"]): record for record in self.records}
        everyone = self.table.candidates(self.case)
        for split in range(min(self.table.splits, self.at_most or self.table.splits)):
            machines = everyone if split == 0 else [one for one in everyone if goes_on(done.get((0, one.name)), self.case)]
            missing = [one for one in machines if (split, one.name) not in done]
            if not missing:
                continue
            if len(missing) == len(machines) and self.spent + self._seconds_of_a_split(machines) > self.case.budget:
                return None
            return Unit(split, missing[0])
        return None

    def _seconds_of_a_split(self, machines: Sequence[Candidate]) -> float:
        names = {one.name for one in machines}
        known = [record for record in self.records if record["machine"] in names]
        splits = len({record["split"] for record in known})
        return sum(record["seconds"] for record in known) / splits if splits else 0.0


def goes_on(first: Record | None, case: Case) -> bool:
    """Whether a machine takes part in later splits: it had no error, and its first split was quick enough."""
    return first is not None and "scores" in first and first["seconds"] <= SLOW_SHARE * case.budget


def jobs_of(papers: Sequence[Paper], directory: Path = DIRECTORY, at_most: int | None = None) -> list[Job]:
    """Small budgets first, whatever the paper: so every page has something early."""
    jobs = [Job(store, t, c, at_most) for p in papers for store in [Store(p, directory)] for t in p.tables for c in t.cases]
    return sorted(jobs, key=lambda job: job.case.budget)


def run(
    papers: Sequence[Paper],
    *,
    directory: Path = DIRECTORY,
    workers: int = 1,
    at_most: int | None = None,
    largest: float = math.inf,
    data: Sequence[str] | None = None,
    echo: Echo = print,
) -> int:
    """Runs all that is missing, with at most so many splits, in cases of budgets up to `largest`, on all data sets or on
    those named in `data`; counts new records.
    """
    wanted = [job for job in jobs_of(papers, directory, at_most) if data is None or job.case.data in data]
    jobs = [job for job in wanted if job.case.budget <= largest and job.next_unit()]
    running: dict[Connection, Running] = {}
    new = 0
    try:
        while True:
            for job, unit in _free(jobs, running, workers, echo):
                started = Running(job, unit)
                running[started.connection] = started
            if not running:
                return new
            for connection in wait(list(running)):
                one = running.pop(cast(Connection, connection))
                record = one.record()
                one.job.store.append(record)
                new += 1
                echo(_line(one.job, record, jobs, workers))
    finally:
        for one in running.values():
            one.stop()


def _free(jobs: list[Job], running: dict[Any, "Running"], workers: int, echo: Echo) -> Iterator[tuple[Job, Unit]]:
    """Units to start now: the first jobs that nobody works on. A job without data leaves."""
    for job in list(jobs):
        if len(running) >= workers:
            return
        if all(one.job is not job for one in running.values()) and (unit := job.next_unit()):
            try:
                data_of(job.case.data, job.case.rows)  # a forked process finds it there
            except DatasetError as error:
                jobs.remove(job)
                echo(f"{job.label}: left out; {error}")
                continue
            yield job, unit


class Running:
    """A unit in its own process."""

    def __init__(self, job: Job, unit: Unit):
        self.job, self.unit = job, unit
        context: Any = multiprocessing.get_context(_METHOD)
        self.connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work, args=(theirs, job.table, job.case, unit.split, unit.machine), daemon=True
        )
        self._process.start()
        theirs.close()

    def record(self) -> Record:
        """What it found, or why there is nothing."""
        try:
            found = self.connection.recv()
        except EOFError:
            self._process.join()
            slow = self._process.exitcode == -getattr(signal, "SIGXCPU", 0)
            why = "too slow" if slow else f"the process ended with code {self._process.exitcode}"
            found = {"error": why, "seconds": UNIT_SHARE * self.job.case.budget}
        self.stop()
        table, case = self.job.table, self.job.case
        return {
            "table": table.key,
            "data": case.data,
            "split": self.unit.split,
            "machine": self.unit.machine.name,
            "settings": settings_of(table, case, self.unit.machine),
            **found,
        }

    def stop(self) -> None:
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()
        self.connection.close()


def _work(connection: Connection, table: Table, case: Case, split: int, machine: Candidate) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if resource is not None:  # not on Windows: there a unit takes as long as it takes
        seconds = math.ceil(time.process_time() + UNIT_SHARE * case.budget)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection.send(measure(table, case, split, machine))
    connection.close()


def _line(job: Job, record: Record, jobs: list[Job], workers: int) -> str:
    left = sum(max(0.0, other.case.budget - other.spent) for other in jobs if other.next_unit()) / workers / 60
    what = record.get("error") or ", ".join(f"{v:.4f}" for v in record["scores"].values() if isinstance(v, float))
    who = f"{job.label}, split {record['split'] + 1} of {job.table.splits}, {record['machine']}"
    return f"{who}: {what} in {record['seconds']:.1f} s; at most {left:.0f} min left"
