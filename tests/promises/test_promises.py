"""What every machine promises: the metamorphic rules, the fitted attributes, and scikit-learn's ways."""

import copy
import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from reference import row_weights
from registry import (
    assert_same_machine,
    each_machine,
    each_variant,
    has_centred_offsets,
    has_centred_vectors,
    has_clear_winner,
    has_free_intercept,
    is_convex,
    possible_decrease,
    slack,
)
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

TIGHT = {"tol": 1e-8, "random_state": 0}

dense_or_sparse = pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_array, sp.csr_matrix])


def integer_weights(n):
    return np.random.default_rng(3).integers(0, 4, n)


# -- metamorphic rules -------------------------------------------------------------------------------------


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@each_variant
def test_same_random_state_same_bits_whatever_n_jobs(machine, params, container):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 3000)
    X = container(rng.standard_normal((3000, 20)) + rng.standard_normal((5, 20))[y])
    first = machine(random_state=42, **params).fit(X, y)
    for n_jobs in (None, 1, 2, 3, 4):
        again = machine(random_state=42, n_jobs=n_jobs, **params).fit(X, y)
        np.testing.assert_array_equal(again.class_vectors_, first.class_vectors_)
        np.testing.assert_array_equal(again.class_offsets_, first.class_offsets_)
        np.testing.assert_array_equal(again.decision_function(X), first.decision_function(X))
        assert (again.certificate_.primal, again.certificate_.dual) == (
            first.certificate_.primal,
            first.certificate_.dual,
        )
        assert again.n_iter_ == first.n_iter_


@each_variant
def test_random_state_object_and_integer_agree(machine, params, overlapping):
    X, y = overlapping
    by_number = machine(random_state=5, **params).fit(X, y)
    by_object = machine(random_state=np.random.RandomState(5), **params).fit(X, y)
    np.testing.assert_array_equal(by_number.class_vectors_, by_object.class_vectors_)


@each_variant
def test_another_random_state_another_way_to_the_same_optimum(machine, params, overlapping):
    X, y = overlapping
    first, second = (machine(**{**TIGHT, "random_state": seed}, **params).fit(X, y) for seed in (0, 1))
    assert_same_machine(first, second, X)


