"""`python -m benchmarks versions --other PYTHON`: the same fits by two installs of polymargin, in turns.

PYTHON is the interpreter of an environment in which another version is installed. Each side is a process of its own that
makes the data of a case once and fits it when it is asked to: A, B, A, B, ..., processor seconds, one thread, best of
`--repeats`. What counts is the ratio; the objectives say whether both have solved the same problem to the same end.
How many epochs one fit takes is luck, and the two sides do not visit rows in the same order: `--seeds` takes the mean over
so many.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import results
from .table import aligned, number

WORKER = Path(__file__).with_name("versions_worker.py")


class Case(NamedTuple):
    """A fit: of which benchmark it is typical, the machine, its parameters and its data."""

    of: str
    machine: str
    data: str
    parameters: dict[str, Any]


def _cases() -> Iterator[Case]:
    plain = {"fit_intercept": False, "random_state": 0}
    for data, C in (("news20", 1.0), ("letter", 1.0), ("pendigits", 1.0), ("usps", 0.1), ("satimage", 1.0)):
        yield Case("linear", "CrammerSingerSVC", data, plain | {"C": C, "tol": 1e-5})
    for data, C in (("news20", 1.0), ("letter", 1.0), ("usps", 0.1)):
        yield Case("linear", "WestonWatkinsSVC", data, plain | {"C": C, "tol": 1e-4})
        yield Case("linear", "CrammerSingerSVC", data, {"C": C, "random_state": 0})
    yield Case("linear", "WestonWatkinsSVC", "news20 float32", {"C": 1.0, "random_state": 0})
    for data, C in (("usps", 16.0), ("orl standardised", 1.0)):
        yield Case("hard", "CrammerSingerSVC", data, plain | {"C": C})
    for data in ("cornell", "isolet", "orl standardised", "vehicle"):
        yield Case("m3", "M3SVC", data, {"C": 10.0, "scale": "power", "random_state": 0})
    for data, C in (("usps", 0.1), ("pendigits", 1.0), ("letter", 0.1)):
        yield Case("mcodm", "MarginDistributionSVC", data, {"C": C, "random_state": 0})
    for data, C in (("usps", 0.1), ("letter", 1.0), ("news20", 1.0)):
        yield Case("lp_norm", "LpNormSVC", data, {"C": C, "random_state": 0})
    for data, C in (("usps", 0.1), ("satimage", 1.0)):
        yield Case("angular", "AngularSVC", data, {"C": C, "random_state": 0})
    for data in ("scene_ml", "emotions_ml"):
        yield Case("multilabel", "OneVsNoneSVC", data, {"C": 1.0, "random_state": 0})
    for data, C in (("usps", 10.0), ("satimage", 10.0)):
        yield Case("kernels", "CrammerSingerSVC", data, {"C": C, "kernel": "rbf", "random_state": 0})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--other", default=sys.executable, metavar="PYTHON", help="interpreter of the other environment")
    parser.add_argument("--of", nargs="+", metavar="BENCHMARK", help="cases of these benchmarks only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="mean over N seeds of the best of all repeats")


class Side:
    """A process with one version."""

    def __init__(self, python: str):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | threads
        )

    def fit(self, case: Case) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case._asdict()) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def compared(case: Case, sides: list[Side], repeats: int, seeds: int) -> dict[str, Any]:
    """Best of some runs of each side, in turns; the other side has the even turns. Means over the seeds."""
    best: list[list[dict[str, Any]]] = [[], []]
    spread = 1.0
    for seed in range(seeds):
        seeded = case._replace(parameters=case.parameters | {"random_state": seed})
        runs: list[list[dict[str, Any]]] = [[], []]
        for turn in range(2 * repeats):
            runs[turn % 2].append(sides[turn % 2].fit(seeded))
        for side, tries in zip(best, runs, strict=True):
            side.append(min(tries, key=lambda run: float(run["seconds"])))
        spread = max(spread, max(run["seconds"] for run in runs[1]) / best[1][-1]["seconds"])
    other, ours = map(mean_of, best)
    return case._asdict() | {"other": other, "ours": ours, "ratio": ours["seconds"] / other["seconds"], "spread": spread}


def mean_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    means = {key: sum(run[key] for run in runs) / len(runs) for key in ("seconds", "objective", "gap", "n_iter")}
    return means | {"status": sorted({run["status"] for run in runs})}


def main(args: argparse.Namespace) -> None:
    cases = [case for case in _cases() if args.of is None or case.of in args.of]
    if args.quick:
        cases = [Case("linear", "CrammerSingerSVC", "digits", {"random_state": 0})]
    sides = [Side(args.other), Side(sys.executable)]
    record = []
    for case in cases:
        record.append(compared(case, sides, 1 if args.quick else args.repeats, args.seeds))
        print(" · ".join(line(record[-1])), flush=True)
    print()
    print(aligned(HEAD, [line(run) for run in record]))
    mean = math.exp(sum(math.log(run["ratio"]) for run in record) / len(record))
    print(f"\ngeometric mean of the ratios {mean:.2f}, largest {max(run['ratio'] for run in record):.2f}")
    print(f"written: {results.write_run('versions', {'runs': record})}")


HEAD = ["of", "machine", "data", "other s", "ours s", "ours / other", "objective", "iterations"]


def line(run: dict[str, Any]) -> list[str]:
    ours, other = run["ours"], run["other"]
    change = (ours["objective"] - other["objective"]) / abs(other["objective"])
    data, moved = f"{run['data']} C={run['parameters'].get('C', 1.0):g}", f"{change:+.0e}"
    seconds = [number(other["seconds"]), number(ours["seconds"])]
    epochs = f"{other['n_iter']:.0f} {ours['n_iter']:.0f}"
    return [run["of"], run["machine"], data, *seconds, f"{run['ratio']:.2f}", moved, epochs]
