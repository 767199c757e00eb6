"""Rows in, scores out: samples, splits, scaling, the choice of parameters, and what is recorded of a fit."""

import time
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import metrics
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from polymargin import PathCV, datasets
from polymargin.comparison import Candidate
from polymargin.comparison.evaluation import STEP, folds
from polymargin.comparison.scoring import score_all

from .chances import Point, best, beyond, frames, intercept_of, name_of_c
from .plan import Case, Table

FAILURES = (ValueError, ArithmeticError, MemoryError)
WORST_FIRST = ("max_iter", "stalled", "stationary", "optimal")
TOY = (  # Table 3 of One versus None: six training rows, made up (the paper lists none), and its six test rows
    [[3, 0], [2, 0], [-2, 5], [-1, 4], [-2, 3], [4, 6], [-4, 3], [-5, 2], [-3, 3], [-2, 4], [0, 3], [1, 5]],
    [[1, 0], [1, 0], [1, 1], [1, 1], [1, 1], [1, 1], [0, 1], [0, 1], [0, 1], [1, 1], [1, 0], [1, 1]],
)


Grid = dict[str, Any]


@lru_cache(maxsize=2)
def data_of(name: str, rows: int | None) -> tuple[Any, Any]:
    """Rows in float64 (CSR stays CSR) and targets; a stratified sample if there are more than `rows`."""
    if name == "toy":
        return np.array(TOY[0], dtype=np.float64), np.array(TOY[1])
    if name == "synthetic":
        return make_multilabel_classification(500, 20, n_classes=2, n_labels=1, allow_unlabeled=False, random_state=0)
    found = datasets.load(name.partition(" ")[0])
    X, y = _largest_classes(name.partition(" ")[2], found.X, found.y)
    if rows is not None and rows < len(y):
        kept, _ = train_test_split(np.arange(len(y)), train_size=rows, random_state=0, stratify=_strata(y))
        X, y = X[kept], y[kept]
    if name == "mnist":
        X = sparse.csr_matrix(X.astype(np.float64) / 255.0)
    return _varied(name.partition(" ")[2], X.astype(np.float64), y)


def _largest_classes(variant: str, X: Any, y: Any) -> tuple[Any, Any]:
    """What follows the name may be "60 classes": the largest ones."""
    count, _, word = variant.partition(" ")
    if word != "classes":
        return X, y
    classes, counts = np.unique(y, return_counts=True)
    kept = np.flatnonzero(np.isin(y, classes[np.argsort(-counts, kind="stable")[: int(count)]]))
    return X[kept], y[kept]


def _varied(variant: str, X: Any, y: Any) -> tuple[Any, Any]:
    """What follows the name of a data set: "with Id" is the row number as a column, "as labels" a label matrix."""
    if variant == "with Id":
        return np.column_stack([np.arange(1.0, len(y) + 1), X]), y
    return X, (y[:, None] == np.unique(y)).astype(np.int64) if variant == "as labels" else y


def _strata(y: Any) -> Any:
    """Classes, with those too small to be split thrown together; None for label matrices."""
    if y.ndim == 2:
        return None
    classes, index, counts = np.unique(y, return_inverse=True, return_counts=True)
    strata = np.where(counts[index] < 2, -1, classes[index])
    return strata if (strata == -1).sum() != 1 else np.where(strata == -1, classes[counts.argmax()], strata)


