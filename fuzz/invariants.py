"""What must hold of every fit, one function a promise.

An invariant takes a `Trial` (a case, a fit of it, and what the fit said) and yields a sentence for everything that is wrong.
`judge` runs a case and all of them. The objective comes from formulas.py, not from the library.
"""

from __future__ import annotations

import re
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

import polymargin
from fuzz import formulas
from fuzz.machines import Case, stored

PATIENCE = 2.0  # seconds of processor time of a fit above which it is not repeated in other ways
_ATTRIBUTES = ("class_vectors_", "dual_coef_", "class_offsets_", "objective_", "support_vectors_", "singular_values_")


class Failure(NamedTuple):
    """What went wrong: the promise, and a sentence."""

    invariant: str
    detail: str


@dataclass
class Trial:
    """A fit: the estimator, or what it raised, and the warnings."""

    case: Case
    est: Any = None
    error: BaseException | None = None
    caught: list[warnings.WarningMessage] = field(default_factory=list)
    seconds: float = 0.0

    @cached_property
    def targets(self) -> formulas.Targets:
        return formulas.targets_of(self.est, self.case.y, self.case.sample_weight)

    @cached_property
    def machine(self) -> formulas.Machine:
        return formulas.machine_of(self.est, canonical_rows(self.case.X))

    @cached_property
    def F(self) -> formulas.Valued:
        """The objective of the returned arrays."""
        return formulas.objective(self.est, self.machine, self.targets)

    @cached_property
    def other_fits(self) -> list[tuple[str, Trial]]:
        """The same machine by other ways; none where it took long, or where they would be other machines."""
        return [] if self.seconds > PATIENCE or _is_nystroem(self.est) else list(_other_fits(self))

    @property
    def certificate(self) -> Any:
        return self.est.certificate_

    @property
    def convex(self) -> bool:
        return bool(getattr(type(self.est), "_convex", True)) and getattr(self.est, "penalty", "") not in formulas.ANGLES

    @property
    def bounds_the_optimum(self) -> bool:
        return self.certificate.bounds == "optimum"


Invariant = Callable[[Trial], Iterator[str]]


def canonical_rows(X: Any) -> Any:
    """X as `fit` keeps it: dense rows, or CSR without duplicates."""
    if not sparse.issparse(X):
        return X
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    return X


# ---- running ------------------------------------------------------------------------------------------------------------


def fit(case: Case, X: Any = None, **changes: Any) -> Trial:
    """Fits the case, with a warm start after one or two fits at other C; collects what is raised and said."""
    return _observed(case, lambda caught: _fitted(case, case.X if X is None else X, changes, caught))


def fit_plainly(est: Any, X: Any, y: Any, sample_weight: Any = None) -> Trial:
    """The same for an estimator and data that no recipe made."""
    return _observed(Case({}, X, y, sample_weight), lambda _: est.fit(X, y, sample_weight))


def _observed(case: Case, action: Callable[[list[Any]], Any]) -> Trial:
    trial = Trial(case)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            trial.est = action(caught)
        except Exception as error:
            trial.error = error
    trial.caught, trial.seconds = list(caught), time.process_time() - start
    return trial


def _fitted(case: Case, X: Any, changes: dict[str, Any], caught: list[Any]) -> Any:
    est = case.estimator(**changes)
    refit = case.recipe.get("refit")
    if refit:
        C, weight = est.C, case.sample_weight
        y = case.y if refit["same_rows"] else _reordered(case.y)
        for factor in (*refit.get("before", ()), refit["C_factor"]):
            est.set_params(C=C * factor).fit(X, y, weight)
        est.set_params(C=C)
        del caught[:]  # what earlier fits say is a case of their own
    return est.fit(X, case.y, case.sample_weight)


def _reordered(y: Any) -> Any:
    """The labels of other rows: the last fit's duals are of no use."""
    return y[::-1] if isinstance(y, np.ndarray) else y


def judge(case: Case) -> tuple[list[Failure], Trial]:
    """Runs a case; what is wrong with it, and the fit."""
    trial = fit(case)
    if trial.error is not None:
        return _findings(trial, [errors_are_kind]), trial
    return _findings(trial, INVARIANTS), trial


