"""`python -m benchmarks export`: how far an ONNX runtime is from the machine it was given, at the most."""

import argparse
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.utils import get_tags

from . import results
from .table import aligned

KERNELS = ("linear", "rbf")
TYPES = ("float32", "float64")


class Difference(NamedTuple):
    """Rows, not seen in the fit, with another label; the largest difference of any score and of any probability."""

    labels: int
    scores: float
    probabilities: float


def cases(quick: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ten classes, and sets of five labels; columns between 0 and 1."""
    X, y = load_digits(return_X_y=True)
    n = 400 if quick else len(y)
    rows, sets = make_multilabel_classification(n, 30, n_classes=5, random_state=0)
    return {"classes": (X[:n] / 16.0, y[:n]), "labels": (rows / rows.max(), sets)}


def compare(machine: Any, X: np.ndarray, y: np.ndarray) -> Difference:
    """Fits on half of the rows, and asks both about the other half."""
    import onnxruntime

    from polymargin import to_onnx

    machine.fit(X[::2], y[::2])
    session = onnxruntime.InferenceSession(to_onnx(machine).SerializeToString(), providers=["CPUExecutionProvider"])
    asked = X[1::2]
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": asked}), strict=True))
    unlike = np.asarray(found["label"]) != machine.predict(asked)
    return Difference(
        int(unlike.any(axis=1).sum() if unlike.ndim == 2 else unlike.sum()),
        float(np.abs(found["scores"] - machine.decision_function(asked)).max()),
        float(np.abs(found["probabilities"] - machine.predict_proba(asked)).max()),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machines", nargs="*", help="names of machines (default: all)")


def main(args: argparse.Namespace) -> None:
    from polymargin.estimators import machines

    rows, record = [], []
    for name, machine in machines().items():
        if args.machines and name not in args.machines:
            continue
        for kind, (X, y) in cases(args.quick).items():
            if kind == "labels" and not get_tags(machine()).classifier_tags.multi_label:
                continue
            for kernel in KERNELS:
                cells = [name, kind, kernel]
                for dtype in TYPES:
                    est = machine(kernel=kernel, probability=True, tol=1e-2, random_state=0)
                    found = compare(est, X.astype(dtype), y)
                    cells += [str(found.labels), f"{found.scores:.0e}", f"{found.probabilities:.0e}"]
                    record.append({"machine": name, "target": kind, "kernel": kernel, "dtype": dtype, **found._asdict()})
                rows.append(cells)
    parts = ("labels", "scores", "proba")
    print(aligned(["machine", "target", "kernel", *(f"{dtype} {part}" for dtype in TYPES for part in parts)], rows, left=3))
    for dtype in TYPES:
        of = [line for line in record if line["dtype"] == dtype]
        worst = {part: max(line[part] for line in of) for part in ("scores", "probabilities")}
        print(f"\n{dtype}: {sum(line['labels'] for line in of)} labels differ; scores by at most {worst['scores']:.1e}, "
              f"probabilities by {worst['probabilities']:.1e}")
    print(f"\nwritten: {results.write_run('export', {'differences': record})}")
