"""How much memory a file may take: asked before it is unpacked, since a few kilobytes can stand for terabytes.

Without a limit of the caller's own a file may take half of the free memory, and not more than `_RATIO` times its own size
where that is more than `_ALWAYS` bytes: honest files do not shrink further. `max_bytes`, or the environment variable
``POLYMARGIN_MAX_BYTES``, replaces both rules.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "POLYMARGIN_MAX_BYTES"
_ALWAYS = 1 << 28
_RATIO = 200
_UNASKED = 1 << 24  # too little to look at the memory for
_BLOCK = 1 << 20
_ARRAY_KINDS = "biufUS"  # booleans, numbers, strings


@dataclass(frozen=True)
class Allowance:
    """What one file may take.

    Attributes
    ----------
    stored : int
        Its size, as it is stored.
    max_bytes : float or None
        The caller's own limit.
    error : callable
        Makes the exception from a sentence; it knows the name of the file.
    """

    stored: int
    max_bytes: float | None
    error: Callable[[str], Exception]

    def check(self, needed: float, what: str = "unpacked it") -> None:
        """Raises if so many bytes are too many."""
        if needed <= _UNASKED and self.own_limit is None:
            return
        limit, why = self._limit
        if needed > limit:
            raise self.error(
                f"{what} would take {in_words(needed)} of memory, more than {in_words(limit)} ({why}); if that is meant, "
                f"raise the limit: max_bytes= in Python, {VARIABLE} in the environment"
            )

    @cached_property
    def own_limit(self) -> float | None:
        """The caller's or the environment's limit."""
        if self.max_bytes is not None:
            return _bytes("max_bytes", self.max_bytes)
        text = os.environ.get(VARIABLE)
        return None if not text else _bytes(VARIABLE, text)

    @cached_property
    def _limit(self) -> tuple[float, str]:
        from polymargin.features.kernel_map import available_memory

        if self.own_limit is not None:
            return self.own_limit, "max_bytes" if self.max_bytes is not None else VARIABLE
        half, most = available_memory() / 2.0, float(max(_ALWAYS, _RATIO * self.stored))
        if most < half:
            return most, f"for a file of {in_words(self.stored)}"
        return half, "half of the free memory"


def _bytes(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number > 0:
        raise ValueError(f"{name}={value!r} is not valid: use a number of bytes, for example 8e9.")
    return number


def in_words(size: float) -> str:
    """1234567 as '1.2 MB'."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def read_all(file: IO[bytes], max_bytes: float | None, error: Callable[[str], Exception]) -> bytes:
    """The content of an open file, pipe or device; a device that never ends is refused like a file that is too large."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError):  # in memory already
        return file.read()
    if stat.S_ISREG(status.st_mode):
        Allowance(status.st_size, max_bytes, error).check(status.st_size, "it")
        return file.read()
    blocks, total = [], 0
    endless = Allowance(_ALWAYS << 20, max_bytes, error)  # what is not packed: the memory alone limits it
    while block := file.read(_BLOCK):
        blocks.append(block)
        total += len(block)
        endless.check(2 * total, "it is endless, or it")
    return b"".join(blocks)


def gunzip(data: bytes, allowance: Allowance) -> bytes:
    """Unpacked; counted first, since a gzip file does not say its size reliably."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as counted:
            total = 0
            while block := counted.read(_BLOCK):
                total += len(block)
                allowance.check(total)
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise allowance.error(f"the gzip archive is damaged: {error}") from error


def check_archive(archive: zipfile.ZipFile, allowance: Allowance) -> int:
    """The size of all entries of a zip archive; raises if it is too large, or if they cannot be unpacked piecewise.

    `zipfile` does not read more of an entry than its stated size, so the statement can be relied on.
    """
    for info in archive.infolist():
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise allowance.error(f"the entry {info.filename[:40]!r} is encrypted or packed in an unusual way")
    total = sum(info.file_size for info in archive.infolist())
    allowance.check(total)
    return total


def check_array(file: IO[bytes], size: int, what: str, error: Callable[[str], Exception]) -> None:
    """Raises if a ``.npy`` file of `size` bytes holds anything but as many booleans, numbers or strings as it says.

    Strings of no length (``|S0``) take no room in the file but one byte each in memory, so they are refused.
    """
    try:
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(file)
    except (OSError, zipfile.BadZipFile, zlib.error):
        raise
    except Exception as problem:  # the header is a line of Python, and NumPy passes on whatever its parser raises
        raise error(f"{what} has a damaged header ({type(problem).__name__})") from problem
    if dtype.hasobject or dtype.kind not in _ARRAY_KINDS or dtype.itemsize == 0:
        raise error(f"{what} holds {dtype.str}: only booleans, numbers and strings are read, never objects")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - file.tell():
        raise error(f"{what} is not as long as its shape {str(shape)[:60]} says")


def read_array(archive: zipfile.ZipFile, entry: str, what: str, error: Callable[[str], Exception]) -> NDArray[Any]:
    """An entry of a zip archive that is a ``.npy`` file of booleans, numbers or strings."""
    with archive.open(entry) as file:
        check_array(file, archive.getinfo(entry).file_size, what, error)
    with archive.open(entry) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if array.dtype.kind == "U" and array.size:  # NumPy takes any bits for characters, and fails when they are used
        signs = np.frombuffer(array.tobytes(), dtype=np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if signs.max() > sys.maxunicode:
            raise error(f"{what} holds strings with characters that do not exist")
    return array
