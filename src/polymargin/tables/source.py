"""Where bytes come from: a path, standard input, an open file; and which format they are in."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

from polymargin.tables.table import TableError, suggestion

FORMATS = ("csv", "tsv", "svmlight", "parquet", "arff", "npz")
_ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".svmlight": "svmlight", ".libsvm": "svmlight", ".svm": "svmlight",
    ".scale": "svmlight", ".parquet": "parquet", ".pq": "parquet", ".arff": "arff", ".npz": "npz",
}  # fmt: skip


class Source(NamedTuple):
    """The whole content of a file, its name for messages, and its format."""

    name: str
    data: bytes
    format: str


def open_source(path: str | os.PathLike[str] | IO[bytes], format: str | None = None) -> Source:
    """Reads a path, ``"-"`` (standard input) or a binary file; ``.gz`` is unpacked."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r} is not valid: use one of {', '.join(FORMATS)}{suggestion(format, FORMATS)}")
    name, data = _read(path)
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise TableError(name, f"the gzip archive is damaged: {error}") from error
        name = name.removesuffix(".gz")
    if format is None:
        format = format_of(name)
    if not data.strip():
        raise TableError(name, "the file is empty")
    return Source(name, data, format)


def format_of(name: str) -> str:
    """The format that the file's ending stands for."""
    ending = Path(name).suffix.lower()
    if ending not in _ENDINGS:
        says = f"the ending {ending!r} does not say" if ending else "nothing says"
        raise TableError(name, f"{says} which format this is; name it: {', '.join(FORMATS)} (--format)")
    return _ENDINGS[ending]


def _read(path: Any) -> tuple[str, bytes]:
    if hasattr(path, "read"):
        return str(getattr(path, "name", "<stream>")), path.read()
    if os.fspath(path) == "-":
        return "<stdin>", sys.stdin.buffer.read()
    try:
        return os.fspath(path), Path(path).read_bytes()
    except FileNotFoundError as error:
        raise TableError(os.fspath(path), "there is no such file") from error
    except OSError as error:
        raise TableError(os.fspath(path), f"cannot be read: {error.strerror or error}") from error
