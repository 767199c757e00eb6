"""Which columns are the target, and labels from their cells."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.storage.unpacking import Allowance
from polymargin.tables.columns import Columns
from polymargin.tables.table import TableError, shown, suggestion

_USUAL = ("target", "class", "label", "y")
_LABEL = re.compile(r"""<label\s[^<>]*?\bname\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LARGEST_LIST = 50_000_000  # bytes
_RANGE = re.compile(r"(-?\d{1,18})?:(-?\d{1,18})?")


def listed_labels(target: Any) -> Any:
    """The names of a label list of Mulan (``<label name="..."/>``, one inside the other or not) in the place of its path."""
    if not isinstance(target, str) or not target.lower().endswith(".xml"):
        return target
    path = Path(target)
    if not path.is_file():
        return target  # a column may be called so
    if path.stat().st_size > _LARGEST_LIST:
        raise TableError(target, f"a list of labels of more than {_LARGEST_LIST // 1_000_000} MB")
    text = _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
    names = [html.unescape(found[1] or found[2]) for found in _LABEL.finditer(text)]
    if not names:
        raise TableError(target, 'no <label name="..."> in the list of labels')
    return names


def resolve(source: str, names: Sequence[str], target: str | Sequence[str] | None, multilabel: bool) -> list[str]:
    """Names of the target columns."""
    if target is None:
        if multilabel:
            raise TableError(
                source, "say which columns are the labels, e.g. --target first,second or --target -6: for the last six"
            )
        usual = [name for name in names if name.lower() in _USUAL]
        return usual if len(usual) == 1 else [names[-1]]
    known = frozenset(names)
    if isinstance(target, str):
        target = [target] if target in known else [part.strip() for part in target.split(",")]
    chosen = [name for part in target for name in ([part] if part in known else _by_place(source, names, str(part)))]
    if len(set(chosen)) < len(chosen):
        raise TableError(source, f"the target {shown(','.join(map(str, target)))} names a column twice")
    if len(chosen) > 1 and not multilabel:
        raise TableError(source, f"{len(chosen)} target columns: say --multilabel for several labels a row")
    return chosen


def _by_place(source: str, names: Sequence[str], part: str) -> list[str]:
    """The columns of a place or a range of places."""
    if re.fullmatch(r"-?\d{1,18}", part):
        return [names[_place(source, names, part)]]
    found = _RANGE.fullmatch(part)
    if found is None:
        raise TableError(source, f"there is no column {shown(part)} (--target){suggestion(part, names)}")
    first = _place(source, names, found[1] or "1")
    last = _place(source, names, found[2] or "-1")
    if first > last:
        raise TableError(source, f"the range {part!r} of target columns is empty")
    return list(names[first : last + 1])


def _place(source: str, names: Sequence[str], text: str) -> int:
    place = int(text)
    if place == 0 or abs(place) > len(names):
        raise TableError(source, f"there is no column {place} (--target): columns are 1 to {len(names)}, or -1 for the last")
    return place - 1 if place > 0 else len(names) + place


def values(
    file: Any,
    columns: Columns,
    chosen: Sequence[str],
    multilabel: bool,
    separator: str,
    known: Sequence[str] | None = None,
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Labels, and the names of the target: a column's, or the labels' own if a row has several."""
    if not multilabel:
        return labels_of(file, chosen[0], columns.text(chosen[0]).tolist()), (chosen[0],)
    if len(chosen) > 1:
        return np.column_stack([_signs(file, name, columns.text(name).tolist()) for name in chosen]), tuple(chosen)
    rows = [[part.strip() for part in cell.split(separator) if part.strip()] for cell in columns.text(chosen[0]).tolist()]
    return matrix_of(file.name, rows, known, file.allowance)


def labels_of(file: Any, column: str, cells: list[str]) -> NDArray[Any]:
    """Integers if the cells are integers, written as integers are; else strings."""
    if "" in cells:
        raise TableError(
            file.name, "the target is missing; fill it in or leave the row out", file.line_of(cells.index("")), column
        )
    different = set(cells)
    if all(_is_integer(cell) for cell in different):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    fractions = {cell for cell in different if _is_fraction(cell)}
    if fractions and all(cell in fractions or _is_integer(cell) for cell in different):
        broken = next(cell for cell in cells if cell in fractions)
        raise TableError(
            file.name,
            f"the target has numbers such as {shown(broken)}: classes have names or whole numbers (another --target?)",
            file.line_of(cells.index(broken)),
            column,
        )
    if file.allowance is not None:
        longest = max(different, key=len)  # all are stored as long as this one
        file.allowance.check(4 * len(cells) * len(longest), f"labels as long as {shown(longest)}")
    return np.array(cells)


def matrix_of(
    source: str, rows: Sequence[Sequence[str]], known: Sequence[str] | None = None, allowance: Allowance | None = None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The 0/1 matrix of rows of labels."""
    names = tuple(known) if known is not None else tuple(sorted({label for row in rows for label in row}, key=_natural))
    if not names:
        raise TableError(source, "no row has a label")
    place = {name: k for k, name in enumerate(names)}
    if allowance is not None:
        allowance.check(8 * len(rows) * len(names), f"the matrix of {len(rows)} rows and {len(names)} labels")
    Y = np.zeros((len(rows), len(names)), dtype=np.int64)
    for i, row in enumerate(rows):
        for label in row:
            if label not in place:
                raise TableError(
                    source, f"the label {shown(label)} of row {i + 1} was not seen in training{suggestion(label, names)}"
                )
            Y[i, place[label]] = 1
    return Y, names


def checked(source: str, y: NDArray[Any], multilabel: bool) -> NDArray[Any]:
    """Labels from an array: integers where numbers are whole; a matrix must hold 0 and 1, or -1 for "known not to"."""
    if multilabel:
        if y.dtype.kind not in "biuf" or not np.isin(y, (-1, 0, 1)).all():
            raise TableError(source, f"y must hold {_MEANINGS} for several labels a row")
        return y.astype(np.int64)
    if y.dtype.kind != "f":
        return y
    if not np.isfinite(y).all() or (y != np.rint(y)).any():
        raise TableError(source, "y has numbers that are not whole: classes have names or whole numbers")
    return whole(y)


def whole(y: NDArray[Any]) -> NDArray[Any]:
    """Integers where all are whole."""
    return y.astype(np.int64) if (y == np.rint(y)).all() else y


def _signs(file: Any, column: str, cells: list[str]) -> NDArray[np.int64]:
    for i, cell in enumerate(cells):
        if cell not in _BITS:
            found = shown(cell) if cell else "a missing value"
            raise TableError(file.name, f"a label column holds {_MEANINGS}, not {found}", file.line_of(i), column)
    return np.array([_BITS[cell] for cell in cells], dtype=np.int64)


_BITS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "False": 0, "True": 1, "false": 0, "true": 1, "-1": -1, "-1.0": -1}
_MEANINGS = "1, 0 and -1 (known not to have the label)"


def _is_integer(cell: str) -> bool:
    return re.fullmatch(r"0|-?[1-9]\d{0,17}", cell) is not None


def _is_fraction(cell: str) -> bool:
    try:
        return float(cell) != round(float(cell))
    except (ValueError, OverflowError):
        return False


def _natural(label: str) -> tuple[int, float, str]:
    """Numbers in order of size, before names."""
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
