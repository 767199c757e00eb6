"""Progress with the remaining time: rich if it is installed, else a line now and then; on standard error."""

from __future__ import annotations

import sys
import time
from typing import Any

from polymargin.cli.shared.output import printable


class Progress:
    """``with Progress() as progress: progress.step(name, done, total, seconds_left)``."""

    def __init__(self, shown: bool = True, every: float = 5.0):
        self._shown = shown
        self._every = every
        self._last = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._shown and sys.stderr.isatty():
            try:
                from rich import progress
                from rich.console import Console
            except ModuleNotFoundError:
                return self
            columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn())
            self._bar = progress.Progress(*columns, progress.TextColumn("{task.fields[left]}"), console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, message: str) -> None:
        if self._shown:
            message = printable(message)
            if self._bar is None:
                print(message, file=sys.stderr)
            else:
                self._bar.console.print(message, markup=False, highlight=False)

    def step(self, name: str, done: int, total: int, seconds_left: float) -> None:
        """A task has ended."""
        if not self._shown:
            return
        left = f"about {seconds_left:.0f} s left in this round"
        if self._bar is not None:
            if self._task is None or done == 1:
                self._remove_task()
                self._task = self._bar.add_task(name, total=total, left=left)
            self._bar.update(self._task, description=f"{name:24s}", completed=done, left=left)
        elif time.perf_counter() - self._last >= self._every:
            self._last = time.perf_counter()
            print(f"{done} of {total} done, {left} ({name})", file=sys.stderr, flush=True)

    def _remove_task(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
