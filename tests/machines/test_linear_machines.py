"""What linear machines offer beside scores: support rows, coefficients, top features, sparse class vectors."""

import pickle

import numpy as np
import pandas as pd
import pytest
from registry import all_estimators
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

from polymargin import M3SVC, AngularSVC, CrammerSingerSVC, MarginDistributionSVC, OneVsNoneSVC, WestonWatkinsSVC, load, save
from polymargin.diagnostics import angles

MACHINES = all_estimators()
WITH_DUALS = [machine for machine in MACHINES if machine is not AngularSVC]
IRIS = load_iris()
X, NAMES = scale(IRIS.data), IRIS.feature_names
y = IRIS.target_names[IRIS.target]
Y = np.column_stack([X[:, 2] > 0, X[:, 3] > 0.2, X[:, 1] > -0.5]).astype(int)


# ---- support rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("machine", WITH_DUALS)
def test_support_rows_make_the_class_vectors(machine, C):
    est = machine(C, warm_start=True, tol=1e-8).fit(X, y)
    assert 0 < len(est.support_) < len(X)
    np.testing.assert_array_equal(est.n_support_, [np.sum(y[est.support_] == label) for label in est.classes_])
    assert est.dual_coef_.shape == (3, len(est.support_)) and (est.dual_coef_ != 0).any(axis=0).all()
    made, vectors = est.dual_coef_ @ X[est.support_], est.class_vectors_
    np.testing.assert_allclose(made, vectors, atol=1e-3 * abs(vectors).max())  # a gap is about the square of a distance


@pytest.mark.parametrize("machine", [m for m in WITH_DUALS if m is not MarginDistributionSVC])  # is not convex
def test_rows_that_are_no_support_may_go(machine):
    est = machine(tol=1e-10).fit(X, y)
    fewer = machine(tol=1e-10).fit(X[est.support_], y[est.support_])
    assert fewer.objective_ == pytest.approx(est.objective_, rel=1e-6)


def test_support_rows_are_those_of_x_with_weights_labels_and_two_classes():
    weight = np.where(np.arange(len(X)) % 3, 1.0, 0.0)
    est, without = CrammerSingerSVC().fit(X, y, weight), CrammerSingerSVC().fit(X[weight > 0], y[weight > 0])
    np.testing.assert_array_equal(est.support_, np.flatnonzero(weight)[without.support_])
    labels = OneVsNoneSVC(warm_start=True, tol=1e-8).fit(X, Y)
    np.testing.assert_allclose(labels.dual_coef_ @ X[labels.support_], labels.class_vectors_, atol=1e-4)
    rows, two = load_breast_cancer(return_X_y=True)
    est = WestonWatkinsSVC().fit(scale(rows), two)
    assert len(est.support_) == est.n_support_.sum() and est.n_support_.shape == (2,)


def test_where_there_are_no_duals_a_sentence_says_so():
    with pytest.raises(AttributeError, match=r"AngularSVC has no support_: the fit left no duals\."):
        _ = AngularSVC().fit(X, y).support_
    with pytest.raises(AttributeError, match=r"M3SVC has no support_: the fit left no duals\."):
        _ = M3SVC(loss="softmax").fit(X, y).support_
    with pytest.raises(AttributeError, match="CrammerSingerSVC has no dual_coef_: fit it with warm_start=True"):
        _ = CrammerSingerSVC().fit(X, y).dual_coef_
    with pytest.raises(AttributeError, match="CrammerSingerSVC has no support_ before fit"):
        _ = CrammerSingerSVC().support_


