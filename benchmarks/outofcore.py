"""`python -m benchmarks outofcore`: a fit of more rows than its memory may hold: peak memory, and time beside reading.

Synthetic CSR rows of words by Zipf's law, single precision, made block by block while they are read, so that nothing but the
blocks on disk ever holds them all. The fit runs in a process of its own, whose peak memory the system reports. Seconds are
processor seconds; "reading" is one reading of all blocks.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from polymargin import CrammerSingerSVC
from polymargin.distributed import Parts
from polymargin.distributed.blocks import Blocks

from . import children, results
from .memory import status

ROWS = 20_000  # of a chunk
WORDS = 100  # of a row


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gigabytes", type=float, default=20.0, help="of rows on disk, about")
    parser.add_argument("--memory", default="2GB", help="what the fit may take")
    parser.add_argument("--columns", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--scratch", help="folder with room for twice the rows")


def main(args: argparse.Namespace) -> None:
    if args.quick:
        args.gigabytes, args.memory, args.columns, args.classes = 0.02, "350MB", 2000, 5
    n_chunks = max(1, round(args.gigabytes * 1e9 / (8 * WORDS * ROWS)))
    folder = Path(tempfile.mkdtemp(prefix="polymargin-", dir=args.scratch))
    try:
        sizes = str(folder), n_chunks, args.columns, args.classes, args.memory, args.tol
        found = json.loads(children.last_line(f"from benchmarks.outofcore import child; child(*{sizes!r})"))
    finally:
        shutil.rmtree(folder)
    print(results.processor())
    for name, value in found.items():
        print(f"{name:<24}{value}")


def child(path: str, n_chunks: int, d: int, c: int, memory: str, tol: float) -> None:
    """Runs in the fresh process: prints what it finds as JSON."""
    folder = Path(path)
    parts = Parts(lambda: _chunks(n_chunks, d, c), memory=memory)
    began = time.process_time()
    blocks = parts.write(folder / "blocks")
    written = time.process_time() - began
    began = time.process_time()
    entries = sum(int(blocks.load(k).X.nnz) for k in range(len(blocks)))
    reading = time.process_time() - began
    began = time.process_time()
    machine = CrammerSingerSVC(tol=tol, fit_intercept=False).fit(
        Parts(folder / "blocks", memory=memory, checkpoint=folder)
    )
    fitted, end = time.process_time() - began, machine.certificate_
    rounds = end.n_iter // 2  # of two epochs each
    found: dict[str, Any] = {
        "rows": sum(blocks.contents.rows),
        "entries": entries,
        "columns, classes": f"{d}, {c}",
        "bytes on disk": f"{_size(blocks) / 1e9:.2f} GB in {len(blocks)} blocks",
        "memory allowed": memory,
        "peak memory": f"{status('VmHWM') / 1e9:.2f} GB",
        "certificate": f"{end.status}, relative gap {end.rel_gap:.1e}, {rounds} rounds",
        "seconds of writing": f"{written:.1f}",
        "seconds of reading": f"{reading:.1f}",
        "seconds of the fit": f"{fitted:.1f}",
        "seconds of a round": f"{fitted / max(1, rounds):.1f}",
    }
    print(json.dumps(found))


def _size(blocks: Blocks) -> int:
    return sum(file.stat().st_size for file in blocks.folder.iterdir())


def _chunks(n_chunks: int, d: int, c: int) -> Iterator[tuple[Any, Any]]:
    """A third of a row's words come from its class's own order of all words."""
    own = np.stack([np.random.default_rng(k).permutation(d) for k in range(c)])
    cdf = np.cumsum(1.0 / np.arange(10.0, d + 10.0))
    for number in range(n_chunks):
        rng = np.random.default_rng((number, 1))
        y = rng.integers(c, size=ROWS)
        words = np.searchsorted(cdf, rng.random((ROWS, WORDS)) * cdf[-1])
        words = np.where(rng.random((ROWS, WORDS)) < 1 / 3, own[y[:, None], words], words)
        values = np.full(words.size, 1.0 / np.sqrt(WORDS), dtype=np.float32)
        X = sparse.csr_matrix((values, words.ravel(), np.arange(0, words.size + 1, WORDS)), shape=(ROWS, d))
        X.sum_duplicates()
        yield X, y
