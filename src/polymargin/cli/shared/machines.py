"""Options that name a machine and its parameters, and the machine they stand for."""

from __future__ import annotations

import argparse
import ast
from typing import Any

from polymargin.cli.shared.parser import UsageError

_OWN = ("C", "kernel", "gamma", "tol", "class_weight")


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """--machine, the usual parameters, and --param for all others."""
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--machine",
        metavar="NAME",
        help="any estimator of polymargin (default CrammerSingerSVC; for --multilabel the first that can)",
    )
    group.add_argument("--tree", action="store_true", help="LabelTree: trees over very many classes or labels")
    group.add_argument("--C", metavar="NUMBER", help="weight of the loss (default 1)")
    group.add_argument("--kernel", metavar="NAME", help="linear (default), rbf, poly, sigmoid or laplacian")
    group.add_argument("--gamma", metavar="NUMBER", help="of the kernel (default scale)")
    group.add_argument("--tol", metavar="NUMBER", help="relative duality gap to reach (default 1e-4)")
    group.add_argument("--class-weight", metavar="WEIGHTS", help="balanced, or a dictionary such as \"{'a': 2}\"")
    group.add_argument(
        "--param", metavar="NAME=VALUE", action="append", default=[], help="any other parameter; may be repeated"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="random_state (default 0)")


def make_machine(args: argparse.Namespace, multilabel: bool = False) -> Any:
    """The machine, not fitted."""
    from polymargin.estimators import machines
    from polymargin.tables.table import suggestion

    if getattr(args, "tree", False):
        if args.machine:
            raise UsageError("--tree is a machine of its own: leave --machine out")
        from polymargin.trees import LabelTree

        cls: type = LabelTree
    else:
        cls = machine_class(args.machine) if args.machine else _default(multilabel)
    params = {name: _value(text) for name in _OWN if (text := getattr(args, name)) is not None}
    for setting in args.param:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise UsageError(f"--param {setting!r} is not NAME=VALUE, for example --param max_iter=2000")
        params[name] = _value(text)
    known = cls().get_params()
    for name in params:
        if name not in known:
            hint = suggestion(name, known) or "."
            raise UsageError(f"{cls.__name__} has no parameter {name!r}{hint} It has {', '.join(known)}.")
    if getattr(args, "proba", False):
        params.setdefault("probability", True)
    if "random_state" in known:
        params.setdefault("random_state", args.seed)
    if "verbose" in known and getattr(args, "verbose", None):
        params.setdefault("verbose", args.verbose)
    machine = cls(**params)
    if multilabel and not _can_multilabel(machine):
        able = ", ".join(name for name, other in machines().items() if _can_multilabel(other()))
        raise UsageError(
            f"{cls.__name__} gives one class to a row, not several labels; machines that do: {able or 'none yet'}"
        )
    return machine


def machine_class(name: str) -> type:
    """The estimator of that name."""
    from polymargin.estimators import machines
    from polymargin.tables.table import suggestion

    known = machines()
    if name not in known:
        raise UsageError(f"there is no machine {name!r}{suggestion(name, known) or '.'} There are {', '.join(known)}.")
    return known[name]


def _default(multilabel: bool) -> type:
    if not multilabel:
        return machine_class("CrammerSingerSVC")
    from polymargin.estimators import machines

    able = [cls for cls in machines().values() if _can_multilabel(cls())]
    if not able:
        raise UsageError("no machine of this version of polymargin gives several labels to a row")
    return able[0]


def _can_multilabel(machine: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(machine).classifier_tags.multi_label)


def _value(text: str) -> Any:
    """A number, None, True, a dictionary ... as Python writes it; else the text itself."""
    if text.lower() in ("inf", "+inf", "infinity"):
        return float("inf")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
