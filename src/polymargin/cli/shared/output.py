"""What commands print: text for people, JSON for machines, files written whole."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

_PERHAPS_UNPRINTABLE = re.compile(r"[^\x20-\x7e\n\t]")


def printable(text: str) -> str:
    """Text that a terminal shows and does not obey: control characters of names and cells are written out."""
    return _PERHAPS_UNPRINTABLE.sub(lambda found: found[0] if found[0].isprintable() else ascii(found[0])[1:-1], text)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(plain(value), indent=1))


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's; what JSON has no number for as null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def aligned(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in columns: the first to the left, the others to the right."""
    cells = [[printable(str(cell)).replace("\n", "\\n") for cell in row] for row in (header, *rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def write_text(path: str | None, text: str) -> None:
    """To a file, whole or not at all; None and - are standard output, where a terminal is not to obey what it gets."""
    if path in (None, "-"):
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
        return
    assert path is not None
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, content: bytes) -> None:
    """To a file, whole or not at all; - is standard output."""
    if path == "-":
        sys.stdout.buffer.write(content)
        return
    from polymargin.storage.files import written_whole

    with written_whole(path) as file:
        file.write(content)
