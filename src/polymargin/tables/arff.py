"""ARFF: a header that names and types the columns, then rows like csv, or sparse rows ``{3 1.5, 7 red}``."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from polymargin.tables.delimited import MISSING, DelimitedFile, Rows, decode
from polymargin.tables.table import TableError

_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(\{.*\}|\S.*)$""", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")


class ArffFile(DelimitedFile):
    """An ARFF file; its columns have their types from the header, and ``{0, 1}`` counts as a number."""

    def __init__(self, name: str, data: bytes, *, encoding: str = "utf-8-sig", missing: Collection[str] = ()):
        self.name, self.decimal, self.has_header = name, ".", False
        self.missing = frozenset((*MISSING, *missing))
        self._lines = decode(name, data, encoding).splitlines()
        self._kinds: list[str | tuple[str, ...]] = []
        first: list[str] = []
        self._start = self._read_header(first)
        self.names = self._unique(first, 1)
        data_lines = (line.strip() for line in self._lines[self._start :])
        self.sparse = next((line for line in data_lines if line and line[0] != "%"), "").startswith("{")

    def read(
        self, wanted: Sequence[str], text: Collection[str] = (), numeric: Collection[str] = ()
    ) -> dict[str, NDArray[Any]]:
        kinds = dict(zip(self.names, self._kinds, strict=True))
        numbers = {name for name in wanted if kinds[name] in ("number", ("0", "1")) and name not in text}
        return super().read(wanted, set(wanted) - numbers - set(numeric), numbers | set(numeric))

    def _read_header(self, names: list[str]) -> int:
        for number, raw in enumerate(self._lines, 1):
            line = raw.strip()
            word = line.split(None, 1)[0].lower() if line else "%"
            if word == "@data":
                if not names:
                    raise TableError(self.name, "@data comes before any @attribute", number)
                return number
            if word == "@attribute":
                found = _ATTRIBUTE.match(line)
                if found is None:
                    raise TableError(self.name, f"{line!r} is not '@attribute name type'", number)
                names.append(_unquoted(found[1]))
                self._kinds.append(self._kind(found[2].strip(), number, names[-1]))
            elif not word.startswith("%") and word != "@relation":
                raise TableError(self.name, f"{line[:40]!r} is not part of an ARFF header", number)
        raise TableError(self.name, "there is no @data line: this is not an ARFF file, or it was cut off")

    def _kind(self, declared: str, line: int, column: str) -> str | tuple[str, ...]:
        if declared.startswith("{"):
            if not declared.endswith("}"):
                raise TableError(self.name, "the list of values has no closing brace", line, column)
            return tuple(cell.strip() for cell in self._cells(declared[1:-1], line))
        word = declared.split()[0].lower()
        if word in _NUMERIC:
            return "number"
        if word == "string":
            return "text"
        raise TableError(self.name, f"the type {word!r} is not read: numeric, string or a list {{a, b}} are", line, column)

    def _cells(self, line: str, number: int) -> list[str]:
        quote = "'" if "'" in line else '"'
        try:
            return next(csv.reader([line], quotechar=quote, escapechar="\\", skipinitialspace=True, strict=True), [])
        except csv.Error as error:
            raise TableError(self.name, f"cannot be read: {error}", number) from error

    def _rows(self) -> Rows:
        for number, raw in enumerate(self._lines[self._start :], self._start + 1):
            line = raw.strip()
            if line and not line.startswith("%"):
                yield number, self._sparse_cells(line, number) if self.sparse else self._checked(line, number)

    def _checked(self, line: str, number: int) -> list[str]:
        cells = self._cells(line, number)
        for name, kind, cell in zip(self.names, self._kinds, map(str.strip, cells), strict=False):
            if isinstance(kind, tuple) and cell not in kind and cell not in self.missing:
                raise TableError(self.name, f"{cell!r} is not one of the declared {', '.join(kind)}", number, name)
        return cells

    def _sparse_cells(self, line: str, number: int) -> list[str]:
        if not (line.startswith("{") and line.endswith("}")):
            raise TableError(self.name, "a sparse row is written {index value, ...}", number)
        cells = [kind[0] if isinstance(kind, tuple) else "0" for kind in self._kinds]
        for place, value in self._pairs(line[1:-1], number):
            cells[place] = value
        return cells

    def _pairs(self, inside: str, number: int) -> Iterator[tuple[int, str]]:
        for pair in self._cells(inside, number) if inside.strip() else []:
            index, _, value = pair.strip().partition(" ")
            if not index.isdigit() or int(index) >= len(self.names) or not value.strip():
                raise TableError(
                    self.name, f"{pair.strip()!r} is not 'index value' with an index below {len(self.names)}", number
                )
            yield int(index), _unquoted(value.strip())


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name[:1] in ("'", '"') and len(name) > 1 else name
