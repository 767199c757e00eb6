"""`polymargin evaluate`: how well a model predicts the labels of a data file."""

from __future__ import annotations

import argparse
from typing import Any

from polymargin.cli.shared.data import DATA_HELP, add_table_arguments, read_table_like
from polymargin.cli.shared.models import open_model
from polymargin.cli.shared.output import aligned, print_json, printable

HELP = "measure a model on a data file with labels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file; - for standard input")
    parser.add_argument("data", help=DATA_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_table_arguments(parser, training=False)


def run(args: argparse.Namespace) -> int:
    from polymargin.cli.shared.parser import UsageError
    from polymargin.tables import TableError

    if args.model == "-" and args.data == "-":
        raise UsageError("model and data cannot both be standard input")
    opened = open_model(args.model)
    table = read_table_like(args, args.data, opened.layout, args.target, sparse_labels=True)
    if table.y is None:
        named = f" (in training it was {', '.join(opened.layout.targets)})" if opened.layout.targets else ""
        raise TableError(table.source, f"there are no labels to compare with; name the column with --target{named}")
    if hasattr(table.y, "toarray"):  # too many labels for a table of them, or for a matrix of predictions
        ranked = measured(opened.model, table)
        if args.json:
            print_json({"source": table.source, "rows": table.n_rows, **ranked})
        else:
            print(printable(f"{table.source}: {table.n_rows} rows"))
            print("\n".join(f"{name.replace('_', ' '):18} {value:.4f}" for name, value in ranked.items()))
        return 0
    predicted = opened.predict(table)
    if predicted.ndim != table.y.ndim:
        raise TableError(table.source, f"labels of shape {table.y.shape}, but the model predicts {predicted.shape}")
    found = metrics(table.y, predicted, predicted.ndim == 2)
    if hasattr(opened.model, "predict_proba"):
        found |= probability_metrics(table.y, opened.probabilities(table), opened.machine.classes_)
    rows = per_class(table.y, predicted, table.target_names)
    if args.json:
        print_json({"source": table.source, "rows": table.n_rows, **found, "classes": rows})
        return 0
    print(printable(f"{table.source}: {table.n_rows} rows"))
    if predicted.ndim == 2 and (table.y < 0).any():
        print(f"{(table.y != 0).sum()} of {table.y.size} entries are known (1 or -1); only these count")
    print("\n".join(f"{name.replace('_', ' '):18} {value:.4f}" for name, value in found.items()))
    header = ["label" if predicted.ndim == 2 else "class", "precision", "recall", "F1", "rows"]
    shown = [[row["name"], *(f"{row[key]:.4f}" for key in ("precision", "recall", "f1")), row["rows"]] for row in rows]
    print(f"\n{aligned(header, shown)}")
    return 0


def measured(model: Any, table: Any) -> dict[str, float]:
    """Measures of a model on a table with labels; of a sparse label matrix those of the best five."""
    if not hasattr(table.y, "toarray"):
        return metrics(table.y, model.predict(table.X), table.multilabel)
    from polymargin.metrics import ndcg_at_k, precision_at_k

    top = best_labels(model, table.X, min(5, table.y.shape[1]))
    places = [k for k in (1, 3, 5) if k <= top.shape[1]]
    return {f"P@{k}": precision_at_k(table.y, top, k) for k in places} | {
        f"nDCG@{k}": ndcg_at_k(table.y, top, k) for k in places[1:]
    }


def best_labels(model: Any, X: Any, k: int) -> Any:
    """The k best labels of rows, by the last step of a pipeline."""
    from polymargin.cli.shared.parser import UsageError

    machine = model.steps[-1][1] if hasattr(model, "steps") else model
    if not hasattr(machine, "predict_topk"):
        raise UsageError(f"this {type(machine).__name__} cannot rank labels: it has no predict_topk")
    return machine.predict_topk(model[:-1].transform(X) if hasattr(model, "steps") else X, k)


def metrics(y: Any, predicted: Any, multilabel: bool) -> dict[str, float]:
    """Measures of all rows; of several labels those of the known entries."""
    from sklearn import metrics as m

    if multilabel:
        from polymargin.metrics import METRICS, known_label_score

        return {name: known_label_score(y, predicted, metric=name) for name in METRICS}
    y, predicted = _of_one_kind(y, predicted)
    present = sorted(set(y.tolist()))
    recalls = m.recall_score(y, predicted, labels=present, average=None, zero_division=0.0)
    return {
        "accuracy": float((y == predicted).mean()),
        "balanced_accuracy": float(recalls.mean()),
        "macro_f1": float(m.f1_score(y, predicted, average="macro", zero_division=0.0)),
    }


def probability_metrics(y: Any, probabilities: Any, classes: Any) -> dict[str, float]:
    """Measures of the probabilities; of several labels those of the known entries."""
    from polymargin.calibration.measures import all_measures

    if y.ndim == 2:
        return all_measures(y, probabilities)
    y, classes = _of_one_kind(y, classes)
    return all_measures(y, probabilities, classes)


def per_class(y: Any, predicted: Any, label_names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Precision, recall, F1 and number of rows of each class, or label."""
    from sklearn.metrics import precision_recall_fscore_support

    found: Any
    if y.ndim == 2:
        from polymargin.metrics import entries, per_label

        names = list(label_names) or [f"label {k + 1}" for k in range(y.shape[1])]
        found = per_label(entries(y, predicted))
    else:
        y, predicted = _of_one_kind(y, predicted)
        classes = sorted({*y.tolist(), *predicted.tolist()})
        names = [str(name) for name in classes]
        found = precision_recall_fscore_support(y, predicted, labels=classes, average=None, zero_division=0.0)
    return [
        {"name": name, "precision": float(p), "recall": float(r), "f1": float(f), "rows": int(n)}
        for name, p, r, f, n in zip(names, *found, strict=True)
    ]


def _of_one_kind(y: Any, predicted: Any) -> tuple[Any, Any]:
    """Labels that can be compared: 1 in one file and '1' in another are the same class."""
    return (y, predicted) if y.dtype.kind == predicted.dtype.kind else (y.astype(str), predicted.astype(str))
