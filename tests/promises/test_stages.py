"""The methods that ran, with reasons, on every certificate."""

import numpy as np
import pytest
from registry import all_estimators
from sklearn.datasets import load_digits, make_classification

import polymargin
from polymargin import M3SVC, CrammerSingerSVC, LpNormSVC, WestonWatkinsSVC


@pytest.mark.parametrize("machine", all_estimators(), ids=lambda machine: machine.__name__)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_fit_says_which_methods_ran_and_why(machine, kernel, iris):
    certificate = machine(kernel=kernel, tol=1e-2).fit(*iris).certificate_
    assert certificate.stages
    for stage in certificate.stages:
        assert stage.method
        assert stage.reason
        assert 0.0 <= stage.seconds <= certificate.seconds
        assert 0 <= stage.n_iter <= certificate.n_iter
    assert [stage.seconds for stage in certificate.stages] == sorted(stage.seconds for stage in certificate.stages)


def methods_of(machine, X, y):
    return [stage.method for stage in machine.fit(X, y).certificate_.stages]


def test_an_easy_fit_is_ascent_alone(iris):
    assert methods_of(WestonWatkinsSVC(C=0.1), *iris) == ["dual ascent"]


def test_interior_points_take_over_where_ascent_crawls():
    X, y = load_digits(return_X_y=True)
    machine = CrammerSingerSVC(C=1e4, fit_intercept=False, tol=1e-8)
    assert methods_of(machine, X[:120, 20:36] + 30.0, y[:120]) == ["dual ascent", "interior points"]


def test_newton_steps_take_over_on_wide_data_with_hard_margins():
    X, y = make_classification(150, 600, n_informative=40, n_classes=4, random_state=0)
    # 1e-9 of this objective, .065, is what rounding of 150 margins comes to, times C: some processors reach it, some do not
    methods = methods_of(WestonWatkinsSVC(C=1e3, tol=1e-8, max_iter=20_000), X + 3.0 * np.sin(np.arange(600)), y)
    assert methods[0] == "dual ascent"
    assert set(methods) <= {"dual ascent", "Newton's method with multipliers"}


def test_small_exact_fits_end_with_interior_points(iris):
    assert methods_of(LpNormSVC(tol=1e-10), *iris)[-1] == "interior points"
    assert methods_of(M3SVC(tol=1e-8), *iris) == ["interior points"]
    assert methods_of(M3SVC(loss="softmax"), *iris) == ["Newton's method"]


def test_stages_survive_a_file(iris, tmp_path):
    machine = CrammerSingerSVC().fit(*iris)
    polymargin.save(machine, tmp_path / "machine.pm")
    assert polymargin.load(tmp_path / "machine.pm").certificate_.stages == machine.certificate_.stages
