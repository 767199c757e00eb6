"""Class vectors of linear machines: what they say about the features, and stored sparse if that pays."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polymargin import validation


class Feature(NamedTuple):
    """A column of X and how much it weighs."""

    name: str
    weight: float


class TopFeatures(dict[Any, list[Feature]]):
    """For each class, or for a pair of classes, its features, the heaviest first. Prints as a table."""

    def __init__(self, title: str, features: dict[Any, list[Feature]]):
        super().__init__(features)
        self.title = title

    def __repr__(self) -> str:
        lines = [self.title]
        for label, features in self.items():
            said = " against ".join(map(str, label)) if isinstance(label, tuple) else label
            lines += [f"{said}:", *(f"  {weight:+10.4g}  {name}" for name, weight in features)]
        return "\n".join(lines)


def _is_linear(machine: Any) -> bool:
    return bool(machine.kernel == "linear")


class LinearVectors:
    """What a linear machine offers beside its scores."""

    classes_: NDArray[Any]
    class_vectors_: Any
    _label_names: tuple[str, ...] | None = None  # of a label matrix
    _label_cut: Any = None  # the score from which a row has a label; None if the highest score wins
    _allows_empty_sets = False  # whether a row of a label matrix may be predicted to have no label

    def top_features(self, names: Any = None, k: int = 10, *, pair: Any = None) -> TopFeatures:
        """What speaks for each class, or what tells two classes apart.

        A feature's weight is what the class gains on the mean of all classes if the feature grows by 1: its entry in the
        class vector minus that of the mean vector (labels of a label matrix do not compete: theirs is the entry itself). A
        negative weight says that less of the feature speaks for the class. Scale the columns to compare features.

        Parameters
        ----------
        names : sequence of str, default=None
            Names of the columns of X, e.g. ``vectorizer.get_feature_names_out()``. None: ``feature_names_in_``, or x0, x1...
        k : int, default=10
            How many features a class, those with the largest absolute weights; weights of 0 are left out.
        pair : tuple of two classes, default=None
            What tells these two apart: positive weights speak for the first, negative ones for the second.

        Returns
        -------
        TopFeatures
            A dictionary of lists of (name, weight), by class or with the pair as its key, that prints as a table.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.preprocessing import scale
        >>> from polymargin import CrammerSingerSVC
        >>> iris = load_iris()
        >>> machine = CrammerSingerSVC().fit(scale(iris.data), iris.target_names[iris.target])
        >>> [name for name, weight in machine.top_features(iris.feature_names, k=2)["virginica"]]
        ['petal length (cm)', 'petal width (cm)']
        >>> machine.top_features(iris.feature_names, k=1, pair=("versicolor", "virginica"))  # doctest: +ELLIPSIS
        CrammerSingerSVC: what tells two classes apart (+ speaks for the first, - for the second)
        versicolor against virginica:
              -2.6...  petal length (cm)
        """
        V = self._vectors("top_features")
        names, k = self._column_names(names, V.shape[1]), validation.whole("k", k, 1, "features a class")
        labels = list((self._label_cut is not None and self._label_names) or self.classes_.tolist())
        if pair is not None:
            first, second = _places(labels, pair)
            told = {(labels[first], labels[second]): _heaviest(_row(V, first) - _row(V, second), names, k)}
            title = f"{type(self).__name__}: what tells two classes apart (+ speaks for the first, - for the second)"
            return TopFeatures(title, told)
        centre = np.asarray(V.mean(axis=0)).ravel() if self._label_cut is None else 0.0
        found = {label: _heaviest(_row(V, place) - centre, names, k) for place, label in enumerate(labels)}
        return TopFeatures(f"{type(self).__name__}: what speaks for each class (+) and against it (-)", found)

    @available_if(_is_linear)  # type: ignore[untyped-decorator]
    def sparsify(self) -> Self:
        """Stores the class vectors as a CSR matrix: smaller if most entries are 0, as M3SVC(norm="l1") may leave them.

        Everything but a later `fit` works with it; `fit` makes dense vectors.
        """
        self.class_vectors_ = sparse.csr_matrix(self._vectors("sparsify"))
        return self

    @available_if(_is_linear)  # type: ignore[untyped-decorator]
    def densify(self) -> Self:
        """Stores the class vectors as an array, as `fit` does."""
        self.class_vectors_ = dense(self._vectors("densify"))
        return self

    def _vectors(self, asked: str) -> Any:
        check_is_fitted(self)
        return self._fitted("class_vectors_", asked)  # type: ignore[attr-defined]

    def _column_names(self, names: Any, width: int) -> list[str]:
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{j}" for j in range(width)]
        if len(names) != width:
            raise ValueError(f"names has {len(names)} entries, but {type(self).__name__} was fitted on {width} columns.")
        return list(map(str, names))


def dense(vectors: Any) -> NDArray[Any]:
    """Class vectors as an array."""
    return np.asarray(vectors.toarray() if sparse.issparse(vectors) else vectors)


def dense64(vectors: Any) -> NDArray[np.float64]:
    """Class vectors as an array in double precision."""
    return np.asarray(dense(vectors), dtype=np.float64)


def _row(V: Any, place: int) -> NDArray[Any]:
    return dense(V[[place]])[0]


def _heaviest(weights: NDArray[Any], names: list[str], k: int) -> list[Feature]:
    places = np.argsort(-np.abs(weights), kind="stable")[:k]
    return [Feature(names[place], float(weights[place])) for place in places if weights[place]]


def _places(labels: list[Any], pair: Any) -> list[int]:
    known = isinstance(pair, (tuple, list)) and len(pair) == 2 and pair[0] != pair[1]
    if not known or any(label not in labels for label in pair):
        raise ValueError(f"pair={pair!r} is not valid: give two of the classes {labels!r}.")
    return [labels.index(label) for label in pair]
