"""Arrays that need no conversion skip most of scikit-learn's checks: what they say must be the same."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from polymargin import CrammerSingerSVC, validation


def blobs(n=60, d=4, c=3):
    rng = np.random.default_rng(0)
    y = np.arange(n) % c
    return rng.normal(size=(c, d))[y] + rng.normal(size=(n, d)), y


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.int32])
def test_counted_classes_are_those_of_unique(dtype):
    rng = np.random.default_rng(1)
    y = rng.choice(np.array([3, 7, 100, 120]), size=50).astype(dtype)
    classes, indices = validation.counted_classes(y)
    expected, places = np.unique(y, return_inverse=True)
    assert classes.dtype == dtype
    assert np.array_equal(classes, expected) and np.array_equal(indices, places)


def test_negative_ones_too():
    y = np.array([-128, 127] * 40, dtype=np.int8)
    classes, indices = validation.counted_classes(y)
    assert classes.tolist() == [-128, 127] and indices.tolist() == [0, 1] * 40


@pytest.mark.parametrize(
    "y",
    [np.array([0.0, 1.0]), np.array(["a", "b"]), np.array([0, 10**12] * 9), np.arange(30), np.array([], dtype=int), [0, 1]],
)
def test_others_are_left_to_scikit_learn(y):
    assert validation.counted_classes(y) is None


def test_many_classes_are_warned_of():
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.warns(UserWarning, match="greater than 50%"):
        CrammerSingerSVC().fit(X, np.minimum(np.arange(30), 25))


@pytest.mark.parametrize("bad, said", [(np.nan, "contains NaN"), (np.inf, "contains infinity")])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_what_is_not_finite_is_refused_as_ever(make, bad, said):
    X, y = blobs()
    X[5, 2] = bad
    for rows in (make(X), make(X.astype(np.float32))):
        with pytest.raises(ValueError, match=f"Input X {said}"):
            CrammerSingerSVC().fit(rows, y)


def test_lengths_must_agree():
    X, y = blobs()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CrammerSingerSVC().fit(X, y[:-1])


def test_machines_and_attributes_are_the_same():
    X, y = blobs()
    plain, checked = CrammerSingerSVC().fit(X, y), CrammerSingerSVC().fit(X.tolist(), y.astype(float))
    assert np.array_equal(plain.class_vectors_, checked.class_vectors_)
    assert plain.n_features_in_ == checked.n_features_in_ == 4


def test_names_of_columns_are_forgotten():
    pandas = pytest.importorskip("pandas")
    X, y = blobs()
    machine = CrammerSingerSVC().fit(pandas.DataFrame(X, columns=list("abcd")), y)
    assert hasattr(machine, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not hasattr(machine.fit(X, y), "feature_names_in_")
        machine.predict(X)


def test_duplicate_entries_count_together():
    """The largest entry of a matrix with duplicates is not that of its parts."""
    X, y = blobs()
    half = sparse.coo_matrix(X)
    row, col = np.append(half.row, half.row), np.append(half.col, half.col)
    order = np.argsort(row, kind="stable")
    starts = np.searchsorted(row[order], np.arange(61))
    twice = sparse.csr_matrix((np.append(half.data, half.data)[order] / 2, col[order], starts), shape=X.shape)
    machine = CrammerSingerSVC(tol=1e-8).fit(twice, y)
    assert machine.certificate_.primal == pytest.approx(CrammerSingerSVC(tol=1e-8).fit(X, y).certificate_.primal, rel=1e-7)
