"""The command line: one file per command.

A command is a module of this package, listed in `COMMANDS`, with

    HELP                    one line
    add_arguments(parser)   its options
    run(args) -> int        the work; returns the exit code

Nothing heavy is imported before `run`, so that --help is quick. Commands raise; `main` turns what they raise into one line
on standard error and an exit code: 0 done, 1 an error in data, model or parameters, 2 wrong usage, 3 a bug, 130 Ctrl-C.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from polymargin import __version__
from polymargin.cli.shared.parser import Parser, UsageError, check_command

COMMANDS = ("compare", "train", "predict", "evaluate", "inspect", "convert", "export")

DONE, ERROR, USAGE, BUG, INTERRUPTED = 0, 1, 2, 3, 130
_CLOSED_PIPE = 141  # 128 + SIGPIPE: what a shell reports
_LONGEST = 2000  # characters of a message


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    traceback = False
    try:
        _open_standard_streams()
        words = _with_places(sys.argv[1:] if argv is None else argv)
        if not words:
            _parser().print_help(sys.stderr)
            return USAGE
        check_command(words, COMMANDS)
        args = _parser().parse_args(words)
        traceback = args.traceback
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)  # scikit-learn's ConvergenceWarning is one
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow on the way to an error that says more
            warnings.showwarning = _show_warning
            if getattr(args, "jobs", 1) != 1:
                from polymargin.cli.shared.workers import shield_workers

                shield_workers()
            code = int(args.run(args))
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        if argv is None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one on the way out ends the process, without a word
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError as error:
        if error.filename is not None:
            return _say(f"{error.filename}: its reader has gone", ERROR)
        return _CLOSED_PIPE  # the reader of our output has gone, e.g. `head`
    except Exception as error:
        if traceback:
            raise
        return _explain(error)
    finally:
        _give_up_output()


def _open_standard_streams() -> None:
    """A file that is opened later must not get the number of a standard stream that was closed (``>&-``)."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, open as long as the process


class _Closed(io.TextIOBase):
    """Standard output that was closed before we began: nothing can be written, and that is an error."""

    @property
    def buffer(self) -> _Closed:
        return self

    def write(self, text: Any) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


def _give_up_output() -> None:
    """What cannot be written (a full disk, a reader that has gone) is not tried again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_places(argv: Sequence[str]) -> list[str]:
    """``--target -6:`` as one argument: argparse would take -6: for an option."""
    words = list(argv)
    for k in range(len(words) - 1, 0, -1):
        if words[k - 1] == "--target" and re.match(r"-\d", words[k]):
            words[k - 1 : k + 1] = [f"--target={words[k]}"]
    return words


def _parser() -> Parser:
    parser = Parser(
        prog="polymargin",
        description="Max-margin classification with many classes and labels, certified optimal.",
        epilog="polymargin COMMAND --help tells more. Files may be - for standard input and output.",
    )
    parser.add_argument("--version", action="version", version=f"polymargin {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for name in COMMANDS:
        command = import_module(f"polymargin.cli.{name}")
        part = commands.add_parser(
            name, help=command.HELP, description=command.HELP, epilog=getattr(command, "EPILOG", None)
        )
        command.add_arguments(part)
        part.set_defaults(run=command.run)
    return parser


def _explain(error: Exception) -> int:
    if isinstance(error, UsageError):
        return _say(str(error), USAGE)
    if isinstance(error, MemoryError):
        return _say(f"not enough memory: {error}" if str(error) else "not enough memory", ERROR)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return _say(f"{place}{error.strerror or error}", ERROR)
    if isinstance(error, (ValueError, TypeError, ImportError, ArithmeticError)):
        return _say(str(error), ERROR)
    return _say(f"this is a bug ({type(error).__name__}: {error}); polymargin --traceback ... shows where", BUG)


def _say(message: str, code: int) -> int:
    """One line, whatever the message looks like."""
    print(f"polymargin: {_one_line(message)}", file=sys.stderr)
    return code


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"polymargin: warning: {_one_line(str(message))}", file=sys.stderr)


def _one_line(message: str) -> str:
    from polymargin.cli.shared.output import printable

    line = " ".join(message.split())
    return printable(line if len(line) <= _LONGEST else line[:_LONGEST] + "…")
