"""Rows on disk in blocks that fit into memory one at a time: what out-of-core fits read, and `polymargin convert` writes.

A folder with `blocks.json`, which says what there is, and for every block raw little-endian arrays:

    00000.values    entries of X, float32 or float64; of dense rows all, row by row
    00000.columns   their columns, int32, and
    00000.counts    how many of them a row has, int64: sparse rows only
    00000.classes   of the rows, int32; or, of a label matrix,
    00000.labels    those that are stored, int32, with
    00000.signs     1 or -1, int8, and
    00000.label_counts   how many of them a row has, int64
    00000.weights   of the rows, float64

Rows are dealt to the blocks at random: rows that come sorted by class would make blocks of one class each, and parts that
know one class only climb in directions that the others undo.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

NAME, FORMAT = "blocks.json", "polymargin blocks, version 1"

Array = NDArray[np.float64]


class Rows(NamedTuple):
    """Some rows: a CSR matrix or an array, class indices or a CSR array of signs of labels, weights."""

    X: Any
    y: Any
    weight: Array


@dataclass(frozen=True)
class Contents:
    """What a folder of blocks says of itself."""

    n_features: int
    dtype: str
    is_sparse: bool
    classes: list[Any]
    rows: list[int]  # of each block
    labels: int = 0  # columns of the label matrix; 0 if rows have a class
    others: int = -1  # what is not stored of it: -1 is absent, 0 unknown
    label_type: str = "<i8"  # as the user has it
    sparse_labels: bool = False

    @property
    def n_blocks(self) -> int:
        return len(self.rows)


class Blocks:
    """A folder of blocks, to be read."""

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            stored = json.loads((folder / NAME).read_text())
            if stored.pop("format") != FORMAT:
                raise ValueError("the format is another one")
            self.contents = Contents(**stored)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{folder} is no folder of blocks: {error}; make one with polymargin convert") from error

    def __len__(self) -> int:
        return self.contents.n_blocks

    @property
    def classes(self) -> NDArray[Any]:
        return np.asarray(self.contents.classes)

    def load(self, number: int) -> Rows:
        said, at = self.contents, _Files(self.folder, number)
        values, shape = at.read("values", said.dtype), (said.rows[number], said.n_features)
        if said.is_sparse:
            starts = np.append(0, np.cumsum(at.read("counts", "<i8")))
            X: Any = sparse.csr_matrix((values, at.read("columns", "<i4"), starts), shape=shape, copy=False)
        else:
            X = values.reshape(shape)
        return Rows(X, *self.targets(number))

    def targets(self, number: int) -> tuple[Any, Array]:
        """Classes, or signs of labels, and weights of a block's rows, without its entries."""
        said, at = self.contents, _Files(self.folder, number)
        weights = at.read("weights", "<f8")
        if not said.labels:
            return at.read("classes", "<i4"), weights
        starts = np.append(0, np.cumsum(at.read("label_counts", "<i8")))
        entries = at.read("signs", "<i1"), at.read("labels", "<i4"), starts
        return sparse.csr_array(entries, shape=(said.rows[number], said.labels)), weights


class _Files(NamedTuple):
    folder: Path
    number: int

    def read(self, what: str, dtype: str) -> NDArray[Any]:
        return np.fromfile(self._path(what), dtype=dtype)

    def append(self, what: str, values: NDArray[Any], dtype: str) -> None:
        with self._path(what).open("ab") as file:
            np.ascontiguousarray(values, dtype=dtype).tofile(file)

    def _path(self, what: str) -> Path:
        return self.folder / f"{self.number:05d}.{what}"


def write_blocks(folder: Path, chunks: Iterable[Rows], contents: Contents, seed: int) -> Blocks:
    """Deals the rows of all chunks to blocks; `contents.rows` says how many there are to be, not yet how long."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9]*.*"):  # of a conversion that was interrupted
        old.unlink()
    rng, rows = np.random.default_rng(seed), [0] * contents.n_blocks
    files = [_Files(folder, number) for number in range(contents.n_blocks)]
    for chunk in chunks:
        where = rng.integers(contents.n_blocks, size=len(chunk.weight))
        for number, at in enumerate(files):
            mine = np.flatnonzero(where == number)
            X = chunk.X[mine]
            if contents.is_sparse:
                at.append("columns", X.indices, "<i4")
                at.append("counts", np.diff(X.indptr), "<i8")
            at.append("values", X.data if contents.is_sparse else X, contents.dtype)
            if contents.labels:
                table = chunk.y[mine]
                at.append("labels", table.indices, "<i4")
                at.append("signs", table.data, "<i1")
                at.append("label_counts", np.diff(table.indptr), "<i8")
            else:
                at.append("classes", chunk.y[mine], "<i4")
            at.append("weights", chunk.weight[mine], "<f8")
            rows[number] += len(mine)
    said = {**vars(contents), "rows": rows, "format": FORMAT}
    draft = folder / f"{NAME}.part"
    draft.write_text(json.dumps(said))
    draft.replace(folder / NAME)  # last: a folder with it is whole
    return Blocks(folder)
