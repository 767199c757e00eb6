"""`python -m benchmarks partitions`: rounds of fits whose rows lie in parts, to certified gaps of 1e-2 and 1e-3.

Crammer-Singer without intercept, rows dealt to K parts at random, all parts in this process. A round of ascent is two sums
of d x c numbers over the parts; one of Newton's method is a step: one or more such sums, and that of the Hessians. The gap
is that of all rows. Seconds are processor seconds of the whole run, one thread.
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy import sparse

from polymargin.distributed import work
from polymargin.distributed.communicator import InProcess
from polymargin.distributed.loop import PartsLoop
from polymargin.distributed.solve import gather, newton_suits
from polymargin.distributed.terms import RowsInParts
from polymargin.losses import CrammerSingerHinge
from polymargin.penalties import SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.newton.general import general_newton

from .datasets.base import blobs, data_directory, read, text

GAPS = (1e-2, 1e-3)
CASES = {  # C, rows at most
    "news20": (1.0, None),
    "letter": (1.0, None),
    "mnist": (0.01, 5_000),
    "wordnet": (1.0, 4_000),
    "banking77_emb": (1.0, 5_000),
}
MOST = 80  # rounds
LARGEST = 100  # classes of wordnet, whose 3,082 would take hours in parts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="*", choices=CASES, help="some of the data sets")
    parser.add_argument("--parts", nargs="*", type=int, default=[2, 8, 32], help="numbers of parts")


def main(args: argparse.Namespace) -> None:
    print(f"{'data':<14}{'rows x columns, classes':<28}{'parts':>6}  {'way':<8}{'1e-2':>6}{'1e-3':>6}{'seconds':>9}")
    for name in ["quick text", "quick blobs"] if args.quick else args.only or CASES:
        X, y, C = _data(name)
        for n_parts in [2] if args.quick else args.parts:
            _run(name, X, y, C, n_parts)


def _run(name: str, X: Any, y: Any, C: float, n_parts: int) -> None:
    parts = dealt(X, y, C, n_parts)
    problem = gather(parts, CrammerSingerHinge(), SquaredNorm(), False, X.dtype)
    began, ledger = time.process_time(), Rounds(GAPS[-1])
    way = "Newton" if newton_suits(problem) else "ascent"
    if way == "Newton":
        general_newton(problem, ledger, MOST, None, RowsInParts(problem, parts))
    else:
        _climb(PartsLoop(problem, parts, 0), ledger)
    spent = time.process_time() - began
    size = f"{X.shape[0]} x {X.shape[1]}, {problem.n_classes}"
    found = "".join(f"{ledger.reached.get(gap, '-'):>6}" for gap in GAPS)
    print(f"{name:<14}{size:<28}{n_parts:>6}  {way:<8}{found}{spent:>9.1f}", flush=True)


class Rounds(Ledger):
    """Notes after how many rounds gaps were reached."""

    def __init__(self, tol: float):
        super().__init__(tol)
        self.reached: dict[float, int] = {}

    def add(self, primal: float, dual: float, n_iter: int) -> None:
        super().add(primal, dual, n_iter)
        for gap in GAPS:
            if self.rel_gap <= gap:
                self.reached.setdefault(gap, n_iter)


def _climb(loop: PartsLoop, ledger: Ledger) -> None:
    """The gap is that before a round, which each of them knows for nothing."""
    while not ledger.done and loop.rounds < MOST:
        dual = loop.dual
        loop.ascend(1, 1e-300)
        ledger.add(dual + loop.estimate, dual, loop.rounds - 1)


def dealt(X: Any, y: Any, C: float, n_parts: int) -> InProcess:
    """Rows dealt to parts at random."""
    where = np.random.default_rng(0).integers(n_parts, size=len(y))
    loss, penalty, c = CrammerSingerHinge(), SquaredNorm(), int(y.max()) + 1
    problems = []
    for part in range(n_parts):
        rows = np.flatnonzero(where == part)
        problems.append(Problem(X[rows], y[rows], np.full(len(rows), C), c, loss, penalty, False))
    return InProcess(problems, [work.no_duals(problem) for problem in problems])


def _data(name: str) -> tuple[Any, Any, float]:
    if name.startswith("quick"):
        data = text("text", 400, 500, 5) if name.endswith("text") else blobs("blobs", 400, 8, 4, spread=1.0)
        return data.X, data.y.astype(np.int32), 1.0
    if not (data_directory() / f"{name}.npz").exists():
        raise SystemExit(f"no {name}.npz in {data_directory()}: set POLYMARGIN_DATA")
    X, y, n_train = read(name)
    X, y = X[:n_train], y[:n_train]
    C, most = CASES[name]
    if name == "wordnet":  # its largest classes
        kept = np.isin(y, np.argsort(-np.bincount(y), kind="stable")[:LARGEST])
        X, y = X[kept], y[kept]
    if most is not None:
        rows = np.random.default_rng(0).permutation(len(y))[:most]
        X, y = X[rows], y[rows]
    if not sparse.issparse(X):
        low, high = X.min(axis=0), X.max(axis=0)
        X = X if name.endswith("_emb") else np.ascontiguousarray((X - low) / np.where(high > low, high - low, 1.0))
    return X, np.unique(y, return_inverse=True)[1].astype(np.int32), C
