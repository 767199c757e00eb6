"""`python -m benchmarks threads`: what `n_jobs` gains, from small problems to wide ones, and that it changes no bit.

Made-up embeddings (float32 rows of length 1 around a centre for each class, from a seed) with more and more columns and
classes, and data from files: embeddings, images, text. Seconds of the wall clock of whole fits, best of `--repeats`, numbers
of threads in turns: for a quiet machine with as many processors. "rows together" is how many rows the ascent visits at a
time; with 1 threads share no more than the passes that prove.
"""

import argparse
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from polymargin import CrammerSingerSVC, WestonWatkinsSVC
from polymargin.solvers.cost_model import rows_together

from . import datasets, results
from .datasets.base import Data, read, split
from .table import aligned, number

MACHINES = (CrammerSingerSVC, WestonWatkinsSVC)
SHAPES = ((10_000, 384, 77), (10_000, 768, 300), (10_000, 1024, 500))  # rows, columns, classes
STORED = {"banking77_emb": 1.0, "mnist": 0.01, "news20": 1.0}  # C
SPREAD = 0.3  # of the made-up rows about their centres, in lengths of a centre
TOL = 1e-2


class Timed(NamedTuple):
    seconds: dict[int, float]  # by the number of threads
    same_bits: bool
    epochs: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", choices=list(STORED), default=list(STORED))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)


def main(args: argparse.Namespace) -> None:
    shapes = ((2000, 64, 20),) if args.quick else SHAPES
    sources = [(embeddings(*shape), 1.0) for shape in shapes]
    sources += [] if args.quick else [(_stored(name), STORED[name]) for name in args.data]
    lines, content = [], {}
    for data, C in sources:
        for machine in MACHINES:
            found = timed(machine(C, tol=TOL, random_state=0), data, args.threads, 1 if args.quick else args.repeats)
            slow = found.seconds[args.threads[0]]
            cells = [f"{number(s)} ({slow / s:.2f} x)" for s in found.seconds.values()]
            together, same = rows_together(data.X, data.y), "yes" if found.same_bits else "NO"
            mark = "*" if data.stand_in else ""
            lines.append([data.name + mark, machine.__name__, str(together), str(found.epochs), *cells, same])
            content[f"{data.name}, {machine.__name__}"] = found._asdict()
    heads = [f"{n} thread{'s' if n > 1 else ''}, s" for n in args.threads]
    print(aligned(["data", "machine", "rows together", "epochs", *heads, "same bits"], lines, left=2))
    print(f"\n{results.machine()}\nwritten: {results.write_run('threads', content)}")


def timed(machine: Any, data: Data, threads: list[int], repeats: int) -> Timed:
    seconds, vectors = dict.fromkeys(threads, np.inf), []
    for _ in range(repeats):
        for n in threads:
            with threadpool_limits(1):
                start = time.perf_counter()
                machine.set_params(n_jobs=n).fit(data.X, data.y)
                seconds[n] = min(seconds[n], time.perf_counter() - start)
            vectors.append(machine.class_vectors_)
    return Timed(seconds, all(np.array_equal(vectors[0], W) for W in vectors), machine.certificate_.n_iter)


def embeddings(n: int, d: int, c: int) -> Data:
    """Float32 rows of length 1."""
    rng = np.random.default_rng(0)
    centres, y = rng.standard_normal((c, d)), rng.integers(c, size=n)
    X = centres[y] + SPREAD * np.sqrt(d) * rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = X.astype(np.float32)
    return Data(f"{n} x {d}, {c} classes", X, y, X, y)


def _stored(name: str) -> Data:
    if name != "banking77_emb":
        return datasets.load(name)
    try:
        X, y, n_train = read(name)
    except FileNotFoundError:
        return replace(embeddings(*SHAPES[0]), name=name, stand_in=True)
    return split(name, X.astype(np.float32), y, n_train)
