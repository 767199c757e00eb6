"""Parts on disk: one block of rows in memory at a time, the states of all in a folder, and a log by which a fit goes on.

An algorithm depends on nothing but what the parts reply. So a fit that was killed is begun again and gets the replies that
are in the log, at the cost of reading them, until it is where it was; from there on the parts work again, from the states
that belong to the last reply in the log. All bits are the same. A state is written beside the one before it, which is
removed only when the reply is in the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from polymargin.distributed import work
from polymargin.distributed.communicator import Communicator, Least, Work, chained, filled, in_some_order, tree_sum
from polymargin.distributed.disk.blocks import Blocks, Rows
from polymargin.distributed.together import first_state
from polymargin.distributed.work import PartState
from polymargin.problems.whole import Facts
from polymargin.storage.files import written_whole

_REPLIES: dict[str, Any] = {kind.__name__: kind for kind in (Facts, work.Climbed, work.Sums, work.Scaled, work.Turned)}


class OnDisk(Communicator):
    """Blocks, `problem_of` their rows, and a folder for states and, if the fit is to be `resumable`, the log."""

    takes_turns = True

    def __init__(self, blocks: Blocks, problem_of: Callable[[Rows], Any], folder: Path, resumable: bool):
        self._blocks, self._problem_of, self._folder, self._resumable = blocks, problem_of, folder, resumable
        self.n_parts, self._calls = len(blocks), 0
        folder.mkdir(parents=True, exist_ok=True)
        self._logged = 0
        while self._reply_file(self._logged).exists():
            self._logged += 1
        self._versions = [self._last_version(part) for part in range(self.n_parts)]

    @property
    def resumes(self) -> bool:
        """Whether an earlier fit left replies."""
        return self._logged > 0

    def total(self, work: Work, *shared: Any) -> Any:
        return self._logged_call(lambda visit: tree_sum(visit(part, work, shared) for part in range(self.n_parts)))

    def chain(self, work: Work, seed: int, carried: Any, *shared: Any) -> tuple[Any, Any]:
        order = in_some_order(self.n_parts, seed, self._calls)
        got: tuple[Any, Any] = self._logged_call(
            lambda visit: chained(lambda part, carried: visit(part, work, (carried, *shared)), order, carried)
        )
        return got

    def _logged_call(self, call_of: Callable[[Callable[[int, Work, Sequence[Any]], Any]], Any]) -> Any:
        """A reply of the log, or of visits, which is then logged; states that visits have left count from then on."""
        call, self._calls = self._calls, self._calls + 1
        if call < self._logged:
            return _read_reply(self._reply_file(call))
        changed: list[int] = []
        reply = call_of(lambda part, work, shared: self._visit(part, call, changed, work, shared))
        if self._resumable:
            _write_reply(self._reply_file(call), reply)
        self._logged = call + 1
        for part in changed:
            if self._versions[part] >= 0:
                self._state_file(part, self._versions[part]).unlink()
            self._versions[part] = call
        return reply

    def _visit(self, part: int, call: int, changed: list[int], work: Work, shared: Sequence[Any]) -> Any:
        problem = self._problem_of(self._blocks.load(part))
        before = self._state(part, problem)
        after, reply = work(problem, before, *filled(shared, part))
        if after is not before:
            _write_state(self._state_file(part, call), after)
            changed.append(part)
        return reply

    def _state(self, part: int, problem: Any) -> Any:
        version = self._versions[part]
        return first_state(problem) if version < 0 else _read_state(self._state_file(part, version))

    def _last_version(self, part: int) -> int:
        """That of the last reply in the log, or before; what a killed call has written after it is removed."""
        found = {int(file.stem.split("-")[2]): file for file in self._folder.glob(f"state-{part:05d}-*.npz")}
        kept = max((version for version in found if version < self._logged), default=-1)
        for version, file in found.items():
            if version != kept:
                file.unlink()
        return kept

    def _reply_file(self, call: int) -> Path:
        return self._folder / f"reply-{call:06d}.npz"

    def _state_file(self, part: int, version: int) -> Path:
        return self._folder / f"state-{part:05d}-{version:06d}.npz"


def _write_state(file: Path, state: Any) -> None:
    """Of a part, or one for every label, None for those that have none yet."""
    of_labels = not isinstance(state, PartState)
    arrays: dict[str, Any] = {"labels": np.array(len(state) if of_labels else -1)}
    for label, one in enumerate(state if of_labels else [state]):
        for name, duals in () if one is None else one._asdict().items():
            if duals is not None:
                arrays |= {f"{label}_{name}_{key}": getattr(duals, key) for key in ("data", "indices", "indptr", "shape")}
    _save(file, arrays)


def _read_state(file: Path) -> Any:
    with np.load(file, allow_pickle=False) as stored:
        n_labels = int(stored["labels"])
        found = [_state_of(stored, label) for label in range(max(1, n_labels))]
    return found[0] if n_labels < 0 else tuple(found)


def _state_of(stored: Any, label: int) -> PartState | None:
    found: dict[str, Any] = {}
    for name in PartState._fields:
        if (here := f"{label}_{name}") + "_data" in stored:
            arrays = tuple(stored[f"{here}_{key}"] for key in ("data", "indices", "indptr"))
            found[name] = sparse.csr_array(arrays, shape=tuple(stored[f"{here}_shape"].tolist()))
    return PartState(**found) if found else None


def _write_reply(file: Path, reply: Any) -> None:
    arrays: list[Any] = []
    node = _as_node(reply, arrays)
    _save(file, {"node": np.array(json.dumps(node)), **{f"array_{i}": array for i, array in enumerate(arrays)}})


def _read_reply(file: Path) -> Any:
    with np.load(file, allow_pickle=False) as stored:
        return _from_node(json.loads(str(stored["node"])), stored)


def _save(file: Path, arrays: dict[str, Any]) -> None:
    """Whole or not at all."""
    with written_whole(file) as out:
        np.savez(out, allow_pickle=False, **arrays)


def _as_node(value: Any, arrays: list[Any]) -> Any:
    """Replies as JSON, arrays by number; numbers bit by bit."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, tuple):
        return {"tuple": type(value).__name__, "fields": [_as_node(field, arrays) for field in value]}
    if isinstance(value, float):  # a NumPy scalar too
        return {"least" if isinstance(value, Least) else "float": float(value).hex()}
    return None if value is None else int(value)


def _from_node(node: Any, arrays: Any) -> Any:
    if node is None or isinstance(node, int):
        return node
    if "array" in node:
        return arrays[f"array_{node['array']}"]
    if "tuple" in node:
        fields = [_from_node(field, arrays) for field in node["fields"]]
        return tuple(fields) if node["tuple"] == "tuple" else _REPLIES[node["tuple"]](*fields)
    return Least(float.fromhex(node["least"])) if "least" in node else float.fromhex(node["float"])
