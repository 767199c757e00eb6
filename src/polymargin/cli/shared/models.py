"""Model files of the command line: a pipeline, and the layout of the data it was trained on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from polymargin.tables import Layout, Table


class OpenModel(NamedTuple):
    """A model from a file."""

    model: Any
    layout: Layout
    frames: bool  # fitted in Python on data frames, whose column names scikit-learn compares
    notes: dict[str, Any]

    @property
    def machine(self) -> Any:
        """The last step of a pipeline, or the model itself."""
        return self.model.steps[-1][1] if hasattr(self.model, "steps") else self.model

    def predict(self, table: Table) -> Any:
        """Labels of the table's rows."""
        labels = self._ask("predict", table)
        return labels.toarray() if hasattr(labels, "toarray") else labels

    def scores(self, table: Table) -> Any:
        """Scores of the table's rows."""
        return self._ask("decision_function", table)

    def probabilities(self, table: Table) -> Any:
        """Probabilities of the classes, or labels, of the table's rows."""
        from polymargin.cli.shared.parser import UsageError

        if not hasattr(self.model, "predict_proba"):
            raise UsageError(f"this {type(self.machine).__name__} has no probabilities; train it with --proba")
        return self._ask("predict_proba", table)

    def prepared(self, table: Table) -> Any:
        """The table's rows as the machine itself sees them, after the steps before it."""
        rows = self._rows(table)
        return self.model[:-1].transform(rows) if hasattr(self.model, "steps") else rows

    def _ask(self, method: str, table: Table) -> Any:
        from polymargin.storage.models import ModelFileError

        try:
            return getattr(self.model, method)(self._rows(table))
        except (AttributeError, IndexError, KeyError, TypeError) as error:  # attributes that do not fit together
            why = f"{type(error).__name__}: {error}"
            raise ModelFileError(f"the model does not work, its file may be damaged ({why})") from error

    def _rows(self, table: Table) -> Any:
        """X of a table as the model wants it."""
        if not self.frames:
            return table.X
        try:
            import pandas
        except ImportError as error:
            raise ImportError("this model was fitted on data frames: pip install pandas to use it here") from error
        return pandas.DataFrame(table.X, columns=list(table.feature_names or ()))


def open_model(path: str) -> OpenModel:
    """Loads a model file; - is standard input."""
    from polymargin.storage.models import ModelFileError, load_with_notes
    from polymargin.tables import Layout

    model, notes = load_with_notes(sys.stdin.buffer if path == "-" else path)
    name = "<stdin>" if path == "-" else path
    if "layout" in notes:
        try:
            return OpenModel(model, Layout.from_json(notes["layout"]), False, notes)
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"{name}: {error}") from error
    width = getattr(model, "n_features_in_", None)
    if not isinstance(width, int):
        raise ModelFileError(f"{name}: the model was saved before it was fitted")
    names = getattr(model, "feature_names_in_", None)
    known = tuple(map(str, names)) if names is not None else None
    return OpenModel(model, Layout(width, known, multilabel=_several_labels(model)), names is not None, notes)


def _several_labels(model: Any) -> bool:
    return isinstance(getattr(model, "classes_", None), list)
