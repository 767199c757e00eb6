"""`python -m benchmarks labels`: MultiLabelSVC and one-versus-rest LinearSVC with tuned cuts, by nested selection.

Both sides choose C on the same grid, and their cuts, inside the training rows, for the measure they are judged by. LinearSVC
is fitted once for each inner fold and C, its cuts are the best for the scores of rows left out (one for all labels, or one
for each), and it is fitted once more. MultiLabelSVC chooses its cuts by itself (threshold="per_label"), and whether a row
may be without labels; "LinearSVC, our cuts" shows what this is worth beside another machine. `threshold_score_` tells
which C is better, and it goes from one C to the next by a warm start. "MultiLabelSVC, chosen" takes the loss, too, by
`threshold_score_`: nothing is seen of the test rows. Seconds are those of the processor, for the choice by Jaccard index,
the last fit included; those of the chosen loss are the sum of all that it was chosen among.

`--why` asks what tells the losses apart, without any cut: for each loss and C, and with the intercept penalised as LinearSVC
has it (a column of ones), the micro-averaged precision of the test scores over all cuts, and the share of the training
entries whose scores lie at -1, where the hinge puts them and a squared hinge does not.

Data with many labels is judged on its official test rows, delicious with some of its training rows and labels only
(`SAMPLES`), the same for both sides; with `--repeats` other rows and labels are drawn each time.

Differences to the better one of LinearSVC's two kinds of cuts come with a standard error, from tenths of the test rows: what
other test rows would change, not what other training rows would.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from polymargin import MultiLabelSVC
from polymargin.estimators.fitting.cut import Chosen, best_cuts, chosen_cut, label_sets, steady_cuts
from polymargin.metrics import known_label_score

from . import results
from .datasets.base import read, standardised
from .table import aligned

METRICS = ("jaccard", "micro_f1", "subset_accuracy")
GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
MANY_LABELS_GRID = (0.01, 0.03, 0.1, 0.3)
MANY_LABELS = 100
INNER = 5
TOL = 1e-3
SAMPLES = {"delicious": (1500, 120)}  # training rows and labels, so that LinearSVC ends within minutes
TENTHS = 10
AT = 0.02
CHOSEN_AMONG = ("relevance", "squared_relevance")


def common_cut(scores: Any, Y: Any, metric: str) -> Chosen:
    return chosen_cut(scores, Y.astype(np.int8), np.ones(len(Y)), metric, ways=(True,))


def cut_per_label(scores: Any, Y: Any, metric: str) -> Chosen:
    cuts = best_cuts(scores, Y.astype(np.int8), np.ones(len(Y)), metric)
    return Chosen(cuts, True, known_label_score(Y, scores >= cuts, metric=metric))


def our_cuts(scores: Any, Y: Any, metric: str) -> Chosen:
    return steady_cuts(scores, Y.astype(np.int8), np.ones(len(Y)), metric, 0)


RIVALS = {"LinearSVC, one cut": common_cut, "LinearSVC, cuts": cut_per_label}


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

    def predict(self, X: Any, metric: str, cuts_of: Callable[..., Chosen]) -> tuple[Any, float]:
        """Label sets, and the seconds of everything that led to them."""
        start = time.process_time()
        found = {C: cuts_of(scores, self.Y, metric) for C, scores in self.left_out.items()}
        best = max(found, key=lambda C: found[C].value)
        cuts, allow_empty, _ = found[best]
        predicted = label_sets(self.machine(best).decision_function(X), cuts, allow_empty)
        return predicted, self.seconds + time.process_time() - start


class Ours(NamedTuple):
    """The best machine of a grid: its label sets of the test rows, its score of rows left out, and the seconds of all."""

    predicted: Any
    left_out: float
    seconds: float


def ours(X: Any, Y: Any, X_test: Any, metric: str, grid: tuple[float, ...], loss: str) -> Ours:
    start, best, predicted = time.process_time(), -1.0, None
    machine = MultiLabelSVC(loss=loss, threshold="per_label", metric=metric, tol=TOL, warm_start=True, random_state=0)
    for C in grid:
        machine.set_params(C=C).fit(X, Y)
        if machine.threshold_score_ > best:
            best, predicted = machine.threshold_score_, machine.predict(X_test)
    return Ours(predicted, best, time.process_time() - start)


def splits(name: str, quick: bool, k: int, repeats: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Training and test rows: folds of small data, several times, or the official split of large."""
    if quick:
        X, Y = make_multilabel_classification(150, 15, n_classes=5, random_state=0)
    else:
        X, Y, n_train = read(f"{name}_ml")
    X = X if sparse.issparse(X) else standardised(X)
    if not quick and Y.shape[1] > MANY_LABELS:
        n_rows, n_labels = SAMPLES.get(name, (n_train, Y.shape[1]))
        for seed in range(repeats if name in SAMPLES else 1):
            rng = np.random.default_rng(seed)
            rows, labels = rng.permutation(n_train)[:n_rows], np.sort(rng.permutation(Y.shape[1])[:n_labels])
            yield X[rows], Y[np.ix_(rows, labels)], X[n_train:], Y[n_train:, labels]
        return
    for seed in range(repeats):
        for train, test in KFold(2 if quick else k, shuffle=True, random_state=seed).split(X):
            yield X[train], Y[train], X[test], Y[test]