def _findings(trial: Trial, invariants: list[Invariant]) -> list[Failure]:
    found = []
    for invariant in invariants:
        name = invariant.__name__
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found += [Failure(name, detail) for detail in invariant(trial)]
            except Exception as error:
                found.append(Failure(name, _described(error)))
    return found


def _described(error: BaseException) -> str:
    """Type, message and the place in polymargin where it was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "polymargin" in frame.filename]
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{place}: {error}"


# ---- what a fit says ----------------------------------------------------------------------------------------------------


def errors_are_kind(trial: Trial) -> Iterator[str]:
    """Only ValueError, TypeError and MemoryError leave `fit`, each with a sentence."""
    error = trial.error
    assert error is not None
    kinds = (ValueError, TypeError, MemoryError)
    if type(error) not in kinds or not is_a_sentence(str(error)):
        yield _described(error)


def is_a_sentence(text: str) -> bool:
    """Some words that end with punctuation and blame no bug."""
    return len(text.split()) >= 4 and text.rstrip()[-1:] in tuple(".!?)") and not re.search(r"\bbug\b", text)


def warnings_are_kind(trial: Trial) -> Iterator[str]:
    """No RuntimeWarning of NumPy or LAPACK escapes; what is said is a sentence."""
    strange: dict[str, str] = {}
    for warning in trial.caught:
        text = str(warning.message)
        if warning.category not in (UserWarning, ConvergenceWarning):
            strange.setdefault(f"{warning.category.__name__} from {Path(warning.filename).name}", text)
        elif not is_a_sentence(text):
            yield f"not a sentence: {text}"
    yield from (f"{where}: {text}" for where, text in strange.items())


def warns_unless_converged(trial: Trial) -> Iterator[str]:
    """One ConvergenceWarning if and only if the certificate says so."""
    said = sum(issubclass(warning.category, ConvergenceWarning) for warning in trial.caught)
    if said != (not trial.certificate.converged):
        yield f"status {trial.certificate.status!r} with {said} ConvergenceWarnings"


def attributes_are_finite(trial: Trial) -> Iterator[str]:
    for name in _ATTRIBUTES:
        value = getattr(trial.est, name, None) if name in vars(trial.est) else None
        if value is None or name == "support_vectors_":
            continue
        if not np.isfinite(value).all():
            yield f"{name} is not finite"
    if not np.isfinite(trial.certificate.primal):
        yield f"certificate_.primal is {trial.certificate.primal}, status {trial.certificate.status!r}"
    if np.isnan(trial.certificate.dual) or trial.certificate.dual == np.inf:
        yield f"certificate_.dual is {trial.certificate.dual}, status {trial.certificate.status!r}"


def iterations_are_limited(trial: Trial) -> Iterator[str]:
    if not 0 <= trial.est.n_iter_ <= trial.est.max_iter:
        yield f"n_iter_ = {trial.est.n_iter_} with max_iter = {trial.est.max_iter}"
    if trial.est.n_iter_ != trial.certificate.n_iter:
        yield f"n_iter_ = {trial.est.n_iter_}, the certificate says {trial.certificate.n_iter}"


# ---- the certificate ----------------------------------------------------------------------------------------------------


def certificate_is_of_the_returned_arrays(trial: Trial) -> Iterator[str]:
    """``certificate_.primal`` is F of the arrays on the estimator, to rounding."""
    off = trial.F.distance(trial.certificate.primal)
    if not off <= trial.F.rounding:
        scale, end = max(abs(trial.F.high), 1e-300), trial.certificate
        yield (
            f"F of the arrays is {trial.F.high:.17g}, certificate_.primal {end.primal:.17g}: off by {off / scale:.1e}, "
            f"rounding {trial.F.rounding / scale:.1e} ({end.status}, tol {trial.est.tol:g})"
        )


def objective_is_f(trial: Trial) -> Iterator[str]:
    """``objective(X, y, sample_weight)`` of the training data is F, to rounding."""
    value = trial.est.objective(trial.case.X, trial.case.y, trial.case.sample_weight)
    off = trial.F.distance(value)
    if not off <= trial.F.rounding:
        scale = max(abs(trial.F.high), 1e-300)
        rounding = trial.F.rounding / scale
        yield f"objective() is {value:.17g}, F {trial.F.high:.17g}: off by {off / scale:.1e}, rounding {rounding:.1e}"


def constraints_hold(trial: Trial) -> Iterator[str]:
    """One versus None with hard weights or biases: sums of zero, to the rounding of their terms."""
    est = trial.est
    if case_machine(est) != "OneVsNoneSVC":
        return
    eps = formulas.STEPS * float(np.finfo(est.class_offsets_.dtype).eps)
    m, b = trial.machine, np.asarray(est.class_offsets_, dtype=np.float64)
    unseen = float(m.score_rounding.max()) * m.n_classes  # in a sum of scores
    if est.biases == "hard" and abs(b.sum()) > eps * np.abs(b).sum() + unseen:
        yield f"hard biases add up to {b.sum():.3g}, the largest is {np.abs(b).max():.3g}"
    if est.weights == "hard":
        total, size = m.A.sum(axis=1), np.abs(m.A).sum(axis=1)
        seen = float(np.abs(m.rows @ total).max(initial=0.0))
        if seen > eps * float((np.abs(m.rows) @ size).max(initial=0.0)) + unseen:
            yield f"hard weights add up to {np.abs(total).max():.3g}, which adds up to {seen:.3g} in the scores of a row"


def case_machine(est: Any) -> str:
    return type(est).__name__


def gap_is_not_negative(trial: Trial) -> Iterator[str]:
    end = trial.certificate
    if end.gap < -trial.F.rounding:
        yield f"primal {end.primal:.17g} below dual {end.dual:.17g} by {-end.gap:.3g}, rounding {trial.F.rounding:.3g}"
    if end.gap != end.primal - end.dual:
        yield f"gap {end.gap!r} is not primal - dual = {end.primal - end.dual!r}"


def converged_means_the_gap_is_closed(trial: Trial) -> Iterator[str]:
    """ "optimal" of a convex machine: the gap is at most tol, and all numbers are finite."""
    end = trial.certificate
    if not end.converged:
        return
    if not (np.isfinite(end.primal) and (np.isfinite(end.dual) or not trial.bounds_the_optimum)):
        yield f"status {end.status!r} with primal {end.primal}, dual {end.dual}"
    elif trial.convex and not end.primal - end.dual <= trial.est.tol * abs(end.primal):
        yield f"status {end.status!r} with a relative gap of {end.rel_gap:.3g}, tol {trial.est.tol:g}"


def optimal_is_true_of_the_returned_arrays(trial: Trial) -> Iterator[str]:
    """Of a convex machine that is called optimal: F of the arrays is within tol of the bound, to rounding."""
    end, F = trial.certificate, trial.F
    if end.converged and trial.convex and F.low - end.dual > 1.001 * trial.est.tol * abs(F.low) + 2.0 * F.rounding:
        above = (F.low - end.dual) / abs(F.low)
        yield f"called {end.status!r} with tol {trial.est.tol:g}, but F of the arrays is {above:.2e} above the bound"


# ---- other routes -------------------------------------------------------------------------------------------------------


def bound_is_below_every_machine(trial: Trial) -> Iterator[str]:
    """``certificate_.dual`` is at most F of any machine found by any other way."""
    if not trial.bounds_the_optimum:
        return
    bound = trial.certificate.dual
    for name, value in _other_values(trial):
        slack = value.rounding + trial.F.rounding
        if bound > value.high + slack:
            above = (bound - value.high) / max(abs(bound), 1e-300)
            yield f"dual {bound:.17g} above {value.high:.17g} of {name}, by {above:.1e} of it"


def zero_is_not_better(trial: Trial) -> Iterator[str]:
    """A machine that claims to have converged is no worse than W = 0, by more than its tolerance."""
    if not trial.certificate.converged:
        return
    F = trial.F
    for name, value in _constant_machines(trial):
        if F.low > value.high + 1.001 * trial.est.tol * abs(F.low) + F.rounding + value.rounding:
            yield f"{trial.certificate.status!r} at {F.low:.10g}, but {name} has {value.high:.10g}"


def _other_values(trial: Trial) -> Iterator[tuple[str, formulas.Valued]]:
    yield from _constant_machines(trial)
    yield from _near_machines(trial)
    if trial.seconds > PATIENCE or _is_nystroem(trial.est):
        return
    yield from _rival_machines(trial)
    for name, other in trial.other_fits:
        if other.error is None and np.isfinite(other.F.high):
            yield name, other.F


def _is_nystroem(est: Any) -> bool:
    return est.kernel != "linear" and est.n_components is not None


def _value(trial: Trial, A: Any, b: Any) -> formulas.Valued:
    return formulas.objective(trial.est, trial.machine.with_(A, b), trial.targets)


def _allowed_offsets(est: Any, b: Any) -> Any:
    """Offsets the machine may have: none without an intercept, of sum zero with hard biases."""
    if not est.fit_intercept:
        return np.zeros_like(b)
    return b - b.mean() if getattr(est, "biases", "") == "hard" or _adds_to_zero(est) else b


def _adds_to_zero(est: Any) -> bool:
    """Whether class vectors must add up to zero."""
    free = ("crammer_singer", "weston_watkins", "top_k", "one_vs_rest")
    return getattr(est, "weights", "") == "hard" or (type(est).__name__ == "MarginSVC" and est.loss not in free)


def _constant_machines(trial: Trial) -> Iterator[tuple[str, formulas.Valued]]:
    """W = 0 with offsets that prefer the heaviest classes."""
    est, targets = trial.est, trial.targets
    mass = (targets.costs * (targets.signs > 0.0)).sum(axis=0)
    order, c = np.argsort(-mass), len(mass)
    zeros = np.zeros_like(trial.machine.A)
    tried = set()
    for count in {0, 1, 2, c // 2, c - 1}:
        b = np.zeros(c)
        b[order[:count]] = 1.0
        b = _allowed_offsets(est, b)
        if tuple(b) not in tried:
            tried.add(tuple(b))
            yield f"W = 0 and offsets for the {count} heaviest classes", _value(trial, zeros, b)


def _near_machines(trial: Trial) -> Iterator[tuple[str, formulas.Valued]]:
    """The machine itself, longer, shorter and shaken."""
    A, b = trial.machine.A, trial.machine.b
    rng = np.random.default_rng(0)
    for factor in (0.5, 0.99, 0.9999, 1.0001, 1.01):
        yield f"its own vectors times {factor}", _value(trial, factor * A, factor * b)
    for size in (1e-6, 1e-3, 0.1):
        shaken = A * (1.0 + size * rng.standard_normal(A.shape[1]))
        if _adds_to_zero(trial.est):
            shaken = shaken - shaken.mean(axis=1, keepdims=True)
        moved = _allowed_offsets(trial.est, b + size * rng.standard_normal(len(b)))
        yield f"its own vectors shaken by {size:g}", _value(trial, shaken, moved)


def _rival_machines(trial: Trial) -> Iterator[tuple[str, formulas.Valued]]:
    """Solutions of scikit-learn, judged by our F."""
    est, case = trial.est, trial.case
    if not case.moderate or trial.targets.y is None or (trial.targets.costs <= 0.0).any() or est.kernel != "linear":
        return
    X, y = formulas.dense64(case.X), trial.targets.y
    kind = {"C": min(max(est.C, 1e-3), 10.0), "fit_intercept": bool(est.fit_intercept), "random_state": 0, "max_iter": 200}
    rivals = {"LinearSVC": LinearSVC(**kind)}
    if len(est.classes_) > 2:
        rivals["LinearSVC, Crammer-Singer"] = LinearSVC(multi_class="crammer_singer", **kind)
    elif est.fit_intercept:
        rivals["SVC"] = SVC(kernel="linear", C=kind["C"], max_iter=20_000)
    for name, rival in rivals.items():
        rival.fit(X, y)
        W, b = np.asarray(rival.coef_).T, np.ravel(rival.intercept_) * np.ones(rival.coef_.shape[0])
        if W.shape[1] == 1:
            W, b = np.column_stack([-0.5 * W, 0.5 * W]), np.append(-0.5 * b, 0.5 * b)
        if _adds_to_zero(est):
            W = W - W.mean(axis=1, keepdims=True)
        yield name, _value(trial, W, _allowed_offsets(est, b))


def _other_fits(trial: Trial) -> Iterator[tuple[str, Trial]]:
    """The same machine by other ways: another order of the rows' visits, another tolerance, another storage."""
    case, est = trial.case, trial.est
    if np.isinf(est.C):  # another way may end at another C that leaves no row a loss
        return
    same = {"p": est.p_} if hasattr(est, "p_") else {}  # "auto" may choose another machine
    yield "another random_state", fit(case, random_state=12345, **same)
    yield "a looser tolerance", fit(case, tol=max(1e-1, 10.0 * est.tol), **same)
    yield "a tighter tolerance", fit(case, tol=1e-2 * est.tol, **same)
    if est.kernel != "precomputed":
        rows = formulas.dense64(case.X).astype(case.X.dtype)
        yield "another storage", fit(case, X=stored(rows, "C" if sparse.issparse(case.X) else "csr"), **same)


