"""`python -m benchmarks hard`: Crammer-Singer with nearly hard margins, beside what LIBLINEAR reaches in its time.

Standardised or raw columns, rows that can be separated, a large C: coordinate methods crawl there. Ours runs once, to a
certified relative gap of 1e-4. LIBLINEAR runs with tolerances 1, 0.1, ... and at most 3000 iterations, until it is within a
tenth of a per cent of our dual bound, or a run takes longer than the cap. Its objective is evaluated without polymargin.
No intercept: the same problem for both. Seconds are processor seconds, one thread.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from polymargin import CrammerSingerSVC

from . import objective, results
from .datasets.base import Matrix, read, standardised
from .table import aligned, number

CASES = {"yaleb": (0.1, 1.0, 100.0), "usps": (16.0, 1000.0), "letter": (64.0,), "orl": (1.0,)}  # values of C
SCALED = ("yaleb", "orl", "digits")
TOL, CLOSE, MOST = 1e-4, 1e-3, 3000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME")
    parser.add_argument("--cap", type=float, default=30.0, help="LIBLINEAR ends after a run of so many seconds (default 30)")


def main(args: argparse.Namespace) -> None:
    cases = [("digits", 100.0)] if args.quick else [(name, C) for name in args.cases for C in CASES[name]]
    record = []
    for name, C in cases:
        record.append(compared(name, C, 2.0 if args.quick else args.cap))
        print(" · ".join(line(record[-1])), flush=True)
    print()
    print(aligned(HEAD, [line(run) for run in record]))
    print(f"\nwritten: {results.write_run('hard', {'runs': record})}")


HEAD = ["data", "C", "rows", "ours s", "gap", "LIBLINEAR s", "above the bound", "accuracy ours / theirs (training rows)"]


def line(run: dict[str, Any]) -> list[str]:
    accuracies = f"{run['accuracy']:.4f} / {run['their_accuracy']:.4f}"
    above = f"{run['their_excess']:.2%}"
    return [run["data"], f"{run['C']:g}", str(run["rows"]), number(run["seconds"]), f"{run['gap']:.0e}",
            number(run["their_seconds"]), above, accuracies]  # fmt: skip


def load(name: str) -> tuple[Matrix, np.ndarray]:
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        X, y, _ = read(name)
    X = np.asarray(X, dtype=np.float64)
    if name in SCALED:
        X = standardised(X)
    return X, np.unique(y, return_inverse=True)[1]


def compared(name: str, C: float, cap: float) -> dict[str, Any]:
    X, y = load(name)
    start = time.process_time()
    ours = CrammerSingerSVC(C=C, tol=TOL, fit_intercept=False, random_state=0).fit(X, y)
    seconds = time.process_time() - start
    bound, zero = ours.certificate_.dual, np.zeros(len(ours.classes_))
    stated = objective.primal("cs", X, y, C, ours.class_vectors_, zero)
    assert abs(stated - ours.certificate_.primal) <= 1e-9 * stated, "the objective is another one"
    theirs = np.inf
    for tol in 10.0 ** -np.arange(6):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rival = LinearSVC(
                multi_class="crammer_singer", C=C, tol=tol, fit_intercept=False, max_iter=MOST, random_state=0
            ).fit(X, y)
        their_seconds = time.process_time() - start
        theirs = objective.primal("cs", X, y, C, rival.coef_, zero)
        assert theirs >= bound * (1.0 - 1e-9), "a rival below the bound has another problem"
        if theirs <= bound * (1.0 + CLOSE) or their_seconds > cap:
            break
    return {
        "data": name,
        "C": C,
        "rows": len(y),
        "seconds": seconds,
        "gap": ours.certificate_.rel_gap,
        "status": ours.certificate_.status,
        "accuracy": ours.score(X, y),
        "their_seconds": their_seconds,
        "their_excess": theirs / bound - 1.0,
        "their_accuracy": rival.score(X, y),
    }