def sides(X: Any, Y: Any, X_test: Any, metric: str, rival: Rival, more: tuple[str, ...]) -> dict[str, tuple[Any, float]]:
    grid = tuple(rival.left_out)
    cuts_of = {**RIVALS, "LinearSVC, our cuts": our_cuts}
    found = {side: rival.predict(X_test, metric, choose) for side, choose in cuts_of.items()}
    fitted = {loss: ours(X, Y, X_test, metric, grid, loss) for loss in (*CHOSEN_AMONG, *more)}
    chosen = max((fitted[loss] for loss in CHOSEN_AMONG), key=lambda one: one.left_out)
    found["MultiLabelSVC, chosen"] = chosen.predicted, sum(fitted[loss].seconds for loss in CHOSEN_AMONG)
    return found | {f"MultiLabelSVC, {loss}": (one.predicted, one.seconds) for loss, one in fitted.items()}


def compare(name: str, quick: bool, k: int, repeats: int, more: tuple[str, ...]) -> tuple[list[list[str]], dict[str, Any]]:
    values: dict[str, dict[str, list[float]]] = {}
    tenths: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, float] = {}
    for X, Y, X_test, Y_test in splits(name, quick, k, repeats):
        grid = GRID if Y.shape[1] <= MANY_LABELS else MANY_LABELS_GRID
        rival = Rival(X, Y, grid[1:3] if quick else grid)
        for metric in METRICS:
            for side, (predicted, spent) in sides(X, Y, X_test, metric, rival, more).items():
                value = known_label_score(Y_test, predicted, metric=metric)
                values.setdefault(side, {}).setdefault(metric, []).append(value)
                tenths.setdefault(side, {}).setdefault(metric, []).extend(of_tenths(Y_test, predicted, metric))
                if metric == "jaccard":
                    seconds[side] = seconds.get(side, 0.0) + spent
    title = f"{name}*" if quick else name
    lines = [
        [title, side, *(f"{np.mean(of[metric]):.4f}" for metric in METRICS), f"{seconds[side]:.1f}"]
        for side, of in values.items()
    ]
    print(aligned(["data", "side", *METRICS, "seconds"], lines, left=2), flush=True)
    ahead = {metric: ahead_of_rival(values, tenths, metric) for metric in METRICS}
    told = ", ".join(f"{metric} {mean:+.4f} +- {error:.4f}" for metric, (mean, error) in ahead.items())
    print(f"{title}: chosen less the better LinearSVC: {told}", flush=True)
    return lines, {"values": values, "seconds": seconds, "tenths": tenths}


def of_tenths(Y: Any, predicted: Any, metric: str) -> list[float]:
    """The measure of every tenth of the rows."""
    n_parts = min(TENTHS, len(Y))
    return [known_label_score(Y[part::n_parts], predicted[part::n_parts], metric=metric) for part in range(n_parts)]


def ahead_of_rival(values: dict[str, Any], tenths: dict[str, Any], metric: str) -> tuple[float, float]:
    """How far the chosen machine is ahead of the better LinearSVC, and the standard error of that."""
    ours = "MultiLabelSVC, chosen"
    rival = max(RIVALS, key=lambda side: float(np.mean(values[side][metric])))
    parts = np.subtract(tenths[ours][metric], tenths[rival][metric])
    difference = float(np.mean(values[ours][metric]) - np.mean(values[rival][metric]))
    return difference, float(parts.std(ddof=1) / np.sqrt(len(parts)))


def why(name: str, quick: bool) -> list[dict[str, Any]]:
    """Average precision and scores at -1 of the first split, for each loss, intercept and C."""
    X, Y, X_test, Y_test = next(splits(name, quick, 5, 1))
    grid = GRID if Y.shape[1] <= MANY_LABELS else MANY_LABELS_GRID
    lines, record = [], []
    for loss in CHOSEN_AMONG:
        for free in (True, False):
            rows, rows_test = (X, X_test) if free else (_with_ones(X), _with_ones(X_test))
            machine = MultiLabelSVC(loss=loss, fit_intercept=free, tol=TOL, warm_start=True, random_state=0)
            for C in grid:
                machine.set_params(C=C).fit(rows, Y)
                precision = float(average_precision_score(Y_test, machine.decision_function(rows_test), average="micro"))
                at_minus_1 = float((np.abs(machine.decision_function(rows) + 1.0) < AT).mean())
                record.append({"loss": loss, "free": free, "C": C, "precision": precision, "at_minus_1": at_minus_1})
                intercept = "free" if free else "penalised"
                lines.append([name, loss, intercept, f"{C:g}", f"{precision:.4f}", f"{at_minus_1:.3f}"])
    head = ["data", "loss", "intercept", "C", "average precision", f"scores within {AT} of -1"]
    print(aligned(head, lines, left=3), flush=True)
    return record


def _with_ones(X: Any) -> Any:
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ["emotions", "scene", "bibtex", "delicious"]
    parser.add_argument("--data", nargs="+", default=names, help="emotions, scene, bibtex, delicious (default all)")
    parser.add_argument("--folds", type=int, default=5, help="outer folds of small data (default 5)")
    parser.add_argument("--repeats", type=int, default=1, help="times that small data is cut into folds, or delicious drawn")
    parser.add_argument("--why", action="store_true", help="what tells the losses apart, instead of the comparison")
    parser.add_argument("--rankings", action="store_true", help="the two rankings, too: slower, meant for small data")


def main(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")  # labels without members in a fold, LinearSVC at its limit of iterations
    if args.why:
        reasons = {name: why(name, args.quick) for name in args.data}
        print(f"\nwritten: {results.write_run('labels', {'why': reasons})}")
        return
    more = ("ranking", "max_ranking") if args.rankings or args.quick else ()
    record = {name: compare(name, args.quick, args.folds, args.repeats, more)[1] for name in args.data}
    print(f"\nwritten: {results.write_run('labels', {'data': record})}")
