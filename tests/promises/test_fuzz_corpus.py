"""Cases that failed once, and the judges that judge them: each is shown a machine that breaks its promise."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pytest
from registry import all_estimators
from scipy import sparse

from fuzz import formulas, invariants
from fuzz.corpus import stored_cases
from fuzz.machines import MACHINES, build, draw, parameters
from fuzz.runner import shape_of

CASES = stored_cases()
PLAIN = {"multilabel": False, "shape": "plain", "storage": "C", "dtype": "float64", "labels": "int", "weights": "none"}
TAME = {"scale_level": 0.0, "common_scale": 0.0, "offset_level": 0.0, "density": 1.0}


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("name", CASES)
def test_what_failed_once_holds(name):
    failures, _ = invariants.judge(build(CASES[name]))
    assert not failures, "\n".join(f"{failure.invariant}: {failure.detail}" for failure in failures)


# ---- the draws ----------------------------------------------------------------------------------------------------------


def test_every_machine_and_every_parameter_is_drawn():
    assert set(MACHINES) == {machine.__name__ for machine in all_estimators()}
    drawn = {name: set() for name in MACHINES}
    for seed in range(3000):
        recipe = draw(seed)
        drawn[recipe["machine"]] |= set(parameters(recipe))
    for machine in all_estimators():
        wanted = set(inspect.signature(machine).parameters) - {"verbose", "on_interrupt"}  # they make no other machine
        assert drawn[machine.__name__] == wanted, machine.__name__


def test_a_case_is_the_same_from_the_same_integer():
    for seed in range(40):
        first, second = build(draw(seed)), build(draw(seed))
        assert first.recipe == second.recipe
        np.testing.assert_array_equal(formulas.dense64(first.X), formulas.dense64(second.X))
        np.testing.assert_array_equal(plain(first.y), plain(second.y))
        np.testing.assert_array_equal(first.sample_weight, second.sample_weight)


def plain(y):
    return y.toarray() if sparse.issparse(y) else y


def test_storages_hold_the_same_numbers():
    for seed in range(200):
        case = build(draw(seed))
        recipe = {**case.recipe, "data": {**case.recipe["data"], "storage": "C"}}
        np.testing.assert_array_equal(formulas.dense64(case.X), build(recipe).X)


# ---- the judges ---------------------------------------------------------------------------------------------------------


def recipe_of(machine="CrammerSingerSVC", params=None, **data):
    shape = {"n": 40, "d": 4, "c": 3, "separation": 1.5, "balance": "even", "whole_numbers": False, **PLAIN, **TAME, **data}
    return {"seed": 5, "machine": machine, "params": {"random_state": 0, **(params or {})}, "data": shape, "refit": None}


def trial_of(machine="CrammerSingerSVC", params=None, **data):
    trial = invariants.fit(build(recipe_of(machine, params, **data)))
    assert trial.error is None, trial.error
    return trial


def wrong(trial, invariant):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(invariant(trial))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_tame_case_breaks_no_promise(machine, kernel):
    failures, trial = invariants.judge(build(recipe_of(machine, {"kernel": kernel})))
    assert trial.error is None and not failures, failures


def changed(trial, **changes):
    trial.est.certificate_ = replace(trial.est.certificate_, **changes)


def spoil_primal(trial):
    changed(trial, primal=trial.certificate.primal * (1.0 + 1e-9))


def spoil_vectors(trial):
    trial.est.class_vectors_ = trial.est.class_vectors_ * (1.0 + 1e-6)


def spoil_gap(trial):
    changed(trial, dual=trial.certificate.primal * 1.001, gap=-0.001 * trial.certificate.primal)


def spoil_bound(trial):
    changed(trial, dual=trial.certificate.primal + 0.01, gap=-0.01)


def spoil_tolerance(trial):
    trial.est.tol = 1e-12


def spoil_status(trial):
    changed(trial, status="max_iter")


def spoil_finite(trial):
    trial.est.class_offsets_ = trial.est.class_offsets_ * np.nan


def spoil_infinite(trial):
    changed(trial, primal=np.inf, dual=np.inf)


def spoil_n_iter(trial):
    trial.est.n_iter_ = trial.est.max_iter + 1


def spoil_objective(trial):
    trial.est.objective = lambda *_: trial.certificate.primal * 1.0001


def spoil_predict(trial):
    trial.est.predict = lambda X: np.full(X.shape[0], 77)


def spoil_scores(trial):
    scores = trial.est.decision_function(trial.case.X)
    trial.est.decision_function = lambda X: scores * (1.0 + 1e-9)


def spoil_repeat(trial):
    trial.est.class_vectors_ = np.nextafter(trial.est.class_vectors_, np.inf)


def spoil_file(trial):
    trial.est.extra_ = object()


def spoil_warning(trial):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("overflow encountered in matmul", RuntimeWarning, stacklevel=1)
    trial.caught = caught


def spoil_zero(trial):
    trial.est.class_vectors_ = trial.est.class_vectors_ * 100.0


SPOILT = [
    (spoil_primal, invariants.certificate_is_of_the_returned_arrays),
    (spoil_vectors, invariants.certificate_is_of_the_returned_arrays),
    (spoil_zero, invariants.optimal_is_true_of_the_returned_arrays),
    (spoil_gap, invariants.gap_is_not_negative),
    (spoil_bound, invariants.bound_is_below_every_machine),
    (spoil_tolerance, invariants.converged_means_the_gap_is_closed),
    (spoil_infinite, invariants.converged_means_the_gap_is_closed),
    (spoil_status, invariants.warns_unless_converged),
    (spoil_finite, invariants.attributes_are_finite),
    (spoil_infinite, invariants.attributes_are_finite),
    (spoil_n_iter, invariants.iterations_are_limited),
    (spoil_objective, invariants.objective_is_f),
    (spoil_predict, invariants.predictions_are_classes),
    (spoil_scores, invariants.scores_are_those_of_the_arrays),
    (spoil_repeat, invariants.fits_are_repeatable),
    (spoil_file, invariants.survives_a_file),
    (spoil_warning, invariants.warnings_are_kind),
    (spoil_zero, invariants.zero_is_not_better),
]


@pytest.mark.parametrize("spoil, invariant", SPOILT, ids=[f"{s.__name__}-{i.__name__}" for s, i in SPOILT])
def test_a_broken_promise_is_seen(spoil, invariant):
    assert not wrong(trial_of(), invariant)
    trial = trial_of()
    spoil(trial)
    assert wrong(trial, invariant)


def test_a_false_gamma_is_seen():
    trial = trial_of(params={"kernel": "rbf"})
    assert not wrong(trial, invariants.gamma_is_the_one_asked_for)
    trial.est._gamma *= 1.001
    assert wrong(trial, invariants.gamma_is_the_one_asked_for)


@pytest.mark.parametrize("name", ["class_offsets_", "class_vectors_"])
def test_sums_that_are_not_zero_are_seen(name):
    trial = trial_of("OneVsNoneSVC", {"weights": "hard"})
    assert not wrong(trial, invariants.constraints_hold)
    trial = trial_of("OneVsNoneSVC", {"weights": "hard"})
    setattr(trial.est, name, getattr(trial.est, name) + 1e-6)
    assert wrong(trial, invariants.constraints_hold)


def test_another_fits_bound_is_held_against_this_one():
    trial = trial_of()
    assert not wrong(trial, invariants.other_fits_agree)
    trial = trial_of()
    trial.other_fits[1][1].est.certificate_ = replace(trial.certificate, dual=trial.certificate.primal * 1.01)
    assert wrong(trial, invariants.other_fits_agree)


@pytest.mark.parametrize(
    "error, kind",
    [
        (ValueError("C=0 is not valid: C must be positive."), True),
        (ValueError("this is a bug in polymargin, please report it."), False),
        (AssertionError(), False),
        (IndexError("index 0 is out of bounds for axis 0 with size 0."), False),
        (ValueError("bad"), False),
    ],
)
def test_only_sentences_are_kind(error, kind):
    trial = invariants.Trial(build(recipe_of()), error=error)
    assert (not wrong(trial, invariants.errors_are_kind)) == kind


def test_failures_of_one_shape_are_one_class():
    assert shape_of("dual 1.5e-3 above 2 of 'a'") == shape_of("dual 7 above 3.25e+10 of 'b'")
    assert shape_of("IndexError in a.py:f: x") != shape_of("IndexError in b.py:f: x")
