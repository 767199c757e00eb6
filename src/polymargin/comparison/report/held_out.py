"""What a machine did with rows it had not seen: which classes it confuses, on which rows; whether its probabilities hold."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import confusion_matrix

from polymargin.comparison.report.parts import picture, table

_MOST_CLASSES = 20  # in a table of all classes against all
_MOST_PAIRS, _MOST_ROWS, _MOST_COLUMNS = 8, 4, 6
_MOST_FEATURES = 5


def confusions(comparison: Any, machine: str) -> list[str]:
    """The matrix of true and predicted classes with the recall of each, and the pairs with most errors, row by row."""
    fit = comparison.fitted_on_split(machine)
    truth, said = np.asarray(fit.y_test), np.asarray(fit.model.predict(fit.X_test))
    classes = np.asarray(fit.model.classes_)
    counts = confusion_matrix(truth, said, labels=classes)
    return [
        f"<h2>Right and wrong, class by class ({html.escape(machine)})</h2>",
        _matrix(counts, classes),
        _confused_pairs(comparison, fit, truth, said),
    ]


def _matrix(counts: NDArray[np.int64], classes: NDArray[Any]) -> str:
    members, right = counts.sum(axis=1), np.diag(counts)
    errors = (members - right) + (counts.sum(axis=0) - right)
    shown = np.arange(len(classes))
    if len(classes) > _MOST_CLASSES:
        shown = np.sort(np.argsort(-errors, kind="stable")[:_MOST_CLASSES])
    heads = "".join(f"<th>{html.escape(str(classes[k]))}</th>" for k in shown)
    lines = [f"<tr><th>true \\ predicted</th>{heads}<th>rows</th><th>recall</th></tr>"]
    for k in shown:
        shares = counts[k] / max(members[k], 1)
        cells = "".join(_cell(counts[k, said], shares[said], k == said) for said in shown)
        recall = f"{right[k] / members[k]:.0%}" if members[k] else "–"
        lines.append(f"<tr><th>{html.escape(str(classes[k]))}</th>{cells}<td>{members[k]}</td><td>{recall}</td></tr>")
    left = "" if len(shown) == len(classes) else f" The {len(shown)} classes with most errors of {len(classes)}."
    note = f"<p class='small'>The first split's test rows. Recall: the share of a class's rows that are right.{left}</p>"
    return f'<div class="scroll"><table class="counts">{"".join(lines)}</table></div>{note}'


def _cell(count: int, share: float, right: bool) -> str:
    """Errors are red, right rows blue, the stronger the more of the class they are; readable on dark and light."""
    colour = "42, 111, 151" if right else "196, 61, 43"
    return f'<td style="background: rgba({colour}, {0.75 * share:.2f})">{count or ""}</td>'


def _confused_pairs(comparison: Any, fit: Any, truth: NDArray[Any], said: NDArray[Any]) -> str:
    wrong = np.flatnonzero(truth != said)
    if not len(wrong):
        return "<p>None of these rows is wrong.</p>"
    pairs: dict[tuple[Any, Any], list[int]] = {}
    for place in wrong:
        pairs.setdefault((truth[place], said[place]), []).append(int(place))
    most = sorted(pairs.items(), key=lambda pair: -len(pair[1]))[:_MOST_PAIRS]
    numbers = np.asarray(comparison.first_test_rows)
    rows = []
    for (true, predicted), places in most:
        examples = ", ".join(str(numbers[place]) for place in places[:_MOST_ROWS])
        more = ", …" if len(places) > _MOST_ROWS else ""
        rows.append([str(true), str(predicted), str(len(places)), examples + more, _values(fit, places[0])])
    heads = ["true", "taken for", "rows", "for example, counted from 0", "what is unusual about the first of them"]
    return "<h2>Most confused</h2>" + table(heads, rows, "text")


def _values(fit: Any, place: int) -> str:
    """The cells of a row that lie farthest from the mean of their columns, in spreads; texts come first."""
    X, known = fit.X_test, getattr(fit.model, "feature_names_in_", None)
    if hasattr(X, "iloc"):
        names, cells = [str(name) for name in X.columns], list(X.iloc[place])
        columns = [np.asarray(X[name]) for name in X.columns]
    else:
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
        names = [f"column {j}" for j in range(dense.shape[1])] if known is None else [str(name) for name in known]
        cells, columns = list(dense[place]), list(dense.T)
    farthest = sorted(range(len(cells)), key=lambda j: -_distance(cells[j], columns[j]))[:_MOST_COLUMNS]
    texts = [f"{names[j]} {cells[j]:.4g}" if isinstance(cells[j], float) else f"{names[j]} {cells[j]}" for j in farthest]
    return ", ".join(texts) + (", …" if len(cells) > _MOST_COLUMNS else "")


def _distance(cell: Any, column: NDArray[Any]) -> float:
    if not np.issubdtype(column.dtype, np.number):
        try:
            column = column.astype(np.float64)  # numbers among columns of text
        except ValueError:
            return np.inf
    spread = float(np.nanstd(column))
    return abs(float(cell) - float(np.nanmean(column))) / spread if spread > 0.0 and np.isfinite(cell) else 0.0


def calibration(comparison: Any, machine: str) -> str:
    """Whether probabilities are kept: those that the machine has, or would have with probability=True."""
    from polymargin.plotting import ReliabilityDisplay

    fit = comparison.fitted_on_split(machine)
    how = ""
    if not hasattr(fit.model, "predict_proba"):
        fit, how = comparison.fitted_on_split(machine, probability=True), ", with probability=True"
    return picture(
        f"Calibration ({machine}{how})",
        lambda: ReliabilityDisplay.from_estimator({machine: fit.model}, fit.X_test, fit.y_test).figure_,
        "On the diagonal, the most probable class is right as often as its probability says.",
    )


def features(comparison: Any, machines: list[str]) -> str:
    """What speaks for each class, by the first of the machines that is linear: weights of the columns as it sees them."""
    models = {name: comparison.fitted_on_split(name).model for name in machines}
    machine = next((name for name, model in models.items() if hasattr(model[-1], "class_vectors_")), None)
    if machine is None:
        return ""
    model = models[machine]
    top = model[-1].top_features(_names(model), k=_MOST_FEATURES)
    rows = [
        [str(name), ", ".join(f"{feature.name} {feature.weight:+.2g}" for feature in found)]
        for name, found in list(top.items())[:_MOST_CLASSES]
    ]
    said = "" if len(top) <= _MOST_CLASSES else f"<p class='small'>The first {_MOST_CLASSES} of {len(top)} classes.</p>"
    heading = f"<h2>What speaks for a class, and against it ({html.escape(machine)})</h2>"
    return heading + table(["class", "weights of scaled columns"], rows, "text") + said


def _names(model: Any) -> list[str]:
    """Names of the columns that the machine sees, as far as the steps before it tell."""
    n = model[-1].n_features_in_
    try:
        names = [str(name) for name in model[:-1].get_feature_names_out()]
    except (AttributeError, ValueError, TypeError):
        return [f"column {j}" for j in range(n)]
    plain = [re.sub("^(numeric|categories)__", "", name) for name in names]  # the parts of our own preprocessor
    return [f"column {name[1:]}" if name[:1] == "x" and name[1:].isdigit() else name for name in plain]
