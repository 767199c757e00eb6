"""`polymargin train`: fit a machine to a data file and save it with its preprocessing."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from polymargin.cli._data import DATA_HELP, add_table_arguments, input_file, read_table_like, read_training_table
from polymargin.cli._machines import add_machine_arguments, make_machine
from polymargin.cli._output import print_json, printable

HELP = "fit a machine to a data file and save it"
EPILOG = "Example: polymargin train iris.csv --target species --C 10 --kernel rbf -o iris.pm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help=DATA_HELP)
    parser.add_argument(
        "-o", "--output", required=True, metavar="MODEL", help="model file to write, e.g. model.pm; - for standard output"
    )
    parser.add_argument("--test", metavar="DATA", help="file of the same layout to evaluate the machine on")
    parser.add_argument("--proba", action="store_true", help="fit probabilities too, for predict --proba (probability=True)")
    parser.add_argument("--no-scale", action="store_true", help="leave the columns as they are")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="show the progress of the fit")
    add_machine_arguments(parser)
    add_table_arguments(parser, training=True)


def run(args: argparse.Namespace) -> int:
    from sklearn.pipeline import Pipeline

    from polymargin.cli import UsageError
    from polymargin.cli.evaluate import metrics
    from polymargin.files import check_output
    from polymargin.persistence import save
    from polymargin.tables import make_preprocessor

    if args.output == "-" and args.json:
        raise UsageError("standard output can take the model (-o -) or the summary (--json), not both")
    check_output(args.output, [input_file(args.data), input_file(args.test)])
    machine = make_machine(args, args.multilabel)
    table = read_training_table(args, args.data)
    test = _test_table(args, table) if args.test else None
    _check_members(table)
    _check_width(table)
    model = Pipeline([("prepare", make_preprocessor(table, scale=not args.no_scale)), ("machine", machine)])
    with _progress_on_stderr():
        model.fit(table.X, table.y)
    save(model, sys.stdout.buffer if args.output == "-" else args.output, notes={"layout": table.layout.to_json()})
    summary = _summary(table, machine, metrics(table.y, model.predict(table.X), table.multilabel))
    if test is not None:
        summary["test"] = metrics(test.y, model.predict(test.X), table.multilabel)
    if args.json:
        print_json({**summary, "model": args.output})
    else:
        print(printable(_as_text(table, summary, args)), file=sys.stderr if args.output == "-" else sys.stdout)
    return 0


def _test_table(args: argparse.Namespace, table: Any) -> Any:
    """Test rows with labels: in the columns of the training file's names, else where --target says."""
    from polymargin.cli import UsageError

    test = read_table_like(args, args.test, table.layout)
    if test.y is None and args.target:
        test = read_table_like(args, args.test, table.layout, args.target)
    if test.y is None:
        raise UsageError(f"{test.source} has no target {table.target_name!r} to evaluate on")
    return test


def _check_members(table: Any) -> None:
    """Labels without a member cannot be learned: the machine knows their numbers only, the table their names."""
    if not table.multilabel:
        return
    from polymargin.tables import TableError
    from polymargin.tables.table import few

    empty = [name for name, members in zip(table.target_names, (table.y > 0).any(axis=0), strict=True) if not members]
    if empty:
        raise TableError(table.source, f"no row has {few(empty)}: leave labels without a member out (--target, --drop)")


def _check_width(table: Any) -> None:
    """Sparse rows may name a column with any number; a machine has a weight for every column and class."""
    if not table.sparse:
        return
    from polymargin.features import available_memory
    from polymargin.unpacking import in_words

    classes = table.y.shape[1] if table.multilabel else len(set(table.y.tolist()))
    needed, free = 8.0 * table.n_features * (classes + 2), available_memory()
    if needed > free:
        raise MemoryError(
            f"{table.source} has {table.n_features} columns, so the weights of {classes} classes take {in_words(needed)}, "
            f"{in_words(free)} are free"
        )


class _progress_on_stderr:
    """Machines print their progress; standard output is for results."""

    def __enter__(self) -> None:
        self._out, sys.stdout = sys.stdout, sys.stderr

    def __exit__(self, *_: Any) -> None:
        sys.stdout = self._out


def _summary(table: Any, machine: Any, training: dict[str, Any]) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "machine": type(machine).__name__,
        "parameters": machine.get_params(),
        "data": {"source": table.source, "rows": table.n_rows, "features": table.n_features, "target": table.target_name},
        "training": training,
    }
    end = getattr(machine, "certificate_", None)
    if end is not None:
        names = ("status", "primal", "dual", "gap", "rel_gap", "tol", "n_iter", "seconds", "bounds")
        summary["certificate"] = {name: getattr(end, name) for name in names}
    return summary


def _as_text(table: Any, summary: dict[str, Any], args: argparse.Namespace) -> str:
    lines = [table.describe()]
    end = summary.get("certificate")
    if end:
        lines.append(
            f"{summary['machine']}: {end['status']}, objective {end['primal']:.6g}, "
            f"{end['bounds']} at least {end['dual']:.6g}, relative gap {end['rel_gap']:.1e}, "
            f"{end['n_iter']} iterations, {end['seconds']:.3g} s"
        )
    lines.append(f"training rows: {_headline(summary['training'])}")
    if "test" in summary:
        lines.append(f"test rows of {args.test}: {_headline(summary['test'])}")
    if args.output != "-":
        lines.append(f"saved: {args.output}")
    return "\n".join(lines)


def _headline(measured: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in measured.items() if isinstance(value, float))
