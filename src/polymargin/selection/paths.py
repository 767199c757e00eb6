"""Many machines for little more than one: warm-started paths over C (or p, theta, omega, ...), and cross-validation on them.

Neighbouring values have neighbouring optima. A path is walked from weak to strong loss, each fit starting from the last
one's duals, and every machine on it still ends with its own certificate.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from polymargin import validation
from polymargin.problems.duals import OF_WARM_STARTS

DEFAULT_CS = tuple(np.logspace(-2, 2, 20))  # four decades


@dataclass(frozen=True)
class Path:
    """The machines of a path, in the order of `values`.

    Attributes
    ----------
    param_name : str
        The parameter that varies.
    values : tuple
        Its values, as they were given.
    machines : tuple of estimators
        A fitted machine for each value; each has its own ``certificate_``.
    seconds : ndarray of shape (n_values,)
        Time of each fit.
    """

    param_name: str
    values: tuple[Any, ...]
    machines: tuple[Any, ...]
    seconds: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of a value and its machine."""
        return iter(zip(self.values, self.machines, strict=True))

    @property
    def objectives(self) -> NDArray[np.float64]:
        """Objective F of each machine."""
        return np.array([machine.objective_ for machine in self.machines])

    @property
    def certificates(self) -> tuple[Any, ...]:
        """Certificate of each machine."""
        return tuple(machine.certificate_ for machine in self.machines)

    @property
    def n_iter(self) -> NDArray[np.int64]:
        """Iterations (passes over the data, or Newton steps) of each fit."""
        return np.array([machine.n_iter_ for machine in self.machines])

    @property
    def norms(self) -> NDArray[np.float64]:
        """Norm of each class vector, ``(n_values, n_classes)``; linear machines only."""
        return np.array([np.linalg.norm(machine.class_vectors_, axis=1) for machine in self.machines])

    def scores(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Score of each machine on this data."""
        return np.array([machine.score(X, y) for machine in self.machines])


def regularization_path(
    estimator: Any,
    X: Any,
    y: Any,
    Cs: Sequence[Any] = DEFAULT_CS,
    *,
    param_name: str = "C",
    sample_weight: Any = None,
) -> Path:
    """Fit a machine for each value of a parameter, each starting from its neighbour.

    Parameters
    ----------
    estimator : polymargin estimator
        Not changed; its other parameters are used for all fits.
    X, y : array-like
        As in ``estimator.fit``.
    Cs : sequence, default: 20 values from 0.01 to 100
        Values of the parameter.
    param_name : str, default="C"
        The parameter: "C", or another one that the estimator has ("p", "theta", "omega", ...).
    sample_weight : array-like, default=None

    Returns
    -------
    Path
        The fitted machines, in the order of `Cs`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import CrammerSingerSVC, regularization_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = regularization_path(CrammerSingerSVC(random_state=0), scale(X), y, [0.1, 1.0, 10.0])
    >>> [machine.certificate_.status for machine in path.machines]
    ['optimal', 'optimal', 'optimal']
    >>> bool((path.objectives[1:] > path.objectives[:-1]).all())
    True
    """
    values = _checked_values(estimator, param_name, Cs)
    walker = clone(estimator)
    if "warm_start" in walker.get_params():
        walker.set_params(warm_start=True)
    machines: list[Any] = [None] * len(values)
    seconds = np.zeros(len(values))
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    for k in _from_weak_to_strong(values):
        began = time.perf_counter()
        walker.set_params(**{param_name: values[k]}).fit(X, y, **weights)
        seconds[k] = time.perf_counter() - began
        machines[k] = _snapshot(walker, estimator)
    return Path(param_name, values, tuple(machines), seconds)


def _checked_values(estimator: Any, param_name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    known = estimator.get_params()
    if param_name not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"param_name={param_name!r} is not a parameter of {type(estimator).__name__}; it has {names}.")
    values = tuple(values)
    if not values:
        raise ValueError("Cs is empty; give at least one value.")
    return values


def _from_weak_to_strong(values: Sequence[Any]) -> list[int]:
    """Ascending order; values that cannot be ordered keep theirs."""
    try:
        return sorted(range(len(values)), key=lambda k: values[k])
    except TypeError:
        return list(range(len(values)))


def _snapshot(walker: Any, estimator: Any) -> Any:
    """The machine as it is now: a later fit replaces the walker's arrays, it does not write into them."""
    machine = copy.copy(walker)
    if "warm_start" in machine.get_params():
        machine.warm_start = estimator.warm_start
        if not machine.warm_start:
            for name in [name for name in vars(machine) if name.startswith(OF_WARM_STARTS)]:
                del machine.__dict__[name]
    return machine


def _has(method: str) -> Any:
    def check(self: PathCV) -> bool:
        getattr(getattr(self, "best_estimator_", self.estimator), method)
        return True

    return available_if(check)


class PathCV(MetaEstimatorMixin, BaseEstimator):
    """Cross-validated choice of parameters along warm-started paths.

    Behaves like :class:`sklearn.model_selection.GridSearchCV`: the same `cv_results_`, `best_params_`, `best_estimator_`.
    Along the path parameter each fit starts from its neighbour's, and in a pipeline whose last step alone is varied the
    other steps are fitted once per fold.

    Parameters
    ----------
    estimator : estimator
        A polymargin machine, a pipeline that ends in one, or any other classifier (fitted anew for each value then, unless
        it has a `warm_start` of its own).
    param_grid : dict of str to sequence, or sequence of such, default=None
        Values to try. None is 20 values of C over four decades; an empty one is the estimator as it is.
    path : str or None, default=None
        The parameter along which to start warm. None is C if it is in the grid, else the last one.
    scoring : str, callable or None, default=None
        One scorer, as in GridSearchCV; None is the estimator's own `score`.
    cv : int, splitter or None, default=None
        As in GridSearchCV.
    n_jobs : int or None, default=None
        Folds that are worked on at the same time (joblib).
    refit : bool, default=True
        Fit the best parameters on all data.
    verbose : int, default=0
        Messages of joblib.

    Attributes
    ----------
    cv_results_ : dict of arrays
        As in GridSearchCV.
    best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_, refit_time_
        As in GridSearchCV.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC, PathCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = PathCV(CrammerSingerSVC(random_state=0), {"C": [0.01, 0.1, 1.0, 10.0]}, cv=5).fit(X, y)
    >>> search.best_score_ > 0.95
    True
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any = None,
        *,
        path: str | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.path = path
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.refit = refit
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PathCV:
        """Try the grid and keep the best.

        Parameters
        ----------
        X, y : array-like
            As in ``estimator.fit``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for the fits; the scores are not weighted.

        Returns
        -------
        self
        """
        validation.flag("refit", self.refit)
        grids = self._grids()
        paths = [path for grid in grids for path in (_paths_of(grid, self._path_parameter(grid)) if grid else [[{}]])]
        candidates = [params for path in paths for params in path]
        self.scorer_ = check_scoring(self.estimator, self.scoring)
        weight = None if sample_weight is None else validation.sample_weights(sample_weight, len(y))
        splits = list(check_cv(self.cv, y, classifier=is_classifier(self.estimator)).split(X, y))
        records = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
            delayed(_walk_fold)(self.estimator, X, y, weight, train, test, paths, self.scorer_) for train, test in splits
        )
        self.n_splits_ = len(splits)
        self.cv_results_ = _results(candidates, np.array(records))
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        if self.refit:
            began = time.perf_counter()
            best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            self.best_estimator_ = best.fit(X, y, **weight_argument(best, weight))
            self.refit_time_ = time.perf_counter() - began
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def _grids(self) -> list[dict[str, Sequence[Any]]]:
        prefix = f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""
        grids = {f"{prefix}C": DEFAULT_CS} if self.param_grid is None else self.param_grid
        grids = [grids] if isinstance(grids, Mapping) else list(grids)
        known = self.estimator.get_params()
        for grid in grids:
            for name, values in grid.items():
                if name not in known:
                    raise ValueError(
                        f"param_grid names {name!r}, which is not a parameter of {type(self.estimator).__name__}; see "
                        "estimator.get_params()."
                    )
                if isinstance(values, str) or not hasattr(values, "__len__") or len(values) == 0:
                    raise ValueError(f"param_grid[{name!r}]={values!r}: a sequence of at least one value is needed.")
        return [dict(grid) for grid in grids]

    def _path_parameter(self, grid: dict[str, Sequence[Any]]) -> str:
        if self.path is not None:
            if self.path not in grid:
                raise ValueError(f"path={self.path!r} is not in param_grid, which has {', '.join(grid)}.")
            return self.path
        named_C = [name for name in grid if name == "C" or name.endswith("__C")]
        return named_C[0] if named_C else list(grid)[-1]

    @_has("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Classes by the best estimator."""
        return self._best().predict(X)

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Scores of the classes by the best estimator."""
        return self._best().decision_function(X)

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes by the best estimator."""
        return self._best().predict_proba(X)

    def score(self, X: Any, y: Any) -> float:
        """Score of the best estimator, by `scoring`."""
        return float(self.scorer_(self._best(), X, y))

    def _best(self) -> Any:
        check_is_fitted(self, "cv_results_")
        if not self.refit:
            raise AttributeError("PathCV was fitted with refit=False: there is no best_estimator_ to use; see cv_results_.")
        return self.best_estimator_

    @property
    def classes_(self) -> Any:
        """Class labels of the best estimator."""
        return self._best().classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features the best estimator saw."""
        return int(self._best().n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type, tags.classifier_tags = inner.estimator_type, copy.copy(inner.classifier_tags)
        tags.input_tags.sparse, tags.input_tags.pairwise = inner.input_tags.sparse, inner.input_tags.pairwise
        return tags


Candidate = dict[str, Any]


def _paths_of(grid: dict[str, Sequence[Any]], along: str) -> list[list[Candidate]]:
    """The grid as paths: all combinations of the other parameters, each with the ordered values of `along`."""
    others = [name for name in grid if name != along]
    ordered = [grid[along][k] for k in _from_weak_to_strong(grid[along])]
    return [
        [{**dict(zip(others, fixed, strict=True)), along: value} for value in ordered]
        for fixed in product(*(grid[name] for name in others))
    ]


def _walk_fold(
    estimator: Any, X: Any, y: Any, weight: Any, train: Any, test: Any, paths: list[list[Candidate]], scorer: Any
) -> list[tuple[float, float, float]]:
    """(score, seconds to fit, seconds to score) of every candidate on one fold."""
    pairwise = get_tags(estimator).input_tags.pairwise
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    if pairwise:
        X_train, X_test = X_train[:, train], X_test[:, train]
    y_train, y_test = _safe_indexing(y, train), _safe_indexing(y, test)
    weight = None if weight is None else weight[train]
    estimator, head, prefix = _split_pipeline(estimator, paths)
    head_seconds = 0.0
    if head is not None:
        began = time.perf_counter()
        X_train = head.fit_transform(X_train, y_train)
        head_seconds = time.perf_counter() - began
        X_test = head.transform(X_test)
    records = []
    for path in paths:
        walker = clone(estimator)
        name = _warm_start_parameter(walker)
        if name is not None:
            walker.set_params(**{name: True})
        for params in path:
            began = time.perf_counter()
            walker.set_params(**{key.removeprefix(prefix): value for key, value in params.items()})
            walker.fit(X_train, y_train, **weight_argument(walker, weight))
            fitted = time.perf_counter()
            score = float(scorer(walker, X_test, y_test))
            records.append((score, fitted - began + head_seconds, time.perf_counter() - fitted))
    return records


def _split_pipeline(estimator: Any, paths: list[list[Candidate]]) -> tuple[Any, Any, str]:
    """The last step, the steps before it and the last step's prefix, if the grid touches only the last step."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) < 2:
        return estimator, None, ""
    prefix = f"{estimator.steps[-1][0]}__"
    if not all(name.startswith(prefix) for path in paths for name in path[0]):
        return estimator, None, ""
    return estimator.steps[-1][1], clone(Pipeline(estimator.steps[:-1])), prefix


def _warm_start_parameter(estimator: Any) -> str | None:
    """Where to switch on warm starts; in a pipeline that is refitted as a whole, in its last step."""
    names = estimator.get_params()
    if "warm_start" in names:
        return "warm_start"
    last = f"{estimator.steps[-1][0]}__warm_start" if isinstance(estimator, Pipeline) else ""
    return last if last in names else None


def weight_argument(estimator: Any, weight: Any) -> dict[str, Any]:
    if weight is None:
        return {}
    name = f"{estimator.steps[-1][0]}__sample_weight" if isinstance(estimator, Pipeline) else "sample_weight"
    return {name: weight}


def _results(candidates: list[Candidate], records: NDArray[np.float64]) -> dict[str, Any]:
    """`cv_results_` of records (fold, candidate, (score, fit time, score time))."""
    from scipy.stats import rankdata

    scores, fit_times, score_times = np.moveaxis(records, 2, 0)
    results: dict[str, Any] = {}
    for label, times in (("fit", fit_times), ("score", score_times)):
        results[f"mean_{label}_time"], results[f"std_{label}_time"] = times.mean(axis=0), times.std(axis=0)
    for name in dict.fromkeys(name for params in candidates for name in params):
        column = np.ma.masked_all(len(candidates), dtype=object)
        for k, params in enumerate(candidates):
            if name in params:
                column[k] = params[name]
        results[f"param_{name}"] = column
    results["params"] = candidates
    for fold, values in enumerate(scores):
        results[f"split{fold}_test_score"] = values
    results["mean_test_score"], results["std_test_score"] = scores.mean(axis=0), scores.std(axis=0)
    ranked = np.nan_to_num(results["mean_test_score"], nan=-np.inf)
    results["rank_test_score"] = rankdata(-ranked, method="min").astype(np.int32)
    return results
