"""What every reader returns: a `Table`; its `Layout`, by which later files are read in the same way; its errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

_SUGGESTIONS, _LONGEST = 5_000, 100  # names that are compared with a wrong one, and how long that one may be


class TableError(ValueError):
    """A data file that cannot be read as asked: names the file, and the line and column where there are any."""

    def __init__(self, source: str, message: str, line: int | None = None, column: str | None = None):
        place = [source]
        if line is not None:
            place.append(f"line {line}")
        if column is not None:
            place.append(f"column {shown(column)}")
        super().__init__(f"{', '.join(place)}: {message}")
        self.source, self.line, self.column = source, line, column


def shown(text: object, most: int = 40) -> str:
    """A cell or name of a file in a message: in quotes, cut, with control characters written out."""
    text = str(text)
    return repr(text if len(text) <= most else text[:most] + "…")


def few(names: Iterable[object], most: int = 8) -> str:
    """Some names in a message, and how many there are in all."""
    listed = [shown(name) for name in names]
    return ", ".join(listed[:most]) + (f", ... ({len(listed)} in all)" if len(listed) > most else "")


@dataclass(frozen=True)
class Layout:
    """How the rows of a table are laid out: what a model must know to read another file. JSON-able.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
        None for sparse data, whose columns have numbers only.
    text : tuple of str
        Names of the features that hold categories.
    targets : tuple of str
        Names of the target columns; empty if the file format has none (svmlight, npz).
    multilabel : bool
    sparse : bool
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    text: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    multilabel: bool = False
    sparse: bool = False

    def to_json(self) -> dict[str, Any]:
        """A dictionary of numbers, strings and lists."""
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return lists

    @classmethod
    def from_json(cls, stored: Any) -> Layout:
        """The layout that `to_json` described; ValueError if it is not one."""
        problem = ValueError("the stored layout of the data is damaged")
        if not isinstance(stored, Mapping) or set(stored) != set(cls.__dataclass_fields__):
            raise problem
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}
        names = [*(values["feature_names"] or ()), *values["text"], *values["targets"]]
        if not isinstance(values["n_features"], int) or not all(isinstance(name, str) for name in names):
            raise problem
        if values["feature_names"] is not None and len(values["feature_names"]) != values["n_features"]:
            raise problem
        return cls(**values)


@dataclass(frozen=True)
class Table:
    """Rows of a data file, ready for `make_preprocessor` and a machine.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features), or CSR matrix
        float64 or float32 if all features are numbers, missing values NaN; else dtype object: floats in the numeric columns,
        strings in those named by `text`, missing texts ``""``. Data frames are not used, so pandas is not needed.
    y : ndarray, CSR matrix or None
        Labels, strings or numbers as in the file; with several labels a row a 0/1 matrix of shape (n_rows, n_labels), sparse
        if the file's format is. None if the file has no target and none was asked for.
    feature_names : tuple of str or None
        None for sparse data.
    text : tuple of str
        Names of the features that hold categories.
    target_names : tuple of str
        Name of the target column; the names of the labels if there are several labels a row.
    multilabel : bool
    source : str
        The file (or data set) the rows came from, for messages.
    """

    X: Any
    y: Any
    feature_names: tuple[str, ...] | None
    text: tuple[str, ...]
    target_names: tuple[str, ...]
    multilabel: bool
    source: str

    @property
    def target_name(self) -> str | None:
        """The target column, or the labels separated by commas; None if the file does not name them."""
        return ", ".join(self.target_names) or None

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def sparse(self) -> bool:
        return bool(sparse.issparse(self.X))

    @property
    def layout(self) -> Layout:
        """What to give to :func:`read_table` to read another file in the same way."""
        return Layout(self.n_features, self.feature_names, self.text, self.target_names, self.multilabel, self.sparse)

    def describe(self) -> str:
        """One line: source, size, and what is to be predicted."""
        kind = f"{len(self.text)} of them text" if self.text else "sparse" if self.sparse else "numeric"
        line = f"{self.source}: {self.n_rows} rows, {self.n_features} features ({kind})"
        if self.y is None:
            return line
        if self.multilabel:
            return f"{line}, {self.y.shape[1]} labels"
        named = f" (target {shown(self.target_name)})" if self.target_names else ""
        return f"{line}, {len(np.unique(self.y))} classes{named}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' if a known name is close, else nothing. Only the first of very many are looked at."""
    alike = [one for one in islice(known, _SUGGESTIONS) if len(one) <= 2 * len(name) + 2]
    same = [one for one in alike if one.lower() == name.lower()]
    close = same or (difflib.get_close_matches(name, alike, n=1) if len(name) <= _LONGEST else [])
    return f"; did you mean {close[0]!r}?" if close else ""
