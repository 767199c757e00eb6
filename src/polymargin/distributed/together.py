"""Labels that share nothing but the rows, over parts: a binary machine each, and one visit of the parts for all of them.

The relevance of label k, ``1/2 |w|^2 + sum_i u_i [1 - t_i (x_i . w + b)]_+``, is twice Crammer and Singer's machine of the
two classes "has it not" and "has it" with half the costs, whose vectors are -w/2 and w/2; squared hinges alike. So every
label is a fit of parts as any other, with its own method, steps and certificate. The fits run side by side in threads and
wait for each other wherever they ask the parts something: what all of them ask is answered in one visit of every part, by
the thread that called. A label's result depends on nothing but its own replies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.distributed.communicator import NUMBER, Communicator, Work, filled
from polymargin.distributed.work import PartState, no_duals
from polymargin.losses import CrammerSingerHinge
from polymargin.penalties import SquaredNorm
from polymargin.problems.classes import Problem
from polymargin.problems.sets import SetProblem

HAS_IT = np.array([-1.0, 1.0])  # from the two classes of a label to its machine
AT_A_TIME = 32  # labels that are solved at a time: each holds some arrays of the size of its class vectors


class Asked(NamedTuple):
    """What one label asks every part; `carried` on from part to part if they take turns."""

    label: int
    work: Work
    shared: tuple[Any, ...]
    carried: Any = None
    in_turn: bool = False


def binary(problem: SetProblem, label: int, columns: Any) -> Problem:
    """The two classes of a label; rows of which it is unknown are left out."""
    own = slice(columns.indptr[label], columns.indptr[label + 1])
    signs = np.full(problem.n_rows, problem.y.others, dtype=np.int8)
    signs[columns.indices[own]] = columns.data[own]
    X, cost, known = problem.X, 0.5 * problem.y.label_weight[label] * problem.cost, signs != 0
    if not known.all():
        X, cost, signs = X[known], cost[known], signs[known]
    loss = CrammerSingerHinge(squared=problem.loss.squared)
    return Problem(X, (signs > 0).astype(np.int32), cost, 2, loss, SquaredNorm(), problem.fit_intercept)


def first_state(problem: Problem | SetProblem) -> PartState | tuple[PartState | None, ...]:
    """No duals: of the rows, or of every label."""
    return (None,) * problem.n_classes if isinstance(problem, SetProblem) else no_duals(problem)


def answer(problem: SetProblem, states: Any, asked: Sequence[Asked], part: int) -> tuple[Any, tuple[Any, ...]]:
    """What a part replies to all labels that ask it."""
    return _answers(problem, states, [one.shared for one in asked], asked, part)


def answer_in_turn(problem: SetProblem, states: Any, carried: Any, asked: Sequence[Asked], part: int) -> Any:
    """The same, where some carry on what the part before has left."""
    given = [(own, *one.shared) if one.in_turn else one.shared for own, one in zip(carried, asked, strict=True)]
    states, replies = _answers(problem, states, given, asked, part)
    carried = tuple(reply[0] if one.in_turn else None for reply, one in zip(replies, asked, strict=True))
    return states, (carried, tuple(reply[1] if one.in_turn else reply for reply, one in zip(replies, asked, strict=True)))


def _answers(
    problem: SetProblem, states: Any, given: Sequence[Sequence[Any]], asked: Sequence[Asked], part: int
) -> tuple[Any, tuple[Any, ...]]:
    columns, replies, after = sparse.csc_array(problem.y.stored), [], list(states)
    for shared, one in zip(given, asked, strict=True):
        own = binary(problem, one.label, columns)
        before = after[one.label]
        state = no_duals(own) if before is None else before
        found, reply = one.work(own, state, *filled(shared, part))
        if found is not state:
            after[one.label] = found
        replies.append(reply)
    changed = any(new is not old for new, old in zip(after, states, strict=True))
    return tuple(after) if changed else states, tuple(replies)


class _Stopped(Exception):
    """The fit is over: another label has failed, or the user has interrupted it."""


class _OfLabel(Communicator):
    """The parts as one label sees them."""

    def __init__(self, hub: Together, label: int):
        self._hub, self._label = hub, label
        self.n_parts, self.takes_turns = hub.parts.n_parts, hub.parts.takes_turns

    def total(self, work: Work, *shared: Any) -> Any:
        return self._hub.ask(Asked(self._label, work, shared))

    def chain(self, work: Work, seed: int, carried: Any, *shared: Any) -> tuple[Any, Any]:
        got: tuple[Any, Any] = self._hub.ask(Asked(self._label, work, shared, carried, in_turn=True))
        return got


class Together:
    """Fits of some labels over the same parts."""

    def __init__(self, parts: Communicator, seed: int):
        self.parts, self._seed = parts, seed
        self._lock = threading.Condition()
        self._asked: dict[int, Asked] = {}
        self._replies: dict[int, Any] = {}
        self._running, self._stopped = 0, False
        self._failed: BaseException | None = None

    def solve(self, labels: Sequence[int], solve: Callable[[int, Communicator], Any]) -> list[Any]:
        """``solve(label, parts)`` of every label."""
        found: dict[int, Any] = {}
        self._running, self._stopped = len(labels), False

        def run(label: int) -> None:
            try:
                found[label] = solve(label, _OfLabel(self, label))
            except _Stopped:
                pass
            except BaseException as error:
                self._failed = error
            finally:
                with self._lock:
                    self._running -= 1
                    self._lock.notify_all()

        threads = [threading.Thread(target=run, args=(label,), daemon=True) for label in labels]
        try:
            for thread in threads:
                thread.start()
            while self._questions_are_complete():
                self._answer()
        finally:
            with self._lock:
                self._stopped = True
                self._lock.notify_all()
            for thread in threads:
                thread.join()
        if self._failed is not None:
            raise self._failed
        return [found[label] for label in labels]

    def ask(self, asked: Asked) -> Any:
        """Called by the thread of a label: waits for the reply."""
        with self._lock:
            self._asked[asked.label] = asked
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._stopped or asked.label in self._replies)
            if self._stopped:
                raise _Stopped
            return self._replies.pop(asked.label)

    def _questions_are_complete(self) -> bool:
        """Waits until every fit that goes on asks something; False if none does."""
        with self._lock:
            self._lock.wait_for(lambda: self._failed is not None or len(self._asked) == self._running)
            return self._failed is None and self._running > 0

    def _answer(self) -> None:
        asked = tuple(self._asked[label] for label in sorted(self._asked))
        sent = tuple(one._replace(carried=None) for one in asked)
        if any(one.in_turn for one in asked):
            carried, sums = self.parts.chain(answer_in_turn, self._seed, tuple(one.carried for one in asked), sent, NUMBER)
            replies = [(own, sum_) if one.in_turn else sum_ for one, own, sum_ in zip(asked, carried, sums, strict=True)]
        else:
            replies = list(self.parts.total(answer, sent, NUMBER))
        self.parts.settle()
        with self._lock:
            self._asked.clear()
            self._replies.update({one.label: reply for one, reply in zip(asked, replies, strict=True)})
            self._lock.notify_all()


def groups(labels: NDArray[np.intp]) -> list[list[int]]:
    """Labels that are solved together."""
    return [labels[start : start + AT_A_TIME].tolist() for start in range(0, len(labels), AT_A_TIME)]
