"""`read_table`: a file in any of the formats, as a `Table`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.tables import targets
from polymargin.tables.arff import ArffFile
from polymargin.tables.arrays import Arrays, ParquetFile, as_floats, read_npz
from polymargin.tables.delimited import DelimitedFile
from polymargin.tables.source import Source, open_source
from polymargin.tables.svmlight import read_svmlight
from polymargin.tables.table import Layout, Table, TableError, suggestion

_MANY_TEXTS = 50  # more different texts than this in over half of the rows: names of the rows, not categories


def read_table(
    path: str | os.PathLike[str] | IO[bytes],
    target: str | Sequence[str] | None = None,
    multilabel: bool = False,
    *,
    layout: Layout | None = None,
    format: str | None = None,
    categorical: Collection[str] = (),
    drop: Collection[str] = (),
    missing: Collection[str] = (),
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8-sig",
    index_base: int = 1,
    n_features: int | None = None,
    label_separator: str = ";",
) -> Table:
    """Read a data file.

    Parameters
    ----------
    path : path, "-" or binary file
        csv, tsv, svmlight (LIBSVM), parquet, arff or npz, also gzipped; "-" is standard input; ``dataset:glass`` is a data
        set of :mod:`polymargin.datasets`.
    target : str or sequence of str, default=None
        The column to predict: a name, or a place counted from 1, or from the end if negative. Several columns as a sequence
        or separated by commas, a range of places as ``"5:8"`` or ``"-6:"``. None: the column named target, class, label or
        y if there is just one, else the last. svmlight and npz files have their own labels.
    multilabel : bool, default=False
        Whether rows have several labels: several target columns of 0 and 1, one target column of labels separated by
        `label_separator`, ``label,label`` in svmlight, a 0/1 matrix ``y`` in npz.
    layout : Layout, default=None
        Read as this table was read: same columns by name, same kinds, same labels; a target is taken if the file has one.
    format : str, default=None
        One of csv, tsv, svmlight, parquet, arff and npz; None: what the name's ending says.
    categorical, drop : collection of str
        Columns to treat as categories although they look like numbers, and columns to leave out.
    missing : collection of str
        Cells that mean a missing value, beside the empty cell, ?, NA, N/A, NaN, nan, null and NULL.
    header, delimiter, decimal, encoding
        Of csv and tsv files; None is to be found out from the first line.
    index_base : 0 or 1, default=1
        Index of the first column in svmlight files. It is not guessed.
    n_features : int, default=None
        Columns of an svmlight file; None: up to the highest index in it.
    label_separator : str, default=";"

    Returns
    -------
    Table

    Raises
    ------
    TableError
        Names the file, the line and the column.

    Examples
    --------
    >>> import io
    >>> from polymargin.tables import read_table
    >>> table = read_table(io.BytesIO(b"a,b,kind\\n1,2,x\\n3,?,y\\n"), format="csv")
    >>> table.X
    array([[ 1.,  2.],
           [ 3., nan]])
    >>> table.y, table.target_name
    (array(['x', 'y'], dtype='<U1'), 'kind')
    """
    if isinstance(path, str) and path.startswith("dataset:"):
        return _from_dataset(path.removeprefix("dataset:"), multilabel, layout)
    source = open_source(path, format)
    if layout is not None:
        multilabel = layout.multilabel
    if source.format in ("svmlight", "npz"):
        for name, value in (("target", target), ("categorical", categorical), ("drop", drop)):
            if value:
                raise TableError(
                    source.name, f"{source.format} files have no named columns: leave {name}={value!r} out (--{name})"
                )
        if source.format == "npz":
            return _from_arrays(source, read_npz(source.name, source.data), multilabel, layout)
        return _from_svmlight(source, multilabel, layout, index_base, n_features)
    file: Any
    if source.format == "parquet":
        file = ParquetFile(source.name, source.data)
    elif source.format == "arff":
        file = ArffFile(source.name, source.data, encoding=encoding, missing=missing)
    else:
        file = DelimitedFile(
            source.name, source.data, delimiter=delimiter or ("\t" if source.format == "tsv" else None), header=header,
            decimal=decimal, encoding=encoding, missing=missing,
            expected_names=layout.feature_names or () if layout else (),
        )  # fmt: skip
    if layout is not None:
        return _columns_as_in(file, layout, label_separator)
    return _columns(file, target, multilabel, categorical, drop, label_separator)


def _from_dataset(name: str, multilabel: bool, layout: Layout | None) -> Table:
    from polymargin.datasets import load

    table = load(name).table
    if table.multilabel != (multilabel if layout is None else layout.multilabel):
        says = "say --multilabel" if table.multilabel else "leave --multilabel out"
        raise TableError(table.source, f"rows have {'several labels' if table.multilabel else 'one label'}: {says}")
    if layout is None:
        return table
    return replace(
        table, X=_fitting(table.source, table.X, layout), feature_names=layout.feature_names, target_names=layout.targets
    )


def _columns(
    file: Any, target: Any, multilabel: bool, categorical: Collection[str], drop: Collection[str], separator: str
) -> Table:
    chosen = targets.resolve(file.name, file.names, target, multilabel)
    for option, names in (("--categorical", categorical), ("--drop", drop)):
        for name in names:
            _must_exist(file, name, option)
    features = [name for name in file.names if name not in chosen and name not in drop]
    if not features:
        raise TableError(file.name, "no column is left for features")
    columns = file.read([*features, *chosen], text={*categorical, *chosen})
    y, labels = targets.values(file, columns, chosen, multilabel, separator)
    text = tuple(name for name in features if columns[name].dtype == object)
    _warn_about_row_names(file.name, columns, text)
    X = _stacked([columns[name] for name in features])
    if getattr(file, "sparse", False) and not text:
        return Table(sparse.csr_matrix(X), y, None, (), labels, multilabel, file.name)
    return Table(X, y, tuple(features), text, labels, multilabel, file.name)


def _columns_as_in(file: Any, layout: Layout, separator: str) -> Table:
    names = _feature_columns(file, layout)
    present = [name for name in layout.targets if name in file.names]
    one_column = layout.multilabel and not present and len(file.names) == len(names) + 1
    if one_column:  # labels of several names in one column: it has a name of its own
        present = [name for name in file.names if name not in names]
    text = [name for name, trained in zip(names, layout.feature_names or names, strict=True) if trained in layout.text]
    columns = file.read([*names, *present], text={*text, *present}, numeric=set(names) - set(text))
    y = None
    if present and (one_column or len(present) == len(layout.targets)):
        y, _ = targets.values(file, columns, present, layout.multilabel, separator, layout.targets)
    X = _stacked([columns[name] for name in names])
    return Table(X, y, layout.feature_names, layout.text, layout.targets, layout.multilabel, file.name)


def _feature_columns(file: Any, layout: Layout) -> list[str]:
    """The columns of the file that are the layout's features: by name, without names by place."""
    wanted = layout.feature_names
    if wanted is not None and set(wanted) <= set(file.names):
        return list(wanted)
    if wanted is None or not file.has_header:
        others = [name for name in file.names if name not in layout.targets] if wanted is None else file.names
        if len(others) == layout.n_features:
            return list(others)
        raise TableError(
            file.name, f"{len(others)} columns without names, but the model was trained with {layout.n_features} features"
        )
    lost = next(name for name in wanted if name not in file.names)
    raise TableError(
        file.name, f"there is no column {lost!r}, with which the model was trained{suggestion(lost, file.names)}"
    )


