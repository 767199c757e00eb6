"""`read_table`: a file in any of the formats, as a `Table`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import IO, Any

from scipy import sparse

from polymargin.tables import targets
from polymargin.tables.columns import Columns
from polymargin.tables.formats.arff import ArffFile
from polymargin.tables.formats.arrays import Arrays, ParquetFile, as_floats, read_npz
from polymargin.tables.formats.delimited import DelimitedFile
from polymargin.tables.formats.repository import read_repository
from polymargin.tables.formats.svmlight import read_svmlight
from polymargin.tables.source import Source, open_source
from polymargin.tables.table import Layout, Table, TableError, shown, suggestion

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
    max_bytes: float | None = None,
) -> Table:
    """Read a data file.

    Parameters
    ----------
    path : path, "-" or binary file
        csv, tsv, svmlight (LIBSVM), xc (the Extreme Classification Repository), parquet, arff or npz, also gzipped; "-" is
        standard input; ``dataset:glass`` is a data set of :mod:`polymargin.datasets`.
    target : str or sequence of str, default=None
        The column to predict: a name, or a place counted from 1, or from the end if negative. Several columns as a sequence
        or separated by commas, a range of places as ``"5:8"`` or ``"-6:"``, or the path of Mulan's list of labels
        (``labels.xml``). None: the column named target, class, label or
        y if there is just one, else the last. svmlight and npz files have their own labels.
    multilabel : bool, default=False
        Whether rows have several labels: several target columns of 0 and 1, one target column of labels separated by
        `label_separator`, ``label,label`` in svmlight, a 0/1 matrix ``y`` in npz. Columns and matrices may also hold -1 for
        "known not to have the label"; then 0 means "unknown". Rows of xc files always have; their label matrix is sparse.
    layout : Layout, default=None
        Read as this table was read: same columns by name, same kinds, same labels; a target is taken if the file has one.
        `target` says where, if the file calls it otherwise.
    format : str, default=None
        One of csv, tsv, svmlight, xc, parquet, arff and npz; None: what the name's ending says.
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
    max_bytes : float, default=None
        The most that the table may take in memory. None: the environment variable ``POLYMARGIN_MAX_BYTES``, else half of the
        free memory, or less for a small file: archives that unpack to many times their size are refused.

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
    source, target = open_source(path, format, max_bytes), targets.listed_labels(target)
    if layout is not None:
        multilabel = layout.multilabel
    if source.format in ("svmlight", "xc", "npz"):
        for name, value in (("target", target), ("categorical", categorical), ("drop", drop)):
            if value:
                raise TableError(
                    source.name, f"{source.format} files have no named columns: leave {name} out (--{name})"
                )
        if source.format == "xc":
            return _from_repository(source, multilabel, layout)
        if source.format == "npz":
            return _from_arrays(source, read_npz(source.name, source.data, source.allowance), multilabel, layout)
        return _from_svmlight(source, multilabel, layout, index_base, n_features)
    file: Any
    if source.format == "parquet":
        file = ParquetFile(source.name, source.data, allowance=source.allowance)
    elif source.format == "arff":
        file = ArffFile(source.name, source.data, encoding=encoding, missing=missing, allowance=source.allowance)
    else:
        file = DelimitedFile(
            source.name, source.data, delimiter=delimiter or ("\t" if source.format == "tsv" else None), header=header,
            decimal=decimal, encoding=encoding, missing=missing,
            expected_names=layout.feature_names or () if layout else (), allowance=source.allowance,
        )  # fmt: skip
    if layout is not None:
        return _columns_as_in(file, layout, target, label_separator)
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
    left_out = {*chosen, *drop}
    features = [name for name in file.names if name not in left_out]
    if not features:
        raise TableError(file.name, "no column is left for features")
    if getattr(file, "sparse", False) and not categorical and len(file.numbers(features)) == len(features):
        y, labels = targets.values(file, file.read(chosen, text=set(chosen)), chosen, multilabel, separator)
        return Table(file.read_sparse(features), y, None, (), labels, multilabel, file.name)
    columns = file.read([*features, *chosen], text={*categorical, *chosen})
    y, labels = targets.values(file, columns, chosen, multilabel, separator)
    text = columns.texts_among(features)
    _warn_about_row_names(file.name, columns, text)
    return Table(columns.stacked(features), y, tuple(features), text, labels, multilabel, file.name)


