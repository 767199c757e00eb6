"""`polymargin predict`: labels of the rows of a data file."""

from __future__ import annotations

import argparse
import csv
import io
import json
from typing import Any

from polymargin.cli.shared.data import DATA_HELP, add_table_arguments, input_file, read_table_like
from polymargin.cli.shared.models import open_model
from polymargin.cli.shared.output import plain, write_text

HELP = "predict the labels of the rows of a data file"
EPILOG = "One label a line; several labels a row: a csv of 0 and 1. Example: polymargin predict iris.pm new.csv > labels.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file; - for standard input")
    parser.add_argument("data", help=DATA_HELP)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument("--top", type=int, metavar="K", help="the K best labels of each row, best first, as a csv")
    parser.add_argument("--scores", action="store_true", help="a csv of labels and scores, with names")
    parser.add_argument("--proba", action="store_true", help="the same with probabilities, after train --proba")
    parser.add_argument("--json", action="store_true", help="write JSON")
    add_table_arguments(parser, training=False)


def run(args: argparse.Namespace) -> int:
    from polymargin.cli.shared.parser import UsageError
    from polymargin.storage.files import check_output

    if args.model == "-" and args.data == "-":
        raise UsageError("model and data cannot both be standard input")
    check_output(args.output, [args.model, input_file(args.data)])
    opened = open_model(args.model)
    table = read_table_like(args, args.data, opened.layout, args.target)
    if args.top is not None:
        write_text(args.output, _top(args, opened, table))
        return 0
    labels = opened.predict(table)
    names = _label_names(opened, labels)
    numbers: dict[str, tuple[list[str], Any]] = {}  # what to write besides the labels: names of columns, and rows
    if args.scores:
        numbers["score"] = _by_name(opened.scores(table), names)
    if args.proba:
        numbers["probability"] = _by_name(opened.probabilities(table), names)
    if args.json:
        document: dict[str, Any] = {"labels" if labels.ndim == 2 else "classes": names, "predictions": labels}
        for kind, (of, values) in numbers.items():
            several = {"score": "scores", "probability": "probabilities"}[kind]
            document |= {several: values, f"{several}_of": of}
        text = json.dumps(plain(document)) + "\n"
    else:
        text = _as_csv(labels, names, numbers)
    write_text(args.output, text)
    return 0


def _top(args: argparse.Namespace, opened: Any, table: Any) -> str:
    """The best labels of each row by name."""
    from polymargin.cli.evaluate import best_labels
    from polymargin.cli.shared.parser import UsageError

    if args.scores or args.proba:
        raise UsageError("--top gives labels only: leave --scores and --proba out")
    if args.top < 1:
        raise UsageError(f"--top {args.top} is not valid: at least 1")
    best, names = best_labels(opened.model, table.X, args.top), opened.layout.targets
    named = [[names[k] for k in row] for row in best.tolist()] if opened.layout.multilabel and names else best.tolist()
    if args.json:
        return json.dumps(plain({"predictions": named})) + "\n"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(named)
    return out.getvalue()


def _by_name(values: Any, names: list[str]) -> tuple[list[str], Any]:
    """Columns with their names; one column for two classes is the score of the second against the first."""
    return (names[-1:], values[:, None]) if values.ndim == 1 else (names, values)


def _label_names(opened: Any, labels: Any) -> list[str]:
    if labels.ndim == 2:
        return list(opened.layout.targets) or [f"label {k + 1}" for k in range(labels.shape[1])]
    return [str(label) for label in opened.model.classes_.tolist()]


def _as_csv(labels: Any, names: list[str], numbers: dict[str, tuple[list[str], Any]]) -> str:
    rows = labels.tolist() if labels.ndim == 2 else [[label] for label in labels.tolist()]
    header = names if labels.ndim == 2 else ["label"]
    for kind, (of, values) in numbers.items():
        header = [*header, *(f"{kind} {name}" for name in of)]
        rows = [[*row, *map(repr, given)] for row, given in zip(rows, values.tolist(), strict=True)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if labels.ndim == 2 or numbers:
        writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