def _from_arrays(source: Source, arrays: Arrays, multilabel: bool, layout: Layout | None) -> Table:
    X, y = as_floats(arrays.X), arrays.y
    if y is not None and (y.ndim == 2) != multilabel:
        says = (
            "a matrix: say --multilabel for several labels a row"
            if y.ndim == 2
            else "one label a row: leave --multilabel out"
        )
        raise TableError(source.name, f"y has shape {y.shape}, {says}")
    if layout is None and y is None:
        raise TableError(source.name, "there is no y to learn from")
    if y is not None:
        y = targets.checked(source.name, y, multilabel)
    X = _fitting(source.name, X, layout)
    names = arrays.feature_names or tuple(f"column {k + 1}" for k in range(X.shape[1])) if not sparse.issparse(X) else None
    labels = arrays.target_names or (
        tuple(f"label {k + 1}" for k in range(y.shape[1])) if multilabel and y is not None else ()
    )
    if layout is not None:
        names, labels = layout.feature_names, layout.targets
        if y is not None and multilabel and y.shape[1] != len(labels):
            raise TableError(source.name, f"y has {y.shape[1]} labels, but the model was trained with {len(labels)}")
    return Table(X, y, names, (), labels, multilabel, source.name)


def _from_svmlight(
    source: Source, multilabel: bool, layout: Layout | None, index_base: int, n_features: int | None
) -> Table:
    width = layout.n_features if layout is not None else n_features
    X, y = read_svmlight(source.name, source.data, multilabel=multilabel, index_base=index_base, n_features=width)
    labels: tuple[str, ...] = layout.targets if layout is not None else ()
    if multilabel:
        y, labels = targets.matrix_of(source.name, [[f"{label:g}" for label in row] for row in y], labels or None)
    else:
        y = targets.whole(y)
    X = _fitting(source.name, X, layout)
    return Table(X, y, layout.feature_names if layout is not None else None, (), labels, multilabel, source.name)


def _fitting(name: str, X: Any, layout: Layout | None) -> Any:
    """X as the layout has it: sparse or not, with as many columns."""
    if layout is None:
        return X
    if layout.text:
        raise TableError(
            name, f"the model was trained with texts in the column {layout.text[0]!r}; use a format that has texts"
        )
    if X.shape[1] != layout.n_features:
        raise TableError(name, f"{X.shape[1]} columns, but the model was trained with {layout.n_features} features")
    return X.toarray() if sparse.issparse(X) and not layout.sparse else X


def _stacked(columns: list[NDArray[Any]]) -> NDArray[Any]:
    if all(column.dtype != object for column in columns):
        return np.column_stack(columns)
    X = np.empty((len(columns[0]), len(columns)), dtype=object)
    for k, column in enumerate(columns):
        X[:, k] = column
    return X


def _must_exist(file: Any, name: str, option: str) -> None:
    if name not in file.names:
        raise TableError(file.name, f"there is no column {name!r} ({option}){suggestion(name, file.names)}")


def _warn_about_row_names(source: str, columns: dict[str, Any], text: Sequence[str]) -> None:
    for name in text:
        n_rows, different = len(columns[name]), len(set(columns[name].tolist()))
        if different > _MANY_TEXTS and 2 * different > n_rows:
            warnings.warn(
                f"{source}, column {name!r}: {different} different texts in {n_rows} rows; if it names the rows, leave "
                f"it out (--drop {name!r})",
                stacklevel=3,
            )
