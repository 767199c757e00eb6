"""Where the parts are, and how they are asked: all that the algorithms know of an engine.

A part is a `Problem` of its own rows and a state that only work on that part changes. Work is a plain function

    work(problem, state, *shared) -> (state, reply)

of nothing but its arguments, so that an engine may repeat it elsewhere. Replies of all parts are added up, always in the
same order: sums have the same bits wherever they are formed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from polymargin.problems.classes import Problem

_ALIGNED = 16  # bytes: what the allocator keeps to
_OF_CSR = ("data", "indices", "indptr")

Work = Callable[..., tuple[Any, Any]]
R = TypeVar("R")


class Communicator(ABC):
    """Some parts."""

    n_parts: int

    @abstractmethod
    def total(self, work: Work, *shared: Any) -> Any:
        """The sum of the replies of all parts. Their states change."""

    takes_turns = False  # whether parts are visited one after the other anyway, and `chain` is offered

    def chain(self, work: Work, seed: int, carried: Any, *shared: Any) -> tuple[Any, Any]:
        """Parts in a random order, ``work(problem, state, carried, *shared) -> (state, (carried, reply))``.

        What one has carried the next one gets; returns what the last one has, and the sum of the replies. The order is
        another one in every call: in a fixed one parts would follow each other in circles.
        """
        raise TypeError(f"{type(self).__name__}: its parts do not take turns")

    def settle(self) -> None:  # noqa: B027
        """Between rounds: an engine may make safe what it has; most need not."""


class Numbered(NamedTuple):
    """A shared argument that stands for the number of the part."""


NUMBER = Numbered()


def filled(shared: Sequence[Any], part: int) -> list[Any]:
    """The shared arguments as one part gets them."""
    return [part if isinstance(value, Numbered) else in_rows(value) for value in shared]


def in_rows(value: Any) -> Any:
    """Arrays row by row in memory, at addresses that suit the processor: sums of others are rounded in another way.

    Arrays that came through a network lie anywhere.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.c_contiguous and value.ctypes.data % _ALIGNED == 0 else value.copy(order="C")
    if sparse.issparse(value):
        return type(value)(tuple(in_rows(getattr(value, name)) for name in _OF_CSR), shape=value.shape, copy=False)
    if isinstance(value, tuple):
        fields = map(in_rows, value)
        return type(value)(*fields) if hasattr(value, "_fields") else tuple(fields)
    return value


class InProcess(Communicator):
    """Parts in memory, one after the other in this process."""

    def __init__(self, problems: Sequence[Problem], states: Sequence[Any], takes_turns: bool = False):
        self._problems, self._states, self.takes_turns = problems, list(states), takes_turns
        self.n_parts, self._chains = len(problems), 0

    def total(self, work: Work, *shared: Any) -> Any:
        return in_rows(tree_sum(self._reply(part, work, shared) for part in range(self.n_parts)))

    def chain(self, work: Work, seed: int, carried: Any, *shared: Any) -> tuple[Any, Any]:
        self._chains += 1
        order = in_some_order(self.n_parts, seed, self._chains)
        return chained(lambda part, carried: self._reply(part, work, (carried, *shared)), order, carried)

    def _reply(self, part: int, work: Work, shared: Sequence[Any]) -> Any:
        self._states[part], reply = work(self._problems[part], self._states[part], *filled(shared, part))
        return reply


def in_some_order(n_parts: int, seed: int, number: int) -> list[int]:
    """The parts, in another order for every number."""
    return [int(part) for part in np.random.default_rng((seed, number)).permutation(n_parts)]


def chained(visit: Callable[[int, Any], tuple[Any, Any]], order: Sequence[int], carried: Any) -> tuple[Any, Any]:
    """Visits of parts, each of which is given what the one before it has carried."""

    def replies() -> Iterable[Any]:
        nonlocal carried
        for part in order:
            carried, reply = visit(part, carried)
            yield reply

    total = tree_sum(replies())
    return carried, total


def tree_sum(replies: Iterable[R]) -> R:
    """Replies added up as a binary tree, left to right, that holds a logarithm of them at a time."""
    waiting: list[tuple[int, R]] = []  # how many replies, and their sum
    for reply in replies:
        count = 1
        while waiting and waiting[-1][0] == count:
            reply, count = added(waiting.pop()[1], reply), 2 * count
        waiting.append((count, reply))
    _, total = waiting.pop()
    while waiting:
        total = added(waiting.pop()[1], total)
    return total


def added(a: Any, b: Any) -> Any:
    """Two replies as one: numbers and arrays are added, `Least` ones compared; tuples field by field, or by their `plus`."""
    if isinstance(a, Least):
        return min(a, b)
    if hasattr(a, "plus"):
        return a.plus(b)
    if isinstance(a, tuple):
        fields = (added(x, y) for x, y in zip(a, b, strict=True))
        return type(a)(*fields) if hasattr(a, "_fields") else tuple(fields)
    return a + b


class Least(float):
    """A number of which the least of all parts counts."""
