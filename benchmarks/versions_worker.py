"""One side of `python -m benchmarks versions`: reads cases from standard input, one JSON object a line, and fits them.

It runs with the interpreter of its environment and imports the polymargin that is installed there, nothing of this folder.
"""

import functools
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

import polymargin  # noqa: E402

FOLDER = Path(os.environ.get("POLYMARGIN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@functools.lru_cache(maxsize=1)
def rows(data: str) -> tuple[Any, Any]:
    """Training rows, the dense ones with columns in [0, 1] or standardised."""
    name, _, how = data.partition(" ")
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X / 16.0, y
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        X, y, n_train = _matrix(file), file["y"], int(file["n_train"])
    X, y = (X[:n_train], y[:n_train]) if n_train > 0 else (X, y)
    if not sparse.issparse(X):
        X = np.asarray(X, dtype=np.float64)
        low, spread = X.min(axis=0), np.ptp(X, axis=0)
        if how == "standardised":
            low, spread = X.mean(axis=0), X.std(axis=0)
        X = (X - low) / np.where(spread > 0.0, spread, 1.0)
    return X.astype(np.float32 if how == "float32" else np.float64), y


def _matrix(file: Any) -> Any:
    if "X" in file:
        return file["X"]
    return sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))


def fit(case: dict[str, Any]) -> dict[str, Any]:
    X, y = rows(case["data"])
    machine = getattr(polymargin, case["machine"])()
    known = machine.get_params()  # an earlier version has fewer parameters, and what they ask for is what it does
    machine.set_params(**{name: value for name, value in case["parameters"].items() if name in known})
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(X, y)
    seconds, end = time.process_time() - start, machine.certificate_
    return {"seconds": seconds, "objective": end.primal, "gap": end.rel_gap, "status": end.status, "n_iter": end.n_iter}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(fit(json.loads(line))), flush=True)
