"""Cross-validation along warm-started paths: `PathCV`, which behaves like scikit-learn's GridSearchCV."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch, get_tags
from sklearn.utils._indexing import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted

from polymargin import validation
from polymargin.selection.folds import weight_argument
from polymargin.selection.paths import DEFAULT_CS, from_weak_to_strong

_ONE = "score"  # what results of a single metric are called


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
    scoring : str, callable, list, tuple, dict or None, default=None
        One scorer or several, as in GridSearchCV; None is the estimator's own `score`.
    cv : int, splitter or None, default=None
        As in GridSearchCV.
    n_jobs : int or None, default=None
        Folds that are worked on at the same time (joblib).
    refit : bool, str or callable, default=True
        Fit the best parameters on all data. With several metrics the name of the one that decides; or a function that gets
        `cv_results_` and returns the index of the best.
    verbose : int, default=0
        Messages of joblib.

    Attributes
    ----------
    cv_results_ : dict of arrays
        As in GridSearchCV.
    best_estimator_, best_params_, best_score_, best_index_, scorer_, multimetric_, n_splits_, refit_time_
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
        refit: Any = True,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **params: Any) -> PathCV:
        """Try the grid and keep the best.

        Parameters
        ----------
        X, y : array-like
            As in ``estimator.fit``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for the fits; the scores are not weighted, unless scikit-learn's metadata routing asks for it.
        groups : array-like of shape (n_samples,), default=None
            For splitters of groups, such as :class:`sklearn.model_selection.GroupKFold`.
        **params
            What else the estimator's `fit` takes, or what is routed to estimator, scorer and splitter by their requests.

        Returns
        -------
        self
        """
        grids = self._grids()
        paths = [path for grid in grids for path in (_paths_of(grid, self._path_parameter(grid)) if grid else [[{}]])]
        candidates = [params for path in paths for params in path]
        scorer = check_scoring(self.estimator, self.scoring)
        self._check_refit(scorer)
        if sample_weight is not None:
            params["sample_weight"] = validation.sample_weights(sample_weight, len(y))
        routed = self._routed(params, groups)
        splits = list(check_cv(self.cv, y, classifier=is_classifier(self.estimator)).split(X, y, **routed.splitter.split))
        to = (routed.estimator.fit, routed.scorer.score)
        records = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
            delayed(_walk_fold)(self.estimator, X, y, *to, train, test, paths, scorer) for train, test in splits
        )
        self.n_splits_ = len(splits)
        self.scorer_ = getattr(scorer, "_scorers", scorer)  # of several metrics a dictionary
        self.multimetric_ = list(records[0][0][0]) != [_ONE]
        self.cv_results_ = _results(candidates, records)
        self._choose(candidates)
        if self.refit:
            began = time.perf_counter()
            best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            self.best_estimator_ = best.fit(X, y, **routed.estimator.fit)
            self.refit_time_ = time.perf_counter() - began
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def _check_refit(self, scorer: Any) -> None:
        """Before the work: with several metrics one must decide."""
        if callable(self.refit):
            return
        names = list(getattr(scorer, "_scorers", ()))
        if names and self.refit is not False and self.refit not in names:
            raise ValueError(
                f"refit={self.refit!r} is not valid with several metrics: name the one that decides, "
                f"{' or '.join(map(repr, names))}, or use refit=False."
            )
        if not names and not isinstance(self.refit, str):
            validation.flag("refit", self.refit)

    def _choose(self, candidates: list[Candidate]) -> None:
        """`best_index_` and what belongs to it; nothing where several metrics and no decision are asked for."""
        metric = self.refit if self.multimetric_ else _ONE
        if callable(self.refit):
            self.best_index_ = int(self.refit(self.cv_results_))
            if not 0 <= self.best_index_ < len(candidates):
                raise IndexError(f"refit returned {self.best_index_}, and there are {len(candidates)} candidates.")
        elif metric is False:
            return
        elif f"rank_test_{metric}" not in self.cv_results_:
            raise ValueError(f"refit={self.refit!r} is not valid: scoring returned {', '.join(self._metrics())}.")
        else:
            self.best_index_ = int(self.cv_results_[f"rank_test_{metric}"].argmin())
        self.best_params_ = candidates[self.best_index_]
        if not callable(self.refit) or not self.multimetric_:
            self.best_score_ = float(self.cv_results_[f"mean_test_{metric}"][self.best_index_])

    def _metrics(self) -> list[str]:
        return [name.removeprefix("rank_test_") for name in self.cv_results_ if name.startswith("rank_test_")]

    def _routed(self, params: dict[str, Any], groups: Any) -> Any:
        """Parameters for estimator, scorer and splitter: by their requests, or weights and the rest to the estimator."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **params, **({} if groups is None else {"groups": groups}))
        params = {**params, **weight_argument(self.estimator, params.pop("sample_weight", None))}
        return Bunch(estimator=Bunch(fit=params), scorer=Bunch(score={}), splitter=Bunch(split={"groups": groups}))

    def get_metadata_routing(self) -> MetadataRouter:
        """Who gets what, as scikit-learn asks it."""
        router = MetadataRouter(owner=type(self).__name__)
        router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        to_scorer = MethodMapping().add(caller="fit", callee="score").add(caller="score", callee="score")
        router.add(scorer=check_scoring(self.estimator, self.scoring), method_mapping=to_scorer)
        return router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))

    def _grids(self) -> list[dict[str, Sequence[Any]]]:
        prefix = f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""
        grids = {f"{prefix}C": DEFAULT_CS} if self.param_grid is None else self.param_grid
        grids = [grids] if isinstance(grids, Mapping) else list(grids)
        from polymargin.tables.table import suggestion

        known = self.estimator.get_params()
        for grid in grids:
            for name, values in grid.items():
                if name not in known:
                    raise ValueError(
                        f"param_grid names {name!r}, which is not a parameter of {type(self.estimator).__name__}"
                        f"{suggestion(name, known) or '; see estimator.get_params().'}"
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

    def score(self, X: Any, y: Any, **params: Any) -> float:
        """Score of the best estimator, by `scoring`; of several metrics the one that decided. `params` are routed to it."""
        best = self._best()
        routed = process_routing(self, "score", **params).scorer.score if params else {}
        found = (self.scorer_[self.refit] if isinstance(self.scorer_, dict) else self.scorer_)(best, X, y, **routed)
        return float(found[self.refit] if isinstance(found, dict) else found)

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
    ordered = [grid[along][k] for k in from_weak_to_strong(grid[along])]
    return [
        [{**dict(zip(others, fixed, strict=True)), along: value} for value in ordered]
        for fixed in product(*(grid[name] for name in others))
    ]


Record = tuple[dict[str, float], float, float]  # scores by metric, seconds to fit, seconds to score


def _walk_fold(
    estimator: Any,
    X: Any,
    y: Any,
    fit_params: dict[str, Any],
    score_params: dict[str, Any],
    train: Any,
    test: Any,
    paths: list[list[Candidate]],
    scorer: Any,
) -> list[Record]:
    """What came out for every candidate on one fold."""
    pairwise = get_tags(estimator).input_tags.pairwise
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    if pairwise:
        X_train, X_test = X_train[:, train], X_test[:, train]
    y_train, y_test = _safe_indexing(y, train), _safe_indexing(y, test)
    fit_params = _check_method_params(X, fit_params, train)
    score_params = _check_method_params(X, score_params, test)
    estimator, head, prefix = _split_pipeline(estimator, paths, fit_params)
    fit_params = {name.removeprefix(prefix): value for name, value in fit_params.items()}
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
            walker.fit(X_train, y_train, **fit_params)
            fitted = time.perf_counter()
            found = scorer(walker, X_test, y_test, **score_params)
            scores = found if isinstance(found, dict) else {_ONE: found}
            scores = {name: float(score) for name, score in scores.items()}
            records.append((scores, fitted - began + head_seconds, time.perf_counter() - fitted))
    return records


def _split_pipeline(estimator: Any, paths: list[list[Candidate]], fit_params: Any) -> tuple[Any, Any, str]:
    """The last step, the steps before it and the last step's prefix, if nothing else is varied or given parameters."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) < 2:
        return estimator, None, ""
    prefix = f"{estimator.steps[-1][0]}__"
    names = [*fit_params, *(name for path in paths for name in path[0])]
    if not all(name.startswith(prefix) for name in names):
        return estimator, None, ""
    return estimator.steps[-1][1], clone(Pipeline(estimator.steps[:-1])), prefix


def _warm_start_parameter(estimator: Any) -> str | None:
    """Where to switch on warm starts; in a pipeline that is refitted as a whole, in its last step."""
    names = estimator.get_params()
    if "warm_start" in names:
        return "warm_start"
    last = f"{estimator.steps[-1][0]}__warm_start" if isinstance(estimator, Pipeline) else ""
    return last if last in names else None


def _results(candidates: list[Candidate], records: list[list[Record]]) -> dict[str, Any]:
    """`cv_results_` of the records of each fold and candidate."""
    from scipy.stats import rankdata

    results: dict[str, Any] = {}
    for place, label in ((1, "fit"), (2, "score")):
        times = np.array([[record[place] for record in fold] for fold in records])
        results[f"mean_{label}_time"], results[f"std_{label}_time"] = times.mean(axis=0), times.std(axis=0)
    for name in dict.fromkeys(name for params in candidates for name in params):
        column = np.ma.masked_all(len(candidates), dtype=object)
        for k, params in enumerate(candidates):
            if name in params:
                column[k] = params[name]
        results[f"param_{name}"] = column
    results["params"] = candidates
    for metric in records[0][0][0]:
        scores = np.array([[record[0][metric] for record in fold] for fold in records])
        for fold, values in enumerate(scores):
            results[f"split{fold}_test_{metric}"] = values
        results[f"mean_test_{metric}"], results[f"std_test_{metric}"] = scores.mean(axis=0), scores.std(axis=0)
        ranked = np.nan_to_num(results[f"mean_test_{metric}"], nan=-np.inf)
        results[f"rank_test_{metric}"] = rankdata(-ranked, method="min").astype(np.int32)
    return results
