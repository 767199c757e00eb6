"""`python -m benchmarks labels`: MultiLabelSVC and one-versus-rest LinearSVC with tuned cuts, by nested selection.

Both sides choose C on the same grid, and their cuts, inside the training rows, for the measure they are judged by. LinearSVC
is fitted once for each inner fold and C, its cuts are the best for the scores of rows left out (one for all labels, or one
for each), and it is fitted once more. MultiLabelSVC chooses its cuts by itself (threshold="per_label"), `threshold_score_`
tells which C is better, and it goes from one C to the next by a warm start. Seconds are those of the processor, for the
choice by Jaccard index, the last fit included.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from polymargin import MultiLabelSVC
from polymargin.estimators.fitting.cut import best_cut, best_cuts
from polymargin.metrics import known_label_score

from . import results
from .datasets.base import read, standardised
from .table import aligned

METRICS = ("jaccard", "micro_f1", "subset_accuracy")
GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
MANY_LABELS_GRID = (0.01, 0.03, 0.1, 0.3)
MANY_LABELS = 100
FEW_ROWS = 1000  # up to which rankings take part
INNER = 5
TOL = 1e-3
MOST_ROWS = {"delicious": 3000}  # of the training rows, so that LinearSVC ends within minutes


def common_cut(scores: Any, Y: Any, metric: str) -> Any:
    return best_cut(scores, Y.astype(np.int8), np.ones(len(Y)), metric, allow_empty=True)


def cut_per_label(scores: Any, Y: Any, metric: str) -> Any:
    return best_cuts(scores, Y.astype(np.int8), np.ones(len(Y)), metric)


class Rival:
    """One-versus-rest LinearSVC; its scores of rows left out serve all measures and both kinds of cuts."""

    def __init__(self, X: Any, Y: Any, grid: tuple[float, ...]):
        self.X, self.Y, self.left_out = X, Y, {}
        start = time.process_time()
        for C in grid:
            scores = np.empty(Y.shape)
            for rows, others in KFold(INNER, shuffle=True, random_state=1).split(np.empty(len(Y))):
                scores[others] = self.machine(C, rows).decision_function(X[others])
            self.left_out[C] = scores
        self.seconds = time.process_time() - start

    def machine(self, C: float, rows: Any = slice(None)) -> Any:
        return OneVsRestClassifier(LinearSVC(C=C, random_state=0)).fit(self.X[rows], self.Y[rows])

    def predict(self, X: Any, metric: str, cuts_of: Callable[..., Any]) -> tuple[Any, float]:
        """Label sets, and the seconds of everything that led to them."""
        start = time.process_time()
        found = {C: cuts_of(scores, self.Y, metric) for C, scores in self.left_out.items()}
        value = {C: known_label_score(self.Y, self.left_out[C] >= cuts, metric=metric) for C, cuts in found.items()}
        best = max(value, key=lambda C: value[C])
        predicted = self.machine(best).decision_function(X) >= found[best]
        return predicted, self.seconds + time.process_time() - start


def ours(X: Any, Y: Any, X_test: Any, metric: str, grid: tuple[float, ...], loss: str) -> tuple[Any, float]:
    start, best, predicted = time.process_time(), -1.0, None
    machine = MultiLabelSVC(loss=loss, threshold="per_label", metric=metric, tol=TOL, warm_start=True, random_state=0)
    for C in grid:
        machine.set_params(C=C).fit(X, Y)
        if machine.threshold_score_ > best:
            best, predicted = machine.threshold_score_, machine.predict(X_test)
    return predicted, time.process_time() - start


def splits(name: str, quick: bool, k: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Training and test rows: folds of small data, the official split of large."""
    if quick:
        X, Y = make_multilabel_classification(150, 15, n_classes=5, random_state=0)
    else:
        X, Y, n_train = read(f"{name}_ml")
    X = X if sparse.issparse(X) else standardised(X)
    if not quick and Y.shape[1] > MANY_LABELS:
        rows = np.random.default_rng(0).permutation(n_train)[: MOST_ROWS.get(name, n_train)]
        yield X[rows], Y[rows], X[n_train:], Y[n_train:]
        return
    for train, test in KFold(2 if quick else k, shuffle=True, random_state=0).split(X):
        yield X[train], Y[train], X[test], Y[test]


def sides(name: str, X: Any, Y: Any, X_test: Any, metric: str, rival: Rival) -> dict[str, tuple[Any, float]]:
    grid = tuple(rival.left_out)
    found = {
        "LinearSVC, one cut": rival.predict(X_test, metric, common_cut),
        "LinearSVC, cuts": rival.predict(X_test, metric, cut_per_label),
        "MultiLabelSVC": ours(X, Y, X_test, metric, grid, "relevance"),
        "MultiLabelSVC squared": ours(X, Y, X_test, metric, grid, "squared_relevance"),
    }
    if len(Y) <= FEW_ROWS:  # dual ascent over ranked rows is slower
        for loss in ("ranking", "max_ranking"):
            found[f"MultiLabelSVC {loss}"] = ours(X, Y, X_test, metric, grid, loss)
    return found


def compare(name: str, quick: bool, k: int) -> tuple[list[list[str]], dict[str, Any]]:
    values: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, float] = {}
    for X, Y, X_test, Y_test in splits(name, quick, k):
        grid = GRID if Y.shape[1] <= MANY_LABELS else MANY_LABELS_GRID
        rival = Rival(X, Y, grid[1:3] if quick else grid)
        for metric in METRICS:
            for side, (predicted, spent) in sides(name, X, Y, X_test, metric, rival).items():
                value = known_label_score(Y_test, predicted, metric=metric)
                values.setdefault(side, {}).setdefault(metric, []).append(value)
                if metric == "jaccard":
                    seconds[side] = seconds.get(side, 0.0) + spent
    title = f"{name}*" if quick else name
    lines = [
        [title, side, *(f"{np.mean(of[metric]):.4f}" for metric in METRICS), f"{seconds[side]:.1f}"]
        for side, of in values.items()
    ]
    print(aligned(["data", "side", *METRICS, "seconds"], lines, left=2), flush=True)
    return lines, {"values": values, "seconds": seconds}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ["emotions", "scene", "bibtex", "delicious"]
    parser.add_argument("--data", nargs="+", default=names, help="emotions, scene, bibtex, delicious (default all)")
    parser.add_argument("--folds", type=int, default=5, help="outer folds of small data (default 5)")


def main(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")  # labels without members in a fold, LinearSVC at its limit of iterations
    record = {name: compare(name, args.quick, args.folds)[1] for name in args.data}
    print(f"\nwritten: {results.write_run('labels', {'data': record})}")
