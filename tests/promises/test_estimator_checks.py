"""scikit-learn's own checks, over every public estimator: default parameters, and no intercept."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from checks import check_name, quiet, run_check
from registry import all_estimators, each_machine, has_free_intercept
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

# check_class_weight_classifiers weighs one class up and wants it to win nearly everywhere: a half-space
# through the origin cannot, so that check is about the intercept.
NEEDS_INTERCEPT = {"check_class_weight_classifiers"}


def checks_without_intercept() -> Iterator[Any]:
    for machine in filter(has_free_intercept, all_estimators()):
        for estimator, check in estimator_checks_generator(machine(fit_intercept=False)):
            if check_name(check) not in NEEDS_INTERCEPT:
                yield estimator, check


def checks_with_probabilities() -> Iterator[Any]:
    for machine in all_estimators():
        for estimator, check in estimator_checks_generator(machine(probability=True)):
            if not check_name(check).startswith("check_sample_weight_equivalence"):  # rows twice are left out one by one
                yield estimator, check


def readable(value: Any) -> str:
    return check_name(value) if callable(value) else repr(value).replace(" ", "")


@quiet
@parametrize_with_checks([machine() for machine in all_estimators()])
def test_scikit_learn_checks(estimator, check):
    run_check(estimator, check)


@pytest.mark.pool(0.25)
@quiet
@pytest.mark.parametrize("estimator, check", list(checks_without_intercept()), ids=readable)
def test_scikit_learn_checks_without_intercept(estimator, check):
    run_check(estimator, check)


@pytest.mark.pool(0.25)
@quiet
@pytest.mark.filterwarnings("ignore:probability=True")  # classes of a single row
@pytest.mark.parametrize("estimator, check", list(checks_with_probabilities()), ids=readable)
def test_scikit_learn_checks_with_probabilities(estimator, check):
    run_check(estimator, check)


@each_machine
def test_the_sample_weight_checks_are_among_them(machine):
    names = [check_name(check) for _, check in estimator_checks_generator(machine())]
    assert sum(name.startswith("check_sample_weight_equivalence") for name in names) == 2
    assert len(names) > 40 and set(names) >= NEEDS_INTERCEPT


@each_machine
def test_defaults_are_those_of_the_public_contract(machine):
    common = {
        **{"C": 1.0, "kernel": "linear", "gamma": "scale", "degree": 3, "coef0": 0.0, "n_components": None},
        **{"fit_intercept": True, "tol": 1e-4, "max_iter": 1000, "class_weight": None, "warm_start": False},
        **{"n_jobs": None, "verbose": 0, "random_state": None, "probability": False},
    }
    params = machine().get_params()
    if not has_free_intercept(machine):  # its biases are part of it
        del common["fit_intercept"]
    assert {name: params[name] for name in common} == common


@each_machine
def test_only_C_has_a_place(machine):
    """All other parameters go by name: nobody mistakes one for another."""
    _, *parameters = inspect.signature(machine.__init__).parameters.values()
    assert [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY] == ["C"]