def other_fits_agree(trial: Trial) -> Iterator[str]:
    """Of two fits of one convex problem, neither bound is above the other's machine."""
    for name, other in trial.other_fits if trial.bounds_the_optimum else []:
        if other.error is not None:
            if "positive semi-definite" not in str(other.error):  # a kernel at the edge of that: rounding decides
                yield f"{name}: {_described(other.error)}"
        elif other.certificate.dual > trial.F.high + other.F.rounding + trial.F.rounding:
            above = (other.certificate.dual - trial.F.high) / max(abs(trial.F.high), 1e-300)
            bound = other.certificate.dual
            yield f"{name} has a dual of {bound:.17g}, above this F {trial.F.high:.17g} by {above:.1e} of it"


# ---- using it -----------------------------------------------------------------------------------------------------------


def predictions_are_classes(trial: Trial) -> Iterator[str]:
    est, case = trial.est, trial.case
    n, c = case.X.shape[0], len(est.classes_)
    predicted, scores = est.predict(case.X), est.decision_function(case.X)
    if trial.targets.y is None:
        table = predicted.toarray() if sparse.issparse(predicted) else np.asarray(predicted)
        too_empty = not est._allows_empty_sets and not table.any(axis=1).all()
        if table.shape != (n, c) or not np.isin(table, [0, 1]).all() or too_empty:
            yield f"label sets of shape {table.shape} with the values {np.unique(table)[:5]}"
    elif np.shape(predicted) != (n,) or not np.isin(predicted, est.classes_).all():
        yield f"predictions of shape {np.shape(predicted)} that are not all among classes_"
    wanted = (n,) if c == 2 and trial.targets.y is not None else (n, c)
    if scores.shape != wanted or not np.isfinite(scores).all():
        yield f"scores of shape {scores.shape}, wanted {wanted}; finite: {bool(np.isfinite(scores).all())}"


