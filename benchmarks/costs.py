"""`python -m benchmarks costs`: unequal errors told in training, after it, or by weights of the classes.

| side | |
|---|---|
| plain | Weston-Watkins, which knows nothing of the costs |
| class weights | the same with each class weighted by the mean cost of its errors |
| label_cost | ``MarginSVC(loss=..., label_cost=cost)``: margins must reach the cost |
| after | ``WestonWatkinsSVC(probability=True).predict_min_cost(X, cost)`` |
| both | label_cost in training, and the least expected cost by its probabilities |

Tasks, each with the costs of a true class (row) taken for another (column):

- intrusions: connections of KDD Cup 1999 in its five categories, and that contest's own cost matrix; a sample of the rows,
  the rare categories whole.
- thyroid: newthyroid, a screening: an illness that is missed costs 20, one taken for the other 5, a false alarm 1.
- wine: marks of red wines, squared distances of the marks.
- blocks: pageblocks, graphics, pictures and rules that are taken for text cost 10 (they are lost), the rest 1.

C is chosen inside the training rows by the expected cost for everybody, plain too. Means over stratified folds, repeated.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from polymargin import MarginSVC, WestonWatkinsSVC
from polymargin.metrics import expected_cost

from . import results
from .datasets.base import read, standardised
from .table import aligned

GRID = (0.01, 0.1, 1.0, 10.0)
INNER = 3
# normal, probe, denial of service, user to root, remote to local
KDD_COSTS = ((0, 1, 2, 2, 2), (1, 0, 2, 2, 2), (2, 1, 0, 2, 2), (3, 2, 2, 0, 2), (4, 2, 2, 2, 0))
# back, buffer_overflow, ftp_write, guess_passwd, imap, ipsweep, land, loadmodule, multihop, neptune, nmap, normal, perl,
# phf, pod, portsweep, rootkit, satan, smurf, spy, teardrop, warezclient, warezmaster
KDD_CATEGORIES = (2, 3, 4, 4, 4, 1, 2, 3, 4, 2, 1, 0, 3, 4, 2, 1, 3, 1, 2, 4, 2, 4, 4)
MOST_OF_A_CATEGORY = 1200
Task = tuple[Any, Any, Any]


def intrusions() -> Task:
    X, y, _ = read("kddcup")
    y, rng = np.array(KDD_CATEGORIES)[y], np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:MOST_OF_A_CATEGORY] for k in range(5)])
    return standardised(np.log1p(np.maximum(X[rows], 0.0))), y[rows], np.array(KDD_COSTS, dtype=float)


def thyroid() -> Task:
    X, y, _ = read("newthyroid")  # normal, hyper, hypo
    return standardised(X), y, np.array([[0.0, 1.0, 1.0], [20.0, 0.0, 5.0], [20.0, 5.0, 0.0]])


def wine() -> Task:
    X, y, _ = read("winequality_red")
    marks = np.arange(y.max() + 1.0)
    return standardised(X), y, (marks[:, None] - marks) ** 2


def blocks() -> Task:
    X, y, _ = read("pageblocks")  # text, horizontal line, graphic, vertical line, picture
    cost = 1.0 - np.eye(5)
    cost[1:, 0] = 10.0
    return standardised(np.log1p(X)), y, cost


def small_wine() -> Task:
    X, y = load_wine(return_X_y=True)
    return standardised(X[:, :2]), y, np.array([[0.0, 1.0, 1.0], [10.0, 0.0, 10.0], [1.0, 1.0, 0.0]])


TASKS = {"intrusions": intrusions, "thyroid": thyroid, "wine": wine, "blocks": blocks}


class Side:
    """A machine, and how its classes are decided."""

    def __init__(self, machine: Any, cost: Any, decides_by_cost: bool = False):
        self.machine, self.cost, self.decides_by_cost = machine, cost, decides_by_cost

    def predict(self, X: Any) -> Any:
        return self.machine.predict_min_cost(X, self.cost) if self.decides_by_cost else self.machine.predict(X)

    def chosen(self, X: Any, y: Any, grid: tuple[float, ...]) -> "Side":
        """Fitted to all rows with the C of least expected cost on rows left out."""
        classes, found = np.arange(len(self.cost)), dict.fromkeys(grid, 0.0)
        for train, test in StratifiedKFold(INNER, shuffle=True, random_state=0).split(X, y):
            for C in grid:
                self.machine.set_params(C=C).fit(X[train], y[train])
                found[C] += len(test) * expected_cost(y[test], self.predict(X[test]), self.cost, labels=classes)
        self.machine.set_params(C=min(found, key=lambda C: found[C])).fit(X, y)
        return self


def sides(cost: Any, y: Any) -> dict[str, Side]:
    c, unit = len(cost), cost.sum() / (len(cost) * (len(cost) - 1))  # so that C means about the same for all
    of_class = cost.sum(axis=1) / (c - 1) / unit
    common: dict[str, Any] = {"random_state": 0, "tol": 1e-3}

    def told(loss: str, probability: bool = False) -> MarginSVC:
        return MarginSVC(loss=loss, label_cost=cost / unit, probability=probability, **common)

    return {
        "plain": Side(WestonWatkinsSVC(**common), cost),
        "class weights": Side(WestonWatkinsSVC(class_weight=dict(enumerate(of_class)), **common), cost),
        "label_cost, weston_watkins": Side(told("weston_watkins"), cost),
        "label_cost, crammer_singer": Side(told("crammer_singer"), cost),
        "after": Side(WestonWatkinsSVC(probability=True, **common), cost, True),
        "both": Side(told("weston_watkins", True), cost, True),
    }


def compare(name: str, task: Task, repeats: int, quick: bool) -> dict[str, Any]:
    X, y, cost = task
    found: dict[str, list[tuple[float, float, float]]] = {}
    for train, test in RepeatedStratifiedKFold(n_splits=2 if quick else 5, n_repeats=repeats, random_state=0).split(X, y):
        for side, one in sides(cost, y).items():
            start = time.process_time()
            predicted = one.chosen(X[train], y[train], GRID[1:3] if quick else GRID).predict(X[test])
            seconds = time.process_time() - start
            paid = expected_cost(y[test], predicted, cost, labels=np.arange(len(cost)))
            found.setdefault(side, []).append((paid, float((predicted == y[test]).mean()), seconds))
    means = {side: np.mean(values, axis=0) for side, values in found.items()}
    plain = np.array([paid for paid, _, _ in found["plain"]])
    lines = []
    for side, (paid, right, seconds) in means.items():
        behind = np.array([value for value, _, _ in found[side]]) - plain
        error = behind.std(ddof=1) / np.sqrt(len(behind))
        difference = f"{behind.mean():+.4f} ± {error:.4f}"
        against = f"{paid / means['plain'][0]:.2f}"
        lines.append([name, side, f"{paid:.4f}", against, difference, f"{right:.3f}", f"{seconds:.2f}"])
    head = ["task", "side", "expected cost", "of plain's", "difference", "accuracy", "seconds"]
    print(aligned(head, lines, left=2), flush=True)
    return {"values": found}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=2, help="times that the rows are cut into five folds (default 2)")


def main(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")  # rare classes: few rows left out
    if args.quick:
        record = {"wine*": compare("wine*", small_wine(), 1, True)}
    else:
        record = {name: compare(name, TASKS[name](), args.repeats, False) for name in args.tasks}
    print(f"\nwritten: {results.write_run('costs', {'tasks': record})}")
