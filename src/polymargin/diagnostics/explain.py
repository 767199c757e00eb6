"""One page about a fitted machine: what it is, how good the fit is, where its classes sit, what is known about new rows.

`explain` prints it, with rich if that is installed; `describe` returns it as data.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from polymargin.calibration.measures import all_measures
from polymargin.diagnostics import (
    angles,
    confusable_pairs,
    generalization_bound,
    logistic_margins,
    margin_summary,
    pairwise_margins,
    pairwise_norm_bound,
    spectrum,
)
from polymargin.diagnostics.pairs import NormBound
from polymargin.diagnostics.view import View, view_of

_PAIRS = 5  # closest pairs, and worst classes, that are shown
BOUNDS = ("lp", "lp_sharp", "mcodm", "angular")  # "lp_sampled" takes too long on many rows
_LOGISTIC = ("logistic", "softmax")  # losses that have a margin of their own


@dataclass(frozen=True)
class Section:
    """A heading, lines of text, and a table whose first row is its head."""

    title: str
    lines: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Description:
    """The page; ``str`` is its plain text."""

    title: str
    sections: tuple[Section, ...]

    def __str__(self) -> str:
        parts = [self.title]
        for section in self.sections:
            parts += ["", section.title, *(f"  {line}" for line in section.lines), *_aligned(section.table)]
        return "\n".join(parts)


def explain(est: Any, X: Any = None, y: Any = None, *, K: Any = None) -> None:
    """Print one page about a fitted machine, with rich if it is installed.

    Parameters
    ----------
    est : fitted machine
        One of polymargin's, or a linear scikit-learn classifier with one vector per class; alone, in a Pipeline or a search.
    X, y : training rows and labels, default=None
        Adds margins, errors of the closest classes and generalisation bounds.
    K : array of shape (n_train, n_train), default=None
        Training kernel matrix, for ``kernel="precomputed"`` without X (which is the same matrix).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CrammerSingerSVC(random_state=0).fit(X, y)
    >>> machine.explain(X, y)  # doctest: +ELLIPSIS
    CrammerSingerSVC...
    """
    page = describe(est, X, y, K=K)
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        print(page)
    else:
        _print_with_rich(page)


def describe(est: Any, X: Any = None, y: Any = None, *, K: Any = None) -> Description:
    """What `explain` prints, as data. Parameters are those of `explain`."""
    if (X is None) != (y is None):
        raise ValueError("X and y belong together: pass both, or neither.")
    y = y.toarray() if sparse.issparse(y) else y
    view = view_of(est)
    if view.is_precomputed and K is None and X is not None:
        K = view.rows(X)
    sections = [_machine(view), _certificate(view), _probabilities(view, X, y)]
    if view.is_precomputed and K is None:
        said = "kernel='precomputed': pass X and y, or K=, the training kernel matrix, to see margins and angles."
        sections.append(Section("Classes", (said,)))
    else:
        sections += [_classes(view, K), _closest(view, X, y, K)]
    if X is not None:
        sections.append(_margins(view, X, y))
        if np.ndim(y) == 1:
            sections.append(_bounds(view, X, y))
    return Description(view.name, tuple(section for section in sections if section is not None))


def _machine(view: View) -> Section:
    est = view.estimator
    lines = [" ".join(repr(est).split())]
    with suppress(AttributeError, NotImplementedError):  # other people's machines, or one without the two
        lines.append(f"minimises C * sum of {est._loss().name} + {est._penalty().name}")
    size = f"{view.n_classes} classes, {est.n_features_in_} columns"
    if view.is_kernel:
        size += f", {est.dual_coef_.shape[1]} support rows"
    return Section("Machine", (*lines, size))


def _certificate(view: View) -> Section | None:
    end = getattr(view.estimator, "certificate_", None)
    if end is None:
        return None
    spent = f"{end.n_iter} iterations, {end.seconds:.3g} s"
    if not np.isfinite(end.dual):
        said = "no lower bound is known: the objective is not convex"
        return Section("Fit", (f"{end.status}: objective {end.primal:.7g}; {said}", spent))
    values = f"objective {end.primal:.7g}, {end.bounds} at least {end.dual:.7g}"
    stages = tuple(f"from {stage.seconds:.2g} s: {stage.method} ({stage.reason})" for stage in end.stages)
    gap = f"relative gap {end.rel_gap:.1e}, tol {end.tol:.0e}; {spent}"
    return Section("Fit", (f"{end.status}: {values}", gap, *stages))


def _probabilities(view: View, X: Any, y: Any) -> Section | None:
    """How scores become probabilities, and what these are worth; of machines that have them."""
    est, lines = view.estimator, []
    if hasattr(est, "temperature_"):
        biases = est.class_biases_
        said = f"biases {biases.min():.2g} to {biases.max():.2g}" if biases.any() else "no biases"
        mixed = "" if est.class_mixing_ is None else ", scores mixed among the classes"
        lines.append(f"temperature {est.temperature_:.3g}, {said}{mixed}, lapse {est.lapse_:.2g}; fitted to rows left out")
    if X is not None and hasattr(est, "predict_proba"):
        found = all_measures(y, est.predict_proba(view.rows(X)), est.classes_)
        lines.append("of these rows: " + ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in found.items()))
    return Section("Probabilities", tuple(lines)) if lines else None


def _classes(view: View, K: Any) -> Section:
    widths, degrees = pairwise_margins(view, K=K), angles(view, K=K)
    pairs = np.triu_indices(len(widths), 1)
    between, turned = widths[pairs], degrees[pairs]
    sizes = spectrum(view, K=K)
    return Section(
        "Class vectors",
        (
            f"margin between two classes, 2/|w_k - w_l|: {between.min():.4g} to {between.max():.4g}, "
            f"median {np.median(between):.4g}",
            f"angle between two classes: {_span(turned)} degrees",
            f"norm |W| {np.linalg.norm(sizes.singular_values):.4g}, rank {sizes.rank}, condition {sizes.condition:.3g}",
        ),
    )


def _closest(view: View, X: Any, y: Any, K: Any) -> Section:
    with_rows = X is not None and np.ndim(y) == 1
    found = confusable_pairs(view, *((X, y) if with_rows else ()), n_pairs=_PAIRS, K=K)
    head = ("classes", "margin", "angle") + (("mean distance of rows", "errors", "error rate") if with_rows else ())
    rows = []
    for pair in found:
        row: tuple[str, ...] = (f"{pair.first} - {pair.second}", f"{pair.margin:.4g}", f"{pair.angle:.0f}")
        if pair.distance is not None and pair.first_as_second is not None and pair.second_as_first is not None:
            errors = pair.first_as_second + pair.second_as_first
            row += (f"{pair.distance:.4g}", str(errors), f"{pair.error_rate:.1%}")
        rows.append(row)
    order = "by the distance of their rows from the border" if with_rows else "by margin"
    return Section(f"Closest classes, {order}", (), (head, *rows))


def _margins(view: View, X: Any, y: Any) -> Section:
    summary = margin_summary(view, X, y)
    worst = sorted(summary.per_class.items(), key=lambda item: -item[1].wrong)[:_PAIRS]
    head = ("class", "rows", "mean", "variance", "5 %", "median", "95 %", "wrong", "below 1")
    rows = []
    for name, stats in [("all", summary.overall), *worst]:
        numbers = (stats.mean, stats.variance, *(stats.quantiles[q] for q in (0.05, 0.5, 0.95)))
        shares = (f"{stats.wrong:.1%}", f"{stats.inside:.1%}")
        rows.append((str(name), str(stats.n_rows), *(f"{number:.3g}" for number in numbers), *shares))
    return Section("Margins of these rows, all and the classes with most errors", (), (head, *rows))


def _bounds(view: View, X: Any, y: Any) -> Section:
    head = ("kind", "bound", "empirical", "complexity", "confidence", "")
    rows = []
    for kind in BOUNDS:
        bound = generalization_bound(view, X, y, kind=kind)
        terms = bound.terms
        parts = (terms.get("empirical"), terms["complexity"] + terms.get("offset", 0.0), terms["confidence"])
        numbers = ("-" if part is None else f"{part:.3g}" for part in parts)
        rows.append((kind, f"{bound.value:.3g}", *numbers, "vacuous" if bound.vacuous else ""))
    said = [
        "of the error rate on new rows ('angular': of the excess risk)",
        "with probability 0.95, if these are the training rows",
        f"no bound of an error: {_norms(pairwise_norm_bound(view, X))}",
    ]
    if has_logistic_margins(view.estimator):
        widths = logistic_margins(view, X, y)
        between = widths[np.triu_indices(len(widths), 1)]
        said.append(f"logistic margin between two classes (M3SVM, Eq. 29): {between.min():.4g} to {between.max():.4g}")
    return Section("Generalisation bounds", tuple(said), (head, *rows))


def _norms(found: NormBound) -> str:
    return f"scores differ by {found.largest:.4g} <= {found.bound:.4g} (M3SVM, Theorem 6, p = {found.p:g})"


def has_logistic_margins(est: Any) -> bool:
    """Whether its loss is logistic: then the hinge's margin is not its own."""
    return getattr(est, "loss", None) in _LOGISTIC


def _span(values: Any) -> str:
    known = values[~np.isnan(values)]
    return f"{known.min():.0f} to {known.max():.0f}, median {np.median(known):.0f}" if len(known) else "none (zero vectors)"


def _aligned(table: tuple[tuple[str, ...], ...]) -> list[str]:
    """Columns as wide as their longest cell; the first to the left, the others to the right."""
    if not table:
        return []
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _print_with_rich(page: Description) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(page.title, style="bold underline"))
    for section in page.sections:
        console.print()
        console.print(Text(section.title, style="bold"))
        for line in section.lines:
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
        if section.table:
            table = Table(box=None, padding=(0, 0, 0, 2))
            for i, name in enumerate(section.table[0]):
                table.add_column(Text(name, style="dim"), justify="left" if i == 0 else "right")
            for row in section.table[1:]:
                table.add_row(*map(Text, row))
            console.print(table)
