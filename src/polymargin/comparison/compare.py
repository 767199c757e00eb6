"""`compare_machines`: from data to a table and a recommendation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed

from polymargin import validation
from polymargin.comparison.candidates import Candidate, default_candidates
from polymargin.comparison.evaluation import Limits, Record, evaluate, folds, search
from polymargin.comparison.plan import SCOUT_FROM, SCOUT_ROWS, Race, Task
from polymargin.comparison.result import Comparison
from polymargin.comparison.scoring import PROBABILITY_METRICS, Scorer, metrics_of
from polymargin.estimators import CrammerSingerSVC

Progress = Callable[[str, int, int, float], None]


def compare_machines(
    X: Any,
    y: Any,
    *,
    machines: Sequence[Candidate] | None = None,
    metric: str | None = None,
    preprocessor: Any = "auto",
    cv: int = 5,
    repeats: int = 1,
    inner: int = 3,
    budget: float | None = None,
    refit: bool = False,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the machines of this library with those of scikit-learn on your data.

    Every machine is tuned inside the training part of each split (nested cross-validation), so the scores are those of data
    it has never seen. All machines see the same splits and the same preprocessing.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,), or label matrix of shape (n_samples, n_labels)
        A label matrix holds 0 and 1; or 1, -1 and 0, where 0 is unknown and neither trained on nor counted by a metric.
    machines : sequence of Candidate, default=None
        Who takes part. None is :func:`default_candidates`.
    metric : str, default=None
        What decides: "accuracy" (default), "balanced_accuracy" or "macro_f1"; "neg_log_loss" or "neg_brier_score" among
        machines with probabilities (ours then have ``probability=True``); for a label matrix "jaccard" (default),
        "micro_f1", "macro_f1" or "subset_accuracy", and with -1 in it also "label_accuracy". All are reported.
    preprocessor : transformer, "auto" or None, default="auto"
        Fitted on each training part. "auto" standardises dense columns and scales sparse ones by their largest entry.
    cv : int, default=5
        Outer folds.
    repeats : int, default=1
        How often the outer cross-validation is repeated with other folds.
    inner : int, default=3
        Folds of the tuning inside a training part.
    budget : float, default=None
        Seconds. If not all machines fit into it, those leave that are too slow for it, or clearly worse than the leader on
        at least three splits; see `polymargin.comparison.plan`. What runs when the time is up is cut off, or ends its last
        native call. Times decide here, so another run may end differently.
    refit : bool, default=False
        Tune and fit the winner on all data at once, within the budget; :meth:`Comparison.fit_winner` then only returns it.
    n_jobs : int or None, default=None
        Splits that are worked on at the same time (joblib). Measured times are cleanest with 1.
    random_state : int, default=0
        Seed of folds and machines.
    progress : callable, default=None
        Called as ``progress(machine, n_done, n_tasks, seconds_left)`` after each split of a machine.

    Returns
    -------
    Comparison
        Table, tests, recommendation, pictures.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC, compare_machines
    >>> from polymargin.comparison import Candidate
    >>> X, y = load_iris(return_X_y=True)
    >>> mine = [Candidate("Crammer-Singer", CrammerSingerSVC(random_state=0), {"C": [0.1, 1.0, 10.0]}, ours=True)]
    >>> comparison = compare_machines(X, y, machines=mine, cv=3)
    >>> comparison.winner
    'Crammer-Singer'
    """
    X, y, multilabel, known_only = _checked(X, y)
    metric = _checked_metric(metric, multilabel, known_only)
    for name, value, least in (("cv", cv, 2), ("repeats", repeats, 1), ("inner", inner, 2)):
        validation.whole(name, value, least, "a small whole number")
    if budget is not None:
        validation.positive("budget", budget, "seconds, for example 60")
    seed = validation.seed_of(random_state)
    validation.flag("refit", refit)
    candidates = list(machines) if machines is not None else candidates_for(X, y, metric=metric, random_state=seed)
    _check_names(candidates)
    _check_probabilities(candidates, metric)
    if isinstance(preprocessor, str) and preprocessor == "auto":
        preprocessor = MaxAbsScaler() if sparse.issparse(X) else StandardScaler()
    splits = [split for repeat in range(repeats) for split in _splits(X, y, cv, seed + repeat)]
    train, test = splits[0]
    settings: dict[str, Any] = {"inner": inner, "scoring": Scorer(metric, known_only), "seed": seed}
    by_name = {candidate.name: candidate for candidate in candidates}
    race = Race(
        list(by_name),
        metric,
        budget,
        validation.thread_count(n_jobs),
        test_share=len(test) / len(train),
        resolution=1 / len(test),
        fits_after=_growth(X.shape[0] / len(train)) if refit else 0.0,
    )
    if budget is not None and race.workers > 1:  # processes take a while to start, which is nobody's fault
        Parallel(n_jobs=n_jobs)(delayed(_wake)() for _ in range(race.workers))
    scouting = budget is not None and X.shape[0] > SCOUT_FROM
    scout = _scout(y, seed) if scouting else splits[0]

    def run(tasks: Sequence[Task], limits: Callable[[Task], Limits]) -> Iterable[Record]:
        began = time.perf_counter()
        jobs = (
            delayed(evaluate)(
                by_name[name], X, y, k, *(scout if k < 0 else splits[k]), preprocessor, settings, limits((name, k))
            )
            for name, k in tasks
        )
        results = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")(jobs)
        for done, record in enumerate(results, start=1):
            if progress is not None:
                left = (time.perf_counter() - began) / done * (len(tasks) - done)
                progress(record.machine, done, len(tasks), left)
            yield record

    race.run(len(splits), cv, run, scout_growth=_growth(len(train) / len(scout[0])) if scouting else None)
    order = {candidate.name: k for k, candidate in enumerate(candidates)}
    records = sorted((r for r in race.records if r.split >= 0), key=lambda r: (order[r.machine], r.split))
    if not any(record.scores for record in records):
        reasons = "; ".join(f"{name}: {why}" for name, why in race.dropped.items())
        raise RuntimeError(f"no machine could be evaluated ({reasons}).")
    comparison = Comparison(
        records=tuple(records),
        metric=metric,
        test_share=len(test) / len(train),
        candidates=tuple(candidates),
        dropped=dict(race.dropped),
        settings={"cv": cv, "repeats": repeats, "inner": inner, "budget": budget, "random_state": seed, "metric": metric},
        shape=(X.shape[0], X.shape[1], n_classes_of(y)),
        _search=lambda candidate: search(candidate, preprocessor, y, **settings),
        _data=(X, y),
        _first_split=(train, test),
    )
    if refit:
        comparison.fit_winner()
    return comparison


