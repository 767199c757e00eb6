"""From a table to what a machine can read: columns by name, missing values filled, categories one-hot, columns scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from polymargin.tables.table import Table, few, shown, suggestion

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


def make_preprocessor(table: Table, scale: bool = True) -> Pipeline:
    """The scikit-learn pipeline, not fitted, that goes before a machine on this table.

    Numbers: missing ones become the column's median, then mean 0 and standard deviation 1. Categories: one-hot, a missing
    one is a category of its own, one that was not seen in `fit` is all zeros. Sparse rows: each column divided by its
    largest absolute value, so that they stay sparse.

    Parameters
    ----------
    table : Table
        Only its layout is looked at: names, which columns are text, sparse or not.
    scale : bool, default=True
        Whether columns are scaled.

    Returns
    -------
    Pipeline
        Takes `table.X`, and data frames with the columns in any order.

    Examples
    --------
    >>> import io
    >>> from sklearn.pipeline import make_pipeline
    >>> from polymargin import CrammerSingerSVC
    >>> from polymargin.tables import make_preprocessor, read_table
    >>> text = "size,colour,kind\\n1,red,a\\n2,red,a\\n,blue,b\\n9,blue,b\\n"
    >>> table = read_table(io.BytesIO(text.encode()), target="kind", format="csv")
    >>> model = make_pipeline(make_preprocessor(table), CrammerSingerSVC()).fit(table.X, table.y)
    >>> model.predict(table.X).tolist()
    ['a', 'a', 'b', 'b']
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

    if table.sparse:
        return Pipeline([("scale", MaxAbsScaler() if scale else "passthrough")])
    numeric: list[tuple[str, Any]] = [("impute", SimpleImputer(strategy="median", keep_empty_features=True))]
    if scale:
        numeric.append(("scale", StandardScaler()))
    columns = ("columns", NamedColumns(table.feature_names, table.text))
    if not table.text:
        return Pipeline([columns, *numeric])
    assert table.feature_names is not None  # text has names
    text = set(table.text)
    is_text = [name in text for name in table.feature_names]
    parts: list[tuple[str, Any, list[int]]] = []
    if not all(is_text):
        parts.append(("numeric", Pipeline(numeric), [k for k, text in enumerate(is_text) if not text]))
    encoder = OneHotEncoder(handle_unknown="ignore", dtype=np.float64)
    parts.append(("categories", encoder, [k for k, text in enumerate(is_text) if text]))
    return Pipeline([columns, ("encode", ColumnTransformer(parts))])


class NamedColumns(TransformerMixin, BaseEstimator):
    """Picks the columns of a data frame by name, in a fixed order; arrays must have them in that order already.

    Parameters
    ----------
    names : sequence of str
        Columns to pick.
    text : sequence of str, default=()
        Those among them that hold categories: they become strings, missing ones ``""``.
    """

    def __init__(self, names: Any, text: Any = ()):
        self.names = names
        self.text = text

    def fit(self, X: Any, y: Any = None) -> NamedColumns:
        """Only checks that the columns are there."""
        self.n_features_in_ = len(self.names)
        self.feature_names_in_ = np.array(self.names, dtype=object)
        self.transform(X)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The columns as an array: floats, or objects if some columns are text."""
        check_is_fitted(self)
        if sparse.issparse(X):
            raise ValueError(f"these columns have names ({shown(self.names[0])}, ...): X must be an array or a data frame.")
        columns = self._columns_of_frame(X) if hasattr(X, "columns") else None
        if columns is None:
            X = np.asarray(X)
            if X.ndim != 2 or X.shape[1] != len(self.names):
                raise ValueError(f"X has shape {X.shape}, but {len(self.names)} columns are needed: {few(self.names)}.")
            columns = [X[:, k] for k in range(X.shape[1])]
            if not self.text:
                return X if X.dtype in (np.float32, np.float64) else self._floats(columns)
        if not self.text:
            return self._floats(columns)
        out, text = np.empty((len(columns[0]), len(self.names)), dtype=object), set(self.text)
        for k, (name, column) in enumerate(zip(self.names, columns, strict=True)):
            out[:, k] = _texts(column) if name in text else _numbers(name, column)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names."""
        return np.array(self.names, dtype=object)

    def _columns_of_frame(self, X: Any) -> list[Any]:
        known = dict.fromkeys(map(str, X.columns))
        for name in self.names:
            if name not in known:
                raise ValueError(f"the data frame has no column {shown(name)}{suggestion(name, known)}")
        return [np.asarray(X[name]) for name in self.names]

    def _floats(self, columns: list[Any]) -> NDArray[Any]:
        return np.column_stack([_numbers(name, column) for name, column in zip(self.names, columns, strict=True)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _numbers(name: str, column: Any) -> NDArray[Any]:
    try:
        if column.dtype != object:
            return np.asarray(column, dtype=np.float32 if column.dtype == np.float32 else np.float64)
        return np.array([np.nan if _is_missing(value) else value for value in column], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {shown(name)} must hold numbers: {shown(error, 100)}") from error


def _texts(column: Any) -> list[str]:
    return ["" if _is_missing(value) else str(value) for value in column.tolist()]


def _is_missing(value: Any) -> bool:
    """None, NaN, and pandas' NA, which answers no comparison."""
    return value is None or type(value).__name__ == "NAType" or value != value
