"""Linear machines as JSON that any language can score (docs/export.md has a scorer in twenty lines).

    {"format": "polymargin linear machine", "version": 1, "machine": "CrammerSingerSVC",
     "features": names or null, "classes": [...], "class_vectors": [[...], ...], "class_offsets": [...],
     "missing": numbers that stand for missing ones, or null,
     "label_cut": null, or the score(s) from which a row has a label, "empty_sets": whether it may have none,
     "probabilities": null, or {"of": "classes" or "labels", "slope": ..., "biases": [...],
                                "mixing": matrix or null, "lapse": ...}}

Scores are ``class_vectors x + class_offsets``. Steps of a pipeline before the machine that scale columns are multiplied into
the vectors, so x is a row as it comes.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.diagnostics.view import View, view_of

FORMAT, VERSION = "polymargin linear machine", 1

Array = NDArray[np.float64]


def to_json(model: Any) -> str:
    """A fitted linear machine, alone or after steps that fill and scale columns, as JSON.

    Parameters
    ----------
    model : estimator
        A machine with kernel="linear", or a linear classifier of scikit-learn with one vector a class. Steps of a pipeline
        may be `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` and `SimpleImputer`, which become part of the numbers.

    Returns
    -------
    str
        The document; :mod:`polymargin.export.plain` and docs/export.md say what is in it.

    Examples
    --------
    >>> import json
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC, to_json
    >>> X, y = load_iris(return_X_y=True)
    >>> document = json.loads(to_json(CrammerSingerSVC().fit(X, y)))
    >>> document["classes"], len(document["class_vectors"][0])
    ([0, 1, 2], 4)
    """
    view = view_of(model)
    if view.is_kernel:
        raise TypeError(f"{view.name} has kernel={view.estimator.kernel!r}; JSON holds linear machines, to_onnx all others.")
    vectors, offsets = view.vectors, view.offsets
    columns = _columns(view, vectors.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        offsets, vectors = offsets + vectors @ columns.shift, vectors * columns.scale
    if not (np.isfinite(offsets).all() and np.isfinite(vectors).all()):
        raise ValueError(f"{view.name} has weights that are not finite once the steps before it are multiplied in.")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "machine": view.name,
        "features": _names(view),
        "classes": _labels(view),
        "class_vectors": vectors.tolist(),
        "class_offsets": offsets.tolist(),
        "missing": None if columns.missing is None else columns.missing.tolist(),
        **_answers(view),
    }
    return json.dumps(document, allow_nan=False)


def _answers(view: View) -> dict[str, Any]:
    """How scores become labels and probabilities."""
    cut, scaling = (getattr(view.estimator, name, None) for name in ("_label_cut", "_scaling"))
    return {
        "label_cut": None if cut is None else np.asarray(cut).tolist(),
        "empty_sets": cut is not None and bool(view.estimator._allows_empty_sets),
        "probabilities": None if scaling is None else _scaled(scaling, "classes" if cut is None else "labels"),
    }


def _scaled(scaling: Any, of: str) -> dict[str, Any]:
    """``Z = slope * S mixing + biases``; of labels sigmoid(Z), of c classes ``(1 - lapse) softmax(Z) + lapse / c``."""
    return {
        "of": of,
        "slope": float(scaling.slope),
        "biases": scaling.biases.tolist(),
        "mixing": None if scaling.mixing is None else scaling.mixing.tolist(),
        "lapse": float(scaling.lapse),
    }


def _names(view: View) -> list[str] | None:
    """Of the columns that come in."""
    names = getattr((*view.steps, view.estimator)[0], "feature_names_in_", None)
    return None if names is None else list(map(str, names))


def _labels(view: View) -> list[Any]:
    """The classes, or the names of the labels of a label matrix if it had some."""
    several = getattr(view.estimator, "_label_cut", None) is not None
    return list((several and view.estimator._label_names) or view.classes.tolist())


# ---- steps before the machine -------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """What steps make of a column x: ``scale * x + shift``, with a number for a missing one."""

    scale: Array
    shift: Array
    missing: Array | None = None


def _columns(view: View, width: int) -> Columns:
    columns = Columns(np.ones(width), np.zeros(width))
    for step in view.steps:
        columns = _after(step, columns)
    return columns


def _after(step: Any, columns: Columns) -> Columns:
    kind = type(step).__name__
    if kind == "Pipeline":
        for _, part in step.steps:
            columns = columns if part in (None, "passthrough") else _after(part, columns)
        return columns
    if kind == "NamedColumns" and not step.text:
        return columns
    if kind in _SCALES and not getattr(step, "clip", False):
        scale, shift = _SCALES[kind](step)
        return columns._replace(scale=columns.scale * scale, shift=columns.shift * scale + shift)
    if kind == "SimpleImputer" and _fills_only(step, columns):
        return columns._replace(missing=(step.statistics_.astype(np.float64) - columns.shift) / columns.scale)
    raise TypeError(
        f"the step {kind} cannot be written as numbers of a linear machine{_of_texts(step)}; ONNX (to_onnx, or polymargin "
        "export to a file .onnx) takes most steps."
    )


def _of_texts(step: Any) -> str:
    texts = getattr(step, "text", ())
    return f": it reads columns of text ({', '.join(map(str, texts))})" if isinstance(texts, tuple) and texts else ""


def _fills_only(step: Any, columns: Columns) -> bool:
    """Whether an imputer replaces NaN by finite numbers and does nothing else; a second one has nothing left to do."""
    numbers = step.statistics_.dtype.kind in "iuf" and bool(np.isfinite(step.statistics_.astype(np.float64)).all())
    plain = not step.add_indicator and step.missing_values != step.missing_values  # NaN differs from itself
    return numbers and plain and columns.missing is None and len(step.statistics_) == len(columns.scale)


_SCALES: dict[str, Any] = {
    "StandardScaler": lambda step: _standard(step.scale_, step.mean_ if step.with_mean else None),
    "MaxAbsScaler": lambda step: _standard(step.scale_, None),
    "MinMaxScaler": lambda step: (step.scale_, step.min_),
}


def _standard(scale: Any, mean: Any) -> tuple[Any, Any]:
    factor = 1.0 if scale is None else 1.0 / scale
    return factor, 0.0 if mean is None else -mean * factor
