"""Parts on the workers of a Dask cluster, as results of ordinary tasks.

No actors, no ports, no worker is remembered: Dask puts tasks where their rows are, uses workers that join, and repeats on
others what a lost worker held. For that, all that tasks depend on must be known to the scheduler: messages are tasks that
return what they were given, states are results of the tasks before. The chain would grow with every round; every few rounds
the states come to this process and begin a new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from polymargin.distributed.communicator import Communicator, Work, added, filled, in_rows

_CHAIN = 8  # rounds after which the states are gathered


class OnDask(Communicator):
    """Futures of problems and of states."""

    def __init__(self, client: Any, problems: Sequence[Any], states: Sequence[Any]):
        self._client, self._problems, self._states = client, list(problems), list(states)
        self.n_parts, self._rounds = len(self._problems), 0

    def total(self, work: Work, *shared: Any) -> Any:
        message = self._given(shared)
        futures = [
            self._client.submit(_do, work, problem, state, part, message, pure=False)
            for part, (problem, state) in enumerate(zip(self._problems, self._states, strict=True))
        ]
        self._states = [self._client.submit(_first, future, pure=False) for future in futures]
        replies = [self._client.submit(_second, future, pure=False) for future in futures]
        return in_rows(self._sum(replies).result())

    def _sum(self, replies: list[Any]) -> Any:
        """The tree of `tree_sum`: as many of the first as a power of two, and the rest."""
        if len(replies) == 1:
            return replies[0]
        half = 1 << (len(replies) - 1).bit_length() - 1
        return self._client.submit(added, self._sum(replies[:half]), self._sum(replies[half:]), pure=False)

    def settle(self) -> None:
        self._rounds += 1
        if self._rounds % _CHAIN == 0:
            self._states = [self._given(state) for state in self._client.gather(self._states)]

    def _given(self, value: Any) -> Any:
        with warnings.catch_warnings():  # large ones are meant to go through the scheduler: it can send them again
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self._client.submit(_itself, value, pure=False)


def _do(work: Work, problem: Any, state: Any, part: int, shared: Sequence[Any]) -> tuple[Any, Any]:
    rows = {name: in_rows(getattr(problem, name)) for name in ("X", "y", "cost")}
    return work(replace(problem, **rows), in_rows(state), *filled(shared, part))


def _itself(value: Any) -> Any:
    return value


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]
