"""Warm-started paths end where cold fits end, and cost less; PathCV agrees with GridSearchCV."""

import numpy as np
import pytest
import sklearn
from registry import each_machine, is_convex
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from polymargin import M3SVC, CrammerSingerSVC, MultiLabelSVC, OneVsNoneSVC, PathCV, WestonWatkinsSVC, regularization_path

CS = [0.01, 0.1, 1.0, 10.0]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


@each_machine
def test_path_ends_where_cold_fits_end(machine, wine):
    path = regularization_path(machine(random_state=0), *wine, [10.0, 0.1, 1.0])
    assert path.values == (10.0, 0.1, 1.0)
    for C, fitted in path:
        cold = machine(C=C, random_state=0).fit(*wine)
        assert fitted.C == C and not fitted.warm_start
        assert fitted.certificate_.converged
        if is_convex(machine):
            assert abs(fitted.objective_ - cold.objective_) <= fitted.certificate_.gap + cold.certificate_.gap
        else:  # another start may lead to another minimum, but to one of its kind
            assert fitted.objective_ <= 1.2 * cold.objective_
        assert fitted.objective(*wine) == pytest.approx(fitted.objective_, rel=1e-6)


@pytest.mark.parametrize("machine", [CrammerSingerSVC, WestonWatkinsSVC])
def test_path_of_20_values_costs_less_than_cold_fits(machine):
    X, y = make_classification(600, 20, n_informative=8, n_classes=5, class_sep=0.7, random_state=0)
    path = regularization_path(machine(random_state=0), X, y)
    cold = sum(machine(C=C, random_state=0).fit(X, y).n_iter_ for C in path.values)
    assert len(path) == 20
    assert path.n_iter.sum() < 0.8 * cold


@pytest.mark.parametrize("machine", [CrammerSingerSVC, M3SVC, MultiLabelSVC, OneVsNoneSVC])
def test_a_path_knows_where_ascent_crawled(machine):
    """Interior points had to end the last fit: the next one goes to them soon."""
    X, y = make_classification(600, 20, n_informative=8, n_classes=5, class_sep=0.7, random_state=0)
    walker = machine(C=10.0, tol=1e-6, warm_start=True, random_state=0).fit(X, y)
    assert walker.certificate_.stages[-1].method == "interior points"
    walker.set_params(C=20.0).fit(X, y)
    cold = machine(C=20.0, tol=1e-6, random_state=0).fit(X, y)
    assert walker.certificate_.converged and cold.certificate_.converged
    assert walker.certificate_.stages[-1].method == "interior points"
    assert walker.n_iter_ < 0.7 * cold.n_iter_


def test_machines_of_a_path_are_independent(wine):
    path = regularization_path(CrammerSingerSVC(random_state=0), *wine, CS)
    assert len({id(machine) for machine in path.machines}) == len(CS)
    assert path.norms.shape == (4, 3)
    longer = np.diff(path.norms.sum(axis=1))  # larger C, longer vectors
    assert (longer[:2] > 0).all() and longer[2] > -1e-4  # the last two have no row on the wrong side: one machine
    assert path.scores(*wine).shape == path.objectives.shape == path.n_iter.shape == (4,)
    assert not any(name.startswith("_warm") for name in vars(path.machines[0]))


def test_bad_paths(wine):
    with pytest.raises(ValueError, match="param_name='c' is not a parameter of CrammerSingerSVC"):
        regularization_path(CrammerSingerSVC(), *wine, CS, param_name="c")
    with pytest.raises(ValueError, match="Cs is empty"):
        regularization_path(CrammerSingerSVC(), *wine, [])


def assert_same_search(ours, theirs, tolerance):
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=tolerance, rtol=0
    )
    assert ours.cv_results_["params"] == list(theirs.cv_results_["params"])
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    assert ours.n_splits_ == theirs.n_splits_


