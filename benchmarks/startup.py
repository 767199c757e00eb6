"""`python -m benchmarks startup`: what polymargin adds to scikit-learn's import; the first iris fit."""

import argparse

from . import children, results
from .table import aligned

IMPORT = """
import time, {before}
start = time.perf_counter()
from polymargin import CrammerSingerSVC
print(time.perf_counter() - start)
"""
FIRST_FIT = """
import time
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
from {module} import {machine}
start = time.perf_counter()
{machine}().fit(X, y)
print(time.perf_counter() - start)
"""
# name, code, goal in milliseconds
MEASUREMENTS = (
    ("import a machine after sklearn", IMPORT.format(before="sklearn"), 50.0),
    ("import a machine after sklearn.svm", IMPORT.format(before="sklearn.svm"), None),
    (
        "first iris fit, CrammerSingerSVC",
        FIRST_FIT.format(module="polymargin", machine="CrammerSingerSVC"),
        10.0,
    ),
    (
        "first iris fit, WestonWatkinsSVC",
        FIRST_FIT.format(module="polymargin", machine="WestonWatkinsSVC"),
        10.0,
    ),
    ("first iris fit, sklearn LinearSVC", FIRST_FIT.format(module="sklearn.svm", machine="LinearSVC"), None),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes of each kind (default 5)")


def main(args: argparse.Namespace) -> None:
    repeats = min(args.repeats, 2) if args.quick else args.repeats
    # Interleaved like everything here: one process of each, then again.
    times: dict[str, list[float]] = {name: [] for name, _, _ in MEASUREMENTS}
    for _ in range(repeats):
        for name, code, _ in MEASUREMENTS:
            times[name].append(1e3 * float(children.last_line(code)))
    rows, record = [], {}
    for name, _, goal in MEASUREMENTS:
        best, median = min(times[name]), sorted(times[name])[repeats // 2]
        word = "" if goal is None else "PASS" if best < goal else "FAIL"
        rows.append([name, f"{best:.1f}", f"{median:.1f}", "" if goal is None else f"< {goal:g}", word])
        record[name] = {"milliseconds": times[name], "best": best, "goal": goal}
    print(aligned(["milliseconds in a fresh process", f"best of {repeats}", "median", "goal", ""], rows))
    print(f"\nwritten: {results.write_run('startup', {'measurements': record})}")
