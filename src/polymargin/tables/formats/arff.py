"""ARFF: a header that names and types the columns, then rows like csv, or sparse rows ``{3 1.5, 7 red}``."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import numpy as np
from scipy import sparse

from polymargin.storage.unpacking import Allowance
from polymargin.tables.columns import Columns
from polymargin.tables.formats.delimited import (
    CELL,
    CHUNK,
    CHUNK_CELLS,
    MISSING,
    DelimitedFile,
    Rows,
    decode,
    for_lines,
    text_of,
)
from polymargin.tables.table import TableError, shown

_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(\{.*\}|\S.*)$""", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")
_INDEX = re.compile(r"[0-9]{1,18}")
_PAIR = 24  # bytes of an index and a value, on their way to the matrix


class ArffFile(DelimitedFile):
    """An ARFF file; its columns have their types from the header, and ``{0, 1}`` counts as a number."""

    def __init__(
        self,
        name: str,
        data: bytes,
        *,
        encoding: str = "utf-8-sig",
        missing: Collection[str] = (),
        allowance: Allowance | None = None,
    ):
        self.name, self.decimal, self.has_header = name, ".", False
        self.missing = frozenset((*MISSING, *missing))
        self._delimiter, self.allowance = ",", allowance
        text = decode(name, data, encoding)
        self._data, self._encoding = for_lines(data, encoding, text)
        self._kinds: list[str | tuple[str, ...]] = []
        first: list[str] = []
        self._start = self._read_header(first)
        self.names = self._unique(first, 1)
        self._values = [frozenset(kind) if isinstance(kind, tuple) else None for kind in self._kinds]
        self.sparse = next((line for _, line in self._data_lines()), "").startswith("{")
        self._n_lines = text.count("\n") + 1 - self._start
        if not self.sparse:
            self._check_memory(text)
        elif allowance is not None:
            allowance.check(2 * len(text) + _PAIR * (text.count(",") + self._n_lines), "read, it")

    def read(self, wanted: Sequence[str], text: Collection[str] = (), numeric: Collection[str] = ()) -> Columns:
        if self.sparse and self.allowance is not None:  # columns of texts, and targets, are dense
            self.allowance.check(CELL * self._n_lines * len(wanted), f"{len(wanted)} dense columns")
        numbers = self.numbers(wanted) - set(text)
        return super().read(wanted, set(wanted) - numbers - set(numeric), numbers | set(numeric))

    def numbers(self, wanted: Sequence[str]) -> set[str]:
        """Those columns that are declared as numbers."""
        numeric = {name for name, kind in zip(self.names, self._kinds, strict=True) if kind in ("number", ("0", "1"))}
        return numeric.intersection(wanted)

    def read_sparse(self, wanted: Sequence[str]) -> sparse.csr_matrix:
        """Columns of numbers as a CSR matrix, without a dense one in between."""
        place_of = {name: place for place, name in enumerate(self.names)}
        columns = {place_of[name]: k for k, name in enumerate(wanted)}
        data: list[float] = []
        indices: list[int] = []
        indptr = [0]
        for number, line in self._data_lines():
            for place, cell in self._pairs(line, number):
                if place in columns:
                    data.append(self._number(cell, number, self.names[place]))
                    indices.append(columns[place])
            indptr.append(len(data))
        shape = (len(indptr) - 1, len(wanted))
        X = sparse.csr_matrix((np.array(data, dtype=np.float64), np.array(indices, dtype=np.int64), indptr), shape=shape)
        X.sort_indices()
        X.eliminate_zeros()
        return X

    def line_of(self, row: int) -> int:
        return next(islice(self._data_lines(), row, None))[0]

    # ---- header -----------------------------------------------------------------------------------------------------

    def _read_header(self, names: list[str]) -> int:
        for number, raw in enumerate(text_of(self._data, self._encoding, None), 1):
            line = raw.strip()
            word = line.split(None, 1)[0].lower() if line else "%"
            if word == "@data":
                if not names:
                    raise TableError(self.name, "@data comes before any @attribute", number)
                return number
            if word == "@attribute":
                found = _ATTRIBUTE.match(line)
                if found is None:
                    raise TableError(self.name, f"{shown(line)} is not '@attribute name type'", number)
                names.append(_unquoted(found[1]))
                self._kinds.append(self._kind(found[2].strip(), number, names[-1]))
            elif not word.startswith("%") and word != "@relation":
                raise TableError(self.name, f"{shown(line)} is not part of an ARFF header", number)
        raise TableError(self.name, "there is no @data line: this is not an ARFF file, or it was cut off")

    def _kind(self, declared: str, line: int, column: str) -> str | tuple[str, ...]:
        if declared.startswith("{"):
            if not declared.endswith("}"):
                raise TableError(self.name, "the list of values has no closing brace", line, column)
            values = tuple(cell.strip() for cell in self._cells(declared[1:-1], line))
            if not values:
                raise TableError(self.name, "the list of values is empty", line, column)
            return values
        word = declared.split()[0].lower()
        if word in _NUMERIC:
            return "number"
        if word == "string":
            return "text"
        raise TableError(
            self.name, f"the type {shown(word)} is not read: numeric, string or a list {{a, b}} are", line, column
        )

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _data_lines(self) -> Iterator[tuple[int, str]]:
        """Number and content of the lines after the header that are neither empty nor comments."""
        lines = text_of(self._data, self._encoding, None)
        for number, raw in enumerate(islice(lines, self._start, None), self._start + 1):
            line = raw.strip()
            if line and not line.startswith("%"):
                yield number, line

    def _rows(self) -> Rows:
        return ((number, self._checked(line, number)) for number, line in self._data_lines())

    def _chunks(self, places: Sequence[int]) -> Iterator[tuple[list[int], list[Sequence[str]]]]:
        """Sparse rows are not made dense but for the columns that are asked for."""
        if not self.sparse:
            yield from super()._chunks(places)
            return
        left_out, column = [self._left_out(place) for place in places], {place: k for k, place in enumerate(places)}
        lines, most = self._data_lines(), max(1, min(CHUNK, CHUNK_CELLS // max(1, len(places))))
        while chunk := list(islice(lines, most)):
            rows: list[Sequence[str]] = []
            for number, line in chunk:
                cells = left_out.copy()
                for place, value in self._pairs(line, number):
                    if place in column:
                        cells[column[place]] = value
                rows.append(cells)
            yield [number for number, _ in chunk], rows

    def _cells(self, line: str, number: int) -> list[str]:
        quote = "'" if "'" in line else '"'
        try:
            return next(csv.reader([line], quotechar=quote, escapechar="\\", skipinitialspace=True, strict=True), [])
        except csv.Error as error:
            raise TableError(self.name, f"cannot be read: {error}", number) from error

    def _checked(self, line: str, number: int) -> list[str]:
        cells = self._cells(line, number)
        for place, (values, cell) in enumerate(zip(self._values, map(str.strip, cells), strict=False)):
            if values is not None and cell not in values:
                self._check_value(place, cell, number)
        return cells

    def _check_value(self, place: int, cell: str, number: int) -> None:
        values, kind = self._values[place], self._kinds[place]
        if values is not None and cell not in values and cell not in self.missing:
            few = ", ".join(map(shown, kind[:5])) + (", …" if len(kind) > 5 else "")
            raise TableError(self.name, f"{shown(cell)} is not one of the declared {few}", number, self.names[place])

    # ---- sparse rows ------------------------------------------------------------------------------------------------

    def _left_out(self, place: int) -> str:
        """The cell that a sparse row does not mention."""
        kind = self._kinds[place]
        return kind[0] if isinstance(kind, tuple) else "0"

    def _pairs(self, line: str, number: int) -> Iterator[tuple[int, str]]:
        if not (line.startswith("{") and line.endswith("}")):
            raise TableError(self.name, "a sparse row is written {index value, ...}", number)
        inside, seen = line[1:-1], set()
        for pair in self._cells(inside, number) if inside.strip() else []:
            index, _, value = pair.strip().partition(" ")
            if not _INDEX.fullmatch(index) or int(index) >= len(self.names) or not value.strip():
                raise TableError(
                    self.name, f"{shown(pair.strip())} is not 'index value' with an index below {len(self.names)}", number
                )
            place, cell = int(index), _unquoted(value.strip())
            if place in seen:
                raise TableError(self.name, f"the index {place} comes twice", number, self.names[place])
            seen.add(place)
            self._check_value(place, cell, number)
            yield place, cell

    def _number(self, cell: str, line: int, column: str) -> float:
        if cell in self.missing:
            return float("nan")
        try:
            value = float(cell)
        except ValueError:
            raise TableError(self.name, f"{shown(cell)} is not a number", line, column) from None
        if value in (float("inf"), float("-inf")):
            raise TableError(self.name, f"{shown(cell)} is not a finite number", line, column)
        return value


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name[:1] in ("'", '"') and len(name) > 1 else name
