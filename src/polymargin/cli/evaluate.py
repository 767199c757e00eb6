"""`polymargin evaluate`: how well a model predicts the labels of a data file."""

from __future__ import annotations

import argparse
from typing import Any

from polymargin.cli._data import DATA_HELP, add_table_arguments, read_table_like
from polymargin.cli._models import open_model
from polymargin.cli._output import aligned, print_json, printable

HELP = "measure a model on a data file with labels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file; - for standard input")
    parser.add_argument("data", help=DATA_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_table_arguments(parser, training=False)


def run(args: argparse.Namespace) -> int:
    from polymargin.cli import UsageError
    from polymargin.tables import TableError

    if args.model == "-" and args.data == "-":
        raise UsageError("model and data cannot both be standard input")
    opened = open_model(args.model)
    table = read_table_like(args, args.data, opened.layout, args.target)
    if table.y is None:
        named = f" (in training it was {', '.join(opened.layout.targets)})" if opened.layout.targets else ""
        raise TableError(table.source, f"there are no labels to compare with; name the column with --target{named}")
    predicted = opened.predict(table)
    if predicted.ndim != table.y.ndim:
        raise TableError(table.source, f"labels of shape {table.y.shape}, but the model predicts {predicted.shape}")
    measured = metrics(table.y, predicted, predicted.ndim == 2)
    rows = per_class(table.y, predicted, table.target_names)
    if args.json:
        print_json({"source": table.source, "rows": table.n_rows, **measured, "classes": rows})
        return 0
    print(printable(f"{table.source}: {table.n_rows} rows"))
    if predicted.ndim == 2 and (table.y < 0).any():
        print(f"{(table.y != 0).sum()} of {table.y.size} entries are known (1 or -1); only these count")
    print("\n".join(f"{name.replace('_', ' '):18} {value:.4f}" for name, value in measured.items()))
    header = ["label" if predicted.ndim == 2 else "class", "precision", "recall", "F1", "rows"]
    shown = [[row["name"], *(f"{row[key]:.4f}" for key in ("precision", "recall", "f1")), row["rows"]] for row in rows]
    print(f"\n{aligned(header, shown)}")
    return 0


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