def test_agrees_with_grid_search(wine):
    est, cv = CrammerSingerSVC(tol=1e-7, random_state=0), StratifiedKFold(4, shuffle=True, random_state=1)
    ours = PathCV(est, {"C": CS}, cv=cv).fit(*wine)
    theirs = GridSearchCV(est, {"C": CS}, cv=cv).fit(*wine)
    assert_same_search(ours, theirs, 0.0)
    assert ours.best_params_ == theirs.best_params_ and ours.best_score_ == pytest.approx(theirs.best_score_)
    np.testing.assert_array_equal(ours.predict(wine[0]), theirs.predict(wine[0]))
    assert ours.score(*wine) == theirs.score(*wine)
    np.testing.assert_allclose(ours.decision_function(wine[0]), theirs.decision_function(wine[0]), atol=1e-3)
    assert ours.classes_.tolist() == [0, 1, 2] and ours.n_features_in_ == 13
    assert not hasattr(ours, "predict_proba")


def test_pipeline_fits_its_head_once_per_fold():
    calls = []

    class CountingScaler(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            calls.append(len(X))
            return super().fit(X, y, sample_weight)

    X, y = load_iris(return_X_y=True)
    model = make_pipeline(CountingScaler(), CrammerSingerSVC(tol=1e-7, random_state=0))
    ours = PathCV(model, {"crammersingersvc__C": CS}, cv=3).fit(X, y)
    assert len(calls) == 3 + 1  # folds, and the last fit
    theirs = GridSearchCV(model, {"crammersingersvc__C": CS}, cv=3).fit(X, y)
    assert_same_search(ours, theirs, 0.0)


def test_other_estimators_scorers_and_workers(wine):
    est = LogisticRegression(max_iter=1000, tol=1e-8)
    settings = {"cv": 3, "scoring": "f1_macro"}
    ours = PathCV(est, {"C": CS, "fit_intercept": [True, False]}, n_jobs=2, **settings).fit(*wine)
    theirs = GridSearchCV(est, {"C": CS, "fit_intercept": [True, False]}, **settings).fit(*wine)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-6)
    assert ours.predict_proba(wine[0]).shape == (178, 3)
    assert ours.score(*wine) == pytest.approx(theirs.score(*wine), abs=1e-3)


def test_precomputed_kernels_and_weights(wine):
    X, y = wine
    est = CrammerSingerSVC(kernel="precomputed", tol=1e-6, random_state=0)
    ours = PathCV(est, {"C": CS}, cv=3).fit(rbf_kernel(X, gamma=0.05), y)
    theirs = GridSearchCV(est, {"C": CS}, cv=3).fit(rbf_kernel(X, gamma=0.05), y)
    assert_same_search(ours, theirs, 0.0)
    weight = np.where(y == 0, 3.0, 1.0)
    weighted = PathCV(CrammerSingerSVC(random_state=0), {"C": CS}, cv=3).fit(X, y, sample_weight=weight)
    plain = clone(weighted).fit(X, y)
    assert weighted.best_estimator_.objective_ != plain.best_estimator_.objective_


def test_refit_and_messages(wine):
    search = PathCV(CrammerSingerSVC(random_state=0), {"C": CS}, cv=3, refit=False).fit(*wine)
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(wine[0])
    with pytest.raises(ValueError, match="param_grid names 'c'"):
        PathCV(CrammerSingerSVC(), {"c": CS}).fit(*wine)
    with pytest.raises(ValueError, match="at least one value"):
        PathCV(CrammerSingerSVC(), {"C": []}).fit(*wine)
    with pytest.raises(ValueError, match="path='tol' is not in param_grid"):
        PathCV(CrammerSingerSVC(), {"C": CS}, path="tol").fit(*wine)


@pytest.mark.parametrize("machine", [CrammerSingerSVC, WestonWatkinsSVC])
def test_where_ascent_crawled_the_next_fit_goes_to_interior_points_at_once(machine):
    X, y = load_iris(return_X_y=True)
    warm = machine(C=1e3, tol=1e-6, warm_start=True, random_state=0).fit(X, y)
    assert warm.n_iter_ > 200  # epochs in vain
    warm.set_params(C=1.5e3).fit(X, y)
    assert warm.certificate_.status == "optimal" and warm.n_iter_ < 60
    cold = machine(C=1.5e3, tol=1e-6, random_state=0).fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)