def probabilities_are_such(trial: Trial) -> Iterator[str]:
    """Between 0 and 1, those of classes with a sum of 1, their logarithms finite."""
    est = trial.est
    if not est.probability or "temperature_" not in vars(est):  # an interrupted fit has none
        return
    P, log_P = est.predict_proba(trial.case.X), est.predict_log_proba(trial.case.X)
    if not (np.isfinite(P).all() and np.isfinite(log_P).all() and P.min() >= 0.0 and P.max() <= 1.0 + 1e-6):
        yield f"probabilities from {P.min():.3g} to {P.max():.3g}, logarithms from {log_P.min():.3g} to {log_P.max():.3g}"
    off = np.abs(P.sum(axis=1) - 1.0).max()
    if trial.targets.y is not None and not off <= 1e-5:
        yield f"probabilities of a row add up to 1 beside {off:.3g}"
    if not np.allclose(np.exp(log_P), P, rtol=1e-4, atol=1e-6):
        yield "logarithms of probabilities are those of others"


def scores_are_those_of_the_arrays(trial: Trial) -> Iterator[str]:
    """`decision_function` is what the arrays say, to the rounding of their precision."""
    est = trial.est
    scores, ours = est.decision_function(trial.case.X), trial.machine.scores
    if scores.ndim == 1:
        ours = (ours[:, 1] - ours[:, 0])[:, None]
        scores = scores[:, None]
    coarse = float(np.finfo(scores.dtype).eps) / formulas.EPS
    slack = 2.0 * coarse * trial.machine.score_rounding + 4.0 * float(np.finfo(scores.dtype).eps) * np.abs(ours)
    off = np.asarray(np.abs(scores - ours) - slack, dtype=np.float64)
    if off.max(initial=0.0) > 0.0:
        i = int(off.max(axis=1).argmax())
        yield f"a score differs by {float(np.abs(scores - ours)[i].max()):.3g}, rounding {float(slack[i].max()):.3g}"


