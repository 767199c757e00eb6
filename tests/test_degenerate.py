"""Row 28: degenerate input of every kind, every machine, every kernel: fit, predict, objective, save and load."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from registry import all_estimators

import polymargin
from fuzz.formulas import cauchy
from fuzz.invariants import is_a_sentence

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


def table():
    for machine in all_estimators():
        for kernel, params in KERNELS.items():
            if set(params) <= set(machine().get_params()):
                for name in INPUTS:
                    yield pytest.param(machine, params, name, id=f"{machine.__name__}-{kernel}-{name}")


@pytest.mark.filterwarnings("ignore::UserWarning")  # trivial, badly scaled, not converged: all of them may be said
@pytest.mark.parametrize("machine, params, name", list(table()))
def test_28_degenerate_input(machine, params, name, tmp_path):
    """Everything works; only a machine of angles may refuse rows that span nothing, with a sentence."""
    X, y = INPUTS[name]
    X = X @ X.T if params.get("kernel") == "precomputed" else X
    try:
        with np.errstate(all="raise", under="ignore"):
            est = machine(random_state=0, **params).fit(X, y)
    except ValueError as error:
        assert machine.__name__ == "AngularSVC" and spans_nothing(X, params) and is_a_sentence(str(error)), error
        return
    assert np.isin(est.predict(X), y).all()
    scores = est.decision_function(X)
    assert np.isfinite(scores).all()
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-9, abs=1e-12)
    assert np.isfinite(est.certificate_.primal) and est.certificate_.dual <= est.certificate_.primal + 1e-9
    if not callable(params.get("kernel")):
        polymargin.save(est, tmp_path / "m.pm")
        np.testing.assert_array_equal(polymargin.load(tmp_path / "m.pm").decision_function(X), scores)


def spans_nothing(X, params):
    """Whether all rows (their differences, with an intercept) are zero."""
    return not (X - (X[0] if params.get("fit_intercept", True) else 0.0)).any()


def test_the_table_has_every_machine_and_kernel():
    seen = {(machine.__name__, params.get("kernel", "linear")) for machine, params, _ in (entry.values for entry in table())}
    assert len(seen) == len(all_estimators()) * 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(np.isfinite(X).all() for X, _ in INPUTS.values())