@pytest.mark.pool(0.33)
@dense_or_sparse
@each_variant
def test_integer_weights_equal_repeated_rows(machine, params, container, overlapping):
    X, y = overlapping
    weights = integer_weights(len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    weighted = machine(**TIGHT, **params).fit(container(X), y, sample_weight=weights)
    repeated = machine(**TIGHT, **params).fit(container(X[rows]), y[rows])
    assert_same_machine(weighted, repeated, X[rows])
    assert weighted.objective(X[rows], y[rows]) == pytest.approx(weighted.objective_, rel=1e-9)


@pytest.mark.pool(0.33)
@dense_or_sparse
@each_variant
def test_weight_zero_equals_row_left_out(machine, params, container, overlapping):
    """Even a row that would ruin the fit, and a column that only such rows fill."""
    X, y = overlapping
    X, weights = np.c_[X, np.zeros(len(y))], np.ones(len(y))
    weights[::3] = 0.0
    X[::3] *= 1e3
    X[::3, -1] = 7.0
    zero = machine(**TIGHT, **params).fit(container(X), y, sample_weight=weights)
    kept = weights > 0
    left_out = machine(**TIGHT, **params).fit(container(X[kept]), y[kept])
    assert_same_machine(zero, left_out, X[kept])
    np.testing.assert_array_equal(zero.class_vectors_[:, -1], 0.0)


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("factor", [0.01, 0.5, 30.0])
@each_variant
def test_scaling_the_weights_scales_C(machine, params, factor, overlapping):
    X, y = overlapping
    weights = 0.5 + integer_weights(len(y))
    by_weight = machine(C=0.7, **TIGHT, **params).fit(X, y, sample_weight=factor * weights)
    by_C = machine(C=0.7 * factor, **TIGHT, **params).fit(X, y, sample_weight=weights)
    assert_same_machine(by_weight, by_C, X)


@each_variant
def test_row_order_does_not_matter(machine, params, overlapping):
    X, y = overlapping
    weights = 0.5 + integer_weights(len(y))
    order = np.random.default_rng(1).permutation(len(y))
    straight = machine(**TIGHT, **params).fit(X, y, sample_weight=weights)
    shuffled = machine(**TIGHT, **params).fit(X[order], y[order], sample_weight=weights[order])
    assert_same_machine(straight, shuffled, X)


@each_variant
def test_class_order_does_not_matter(machine, params, overlapping):
    X, y = overlapping
    renamed = np.array([2, 0, 3, 1])
    straight = machine(**TIGHT, **params).fit(X, y)
    relabelled = machine(**TIGHT, **params).fit(X, renamed[y])
    assert straight.objective_ == pytest.approx(relabelled.objective_, abs=slack(straight, relabelled))
    clear = has_clear_winner(straight, X)
    np.testing.assert_array_equal(renamed[straight.predict(X)][clear], relabelled.predict(X)[clear])
    if is_convex(machine):
        np.testing.assert_allclose(
            straight.class_vectors_,
            relabelled.class_vectors_[renamed],
            atol=1e-3 * abs(straight.class_vectors_).max(),
        )


@each_variant
def test_feature_order_does_not_matter(machine, params, overlapping):
    X, y = overlapping
    order = [4, 1, 0, 3, 2]
    straight = machine(**TIGHT, **params).fit(X, y)
    shuffled = machine(**TIGHT, **params).fit(X[:, order], y)
    assert straight.objective_ == pytest.approx(shuffled.objective_, abs=slack(straight, shuffled))


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array])
@each_variant
def test_sparse_equals_dense(machine, params, container, dtype, overlapping):
    X, y = overlapping
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.5, 0, X).astype(dtype)
    tight = TIGHT if dtype is np.float64 else {**TIGHT, "tol": 1e-4}
    dense = machine(**tight, **params).fit(X, y)
    sparse = machine(**tight, **params).fit(container(X), y)
    scale = abs(dense.decision_function(X)).max()
    if dtype is np.float64:
        assert_same_machine(dense, sparse, X)
    assert sparse.objective(container(X), y) == pytest.approx(dense.objective(X, y), rel=2 * tight["tol"])
    np.testing.assert_allclose(sparse.decision_function(container(X)), sparse.decision_function(X), atol=1e-5 * scale)
    assert sparse.decision_function(container(X)).dtype == dtype
    assert isinstance(sparse.decision_function(container(X)), np.ndarray)


@each_variant
def test_class_weight_equals_row_weights(machine, params, overlapping):
    X, y = overlapping
    X, y = X[10:], y[10:]  # not the same number of rows in every class
    weights = 0.5 + integer_weights(len(y))
    for class_weight in ({0: 3.0, 2: 0.25}, "balanced"):
        by_class = machine(class_weight=class_weight, **TIGHT, **params).fit(X, y, sample_weight=weights)
        rows = row_weights(y, weights, class_weight)
        by_row = machine(**TIGHT, **params).fit(X, y, sample_weight=rows)
        assert_same_machine(by_class, by_row, X)
        assert by_class.objective(X, y, weights) == pytest.approx(by_class.objective_, rel=1e-9)


@each_machine
def test_objective_is_that_of_the_data_given(machine, overlapping):
    """Twice the rows: twice the loss, the same R."""
    X, y = overlapping
    est = machine(random_state=0).fit(X, y)
    once, twice, thrice = (est.objective(np.tile(X, (k, 1)), np.tile(y, k)) for k in (1, 2, 3))
    assert once == pytest.approx(est.objective_, rel=1e-9)
    assert thrice - twice == pytest.approx(twice - once, rel=1e-9)
    assert twice - once < once
    assert est.objective(X, y, np.full(len(y), 2.0)) == pytest.approx(twice, rel=1e-9)


