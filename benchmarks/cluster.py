"""`python -m benchmarks cluster`: fits on Dask workers of this machine beside the same parts in one process.

Crammer-Singer without intercept, rows dealt to 8 parts at random, a `LocalCluster` of 2 and 4 worker processes on loopback.
Rounds are moves of the duals, or Newton steps; bytes are those of messages and replies as they are pickled, of one round
and all parts, rows and states aside. Seconds are those of the clock (in brackets the processor seconds of this process, the
scheduler included): on one machine they show what the messages cost, not what more machines would gain. With `--kills` a
worker is killed (kill -9) in the middle of three fits, after some messages each, and the class vectors compared bit by bit.
"""

import argparse
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from polymargin.dask.communicator import OnDask
from polymargin.distributed import work
from polymargin.distributed.communicator import Communicator, InProcess
from polymargin.distributed.solve import gather, solve_parts
from polymargin.losses import CrammerSingerHinge
from polymargin.penalties import SquaredNorm
from polymargin.problems.certificate import Ledger

from . import results
from .partitions import CASES, _data, dealt

PARTS = 8
KILLED_AFTER = (6, 15, 27)  # messages to all parts: some for each round
SETTINGS = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "host": "127.0.0.1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="*", choices=CASES, default=["letter", "mnist", "news20"], help="some data sets")
    parser.add_argument("--workers", nargs="*", type=int, default=[2, 4], help="numbers of worker processes")
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--kills", action="store_true", help="kill workers in the middle of fits")


def main(args: argparse.Namespace) -> None:
    from distributed import Client, LocalCluster

    print(results.processor())
    print(f"{'data':<14}{'where':<22}{'way':<28}{'rounds':>7}{'seconds':>18}{'MB a round':>12}  same bits")
    for name in ["quick text"] if args.quick else args.only:
        X, y, C = _data(name)
        parts = dealt(X, y, C, PARTS)
        here = _fit(name, "in process", Counted(parts), X.dtype, args.tol, None)
        for n_workers in [2] if args.quick else args.workers:
            with LocalCluster(n_workers=n_workers, **SETTINGS) as cluster, Client(cluster) as client:
                for after in (None, *KILLED_AFTER) if args.kills and n_workers == args.workers[0] else (None,):
                    there = _on_workers(client, parts)
                    kill = None if after is None else _killer(client, after)
                    where = f"{n_workers} workers" + ("" if after is None else f", kill at {after}")
                    _fit(name, where, Counted(there), X.dtype, args.tol, here, kill)
                    client.wait_for_workers(n_workers, timeout=300)


def _on_workers(client: Any, parts: InProcess) -> OnDask:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large messages: scattered rows would be lost with their worker
        problems = [client.submit(_given, problem, pure=False) for problem in parts._problems]
    return OnDask(client, problems, [client.submit(work.no_duals, problem, pure=False) for problem in problems])


def _given(problem: Any) -> Any:
    return problem


def _killer(client: Any, after: int) -> Callable[[int], None]:
    victim = next(iter(client.run(os.getpid).values()))

    def kill(messages: int) -> None:
        if messages == after:
            os.kill(victim, signal.SIGKILL)

    return kill


class Counted(Communicator):
    """Counts rounds, and the bytes of messages and replies."""

    def __init__(self, parts: Communicator):
        self._parts, self.n_parts = parts, parts.n_parts
        self.rounds, self.messages, self.sent, self.watch = 0, 0, 0, None

    def total(self, work: Any, *shared: Any) -> Any:
        self.messages += 1
        if self.watch is not None:
            self.watch(self.messages)
        reply = self._parts.total(work, *shared)
        self.sent += self.n_parts * (len(pickle.dumps(shared)) + len(pickle.dumps(reply)))
        return reply

    def settle(self) -> None:
        self._parts.settle()
        self.rounds += 1


def _fit(name: str, where: str, parts: Counted, dtype: Any, tol: float, here: Any, kill: Any = None) -> Any:
    parts.watch = kill
    began = time.perf_counter(), time.process_time()
    problem = gather(parts, CrammerSingerHinge(), SquaredNorm(), False, dtype)
    solution = solve_parts(problem, parts, Ledger(tol, rounding=problem.rounding_at), max_iter=1000, seed=0)
    clock, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    end = solution.certificate
    assert end.status == "optimal", end
    same = "" if here is None else "yes" if np.array_equal(here, solution.machine.W) else "NO"
    way = end.stages[0].method
    rounds = end.n_iter if way.startswith("Newton") else parts.rounds
    sent, seconds = parts.sent / max(1, rounds) / 1e6, f"{clock:.1f} ({cpu:.1f})"
    print(f"{name:<14}{where:<22}{way:<28}{rounds:>7}{seconds:>18}{sent:>12.2f}  {same}", flush=True)
    return solution.machine.W
