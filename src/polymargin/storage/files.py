"""Where results go: files that are whole at any moment, pipes and devices that are written into, never an input."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

Path = str | os.PathLike[str]


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A binary file to write to that takes the place of `path` at the end of the block, or not at all.

    Killed at any moment, the old file or the new one is there, never a part. What a killed process leaves behind is a
    hidden file ``.<name>.<random>.tmp`` in the same folder, which may be deleted.

    What is not a regular file (a pipe, a device, ``/dev/stdout``) cannot be replaced: it is written into.
    """
    opened = _replacing(os.path.realpath(path)) if _is_replaceable(path) else _written_into(path)  # a link stays a link
    try:
        with opened as file:
            yield file
    except OSError as error:  # a full disk, a reader that has gone: say where, not the name of the hidden file
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error


def check_output(path: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Raises where `path` cannot be written, or is one of the files that are read: to be asked before a long fit.

    Parameters
    ----------
    path : path or None
        None and ``"-"`` are standard output.
    inputs : paths
        ``"-"`` is standard input. None, and names that are no files, are left out.
    """
    output = 1 if path is None or path == "-" else path
    goal = _status(output)
    if goal is not None and stat.S_ISREG(goal.st_mode):
        for name in inputs:
            source = None if name is None else _status(0 if name == "-" else name)
            if source is not None and os.path.samestat(goal, source):
                raise ValueError(
                    f"{_named(output)} is the input {_named(name)} itself, which would be lost: name another file"
                )
    if isinstance(output, int) or _descriptor(output) is not None:
        return
    if goal is not None and stat.S_ISDIR(goal.st_mode):
        raise _error(errno.EISDIR, output)
    folder = os.path.dirname(os.path.realpath(output))
    if not os.path.isdir(folder):
        raise _error(errno.ENOENT, output)
    if not os.access(folder if _is_replaceable(output) else output, os.W_OK):
        raise _error(errno.EACCES, output)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), os.fspath(path))


def _named(path: Path | int | None) -> str:
    return "standard output" if path == 1 else "standard input" if path == "-" else str(path)


def _status(path: Path | int) -> os.stat_result | None:
    """What a path or an open file leads to; None if nothing."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _is_replaceable(path: Path) -> bool:
    """Whether there is nothing yet or a regular file, and the name is not that of a file that is open already."""
    if _descriptor(path) is not None:
        return False
    status = _status(path)
    return status is None or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)


def _descriptor(path: Path) -> int | None:
    """The open file that a name such as ``/dev/stdout`` or ``/dev/fd/3`` stands for.

    Such a file must not be opened again: that would cut off what a shell has put into it before.
    """
    path = os.fspath(path)
    for _ in range(40):  # as many links as the system itself follows
        folder, name = os.path.split(path)
        if name.isdigit() and os.path.realpath(folder) in ("/dev/fd", f"/proc/{os.getpid()}/fd"):
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


@contextlib.contextmanager
def _written_into(path: Path) -> Iterator[IO[bytes]]:
    descriptor = _descriptor(path)
    if descriptor == 1 and sys.stdout is not None:
        sys.stdout.flush()  # in the order in which it was written
    with open(path if descriptor is None else os.dup(descriptor), "wb") as file:
        yield file


@contextlib.contextmanager
def _replacing(goal: str) -> Iterator[IO[bytes]]:
    if os.path.isdir(goal):
        raise _error(errno.EISDIR, goal)
    folder, name = os.path.split(goal)
    handle, temporary = tempfile.mkstemp(prefix=f".{name[:40]}.", suffix=".tmp", dir=folder)  # not longer than a name may be
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(goal))
        os.replace(temporary, goal)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _mode(goal: str) -> int:
    """Rights of the file that is replaced, or those of any new file."""
    try:
        return os.stat(goal).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: str) -> None:
    """The rename itself reaches the disk; Windows cannot open folders and needs none of this."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
