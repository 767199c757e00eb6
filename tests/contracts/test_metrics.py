"""Measures that know the unknown: equal to scikit-learn's where all is known."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import metrics
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from polymargin import OneVsNoneSVC
from polymargin.metrics import METRICS, brier_score, expected_calibration_error, known_label_score, known_label_scorer

SCIKIT_LEARN = {
    "jaccard": lambda Y, P, w: metrics.jaccard_score(Y, P, average="samples", zero_division=1.0, sample_weight=w),
    "micro_f1": lambda Y, P, w: metrics.f1_score(Y, P, average="micro", zero_division=0.0, sample_weight=w),
    "macro_f1": lambda Y, P, w: metrics.f1_score(Y, P, average="macro", zero_division=0.0, sample_weight=w),
    "subset_accuracy": lambda Y, P, w: metrics.accuracy_score(Y, P, sample_weight=w),
    "hamming_loss": lambda Y, P, w: metrics.hamming_loss(Y, P, sample_weight=w),
    "label_accuracy": lambda Y, P, w: 1.0 - metrics.hamming_loss(Y, P, sample_weight=w),
}


@pytest.fixture
def guesses():
    rng = np.random.default_rng(3)
    Y = (rng.random((40, 5)) < 0.4).astype(int)
    return Y, np.where(rng.random(Y.shape) < 0.3, 1 - Y, Y), rng.random(40)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("zeros", ["auto", "absent"])
def test_where_all_is_known_it_is_scikit_learns(metric, zeros, guesses):
    Y, P, weight = guesses
    for w in (None, weight):
        expected = SCIKIT_LEARN[metric](Y, P, w)
        assert known_label_score(Y, P, metric=metric, zeros=zeros, sample_weight=w) == pytest.approx(expected)
        signed = np.where(Y > 0, 1, -1)
        assert known_label_score(signed, sparse.csr_array(P), metric=metric, sample_weight=w) == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
def test_unknown_entries_do_not_count(metric, guesses):
    """Whatever is predicted there; scikit-learn's own would count -1 as a label."""
    Y, P, _ = guesses
    signed = np.where(Y > 0, 1, -1)
    unknown = np.random.default_rng(4).random(Y.shape) < 0.4
    signed[unknown] = 0
    other = np.where(unknown, 1 - P, P)
    assert known_label_score(signed, P, metric=metric) == known_label_score(signed, other, metric=metric)
    right = known_label_score(signed, signed, metric=metric)
    assert right == pytest.approx(0.0 if metric == "hamming_loss" else 1.0)


def test_by_hand():
    Y, P = [[1, -1, 0], [0, 0, 0], [1, 1, -1]], [[1, 1, 1], [1, 1, 1], [1, 0, 0]]
    measured = {metric: known_label_score(Y, P, metric=metric) for metric in METRICS}
    expected = {"jaccard": 0.5, "micro_f1": 4 / 6, "macro_f1": 1 / 3, "subset_accuracy": 0.0}
    expected |= {"label_accuracy": 3 / 5, "hamming_loss": 2 / 5}
    assert measured == pytest.approx(expected)
    assert known_label_score([[1, 0]], [[1, 1]], zeros="unknown") == 1.0
    assert known_label_score([[1, 0]], [[1, 1]]) == 0.5


def test_it_is_a_scorer():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    Y = np.where(X[:, :2] > 0, 1, -1)
    Y[rng.random(Y.shape) < 0.3] = 0
    search = GridSearchCV(OneVsNoneSVC(random_state=0), {"C": [0.01, 10.0]}, scoring=known_label_scorer(), cv=3).fit(X, Y)
    assert search.best_params_ == {"C": 10.0}
    by_hand = [
        known_label_score(Y[test], clone(search.best_estimator_).fit(X[train], Y[train]).predict(X[test]))
        for train, test in KFold(3).split(X)
    ]
    assert search.best_score_ == pytest.approx(np.mean(by_hand))
    losses = cross_val_score(OneVsNoneSVC(C=10.0), X, Y, scoring=known_label_scorer("hamming_loss"), cv=3)
    assert (losses <= 0).all() and losses.mean() > -0.5
    machine = OneVsNoneSVC(C=10.0).fit(X, Y)
    assert machine.score(X, Y) == pytest.approx(known_label_scorer("subset_accuracy")(machine, X, Y))


def test_labels_without_members_have_their_names_where_they_are_known():
    pandas = pytest.importorskip("pandas")
    X, Y = np.eye(3), pandas.DataFrame({"sun": [1, 0, 1], "rain": [0, 1, 0], "snow": [0, -1, 0]})
    with pytest.raises(ValueError, match=r"no row with a 1 in the columns \['snow'\]"):
        OneVsNoneSVC().fit(X, Y)
    with pytest.raises(ValueError, match=r"no row with a 1 in the columns \[2\]"):
        OneVsNoneSVC().fit(X, Y.to_numpy())


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([[1, 2]], [[1, 1]]), "must hold 1"),
        (([1, 0], [1, 0]), "matrix"),
        (([[1, 0]], [[1, 0, 1]]), r"shape \(1, 2\), but y_pred has \(1, 3\)"),
        (([["a", "b"]], [[1, 0]]), "matrix of numbers"),
    ],
)
def test_what_is_no_label_matrix_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        known_label_score(*arguments)


def test_nothing_known_is_an_error():
    with pytest.raises(ValueError, match="no known entry"):
        known_label_score([[0, 0]], [[1, 0]], zeros="unknown")
    with pytest.raises(ValueError, match="metric='f1' is not valid"):
        known_label_scorer("f1")


# -- probabilities -----------------------------------------------------------------------------------------


def test_calibration_error_of_bins_by_hand():
    P = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    y = np.array([0, 1, 0, 0])  # half of those at 0.9, all of those at 0.6
    assert expected_calibration_error(y, P, n_bins=10) == pytest.approx(0.5 * 0.4 + 0.5 * 0.4)
    assert expected_calibration_error(y, P[:, 1], n_bins=10) == pytest.approx(0.4)
    assert expected_calibration_error(y, P, n_bins=1) == pytest.approx(0.0, abs=1e-12)
    assert expected_calibration_error(y, P, n_bins=2, strategy="quantile") == pytest.approx(0.4)
    assert expected_calibration_error(y, P, n_bins=10, sample_weight=[1, 0, 0, 0]) == pytest.approx(0.1)


def test_classes_without_a_row_need_a_name():
    P = np.full((2, 3), 1 / 3)
    with pytest.raises(ValueError, match="give the classes"):
        expected_calibration_error(["a", "b"], P)
    assert expected_calibration_error(["a", "b"], P, classes=["c", "b", "a"]) == pytest.approx(1 / 3)
    assert brier_score(["z"], P[:1], classes=["c", "b", "a"]) == pytest.approx(4 / 3)
    for bad in (P * 2, -P, np.full((2, 3), np.nan), P[:1]):
        with pytest.raises(ValueError, match="y_prob"):
            brier_score(["a", "b"], bad, classes=["a", "b", "c"])


def test_brier_score_is_scikit_learns_twice():
    rng = np.random.default_rng(0)
    y, p, w = rng.integers(2, size=50), rng.random(50), rng.random(50)
    ours = brier_score(y, p, sample_weight=w)
    assert ours == pytest.approx(2 * metrics.brier_score_loss(y, p, sample_weight=w))