def split_of(table: Table, case: Case, y: Any, number: int) -> tuple[Any, Any]:
    """Training and test rows of split `number`."""
    rows = np.arange(len(y))
    if table.kind == "fixed":
        return rows[: len(y) // 2], rows[len(y) // 2 :]
    if table.kind == "all":
        return rows, rows
    if table.kind in ("seed 42", "seeds"):  # as in the code that the authors of M3SVM released: one draw, not stratified
        seed = 42 if table.kind == "seed 42" else number
        train, test = train_test_split(rows, test_size=case.test, random_state=seed)
        return train, test
    if table.kind == "folds":
        return list(folds(y, table.folds, number // table.folds).split(rows, y))[number % table.folds]
    sizes = {"test_size": case.test, **({"train_size": case.train} if case.train else {})}
    train, test = train_test_split(rows, random_state=number, stratify=_strata(y), **sizes)
    return train, test


def scaler(kind: str, X: Any) -> Any:
    """A transformer, or None."""
    if kind == "none" or (kind == "standard" and sparse.issparse(X)):
        return None
    if kind == "standard":
        return StandardScaler()
    if sparse.issparse(X):
        return MaxAbsScaler()  # the only one that keeps zeros
    return MinMaxScaler((-1.0, 1.0) if kind == "symmetric" else (0.0, 1.0))


class Scaling(TransformerMixin, BaseEstimator):
    """A scaling by its name, so that it can be chosen among others."""

    def __init__(self, kind: str = "standard"):
        self.kind = kind

    def fit(self, X: Any, y: Any = None) -> "Scaling":
        scale = scaler(self.kind, X)
        self.scale_ = None if scale is None else scale.fit(X)
        return self

    def transform(self, X: Any) -> Any:
        return X if self.scale_ is None else self.scale_.transform(X)


def measure(table: Table, case: Case, number: int, candidate: Candidate) -> dict[str, Any]:
    """One candidate on one split, as a record's fields. A candidate that fails says why."""
    X, y = data_of(case.data, case.rows)
    scale = Scaling() if table.scalings else scaler(case.scale or table.scale, X)
    if table.scale_first and scale is not None:
        X, scale = scale.fit_transform(X), None
    began = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            machines, params, fits, scores, seen = _CHOICES[table.choice](table, case, number, candidate, scale, X, y)
    except FAILURES as problem:
        return {"error": str(problem).split("\n")[0], "seconds": round(time.process_time() - began, 3)}
    unsettled = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return {
        "scores": {name: _rounded(scores[name]) for name in (*table.metrics, *(["recall"] if table.per_class else []))},
        "params": {name: _plain(value) for name, value in params.items()},
        **({} if seen is None else {"train": _rounded(seen)}),
        **_certificates(machines),
        "fits": fits,
        "not_converged": unsettled,
        "seconds": round(time.process_time() - began, 3),
    }


# -- where parameters are chosen -----------------------------------------------------------------------------------------


def _nested(table: Table, case: Case, number: int, candidate: Candidate, scale: Any, X: Any, y: Any) -> Any:
    """Inside the training rows; the test rows are seen by the metrics only."""
    train, test = split_of(table, case, y, number)
    inside = list(folds(y[train], case.inner, number).split(X[train], y[train])) if candidate.grid else []
    chosen, points = _best_params(table, candidate, scale, X[train], y[train], inside)
    machine = _pipeline(candidate, scale).set_params(**chosen).fit(X[train], y[train])
    scores = scores_of(y[test], machine.predict(X[test]), y)
    return [machine], _bare(chosen), case.inner * points + 1 if candidate.grid else 1, scores, _seen(machine, X, y, train)


def _best_params(
    table: Table, candidate: Candidate, scale: Any, X: Any, y: Any, splits: list[Any]
) -> tuple[dict[str, Any], int]:
    """The best mean over the splits, and among how many points; scaling and intercept are chosen where the table says so.

    Each of their settings has a search of its own, so that its fits start from their neighbours'.
    """
    own = {f"{STEP}__{name}": values for name, values in candidate.grid.items()}
    name = intercept_of(candidate)
    settings = list(frames(table.scalings, name and f"{STEP}__{name}")) if table.scalings else [{}]
    if len(settings) * len(ParameterGrid(own)) == 1:
        return next(iter(ParameterGrid(own))), 1
    found: list[Point] = []
    for fixed in settings:
        search = partial(_scored, table, _pipeline(candidate, scale).set_params(**fixed), X, y, splits)
        found += [(score, {**fixed, **params}) for score, params in _searched(own, search, table)]
    return best(found, own if table.grows else None), len(found)


def _searched(own: Grid, search: Callable[[Grid], list[Point]], table: Table) -> list[Point]:
    """The points of the grid, and those beyond it where C grows: from the best of all, or from each own parameter's best."""
    if table.grows is None:
        return search(own)
    apart = ParameterGrid({name: own[name] for name in own if name != name_of_c(own)}) if table.apart else [{}]
    alone = [{**own, **{name: (value,) for name, value in one.items()}} for one in apart]
    return [point for grid in alone for point in _grown(grid, search, table.grows)]


def _grown(own: Grid, search: Callable[[Grid], list[Point]], limits: tuple[float, float]) -> list[Point]:
    """The points of the grid, and of one further value of C after the other while the outermost is the best."""
    points, name = search(own), name_of_c(own)
    while C := beyond({params[name] for _, params in points}, best(points, own)[name], limits):
        points += search({**own, name: (C,)})
    return points


def _scored(table: Table, pipeline: Pipeline, X: Any, y: Any, splits: list[Any], grid: Grid) -> list[Point]:
    """All points of a grid with their mean scores; what has none is the worst."""
    tried = PathCV(pipeline, grid, cv=splits, scoring=_scoring(table), refit=False).fit(X, y).cv_results_
    return list(zip(np.nan_to_num(tried["mean_test_score"], nan=-np.inf), tried["params"], strict=True))


def _seen(machine: Any, X: Any, y: Any, train: Any) -> float | None:
    """Accuracy on the training rows, of classes."""
    return None if y.ndim == 2 else float(np.mean(machine.predict(X[train]) == y[train]))


def _on_test_rows(table: Table, case: Case, number: int, candidate: Candidate, scale: Any, X: Any, y: Any) -> Any:
    """The best of the grid on the test rows themselves."""
    return _best_mean(table, candidate, scale, X, y, [split_of(table, case, y, number)])


def _on_folds(table: Table, case: Case, number: int, candidate: Candidate, scale: Any, X: Any, y: Any) -> Any:
    """The best mean over the folds that are reported."""
    return _best_mean(table, candidate, scale, X, y, list(folds(y, table.folds, number).split(X, y)))


_CHOICES = {"nested": _nested, "test": _on_test_rows, "folds": _on_folds}


def _best_mean(table: Table, candidate: Candidate, scale: Any, X: Any, y: Any, splits: list[Any]) -> Any:
    chosen, points = _best_params(table, candidate, scale, X, y, splits)
    machines = [_pipeline(candidate, scale).set_params(**chosen).fit(X[train], y[train]) for train, _ in splits]
    tested = [scores_of(y[test], m.predict(X[test]), y) for m, (_, test) in zip(machines, splits, strict=True)]
    means = {name: float(np.mean([one[name] for one in tested])) for name in tested[0] if name != "recall"}
    seen = [_seen(m, X, y, train) for m, (train, _) in zip(machines, splits, strict=True)]
    known = [one for one in seen if one is not None]
    return machines, _bare(chosen), len(splits) * (points + 1), means, float(np.mean(known)) if known else None


def _pipeline(candidate: Candidate, scale: Any) -> Pipeline:
    steps = [] if scale is None else [("prepare", clone(scale))]
    return Pipeline([*steps, (STEP, clone(candidate.estimator))])


def _scoring(table: Table) -> Any:
    if table.metrics[0] == "label_accuracy":
        return metrics.make_scorer(metrics.hamming_loss, greater_is_better=False)
    return {"jaccard": "jaccard_samples", "subset_accuracy": "accuracy"}.get(table.metrics[0], table.metrics[0])


def _bare(params: dict[str, Any]) -> dict[str, Any]:
    bare = {name.removeprefix(f"{STEP}__"): value for name, value in params.items()}
    return {"scaling" if name == "prepare__kind" else name: value for name, value in bare.items()}


# -- what is recorded ----------------------------------------------------------------------------------------------------


def scores_of(y: Any, predicted: Any, all_y: Any) -> dict[str, Any]:
    """The comparison's metrics, with Hamming loss for label matrices and the recall of each class for classes."""
    scores: dict[str, Any] = score_all(y, predicted, None, None)
    if y.ndim == 2:
        wrong = metrics.hamming_loss(y, predicted)
        return {**scores, "hamming": wrong, "label_accuracy": 1.0 - wrong}
    labels = np.unique(all_y)
    known = [float((predicted[y == k] == k).mean()) if (y == k).any() else None for k in labels]
    return {**scores, "recall": known}


def _certificates(machines: list[Any]) -> dict[str, Any]:
    """Status and gap of the last fits, the worst of them; empty for machines without a certificate."""
    found = [m[-1].certificate_ for m in machines if hasattr(m[-1], "certificate_")]
    if not found:
        return {}
    ranked = sorted(found, key=lambda c: WORST_FIRST.index(c.status) if c.status in WORST_FIRST else -1)
    gap = max(c.rel_gap for c in found)
    return {"status": ranked[0].status, "gap": float(f"{gap:.1e}") if np.isfinite(gap) else None}


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return None if value is None else round(float(value), 5)


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return float(f"{value:.6g}") if isinstance(value, float) else value
