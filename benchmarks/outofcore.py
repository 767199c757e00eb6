"""`python -m benchmarks outofcore`: a fit of more rows than its memory may hold: peak memory, and time beside reading.

Synthetic CSR rows in single precision: categorical columns in one-hot form, one entry for each of 100 columns, whose values
are as frequent as by Zipf's law; in some of them the class has an order of frequency of its own. They are made chunk by
chunk and dealt to blocks, so that nothing but the blocks on disk ever holds them all. Making them, reading them and the fit
run in a process each, one after the other; the peak memory is what the system reports of the one that fits. Seconds are
processor seconds, system calls included, and in brackets those of the clock; "reading" is one reading of all blocks.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from polymargin import CrammerSingerSVC
from polymargin.distributed import Parts
from polymargin.distributed.disk.blocks import Blocks, Contents, Rows, write_blocks
from polymargin.distributed.loop import EPOCHS_OF_TURNS

from . import children, results
from .memory import status

ROWS = 50_000  # of a chunk
FIELDS = 100  # categorical columns: entries of a row
INFORMED = 1 / 8  # of the entries follow their class
C = 1e-3  # of a row: there are millions of them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gigabytes", type=float, default=20.0, help="of rows on disk, about")
    parser.add_argument("--memory", default="2GB", help="what the fit may take")
    parser.add_argument("--columns", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--scratch", help="folder with room for the rows")


def main(args: argparse.Namespace) -> None:
    if args.quick:
        args.gigabytes, args.memory, args.columns, args.classes = 0.04, "330MB", 2000, 4
    n_chunks = max(1, round(args.gigabytes * 1e9 / (8 * FIELDS * ROWS)))
    folder = Path(tempfile.mkdtemp(prefix="polymargin-", dir=args.scratch))
    print(results.processor())
    try:
        for step, settings in (
            (make, (n_chunks, args.columns, args.classes, args.memory)),
            (read, ()),
            (fit, (args.memory, args.tol)),
        ):
            call = f"{step.__name__}(*{(str(folder), *settings)!r})"
            found = json.loads(children.last_line(f"from benchmarks.outofcore import *; {call}"))
            for name, value in found.items():
                print(f"{name:<24}{value}", flush=True)
    finally:
        shutil.rmtree(folder)


class _Seconds:
    """Of the processor, in the program and in the system, and of the clock."""

    def __init__(self) -> None:
        self._began = time.process_time(), time.perf_counter()

    def __str__(self) -> str:
        cpu, clock = self.both
        return f"{cpu:.1f} ({clock:.1f})"

    @property
    def both(self) -> tuple[float, float]:
        return time.process_time() - self._began[0], time.perf_counter() - self._began[1]


def make(path: str, n_chunks: int, d: int, c: int, memory: str) -> None:
    """Writes the blocks; each of the three prints what it finds as JSON."""
    seconds, size = _Seconds(), 8 * FIELDS * ROWS * n_chunks
    n_blocks = Parts(path, memory=memory).n_blocks(size, d, c)
    contents = Contents(d, "<f4", True, list(range(c)), [0] * n_blocks)
    blocks = write_blocks(Path(path) / "blocks", _chunks(n_chunks, d, c), contents, seed=0)
    found = {
        "rows": sum(blocks.contents.rows),
        "entries": FIELDS * sum(blocks.contents.rows),
        "columns, classes": f"{d}, {c}",
        "bytes on disk": f"{_size(blocks) / 1e9:.2f} GB in {len(blocks)} blocks",
        "seconds of making": str(seconds),
    }
    print(json.dumps(found))


def read(path: str) -> None:
    seconds, blocks = _Seconds(), Blocks(Path(path) / "blocks")
    for k in range(len(blocks)):
        blocks.load(k)
    print(json.dumps({"seconds of reading": str(seconds)}))


def fit(path: str, memory: str, tol: float) -> None:
    seconds, parts = _Seconds(), Parts(Path(path) / "blocks", memory=memory, scratch=path)
    machine = CrammerSingerSVC(C=C, tol=tol, fit_intercept=False).fit(parts)
    cpu, clock = seconds.both
    end = machine.certificate_
    passes = max(1, end.n_iter // EPOCHS_OF_TURNS)
    found = {
        "memory allowed": memory,
        "peak memory": f"{status('VmHWM') / 1e9:.2f} GB",
        "certificate": f"{end.status}, relative gap {end.rel_gap:.1e}, objective {end.primal:.6g}, {passes} passes",
        "seconds of the fit": str(seconds),
        "seconds of a pass": f"{cpu / passes:.1f} ({clock / passes:.1f})",
    }
    print(json.dumps(found))


def _size(blocks: Blocks) -> int:
    return sum(file.stat().st_size for file in blocks.folder.iterdir())


def _chunks(n_chunks: int, d: int, c: int) -> Iterator[Rows]:
    """Every field has d / 100 values; tables with as many places as two bytes can name make them by their frequency."""
    values = d // FIELDS
    cdf = np.cumsum(1.0 / np.arange(2.0, values + 2.0))
    table = np.searchsorted(cdf / cdf[-1], (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.int32)
    own = np.stack([np.random.default_rng((k, 2)).permutation(values) for k in range(c)]).astype(np.int32)
    own_table = own[:, table]  # of a class
    firsts = np.arange(FIELDS, dtype=np.int32) * values
    informed = int(INFORMED * FIELDS)
    starts = np.arange(0, ROWS * FIELDS + 1, FIELDS, dtype=np.int32)
    entries = np.full(ROWS * FIELDS, 1.0 / np.sqrt(FIELDS), dtype=np.float32)
    for number in range(n_chunks):
        rng = np.random.default_rng((number, 1))
        y = rng.integers(c, size=ROWS).astype(np.int32)
        drawn = rng.integers(1 << 16, size=(ROWS, FIELDS), dtype=np.uint16)
        columns = table[drawn]
        columns[:, :informed] = own_table[y[:, None], drawn[:, :informed]]
        columns += firsts
        X = sparse.csr_matrix((entries, columns.ravel(), starts), shape=(ROWS, d), copy=False)
        yield Rows(X, y, np.ones(ROWS))
