"""`python -m benchmarks paths`: 20 values of C along a warm-started path, against cold fits, for every machine.

`--part search`: `PathCV` against `GridSearchCV` with three folds, over these values and over five powers of ten.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from polymargin.datasets import load
from polymargin.estimators import machines
from polymargin.selection.path_cv import PathCV
from polymargin.selection.paths import regularization_path

from . import results
from .table import aligned, number

CS = np.logspace(-2, 2, 20)
GRIDS = (CS, np.logspace(-2, 2, 5))
SEARCHED = ("CrammerSingerSVC", "WestonWatkinsSVC")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", default=["vehicle", "segment", "satimage", "pendigits", "news20"], help="names")
    parser.add_argument("--machines", nargs="+", help="names of machines (default: all, of searches two)")
    parser.add_argument("--part", choices=("paths", "search"), default="paths")


def main(args: argparse.Namespace) -> None:
    names = ["iris", "wine"] if args.quick else args.data
    asked = args.machines or (SEARCHED if args.part == "search" else list(machines()))
    chosen = {name: cls for name, cls in machines().items() if name in asked}
    if args.part == "search":
        return search(names, chosen, GRIDS[1:] if args.quick else GRIDS)
    rows, record = [], []
    for data in names:
        X, y = _rows_of(data)
        for machine, cls in chosen.items():
            found = measure(cls(random_state=0), X, y)
            record.append({"data": data, "machine": machine, **found})
            passes = found["path_passes"] / found["largest_passes"]
            rows.append([
                f"{data} {machine}", str(found["path_passes"]), str(found["cold_passes"]), str(found["largest_passes"]),
                f"{passes:.2f}", number(found["path_seconds"]), number(found["cold_seconds"]), str(found["unfinished"]),
            ])  # fmt: skip
    head = ["20 values of C, 0.01 to 100", "path", "cold", "cold at C=100", "path/that", "path s", "cold s", "not converged"]
    print(aligned(head, rows))
    print("\npath, cold: passes over the data (or Newton steps) of all 20 fits. The goal is a ratio below 3.")
    print(f"written: {results.write_run('paths', {'fits': record})}")


def search(names: list[str], chosen: dict[str, Any], grids: tuple[Any, ...]) -> None:
    """Processor seconds of both searches, of folds, scores and the last fit."""
    rows, record = [], []
    for data in names:
        X, y = _rows_of(data)
        for machine, cls in chosen.items():
            for grid in grids:
                seconds = [_seconds(kind(cls(random_state=0), {"C": grid}, cv=3), X, y) for kind in (PathCV, GridSearchCV)]
                record.append({"data": data, "machine": machine, "values": len(grid), "seconds": seconds})
                rows.append([f"{data} {machine}", str(len(grid)), *map(number, seconds), f"{seconds[0] / seconds[1]:.2f}"])
    print(aligned(["three folds", "values of C", "PathCV s", "GridSearchCV s", "ratio"], rows))
    print(f"\nwritten: {results.write_run('paths', {'searches': record})}")


def _seconds(search: Any, X: Any, y: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.process_time()
        search.fit(X, y)
        return time.process_time() - began


def measure(estimator: Any, X: Any, y: Any) -> dict[str, Any]:
    """Passes and processor seconds of the path, of 20 cold fits and of the one at the largest C."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        began = time.process_time()
        path = regularization_path(estimator, X, y, list(CS))
        path_seconds = time.process_time() - began
        unfinished = sum(issubclass(w.category, ConvergenceWarning) for w in caught)
        began = time.process_time()
        cold = [clone(estimator).set_params(C=C).fit(X, y) for C in CS]
        cold_seconds = time.process_time() - began
    return {
        "path_passes": int(path.n_iter.sum()),
        "cold_passes": int(sum(machine.n_iter_ for machine in cold)),
        "largest_passes": int(cold[-1].n_iter_),
        "path_seconds": path_seconds,
        "cold_seconds": cold_seconds,
        "unfinished": unfinished,
    }


def _rows_of(name: str) -> tuple[Any, Any]:
    data = load(name)
    X, y = data.X, data.y
    if sparse.issparse(X):  # text: as it is, and every third row of it
        X, y = X[: data.n_train or len(y)], y[: data.n_train or len(y)]
        return sparse.csr_array(X)[::3], y[::3]
    if data.n_train:
        X, y = X[: data.n_train], y[: data.n_train]
    return StandardScaler().fit_transform(X), y
