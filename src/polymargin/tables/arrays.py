"""npz files of arrays, and parquet files of columns."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.tables.table import TableError
from polymargin.validation import check_csr


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


def read_npz(name: str, data: bytes) -> Arrays:
    """``X``, or ``data, indices, indptr, shape`` of a CSR (or scipy's own file of one); ``y`` and names if present."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            if not hasattr(stored, "files"):
                raise TableError(name, "this is a single array (npy); store X and y with numpy.savez(file, X=X, y=y)")
            arrays = {key: stored[key] for key in stored.files}
    except TableError:
        raise
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
        zlib.error,
        MemoryError,
        NotImplementedError,
    ) as error:
        hint = "; arrays of objects are not read, store numbers or strings" if "pickle" in str(error) else ""
        raise TableError(name, f"cannot be read as npz: {error}{hint}") from error
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufUS":
            raise TableError(name, f"the entry {key!r} holds neither numbers nor strings")
    names, targets = (_names(name, arrays, key) for key in ("feature_names", "target_names"))
    X = _matrix(name, arrays)
    y = arrays.get("y")
    if y is not None and (y.ndim not in (1, 2) or len(y) != X.shape[0]):
        raise TableError(name, f"y has shape {y.shape}, but X has {X.shape[0]} rows")
    if names is not None and len(names) != X.shape[1]:
        raise TableError(name, f"there are {len(names)} feature_names for {X.shape[1]} columns of X")
    n_train = arrays.get("n_train", np.array(-1))
    known = n_train.shape == () and n_train.dtype.kind in "iu" and 0 <= n_train <= X.shape[0]
    return Arrays(X, y, names, targets, int(n_train) if known else None)


def _matrix(name: str, arrays: dict[str, Any]) -> Any:
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
            raise TableError(
                name, f"X must be a matrix of numbers with rows and columns; it has shape {X.shape}, dtype {X.dtype}"
            )
        if X.dtype.kind == "f" and np.isinf(X).any():
            row, column = np.argwhere(np.isinf(X))[0]
            raise TableError(name, f"X[{row}, {column}] is not a finite number")
        return X
    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        raise TableError(
            name, f"there is neither X nor data, indices, indptr and shape; it holds {', '.join(arrays) or 'nothing'}"
        )
    return _sparse_matrix(name, arrays)


def _sparse_matrix(name: str, arrays: dict[str, Any]) -> Any:
    data, layout = arrays["data"], str(np.asarray(arrays.get("format", "csr")).astype("U"))
    if layout not in ("csr", "csc") or data.dtype.kind not in "biuf":
        raise TableError(name, f"sparse data must be csr or csc and hold numbers; it is {layout} of {data.dtype}")
    kind = sparse.csr_matrix if layout == "csr" else sparse.csc_matrix
    try:
        shape = tuple(int(side) for side in arrays["shape"])
        X = kind((as_floats(data), arrays["indices"], arrays["indptr"]), shape=shape)
        check_csr(X if layout == "csr" else X.T)
    except (TypeError, ValueError) as error:
        raise TableError(name, f"the sparse matrix is damaged: {error}") from error
    if not np.isfinite(X.data).all():
        raise TableError(name, "the sparse matrix has entries that are not finite numbers")
    if 0 in X.shape:
        raise TableError(name, f"the sparse matrix has shape {X.shape}: there are no rows or no columns")
    return X.tocsr()


def _names(name: str, arrays: dict[str, Any], key: str) -> tuple[str, ...] | None:
    if key not in arrays:
        return None
    if arrays[key].ndim != 1 or arrays[key].dtype.kind not in "US":
        raise TableError(name, f"{key} must be a list of strings")
    return tuple(arrays[key].astype("U").tolist())


class ParquetFile:
    """A parquet file, read with pyarrow; the same doors as `DelimitedFile`."""

    has_header = True

    def __init__(self, name: str, data: bytes):
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise TableError(name, "parquet needs pyarrow: pip install 'polymargin[parquet]'") from error
        self.name = name
        try:
            self._table = parquet.read_table(io.BytesIO(data))
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise TableError(name, f"cannot be read as parquet: {str(error).splitlines()[0]}") from error
        self.names = [str(column) for column in self._table.column_names]
        if len(set(self.names)) < len(self.names):
            raise TableError(name, "two columns have the same name")
        if not self.names or not self._table.num_rows:
            raise TableError(name, "the file has no rows or no columns")

    def read(
        self, wanted: Sequence[str], text: Collection[str] = (), numeric: Collection[str] = ()
    ) -> dict[str, NDArray[Any]]:
        """The columns `wanted`: as texts, as numbers, or as what their type says."""
        return {name: self._column(name, name in text, name in numeric) for name in wanted}

    def line_of(self, row: int) -> None:
        """There are no lines."""

    def _column(self, name: str, as_text: bool, as_number: bool) -> NDArray[Any]:
        from pyarrow import types

        column = self._table.column(name).combine_chunks()
        kind = column.type
        if types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        if not is_text and not is_number and not types.is_null(kind):
            raise TableError(self.name, f"the type {kind} is not read: numbers, booleans and strings are", column=name)
        if as_text or (is_text and not as_number):
            values = ["" if value is None or value != value else str(value) for value in column.to_pylist()]
            texts = np.empty(len(values), dtype=object)
            texts[:] = values
            return texts
        if is_text:
            raise TableError(self.name, "it holds texts, but the model was trained with numbers here", column=name)
        return self._numbers(name, column, np.float32 if types.is_float32(kind) else np.float64)

    def _numbers(self, name: str, column: Any, dtype: Any) -> NDArray[Any]:
        values = np.array([np.nan if value is None else float(value) for value in column.to_pylist()], dtype=dtype) \
            if column.null_count or str(column.type).startswith(("decimal", "null")) \
            else column.to_numpy(zero_copy_only=False).astype(dtype)  # fmt: skip
        if np.isinf(values).any():
            raise TableError(self.name, f"row {int(np.isinf(values).argmax()) + 1} is not a finite number", column=name)
        return values
