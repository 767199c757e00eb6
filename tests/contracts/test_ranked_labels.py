"""P@k, nDCG@k and PSP@k against their formulas, written a second time row by row."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import ndcg_score

from polymargin.metrics import label_propensities, ndcg_at_k, precision_at_k, propensity_scored_precision_at_k

rng = np.random.default_rng(0)
Y = (rng.random((40, 12)) < 0.2).astype(np.int64)
Y[0] = 0  # a row without labels
SCORES = rng.random(Y.shape)
TOP = np.argsort(-SCORES, axis=1)[:, :6]
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.lil_array], ids=str)


@FORMS
@pytest.mark.parametrize("k", [1, 3, 6])
def test_precision_and_gain_are_their_formulas(form, k):
    shares, gains = [], []
    for labels, top in zip(Y, TOP[:, :k], strict=True):
        hits = [labels[label] for label in top]
        shares.append(sum(hits) / k)
        most = sum(1 / np.log2(j + 2) for j in range(min(k, labels.sum())))
        gains.append(sum(hit / np.log2(j + 2) for j, hit in enumerate(hits)) / most if most else 0.0)
    assert precision_at_k(form(Y), TOP, k) == pytest.approx(np.mean(shares))
    assert ndcg_at_k(form(Y), TOP, k) == pytest.approx(np.mean(gains))
    weight = rng.random(len(Y))
    assert precision_at_k(form(Y), TOP, k, sample_weight=weight) == pytest.approx(np.average(shares, weights=weight))


def test_gain_of_rows_with_labels_is_that_of_scikit_learn():
    rows = Y.sum(axis=1) > 0
    assert ndcg_at_k(Y[rows], TOP[rows], 4) == pytest.approx(ndcg_score(Y[rows], SCORES[rows], k=4))


@FORMS
def test_propensity_scores_are_their_formulas(form):
    n, counts = len(Y), Y.sum(axis=0)
    c = (np.log(n) - 1) * 2.5**0.55
    expected = 1 / (1 + c * (counts + 1.5) ** -0.55)
    np.testing.assert_allclose(label_propensities(form(Y)), expected)
    gained = sum(sum(labels[label] / expected[label] for label in top[:3]) for labels, top in zip(Y, TOP, strict=True))
    most = sum(sum(sorted((1 / expected)[labels > 0])[-3:]) for labels in Y)
    assert propensity_scored_precision_at_k(form(Y), TOP, expected, 3) == pytest.approx(gained / most)
    best = np.argsort(-Y / expected, axis=1)[:, :3]
    assert propensity_scored_precision_at_k(form(Y), best, expected, 3) == pytest.approx(1.0)


def test_one_class_a_row_is_one_label_a_row():
    names = np.array(["ant", "bee", "cat"])
    y, top = names[[0, 1, 2, 0]], names[[[0, 1], [0, 1], [1, 0], [2, 0]]]
    assert precision_at_k(y, top) == 0.25 and precision_at_k(y, top, 2) == 0.375
    assert ndcg_at_k(y, top, 2) == pytest.approx((1 + 2 / np.log2(3)) / 4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((Y, TOP, 7), "k=7 is not valid: y_top has 6"),
        ((Y, TOP, 0), "k=0 is not valid"),
        ((Y, TOP[:3], 1), "for each of 40 rows"),
        ((Y[:, :3], TOP, 1), "columns of y_true, 0 to 2"),
        ((Y, TOP.astype(float), 1), "columns of y_true"),
    ],
)
def test_what_does_not_fit_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        precision_at_k(*arguments)


def test_propensities_are_one_a_label():
    with pytest.raises(ValueError, match="propensities must be 12 numbers"):
        propensity_scored_precision_at_k(Y, TOP, [0.5])
    with pytest.raises(ValueError, match="no row with a label"):
        propensity_scored_precision_at_k(0 * Y, TOP, np.ones(12))
    with pytest.raises(ValueError, match="a label matrix"):
        label_propensities([0, 1])
