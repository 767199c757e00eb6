"""csv and tsv, with the standard library: names first, then columns of numbers or texts; errors know line and column."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.tables.table import TableError

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
_CHUNK = 10_000  # rows; what a column holds is decided on the first of them
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")

Rows = Iterator[tuple[int, list[str]]]  # line and cells


class DelimitedFile:
    """A csv or tsv file.

    Parameters
    ----------
    name, data
        Its name for messages, and its bytes.
    delimiter : str or None
        None: the one of comma, semicolon and tab that the first line has most of.
    header : bool or None
        Whether the first line holds names. None: it does if it has no number; if it has only numbers it does not.
    decimal : "." or ","
    missing : collection of str
        Cells that stand for a missing value.
    expected_names : collection of str
        Names that only a header would have.
    """

    def __init__(
        self,
        name: str,
        data: bytes,
        *,
        delimiter: str | None = None,
        header: bool | None = None,
        decimal: str = ".",
        encoding: str = "utf-8-sig",
        missing: Collection[str] = (),
        expected_names: Collection[str] = (),
    ):
        self.name = name
        self.missing = frozenset((*MISSING, *missing))
        self.decimal = decimal
        self._text = decode(name, data, encoding)
        self._delimiter = delimiter or _most_frequent_delimiter(self._text)
        line, first = next(self._rows(), (1, []))
        if not first:
            raise TableError(name, "the file has no rows")
        self.has_header = self._is_header(first, expected_names) if header is None else header
        self.names = self._unique(first, line) if self.has_header else [f"column {k + 1}" for k in range(len(first))]

    def read(
        self, wanted: Sequence[str], text: Collection[str] = (), numeric: Collection[str] = ()
    ) -> dict[str, NDArray[Any]]:
        """The columns `wanted`: as texts, as numbers, or as what their first rows hold."""
        parts: dict[str, list[Any]] = {name: [] for name in wanted}
        kinds = {name: "text" if name in text else "number" if name in numeric else "" for name in wanted}
        places = {name: self.names.index(name) for name in wanted}
        shared: dict[str, str] = {}  # equal texts are one object
        for lines, columns in self._chunks():
            for name in wanted:
                cells = columns[places[name]]
                if not kinds[name]:
                    kinds[name] = self._kind_of(name, cells)
                if kinds[name] == "number":
                    parts[name].append(self._numbers(name, cells, lines, forced=name in numeric))
                else:
                    parts[name].extend(self._texts(cells, shared))
        return {name: _joined(parts[name], kinds[name]) for name in wanted}

    def line_of(self, row: int) -> int:
        """The line of a row, counted from 0: for errors found later."""
        return next(islice(self._data_rows(), row, None))[0]

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _rows(self) -> Rows:
        reader = csv.reader(io.StringIO(self._text, newline=""), delimiter=self._delimiter, skipinitialspace=True)
        try:
            for cells in reader:
                if len(cells) > 1 or any(map(str.strip, cells)):
                    yield reader.line_num, cells
        except csv.Error as error:
            raise TableError(
                self.name, f"cannot be read as separated by {self._delimiter!r}: {error}", reader.line_num
            ) from error

    def _data_rows(self) -> Rows:
        return islice(self._rows(), 1 if self.has_header else 0, None)

    def _chunks(self) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
        rows = self._data_rows()
        chunk = list(islice(rows, _CHUNK))
        if not chunk:
            raise TableError(self.name, "the file has a header but no rows")
        width = len(self.names)
        while chunk:
            for line, cells in chunk:
                if len(cells) != width:
                    like = "the header has" if self.has_header else "the first line has"
                    raise TableError(self.name, f"{_counted(len(cells), 'cell')}, but {like} {width}", line)
            yield [line for line, _ in chunk], list(zip(*(cells for _, cells in chunk), strict=True))
            chunk = list(islice(rows, _CHUNK))

    # ---- header -----------------------------------------------------------------------------------------------------

    def _is_header(self, first: list[str], expected: Collection[str]) -> bool:
        if expected and set(expected) <= {cell.strip() for cell in first}:
            return True
        numbers = sum(self._is_number(cell) for cell in first)
        if numbers in (0, len(first)):
            return numbers == 0
        raise TableError(
            self.name,
            "this may be a header or the first row, since it has numbers and texts; say which (--header yes or no)",
            1,
        )

    def _unique(self, first: list[str], line: int) -> list[str]:
        names = [cell.strip() or f"column {k + 1}" for k, cell in enumerate(first)]
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise TableError(self.name, "two columns have this name; rename one", line, name)
            seen.add(name)
        return names

    # ---- cells ------------------------------------------------------------------------------------------------------

    def _float(self, cell: str) -> float:
        return float(cell.replace(",", ".") if self.decimal == "," else cell)

    def _is_number(self, cell: str) -> bool:
        try:
            self._float(cell)
        except ValueError:
            return False
        return True

    def _kind_of(self, name: str, cells: Sequence[str]) -> str:
        present = [cell for cell in map(str.strip, cells) if cell not in self.missing]
        numbers = sum(map(self._is_number, present))
        if 2 * numbers > len(present) or not present:
            return "number"
        if 2 * sum(_DECIMAL_COMMA.fullmatch(cell) is not None for cell in present) > len(present):
            raise TableError(self.name, "these look like numbers with a decimal comma; say --decimal ','", column=name)
        return "text"

    def _numbers(self, name: str, cells: Sequence[str], lines: list[int], forced: bool) -> NDArray[np.float64]:
        try:
            convert = float if self.decimal == "." else self._float
            values = np.fromiter(map(convert, cells), dtype=np.float64, count=len(cells))
        except ValueError:
            values = self._numbers_one_by_one(name, cells, lines, forced)
        if np.isinf(values).any():
            k = int(np.isinf(values).argmax())
            raise TableError(self.name, f"{cells[k].strip()!r} is not a finite number", lines[k], name)
        return values

    def _numbers_one_by_one(self, name: str, cells: Sequence[str], lines: list[int], forced: bool) -> NDArray[np.float64]:
        values = np.full(len(cells), np.nan)
        for k, cell in enumerate(map(str.strip, cells)):
            if cell in self.missing:
                continue
            try:
                values[k] = self._float(cell)
            except ValueError:
                known = "the model was trained with numbers here"
                hint = f"most cells of the column are; if it holds categories, say --categorical {name!r}"
                missing = f"if it means 'missing', say --missing {cell!r}"
                raise TableError(
                    self.name, f"{cell!r} is not a number; {known if forced else hint}; {missing}", lines[k], name
                ) from None
        return values

    def _texts(self, cells: Sequence[str], shared: dict[str, str]) -> list[str]:
        stripped = ("" if cell in self.missing else cell for cell in map(str.strip, cells))
        return [shared.setdefault(cell, cell) for cell in stripped]


def decode(name: str, data: bytes, encoding: str) -> str:
    """The text; an error names the line of the first byte that is none."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TableError(
            name, f"byte 0x{data[error.start]:02x} is not {encoding.removesuffix('-sig')} text; name the encoding, e.g. "
            "--encoding latin-1", line
        ) from error  # fmt: skip
    except LookupError as error:
        raise ValueError(
            f"encoding={encoding!r} is not valid: Python has no such encoding (try utf-8 or latin-1)."
        ) from error
    nul = text.find("\0")
    if nul >= 0:
        raise TableError(name, "there is a NUL byte: this is not a text file", text.count("\n", 0, nul) + 1)
    return text


def _joined(parts: list[Any], kind: str) -> NDArray[Any]:
    if kind == "number":
        return np.concatenate(parts)
    texts = np.empty(len(parts), dtype=object)
    texts[:] = parts
    return texts


def _most_frequent_delimiter(text: str) -> str:
    first = next((line for line in text[:100_000].splitlines() if line.strip()), "")
    return max(",;\t", key=first.count)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
