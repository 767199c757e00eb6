"""`polymargin inspect`: what is in a model file."""

from __future__ import annotations

import argparse
import contextlib
import io
from typing import Any

from polymargin.cli.shared.data import DATA_HELP, add_table_arguments, read_table_like
from polymargin.cli.shared.models import open_model
from polymargin.cli.shared.output import print_json, printable

HELP = "tell what is in a model file; with its training data, margins and bounds too"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file; - for standard input")
    parser.add_argument("data", nargs="?", help=f"the training data, for margins and bounds: {DATA_HELP}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_table_arguments(parser, training=False)


def run(args: argparse.Namespace) -> int:
    from polymargin.cli.shared.parser import UsageError

    opened = open_model(args.model)
    if args.data is not None and (args.json or not hasattr(opened.machine, "explain")):
        raise UsageError(
            "margins and bounds are printed as text by machines that explain themselves: leave DATA or --json out"
        )
    found = summary(opened)
    if args.json:
        print_json(found)
        return 0
    print(printable(as_text(found)))
    if hasattr(opened.machine, "explain"):
        page = io.StringIO()
        with contextlib.redirect_stdout(page):  # it prints, class names too
            opened.machine.explain(*_training_rows(args, opened))
        print(f"\n{printable(page.getvalue())}", end="")
    return 0


def _training_rows(args: argparse.Namespace, opened: Any) -> tuple[Any, ...]:
    """Rows as the machine saw them, and their labels; nothing if no data was given."""
    if args.data is None:
        return ()
    from polymargin.tables import TableError

    table = read_table_like(args, args.data, opened.layout, args.target)
    if table.y is None:
        raise TableError(table.source, "there are no labels; name the column with --target")
    return opened.prepared(table), table.y


def summary(opened: Any) -> dict[str, Any]:
    """Machine, parameters, certificate, classes and shapes."""
    machine, layout = opened.machine, opened.layout
    defaults = type(machine)().get_params()
    found: dict[str, Any] = {
        "machine": type(machine).__name__,
        "parameters": {name: value for name, value in machine.get_params().items() if value != defaults.get(name)},
        "steps": [type(step).__name__ for step in _steps(opened.model)],
        "classes": getattr(machine, "classes_", None),
        "features": layout.n_features,
        "feature_names": layout.feature_names,
        "text_features": layout.text,
        "targets": layout.targets,
    }
    if hasattr(machine, "temperature_"):
        found["probabilities"] = {name: getattr(machine, f"{name}_") for name in ("temperature", "class_biases", "lapse")}
        found["probabilities"]["mixes_classes"] = machine.class_mixing_ is not None
    end = getattr(machine, "certificate_", None)
    if end is not None:
        found["certificate"] = {name: value for name, value in vars(end).items() if name != "history"}
    arrays = {name: value.shape for name, value in vars(machine).items() if name.endswith("_") and hasattr(value, "shape")}
    found["arrays"] = {name: list(shape) for name, shape in arrays.items() if shape}
    return found


def _steps(model: Any) -> list[Any]:
    """The steps of a pipeline, also of one inside another."""
    if not hasattr(model, "steps"):
        return [model]
    return [step for _, part in model.steps for step in _steps(part)]


def as_text(found: dict[str, Any]) -> str:
    """The summary for people."""
    changed = ", ".join(f"{name}={value!r}" for name, value in found["parameters"].items())
    rows = [
        ("machine", f"{found['machine']}({changed})"),
        ("steps", ", ".join(found["steps"])),
        ("classes", _few(found["classes"])),
        (
            "features",
            f"{found['features']}: {_few(found['feature_names'])}" if found["feature_names"] else found["features"],
        ),
        ("text features", _few(found["text_features"])),
        ("target", _few(found["targets"])),
    ]
    end = found.get("certificate")
    if end:
        rows += [
            ("status", end["status"]),
            ("objective", f"{end['primal']:.8g}"),
            (f"{end['bounds']} at least", f"{end['dual']:.8g}"),
            ("relative gap", f"{end['rel_gap']:.2e} (tol {end['tol']:g})"),
            ("iterations", f"{end['n_iter']} in {end['seconds']:.3g} s"),
            ("methods", "; ".join(f"{stage.method} ({stage.reason})" for stage in end["stages"])),
        ]
    rows += [(name, " x ".join(map(str, shape))) for name, shape in found["arrays"].items()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows if value not in ("", None))


def _few(values: Any, most: int = 8) -> str:
    values = [] if values is None else [str(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]
    return ", ".join(values[:most]) + (f", ... ({len(values)} in all)" if len(values) > most else "")
