"""One candidate on one split: choose its parameters inside the training part, fit, predict, measure."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils._indexing import _safe_indexing

from polymargin.comparison.candidates import Candidate
from polymargin.comparison.scoring import OutOfTime, score_all
from polymargin.selection.path_cv import PathCV

STEP = "machine"  # the last step of the pipelines
_AGAIN = 1.0  # seconds after which the alarm rings again: where callbacks of C are interrupted, it is swallowed


@dataclass(frozen=True)
class Record:
    """What came out.

    Attributes
    ----------
    machine : str
    split : int
    scores : dict of str to float
        Metrics on the test part; higher is better.
    params : dict
        The parameters that were chosen inside the training part.
    fit_seconds, predict_seconds : float
        Time of the search with the last fit, and of the predictions on the test part.
    n_not_converged : int
        Fits of the search that ended with a ConvergenceWarning.
    error : str
        Why the machine failed; empty if it did not.
    progress : float
        Share of the fits that were done. Below 1 the time was up, and there are no scores; 0 is not begun.
    """

    machine: str
    split: int
    scores: dict[str, float]
    params: dict[str, Any]
    fit_seconds: float
    predict_seconds: float
    n_not_converged: int
    error: str = ""
    progress: float = 1.0


def search(candidate: Candidate, preprocessor: Any, y: Any, *, inner: int, scoring: Any, seed: int) -> PathCV:
    """The candidate with its preprocessing and its tuning, not yet fitted."""
    steps = [] if preprocessor is None else [("prepare", clone(preprocessor))]
    pipeline = Pipeline([*steps, (STEP, clone(candidate.estimator))])
    grid = {f"{STEP}__{name}": values for name, values in candidate.grid.items()}
    return PathCV(pipeline, grid, cv=folds(y, inner, seed), scoring=scoring)


def folds(y: Any, n_splits: int, seed: int) -> Any:
    """Shuffled folds, stratified where the target allows it."""
    y = np.asarray(y) if not hasattr(y, "toarray") else y
    kind = KFold if y.ndim == 2 else StratifiedKFold
    return kind(n_splits=n_splits, shuffle=True, random_state=seed)


@dataclass(frozen=True)
class Limits:
    """How long one candidate may take on one split.

    Attributes
    ----------
    until : float
        When everything ends, by `time.time`.
    allowed : float
        Seconds from the beginning of the work.
    expected : float
        Seconds it will take, as far as is known: what would not end in time is not begun.
    """

    until: float = math.inf
    allowed: float = math.inf
    expected: float = 0.0


def evaluate(
    candidate: Candidate,
    X: Any,
    y: Any,
    split: int,
    train: Any,
    test: Any,
    preprocessor: Any,
    settings: dict[str, Any],
    limits: Limits,
) -> Record:
    """Nested: the test part is seen by nothing but the metrics. A candidate that fails says why and the others go on."""
    now = time.time()
    scorer = replace(settings["scoring"], deadline=min(limits.until, now + limits.allowed))
    if now + limits.expected > limits.until:
        return Record(candidate.name, split, {}, {}, 0.0, 0.0, 0, progress=0.0)
    y_train = _safe_indexing(y, train)
    tuned = search(candidate, preprocessor, y_train, **{**settings, "scoring": scorer})
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught, stopped_at(scorer.deadline):
            warnings.simplefilter("always")
            tuned.fit(_safe_indexing(X, train), y_train)
        fitted = time.perf_counter()
        X_test = _safe_indexing(X, test)
        predicted = tuned.predict(X_test)
        done = time.perf_counter()
        probabilities = _probabilities(tuned, X_test)
        scores = score_all(
            _safe_indexing(y, test), predicted, probabilities, tuned.classes_, known_only=scorer.known_only
        )
    except OutOfTime:
        n_fits = settings["inner"] * len(ParameterGrid(candidate.grid)) + 1
        progress = max(scorer.n_calls, 0.5) / n_fits  # half a fit if none was done
        return Record(candidate.name, split, {}, {}, time.perf_counter() - began, 0.0, 0, progress=progress)
    except (ValueError, ArithmeticError, MemoryError) as problem:
        seconds = time.perf_counter() - began
        return Record(candidate.name, split, {}, {}, seconds, 0.0, 0, str(problem).split("\n")[0] or repr(problem))
    not_converged = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    params = {name.removeprefix(f"{STEP}__"): _plain(value) for name, value in tuned.best_params_.items()}
    return Record(candidate.name, split, scores, params, fitted - began, done - fitted, not_converged)


@contextmanager
def stopped_at(deadline: float) -> Iterator[None]:
    """Raises OutOfTime inside a fit that runs beyond the deadline.

    A timer signal does it, which Python handles between two instructions and our native loops look for. Where there is none
    (on Windows, outside the main thread), and inside the native loops of others, the fit ends first.
    """
    possible = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not possible or not math.isfinite(deadline) or signal.getitimer(signal.ITIMER_REAL)[0] > 0:
        yield
        return
    before = signal.signal(signal.SIGALRM, _out_of_time)
    signal.setitimer(signal.ITIMER_REAL, max(deadline - time.time(), 1e-3), _AGAIN)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        finally:  # the timer may end at this very moment
            signal.signal(signal.SIGALRM, before)


def _out_of_time(*_: Any) -> None:
    raise OutOfTime


def _probabilities(estimator: Any, X: Any) -> Any:
    return estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