def candidates_for(X: Any, y: Any, *, metric: str | None = None, random_state: int | None = 0) -> list[Candidate]:
    """The default candidates of this data; with a metric of probabilities those that have them."""
    X, y, multilabel, known_only = _checked(X, y)
    kind: dict[str, Any] = {"multilabel": multilabel, "known_only": known_only}
    probabilities = metric in PROBABILITY_METRICS
    return default_candidates(X.shape[0], n_classes_of(y), probabilities=probabilities, random_state=random_state, **kind)


def _wake() -> None:
    """Imports what the first fit of a process would import."""
    X = np.array([[0.0], [1.0], [0.2], [0.8]])
    CrammerSingerSVC(random_state=0).fit(X, [0, 1, 0, 1])


def n_classes_of(y: Any) -> int:
    """Number of classes, or labels."""
    return int(y.shape[1]) if y.ndim == 2 else len(np.unique(y))


def _growth(times: float) -> float:
    """How much longer a machine takes on so many times the rows: between linear and kernel machines."""
    return float(times**1.3)


def _checked(X: Any, y: Any) -> tuple[Any, Any, bool, bool]:
    """X, y, whether y is a label matrix, and whether that one knows some entries only."""
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if sparse.issparse(X):
        X = X.tocsr()
    dense = y.toarray() if sparse.issparse(y) else np.asarray(y)
    known_only = dense.ndim == 2 and dense.shape[1] > 1 and bool((dense == -1).any() and np.isin(dense, (-1, 0, 1)).all())
    kind = "multilabel-indicator" if known_only else type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass", "multilabel-indicator"):
        raise ValueError(f"y is {kind}; compare_machines needs class labels or a label matrix of 0 and 1 (or 1, -1 and 0).")
    multilabel = kind == "multilabel-indicator"
    y = dense if multilabel else dense.ravel()
    if X.shape[0] != y.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y has {y.shape[0]}.")
    return X, y, multilabel, known_only


def _checked_metric(metric: str | None, multilabel: bool, known_only: bool) -> str:
    known = metrics_of(multilabel, known_only)
    if metric is None:
        return known[0]
    if metric not in known:
        kind = "a label matrix" if multilabel else "class labels"
        raise ValueError(f"metric={metric!r} is not one for {kind}; use one of {', '.join(known)}.")
    return metric


def _check_names(candidates: Sequence[Candidate]) -> None:
    names = [candidate.name for candidate in candidates]
    if not names:
        raise ValueError("machines is empty; give at least one Candidate.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"machines has the name {twice[0]!r} twice; names must differ.")


def _check_probabilities(candidates: Sequence[Candidate], metric: str) -> None:
    without = [candidate.name for candidate in candidates if not hasattr(candidate.estimator, "predict_proba")]
    if metric in PROBABILITY_METRICS and without:
        raise ValueError(
            f"metric={metric!r} needs probabilities, which {without[0]!r} does not have; our machines have them with "
            "probability=True, others inside sklearn.calibration.CalibratedClassifierCV."
        )


def _splits(X: Any, y: Any, cv: int, seed: int) -> list[Any]:
    if y.ndim == 1:
        labels, counts = np.unique(y, return_counts=True)
        if counts.max() < cv:
            largest = labels[counts.argmax()]
            raise ValueError(f"cv={cv}, but the largest class, {largest!r}, has {counts.max()} rows; lower cv.")
    with warnings.catch_warnings():  # a class smaller than cv is missing in some folds: scored where it is there
        warnings.simplefilter("ignore", UserWarning)
        return list(folds(y, cv, seed).split(np.zeros(len(y)), y))


def _scout(y: Any, seed: int) -> Any:
    rows = np.arange(len(y))
    counts = np.unique(y, return_counts=True)[1] if y.ndim == 1 else np.zeros(1)
    stratify = y if y.ndim == 1 and counts.min() >= 4 else None
    sample, _ = train_test_split(rows, train_size=SCOUT_ROWS, random_state=seed, stratify=stratify)
    return train_test_split(sample, test_size=0.25, random_state=seed, stratify=None)
