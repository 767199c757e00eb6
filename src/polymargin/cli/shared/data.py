"""Options of commands that read data files, and the table they stand for."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polymargin.tables import Layout, Table

DATA_HELP = (
    "csv, tsv, svmlight, xc, parquet, arff or npz file, also gzipped; - for standard input; dataset:NAME for a data set"
)


def add_table_arguments(parser: argparse.ArgumentParser, *, training: bool) -> None:
    """How to read data files; `training`: there is no model yet that knows the columns."""
    group = parser.add_argument_group("data")
    group.add_argument(
        "--target",
        metavar="COLUMN",
        help="column to predict: its name, or its place counted from 1 (from the end: -1); several separated by commas, a "
        "range of places as -6:, or Mulan's labels.xml (default: target, class, label or y, else the last one)"
        if training
        else "column with the labels (default: as in training)",
    )
    if training:
        group.add_argument("--multilabel", action="store_true", help="rows have several labels")
        group.add_argument(
            "--categorical",
            metavar="COLUMN",
            action="append",
            default=[],
            help="numbers that are categories; may be repeated",
        )
        group.add_argument(
            "--drop", metavar="COLUMN", action="append", default=[], help="leave a column out; may be repeated"
        )
    group.add_argument(
        "--format", metavar="FORMAT", help="csv, tsv, svmlight, xc, parquet, arff or npz (default: the ending says)"
    )
    group.add_argument(
        "--missing", metavar="TEXT", action="append", default=[], help="a cell that means 'missing'; may be repeated"
    )
    group.add_argument("--header", choices=("auto", "yes", "no"), default="auto", help="whether a csv starts with names")
    group.add_argument(
        "--delimiter", metavar="CHAR", help="of csv files (default: comma, semicolon or tab, as the first line has)"
    )
    group.add_argument(
        "--decimal", metavar="CHAR", choices=(".", ","), default=".", help="decimal point of csv files, . or ,"
    )
    group.add_argument("--encoding", default="utf-8-sig", help="of text files (default utf-8)")
    group.add_argument("--index-base", type=int, choices=(0, 1), default=1, help="first index of svmlight files (default 1)")
    if training:
        group.add_argument(
            "--n-features", type=int, metavar="N", help="columns of svmlight files (default: the highest index)"
        )
    group.add_argument("--label-separator", metavar="CHAR", default=";", help="between the labels in one column (default ;)")


def read_training_table(args: argparse.Namespace, path: str, *, sparse_labels: bool = False) -> Table:
    """The table of a command whose options were added with ``training=True``; sparse label matrices if it can take them."""
    from polymargin.tables import read_table

    table = read_table(
        path,
        args.target,
        args.multilabel,
        categorical=args.categorical,
        drop=args.drop,
        n_features=args.n_features,
        **_common(args),
    )
    return table if sparse_labels else _with_dense_labels(table)


def _with_dense_labels(table: Table) -> Table:
    return replace(table, y=table.y.toarray()) if hasattr(table.y, "toarray") else table


def parts_of(args: argparse.Namespace) -> Any:
    """The rows of a file, a folder of files or a folder of blocks, for a fit within ``args.memory``."""
    from polymargin.distributed import Parts

    reading = {"target": args.target, "drop": args.drop, "n_features": args.n_features, **_common(args)}
    return Parts(args.data, memory=args.memory, **reading)


def input_file(path: str | None) -> str | None:
    """The file behind an argument that names data; None if there is none."""
    if path is None or not path.startswith("dataset:"):
        return path
    from polymargin.datasets import file_of

    found = file_of(path.removeprefix("dataset:"))
    return None if found is None else str(found)


def read_table_like(
    args: argparse.Namespace, path: str, layout: Layout, target: str | None = None, *, sparse_labels: bool = False
) -> Table:
    """Another file, read as the table that a model was trained on; `target` says where its labels are, if not as there."""
    from polymargin.tables import read_table

    table = read_table(path, target, layout=layout, **_common(args))
    return table if sparse_labels else _with_dense_labels(table)


def _common(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "format": args.format,
        "missing": args.missing,
        "header": None if args.header == "auto" else args.header == "yes",
        "delimiter": {"\\t": "\t", "tab": "\t"}.get(args.delimiter, args.delimiter),
        "decimal": args.decimal,
        "encoding": args.encoding,
        "index_base": args.index_base,
        "label_separator": args.label_separator,
    }
