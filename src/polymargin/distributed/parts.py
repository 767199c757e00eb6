"""`Parts`: rows that do not fit into memory, as the X of a fit."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.distributed.communicator import Communicator, tree_sum
from polymargin.distributed.disk.blocks import Blocks, Contents, write_blocks
from polymargin.distributed.disk.on_disk import OnDisk
from polymargin.distributed.disk.sources import (
    Labels,
    Seen,
    chunks_of,
    indexed,
    is_folder_of_blocks,
    labels_of,
    look,
    with_absent,
)
from polymargin.distributed.together import AT_A_TIME
from polymargin.problems.classes import Problem
from polymargin.problems.sets import SetProblem
from polymargin.storage.unpacking import in_words

_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_INTERPRETER = 250e6  # bytes that Python takes with NumPy, SciPy and scikit-learn
_MACHINES = 14  # arrays of the size of W that a fit holds at a time: sums over parts, directions, the loop's own
_PER_BLOCK = 3.0  # what work on a block takes, in sizes of its rows: these, products with them, duals
_SMALLEST = 1e6  # bytes of a block
_CHUNK = 8  # part of the memory that is read from a source at a time


ProblemOf = Callable[[Any, Any, NDArray[np.float64]], Problem | SetProblem]  # of X, targets, sample weights


class Elsewhere(NamedTuple):
    """Rows that are elsewhere, as a fit gets them: by an engine, that is told how rows become a problem."""

    engine: Callable[[ProblemOf], Communicator]
    classes: NDArray[Any]
    weights: NDArray[np.float64]  # sample weights of the classes, in sum
    dtype: np.dtype[Any]
    labels: Labels | None = None  # of a label matrix; `classes` are then their numbers


class Parts:
    """Rows on disk, or from anywhere else, for a fit that keeps no more than some of them in memory.

    ``machine.fit(Parts(...))`` takes the place of ``machine.fit(X, y)``: the rows are written to a folder in blocks once,
    and the fit reads these one at a time. What it ends with is the machine, and the certificate, of all rows.

    Parameters
    ----------
    source
        One of: a tuple (X, y) or (X, y, sample_weight) of arrays, which may be memory-mapped, or CSR; a folder or a list of
        npz, parquet, svmlight or csv files, of which each fits into an eighth of `memory`; a function without arguments that
        returns an iterator of such tuples and can be called again; or a folder that ``polymargin convert`` wrote.
    memory : int or str, default="2GB"
        What the process may take in all, in bytes or as "500MB", "2GB". It must hold W some times over and a block of rows.
    checkpoint : path, default=None
        A folder in which blocks and progress stay. A fit with the same folder, data and parameters goes on where the last
        one was killed, and ends with the same bits. None: a folder in `scratch` that is removed at the end.
    scratch : path, default=None
        Where there is room for the rows once more; None: the system's folder for temporary files.
    **reading
        How files are read: `target`, `index_base`, `n_features` and others of :func:`polymargin.tables.read_table`.

    Examples
    --------
    >>> import numpy as np
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.distributed import Parts
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> X = 0.5 * rng.standard_normal((3, 5))[y] + rng.standard_normal((600, 5))
    >>> machine = CrammerSingerSVC().fit(Parts((X, y), memory="400MB"))
    >>> machine.certificate_.status
    'optimal'
    """

    def __init__(
        self, source: Any, *, memory: int | str = "2GB", checkpoint: Any = None, scratch: Any = None, **reading: Any
    ):
        self.source, self.reading = source, reading
        self.memory = _bytes_of(memory)
        self.checkpoint, self.scratch = checkpoint, scratch

    @contextmanager
    def opened(self, run: dict[str, Any]) -> Iterator[Elsewhere]:
        """For a fit that is described by `run`: a checkpoint of another one is refused."""
        with self._folders() as (blocks, states):
            _claim(states, run | vars(blocks.contents))
            weights, labels = _known_of(blocks)

            def engine(problem_of: ProblemOf) -> Communicator:
                return OnDisk(blocks, lambda rows: problem_of(*rows), states, resumable=self.checkpoint is not None)

            yield Elsewhere(engine, blocks.classes, weights, np.dtype(blocks.contents.dtype), labels)

    @contextmanager
    def _folders(self) -> Iterator[tuple[Blocks, Path]]:
        """The blocks, and the folder for states."""
        if self.checkpoint is None:
            with tempfile.TemporaryDirectory(prefix="polymargin-", dir=self.scratch) as made:
                yield self._blocks(Path(made) / "blocks"), Path(made) / "states"
        else:
            folder = Path(self.checkpoint)
            yield self._blocks(folder / "blocks"), folder / "states"

    def _blocks(self, folder: Path) -> Blocks:
        """Those of the source, or made of it; blocks that are there already are those of an earlier fit."""
        if is_folder_of_blocks(self.source):
            folder = Path(self.source)
        if is_folder_of_blocks(folder):
            blocks = Blocks(folder)
            self._check(blocks)
            return blocks
        return self.write(folder)

    def write(self, folder: Path, seed: int = 0) -> Blocks:
        """Writes the blocks of the source."""
        read = chunks_of(self.source, int(self.memory / _CHUNK), **self.reading)
        seen = look(read)
        n_blocks = self.n_blocks(seen.n_bytes, seen.n_features, _columns_of_W(seen.classes, seen.labels is not None))
        return write_blocks(folder, indexed(read, seen), _contents(seen, n_blocks), seed)

    def n_blocks(self, n_bytes: int, n_features: int, n_classes: int) -> int:
        """Into how many blocks rows of so many bytes go."""
        return max(1, ceil(n_bytes / self._room(n_features, n_classes)))

    def _room(self, n_features: int, n_classes: int) -> float:
        """The largest block, in bytes."""
        weights = 8.0 * n_features * n_classes
        room = (self.memory - _INTERPRETER - _MACHINES * weights) / _PER_BLOCK
        if room < _SMALLEST:
            least = _INTERPRETER + _MACHINES * weights + 10 * _PER_BLOCK * _SMALLEST
            raise MemoryError(
                f"memory={in_words(self.memory)} is too little for {n_features} columns and {n_classes} classes: one W "
                f"takes {in_words(weights)}, and a fit needs {_MACHINES} such arrays; give it {in_words(least)} at least"
            )
        return room

    def _check(self, blocks: Blocks) -> None:
        said = blocks.contents
        largest: float = max((blocks.folder / f"{k:05d}.values").stat().st_size for k in range(len(blocks)))
        largest *= 1.0 + said.is_sparse * 4.0 / np.dtype(said.dtype).itemsize
        room = self._room(said.n_features, _columns_of_W(said.classes, said.labels > 0))
        if largest > 1.2 * room:
            raise MemoryError(
                f"{blocks.folder} has blocks of {in_words(largest)}, and memory={in_words(self.memory)} leaves room for "
                f"{in_words(room)}: allow more memory, or write smaller blocks (polymargin convert --memory)"
            )


def _known_of(blocks: Blocks) -> tuple[NDArray[np.float64], Labels | None]:
    """Weights of the classes in sum, or what is known of the labels."""
    said, weights = blocks.contents, np.zeros(len(blocks.classes))
    if not said.labels:
        for number in range(len(blocks)):
            np.add.at(weights, *blocks.targets(number))
        return weights, None
    kind = said.label_type, said.sparse_labels
    labels = tree_sum(labels_of(*blocks.targets(number), *kind) for number in range(len(blocks)))
    return weights, with_absent(labels, sum(float(blocks.targets(number)[1].sum()) for number in range(len(blocks))))


def _columns_of_W(classes: Any, are_labels: bool) -> int:
    """What arrays of the size of W are counted by: labels solved at a time are two classes each, beside W itself."""
    return len(classes) + (2 * min(len(classes), AT_A_TIME) if are_labels else 0)


def _claim(folder: Path, run: dict[str, Any]) -> None:
    """Notes which fit a folder of states belongs to; an error if that is another one."""
    file, text = folder / "fit.json", json.dumps(run, sort_keys=True)
    folder.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text(text)
    elif file.read_text() != text:
        raise ValueError(
            f"checkpoint: {folder} belongs to a fit of another version, or with other parameters or rows; use another "
            "folder, or remove this one"
        )


def _contents(seen: Seen, n_blocks: int) -> Contents:
    about = seen.n_features, seen.dtype, seen.is_sparse, seen.classes.tolist(), [0] * n_blocks
    if seen.labels is None:
        return Contents(*about)
    return Contents(*about, len(seen.labels.have), seen.labels.others, seen.labels.dtype, seen.labels.is_sparse)


def _bytes_of(memory: Any) -> float:
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([KMGT]?)i?B?\s*", memory, re.IGNORECASE)
        if found:
            return float(found[1]) * _UNITS[found[2].upper()]
    elif not isinstance(memory, bool) and isinstance(memory, (int, float)) and memory > 0:
        return float(memory)
    raise ValueError(f"memory={memory!r} is not valid: give a number of bytes, or a text such as '500MB' or '2GB'.")
