"""`polymargin compare`: which machine suits this data."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polymargin.cli.shared.data import DATA_HELP, add_table_arguments, read_training_table
from polymargin.cli.shared.output import print_json, write_text

HELP = "compare all machines on a data file and recommend one"
EPILOG = "Example: polymargin compare iris.csv --target species --budget 60s --report iris.html"
BUNDLED = "dataset:wine"
_WHERE_TO = ("help", "report", "plot", "output", "json", "quiet")
_PATIENCE = 15.0  # seconds until a scheduler must have answered
_ALWAYS = ("cv", "repeats", "seed")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="?", default=BUNDLED, help=f"{DATA_HELP} (default: {BUNDLED}, which is bundled)")
    parser.add_argument("--budget", metavar="TIME", help="time for everything, e.g. 60s, 10m; slow or worse machines leave")
    parser.add_argument("--machines", metavar="NAMES", help="only those whose names contain one of these, by commas")
    parser.add_argument("--metric", help="what decides: accuracy, macro_f1, neg_log_loss, ...; several labels: jaccard, ...")
    parser.add_argument("--cv", type=int, default=5, metavar="K", help="outer folds (default 5)")
    parser.add_argument("--repeats", type=int, default=1, metavar="R", help="repetitions of the outer folds (default 1)")
    parser.add_argument("--jobs", type=int, default=-1, metavar="N", help="processes (default: all processors)")
    parser.add_argument("--dask", metavar="ADDRESS", help="on the workers of a Dask cluster, e.g. tcp://10.0.0.5:8786")
    parser.add_argument("--seed", type=int, default=0, help="of folds and machines (default 0)")
    parser.add_argument("--report", metavar="HTML", help="write a page with table, pictures and settings")
    parser.add_argument("--plot", metavar="PNG", help="write the interval plot")
    parser.add_argument("-o", "--output", metavar="MODEL", help="fit the recommended machine on all data and save it")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_table_arguments(parser, training=True)


def run(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    budget = seconds_of(args.budget)
    _check_places(args)
    from polymargin.cli.shared.progress import Progress
    from polymargin.comparison import compare_machines
    from polymargin.tables import make_preprocessor

    table = read_training_table(args, args.data)
    if table.y is None:
        raise ValueError(f"{table.source} has no target to predict; name it with --target")
    spent = time.perf_counter() - began
    pictures = spent if args.report or args.plot else 0.0  # to draw takes about as long as to start
    # processes would take as long to start as this one did: little of a short budget must go there
    alone = budget is not None and spent > 0.1 * budget and args.jobs == -1 and not args.dask
    with _workers(args, 1 if alone else args.jobs) as n_jobs, Progress(shown=not (args.quiet or args.json)) as progress:
        progress.say(table.describe())
        comparison = compare_machines(
            table.X,
            table.y,
            machines=_chosen(args, table),
            metric=args.metric,
            preprocessor=make_preprocessor(table),
            cv=args.cv,
            repeats=args.repeats,
            budget=budget and max(budget - spent - pictures, 1e-3),
            refit=bool(args.output),
            n_jobs=n_jobs,
            random_state=args.seed,
            progress=progress.step,
        )
    if args.json:
        print_json({"data": table.describe(), "command": _command(args), **comparison.to_dict()})
    else:
        _print(comparison)
    _write_files(args, table, comparison)
    return 0


@contextmanager
def _workers(args: argparse.Namespace, n_jobs: int) -> Iterator[int]:
    """Where splits are worked on, and how many at a time: processes here, or threads of the workers of a Dask cluster."""
    if not args.dask:
        yield n_jobs
        return
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ImportError("--dask needs Dask: pip install polymargin[dask]") from error
    from joblib import parallel_config

    try:
        client = Client(args.dask, timeout=_PATIENCE, set_as_default=False)  # which it would stay if nobody answers
    except (OSError, ValueError) as error:
        raise ValueError(f"--dask {args.dask}: no Dask scheduler answers there ({error})") from error
    with client, parallel_config(backend="dask", client=client):
        threads = sum(client.nthreads().values())
        if not threads:
            raise ValueError(f"--dask {args.dask}: the cluster has no workers")
        yield min(threads, n_jobs) if n_jobs > 0 else threads


def _write_files(args: argparse.Namespace, table: Any, comparison: Any) -> None:
    said = sys.stderr if args.json else sys.stdout
    if args.plot:
        import matplotlib

        matplotlib.use("Agg")
        comparison.plot().figure.savefig(args.plot, dpi=150)
        print(f"plot: {args.plot}", file=said)
    if args.report:
        from polymargin.comparison.report import html_report

        write_text(args.report, html_report(comparison, title=table.describe(), command=_command(args)))
        print(f"report: {args.report}", file=said)
    if args.output:
        from polymargin.storage.models import save

        save(comparison.fit_winner(), args.output, notes={"layout": table.layout.to_json()})
        print(f"saved: {args.output}", file=said)


def seconds_of(text: str | None) -> float | None:
    """'90', '90s', '1.5m' or '1h' in seconds."""
    from polymargin.cli.shared.parser import UsageError

    if text is None:
        return None
    number = text.rstrip("smhin")
    try:
        seconds = float(number) * _UNITS[text[len(number) :] or "s"]
    except (ValueError, KeyError):
        seconds = -1.0
    if not seconds > 0:
        raise UsageError(f"--budget {text} is not a time; write 60s, 10m or 1h")
    return seconds


def _check_places(args: argparse.Namespace) -> None:
    """What would fail when files are written fails before the work."""
    from polymargin.cli.shared.data import input_file
    from polymargin.cli.shared.parser import UsageError
    from polymargin.storage.files import check_output

    for option, path in (("--report", args.report), ("--plot", args.plot), ("--output", args.output)):
        if path == "-" and option != "--report":
            raise UsageError(f"{option} -: standard output has the table; name a file")
        if path:
            check_output(path, [input_file(args.data)] if args.data else [])
    if args.plot:
        try:
            import matplotlib  # noqa: F401
        except ModuleNotFoundError as error:
            raise ImportError("--plot needs matplotlib: pip install matplotlib") from error


def _chosen(args: argparse.Namespace, table: Any) -> Any:
    """The candidates whose names were asked for; None is all."""
    if not args.machines:
        return None
    from polymargin.cli.shared.parser import UsageError
    from polymargin.comparison import candidates_for

    everyone = candidates_for(table.X, table.y, metric=args.metric, random_state=args.seed)
    wanted = [part.strip().lower() for part in args.machines.split(",") if part.strip()]
    chosen = [candidate for candidate in everyone if any(part in candidate.name.lower() for part in wanted)]
    if not chosen:
        names = ", ".join(candidate.name for candidate in everyone)
        raise UsageError(f"--machines {args.machines} names nobody; there are {names}")
    return chosen


def _print(comparison: Any) -> None:
    """The table, with rich if it is installed and there is a terminal to look at."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ModuleNotFoundError:
        print(comparison)
        return
    console = Console()
    if not console.is_terminal:
        print(comparison)
        return
    table = Table(caption="p: corrected resampled t-test against the best, Holm-corrected", caption_justify="left")
    names = list(comparison.table[0].scores)
    table.add_column("machine")
    for name in [*(name.replace("_", " ") for name in names), "splits", "tune + fit", "p"]:
        table.add_column(name, justify="right")
    for row in comparison.table:
        cells = [row.machine]
        for name in names:
            value = f"{row.scores[name]:.3f}" if name in row.scores else "-"
            cells.append(value + (row.spread if name == comparison.metric else ""))
        is_winner = row.machine == comparison.winner
        cells += [str(row.n_splits), f"{row.fit_seconds:.2f} s", comparison.told_apart(row)]
        told_apart = not is_winner and row.p_value <= 0.05
        table.add_row(*cells, style="bold" if is_winner else "dim" if told_apart else None)
    console.print(table)
    for line in (comparison.recommendation, *comparison.notes):
        console.print(line, highlight=False, markup=False)


def _command(args: argparse.Namespace) -> str:
    """The command line that repeats this comparison: every option that is not as it would be, and those that defaults may
    change one day. Where results are written is left out."""
    import shlex

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["polymargin", "compare"]
    # a path that looks like an option goes behind the options
    last = ["--", args.data] if args.data.startswith("-") and args.data != "-" else []
    words += [] if last else [args.data]
    for action in parser._actions:
        value = getattr(args, action.dest, None)
        if not action.option_strings or action.dest in _WHERE_TO or (value == action.default and action.dest not in _ALWAYS):
            continue
        option = action.option_strings[-1]
        if action.nargs == 0:
            words.append(option)
        else:  # one word: a value may begin with a dash
            words += [f"{option}={part}" for part in (value if isinstance(value, list) else [value])]
    return shlex.join([*words, *last])
