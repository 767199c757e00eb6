"""Tables as files: csv, tsv, svmlight, npz, parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.tables.source import FORMATS
from polymargin.tables.table import Table, TableError, suggestion


def table_bytes(table: Table, format: str, *, index_base: int = 1) -> tuple[bytes, str]:
    """The file's content, and a remark if something could not be kept as it was."""
    if format not in _WRITERS:
        raise ValueError(f"tables are not written as {format!r}, but as {', '.join(_WRITERS)}{suggestion(format, FORMATS)}")
    if sparse.issparse(table.y):
        table = replace(table, y=table.y.toarray())
    if format == "svmlight":
        return _svmlight(table, index_base)
    return _WRITERS[format](table), ""


def _names(table: Table) -> list[str]:
    return list(table.feature_names or (f"column {k + 1}" for k in range(table.n_features)))


def _target_columns(table: Table) -> dict[str, NDArray[Any]]:
    if table.y is None:
        return {}
    if table.multilabel:
        return {name: table.y[:, k] for k, name in enumerate(table.target_names)}
    return {table.target_names[0] if table.target_names else "target": table.y}


def _columns(table: Table) -> dict[str, NDArray[Any]]:
    X = table.X.toarray() if table.sparse else table.X
    columns, text = {}, set(table.text)
    for k, name in enumerate(_names(table)):
        columns[name] = X[:, k] if name in text else X[:, k].astype(X.dtype if X.dtype != object else np.float64)
    return {**columns, **_target_columns(table)}


def _csv(table: Table, delimiter: str = ",") -> bytes:
    columns = _columns(table)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_cells(column) for column in columns.values()), strict=True))
    return out.getvalue().encode("utf-8")


def _cells(column: NDArray[Any]) -> list[Any]:
    """Shortest texts that give the same floats back; whole numbers without a point; missing values empty."""
    if column.dtype.kind != "f":
        return column.tolist()
    return [
        "" if value != value else str(int(value)) if value == int(value) and abs(value) < 1e15 else str(value)
        for value in column
    ]


def _npz(table: Table) -> bytes:
    if table.text:
        raise TableError(table.source, "npz files here hold numbers; this column holds texts", column=table.text[0])
    arrays: dict[str, Any] = {"X": table.X}
    if table.sparse:
        X = table.X
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    elif table.feature_names:
        arrays["feature_names"] = np.array(table.feature_names)
    if table.y is not None:
        arrays["y"] = table.y
    if table.target_names:
        arrays["target_names"] = np.array(table.target_names)
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _parquet(table: Table) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise TableError(table.source, "parquet needs pyarrow: pip install 'polymargin[parquet]'") from error
    columns = {}
    for name, column in _columns(table).items():
        texts = column.dtype.kind in "OU"
        columns[name] = (
            pyarrow.array([cell or None for cell in column.tolist()]) if texts else pyarrow.array(column, from_pandas=True)
        )
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()


def _svmlight(table: Table, index_base: int) -> tuple[bytes, str]:
    from sklearn.datasets import dump_svmlight_file

    if table.text:
        raise TableError(table.source, "svmlight files hold numbers; this column holds texts", column=table.text[0])
    if not table.sparse and np.isnan(table.X).any():
        raise TableError(table.source, "svmlight files have no missing values; fill them in first")
    y, remark = table.y if table.y is not None else np.zeros(table.n_rows), ""
    if not table.multilabel and y.dtype.kind not in "biuf":
        names, y = np.unique(y, return_inverse=True)
        remark = "labels: " + ", ".join(f"{k} = {name}" for k, name in enumerate(names.tolist()))
    out = io.BytesIO()
    dump_svmlight_file(table.X, y, out, zero_based=index_base == 0, multilabel=table.multilabel)
    return out.getvalue(), remark


_WRITERS: dict[str, Callable[[Table], bytes]] = {
    "csv": _csv,
    "tsv": lambda table: _csv(table, "\t"),
    "npz": _npz,
    "parquet": _parquet,
    "svmlight": lambda table: _svmlight(table, 1)[0],
}
