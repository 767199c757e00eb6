"""`python -m benchmarks more_rows`: why OneVsNoneSVC with a kernel can become worse with more rows.

Connect-4 (three classes, 10, 25 and 66 % of the rows), a Gaussian kernel of rank 500. One thing is changed at a time: the
rows of all classes, with the C of each row fixed or with C times the number of rows fixed; the rows of one class alone; the
weights of the classes; the coupling of their vectors; whether negatives are told. Means over random draws of the training
rows; 5,000 test rows. "own" and "others" are mean scores of the test rows by their own class and by the others, "shares" are
what is predicted.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_iris

from polymargin import OneVsNoneSVC

from . import results
from .datasets.base import read
from .table import aligned

SHARES = (0.095, 0.246, 0.659)  # of the classes: draws, losses, wins
N_TEST = 5000
RANK = 500


class Case(NamedTuple):
    """What is changed, the rows of each class, and the parameters."""

    name: str
    counts: tuple[int, ...]
    parameters: dict[str, Any]


def cases() -> list[Case]:
    found = []
    for n in (375, 750, 1500, 3200):
        counts = tuple(round(share * n) for share in SHARES)
        found += [Case("all classes, C = 1", counts, {}), Case("all classes, C n = 75", counts, {"C": 75 / n})]
        found.append(Case("all classes, negatives told", counts, {"zeros": "negative"}))
    found += [Case("all classes alike, C = 1", (m, m, m), {}) for m in (125, 500, 2000)]
    changes: dict[str, dict[str, Any]] = {
        "": {},
        ", balanced weights": {"class_weight": "balanced"},
        ", biases soft": {"biases": "soft"},
        ", alpha = 0": {"alpha": 0.0},
        ", weights hard": {"weights": "hard"},
    }
    for name, parameters in changes.items():
        found += [Case(f"third class alone{name}", (150, 150, m), parameters) for m in (150, 600, 2400)]
    return sorted(found, key=lambda case: case.name)  # the sizes of a name stay in order


def judged(case: Case, X: Any, y: Any, X_test: Any, y_test: Any, seed: int) -> list[float]:
    rng, c = np.random.default_rng(seed), len(case.counts)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:m] for k, m in enumerate(case.counts)])
    rank = min(RANK, len(rows))
    machine = OneVsNoneSVC(**{"C": 1.0, "kernel": "rbf", "n_components": rank, "random_state": 0, **case.parameters})
    target = np.eye(c, dtype=int)[y[rows]] if "zeros" in case.parameters else y[rows]
    scores = machine.fit(X[rows], target).decision_function(X_test)
    predicted, own = scores.argmax(axis=1), scores[np.arange(len(y_test)), y_test]
    recall = [float((predicted[y_test == k] == k).mean()) for k in range(c)]
    others = (scores.sum(axis=1) - own) / (c - 1)
    shares = np.bincount(predicted, minlength=c) / len(predicted)
    return [float((predicted == y_test).mean()), float(np.mean(recall)), own.mean(), others.mean(), *shares, *recall]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=3, help="of the training rows (default 3)")


def main(args: argparse.Namespace) -> None:
    if args.quick:
        X, y = load_iris(return_X_y=True)
        X_test, y_test, todo = X, y, [Case("third class alone*", (20, 20, m), {}) for m in (10, 50)]
    else:
        X, y, _ = read("connect4")
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X.toarray()[order], y[order]
        X, y, X_test, y_test = X[N_TEST:], y[N_TEST:], X[:N_TEST], y[:N_TEST]
    lines, record = [], []
    for case in todo if args.quick else cases():
        found = np.mean([judged(case, X, y, X_test, y_test, seed) for seed in range(args.draws)], axis=0)
        accuracy, balanced, own, others = (f"{value:.3f}" for value in found[:4])
        shares, recall = (" ".join(f"{value:.2f}" for value in part) for part in np.split(found[4:], 2))
        lines.append([case.name, " + ".join(map(str, case.counts)), accuracy, balanced, own, others, shares, recall])
        record.append({"name": case.name, "counts": case.counts, "found": found.tolist()})
    head = ["changed", "rows", "accuracy", "mean recall", "own", "others", "shares", "recall"]
    print(aligned(head, lines, left=2))
    print(f"\nwritten: {results.write_run('more_rows', {'cases': record})}")
