"""Class vectors of linear machines: what they say about the features, and stored sparse if that pays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polymargin import validation
from polymargin.estimators.fitting.thinned import objective_of, thinned
from polymargin.problems.certificate import Certificate

_SAME_ROWS = 1e-6  # of the objective: what sums in another order, and in another precision, may change


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
    class_offsets_: NDArray[Any]
    certificate_: Certificate
    objective_: float
    _label_names: tuple[str, ...] | None = None  # of a label matrix
    _label_cut: Any = None  # the score from which a row has a label; None if the highest score wins
    _allows_empty_sets = False  # whether a row of a label matrix may be predicted to have no label

    if TYPE_CHECKING:

        def _validated(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Any]: ...

        def _problem_on(self, X: Any, y: Any, sample_weight: Any) -> Any: ...

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
    def sparsify(
        self, X: Any = None, y: Any = None, *, budget: float | None = None, dtype: Any = None, sample_weight: Any = None
    ) -> Self:
        """Stores the class vectors as a CSR matrix: smaller if most entries are 0, as they are with many classes.

        Everything but a later `fit` works with it; `fit` makes dense vectors. With a `budget` small entries are dropped too,
        as many as one threshold can drop at that price, and `certificate_` becomes that of what is left: `primal` is its
        objective, the bound is that of the fit, and ``certificate_.price`` is what the dropped entries have cost.

        Parameters
        ----------
        X, y, sample_weight
            The rows, targets and weights of the fit, on which the objective is evaluated; with a `budget` only.
        budget : float, default=None
            By how much the objective may rise, as a part of it: 0.01 is a hundredth. None drops nothing but zeros.
        dtype : {numpy.float32, numpy.float64}, default=None
            Precision of the entries; what rounding costs is part of the price. None keeps it. With a `budget` only.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from polymargin import CrammerSingerSVC
        >>> X, y = load_digits(return_X_y=True)
        >>> machine = CrammerSingerSVC(C=1e-3).fit(X, y).sparsify(X, y, budget=0.01, dtype=np.float32)
        >>> machine.certificate_.price <= 0.0101 * machine.objective(X, y), machine.class_vectors_.dtype.name
        (True, 'float32')
        """
        vectors = self._vectors("sparsify")
        if budget is None:
            given = [name for name, value in (("X", X), ("y", y), ("dtype", dtype)) if value is not None]
            if given:
                raise ValueError(f"budget=None is not valid with {' and '.join(given)}: without a budget nothing is judged.")
            self.class_vectors_ = sparse.csr_matrix(vectors)
            return self
        validation.not_negative("budget", budget, "a part of the objective, for example 0.01")
        if X is None or y is None:
            raise ValueError(f"budget={budget!r} needs the rows X and targets y of the fit, to evaluate its objective.")
        if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype={dtype!r} is not valid: use numpy.float32, numpy.float64 or None.")
        self._thin(vectors, X, y, sample_weight, float(budget), vectors.dtype if dtype is None else np.dtype(dtype))
        return self

    def _thin(self, vectors: Any, X: Any, y: Any, sample_weight: Any, budget: float, dtype: Any) -> None:
        X, y = self._validated(X, y, reset=False)
        problem, before = self._problem_on(X, y, sample_weight), self.certificate_
        if problem.penalty.fixes_sum:
            raise ValueError(
                f"budget={budget!r} is not valid for {type(self).__name__} with class vectors that must add up to zero: "
                "those with dropped entries do not."
            )
        now = objective_of(problem, vectors, self.class_offsets_)
        if not abs(now - before.primal) <= _SAME_ROWS * abs(now):
            raise ValueError(
                f"X, y and sample_weight are not those of the fit: the objective is {now:.8g} on them, and was "
                f"{before.primal:.8g} at the end of the fit."
            )
        order = problem.rounding(dense64(vectors).T, self.class_offsets_)  # sums of sparse vectors have another one
        ceiling = now + budget * abs(now - before.constant) + order
        found = thinned(problem, vectors, self.class_offsets_, ceiling, dtype)
        W = sparse.csr_array(found.vectors.T, dtype=np.float64)
        self.class_vectors_, self.class_offsets_ = found.vectors, found.offsets
        self.certificate_ = before.altered("sparsified", found.primal, lambda: problem.rounding(W, found.offsets))
        self.objective_ = self.certificate_.primal

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
