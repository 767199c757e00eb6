"""npz files of arrays, and parquet files of columns."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.storage.unpacking import Allowance, check_archive, read_array
from polymargin.tables.columns import Columns, side_by_side
from polymargin.tables.table import TableError, shown
from polymargin.validation import check_csr

_KEYS = ("X", "y", "data", "indices", "indptr", "shape", "format", "feature_names", "target_names", "n_train")
_PARQUET_CELL = 24  # bytes: in Arrow's column, in ours, and in the table


class Arrays(NamedTuple):
    """What an npz file holds; all but X may be None."""

    X: Any
    y: NDArray[Any] | None
    feature_names: tuple[str, ...] | None
    target_names: tuple[str, ...] | None
    n_train: int | None  # official training rows, which come first


def as_floats(X: Any) -> Any:
    """Rows that machines can read: bytes of images become float32, which holds them exactly."""
    if X.dtype in (np.float32, np.float64):
        return X
    return X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)


def read_npz(name: str, data: bytes, allowance: Allowance | None = None) -> Arrays:
    """``X``, or ``data, indices, indptr, shape`` of a CSR (or scipy's own file of one); ``y`` and names if present."""
    allowance = allowance or Allowance(len(data), None, lambda message: TableError(name, message))
    if data.startswith(np.lib.format.MAGIC_PREFIX):
        raise TableError(name, "this is a single array (npy); store X and y with numpy.savez(file, X=X, y=y)")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {entry.removesuffix(".npy"): entry for entry in archive.namelist()}
            check_archive(archive, allowance)
            arrays = {
                key: read_array(archive, entries[key], f"the array {key!r}", allowance.error)
                for key in _KEYS
                if key in entries
            }
            arrays = {key: np.char.decode(array) if array.dtype.kind == "S" else array for key, array in arrays.items()}
    except TableError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise TableError(name, f"cannot be read as npz: {_first_line(error)}") from error
    if not arrays:
        few = ", ".join(map(shown, list(entries)[:5])) or "nothing"
        raise TableError(name, f"there is neither X nor data, indices, indptr and shape; it holds {few}")
    names, targets = (_names(name, arrays, key) for key in ("feature_names", "target_names"))
    X = _matrix(name, arrays, allowance)
    y = arrays.get("y")
    if y is not None and (y.ndim not in (1, 2) or len(y) != X.shape[0]):
        raise TableError(name, f"y has shape {y.shape}, but X has {X.shape[0]} rows")
    if names is not None and len(names) != X.shape[1]:
        raise TableError(name, f"there are {len(names)} feature_names for {X.shape[1]} columns of X")
    n_train = arrays.get("n_train", np.array(-1))
    known = n_train.shape == () and n_train.dtype.kind in "iu" and 0 <= n_train <= X.shape[0]
    return Arrays(X, y, names, targets, int(n_train) if known else None)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _matrix(name: str, arrays: dict[str, Any], allowance: Allowance) -> Any:
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
            raise TableError(
                name, f"X must be a matrix of numbers with rows and columns; it has shape {X.shape}, dtype {X.dtype}"
            )
        allowance.check(8 * X.size)
        if X.dtype.kind == "f" and np.isinf(X).any():
            row, column = np.argwhere(np.isinf(X))[0]
            raise TableError(name, f"X[{row}, {column}] is not a finite number")
        return X
    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        raise TableError(
            name, f"there is neither X nor data, indices, indptr and shape; it holds {', '.join(arrays)}"
        )
    return _sparse_matrix(name, arrays, allowance)


def _sparse_matrix(name: str, arrays: dict[str, Any], allowance: Allowance) -> Any:
    data, layout = arrays["data"], arrays.get("format", np.array("csr"))
    layout = str(layout) if layout.shape == () else "unknown"
    if layout not in ("csr", "csc") or data.dtype.kind not in "biuf":
        raise TableError(name, f"sparse data must be csr or csc and hold numbers; it is {shown(layout)} of {data.dtype}")
    kind = sparse.csr_matrix if layout == "csr" else sparse.csc_matrix
    try:
        shape = tuple(int(side) for side in arrays["shape"])
        allowance.check(8.0 * max(shape[:1], default=0) + 16.0 * data.size)  # a few columns may stand for endless rows
        X = kind((as_floats(data), arrays["indices"], arrays["indptr"]), shape=shape)
        check_csr(X if layout == "csr" else X.T)
    except TableError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise TableError(name, f"the sparse matrix is damaged: {_first_line(error)}") from error
    if not np.isfinite(X.data).all():
        raise TableError(name, "the sparse matrix has entries that are not finite numbers")
    if 0 in X.shape:
        raise TableError(name, f"the sparse matrix has shape {X.shape}: there are no rows or no columns")
    return X.tocsr()


def _names(name: str, arrays: dict[str, Any], key: str) -> tuple[str, ...] | None:
    if key not in arrays:
        return None
    if arrays[key].ndim != 1 or arrays[key].dtype.kind != "U":
        raise TableError(name, f"{key} must be a list of strings")
    return tuple(arrays[key].tolist())


class ParquetFile:
    """A parquet file, read with pyarrow; the same doors as `DelimitedFile`."""

    has_header = True

    def __init__(self, name: str, data: bytes, *, allowance: Allowance | None = None):
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise TableError(name, "parquet needs pyarrow: pip install 'polymargin[parquet]'") from error
        self.name, self.allowance = name, allowance
        with self._explained():
            schema = parquet.ParquetFile(io.BytesIO(data)).schema_arrow
            # equal texts are one object: a long one may stand in every row
            self._file = parquet.ParquetFile(
                io.BytesIO(data), read_dictionary=[field.name for field in schema if _is_text(field.type)]
            )
            self.names = [str(column) for column in schema.names]
            self._check_memory()
        if len(set(self.names)) < len(self.names):
            raise TableError(name, "two columns have the same name")
        if not self.names or not self._file.metadata.num_rows:
            raise TableError(name, "the file has no rows or no columns")

    def read(self, wanted: Sequence[str], text: Collection[str] = (), numeric: Collection[str] = ()) -> Columns:
        """The columns `wanted`: as texts, as numbers, or as what their type says."""
        with self._explained():
            table = self._file.read(columns=list(wanted))
            if table.num_rows != self._file.metadata.num_rows:
                rows = self._file.metadata.num_rows
                raise TableError(self.name, f"the file is damaged: it says {rows} rows and holds {table.num_rows}")
            found = {name: self._column(table, name, name in text, name in numeric) for name in wanted}
        numbers = [name for name in wanted if found[name].dtype.kind != "O"]
        matrix = side_by_side([found.pop(name) for name in numbers], table.num_rows)
        return Columns(numbers, matrix, found)

    def _check_memory(self) -> None:
        """A column of one value, however many rows it has, takes a few bytes of the file."""
        if self.allowance is None:
            return
        facts = self._file.metadata
        groups = [facts.row_group(k) for k in range(facts.num_row_groups)]
        rows = max(facts.num_rows, sum(group.num_rows for group in groups))
        unpacked = sum(group.total_byte_size for group in groups)
        self.allowance.check(_PARQUET_CELL * float(rows) * facts.num_columns + unpacked)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        import pyarrow

        try:
            yield
        except TableError:
            raise
        except (pyarrow.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
            raise TableError(self.name, f"cannot be read as parquet: {_first_line(error)}") from error

    def line_of(self, row: int) -> None:
        """There are no lines."""

    def _column(self, table: Any, name: str, as_text: bool, as_number: bool) -> NDArray[Any]:
        from pyarrow import types

        column = table.column(name)
        kind = column.type
        if types.is_dictionary(kind):
            kind = kind.value_type
        is_text = _is_text(kind)
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        if not is_text and not is_number and not types.is_null(kind):
            raise TableError(self.name, f"the type {kind} is not read: numbers, booleans and strings are", column=name)
        if is_text and as_number and not as_text:
            raise TableError(self.name, "it holds texts, but the model was trained with numbers here", column=name)
        if as_text or is_text:
            return np.concatenate([_texts(chunk) for chunk in column.chunks] or [np.empty(0, dtype=object)])
        column = column.cast(kind).combine_chunks() if types.is_dictionary(column.type) else column.combine_chunks()
        return self._numbers(name, column, np.float32 if types.is_float32(kind) else np.float64)

    def _numbers(self, name: str, column: Any, dtype: Any) -> NDArray[Any]:
        exact = str(column.type).startswith(("decimal", "null")) or (column.null_count and str(column.type) == "bool")
        values = np.array([np.nan if value is None else float(value) for value in column.to_pylist()], dtype=dtype) \
            if exact else column.to_numpy(zero_copy_only=False).astype(dtype)  # fmt: skip
        if np.isinf(values).any():
            raise TableError(self.name, f"row {int(np.isinf(values).argmax()) + 1} is not a finite number", column=name)
        return values


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _texts(chunk: Any) -> NDArray[Any]:
    """Values as texts, missing ones empty; of a dictionary each only once."""
    from pyarrow import types

    if types.is_dictionary(chunk.type):
        different = np.append(_texts(chunk.dictionary), "")
        places = chunk.indices.fill_null(len(different) - 1).to_numpy(zero_copy_only=False)
        return different[places]
    values = ["" if value is None or value != value else str(value) for value in chunk.to_pylist()]
    texts = np.empty(len(values), dtype=object)
    texts[:] = values
    return texts
