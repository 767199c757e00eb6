"""Results as JSON lines: one line for each (table, data set, split, machine), appended as soon as it is known."""

import json
from collections import defaultdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .plan import Paper, Table, settings_of

DIRECTORY = Path(__file__).resolve().parent.parent / "results" / "papers"
Record = dict[str, Any]
Key = tuple[str, str]  # table, data set


class Store:
    """The records of one paper, in `DIRECTORY/paper.jsonl`; only those with the settings the paper's file states now."""

    def __init__(self, paper: Paper, directory: Path = DIRECTORY):
        self.paper, self.path = paper, directory / f"{paper.key}.jsonl"
        self._by_case: dict[Key, list[Record]] = defaultdict(list)
        wanted = {
            (table.key, case.data, machine.name): settings_of(table, case, machine)
            for table in paper.tables
            for case in table.cases
            for machine in table.candidates(case)
        }
        for record in read(self.path):
            if wanted.get((record["table"], record["data"], record["machine"])) == record["settings"]:
                self._by_case[record["table"], record["data"]].append(record)

    def of(self, table: Table, data: str) -> list[Record]:
        return self._by_case[table.key, data]

    def append(self, record: Record) -> None:
        """Whole lines only: one write for a line and its end."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**record, "versions": versions()}, separators=(",", ":")) + "\n")
        self._by_case[record["table"], record["data"]].append(record)


def read(path: Path) -> list[Record]:
    """All records of a file; a last line that an interrupted run left half-written is cut off, in the file too."""
    if not path.exists():
        return []
    text = path.read_text("utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, "utf-8")
    return [json.loads(line) for line in whole.splitlines()]


@cache
def versions() -> dict[str, str]:
    return {name: version(name) for name in ("polymargin", "numpy", "scikit-learn")}
