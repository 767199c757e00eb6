"""The certificate is that of the arrays on the estimator: in their precision, for every machine, storage and kernel."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from registry import all_estimators, each_machine, is_convex
from scipy import sparse

from polymargin import CrammerSingerSVC, LpNormSVC, WestonWatkinsSVC, load, regularization_path, save
from polymargin.features.shift import moved_alike, towards_zero
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.row_ascent import RowsProof

STORAGES = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "csr": sparse.csr_array,
    "csr-float32": lambda X: sparse.csr_array(X.astype(np.float32)),
}
each_storage = pytest.mark.parametrize("storage", STORAGES)


def fitted(machine: type, X: Any, y: Any, **params: Any) -> Any:
    """A machine that may say that it did not converge, or that the data is badly scaled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine(random_state=0, **params).fit(X, y)


def assert_true_of_the_arrays(est: Any, X: Any, y: Any, rounding: float = 1e-9) -> None:
    F, end = est.objective(X, y), est.certificate_
    assert pytest.approx(end.primal, rel=rounding, abs=1e-300) == F
    assert end.primal == est.objective_ and end.gap == end.primal - end.dual
    assert end.gap >= -1e-9 * abs(end.primal)
    if end.status == "optimal":
        assert F - end.dual <= (1.0 + 1e-9) * est.tol * abs(F)


@pytest.mark.parametrize("C", [1.0, 1e4, 1e6])
@each_storage
@each_machine
def test_23_the_certificate_is_that_of_the_returned_arrays(machine, storage, C, wine):
    X, y = STORAGES[storage](wine[0]), wine[1]
    assert_true_of_the_arrays(fitted(machine, X, y, C=C), X, y)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("storage", ["float64", "float32", "csr-float32"])
@each_machine
def test_23_and_of_kernel_machines(machine, storage, kernel, wine):
    X, y = STORAGES[storage](wine[0][::2]), wine[1][::2]
    for params in ({"C": 100.0}, {"C": 1.0, "n_components": 20}):
        assert_true_of_the_arrays(fitted(machine, X, y, kernel=kernel, **params), X, y, rounding=1e-8)


@each_storage
@each_machine
def test_23_and_of_fits_too_large_for_a_second_look(machine, storage):
    """Such fits report the solver's own evaluation: it must be one of the arrays that are returned."""
    rng = np.random.default_rng(3)
    y = np.arange(3000) % 20
    X = STORAGES[storage](rng.standard_normal((20, 80))[y] + 2.0 * rng.standard_normal((3000, 80)))
    est = fitted(machine, X, y, tol=1e-2, max_iter=30)
    assert_true_of_the_arrays(est, X, y)


def test_23_coefficients_stay_double_where_single_precision_costs_more_than_the_tolerance(wine):
    X, y = wine[0].astype(np.float32), wine[1]
    mild, hard = (fitted(CrammerSingerSVC, X, y, C=C) for C in (1.0, 1e6))
    assert mild.class_vectors_.dtype == mild.class_offsets_.dtype == mild.decision_function(X).dtype == np.float32
    assert hard.class_vectors_.dtype == hard.class_offsets_.dtype == hard.decision_function(X).dtype == np.float64
    assert hard.certificate_.status == "optimal"