@each_machine
def test_refit_without_warm_start_forgets(machine, overlapping):
    X, y = overlapping
    refitted = machine(random_state=0).fit(X[::-1] * 3, y[::-1]).fit(X, y)
    fresh = machine(random_state=0).fit(X, y)
    np.testing.assert_array_equal(refitted.class_vectors_, fresh.class_vectors_)
    np.testing.assert_array_equal(refitted.class_offsets_, fresh.class_offsets_)


# -- fitted attributes -------------------------------------------------------------------------------------


@each_variant
def test_shapes_with_many_classes(machine, params, overlapping):
    X, y = overlapping
    est = machine(random_state=0, **params).fit(X, y)
    c, d = 4, X.shape[1]
    assert est.class_vectors_.shape == est.coef_.shape == (c, d)
    assert est.class_offsets_.shape == est.intercept_.shape == (c,)
    np.testing.assert_array_equal(est.coef_, est.class_vectors_)
    np.testing.assert_array_equal(est.intercept_, est.class_offsets_)
    assert est.decision_function(X).shape == (len(y), c)
    np.testing.assert_allclose(est.decision_function(X), X @ est.coef_.T + est.intercept_, atol=1e-10)
    np.testing.assert_array_equal(est.predict(X), est.classes_[est.decision_function(X).argmax(axis=1)])
    np.testing.assert_array_equal(est.classes_, np.arange(c))
    assert est.n_features_in_ == d and not hasattr(est, "feature_names_in_")
    assert est.score(X, y) == np.mean(est.predict(X) == y)
    assert est.score(X, y) > 0.5


@each_variant
def test_shapes_with_two_classes(machine, params, two_classes):
    X, y = two_classes
    est = machine(random_state=0, **params).fit(X, np.array(["no", "yes"])[y])
    d = X.shape[1]
    assert est.class_vectors_.shape == (2, d) and est.class_offsets_.shape == (2,)
    assert est.coef_.shape == (1, d) and est.intercept_.shape == (1,)
    np.testing.assert_allclose(est.coef_[0], est.class_vectors_[1] - est.class_vectors_[0], rtol=1e-12)
    np.testing.assert_allclose(est.intercept_[0], est.class_offsets_[1] - est.class_offsets_[0], atol=1e-14)
    scores = est.decision_function(X)
    assert scores.shape == (len(y),)
    np.testing.assert_allclose(scores, X @ est.coef_[0] + est.intercept_[0], atol=1e-10)
    np.testing.assert_array_equal(est.predict(X) == "yes", scores > 0)


@pytest.mark.parametrize("data", ["overlapping", "two_classes"])
@each_variant
def test_the_representative_sums_to_zero(machine, params, data, request):
    X, y = request.getfixturevalue(data)
    est = machine(random_state=0, **params).fit(X, y)
    if has_centred_offsets(machine):
        assert abs(est.class_offsets_.sum()) <= 1e-12 * (1 + abs(est.class_offsets_).max())
    if params.get("fit_intercept") is False:
        np.testing.assert_array_equal(est.class_offsets_, 0.0)
    if has_centred_vectors(machine):
        np.testing.assert_allclose(est.class_vectors_.sum(axis=0), 0.0, atol=1e-12 * abs(est.class_vectors_).max())


@each_machine
def test_ties_go_to_the_lower_class(machine, overlapping):
    if not has_free_intercept(machine):
        pytest.skip("its biases are part of it")
    X, y = overlapping
    est = machine(fit_intercept=False, random_state=0).fit(X, y)
    np.testing.assert_array_equal(est.predict(np.zeros((3, X.shape[1]))), est.classes_[[0, 0, 0]])


@each_variant
def test_certificate_is_a_frozen_record(machine, params, overlapping):
    X, y = overlapping
    est = machine(random_state=0, **params).fit(X, y)
    certificate = est.certificate_
    fields = {field.name for field in dataclasses.fields(certificate)}
    assert {"status", "primal", "dual", "gap", "rel_gap", "tol", "n_iter", "seconds", "history"} <= fields
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.gap = 0.0
    assert certificate.status == ("optimal" if is_convex(machine) else "stationary")
    assert est.objective_ == certificate.primal == pytest.approx(est.objective(X, y), rel=1e-9)
    assert est.n_iter_ == certificate.n_iter and isinstance(est.n_iter_, int | np.integer)
    assert 1 <= est.n_iter_ <= est.max_iter
    assert 0 < certificate.seconds < 60
    for number in (
        certificate.primal,
        certificate.gap,
        certificate.rel_gap,
        certificate.tol,
        certificate.seconds,
    ):
        assert isinstance(number, float)
    assert "optimal" in repr(certificate) or "stationary" in repr(certificate)


