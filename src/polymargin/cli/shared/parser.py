"""A parser of options whose errors are one line, like all others, and say what was probably meant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

# what people call a command who know other tools
_OTHER_WORDS = {"explain": "inspect", "show": "inspect", "fit": "train", "score": "evaluate", "test": "evaluate"}


class UsageError(Exception):
    """Words that are no command of ours, or options that do not go together: exit code 2."""


class Parser(argparse.ArgumentParser):
    """argparse's, which leaves nothing unknown to others: a command knows its own options best."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        namespace, unknown = super().parse_known_args(args, namespace)
        if not unknown:
            return namespace, unknown
        option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        if option is None:
            self.error(f"there is a word too many: {unknown[0]!r}")
        self.error(f"there is no option {option}{_meant(option, list(self._option_string_actions))}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} --help tells more)")


def check_command(words: Sequence[str], commands: Sequence[str]) -> None:
    """An error if the first word that is no option is no command either."""
    word = next((word for word in words if not word.startswith("-")), None)
    if word is not None and word not in commands:
        hint = f"; did you mean {_OTHER_WORDS[word]!r}?" if word in _OTHER_WORDS else _meant(word, commands)
        raise UsageError(f"there is no command {word!r}{hint or '.'} There are {', '.join(commands)}.")


def _meant(word: str, known: Sequence[str]) -> str:
    from polymargin.tables.table import suggestion  # numpy comes with it

    return suggestion(word, known)
