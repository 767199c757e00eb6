"""Cases that failed once, as recipes in corpus/: they are tests for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "corpus"


def stored_cases() -> dict[str, Any]:
    """Recipes by name."""
    return {path.stem: json.loads(path.read_text())["recipe"] for path in sorted(FOLDER.glob("*.json"))}


def keep(recipe: dict[str, Any], found: str) -> Path:
    """Stores a recipe, and a word on what it found."""
    path = FOLDER / f"{recipe['machine']}-{recipe['seed']}.json"
    path.write_text(json.dumps({"found": found, "recipe": recipe}, indent=1) + "\n")
    return path
