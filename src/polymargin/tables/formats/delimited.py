"""csv and tsv, with the standard library: names first, then columns of numbers or texts; errors know line and column."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter, ne

import numpy as np
from numpy.typing import NDArray

from polymargin.storage.unpacking import Allowance
from polymargin.tables.columns import Columns
from polymargin.tables.table import TableError, shown

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
CHUNK = 10_000  # rows at a time; what a column holds is decided on the first of them that are not missing
CHUNK_CELLS = 2_000_000  # but not more cells than this: wide rows come in fewer at a time
CELL, _CHUNK_CELL, _COLUMN = 24, 72, 400  # bytes that one takes: for good, while its chunk is read, as a column
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
    allowance : Allowance or None
        How much memory the table may take.
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
        allowance: Allowance | None = None,
    ):
        self.name = name
        self.missing = frozenset((*MISSING, *missing))
        self.decimal = decimal
        text = decode(name, data, encoding)
        self._data, self._encoding = for_lines(data, encoding, text)
        self._delimiter = delimiter or _most_frequent_delimiter(text)
        self.allowance = allowance
        self._check_memory(text)
        del text
        line, first = next(self._rows(), (1, []))
        if not first:
            raise TableError(name, "the file has no rows")
        self.has_header = self._is_header(first, expected_names) if header is None else header
        self.names = self._unique(first, line) if self.has_header else [f"column {k + 1}" for k in range(len(first))]

    def read(self, wanted: Sequence[str], text: Collection[str] = (), numeric: Collection[str] = ()) -> Columns:
        """The columns `wanted`: as texts, as numbers, or as what their first rows hold."""
        places = {name: k for k, name in enumerate(self.names)}
        table = _Growing(wanted, text, numeric)
        for lines, rows in self._chunks([places[name] for name in wanted]):
            block = self._all_numbers(rows, table.numbers)
            if block is None:  # missing values, or texts
                block = self._some_numbers(table, lines, rows, numeric)
            else:
                table.open.clear()
            self._check_finite(table, block, rows, lines)
            table.add(block, {k: self._texts([row[k] for row in rows], table.shared) for k in table.texts})
        return table.columns()

    def line_of(self, row: int) -> int:
        """The line of a row, counted from 0: for errors found later."""
        return next(islice(self._data_rows(), row, None))[0]

    def _check_memory(self, text: str) -> None:
        """Cells become Python objects a chunk at a time, then numbers."""
        if self.allowance is None:
            return
        end = text.find("\n")
        width = text.count(self._delimiter, 0, end if end >= 0 else len(text)) + 1
        cells = text.count(self._delimiter) + text.count("\n") + 1
        self.allowance.check(
            2 * len(text) + CELL * cells + _CHUNK_CELL * min(cells, max(width, CHUNK_CELLS)) + _COLUMN * width, "read, it"
        )

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _rows(self) -> Rows:
        lines = text_of(self._data, self._encoding, newline="")
        reader = csv.reader(lines, delimiter=self._delimiter, skipinitialspace=True)
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

    def _chunks(self, places: Sequence[int]) -> Iterator[tuple[list[int], list[Sequence[str]]]]:
        """Lines and rows, of each the cells of these columns."""
        rows, width = self._data_rows(), len(self.names)
        pick = _picker(places) if len(places) != width or any(map(ne, places, range(width))) else None
        most = max(1, min(CHUNK, CHUNK_CELLS // width))
        chunk = list(islice(rows, most))
        if not chunk:
            raise TableError(self.name, "the file has a header but no rows")
        while chunk:
            for line, cells in chunk:
                if len(cells) != width:
                    like = "the header has" if self.has_header else "the first line has"
                    raise TableError(self.name, f"{_counted(len(cells), 'cell')}, but {like} {width}", line)
            yield [line for line, _ in chunk], [pick(cells) if pick else cells for _, cells in chunk]
            chunk = list(islice(rows, most))

    # ---- header -----------------------------------------------------------------------------------------------------

    def _is_header(self, first: list[str], expected: Collection[str]) -> bool:
        if expected and set(expected) <= {cell.strip() for cell in first}:
            return True
        numbers = sum(map(self._is_number, first))
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

    def _all_numbers(self, rows: Sequence[Sequence[str]], columns: Sequence[int]) -> NDArray[np.float64] | None:
        """Cells of many columns at once; None if one of them is not a number."""
        convert = float if self.decimal == "." else self._float
        cells = chain.from_iterable(map(_picker(columns), rows))
        try:
            return np.fromiter(map(convert, cells), np.float64, len(rows) * len(columns)).reshape(len(rows), len(columns))
        except ValueError:
            return None

    def _some_numbers(
        self, table: _Growing, lines: list[int], rows: Sequence[Sequence[str]], numeric: Collection[str]
    ) -> NDArray[np.float64]:
        """The same column by column, after it has been decided which of them hold texts."""
        cells = list(zip(*rows, strict=True))
        table.make_texts([k for k in list(table.open) if self._is_text(table, k, cells[k])])
        block = np.empty((len(rows), len(table.numbers)))
        for values, k in zip(block.T, table.numbers, strict=True):
            self._fill(values, table.wanted[k], cells[k], lines, forced=table.wanted[k] in numeric)
        return block

    def _is_text(self, table: _Growing, k: int, cells: Sequence[str]) -> bool:
        """Whether a column holds texts: the first cells that are not missing say; until then it is open."""
        present = [cell for cell in map(str.strip, cells) if cell not in self.missing]
        if not present:
            return False
        table.open.discard(k)
        if 2 * sum(map(self._is_number, present)) > len(present):
            return False
        if 2 * sum(_DECIMAL_COMMA.fullmatch(cell) is not None for cell in present) > len(present):
            name = table.wanted[k]
            raise TableError(self.name, "these look like numbers with a decimal comma; say --decimal ','", column=name)
        return True

    def _fill(
        self, values: NDArray[np.float64], name: str, cells: Sequence[str], lines: list[int], *, forced: bool
    ) -> None:
        """Numbers one by one; missing ones are NaN."""
        convert = float if self.decimal == "." else self._float
        try:
            values[:] = list(map(convert, cells))
            return
        except ValueError:
            values[:] = np.nan
        for k, cell in enumerate(map(str.strip, cells)):
            if cell in self.missing:
                continue
            try:
                values[k] = self._float(cell)
            except ValueError:
                known = "the model was trained with numbers here"
                hint = f"most cells of the column are; if it holds categories, say --categorical {shown(name)}"
                missing = f"if it means 'missing', say --missing {shown(cell)}"
                raise TableError(
                    self.name, f"{shown(cell)} is not a number; {known if forced else hint}; {missing}", lines[k], name
                ) from None

    def _check_finite(
        self, table: _Growing, block: NDArray[np.float64], rows: Sequence[Sequence[str]], lines: list[int]
    ) -> None:
        if np.isinf(block).any():
            row, place = np.argwhere(np.isinf(block))[0]
            k = table.numbers[place]
            raise TableError(
                self.name, f"{shown(rows[row][k].strip())} is not a finite number", lines[row], table.wanted[k]
            )

    def _texts(self, cells: Sequence[str], shared: dict[str, str]) -> list[str]:
        stripped = ("" if cell in self.missing else cell for cell in map(str.strip, cells))
        return [shared.setdefault(cell, cell) for cell in stripped]


class _Growing:
    """Columns in the making. Places are those in `wanted`.

    `open` are columns of which only missing values have been seen: numbers, until a text shows up.
    """

    def __init__(self, wanted: Sequence[str], text: Collection[str], numeric: Collection[str]):
        self.wanted = wanted
        self.texts: dict[int, list[str]] = {k: [] for k, name in enumerate(wanted) if name in text}
        self.numbers = [k for k in range(len(wanted)) if k not in self.texts]
        self.open = {k for k in self.numbers if wanted[k] not in numeric}
        self.shared: dict[str, str] = {}  # equal texts are one object
        self._n_rows = 0
        self._blocks: list[tuple[list[int], NDArray[np.float64]]] = []  # columns change while some are open

    def make_texts(self, columns: Sequence[int]) -> None:
        self.texts |= {k: [""] * self._n_rows for k in columns}
        self.numbers = [k for k in self.numbers if k not in self.texts]

    def add(self, block: NDArray[np.float64], texts: Mapping[int, list[str]]) -> None:
        self._blocks.append((self.numbers, block))
        self._n_rows += len(block)
        for k, cells in texts.items():
            self.texts[k].extend(cells)

    def columns(self) -> Columns:
        texts = {}
        for k, cells in self.texts.items():
            texts[self.wanted[k]] = np.empty(len(cells), dtype=object)
            texts[self.wanted[k]][:] = cells
        blocks = [
            block if numbers == self.numbers else block[:, np.isin(numbers, self.numbers)] for numbers, block in self._blocks
        ]
        matrix = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return Columns([self.wanted[k] for k in self.numbers], matrix, texts)


def _picker(places: Sequence[int]) -> Callable[[Sequence[str]], Sequence[str]]:
    """From a row its cells at these places."""
    return itemgetter(*places) if len(places) > 1 else lambda cells: [cells[place] for place in places]


def for_lines(data: bytes, encoding: str, text: str) -> tuple[bytes, str]:
    """Bytes of a text, and an encoding that gives it back piece by piece as well as at once; UTF-16 for one does not."""
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii", "iso8859-1", "cp1252"):
        return data, encoding
    return text.encode("utf-8", "surrogatepass"), "utf-8"


def text_of(data: bytes, encoding: str, newline: str | None) -> io.TextIOWrapper:
    """What `for_lines` has prepared, line by line: not all of it is in memory at once."""
    return io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors="surrogatepass", newline=newline)


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


def _most_frequent_delimiter(text: str) -> str:
    first = next((line for line in text[:100_000].splitlines() if line.strip()), "")
    return max(",;\t", key=first.count)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
