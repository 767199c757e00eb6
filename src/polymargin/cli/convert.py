"""`polymargin convert`: a data file in another format."""

from __future__ import annotations

import argparse
import sys

from polymargin.cli.shared.data import DATA_HELP, add_table_arguments, input_file, parts_of, read_training_table
from polymargin.cli.shared.output import printable, write_bytes

HELP = "write a data file in another format: csv, tsv, svmlight, npz, parquet, or blocks for fits out of core"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help=DATA_HELP + "; with --to blocks also a folder of such files")
    parser.add_argument("output", help="file to write; its ending says the format; - for standard output; blocks: a folder")
    parser.add_argument("--to", metavar="FORMAT", help="format to write (default: the ending of OUTPUT says)")
    parser.add_argument("--memory", default="2GB", metavar="SIZE", help="of fits that read the blocks (default 2GB)")
    add_table_arguments(parser, training=True)


def run(args: argparse.Namespace) -> int:
    from polymargin.storage.files import check_output
    from polymargin.tables.source import format_of
    from polymargin.tables.write import table_bytes

    if args.to == "blocks":
        return _write_blocks(args)
    check_output(args.output, [input_file(args.data)])
    table = read_training_table(args, args.data)
    content, remark = table_bytes(table, args.to or format_of(args.output), index_base=args.index_base)
    write_bytes(args.output, content)
    print(printable(table.describe() + (f"; {remark}" if remark else "")), file=sys.stderr)
    return 0


def _write_blocks(args: argparse.Namespace) -> int:
    from pathlib import Path

    from polymargin.cli.shared.parser import UsageError

    folder = Path(args.output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{args.output} is there already: blocks are written into a folder of their own")
    said = parts_of(args).write(folder).contents
    size = f"{sum(said.rows)} rows, {said.n_features} features, {len(said.classes)} classes"
    print(printable(f"{args.data}: {size}, in {said.n_blocks} blocks"), file=sys.stderr)
    return 0
