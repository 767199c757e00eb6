"""Files that are whole at any moment: written beside, forced to disk, renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write to that takes the place of `path` at the end of the block, or not at all.

    Killed at any moment, the old file or the new one is there, never a part. What a killed process leaves behind is a
    hidden file ``.<name>.<random>.tmp`` in the same folder, which may be deleted.
    """
    goal = os.path.realpath(path)  # a link stays a link
    folder, name = os.path.split(goal)
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
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