def fits_are_repeatable(trial: Trial) -> Iterator[str]:
    """The same fit again gives the same bits, with ``random_state=None`` too."""
    if trial.seconds > PATIENCE:
        return
    again = fit(trial.case)
    if again.error is not None:
        yield f"the second time: {_described(again.error)}"
        return
    for name in ("class_vectors_", "dual_coef_", "class_offsets_", "support_"):
        first, second = vars(trial.est).get(name), vars(again.est).get(name)
        if first is not None and (second is None or not np.array_equal(first, second, equal_nan=True)):
            yield f"{name} differs in a second fit (random_state={trial.est.random_state!r})"
            return


def survives_a_file(trial: Trial) -> Iterator[str]:
    """A saved machine comes back and predicts the same; what cannot be saved is refused with a sentence."""
    est, X = trial.est, trial.case.X
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.pm"
        try:
            polymargin.save(est, path)
        except (TypeError, ValueError) as error:
            if callable(est.kernel):  # a file cannot hold a function
                return
            yield _described(error)
            return
        loaded = polymargin.load(path)
    if not np.array_equal(loaded.decision_function(X), est.decision_function(X), equal_nan=True):
        yield "scores differ after save and load"


def gamma_is_the_one_asked_for(trial: Trial) -> Iterator[str]:
    """gamma="scale" is 1 / (columns x variance of all entries), rows counted by their weights."""
    est, X = trial.est, formulas.dense64(trial.case.X).astype(formulas.WIDE)
    if est.kernel not in ("rbf", "poly", "sigmoid", "laplacian") or est.gamma != "scale":
        return
    weight = np.ones(len(X)) if trial.case.sample_weight is None else np.asarray(trial.case.sample_weight)
    share = (weight / weight.sum() / X.shape[1]).astype(formulas.WIDE)[:, None]
    mean = (share * X).sum()
    variance = float((share * np.square(X - mean)).sum())
    largest = float(np.abs(X).max())
    if variance <= (formulas.STEPS * formulas.EPS * largest) ** 2:  # constant, to rounding
        return
    wanted = 1.0 / (X.shape[1] * variance)
    if not abs(est._gamma - wanted) <= 1e-5 * wanted:
        yield f"gamma='scale' became {est._gamma:.10g}, wanted {wanted:.10g}"


INVARIANTS: list[Invariant] = [
    warnings_are_kind,
    warns_unless_converged,
    attributes_are_finite,
    iterations_are_limited,
    certificate_is_of_the_returned_arrays,
    objective_is_f,
    constraints_hold,
    gap_is_not_negative,
    converged_means_the_gap_is_closed,
    optimal_is_true_of_the_returned_arrays,
    zero_is_not_better,
    predictions_are_classes,
    scores_are_those_of_the_arrays,
    probabilities_are_such,
    gamma_is_the_one_asked_for,
    fits_are_repeatable,
    survives_a_file,
    bound_is_below_every_machine,
    other_fits_agree,
]
