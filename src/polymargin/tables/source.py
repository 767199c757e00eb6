"""Where bytes come from: a path, standard input, an open file; and which format they are in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any, NamedTuple

from polymargin.storage.unpacking import Allowance, gunzip, read_all
from polymargin.tables.table import TableError, suggestion

FORMATS = ("csv", "tsv", "svmlight", "xc", "parquet", "arff", "npz")
_ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".svmlight": "svmlight", ".libsvm": "svmlight", ".svm": "svmlight",
    ".scale": "svmlight", ".parquet": "parquet", ".pq": "parquet", ".arff": "arff", ".npz": "npz",
    ".xc": "xc",
}  # fmt: skip


class Source(NamedTuple):
    """The whole content of a file, its name for messages, its format, and how much memory it may take."""

    name: str
    data: bytes
    format: str
    allowance: Allowance


def open_source(
    path: str | os.PathLike[str] | IO[bytes], format: str | None = None, max_bytes: float | None = None
) -> Source:
    """Reads a path, ``"-"`` (standard input) or a binary file; ``.gz`` is unpacked."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r} is not valid: use one of {', '.join(FORMATS)}{suggestion(format, FORMATS)}")
    name = _name(path)
    data = _read(path, name, max_bytes)
    allowance = Allowance(len(data), max_bytes, lambda message: TableError(name, message))
    if data[:2] == b"\x1f\x8b":
        data = gunzip(data, allowance)
        name = name.removesuffix(".gz")
    if format is None:
        format = format_of(name)
    if not data or data.isspace():
        raise TableError(name, "the file is empty")
    return Source(name, data, format, allowance)


def format_of(name: str) -> str:
    """The format that the file's ending stands for."""
    ending = Path(name).suffix.lower()
    if ending not in _ENDINGS:
        says = f"the ending {ending!r} does not say" if ending else "nothing says"
        raise TableError(name, f"{says} which format this is; name it: {', '.join(FORMATS)} (--format)")
    return _ENDINGS[ending]


def _name(path: Any) -> str:
    if hasattr(path, "read"):
        return str(getattr(path, "name", "<stream>"))
    return "<stdin>" if os.fspath(path) == "-" else os.fspath(path)


def _read(path: Any, name: str, max_bytes: float | None) -> bytes:
    def error(message: str) -> TableError:
        return TableError(name, message)

    if hasattr(path, "read"):
        return read_all(path, max_bytes, error)
    if os.fspath(path) == "-":
        return read_all(sys.stdin.buffer, max_bytes, error)
    try:
        with open(path, "rb") as file:
            return read_all(file, max_bytes, error)
    except FileNotFoundError as problem:
        raise TableError(name, "there is no such file") from problem
    except OSError as problem:
        raise TableError(name, f"cannot be read: {problem.strerror or problem}") from problem
