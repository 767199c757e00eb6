"""Down each rival's tolerances, interleaved, until the smallest target is reached; then repeat what counts.

relP = (primal - best known dual) / best known dual, the primal evaluated by `objective.py` for everybody.
"""

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from . import objective, results
from .datasets import Case, Data
from .rivals import Rival

Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}
ROUNDING = 1e-10  # a primal may lie this much (relatively) below a dual before we call it a contradiction


@dataclass
class Run:
    """One tolerance of one rival; `times` has one entry a repeat."""

    tol: float
    times: list[float]
    relP: float | None
    accuracy: float

    @property
    def seconds(self) -> float:
        return min(self.times)


@dataclass
class Side:
    """A rival on a case, and its runs so far."""

    rival: Rival
    data: Data
    C: float
    X: Any
    dual: float | None
    clock: Clock = time.perf_counter
    runs: list[Run] = field(default_factory=list)
    capped: bool = False

    def fit(self, tol: float) -> tuple[Any, float]:
        gc.collect()  # not in the middle of somebody's seconds
        start = self.clock()
        model = self.rival.fit(self.X, self.data.y, self.C, tol)
        return model, self.clock() - start

    def step(self, tol: float) -> Run:
        model, seconds = self.fit(tol)
        W, b = self.rival.coefficients(model)
        relP = None if self.dual is None else self.judge(model, W, b, self.dual)
        run = Run(tol, [seconds], relP, objective.accuracy(self.data.X_test, self.data.y_test, W, b))
        self.runs.append(run)
        return run

    def judge(self, model: Any, W: np.ndarray, b: np.ndarray, dual: float) -> float:
        """relP of the coefficients, after checking that nobody states anything impossible."""
        primal = primal_of(self.rival, self.data, self.C, W, b)
        if self.rival.claims is not None:
            stated, _ = self.rival.claims(model)
            allowed = 1e-8 if self.X.dtype == np.float64 else 1e-4
            if abs(stated - primal) > allowed * abs(primal):
                raise AssertionError(f"{self.rival.name} states primal {stated!r}, we find {primal!r}")
        relP = (primal - dual) / dual
        if relP < -ROUNDING:
            raise AssertionError(
                f"{self.rival.name} on {self.data.name}: primal {primal!r} is below the best known dual "
                f"{dual!r}: one of them is wrong (delete results/duals.json to compute the dual anew)"
            )
        return relP

    def first(self, target: float) -> Run | None:
        """The first run of the ladder that reached the target."""
        return next((r for r in self.runs if r.relP is not None and r.relP <= target), None)

    def chosen(self, targets: Iterable[float]) -> list[Run]:
        """The runs whose seconds will be shown, each once."""
        if self.dual is None:
            return self.runs
        runs: list[Run] = []
        for run in (self.first(t) for t in targets):
            if run is not None and run not in runs:
                runs.append(run)
        return runs


def primal_of(rival: Rival, data: Data, C: float, W: np.ndarray, b: np.ndarray) -> float:
    loss = (rival.problem or "cs").removesuffix("+b")
    return objective.primal(loss, data.X, data.y, C, W, b)


def best_known_dual(reference: Rival, data: Data, C: float, cap: float) -> float:
    """The highest certified dual value for this problem and these very rows; computed once, then kept."""
    key = f"{data.name}:{C:g} {reference.problem} {data.digest}"
    known = results.read("duals")
    if key not in known:
        assert reference.claims is not None
        side = Side(reference, data, C, data.X, dual=None)
        dual, primal = -np.inf, np.inf
        for tol in (1e-7, 1e-8, 1e-9):
            model, seconds = side.fit(tol)
            stated_primal, stated_dual = reference.claims(model)
            dual, primal = max(dual, stated_dual), min(primal, stated_primal)
            if seconds > cap:
                break
        known = {**results.read("duals"), key: {"dual": dual, "gap": (primal - dual) / dual}}
        results.write("duals", known)
    entry = known[key]
    if entry["gap"] > 1e-7:
        print(f"  note: the best known dual of {key} is only known to {entry['gap']:.1e}")
    return entry["dual"]


def climb(sides: Sequence[Side], targets: Sequence[float], cap: float) -> None:
    """A, B, A, B, ...: noise hits all alike. A side stops at the last target or after a run beyond `cap`."""
    active = {id(s): s for s in sides}
    for tolerances in zip_longest(*(s.rival.tolerances for s in sides)):
        for side, tol in zip(sides, tolerances, strict=True):
            if tol is None or id(side) not in active:
                continue
            run = side.step(tol)
            side.capped = run.seconds > cap
            if side.capped or (run.relP is not None and run.relP <= min(targets)):
                del active[id(side)]


def check_same_problem(side: Side, least: float) -> None:
    """A rival that got another problem (another C, an intercept) would stall above the best known dual."""
    if side.dual is None or side.capped:
        return
    nearest = min(r.relP for r in side.runs if r.relP is not None)
    who = f"{side.rival.name} on {side.data.name} ends its ladder at relP {nearest:.1e}"
    if nearest > 1e-3:
        raise AssertionError(f"{who}: not the same problem?")
    if nearest > least:
        print(f"  note: {who}")


def repeat(sides: Sequence[Side], targets: Sequence[float], repeats: int) -> None:
    """Time the runs that count again, interleaved."""
    rows = list(zip_longest(*(s.chosen(targets) for s in sides)))
    for _ in range(repeats - 1):
        for row in rows:
            for side, run in zip(sides, row, strict=True):
                if run is not None:
                    run.times.append(side.fit(run.tol)[1])


def measure(
    case: Case,
    data: Data,
    rivals: Sequence[Rival],
    references: dict[str, Rival],
    targets: Sequence[float],
    repeats: int,
    cap: float,
    clock: Clock,
) -> list[Side]:
    """All rivals on one case. `references` names, for each problem, the rival whose dual values count."""
    sides = []
    for rival in rivals:
        reference = references.get(rival.problem) if rival.problem else None
        dual = best_known_dual(reference, data, case.C, cap) if reference else None
        sides.append(Side(rival, data, case.C, rival.prepare(data.X), dual, clock))
    climb(sides, targets, cap)
    for side in sides:
        check_same_problem(side, min(targets))
    repeat(sides, targets, repeats)
    return sides
