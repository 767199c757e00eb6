"""Where rows come from that do not fit into memory: arrays on disk, files, or a function that makes an iterator.

Every source can be read more than once: first to see what there is, then to write the blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.distributed.disk.blocks import NAME, Rows
from polymargin.validation import as_signed, check_csr, is_label_matrix

Chunk = tuple[Any, ...]  # X, y and, if there are any, weights
_ENDINGS = (".npz", ".parquet", ".pq", ".svmlight", ".libsvm", ".svm", ".csv", ".tsv", ".gz")


class Labels(NamedTuple):
    """What is known of a label matrix, or of the part of one: weights of members and known non-members, and its kind."""

    have: NDArray[np.float64]
    have_not: NDArray[np.float64]
    others: int  # what is not stored: -1 is absent, 0 unknown
    dtype: str
    is_sparse: bool

    def plus(self, other: Labels) -> Labels:
        if len(self.have) != len(other.have):
            raise ValueError(f"the parts differ: y has {len(self.have)} columns in some and {len(other.have)} in others")
        sums = self.have + other.have, self.have_not + other.have_not
        return Labels(*sums, max(self.others, other.others), self.dtype, self.is_sparse)


def labels_of(y: Any, weight: NDArray[np.float64], dtype: str = "<i8", is_sparse: bool = False) -> Labels:
    """Of the signs of some rows; what is absent because it is not stored is no part of `have_not`."""
    per_entry, c = np.repeat(weight, np.diff(y.indptr)), y.shape[1]
    members = y.data > 0
    sums = (np.bincount(y.indices[some], per_entry[some], c) for some in (members, ~members))
    have, have_not = (np.asarray(weights, dtype=np.float64) for weights in sums)
    return Labels(have, have_not, -1 if members.all() else 0, dtype, is_sparse)


def with_absent(labels: Labels, weight: float) -> Labels:
    """What all rows together know, of this weight: without a -1 in any of them what is not stored is absent."""
    return labels if labels.others == 0 else labels._replace(have_not=weight - labels.have)


class Seen(NamedTuple):
    """What a first reading finds."""

    n_rows: int
    n_features: int
    n_bytes: int  # of the rows as blocks have them
    dtype: str
    is_sparse: bool
    classes: NDArray[Any]  # or numbers of labels
    labels: Labels | None


def is_folder_of_blocks(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike)) and (Path(source) / NAME).is_file()


def chunks_of(source: Any, chunk_bytes: int, **reading: Any) -> Callable[[], Iterator[Chunk]]:
    """A function that reads the source from its beginning; `reading` are options of `read_table`."""
    if callable(source):
        return source
    if isinstance(source, tuple) and len(source) in (2, 3) and hasattr(source[0], "shape"):
        return lambda: _slices(source, chunk_bytes)
    if isinstance(source, (str, os.PathLike)):
        files = _files_in(Path(source))
    elif isinstance(source, Sequence) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
        files = [Path(one) for one in source]
    else:
        raise TypeError(
            f"cannot read rows from a {type(source).__name__}: give a tuple (X, y) or (X, y, weights) of arrays, a folder "
            "or list of files, or a function without arguments that returns an iterator of such tuples"
        )
    return lambda: (_read(file, chunk_bytes, reading) for file in files)


def _slices(arrays: tuple[Any, ...], chunk_bytes: int) -> Iterator[Chunk]:
    X = arrays[0]
    lengths = {one.shape[0] for one in arrays}
    if len(lengths) != 1:
        raise ValueError(f"X, y and weights have different numbers of rows: {', '.join(map(str, sorted(lengths)))}")
    row = X.nnz * 12 // max(1, X.shape[0]) if sparse.issparse(X) else X.shape[1] * X.dtype.itemsize
    step = max(1, chunk_bytes // max(1, row))
    for start in range(0, X.shape[0], step):
        yield tuple(one[start : start + step] for one in arrays)


def _files_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in _ENDINGS)
    if not files:
        raise ValueError(f"{folder} has no files that end in {', '.join(_ENDINGS)}, and no {NAME}")
    return files


def _read(file: Path, chunk_bytes: int, reading: dict[str, Any]) -> Chunk:
    from polymargin.tables import read_table

    size = file.stat().st_size
    if size > chunk_bytes:
        raise MemoryError(
            f"{file} has {size / 1e6:.0f} MB, more than the {chunk_bytes / 1e6:.0f} MB that may be read at a time: split "
            "it, or allow more memory"
        )
    table = read_table(file, **reading)
    if table.y is None or table.text:
        what = "no target" if table.y is None else f"text in the columns {', '.join(table.text)}"
        raise ValueError(f"{file} has {what}: parts have numbers, and a class for every row")
    return table.X, table.y


def checked(chunk: Any, seen: Seen | None = None) -> tuple[Any, Any, NDArray[np.float64]]:
    """X as CSR or a C array of floats, classes or signs of labels, weights; rows of weight 0 are left out."""
    from polymargin import validation

    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise TypeError(f"a chunk of rows must be a tuple (X, y) or (X, y, weights); got {type(chunk).__name__}")
    X: Any = chunk[0]
    y = chunk[1] if sparse.issparse(chunk[1]) else np.asarray(chunk[1])
    y = as_signed(y) if is_label_matrix(y) else y
    X = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or y.shape[0] != X.shape[0] or (y.ndim != 1 and not sparse.issparse(y)):
        raise ValueError(
            "X must have two dimensions and y a class, or a row of a label matrix, for each of its rows; got shapes "
            f"{X.shape} and {y.shape}"
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)
    if sparse.issparse(X):
        check_csr(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if seen is not None and X.shape[1] < seen.n_features:
            X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], seen.n_features))
    values = X.data if sparse.issparse(X) else X
    if not np.isfinite(values).all():
        raise ValueError("X contains NaN or infinity")
    n = X.shape[0]
    weight = np.ones(n) if len(chunk) == 2 or not n else validation.sample_weights(chunk[2], n)
    kept = weight > 0
    return (X, y, weight) if kept.all() else (X[kept], y[kept], weight[kept])


def look(read: Callable[[], Iterator[Chunk]]) -> Seen:
    """Reads everything once."""
    n_rows = n_features = n_bytes = 0
    classes: NDArray[Any] | None = None
    labels: Labels | None = None
    kinds: set[bool] = set()
    widths: set[int] = set()
    dtypes: set[Any] = set()
    for chunk in read():
        X, y, weight = checked(chunk)
        n_rows, n_features = n_rows + X.shape[0], max(n_features, X.shape[1])
        kinds.add(sparse.issparse(X))
        widths.add(X.shape[1])
        dtypes.add(X.dtype)
        n_bytes += X.nnz * (X.dtype.itemsize + 4) if sparse.issparse(X) else X.nbytes
        if sparse.issparse(y):
            n_bytes += 5 * y.nnz
            here = labels_of(y, weight, *label_kind(chunk[1]))
            labels, y = here if labels is None else labels.plus(here), np.arange(y.shape[1])
        elif labels is not None:
            raise ValueError("the parts differ: some have a label matrix y, and some one class a row")
        classes = np.unique(y) if classes is None else np.union1d(classes, y)
    if classes is None or not n_rows:
        raise ValueError("there are no rows of positive weight in any of the parts")
    if len(kinds) > 1 or (not kinds.copy().pop() and len(widths) > 1):
        raise ValueError(f"the parts differ: some are sparse and some dense, or dense ones have {sorted(widths)} columns")
    dtype = np.result_type(*dtypes).newbyteorder("<").str
    return Seen(n_rows, n_features, n_bytes + 20 * n_rows, dtype, kinds.pop(), classes, labels)


def label_kind(y: Any) -> tuple[str, bool]:
    """The type of a label matrix, and whether it is sparse."""
    dtype = np.dtype(y.dtype) if hasattr(y, "dtype") else np.asarray(y).dtype
    return (dtype if dtype.kind in "biuf" else np.dtype(np.int64)).str, bool(sparse.issparse(y))


def indexed(read: Callable[[], Iterator[Chunk]], seen: Seen) -> Iterator[Rows]:
    """All chunks, with class indices."""
    for chunk in read():
        X, y, weight = checked(chunk, seen)
        yield Rows(X, y if sparse.issparse(y) else np.searchsorted(seen.classes, y).astype(np.int32), weight)
