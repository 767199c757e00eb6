"""svmlight / LIBSVM / LIBLINEAR: ``label index:value ...``. scikit-learn parses; if it cannot, we look for the line."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from polymargin.storage.unpacking import Allowance
from polymargin.tables.table import TableError, shown

_PAIR = re.compile(r"([^\s:]*):(\S*)$")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_LARGEST = 2**31 - 2  # scikit-learn's reader has indices of 32 bits
_ENTRY, _ROW = 48, 200  # bytes on the way to the matrix, whose arrays grow by doubling


def read_svmlight(
    name: str,
    data: bytes,
    *,
    multilabel: bool,
    index_base: int = 1,
    n_features: int | None = None,
    allowance: Allowance | None = None,
) -> tuple[Any, Any]:
    """X (CSR) and the labels: numbers, or a tuple of numbers per row.

    Neither the base of the indices nor the number of features is guessed: a file whose first column is empty everywhere
    would silently lose it.
    """
    from sklearn.datasets import load_svmlight_file

    if index_base not in (0, 1):
        raise ValueError(f"index_base={index_base!r} is not valid: the first column has index 0 or 1.")
    if allowance is not None:
        allowance.check(_ENTRY * (data.count(b":") + data.count(b",")) + _ROW * data.count(b"\n"), "read, it")
    try:
        X, y = load_svmlight_file(io.BytesIO(data), multilabel=multilabel, zero_based=index_base == 0, n_features=n_features)
        labels = [label for row in y for label in row] if multilabel else y
        sound = bool(np.isfinite(X.data).all()) and bool(np.isfinite(labels).all())
    except (ValueError, OverflowError, IndexError, TypeError) as error:
        _raise_at_fault(name, data, multilabel, index_base, n_features)
        raise TableError(name, f"cannot be read as svmlight: {shown(error, 100)}") from error
    if not sound or X.shape[0] == 0:
        _raise_at_fault(name, data, multilabel, index_base, n_features)
        raise TableError(name, "there are no rows")
    return X, y


def _raise_at_fault(name: str, data: bytes, multilabel: bool, index_base: int, n_features: int | None) -> None:
    """Raises at the first line that is not right; silent if all are."""
    for number, raw in enumerate(data.split(b"\n"), 1):
        line = raw.split(b"#", 1)[0].decode("utf-8", "replace").strip()
        if line:
            _check_line(name, line, number, multilabel, index_base, n_features)


def _check_line(name: str, line: str, number: int, multilabel: bool, index_base: int, n_features: int | None) -> None:
    label, *pairs = line.split()
    if multilabel and ":" in label:
        label, pairs = "", [label, *pairs]  # a row without labels
    for one in label.split(",") if multilabel else [label]:
        if not _is_finite(one) and one:
            hint = "" if multilabel or "," not in one else "; for several labels a row say --multilabel"
            raise TableError(name, f"the label {shown(one)} is not a number{hint}", number)
    last = index_base - 1
    for pair in pairs:
        found = _PAIR.match(pair)
        if found and found[1] == "qid":
            continue
        if found is None or not _WHOLE.fullmatch(found[1]):
            raise TableError(name, f"{shown(pair)} is not index:value", number)
        index = int(found[1])
        if not _is_finite(found[2]):
            raise TableError(name, f"{shown(found[2])} is not a finite number", number, str(index))
        if index < index_base:
            other = "; say --index-base 0 if indices start there" if index == 0 else ""
            raise TableError(name, f"the index {index} is below {index_base}, the first{other}", number)
        if index > _LARGEST:
            raise TableError(name, f"the index {index} is too large: at most {_LARGEST} is read", number)
        if index <= last:
            raise TableError(name, f"the index {index} comes after {last}: indices must rise", number)
        if n_features is not None and index - index_base >= n_features:
            raise TableError(name, f"the index {index} is too large for {n_features} features from {index_base} on", number)
        last = index


def _is_finite(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
