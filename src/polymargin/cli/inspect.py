"""`polymargin inspect`: what is in a model file."""

from __future__ import annotations

import argparse
import contextlib
import io
from numbers import Real
from typing import Any

from polymargin.cli.shared.data import DATA_HELP, add_table_arguments, read_table_like
from polymargin.cli.shared.models import open_model
from polymargin.cli.shared.output import print_json, printable

_CHOSEN = ("p", "p_candidates", "p_scores", "threshold", "threshold_score")  # by a fit, where no number was given
HELP = "tell what is in a model file; with its training data, margins and bounds too"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="model file; - for standard input")
    parser.add_argument("data", nargs="?", help=f"the training data, for margins and bounds: {DATA_HELP}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_table_arguments(parser, training=False)


def run(args: argparse.Namespace) -> int:
    from polymargin.cli.shared.parser import UsageError

    opened = open_model(args.model)
    if args.data is not None and not hasattr(opened.machine, "explain"):
        raise UsageError(f"{type(opened.machine).__name__} has neither margins nor bounds to tell: leave DATA out")
    found = summary(opened)
    if args.json:
        rows = _training_rows(args, opened)
        print_json(found | (on_rows(opened.machine, *rows) if rows else {}))
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


def on_rows(machine: Any, X: Any, y: Any) -> dict[str, Any]:
    """Margins of the training rows and, for one class a row, what is known about new ones: as `explain` prints it."""
    import numpy as np

    from polymargin import diagnostics
    from polymargin.diagnostics.explain import BOUNDS, has_logistic_margins

    margins = diagnostics.margin_summary(machine, X, y)
    found: dict[str, Any] = {"margins": vars(margins.overall)}
    if np.ndim(y) == 1:
        found["bounds"] = [diagnostics.generalization_bound(machine, X, y, kind=kind).as_dict() for kind in BOUNDS]
        found["norm_bound"] = diagnostics.pairwise_norm_bound(machine, X)._asdict()
        if has_logistic_margins(machine):
            found["logistic_margins"] = diagnostics.logistic_margins(machine, X, y)
    return found


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
    fitted = {name: vars(machine)[f"{name}_"] for name in _CHOSEN if f"{name}_" in vars(machine)}
    chosen = {name: value for name, value in fitted.items() if not isinstance(getattr(machine, name, None), Real)}
    if chosen:
        found["chosen"] = chosen
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
        *((f"chosen {name.replace('_', ' ')}", _number(value)) for name, value in found.get("chosen", {}).items()),
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


def _number(value: Any) -> str:
    many = value.ravel().tolist() if hasattr(value, "ravel") else [value]
    return _few([f"{one:.4g}" for one in many])


def _few(values: Any, most: int = 8) -> str:
    values = [] if values is None else [str(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]
    return ", ".join(values[:most]) + (f", ... ({len(values)} in all)" if len(values) > most else "")
