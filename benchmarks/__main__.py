"""Command line: `python -m benchmarks COMMAND [options]`, from the project's root."""

import argparse
import os

from . import (
    angular,
    calibration,
    cluster,
    costs,
    export,
    family,
    growth,
    hard,
    heads,
    interrupt,
    kernels,
    labels,
    linear,
    lp_norm,
    m3,
    many,
    mcodm,
    memory,
    more_rows,
    multilabel,
    outofcore,
    partitions,
    paths,
    recommend,
    startup,
    threads,
    versions,
)
from . import papers as papers

COMMANDS = {
    "linear": linear,
    "hard": hard,
    "heads": heads,
    "threads": threads,
    "kernels": kernels,
    "startup": startup,
    "growth": growth,
    "memory": memory,
    "more_rows": more_rows,
    "interrupt": interrupt,
    "angular": angular,
    "lp_norm": lp_norm,
    "m3": m3,
    "multilabel": multilabel,
    "labels": labels,
    "many": many,
    "cluster": cluster,
    "outofcore": outofcore,
    "partitions": partitions,
    "paths": paths,
    "recommend": recommend,
    "mcodm": mcodm,
    "calibration": calibration,
    "costs": costs,
    "export": export,
    "family": family,
    "papers": papers,
    "versions": versions,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Benchmarks of polymargin")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        about = (module.__doc__ or "").partition(": ")[2]
        sub = commands.add_parser(name, help=about, description=about)
        sub.add_argument("--quick", action="store_true", help="small stand-ins only, a few seconds, for CI")
        sub.add_argument("--pin", type=int, metavar="CPU", help="stay on this processor (Linux)")
        module.add_arguments(sub)
    return parser.parse_args()


def main() -> None:
    args = parse()
    if args.pin is not None:
        os.sched_setaffinity(0, {args.pin})
    COMMANDS[args.command].main(args)


if __name__ == "__main__":
    main()