def _columns_as_in(file: Any, layout: Layout, target: Any, separator: str) -> Table:
    present = _target_columns(file, layout, target)
    names = _feature_columns(file, layout, set(present))
    one_column = layout.multilabel and len(present) == 1 < len(layout.targets)
    if layout.multilabel and not present and len(file.names) == len(names) + 1:
        features = set(names)  # labels of several names in one column: it has a name of its own
        present, one_column = [name for name in file.names if name not in features], True
    trained, text_columns = layout.feature_names or names, set(layout.text)
    text = {name for name, known in zip(names, trained, strict=True) if known in text_columns}
    y = None
    if layout.sparse and getattr(file, "sparse", False) and not text and len(file.numbers(names)) == len(names):
        X, columns = file.read_sparse(names), file.read(present, text=set(present))
    else:
        columns = file.read([*names, *present], text={*text, *present}, numeric=set(names) - text)
        X = columns.stacked(names)
    if present and (one_column or not layout.multilabel or len(present) == len(layout.targets)):
        y, _ = targets.values(file, columns, present, layout.multilabel, separator, layout.targets)
    return Table(X, y, layout.feature_names, layout.text, layout.targets, layout.multilabel, file.name)


def _target_columns(file: Any, layout: Layout, target: Any) -> list[str]:
    """The file's target columns: where it was said, else those of the names that the layout has."""
    if target is None:
        known = set(file.names)
        return [name for name in layout.targets if name in known]
    chosen = targets.resolve(file.name, file.names, target, layout.multilabel)
    if layout.multilabel and 1 < len(chosen) != len(layout.targets):
        raise TableError(
            file.name, f"{len(chosen)} target columns, but the model was trained with {len(layout.targets)} labels"
        )
    return chosen


def _feature_columns(file: Any, layout: Layout, targets_here: set[str]) -> list[str]:
    """The columns of the file that are the layout's features: by name, without names by place."""
    wanted, known = layout.feature_names, set(file.names)
    if wanted is not None and known.issuperset(wanted):
        return list(wanted)
    if wanted is None or not file.has_header:
        if wanted is not None and len(file.names) == layout.n_features:
            return list(file.names)
        others = [name for name in file.names if name not in targets_here]
        if len(others) == layout.n_features:
            return others
        raise TableError(
            file.name, f"{len(others)} columns without names, but the model was trained with {layout.n_features} features"
        )
    lost = next(name for name in wanted if name not in known)
    raise TableError(
        file.name, f"there is no column {shown(lost)}, with which the model was trained{suggestion(lost, file.names)}"
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
    X, y = read_svmlight(
        source.name, source.data, multilabel=multilabel, index_base=index_base, n_features=width, allowance=source.allowance
    )
    labels: tuple[str, ...] = layout.targets if layout is not None else ()
    if multilabel:
        rows = [[str(int(label)) if label == int(label) else repr(float(label)) for label in row] for row in y]
        y, labels = targets.matrix_of(source.name, rows, labels or None, source.allowance)
    else:
        y = targets.whole(y)
    X = _fitting(source.name, X, layout)
    return Table(X, y, layout.feature_names if layout is not None else None, (), labels, multilabel, source.name)


def _from_repository(source: Source, multilabel: bool, layout: Layout | None) -> Table:
    if not multilabel:
        raise TableError(source.name, "rows of xc files have several labels: say --multilabel")
    X, Y = read_repository(source.name, source.data, allowance=source.allowance)
    names = layout.targets if layout is not None else tuple(map(str, range(Y.shape[1])))
    if layout is not None and Y.shape[1] != len(names):
        raise TableError(source.name, f"{Y.shape[1]} labels, but the model was trained with {len(names)}")
    feature_names = layout.feature_names if layout is not None else None
    return Table(_fitting(source.name, X, layout), Y, feature_names, (), names, True, source.name)


def _fitting(name: str, X: Any, layout: Layout | None) -> Any:
    """X as the layout has it: sparse or not, with as many columns."""
    if layout is None:
        return X
    if layout.text:
        raise TableError(
            name, f"the model was trained with texts in the column {shown(layout.text[0])}; use a format that has texts"
        )
    if X.shape[1] != layout.n_features:
        raise TableError(name, f"{X.shape[1]} columns, but the model was trained with {layout.n_features} features")
    return X.toarray() if sparse.issparse(X) and not layout.sparse else X


def _must_exist(file: Any, name: str, option: str) -> None:
    if name not in file.names:
        raise TableError(file.name, f"there is no column {shown(name)} ({option}){suggestion(name, file.names)}")


def _warn_about_row_names(source: str, columns: Columns, text: Sequence[str]) -> None:
    for name in text:
        cells = columns.text(name).tolist()
        n_rows, different = len(cells), len(set(cells))
        if different > _MANY_TEXTS and 2 * different > n_rows:
            warnings.warn(
                f"{source}, column {shown(name)}: {different} different texts in {n_rows} rows; if it names the rows, leave "
                f"it out (--drop {shown(name)})",
                stacklevel=3,
            )
