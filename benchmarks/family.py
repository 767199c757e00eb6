"""`python -m benchmarks family`: which losses of the family ever win, which collapse, and how long each takes.

`--part accuracy`: every loss of `MarginSVC`, squared or not, with ``penalty="l2"``, on the papers' data. All are tuned
alike: the same C, a fifth of the training rows (stratified) to choose it by, a last fit to all of them. Small data is split
at random, 70 : 30, stratified, `--splits` times; data with a split of its own keeps it, with other training rows each time
if there are more than `MOST_ROWS`. Columns are standardised by the training rows; text and embeddings stay as they are.
"Level" with the best means: its mean is not below that of the best loss by more than the standard error of their
differences (one split: of the test rows). Top-5 accuracy, where there are ten classes or more, has a C of its own.

`--part speed`: a fit of each, C = 1 and the default tolerance, in processor seconds and in multiples of Crammer-Singer's.
A star marks a stand-in, which is not the data set of that name.

`--part table`: every product of a loss and a penalty, squared too, fitted to iris: how it ends. `docs/family.md` has it.

`--part zeros`: penalties that make zeros, in multiples of the same loss with ``penalty="l2"``, at `--tol`.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

import polymargin
from polymargin import MarginSVC

from . import datasets, results
from .datasets.base import Data, read, split
from .table import aligned

GRID = (0.01, 0.1, 1.0, 10.0)
MOST_ROWS, MOST_TEST_ROWS = 1000, 3000
TOL, MAX_ITER = 1e-3, 1000
TOP = 5
OWN_SPLIT = ("vowel", "satimage", "usps", "letter", "news20", "banking77_emb")
AS_THEY_ARE = ("news20", "banking77_emb")
NAMES = ("iris", "wine", "glass", "vehicle", "segment", *OWN_SPLIT)
TIMED = ("letter", "news20", "banking77_emb")
MAKE_ZEROS = (("elastic_net", 0.03), ("elastic_net", 0.3), ("group", 0.1), ("group", 1.0))
MARKS = {"optimal": "✓", "stationary": "~"}
WITH_ZEROS = ("crammer_singer", "weston_watkins", "one_vs_rest")


def family(n_classes: int) -> dict[str, dict[str, Any]]:
    """The parameters of each loss, by the name that tables call it."""
    found: dict[str, dict[str, Any]] = {}
    for loss in dict.fromkeys(product.loss for product in polymargin.machines()):
        counts = (2, TOP) if n_classes > TOP else (2,)
        for k in counts if loss.startswith("top_k") else (None,):
            name = loss if k is None else f"{loss} {k}"
            parameters = {"loss": loss} | ({"k": k} if k else {})
            found[name] = parameters
            found[f"{name}, squared"] = {**parameters, "squared": True}
    return found


# ---- accuracy -----------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """Rights of the test rows: by the highest score, and among the five highest."""

    right: Any
    in_top: Any


def splits(name: str, n_splits: int) -> Iterator[Data]:
    """Training and test rows, at most so many, scaled."""
    X, y, n_train = _small(name) if name in ("iris", "wine") else read(name)
    if name in OWN_SPLIT:
        for seed in range(n_splits if n_train > MOST_ROWS else 1):
            rows = _some(y[:n_train], MOST_ROWS, seed)
            test = n_train + _some(y[n_train:], MOST_TEST_ROWS, 0)
            yield _scaled(Data(name, X[rows], y[rows], X[test], y[test]))
    else:
        for train, test in StratifiedShuffleSplit(n_splits, test_size=0.3, random_state=0).split(X, y):
            train = train[_some(y[train], MOST_ROWS, 0)]
            yield _scaled(Data(name, X[train], y[train], X[test], y[test]))


def _small(name: str) -> tuple[Any, Any, int]:
    X, y = (load_iris if name == "iris" else load_wine)(return_X_y=True)
    return X, y.astype(np.int64), len(y)


def _some(y: Any, most: int, seed: int) -> Any:
    everything = np.arange(len(y))
    return everything if len(y) <= most else train_test_split(everything, train_size=most, stratify=y, random_state=seed)[0]


def _scaled(data: Data) -> Data:
    if data.name in AS_THEY_ARE:
        kind = np.float32 if not sparse.issparse(data.X) else np.float64
        return Data(data.name, data.X.astype(kind), data.y, data.X_test.astype(kind), data.y_test)
    mean, deviation = data.X.mean(axis=0), data.X.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return Data(data.name, (data.X - mean) / deviation, data.y, (data.X_test - mean) / deviation, data.y_test)


def judged(machine: Any, X: Any, y: Any) -> Judged:
    scores = machine.decision_function(X)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    own = scores[np.arange(len(y)), y]
    above = (scores > own[:, None]).sum(axis=1)
    return Judged(machine.predict(X) == y, above < TOP)


def chosen_and_tested(parameters: dict[str, Any], data: Data, grid: tuple[float, ...]) -> Judged:
    """Of a machine whose C is best on rows held out; for the five highest scores another C may be best."""
    machine = MarginSVC(**parameters, tol=TOL, max_iter=MAX_ITER, warm_start=True, random_state=0)
    X, held, y, held_y = train_test_split(data.X, data.y, test_size=0.2, stratify=data.y, random_state=0)
    seen = [judged(machine.set_params(C=C).fit(X, y), held, held_y) for C in grid]
    best = [grid[int(np.argmax([np.mean(one[i]) for one in seen]))] for i in range(2)]
    cold = MarginSVC(**parameters, tol=TOL, max_iter=MAX_ITER, random_state=0)
    tested = {C: judged(cold.set_params(C=C).fit(data.X, data.y), data.X_test, data.y_test) for C in set(best)}
    return Judged(tested[best[0]].right, tested[best[1]].in_top)


def accuracy(name: str, n_splits: int, quick: bool) -> dict[str, Any]:
    """Accuracies of all losses: one number a split, or the rights of the rows of a single one."""
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    sides: dict[str, dict[str, Any]] = {}
    start = time.process_time()
    for data in splits(name, n_splits):
        sides = family(data.n_classes)
        for side, parameters in sides.items():
            one = chosen_and_tested(parameters, data, GRID[1:3] if quick else GRID)
            for values, rights in zip(found.setdefault(side, ([], [])), one, strict=True):
                values.append(rights)
    print(f"  {name}: {time.process_time() - start:.0f} s", flush=True)
    by_measure = {"accuracy": 0, "top5": 1} if data.n_classes >= 2 * TOP else {"accuracy": 0}
    return {measure: _level({side: found[side][i] for side in found}) for measure, i in by_measure.items()}


def _level(rights: dict[str, list[Any]]) -> dict[str, dict[str, Any]]:
    """Mean of each side, and whether it is level with the best."""
    single = len(next(iter(rights.values()))) == 1
    values = {side: one[0] * 1.0 if single else np.array([part.mean() for part in one]) for side, one in rights.items()}
    best = max(values.values(), key=lambda one: one.mean())
    found = {}
    for side, own in values.items():
        behind = best - own
        error = behind.std(ddof=1) / np.sqrt(len(behind))
        found[side] = {"mean": float(own.mean()), "level": bool(behind.mean() <= error)}
    return found


def show(record: dict[str, Any], measure: str) -> None:
    """A line a loss: its means, a star where it is level with the best; how often that is, and how far behind at worst."""
    names = [name for name in record if measure in record[name]]
    sides = list(dict.fromkeys(side for name in names for side in record[name][measure]))
    best = {name: max(one["mean"] for one in record[name][measure].values()) for name in names}
    lines = []
    for side in sides:
        known = {name: record[name][measure][side] for name in names if side in record[name][measure]}
        cells = [f"{known[n]['mean']:.3f}{'*' if known[n]['level'] else ' '}" if n in known else "" for n in names]
        worst = max(best[name] - one["mean"] for name, one in known.items())
        mean = float(np.mean([best[name] - one["mean"] for name, one in known.items()]))
        level = sum(one["level"] for one in known.values())
        lines.append([side, *cells, f"{level} of {len(known)}", f"{mean:.3f}", f"{worst:.3f}"])
    lines.sort(key=lambda line: float(line[-2]))
    print(f"\n{measure}\n{aligned(['loss', *names, 'level', 'behind', 'at worst'], lines)}", flush=True)


# ---- speed --------------------------------------------------------------------------------------------------------------


def timed(name: str, repeats: int, quick: bool) -> dict[str, dict[str, Any]]:
    """Processor seconds of a fit of each loss to all training rows; sides take turns, the least counts."""
    data = _to_be_timed(name, quick)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for side, parameters in family(data.n_classes).items():
            start = time.process_time()
            machine = MarginSVC(**parameters, random_state=0).fit(data.X, data.y)
            one = {"seconds": time.process_time() - start, "status": machine.certificate_.status}
            one |= {"n_iter": machine.certificate_.n_iter, "methods": [s.method for s in machine.certificate_.stages]}
            if side not in found or one["seconds"] < found[side]["seconds"]:
                found[side] = one
    unit = found["crammer_singer"]["seconds"]
    lines = [
        [_marked(data, quick), side, f"{one['seconds']:.3f}", f"{one['seconds'] / unit:.1f}", one["status"],
         str(one["n_iter"]), " + ".join(one["methods"])]
        for side, one in sorted(found.items(), key=lambda item: item[1]["seconds"])
    ]  # fmt: skip
    head = ["data", "loss", "seconds", "of Crammer-Singer's", "status", "iterations", "methods"]
    print(aligned(head, lines, left=2), flush=True)
    return found


def _marked(data: Data, quick: bool) -> str:
    return f"{data.name}{'*' if quick or data.stand_in else ''}"


def _to_be_timed(name: str, quick: bool) -> Data:
    if name == "banking77_emb" and not quick:
        X, y, n_train = read(name)
        return split(name, X.astype(np.float32), y, n_train)
    return datasets.load("blobs" if quick else name)


def timed_with_zeros(name: str, tol: float, quick: bool) -> dict[str, dict[str, Any]]:
    """Processor seconds with penalties that make zeros, what they leave, and how that predicts the test rows."""
    data, found, lines = _to_be_timed(name, quick), dict[str, dict[str, Any]](), []
    for loss in WITH_ZEROS:
        for penalty, l1 in (("l2", None), *MAKE_ZEROS):
            start = time.process_time()
            machine = MarginSVC(loss=loss, penalty=penalty, l1=l1, tol=tol, random_state=0).fit(data.X, data.y)
            seconds, end = time.process_time() - start, machine.certificate_
            side = f"{loss}, {penalty}" + (f" {l1}" if l1 else "")
            found[side] = {
                "seconds": seconds, "status": end.status, "n_iter": end.n_iter, "methods": [s.method for s in end.stages],
                "entries": float(np.mean(machine.class_vectors_ != 0.0)),
                "features": float(np.mean((machine.class_vectors_ != 0.0).any(axis=0))),
                "accuracy": float(machine.score(data.X_test, data.y_test)),
            }  # fmt: skip
            one, unit = found[side], found[f"{loss}, l2"]["seconds"]
            shown = [f"{one[key]:.3f}" for key in ("entries", "features", "accuracy")]
            lines.append([_marked(data, quick), side, f"{seconds:.2f}", f"{seconds / unit:.1f}", end.status,
                          str(end.n_iter), *shown, " + ".join(one["methods"])])  # fmt: skip
    head = ["data", "machine", "seconds", "of l2's", "status", "iterations", "entries", "features", "accuracy", "methods"]
    print(aligned(head, lines, left=2), flush=True)
    return found


# ---- the table of products ------------------------------------------------------------------------------------------------


def products() -> str:
    """Losses x penalties, as Markdown: how a fit of iris ends, a dash if it is refused.

    The three best of three classes are all of them, which needs no class vectors: k = 3 is tried on made-up rows of six.
    """
    X, y = load_iris(return_X_y=True)
    data = _scaled(Data("iris", X, y, X, y))
    X, y = make_blobs(150, 4, centers=6, cluster_std=3.0, random_state=0)
    six = _scaled(Data("six", X, y, X, y))
    losses, penalties = (list(dict.fromkeys(one[i] for one in polymargin.machines())) for i in range(2))
    lines = ["| loss | " + " | ".join(f"`{penalty}`" for penalty in penalties) + " |", "|---" * (len(penalties) + 1) + "|"]
    for loss in losses:
        ends = [_end({"loss": loss, "penalty": penalty}, data) for penalty in penalties]
        if loss == "top_k":
            three = [_end({"loss": loss, "penalty": penalty, "k": 3}, six) for penalty in penalties]
            ends = [one if one == other else f"{one} (k ≥ 3: {other})" for one, other in zip(ends, three, strict=True)]
        lines.append(f"| `{loss}` | " + " | ".join(ends) + " |")
    return "\n".join(lines)


def _end(product: dict[str, Any], data: Data) -> str:
    """How fits of it and of its square end."""
    try:
        fits = [MarginSVC(**product, squared=squared, max_iter=3000).fit(data.X, data.y) for squared in (False, True)]
    except ValueError:
        return "–"
    return "/".join(dict.fromkeys(MARKS.get(fit.certificate_.status, fit.certificate_.status) for fit in fits))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=("accuracy", "speed", "table", "zeros"), default="accuracy")
    parser.add_argument(
        "--data", nargs="+", metavar="NAME", help=f"accuracy: {', '.join(NAMES)}; speed, zeros: {', '.join(TIMED)}"
    )
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1, help="of the times")
    parser.add_argument("--tol", type=float, default=1e-2, help="of the fits with zeros")
    parser.add_argument("--show", nargs="+", metavar="FILE", help="run nothing: one table of what these runs wrote")


def main(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")  # machines that ignore X, or stop at max_iter
    record: dict[str, Any]
    if args.part == "speed":
        names = ("letter",) if args.quick else args.data or TIMED
        record = {name: timed(name, args.repeats, args.quick) for name in names}
    elif args.part == "table":
        record = {"products": products()}
        print(record["products"])
    elif args.part == "zeros":
        names = ("letter",) if args.quick else args.data or TIMED
        record = {name: timed_with_zeros(name, args.tol, args.quick) for name in names}
    else:
        if args.show:
            runs = [json.loads(Path(path).read_text())["data"] for path in args.show]
            record = {name: run[name] for name in NAMES for run in runs if name in run}
        else:
            names = ("iris",) if args.quick else args.data or NAMES
            record = {name: accuracy(name, 2 if args.quick else args.splits, args.quick) for name in names}
        for measure in ("accuracy", "top5"):
            if any(measure in one for one in record.values()):
                show(record, measure)
    if not args.show:
        print(f"\nwritten: {results.write_run('family', {'part': args.part, 'data': record})}")
