"""`polymargin train`: fit a machine to a data file and save it with its preprocessing."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from polymargin.cli.shared.data import (
    DATA_HELP,
    add_table_arguments,
    input_file,
    parts_of,
    read_table_like,
    read_training_table,
)
from polymargin.cli.shared.machines import add_machine_arguments, make_machine
from polymargin.cli.shared.output import print_json, printable

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
    parser.add_argument("--memory", metavar="SIZE", help="fit out of core, within e.g. 2GB; DATA is a folder too")
    parser.add_argument("--checkpoint", metavar="FOLDER", help="with --memory: go on after a kill, from what is kept there")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="show the progress of the fit")
    add_machine_arguments(parser)
    add_table_arguments(parser, training=True)


def run(args: argparse.Namespace) -> int:
    from sklearn.pipeline import Pipeline

    from polymargin.cli.evaluate import measured, probability_metrics
    from polymargin.cli.shared.parser import UsageError
    from polymargin.storage.files import check_output
    from polymargin.storage.models import save
    from polymargin.tables import make_preprocessor

    if args.output == "-" and args.json:
        raise UsageError("standard output can take the model (-o -) or the summary (--json), not both")
    check_output(args.output, [None if args.memory else input_file(args.data), input_file(args.test)])
    machine = make_machine(args, args.multilabel)
    if args.memory:
        return _train_out_of_core(args, machine)
    table = read_training_table(args, args.data, sparse_labels=True)
    test = _test_table(args, table) if args.test else None
    if not args.tree:  # which leaves labels without members out, and has sparse weights
        _check_members(table)
        _check_width(table)
    model = Pipeline([("prepare", make_preprocessor(table, scale=not args.no_scale)), ("machine", machine)])
    with _progress_on_stderr(), _watched(machine):
        model.fit(table.X, table.y)
    save(model, sys.stdout.buffer if args.output == "-" else args.output, notes={"layout": table.layout.to_json()})
    summary = _summary(table, machine, measured(model, table))
    if test is not None:
        summary["test"] = measured(model, test)
        if hasattr(model, "predict_proba") and not hasattr(test.y, "toarray"):
            summary["test"] |= probability_metrics(test.y, model.predict_proba(test.X), machine.classes_)
    if args.json:
        print_json({**summary, "model": args.output})
    else:
        print(printable(_as_text(table, summary, args)), file=sys.stderr if args.output == "-" else sys.stdout)
    return 0


def _train_out_of_core(args: argparse.Namespace, machine: Any) -> int:
    """Columns are taken as they are: to scale them, all would have to be seen twice."""
    from polymargin.cli.shared.parser import UsageError
    from polymargin.storage.models import save
    from polymargin.tables.table import Layout

    if args.test or args.proba or args.multilabel:
        raise UsageError("--memory does not go with --test, --proba or --multilabel; see polymargin evaluate")
    parts = parts_of(args)
    parts.checkpoint = args.checkpoint
    with _progress_on_stderr():
        machine.fit(parts)
    layout = Layout(machine.n_features_in_, sparse=True)  # columns by number
    save(machine, sys.stdout.buffer if args.output == "-" else args.output, notes={"layout": layout.to_json()})
    end = machine.certificate_
    summary = {"machine": type(machine).__name__, "certificate": _certified(end), "model": args.output}
    if args.json:
        print_json(summary)
    else:
        line = f"{summary['machine']}: {end.status}, objective {end.primal:.6g}, relative gap {end.rel_gap:.1e}"
        print(printable(f"{line}, {end.n_iter} iterations, {end.seconds:.3g} s"), file=sys.stderr)
    return 0


def _certified(end: Any) -> dict[str, Any]:
    names = ("status", "primal", "dual", "gap", "rel_gap", "tol", "n_iter", "seconds", "bounds")
    return {name: getattr(end, name) for name in names}


def _test_table(args: argparse.Namespace, table: Any) -> Any:
    """Test rows with labels: in the columns of the training file's names, else where --target says."""
    from polymargin.cli.shared.parser import UsageError

    test = read_table_like(args, args.test, table.layout, sparse_labels=True)
    if test.y is None and args.target:
        test = read_table_like(args, args.test, table.layout, args.target, sparse_labels=True)
    if test.y is None:
        raise UsageError(f"{test.source} has no target {table.target_name!r} to evaluate on")
    return test


def _check_members(table: Any) -> None:
    """Labels without a member cannot be learned: the machine knows their numbers only, the table their names."""
    if not table.multilabel:
        return
    from polymargin.tables import TableError
    from polymargin.tables.table import few

    members = (table.y > 0).sum(axis=0)
    empty = [name for name, count in zip(table.target_names, members.tolist(), strict=True) if not count]
    if empty:
        raise TableError(table.source, f"no row has {few(empty)}: leave labels without a member out (--target, --drop)")


def _check_width(table: Any) -> None:
    """Sparse rows may name a column with any number; a machine has a weight for every column and class."""
    if not table.sparse:
        return
    from polymargin.features.kernel_map import available_memory
    from polymargin.storage.unpacking import in_words

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


def _watched(machine: Any) -> AbstractContextManager[Any]:
    """A person at a terminal sees how a long fit goes, asked for or not; -v says more."""
    if getattr(machine, "verbose", 0) or not sys.stderr.isatty():
        return nullcontext()
    from polymargin.problems.progress_lines import Lines

    return Lines(type(machine).__name__, now_and_then=True)


def _summary(table: Any, machine: Any, training: dict[str, Any]) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "machine": type(machine).__name__,
        "parameters": machine.get_params(),
        "data": {"source": table.source, "rows": table.n_rows, "features": table.n_features, "target": table.target_name},
        "training": training,
    }
    nodes = sum(len(tree.certificates) for tree in getattr(machine, "trees_", ()))
    if nodes:
        summary["nodes"] = {"number": nodes, "rel_gap": machine.rel_gap_}
    end = getattr(machine, "certificate_", None)
    if end is not None:
        summary["certificate"] = _certified(end)
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
    nodes = summary.get("nodes")
    if nodes:
        lines.append(f"{summary['machine']}: {nodes['number']} nodes, relative gap of all {nodes['rel_gap']:.1e}")
    lines.append(f"training rows: {_headline(summary['training'])}")
    if "test" in summary:
        lines.append(f"test rows of {args.test}: {_headline(summary['test'])}")
    if args.output != "-":
        lines.append(f"saved: {args.output}")
    return "\n".join(lines)


def _headline(measured: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in measured.items() if isinstance(value, float))
