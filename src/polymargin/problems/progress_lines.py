"""What `verbose` prints: a line at each look at the true gap, with its rate and the time left; one at least every 5 s."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

EVERY = 5.0  # seconds without a line, at most

_current: ContextVar[Lines | None] = ContextVar("polymargin_progress", default=None)

Fit = TypeVar("Fit", bound=Callable[..., Any])


class Lines:
    """The lines of one fit. As a context it repeats the last one while nothing else is said, from a thread of its own.

    With `now_and_then` these repetitions are all that is printed: for programs that show how a silent fit goes.
    """

    def __init__(self, label: str, *, now_and_then: bool = False):
        self.label = label
        self._now_and_then = now_and_then
        self._start = self._last = time.perf_counter()
        self._state = "preparing"
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Lines:
        self._token = _current.set(self)
        self._watch.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._watch.join()
        _current.reset(self._token)

    def say(self, text: str) -> None:
        self._state = text
        if not self._now_and_then:
            self._last = time.perf_counter()
            self._print(text)

    def _repeat(self) -> None:
        while not self._over.wait(max(0.05, self._last + EVERY - time.perf_counter())):
            if time.perf_counter() - self._last >= EVERY:
                self._last = time.perf_counter()
                self._print(f"at work; last: {self._state}")

    def _print(self, text: str) -> None:
        print(f"[{self.label}] {time.perf_counter() - self._start:8.2f} s  {text}", flush=True)


def lines_for(label: str, verbose: int) -> Lines | None:
    """Those of the fit that runs in this thread, or of the program that watches it; fits inside a fit have no label."""
    watched = _current.get()
    if verbose:
        return watched or Lines(label)
    return watched if label else None


def with_progress(fit: Fit) -> Fit:
    """A `fit` whose lines are watched if the estimator is verbose."""

    @wraps(fit)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.verbose:
            return fit(self, *args, **kwargs)
        with Lines(type(self).__name__):
            return fit(self, *args, **kwargs)

    return watched  # type: ignore[return-value]


_NO_END = 1000.0 * 3600.0  # seconds: what is forecast beyond is noise


def forecast(history: Sequence[tuple[float, float]], tol: float) -> str:
    """How fast (seconds, relative gap) fell over the last half of the time, and how long it takes to `tol` at that rate."""
    if not history or not 0.0 < history[-1][1] < math.inf or history[-1][1] <= tol:
        return ""
    seconds, gap = history[-1]
    earlier = [record for record in history if record[0] <= seconds / 2.0 and gap < record[1] < math.inf]
    if not earlier:
        return ""
    then, before = earlier[-1]
    tenfold = (seconds - then) / math.log10(before / gap)
    if tenfold * math.log10(gap / tol) > _NO_END:
        return ", no end in sight"
    return f", tenfold less every {_spoken(tenfold)}, about {_spoken(tenfold * math.log10(gap / tol))} left"


def _spoken(seconds: float) -> str:
    """A time in seconds, minutes or hours, to two digits."""
    unit, size = next(((unit, size) for unit, size in (("h", 3600.0), ("min", 60.0)) if seconds >= 1.5 * size), ("s", 1.0))
    return f"{float(f'{seconds / size:.2g}'):,g} {unit}"
