"""Row 28: degenerate input of every kind, every machine, every kernel: fit, predict, objective, save and load."""

from __future__ import annotations

import numpy as np
import pytest
from registry import all_estimators

from fuzz import invariants
from fuzz.formulas import cauchy
from polymargin import MarginSVC
from polymargin.estimators.family import LOSS_KINDS

LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])


def rows(seed=0, n=10, d=3):
    return np.random.default_rng(seed).standard_normal((n, d))


def per_class(seed=1):
    return rows(seed, 3)[LABELS]


INPUTS = {
    "constant rows": (np.repeat(rows(d=1), 3, axis=1), LABELS),
    "one constant row": (np.vstack([np.ones((1, 3)), rows()[1:]]), LABELS),
    "all rows equal": (np.ones((10, 3)), LABELS),
    "a zero row a class": (rows() * (np.arange(10) % 3 > 0)[:, None], LABELS),
    "K = 0": (np.zeros((10, 3)), LABELS),
    "one column": (rows(d=1), LABELS),
    "one constant column": (np.full((10, 1), 0.1), LABELS),
    "a constant column beside others": (np.column_stack([rows(), np.full(10, 7.0)]), LABELS),
    "one row a class": (rows(n=4), np.arange(4)),
    "one row a class, equal": (np.ones((4, 2)), np.arange(4)),
    "two rows": (rows(n=2), np.arange(2)),
    "two equal rows": (np.ones((2, 1)), np.arange(2)),
    "equal rows in each class": (per_class(), LABELS),
    "duplicates of other classes": (np.repeat(rows(n=5), 2, axis=0), LABELS),
    "more classes than columns": (rows(n=12, d=1), np.arange(12) % 6),
    "one direction": (np.outer(rows(d=1)[:, 0], [1.0, -2.0, 0.5]), LABELS),
}
KERNELS = {
    "linear": {},
    "no intercept": {"fit_intercept": False},
    "rbf": {"kernel": "rbf"},
    "poly": {"kernel": "poly", "coef0": 0.0},
    "laplacian": {"kernel": "laplacian", "gamma": 1.0},
    "precomputed": {"kernel": "precomputed"},
    "callable": {"kernel": cauchy},
    "rank 2": {"kernel": "rbf", "n_components": 2},
}
OWN = {  # what else a machine may be
    "AngularSVC": {"regularizer": "cosine"},
    "LpNormSVC": {"loss": "squared_hinge", "p": 1.1},
    "M3SVC": {"p": 1.0},
    "MarginDistributionSVC": {"theta": 0.0, "mu": 1.0},
    "OneVsNoneSVC": {"weights": "hard", "biases": "soft"},
}


def table():
    """Every machine, kernel and input, each with the machine's defaults or another setting in turn."""
    turn = 0
    for machine in all_estimators():
        settings = [{}, {"C": 1e-6}, {"C": 1e6}, OWN.get(machine.__name__, {"C": 100.0, "tol": 1e-8})]
        for kernel, params in KERNELS.items():
            if not set(params) <= set(machine().get_params()):
                continue
            for name in INPUTS:
                turn += 1
                for setting in ({}, settings[1 + turn % 3]) if kernel == "linear" else (settings[turn % 4],):
                    words = "".join(f"-{key}={value}" for key, value in setting.items())
                    yield pytest.param(machine, {**params, **setting}, name, id=f"{machine.__name__}-{kernel}-{name}{words}")


JUDGES = [
    invariants.warnings_are_kind,
    invariants.attributes_are_finite,
    invariants.predictions_are_classes,
    invariants.certificate_is_of_the_returned_arrays,
    invariants.objective_is_f,
    invariants.gap_is_not_negative,
    invariants.converged_means_the_gap_is_closed,
    invariants.survives_a_file,
]


@pytest.mark.pool(0.25)
@pytest.mark.parametrize("machine, params, name", list(table()))
def test_28_degenerate_input(machine, params, name):
    """Everything works; only a machine of angles may refuse rows that span nothing, with a sentence."""
    X, y = INPUTS[name]
    X = X @ X.T if params.get("kernel") == "precomputed" else X
    trial = invariants.fit_plainly(machine(random_state=0, **params), X, y)
    if trial.error is not None:
        assert machine.__name__ == "AngularSVC" and spans_nothing(X, params), repr(trial.error)
        assert not list(invariants.errors_are_kind(trial)), repr(trial.error)
        return
    wrong = [f"{judge.__name__}: {sentence}" for judge in JUDGES for sentence in judge(trial)]
    assert not wrong, wrong


def spans_nothing(X, params):
    """Whether all rows (their differences, with an intercept) are zero."""
    return not (X - (X[0] if params.get("fit_intercept", True) else 0.0)).any()


def test_the_table_has_every_machine_and_kernel():
    seen = {(machine.__name__, params.get("kernel", "linear")) for machine, params, _ in (entry.values for entry in table())}
    assert len(seen) == len(all_estimators()) * 6


@pytest.mark.parametrize("penalty", ["l2", "lp", "coupled"])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("loss", LOSS_KINDS)
def test_rows_of_any_length(loss, squared, penalty):
    """Down to squared norms without an inverse: steps divide by them."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=90)
    X = (rng.normal(size=(90, 6)) + 2.0 * np.eye(4, 6)[y]) * rng.choice([1.0, 1e-20, 1e-80, 1e-157, 1e-162], size=(90, 1))
    machine = MarginSVC(loss=loss, squared=squared, penalty=penalty, fit_intercept=False, tol=1e-4).fit(X, y)
    assert machine.certificate_.status == "optimal"