@pytest.mark.parametrize("C", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("spread", [0.0, 1e-3])
def test_23_the_bound_is_true_where_rows_are_nearly_the_same(C, spread):
    """Ascent crawls there, and its epochs are extrapolated far beyond the domains of the duals: they must come back."""
    X = 10.0 * (1.0 + spread * np.random.default_rng(56).standard_normal((296, 1)))
    y = np.arange(296) >= 148
    assert_true_of_the_arrays(fitted(CrammerSingerSVC, X, y, C=C, fit_intercept=False, tol=1e-3), X, y)


def test_24_values_that_are_not_finite_prove_nothing():
    for primal, dual in ((math.inf, -math.inf), (math.inf, 0.0), (1.0, -math.inf), (math.nan, 0.0)):
        ledger = Ledger(tol=1.0)
        ledger.add(primal, dual, 1)
        assert not ledger.done
        assert not ledger.close(1).converged
    ledger = Ledger(tol=1e-3)
    ledger.add(1.0, 1.0, 1)
    end = ledger.close(1)
    assert end.converged and not end.of_primal(math.inf, 1e-3).converged


def test_25_a_bound_above_a_value_is_lowered_by_what_the_data_may_hide_and_no_more():
    ledger = Ledger(1e-4, rounding=lambda primal: 1e-6 * primal)
    ledger.add(1.0, 1.0 + 5e-7, 1)
    assert ledger.dual == pytest.approx(1.0 - 5e-7) and ledger.gap > 0.0
    with pytest.raises(ArithmeticError, match="exceeds"):
        ledger.add(1.0, 1.0 + 5e-5, 2)


@pytest.mark.parametrize("machine", [m for m in all_estimators() if m.__name__ not in ("M3SVC", "OneVsNoneSVC")])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_25_where_the_columns_lie_does_not_matter(machine, form, iris):
    """An unpenalised intercept makes up for it: the same machine, to the last bits of the columns' own rounding."""
    X, y = iris
    near = fitted(machine, form(X), y)
    for size in (1e4, 1e6, 1e8):
        far = fitted(machine, form(X + size), y)
        assert_true_of_the_arrays(far, form(X + size), y)
        assert far.certificate_.status == near.certificate_.status
        assert far.objective_ == pytest.approx(near.objective_, rel=1e-3 if is_convex(machine) else 1e-2)


def test_25_columns_are_moved_without_loss_and_only_if_they_are_far_away():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    assert towards_zero(X) is None and towards_zero(sparse.csr_array(X)) is None
    assert towards_zero(np.column_stack([X, np.ones(50)])) is None  # a column for the offsets is not far
    far = X + np.array([0.0, 1e6, 0.0])
    for form in (np.asarray, sparse.csr_array):
        for dtype in (np.float64, np.float32):
            moved, means = towards_zero(form(far.astype(dtype)))
            assert moved.dtype == dtype and means[0] == means[2] == 0.0
            back = moved.toarray() if sparse.issparse(moved) else moved
            np.testing.assert_array_equal(back.astype(np.float64) + means, far.astype(dtype).astype(np.float64))
    holes = far.copy()
    holes[3, 1] = 0.0
    assert towards_zero(sparse.csr_array(holes)) is None


def test_25_differences_of_moved_rows_are_those_of_the_rows():
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((4, 3)) + 1e8, rng.standard_normal((5, 3)) + 1e8
    for one, other in ((A, B), (sparse.csr_array(A), B), (sparse.csr_array(A), sparse.csr_array(B))):
        near, also = (part.toarray() if sparse.issparse(part) else part for part in moved_alike(one, other))
        np.testing.assert_array_equal(near[:, None] - also[None], A[:, None] - B[None])
        assert np.abs(near).max() < 10.0


@each_machine
def test_29_one_warm_state_that_is_neither_saved_nor_left_on_a_path(machine, iris, tmp_path):
    X, y = iris
    est = fitted(machine, X, y, warm_start=True)
    est.set_params(C=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est.fit(X, y)
    assert {name for name in vars(est) if name.startswith("_warm") or "memory" in name} == {"_warm"}
    save(est, tmp_path / "machine.pm")
    again = load(tmp_path / "machine.pm")
    assert "_warm" not in vars(again)
    np.testing.assert_array_equal(again.predict(X), est.predict(X))
    est.set_params(warm_start=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est.fit(X, y)
        path = regularization_path(machine(random_state=0), X, y, [0.1, 1.0])
    assert "_warm" not in vars(est)
    assert not any(name.startswith("_warm") or "memory" in name for step in path.machines for name in vars(step))


def test_29_a_warm_start_is_not_told_that_ascent_crawls_where_it_does_not():
    """Ascent crawls at the large C and not at the small one."""
    rng = np.random.default_rng(5)
    y = np.arange(60) % 3
    X = 2.0 * rng.standard_normal((3, 4))[y] + rng.standard_normal((60, 4)) + 100.0
    est = CrammerSingerSVC(C=1e3, fit_intercept=False, warm_start=True).fit(X, y)
    assert est._warm.crawled
    assert est.set_params(C=2e3).fit(X, y)._warm_start(_problem_of(est, X, y)).crawled
    est.set_params(C=1e-3)
    assert not est._warm_start(_problem_of(est, X, y)).crawled


def _problem_of(est: Any, X: Any, y: Any) -> Any:
    return est._problem_on(X, y, None)


@each_machine
def test_37_default_fits_are_repeatable(machine, iris):
    X, y = iris
    rng = np.random.RandomState(0)
    X = np.repeat(X, 2, axis=0) + 0.3 * rng.standard_normal((300, 4))
    y = np.repeat(y, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for params in ({}, {"kernel": "rbf", "n_components": 20}):
            first, second = (machine(**params).fit(X, y) for _ in range(2))
            np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
            assert first.objective_ == second.objective_


def test_p_by_cross_validation_on_columns_far_from_zero(iris):
    X, y = iris
    near, far = (fitted(LpNormSVC, rows, y, p="auto") for rows in (X, X + 1e6))
    assert far.p_ == near.p_
    np.testing.assert_allclose(far.p_scores_, near.p_scores_, atol=2.0 / 150)  # the sums round the rows


@pytest.mark.parametrize("machine", [CrammerSingerSVC, WestonWatkinsSVC])
def test_single_precision_is_judged_once(machine, monkeypatch):
    """The look that ends a fit is at the arrays that are returned: nobody evaluates them again."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=2000)
    X = (np.eye(5, 20)[y] + 0.7 * rng.normal(size=(2000, 20))).astype(np.float32)
    evaluated, primal = [], Problem.primal

    def counted(self, W, b):
        evaluated.append(W)
        return primal(self, W, b)

    monkeypatch.setattr(Problem, "primal", counted)
    fitted = machine(random_state=0).fit(X, y)
    assert not evaluated and fitted.certificate_.converged
    assert fitted.class_vectors_.dtype == fitted.class_offsets_.dtype == np.float32
    assert abs(fitted.class_offsets_.sum()) <= 1e-6
    assert fitted.objective(X, y) == pytest.approx(fitted.objective_, rel=1e-12)
    fine = machine(tol=1e-6, random_state=0).fit(X, y)  # rounding may matter: it is judged as it is, and as it is returned
    assert fine.certificate_.converged and evaluated
    assert fine.objective(X, y) == pytest.approx(fine.objective_, rel=1e-12)


def test_rounding_that_costs_much_does_not_keep_a_fit_from_its_end(monkeypatch):
    """Class vectors that single precision cannot hold are judged, and returned, in double precision."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=2000)
    X = (np.eye(5, 20)[y] + 0.7 * rng.normal(size=(2000, 20))).astype(np.float32)
    usual = CrammerSingerSVC(random_state=0).fit(X, y)
    coarse = RowsProof._rounded

    def rounded(self, tol):
        found = coarse(self, tol)
        return None if found is None else (np.round(found[0], 1), found[1])  # as if it had one digit

    monkeypatch.setattr(RowsProof, "_rounded", rounded)
    fitted = CrammerSingerSVC(random_state=0).fit(X, y)
    assert fitted.certificate_.converged and fitted.n_iter_ <= usual.n_iter_ + 8
    assert fitted.objective(X, y) == pytest.approx(fitted.objective_, rel=1e-12)
