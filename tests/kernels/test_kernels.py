"""Kernel machines: exact through the map, in every storage, with scikit-learn's tools."""

from __future__ import annotations

import numpy as np
import pytest
from checks import quiet, run_check
from reference import REFERENCES, square_root
from registry import LEAST_ACCURACY, all_estimators, each_convex, each_machine, has_centred_vectors, has_free_intercept
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

KERNELS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.2, "degree": 2, "coef0": 1.0},
    "laplacian": {"gamma": 0.2},
}
TIGHT = {"tol": 1e-6, "random_state": 0}


def blobs(seed: int = 0, n: int = 40, c: int = 3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n)
    y[:c] = np.arange(c)
    return rng.normal(size=(n, 2)) + 1.5 * rng.normal(size=(c, 2))[y], y


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
@each_convex
def test_the_optimum_is_that_of_the_rkhs_problem(machine, kernel, fit_intercept):
    for seed, C in ((0, 0.1), (1, 1.0), (2, 30.0)):
        X, y = blobs(seed, c=2 + seed)
        weight = np.random.default_rng(seed).uniform(0.5, 2.0, size=len(y))
        K = pairwise_kernels(X, metric=kernel, **KERNELS[kernel])
        optimum = REFERENCES[machine.__name__](square_root(K), y, C, weight, fit_intercept)
        for data in (X, sparse.csr_array(X)):
            intercept = {"fit_intercept": fit_intercept} if has_free_intercept(machine) else {}
            est = machine(C=C, kernel=kernel, **intercept, **KERNELS[kernel], **TIGHT)
            est.fit(data, y, sample_weight=weight)
            assert est.objective_ == pytest.approx(optimum, rel=1e-5)
            assert est.objective_ - optimum <= est.certificate_.gap + 1e-8 * optimum
            assert est.certificate_.dual <= optimum * (1 + 1e-6)
            assert est.objective(data, y, sample_weight=weight) == pytest.approx(est.objective_, rel=1e-6)


@each_machine
def test_a_linear_kernel_through_the_map_is_the_linear_machine(machine, iris):
    X, y = iris
    direct = machine(**TIGHT).fit(X, y)
    mapped = machine(kernel=lambda A, B: A @ B.T, **TIGHT).fit(X, y)
    assert mapped.objective_ == pytest.approx(direct.objective_, rel=1e-5)
    np.testing.assert_allclose(mapped.decision_function(X), direct.decision_function(X), atol=2e-2)


@each_machine
def test_precomputed_equals_computed(machine, iris):
    X, y = iris
    K = pairwise_kernels(X, metric="rbf", gamma=0.3)
    exact = {**TIGHT, "tol": 1e-10}  # objectives are compared to 1e-9
    computed = machine(kernel="rbf", gamma=0.3, **exact).fit(X, y)
    given = machine(kernel="precomputed", **exact).fit(K, y)
    assert given.objective_ == pytest.approx(computed.objective_, rel=1e-9)
    np.testing.assert_allclose(given.decision_function(K), computed.decision_function(X), atol=1e-6)
    with pytest.raises(ValueError, match=r"precomputed.*square"):
        machine(kernel="precomputed").fit(K[:, :10], y)


@each_machine
def test_attributes_have_scikit_learns_shapes(machine, iris):
    X, y = iris
    for classes, dimensions in ((3, 2), (2, 1)):
        rows = y < classes
        est = machine(kernel="rbf", **TIGHT).fit(X[rows], y[rows])
        n_support = len(est.support_)
        assert est.dual_coef_.shape == (classes, n_support)
        assert est.support_vectors_.shape == (n_support, 4)
        assert est.n_support_.sum() == n_support
        assert n_support < rows.sum() or not has_centred_vectors(machine)  # sparse in the rows
        np.testing.assert_array_equal(est.support_vectors_, X[rows][est.support_])
        assert est.decision_function(X[rows]).ndim == dimensions
        if has_centred_vectors(machine):
            np.testing.assert_allclose(est.dual_coef_.sum(axis=0), 0.0, atol=1e-9)
        assert not hasattr(est, "class_vectors_")
        with pytest.raises(AttributeError, match="linear"):
            _ = est.coef_
    est.set_params(kernel="linear").fit(X, y)
    assert not hasattr(est, "dual_coef_")
    assert est.coef_.shape == (3, 4)