@each_variant
def test_history_never_contradicts_the_certificate(machine, params, overlapping):
    X, y = overlapping
    certificate = machine(random_state=0, **params).fit(X, y).certificate_
    history = np.asarray(certificate.history, dtype=float)
    assert history.ndim == 2 and history.shape[1] == 3 and len(history) >= 1
    seconds, primal, dual = history.T
    assert np.all(np.diff(seconds) >= 0) and seconds[0] >= 0 and seconds[-1] <= certificate.seconds + 1e-6
    assert np.all(primal >= certificate.dual - 1e-9 * abs(certificate.dual))
    assert np.all(dual[np.isfinite(dual)] <= certificate.primal * (1 + 1e-9))
    assert primal[-1] == pytest.approx(certificate.primal, rel=1e-9)


@pytest.mark.pool(0.33)
@dense_or_sparse
@each_variant
def test_single_precision_stays_single(machine, params, container, overlapping):
    X, y = overlapping
    X32 = container(X.astype(np.float32))
    est = machine(random_state=0, **params).fit(X32, y, sample_weight=np.ones(len(y)))
    for array in (est.class_vectors_, est.coef_, est.decision_function(X32)):
        assert array.dtype == np.float32
    # offsets that must add up to zero cannot be rounded
    assert est.class_offsets_.dtype == est.intercept_.dtype == (np.float32 if has_free_intercept(machine) else np.float64)
    double = machine(random_state=0, **params).fit(container(X), y)
    assert double.coef_.dtype == double.decision_function(container(X)).dtype == np.float64
    assert est.objective_ == pytest.approx(double.objective_, rel=3e-4)


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float16, np.longdouble])
@each_machine
def test_other_numbers_are_converted(machine, dtype, overlapping):
    X, y = overlapping
    X = np.round(3 * abs(X)).astype(dtype)
    est = machine(random_state=0).fit(X, y)
    same = machine(random_state=0).fit(X.astype(est.class_vectors_.dtype), y)
    assert est.class_vectors_.dtype in (np.float32, np.float64)
    np.testing.assert_array_equal(est.class_vectors_, same.class_vectors_)


@pytest.mark.parametrize("layout", ["F", "strided", "reversed"])
@each_machine
def test_memory_layout_does_not_matter(machine, layout, overlapping):
    X, y = overlapping
    wide = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)
    view = {"F": np.asfortranarray(X), "strided": wide[::2, ::2], "reversed": X[::-1].copy()[::-1]}[layout]
    first, second = machine(random_state=0).fit(X, y), machine(random_state=0).fit(view, y)
    np.testing.assert_array_equal(first.class_vectors_, second.class_vectors_)
    np.testing.assert_array_equal(first.decision_function(view), second.decision_function(X))


# -- warm start, copies, pickles ---------------------------------------------------------------------------


@pytest.mark.pool(0.33)
@dense_or_sparse
@each_variant
def test_warm_start_reaches_the_same_optimum(machine, params, container, overlapping):
    X, y = overlapping
    X = container(X)
    warm = machine(warm_start=True, **TIGHT, **params)
    for C in (0.01, 0.1, 1.0, 0.3):
        warm.set_params(C=C).fit(X, y)
        cold = machine(C=C, **TIGHT, **params).fit(X, y)
        assert_same_machine(warm, cold, X)
        missed = warm.certificate_.gap if is_convex(machine) else possible_decrease(warm)
        assert missed <= warm.tol * abs(warm.objective_)


