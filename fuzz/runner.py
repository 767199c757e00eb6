"""Many cases, each under a limit of processor time, in processes that may crash."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

LIMIT = 20.0  # seconds of processor time of a case
GRACE = 100.0  # seconds of the clock, after which a worker is given up; more if others want the processors too


@dataclass
class Outcome:
    """What became of a case."""

    seed: int
    machine: str
    kind: str = "fine"  # "refused" with a kind error, "broken", "slow", "crashed", "hung"
    failures: list[tuple[str, str]] = field(default_factory=list)
    status: str = ""
    seconds: float = 0.0


class OverTime(BaseException):
    """The processor time of a case is used up; not an Exception, so that nothing swallows it."""


def _ring(*_: Any) -> None:
    raise OverTime


def run_case(seed: int, limit: float = LIMIT) -> Outcome:
    """Draws, builds and judges one case."""
    from fuzz.invariants import judge
    from fuzz.machines import build, draw

    recipe = draw(seed)
    outcome = Outcome(seed, recipe["machine"])
    start = time.process_time()
    alarmed = hasattr(signal, "setitimer")
    if alarmed:
        signal.signal(signal.SIGPROF, _ring)
        signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        failures, trial = judge(build(recipe))
        outcome.failures = [tuple(failure) for failure in failures]  # type: ignore[misc]
        outcome.kind = "broken" if failures else "refused" if trial.error is not None else "fine"
        outcome.status = str(trial.error) if trial.error is not None else trial.certificate.status
    except OverTime:
        outcome.kind = "slow"
    finally:
        if alarmed:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    outcome.seconds = time.process_time() - start
    return outcome


def _work(pipe: Any) -> None:
    while (seed := pipe.recv()) is not None:
        pipe.send(run_case(seed))


class _Worker:
    """A process that judges one case at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.seed: int | None = None

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.pipe.send(seed)

    def taken(self) -> Outcome | None:
        """The outcome if there is one; a dead or hung process has one too."""
        from fuzz.machines import draw

        assert self.seed is not None
        try:
            if self.pipe.poll(0.02):
                return self.pipe.recv()
        except EOFError:
            return Outcome(self.seed, draw(self.seed)["machine"], "crashed", [("survives", "the process died")])
        if time.monotonic() - self.since > GRACE * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)):
            self.process.kill()
            return Outcome(self.seed, draw(self.seed)["machine"], "hung", [("answers", f"no answer in {GRACE:g} s")])
        return None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def outcomes(seeds: Iterator[int], seconds: float | None, jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come, until the seeds or the seconds run out."""
    stop = float("inf") if seconds is None else time.monotonic() + seconds
    idle, busy = [_Worker() for _ in range(jobs)], []
    try:
        while True:
            while idle and time.monotonic() < stop and (seed := next(seeds, None)) is not None:
                worker = idle.pop()
                worker.give(seed)
                busy.append(worker)
            if not busy:
                return
            for worker in list(busy):
                outcome = worker.taken()
                if outcome is None:
                    continue
                busy.remove(worker)
                if outcome.kind in ("crashed", "hung"):
                    worker.stop()
                    worker = _Worker()
                idle.append(worker)
                yield outcome
    finally:
        for worker in idle + busy:
            worker.stop()


def shape_of(detail: str) -> str:
    """A sentence without its numbers: failures of one shape are one class."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", detail)
    return re.sub(r"[-+]?(\d+\.?\d*(e[-+]?\d+)?|\binf\b|\bnan\b)", "#", text)[:160]


@dataclass
class Tally:
    """Counts of all outcomes, and the classes of failures with an example each."""

    kinds: Counter[str] = field(default_factory=Counter)
    machines: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    classes: dict[tuple[str, str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    examples: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        self.machines[outcome.machine] += 1
        if outcome.kind == "refused":
            self.refusals[f"{outcome.machine}: {shape_of(outcome.status)}"] += 1
        self.broken[outcome.machine] += bool(outcome.failures)
        for invariant, detail in outcome.failures:
            key = (outcome.machine, invariant, shape_of(detail) if "Error" in detail[:80] else "")
            if outcome.seed not in self.classes[key]:
                self.classes[key].append(outcome.seed)
            self.examples.setdefault(key, detail)

    @property
    def failed(self) -> int:
        return sum(self.broken.values())

    def lines(self) -> Iterator[str]:
        total = sum(self.kinds.values())
        yield f"{total} cases: " + ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        for machine, count in sorted(self.machines.items()):
            yield f"  {machine:24s} {self.broken[machine]:5d} broken of {count}"
        for key, seeds in sorted(self.classes.items(), key=lambda item: (item[0][0], -len(item[1]))):
            machine, invariant, _ = key
            yield f"{len(seeds):5d}  {machine}  {invariant}  cases {' '.join(map(str, seeds[:4]))}"
            yield f"         {self.examples[key][:300]}"
