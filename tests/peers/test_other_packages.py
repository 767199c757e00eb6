"""Packages that build on scikit-learn's classifiers take our machines: each is skipped where it is not installed."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

from polymargin import CrammerSingerSVC, WestonWatkinsSVC

IRIS, KINDS = scale(load_iris().data), load_iris().target
RARE = make_classification(300, 8, weights=[0.8], random_state=0)


@pytest.mark.parametrize("machine", [CrammerSingerSVC(), WestonWatkinsSVC(), CrammerSingerSVC(kernel="rbf")], ids=str)
def test_svmsmote_finds_the_support_rows(machine):
    over_sampling = pytest.importorskip("imblearn.over_sampling", reason="imbalanced-learn is not installed")
    for X, y in (RARE, (IRIS[:120], KINDS[:120])):
        _, labels = over_sampling.SVMSMOTE(svm_estimator=machine, random_state=0).fit_resample(X, y)
        assert len(set(np.bincount(labels))) == 1  # as many rows of each class


@pytest.mark.parametrize("X, y", [RARE, (IRIS, KINDS)], ids=["two classes", "three"])
def test_shap_explains_linear_machines(X, y):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    machine = CrammerSingerSVC().fit(X, y)
    explainer = shap.LinearExplainer(machine, X)
    explained = np.asarray(explainer.shap_values(X[:5])).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(explained, machine.decision_function(X[:5]), atol=1e-10)


def test_dask_predicts_in_pieces():
    wrappers = pytest.importorskip("dask_ml.wrappers", reason="dask-ml is not installed")
    array = pytest.importorskip("dask.array", reason="dask is not installed")
    machine = wrappers.ParallelPostFit(CrammerSingerSVC()).fit(IRIS, KINDS)
    found = machine.predict(array.from_array(IRIS, chunks=(50, 4))).compute()
    np.testing.assert_array_equal(found, machine.estimator.predict(IRIS))


def test_optuna_searches_parameters():
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def accuracy(trial):
        C, kernel = trial.suggest_float("C", 1e-4, 10.0, log=True), trial.suggest_categorical("kernel", ["linear", "rbf"])
        return cross_val_score(CrammerSingerSVC(C=C, kernel=kernel), IRIS, KINDS, cv=3).mean()

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(accuracy, n_trials=8)
    assert study.best_value > 0.9
    assert CrammerSingerSVC(**study.best_params).fit(IRIS, KINDS).score(IRIS, KINDS) > 0.9


def test_yellowbrick_shows_scores():
    classifier = pytest.importorskip("yellowbrick.classifier", reason="yellowbrick is not installed")
    # yellowbrick 1.5 takes no classifier of scikit-learn 1.6 or later for one, scikit-learn's own included
    shown = classifier.ClassificationReport(CrammerSingerSVC(), force_model=True).fit(IRIS, KINDS)
    assert shown.score(IRIS, KINDS) > 0.9
