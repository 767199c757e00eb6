"""`python -m benchmarks multilabel`: Jaccard accuracy of OneVsNoneSVC and of binary relevance, by nested cross-validation.

Binary relevance is scikit-learn's OneVsRestClassifier of LinearSVC or SVC. All sides choose C, and OneVsNoneSVC
also alpha, by the Jaccard index of out-of-fold predictions inside the training rows. Sides marked "cut" choose the cut on
the scores in the same way, with the highest score's label where none reaches it: binary relevance too, so that what is left
is the machine. "paper" is OneVsNoneSVC as published: no negatives, threshold 1.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from polymargin import OneVsNoneSVC
from polymargin.estimators.fitting.cut import best_cut, label_sets

from . import results
from .datasets.base import read
from .table import aligned

GRID = (0.003, 0.03, 0.3, 3.0)  # C of linear machines
KERNEL_GRID = (0.3, 3.0, 30.0)
ALPHAS = (0.0, 0.5)
INNER = 3
TOL = 1e-2


class Side(NamedTuple):
    """A machine for each point of its grid, and how its scores become label sets."""

    make: Callable[..., Any]
    grid: tuple[tuple[float, ...], ...]
    signed: bool  # zeros are told as known negatives
    cut: float | None  # None: chosen by cross-validation

    def scores(self, point: tuple[float, ...], X: Any, Y: Any, X_test: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TOL is coarse on purpose
            machine = self.make(*point).fit(X, 2 * Y - 1 if self.signed else Y)
        return machine.decision_function(X_test)

    def predictions(self, scores: Any, cut: float) -> Any:
        return scores > 0.0 if self.cut == 0.0 else label_sets(scores, cut)


def relevance_linear(C: float) -> Any:
    return OneVsRestClassifier(LinearSVC(C=C, tol=TOL, max_iter=300))


def relevance_kernel(C: float) -> Any:
    return OneVsRestClassifier(SVC(C=C, tol=TOL))


def ours(kernel: str) -> Callable[..., Any]:
    return lambda C, alpha: OneVsNoneSVC(C=C, alpha=alpha, kernel=kernel, tol=TOL, random_state=0)


def sides(kernels: bool) -> dict[str, Side]:
    linear, rbf = tuple((C,) for C in GRID), tuple((C,) for C in KERNEL_GRID)
    found = {
        "LinearSVC": Side(relevance_linear, linear, False, 0.0),
        "LinearSVC, cut": Side(relevance_linear, linear, False, None),
        "OvN linear, paper": Side(ours("linear"), tuple(product(GRID, (0.5, 0.9))), False, 1.0 - 10 * TOL),
        "OvN linear, cut": Side(ours("linear"), tuple(product(GRID[:3], ALPHAS)), True, None),
    }
    if kernels:
        found |= {
            "SVC": Side(relevance_kernel, rbf, False, 0.0),
            "SVC, cut": Side(relevance_kernel, rbf, False, None),
            "OvN rbf, cut": Side(ours("rbf"), tuple(product(KERNEL_GRID, ALPHAS)), True, None),
        }
    return found


def jaccard(Y: Any, predicted: Any) -> float:
    """Mean over the rows; an empty prediction of an empty set is right."""
    both, either = (Y & predicted).sum(axis=1), (Y | predicted).sum(axis=1)
    return float(np.where(either > 0, both / np.maximum(either, 1), 1.0).mean())


def folds(n: int, k: int, seed: int) -> Iterator[tuple[Any, Any]]:
    return KFold(k, shuffle=True, random_state=seed).split(np.empty(n))


def outer_score(side: Side, X: Any, Y: Any, train: Any, test: Any) -> float:
    """Chooses on the training rows, then predicts the test rows."""
    scaler = StandardScaler().fit(X[train])
    A, B, Y_train = scaler.transform(X[train]), scaler.transform(X[test]), Y[train]
    best, choice = -1.0, (side.grid[0], 0.0)
    for point in side.grid:
        scores = np.empty(Y_train.shape)
        for fit_rows, left_out in folds(len(A), INNER, 1):
            scores[left_out] = side.scores(point, A[fit_rows], Y_train[fit_rows], A[left_out])
        cut = best_cut(scores, Y_train.astype(np.int8), np.ones(len(A))) if side.cut is None else side.cut
        value = jaccard(Y_train, side.predictions(scores, cut))
        if value > best:
            best, choice = value, (point, cut)
    return jaccard(Y[test], side.predictions(side.scores(choice[0], A, Y_train, B), choice[1]))


def interval(values: Any, share: float) -> tuple[float, float]:
    """Mean and half-width of a 95 % interval; folds share rows, so the variance is corrected (Nadeau & Bengio 2003)."""
    k = len(values)
    half = student.ppf(0.975, k - 1) * np.sqrt((1.0 / k + share) * np.var(values, ddof=1))
    return float(np.mean(values)), float(half)


def load(name: str, quick: bool) -> tuple[Any, Any, str]:
    """Data and its name; a star marks a stand-in."""
    try:
        if not quick:
            X, Y, _ = read(f"{name}_ml")
            return X, Y.astype(int), name
    except FileNotFoundError:
        pass
    X, Y = make_multilabel_classification(200, 15, n_classes=5, random_state=0, allow_unlabeled=False)
    return X, Y, f"{name}*"


def compare(name: str, k: int, quick: bool, kernels: bool) -> tuple[list[list[str]], dict[str, Any]]:
    X, Y, title = load(name, quick)
    scores: dict[str, list[float]] = {}
    seconds = {}
    for side_name, side in sides(kernels).items():
        start = time.perf_counter()
        scores[side_name] = [outer_score(side, X, Y, *rows) for rows in folds(len(X), k, 0)]
        seconds[side_name] = time.perf_counter() - start
        print(f"  {title}: {side_name} {np.mean(scores[side_name]):.4f}", flush=True)
    share = 1.0 / (k - 1)  # test rows for each training row
    lines = []
    for side_name, values in scores.items():
        rival = "SVC" if "rbf" in side_name or side_name.startswith("SVC") else "LinearSVC"
        mean, half = interval(values, share)
        cells = [title, side_name, f"{mean:.4f}", f"{half:.4f}"]
        for other in (rival, f"{rival}, cut"):
            ahead = interval(np.subtract(values, scores[other]), share)
            cells.append("" if side_name == other else f"{ahead[0]:+.4f} +- {ahead[1]:.4f}")
        lines.append([*cells, f"{seconds[side_name]:.1f}"])
    return lines, {"scores": scores, "seconds": seconds}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", nargs="+", default=["emotions", "scene"], help="emotions, scene (default both)")
    parser.add_argument("--folds", type=int, default=5, help="outer folds (default 5)")
    parser.add_argument("--linear", action="store_true", help="leave out the rbf kernel")


def main(args: argparse.Namespace) -> None:
    rows, record = [], {}
    for name in args.data:
        lines, record[name] = compare(name, 3 if args.quick else args.folds, args.quick, not args.linear)
        rows += lines
    header = ["data", "side", "Jaccard", "+- 95 %", "ahead of its rival", "of its rival with a cut", "seconds"]
    print("\n" + aligned(header, rows, left=2))
    print(f"\nwritten: {results.write_run('multilabel', {'data': record})}")
