"""Columns of a file by name. The numbers among them lie in one matrix, so that very many cost no more than their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Columns:
    """What a reader returns.

    Parameters
    ----------
    names : sequence of str
        The columns of numbers.
    matrix : ndarray of shape (n_rows, len(names))
        Their values, missing ones NaN.
    texts : mapping of str to ndarray of objects
        The columns of texts, missing ones ``""``.
    """

    def __init__(self, names: Sequence[str], matrix: NDArray[Any], texts: Mapping[str, NDArray[Any]]):
        self._names, self._matrix, self._texts = list(names), matrix, texts

    def text(self, name: str) -> NDArray[Any]:
        """A column of texts."""
        return self._texts[name]

    def texts_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those that hold texts."""
        return tuple(name for name in names if name in self._texts)

    def stacked(self, names: Sequence[str]) -> NDArray[Any]:
        """The columns side by side: floats if all are numbers, else objects."""
        if list(names) == self._names:
            return self._matrix
        place = {name: k for k, name in enumerate(self._names)}
        if not self.texts_among(names):
            return self._matrix[:, [place[name] for name in names]]
        X = np.empty((len(self._matrix), len(names)), dtype=object)
        for k, name in enumerate(names):
            X[:, k] = self._texts[name] if name in self._texts else self._matrix[:, place[name]]
        return X


def side_by_side(columns: Sequence[NDArray[Any]], n_rows: int) -> NDArray[Any]:
    """Columns of numbers as a matrix of the type that holds them all."""
    kinds = {column.dtype for column in columns} or {np.dtype(np.float64)}
    matrix = np.empty((n_rows, len(columns)), dtype=np.result_type(*kinds))
    for k, column in enumerate(columns):
        matrix[:, k] = column
    return matrix
