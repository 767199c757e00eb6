"""`polymargin convert`: a data file in another format."""

from __future__ import annotations

import argparse
import sys

from polymargin.cli._data import DATA_HELP, add_table_arguments, input_file, read_training_table
from polymargin.cli._output import printable, write_bytes

HELP = "write a data file in another format: csv, tsv, svmlight, npz or parquet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help=DATA_HELP)
    parser.add_argument("output", help="file to write; its ending says the format; - for standard output")
    parser.add_argument("--to", metavar="FORMAT", help="format to write (default: the ending of OUTPUT says)")
    add_table_arguments(parser, training=True)


def run(args: argparse.Namespace) -> int:
    from polymargin.files import check_output
    from polymargin.tables.source import format_of
    from polymargin.tables.write import table_bytes

    check_output(args.output, [input_file(args.data)])
    table = read_training_table(args, args.data)
    content, remark = table_bytes(table, args.to or format_of(args.output), index_base=args.index_base)
    write_bytes(args.output, content)
    print(printable(table.describe() + (f"; {remark}" if remark else "")), file=sys.stderr)
    return 0
