"""The API reference: its pages list what the modules declare in ``__all__``, so a new name is there by itself."""

from __future__ import annotations

import inspect
import logging
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import polymargin
from polymargin.estimators.base import MarginClassifier

MODULES = {
    "polymargin.diagnostics": "Diagnostics: what a fitted machine shows",
    "polymargin.plotting": "Pictures",
    "polymargin.metrics": "Metrics",
    "polymargin.label_costs": "Costs of errors",
    "polymargin.datasets": "Data sets by name",
    "polymargin.tables": "Data files",
    "polymargin.comparison": "Comparison of machines",
    "polymargin.losses": "Losses",
    "polymargin.penalties": "Penalties",
    "polymargin.torch": "PyTorch",
    "polymargin.distributed": "Larger than memory",
    "polymargin.dask": "Dask",
}


def documented_names(module: str) -> list[str]:
    """The classes and functions that a module declares public; tables such as ``LOSSES`` have no page."""
    home = import_module(module)
    return [name for name in home.__all__ if callable(getattr(home, name))]


def is_machine(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, MarginClassifier)


def sections() -> list[tuple[str, str, list[str]]]:
    """Title, module and names of each table."""
    names = documented_names("polymargin")
    machines = [name for name in names if is_machine(getattr(polymargin, name))]
    around = [name for name in names if name not in machines]
    found = [("Machines", "polymargin", machines), ("Around the machines", "polymargin", around)]
    for module, title in MODULES.items():
        try:
            found.append((title, module, documented_names(module)))
        except ImportError as error:  # PyTorch and Dask are asked for by no other part
            logging.getLogger("sphinx").info(f"reference: {module} is left out: {error}")
    return found


def write_reference(app: Sphinx, config: Any) -> None:
    """docs/api/index.rst, from which autosummary makes a page a name."""
    lines = ["API reference", "=============", "", "Every public name.", ""]
    for title, module, names in sections():
        lines += [title, "-" * len(title), "", f".. currentmodule:: {module}", "", f"``import {module}``", ""]
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [*(f"   {name}" for name in names), ""]
    page = Path(app.srcdir) / "api" / "index.rst"
    text = "\n".join(lines)
    if not page.exists() or page.read_text("utf-8") != text:  # else the cached site is good
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, "utf-8")


def shorten_inherited(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """What scikit-learn and PyTorch say of inherited methods refers to pages of theirs: the first paragraph is enough."""
    if (getattr(found, "__module__", None) or "").partition(".")[0] in ("sklearn", "torch"):
        summary = "\n".join(lines).partition("\n\n")[0]
        lines[:] = re.sub(r":ref:`([^<`]*?)\s*<[^`]*>`", r"\1", summary).splitlines()


def signature_of(app: Sphinx, what: str, name: str, found: Any, *_: Any) -> tuple[str, str] | None:
    """That of the constructor: machines refuse unknown keywords in ``__new__``, which takes any."""
    if what != "class" or not is_machine(found):
        return None
    parameters = inspect.signature(found).parameters.values()
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(plain)), ""


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", write_reference)
    app.connect("autodoc-process-signature", signature_of)
    app.connect("autodoc-process-docstring", shorten_inherited, priority=100)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