# ---- groups, several metrics, routed metadata ---------------------------------------------------------------------------


def agree(ours, theirs, metrics=("score",)):
    for metric in metrics:
        for name in (f"mean_test_{metric}", f"std_test_{metric}", f"rank_test_{metric}"):
            np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-12)
    assert ours.best_params_ == theirs.best_params_ and ours.n_splits_ == theirs.n_splits_


@pytest.fixture(scope="module")
def groups(wine):
    return np.random.default_rng(0).integers(0, 12, len(wine[1]))


def test_groups(wine, groups):
    settings = {"param_grid": {"C": CS}, "cv": GroupKFold(4)}
    machine = CrammerSingerSVC(tol=1e-8)
    agree(PathCV(machine, **settings).fit(*wine, groups=groups), GridSearchCV(machine, **settings).fit(*wine, groups=groups))
    with pytest.raises(ValueError, match="groups"):
        PathCV(machine, **settings).fit(*wine)


@pytest.mark.parametrize("scoring", [["accuracy", "f1_macro"], {"accuracy": "accuracy", "f1_macro": "f1_macro"}], ids=str)
def test_several_metrics(wine, scoring):
    pipeline = make_pipeline(StandardScaler(), CrammerSingerSVC(tol=1e-8))
    settings = {"param_grid": {"crammersingersvc__C": CS}, "cv": 4, "scoring": scoring, "refit": "f1_macro"}
    ours, theirs = PathCV(pipeline, **settings).fit(*wine), GridSearchCV(pipeline, **settings).fit(*wine)
    agree(ours, theirs, ("accuracy", "f1_macro"))
    assert ours.multimetric_ and ours.score(*wine) == theirs.score(*wine) and ours.best_score_ == theirs.best_score_
    with pytest.raises(ValueError, match=r"refit=True is not valid with several metrics.*'accuracy' or 'f1_macro'"):
        PathCV(pipeline, scoring=scoring).fit(*wine)
    several = PathCV(pipeline, **{**settings, "refit": False}).fit(*wine)
    assert not hasattr(several, "best_params_") and "mean_test_accuracy" in several.cv_results_


def test_a_function_decides(wine):
    def weakest_of_the_best(results):
        return int(np.flatnonzero(results["mean_test_score"] > results["mean_test_score"].max() - 0.02)[0])

    found = PathCV(CrammerSingerSVC(), {"C": CS}, refit=weakest_of_the_best).fit(*wine)
    assert found.best_index_ == weakest_of_the_best(found.cv_results_) and hasattr(found, "best_estimator_")

    def two(estimator, X, y):
        return {"right": estimator.score(X, y), "wrong": 1.0 - estimator.score(X, y)}

    assert PathCV(CrammerSingerSVC(), {"C": CS}, scoring=two, refit="right").fit(*wine).score(*wine) > 0.95
    with pytest.raises(ValueError, match="refit='left' is not valid: scoring returned right, wrong"):
        PathCV(CrammerSingerSVC(), {"C": CS}, scoring=two, refit="left").fit(*wine)


def test_routed_metadata(wine, groups):
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(wine[1]))
    given = {"sample_weight": weight, "groups": groups}
    with sklearn.config_context(enable_metadata_routing=True):
        machine = CrammerSingerSVC(tol=1e-8).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine)
        for estimator, name in ((machine, "C"), (pipeline, "crammersingersvc__C")):
            settings = {"param_grid": {name: CS}, "cv": GroupKFold(4)}
            ours, theirs = (search(estimator, **settings).fit(*wine, **given) for search in (PathCV, GridSearchCV))
            agree(ours, theirs)
            assert ours.score(*wine, sample_weight=weight) == theirs.score(*wine, sample_weight=weight)