def test_support_is_kept_in_files_and_forgotten_by_another_kind_of_fit(tmp_path):
    est = CrammerSingerSVC(warm_start=True).fit(X, y)
    save(est, tmp_path / "m.pm")
    read = load(tmp_path / "m.pm")
    np.testing.assert_array_equal(read.support_, est.support_)
    assert not hasattr(read, "dual_coef_")  # a file holds no duals
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(est)).dual_coef_, est.dual_coef_)
    assert len(est._support_bits) == -(-len(X) // 8)  # a bit a row
    kernel = est.set_params(kernel="rbf").fit(X, y)
    np.testing.assert_array_equal(kernel.support_vectors_, X[kernel.support_])
    save(kernel, tmp_path / "k.pm")
    np.testing.assert_array_equal(load(tmp_path / "k.pm").dual_coef_, kernel.dual_coef_)
    linear = est.set_params(kernel="linear", warm_start=False).fit(X, y)
    assert not hasattr(linear, "dual_coef_") and not hasattr(linear, "support_vectors_")
    linear.set_params(kernel="linear", warm_start=True).fit(X, y)
    assert angles(linear).shape == (3, 3)  # a linear machine that has duals is a linear machine


# ---- top features -------------------------------------------------------------------------------------------------------


def test_features_speak_for_classes_by_their_gain_on_the_mean():
    est = CrammerSingerSVC().fit(pd.DataFrame(X, columns=NAMES), y)
    top = est.top_features(k=3)
    assert list(top) == list(est.classes_) and all(len(features) == 3 for features in top.values())
    V = est.class_vectors_ - est.class_vectors_.mean(axis=0)
    for k, label in enumerate(est.classes_):
        order = np.argsort(-abs(V[k]))[:3]
        assert [feature.name for feature in top[label]] == [NAMES[j] for j in order]
        np.testing.assert_allclose([feature.weight for feature in top[label]], V[k, order])
    assert "virginica:\n" in repr(top) and "petal length (cm)" in str(top)


def test_a_pair_of_classes_is_told_apart_by_the_difference_of_their_vectors():
    est = WestonWatkinsSVC().fit(X, y)
    ((pair, features),) = est.top_features(k=2, pair=("setosa", "virginica")).items()
    difference = est.class_vectors_[0] - est.class_vectors_[2]
    order = np.argsort(-abs(difference))[:2]
    assert pair == ("setosa", "virginica") and features == [(f"x{j}", difference[j]) for j in order]
    assert "setosa against virginica:" in repr(est.top_features(pair=("setosa", "virginica")))


def test_labels_do_not_compete_and_have_the_names_of_their_columns():
    est = OneVsNoneSVC().fit(X, pd.DataFrame(Y, columns=["long", "wide", "high"]))
    top = est.top_features(k=1)
    assert list(top) == ["long", "wide", "high"]
    assert top["long"][0].weight == est.class_vectors_[0, np.argmax(abs(est.class_vectors_[0]))]
    est.fit(X, y)
    assert list(est.top_features()) == list(est.classes_)


def test_top_features_refuse_with_a_sentence():
    est = CrammerSingerSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"names has 2 entries, but CrammerSingerSVC was fitted on 4 columns\."):
        est.top_features(["a", "b"])
    with pytest.raises(ValueError, match=r"pair=\('setosa', 'rose'\) is not valid: give two of the classes \['setosa'"):
        est.top_features(pair=("setosa", "rose"))
    with pytest.raises(ValueError, match="k=0 is not valid"):
        est.top_features(k=0)
    with pytest.raises(AttributeError, match="has no top_features with kernel='rbf', only with kernel='linear'"):
        CrammerSingerSVC(kernel="rbf").fit(X, y).top_features()
    with pytest.raises(NotFittedError):
        CrammerSingerSVC().top_features()


# ---- sparse class vectors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X), X.astype(np.float32)], ids=["dense", "csr", "float32"])
@pytest.mark.parametrize("classes", [2, 3])
def test_sparse_class_vectors_score_as_dense_ones(rows, classes, tmp_path):
    some = np.flatnonzero(np.isin(y, np.unique(y)[:classes]))
    est = M3SVC(norm="l1", C=0.1).fit(X[some], y[some])
    scores, labels, objective = est.decision_function(rows), est.predict(rows), est.objective(X[some], y[some])
    assert est.sparsify() is est and sparse.issparse(est.coef_) and est.coef_.shape == (1 if classes == 2 else 3, 4)
    save(est, tmp_path / "m.pm")
    for one in (est, load(tmp_path / "m.pm"), pickle.loads(pickle.dumps(est))):
        assert sparse.issparse(one.class_vectors_)
        np.testing.assert_allclose(one.decision_function(rows), scores, rtol=1e-6)
        np.testing.assert_array_equal(one.predict(rows), labels)
        assert one.objective(X[some], y[some]) == pytest.approx(objective, rel=1e-12)
    top = est.top_features()
    vectors = est.class_vectors_.toarray()
    est.densify()
    assert repr(est.top_features()) == repr(top)
    np.testing.assert_array_equal(est.class_vectors_, vectors)
    assert isinstance(est.sparsify().fit(X, y).class_vectors_, np.ndarray)


def test_sparse_class_vectors_are_those_of_a_fitted_linear_machine():
    with pytest.raises(NotFittedError):
        CrammerSingerSVC().sparsify()
    assert not hasattr(CrammerSingerSVC(kernel="rbf"), "sparsify")  # scikit-learn's checks go by that