@each_variant
def test_warm_start_at_the_solution_is_done_at_once(machine, params, overlapping):
    X, y = overlapping
    est = machine(warm_start=True, tol=1e-6, random_state=0, **params).fit(X, y)
    cold_passes, F = est.n_iter_, est.objective_
    est.fit(X, y)
    assert est.n_iter_ <= max(2, 2 * cold_passes // 5)
    assert est.objective_ <= F * (1 + 1e-6)


@each_machine
def test_warm_start_with_other_weights_reaches_their_optimum(machine, overlapping):
    X, y = overlapping
    weights = np.where(np.arange(len(y)) < 20, 5.0, integer_weights(len(y)))
    warm = machine(warm_start=True, **TIGHT).fit(X, y).fit(X, y, sample_weight=weights)
    assert_same_machine(warm, machine(**TIGHT).fit(X, y, sample_weight=weights), X)


@each_machine
def test_warm_start_survives_other_data(machine, overlapping, iris):
    """Other rows, columns and classes: the fit is a cold one."""
    X, y = iris
    est = machine(warm_start=True, **TIGHT).fit(*overlapping).fit(X, y)
    assert_same_machine(est, machine(**TIGHT).fit(X, y), X)
    fewer = y < 2
    assert_same_machine(est.fit(X[fewer], y[fewer]), machine(**TIGHT).fit(X[fewer], y[fewer]), X)
    assert est.classes_.tolist() == [0, 1] and est.class_vectors_.shape == (2, 4)


@each_variant
def test_warm_start_after_relabelling_the_same_rows(machine, params, overlapping):
    """The same shapes, but the old duals belong to other classes."""
    X, y = overlapping
    warm = machine(warm_start=True, **TIGHT, **params).fit(X, y).fit(X, (y + 1) % 4)
    assert_same_machine(warm, machine(**TIGHT, **params).fit(X, (y + 1) % 4), X)


@each_variant
def test_pickle_and_copy(machine, params, overlapping):
    X, y = overlapping
    est = machine(C=0.5, random_state=0, **params).fit(X, y)
    for twin in (pickle.loads(pickle.dumps(est)), copy.deepcopy(est)):
        np.testing.assert_array_equal(twin.decision_function(X), est.decision_function(X))
        assert twin.certificate_ == est.certificate_ and twin.get_params() == est.get_params()
        assert twin.objective(X, y) == est.objective(X, y)
    unfitted = pickle.loads(pickle.dumps(machine(C=0.5)))
    assert unfitted.C == 0.5


@each_machine
def test_clone_keeps_parameters_and_drops_the_fit(machine, overlapping):
    X, y = overlapping
    est = machine(C=3.0, tol=1e-3, class_weight="balanced", random_state=1).fit(X, y)
    twin = clone(est)
    assert twin.get_params() == est.get_params()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(twin)
    assert not [name for name in vars(twin) if name.endswith("_")]


@each_machine
def test_fitted_state_is_arrays_numbers_and_strings(machine, overlapping):
    X, y = overlapping
    est = machine(random_state=0).fit(X, y)
    for name, value in vars(est).items():
        if name.endswith("_") and name != "certificate_":
            assert isinstance(value, np.ndarray | float | int | str | np.generic), (name, type(value))


@each_machine
def test_fit_returns_self_and_changes_no_parameter(machine, overlapping):
    X, y = overlapping
    class_weight = {0: 2.0}
    est = machine(class_weight=class_weight)
    before = copy.deepcopy(est.get_params())
    assert est.fit(X, y) is est
    assert est.get_params() == before and est.class_weight is class_weight


@each_machine
def test_not_fitted_is_said(machine, overlapping):
    X, y = overlapping
    for call in (lambda e: e.predict(X), lambda e: e.decision_function(X), lambda e: e.objective(X, y)):
        with pytest.raises(sklearn.exceptions.NotFittedError, match=machine.__name__):
            call(machine())


# -- data frames and scikit-learn's tools ------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@each_machine
def test_data_frames(machine, frame, overlapping):
    X, y = overlapping
    names = [f"column {j}" for j in range(X.shape[1])]
    table = frame(dict(zip(names, X.T, strict=True)))
    est = machine(random_state=0).fit(table, y)
    assert est.feature_names_in_.tolist() == names
    plain = machine(random_state=0).fit(X, y)
    np.testing.assert_array_equal(est.class_vectors_, plain.class_vectors_)
    np.testing.assert_array_equal(est.predict(table), plain.predict(X))
    assert est.objective(table, y) == plain.objective(X, y)


@each_machine
def test_labels_and_weights_from_series(machine, overlapping):
    X, y = overlapping
    words = np.array(["d", "b", "a", "c"])[y]
    weights = 0.5 + integer_weights(len(y))
    plain = machine(random_state=0).fit(X, words, sample_weight=weights)
    for series in (pd.Series, pl.Series):
        est = machine(random_state=0).fit(X, series(words.tolist()), sample_weight=series(weights))
        assert est.classes_.tolist() == ["a", "b", "c", "d"]
        np.testing.assert_array_equal(est.class_vectors_, plain.class_vectors_)


@each_machine
def test_search_pipeline_and_cross_validation(machine, iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), machine(random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.85
    name = machine.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__C": [0.1, 1.0]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_[f"{name}__C"] in (0.1, 1.0)
    assert search.score(X, y) > 0.9


@each_machine
def test_calibration_gives_probabilities(machine, iris):
    X, y = iris
    calibrated = CalibratedClassifierCV(machine(random_state=0), cv=3).fit(X, y)
    probabilities = calibrated.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert calibrated.score(X, y) > 0.85


@each_machine
def test_metadata_routing_carries_the_weights(machine, overlapping):
    X, y = overlapping
    weights = np.where(y == 0, 20.0, 0.05)
    with sklearn.config_context(enable_metadata_routing=True):
        est = machine(random_state=0).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        fits = cross_validate(est, X, y, params={"sample_weight": weights}, return_estimator=True, return_indices=True)
        deaf = machine(random_state=0).set_fit_request(sample_weight=False).set_score_request(sample_weight=False)
        assert deaf.get_metadata_routing().fit.requests == {"sample_weight": False}
    for fitted, rows in zip(fits["estimator"], fits["indices"]["train"], strict=True):
        direct = machine(random_state=0).fit(X[rows], y[rows], sample_weight=weights[rows])
        np.testing.assert_array_equal(fitted.class_vectors_, direct.class_vectors_)
    heavy, even = fits["estimator"][0], machine(random_state=0).fit(X, y)
    assert np.mean(heavy.predict(X) == 0) > np.mean(even.predict(X) == 0) + 0.02  # the heavy class wins more rows


@each_machine
def test_html_and_text_representation(machine):
    est = machine(C=2.5)
    assert machine.__name__ in estimator_html_repr(est) and "2.5" in estimator_html_repr(est)
    assert machine.__name__ in est._repr_html_()
    assert repr(est) == f"{machine.__name__}(C=2.5)"


@each_machine
def test_tags(machine):
    tags = sklearn.utils.get_tags(machine())
    assert tags.estimator_type == "classifier" and tags.input_tags.sparse and tags.classifier_tags.multi_class
    assert not tags.non_deterministic and tags.target_tags.required


@each_machine
def test_verbose_does_not_change_the_fit(machine, overlapping, capfd):
    X, y = overlapping
    silent = machine(random_state=0).fit(X, y)
    quiet = capfd.readouterr()
    assert quiet.out == "" and quiet.err == ""
    loud = machine(random_state=0, verbose=1).fit(X, y)
    np.testing.assert_array_equal(silent.class_vectors_, loud.class_vectors_)
    spoken = capfd.readouterr()
    assert spoken.out + spoken.err, "verbose=1 is silently ignored"


@each_machine
def test_a_refit_that_fails_leaves_the_last_machine_whole(machine, iris):
    X, y = iris
    est = machine(random_state=0).fit(X, y)
    before = est.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        est.fit(X, np.array(["a", "b"])[y % 2], sample_weight=np.where(y % 2, 0.0, 1.0))
    np.testing.assert_array_equal(est.predict(X), before)