@each_machine
def test_rows_of_weight_zero_are_left_out_of_a_precomputed_kernel(machine, iris):
    X, y = iris
    K = pairwise_kernels(X, metric="rbf", gamma=0.3)
    weight = np.ones(len(y))
    weight[::3] = 0.0
    kept = weight > 0
    whole = machine(kernel="precomputed", **TIGHT).fit(K, y, sample_weight=weight)
    part = machine(kernel="precomputed", **TIGHT).fit(K[kept][:, kept], y[kept])
    assert whole.objective_ == pytest.approx(part.objective_, rel=1e-9)
    assert kept[whole.support_].all()
    np.testing.assert_allclose(whole.decision_function(K), part.decision_function(K[:, kept]), atol=1e-6)


@each_machine
def test_scores_of_float32_rows_are_float32(machine, iris):
    """Coefficients stay in double precision: they are large and cancel, and the certificate is theirs."""
    X, y = iris
    est = machine(kernel="rbf", gamma=0.3, random_state=0).fit(X.astype(np.float32), y)
    assert est.dual_coef_.dtype == np.float64
    assert est.decision_function(X.astype(np.float32)).dtype == np.float32
    reference = machine(kernel="rbf", gamma=0.3, random_state=0).fit(X, y)
    assert est.objective_ == pytest.approx(reference.objective_, rel=1e-3)


@each_machine
def test_nystroem_approaches_the_exact_machine(machine, iris):
    X, y = iris
    exact = machine(kernel="rbf", gamma=0.3, **TIGHT).fit(X, y)
    errors = []
    for rank in (5, 30, 150):
        est = machine(kernel="rbf", gamma=0.3, n_components=rank, **TIGHT).fit(X, y)
        assert len(est.support_) <= rank
        errors.append(np.abs(est.decision_function(X) - exact.decision_function(X)).max())
    assert errors[-1] < 0.05 * errors[0]


@each_machine
def test_scikit_learns_tools_work_with_kernels(machine, iris):
    X, y = iris
    K = pairwise_kernels(X, metric="rbf", gamma=0.3)
    assert cross_val_score(machine(kernel="precomputed"), K, y, cv=3).mean() > LEAST_ACCURACY
    search = GridSearchCV(machine(kernel="precomputed"), {"C": [0.1, 1.0]}, cv=3).fit(K, y)
    assert search.best_score_ > LEAST_ACCURACY
    pipe = make_pipeline(StandardScaler(), machine(kernel="rbf"))
    assert GridSearchCV(pipe, {f"{machine.__name__.lower()}__gamma": [0.1, 0.5]}, cv=3).fit(X, y).best_score_ > 0.9


@each_machine
def test_a_warm_start_over_C_works_with_kernels(machine, iris):
    X, y = iris
    est = machine(kernel="rbf", warm_start=True, **TIGHT)
    for C in (0.1, 1.0, 10.0):
        est.set_params(C=C).fit(X, y)
        cold = machine(kernel="rbf", C=C, **TIGHT).fit(X, y)
        assert est.objective_ == pytest.approx(cold.objective_, rel=3e-6)


@each_machine
def test_an_indefinite_kernel_is_refused(machine, iris):
    _, y = iris
    with pytest.raises(ValueError, match=r"positive semi-?definite"):
        machine(kernel="precomputed").fit(-np.eye(len(y)), y)


@pytest.mark.pool(0.25)
@quiet
@parametrize_with_checks([machine(kernel="rbf") for machine in all_estimators()])
def test_scikit_learn_checks_with_an_rbf_kernel(estimator, check):
    run_check(estimator, check)


@pytest.mark.filterwarnings("ignore:.*trivial solution")
@each_convex
def test_a_kernel_that_is_zero_everywhere_gives_the_trivial_machine(machine):
    y = np.array([0, 0, 0, 1, 1, 2])
    est = machine(kernel=lambda A, B: np.zeros((len(A), len(B)))).fit(np.ones((6, 2)), y)
    assert est.certificate_.status == "optimal"
    assert np.isfinite(est.decision_function(np.ones((3, 2)))).all()
