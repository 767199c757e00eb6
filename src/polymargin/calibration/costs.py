"""Decisions by expected cost: unequal errors, told after the fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def cheapest(P: NDArray[Any], cost: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """The class index of least expected cost for each row of probabilities; ties to the lower one."""
    return np.asarray((P @ cost_matrix(cost, classes)).argmin(axis=1))


def cost_matrix(cost: Any, classes: NDArray[Any]) -> Array:
    """The costs (c, c), rows the true class, columns the decision, in the order of `classes`.

    A data frame may name the classes in any order, and so may a dictionary of rows, each a dictionary.
    """
    if isinstance(cost, Mapping):
        cost = _rows_by_name(cost, classes)
    if hasattr(cost, "loc") and hasattr(cost, "columns"):
        names = classes.tolist()
        for axis, found in (("rows", cost.index), ("columns", cost.columns)):
            lacking = [name for name in names if name not in set(found)]
            if lacking:
                raise ValueError(f"cost has no {axis} for the class {lacking[0]!r}; it needs a row and a column for each.")
        cost = cost.loc[names, names].to_numpy()
    try:
        matrix = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("cost must hold numbers: what it costs to decide for the column where the row is true.") from error
    c = len(classes)
    if matrix.shape != (c, c):
        raise ValueError(f"cost has shape {matrix.shape}; it needs a row and a column for each of {c} classes: ({c}, {c}).")
    if not np.isfinite(matrix).all():
        raise ValueError("cost contains NaN or infinity; a large number stands for an error that must not happen.")
    return matrix


def _rows_by_name(cost: Mapping[Any, Any], classes: NDArray[Any]) -> list[list[Any]]:
    """Rows of a dictionary of dictionaries, in the order of the classes."""
    names = classes.tolist()
    for name in names:
        row = cost.get(name)
        if not isinstance(row, Mapping):
            raise ValueError(f"cost has no row for the class {name!r}; it needs a row and a column for each.")
        lacking = [other for other in names if other not in row]
        if lacking:
            raise ValueError(f"cost has no column for the class {lacking[0]!r} in the row of {name!r}.")
    return [[cost[name][other] for other in names] for name in names]
