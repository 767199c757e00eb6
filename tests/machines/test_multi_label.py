"""MultiLabelSVC: optima against CVXPY, losses, certificates, thresholds, label matrices of all kinds."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.svm import SVC, LinearSVC

from polymargin import CrammerSingerSVC, MultiLabelSVC, OneVsNoneSVC, WestonWatkinsSVC
from polymargin.estimators.fitting.cut import Judged, best_cut, best_cuts, label_sets, steady_cuts
from polymargin.losses.label_sets import SET_LOSSES
from polymargin.metrics import OF_CUTS, known_label_score

LOSSES = tuple(SET_LOSSES)
each_loss = pytest.mark.parametrize("loss", LOSSES)


def labelled(seed=0, n=60, d=5, c=4, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5
    S = X @ rng.standard_normal((d, c)) + noise * rng.standard_normal((n, c))
    Y = (S > 0.5).astype(np.int64)
    Y[:2] = [[0] * c, [1] * c]  # nothing to rank
    return X, Y


def written_out(loss, S, t, weight):
    """The loss of one row, pair by pair, as a CVXPY expression."""
    members, others = np.flatnonzero(t > 0), np.flatnonzero(t < 0)
    if loss in ("relevance", "squared_relevance"):
        known = np.flatnonzero(t)
        hinges = cp.pos(1 - cp.multiply(t[known], S[known]))
        return cp.sum(cp.multiply(weight[known], cp.square(hinges) if loss == "squared_relevance" else hinges))
    if not len(members) or not len(others):
        return cp.Constant(0.0)
    pairs = cp.hstack([cp.pos(1 - S[k] + S[other]) for k in members for other in others])
    return cp.sum(pairs) / (len(members) * len(others)) if loss == "ranking" else cp.max(pairs)


def optimum(loss, X, T, C, v=None, weight=None, fit_intercept=True):
    n, c = T.shape
    W, b = cp.Variable((X.shape[1], c)), cp.Variable(c)
    v = np.ones(n) if v is None else v
    weight = np.ones(c) if weight is None else weight
    terms = [v[i] * written_out(loss, X[i] @ W + (b if fit_intercept else 0), T[i], weight) for i in range(n)]
    problem = cp.Problem(cp.Minimize(C * cp.sum(cp.hstack(terms)) + 0.5 * cp.sum_squares(W)))
    return float(problem.solve(solver=cp.CLARABEL))


def signs(Y):
    return Y if (Y < 0).any() else np.where(Y > 0, 1, -1)


@each_loss
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_the_optimum_is_that_of_an_interior_point_solver(loss, fit_intercept, C):
    X, Y = labelled()
    machine = MultiLabelSVC(C, loss=loss, threshold=0.0, fit_intercept=fit_intercept, tol=1e-6, max_iter=50_000).fit(X, Y)
    reference = optimum(loss, X, signs(Y), C, fit_intercept=fit_intercept)
    end = machine.certificate_
    assert end.converged and end.rel_gap <= 1e-6
    assert end.dual <= reference * (1 + 1e-7)
    assert end.primal == pytest.approx(reference, rel=2e-6)
    assert machine.objective(X, Y) == pytest.approx(end.primal, rel=1e-10)


@each_loss
def test_unknown_labels_and_weights_take_part_as_they_should(loss):
    X, Y = labelled(1)
    rng = np.random.default_rng(0)
    T = signs(Y) * (rng.random(Y.shape) < 0.7)
    v, per_label = rng.uniform(0.2, 3.0, len(X)), np.array([1.0, 0.3, 2.0, 1.0])
    weights = dict(enumerate(per_label))
    machine = MultiLabelSVC(loss=loss, threshold=0.0, class_weight=weights, tol=1e-6, max_iter=20_000)
    machine.fit(X, T, sample_weight=v)
    if "relevance" in loss:
        reference = optimum(loss, X, T, 1.0, v, per_label)
    else:  # a row weighs what its labels do on average
        counts = (T > 0).sum(axis=1)
        rows = np.where(counts > 0, (T > 0) @ per_label / np.maximum(counts, 1), 1.0)
        reference = optimum(loss, X, T, 1.0, v * rows)
    assert machine.objective_ == pytest.approx(reference, rel=2e-6)
    assert machine.objective(X, T, v) == pytest.approx(machine.objective_, rel=1e-10)


def test_relevance_is_the_binary_svm_of_each_label():
    X, Y = labelled(2)
    machine = MultiLabelSVC(C=2.0, tol=1e-8, max_iter=100_000).fit(X, Y)
    for k in range(Y.shape[1]):
        svc = SVC(kernel="linear", C=2.0, tol=1e-8).fit(X, Y[:, k])
        np.testing.assert_allclose(machine.decision_function(X)[:, k], svc.decision_function(X), atol=2e-3)


def test_relevance_is_linear_svc_where_the_offset_does_not_matter():
    X, Y = labelled(3)
    machine = MultiLabelSVC(tol=1e-8, fit_intercept=False, max_iter=100_000).fit(X, Y)
    for k in range(Y.shape[1]):
        linear = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-8, max_iter=1_000_000).fit(X, Y[:, k])
        np.testing.assert_allclose(machine.class_vectors_[k], linear.coef_[0], atol=1e-3)


def test_rankings_of_one_label_are_the_classical_machines():
    X, y = load_iris(return_X_y=True)
    worst = MultiLabelSVC(loss="max_ranking", tol=1e-6).fit(X, y)
    assert worst.objective_ == pytest.approx(CrammerSingerSVC(tol=1e-6).fit(X, y).objective_, rel=2e-6)
    pairs = MultiLabelSVC(loss="ranking", C=2.0, tol=1e-6).fit(X, y)
    assert pairs.objective_ == pytest.approx(WestonWatkinsSVC(tol=1e-6).fit(X, y).objective_, rel=2e-6)


@each_loss
def test_kernel_and_linear_agree(loss):
    X, Y = labelled(4)
    linear = MultiLabelSVC(loss=loss, threshold=0.0, tol=1e-6, max_iter=20_000).fit(X, Y)
    by_kernel = MultiLabelSVC(loss=loss, threshold=0.0, tol=1e-6, max_iter=20_000, kernel="precomputed").fit(X @ X.T, Y)
    assert by_kernel.objective_ == pytest.approx(linear.objective_, rel=2e-6)
    rbf = MultiLabelSVC(loss=loss, kernel="rbf", C=10.0).fit(X, Y)
    assert rbf.certificate_.converged
    assert known_label_score(Y, rbf.predict(X)) > known_label_score(Y, linear.predict(X))


@each_loss
def test_sparse_rows_and_labels_in_and_out(loss):
    X, Y = labelled(5)
    dense = MultiLabelSVC(loss=loss, tol=1e-6).fit(X, Y)
    other = MultiLabelSVC(loss=loss, tol=1e-6).fit(sparse.csr_matrix(X), sparse.csr_matrix(Y))
    found = other.predict(sparse.csr_matrix(X))
    assert sparse.issparse(found) and found.dtype == Y.dtype
    assert other.objective_ == pytest.approx(dense.objective_, rel=2e-6)
    assert (found.toarray() == dense.predict(X)).mean() > 0.98


def test_labels_that_are_the_same_for_all_rows_are_kept_as_constants():
    X, Y = labelled(6, c=5)
    Y[:, 1], Y[:, 3] = 0, 1
    with pytest.warns(UserWarning, match="2 of 5 labels are the same for all rows.*: 1, 3.") as caught:
        machine = MultiLabelSVC(threshold="per_label").fit(X, Y)
    assert len(caught) == 1
    assert machine.constant_labels_.tolist() == [1, 3]
    found = machine.predict(X)
    assert not found[:, 1].any() and found[:, 3].all()
    without = MultiLabelSVC().fit(X, Y[:, [0, 2, 4]])
    assert machine.objective_ == pytest.approx(without.objective_, rel=2e-4)


@each_loss
def test_threads_and_order_of_columns_do_not_matter(loss):
    X, Y = labelled(7)
    one = MultiLabelSVC(loss=loss, threshold=0.0, tol=1e-6, max_iter=10_000).fit(X, Y)
    two = MultiLabelSVC(loss=loss, threshold=0.0, tol=1e-6, max_iter=10_000, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(one.class_vectors_, two.class_vectors_)
    turned = MultiLabelSVC(loss=loss, threshold=0.0, tol=1e-6, max_iter=10_000).fit(X, Y[:, ::-1])
    assert turned.objective_ == pytest.approx(one.objective_, rel=2e-6)


@each_loss
def test_a_warm_start_ends_where_a_cold_one_does(loss):
    X, Y = labelled(8)
    warm = MultiLabelSVC(0.1, loss=loss, threshold=0.0, warm_start=True).fit(X, Y)
    first = warm.n_iter_
    assert warm.fit(X, Y).n_iter_ <= first
    warm.set_params(C=1.0).fit(X, Y)
    cold = MultiLabelSVC(1.0, loss=loss, threshold=0.0).fit(X, Y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-4)


# ---- thresholds ---------------------------------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("threshold", ["auto", "per_label"])
@pytest.mark.parametrize("metric", OF_CUTS)
def test_thresholds_are_chosen_on_rows_left_out(loss, threshold, metric):
    X, Y = labelled(9, n=120)
    machine = MultiLabelSVC(loss=loss, threshold=threshold, metric=metric).fit(X, Y)
    assert np.shape(machine.threshold_) == (() if threshold == "auto" else (4,))
    assert 0.2 < machine.threshold_score_ <= 1.0
    assert known_label_score(Y, machine.predict(X), metric=metric) > machine.threshold_score_ - 0.15


@pytest.mark.parametrize("metric", OF_CUTS)
@pytest.mark.parametrize("seed", range(4))
def test_one_cut_for_all_is_the_best_there_is(metric, seed):
    rng = np.random.default_rng(seed)
    scores, Y, weight = np.round(rng.standard_normal((25, 4)), 1), rng.integers(-1, 2, (25, 4)), rng.uniform(0.5, 2.0, 25)
    if seed % 2:
        Y = np.abs(Y)

    def quality(cut):
        return known_label_score(Y, label_sets(scores, cut, allow_empty=True), metric=metric, sample_weight=weight)

    every = [*np.unique(scores), 10.0]
    found = best_cut(scores, Y, weight, metric, allow_empty=True)
    assert quality(found) == pytest.approx(max(map(quality, every)))
    own = best_cuts(scores, Y, weight, metric)
    assert quality(own) >= quality(found) - 1e-9


@pytest.mark.parametrize("metric", ["jaccard", "subset_accuracy"])
@pytest.mark.parametrize("seed", range(4))
def test_no_cut_of_a_label_is_better_beside_those_of_the_others(metric, seed):
    rng = np.random.default_rng(seed)
    Y, weight = rng.integers(-1, 2, (40, 4)), rng.uniform(0.5, 2.0, 40)
    scores = np.round(Y + rng.standard_normal((40, 4)), 1)  # with ties
    if seed % 2:
        Y = np.abs(Y)
    cuts = best_cuts(scores, Y, weight, metric)

    def quality(k, cut):
        moved = np.where(np.arange(4) == k, cut, cuts)
        return known_label_score(Y, label_sets(scores, moved, allow_empty=True), metric=metric, sample_weight=weight)

    for k in range(4):
        others = max(quality(k, cut) for cut in [*np.unique(scores[:, k]), 10.0])
        assert others <= quality(k, cuts[k]) + 2e-5  # what a round must be worth, and rounding


def test_some_rows_keep_the_orders_of_all():
    rng = np.random.default_rng(2)
    scores, Y = np.round(rng.standard_normal((40, 5)), 1), rng.integers(-1, 2, (40, 5)).astype(np.int8)
    rows, weight = rng.random(40) < 0.5, rng.uniform(0.5, 2.0, 40)
    part, anew = Judged(scores, Y, weight).part(rows), Judged(scores[rows], Y[rows], weight[rows])
    for name in ("scores", "member", "known", "weight", "down", "by_row", "by_label"):
        np.testing.assert_array_equal(getattr(part, name), getattr(anew, name), err_msg=name)


def test_cuts_of_rare_labels_are_drawn_together():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((400, 30))
    Y = (scores + 2.0 * rng.standard_normal(scores.shape) > 4.0).astype(np.int8)  # the same cut for all, and few members
    weight = np.ones(len(scores))
    steady, own = steady_cuts(scores, Y, weight, "micro_f1", 0), best_cuts(scores, Y, weight, "micro_f1")
    assert np.std(steady.cuts) < 0.5 * np.std(np.clip(own, -4.0, 4.0))


@pytest.mark.parametrize("metric", ["jaccard", "micro_f1", "macro_f1"])  # of label sets as a whole few are right anyway
def test_many_cuts_are_not_praised_for_what_they_know_by_heart(metric):
    rng = np.random.default_rng(1)
    scores, weight = rng.standard_normal((100, 60)), np.ones(100)
    Y = (rng.random(scores.shape) < 0.03).astype(np.int8)  # scores say nothing
    by_heart = known_label_score(Y, scores >= best_cuts(scores, Y, weight, metric), metric=metric)
    new = (rng.random(scores.shape) < 0.03).astype(np.int8)
    found = steady_cuts(scores, Y, weight, metric, 0)
    worth = known_label_score(new, label_sets(scores, found.cuts, found.allow_empty), metric=metric)
    assert abs(found.value - worth) < 0.5 * (by_heart - worth)


def test_empty_sets_are_allowed():
    X, Y = labelled(10)
    assert (MultiLabelSVC().fit(X, Y).predict(X).sum(axis=1) == 0).any()


def hardly_told_apart(seed, empty):
    """Rows with one label each, or for the most part with none, and columns that say something about it."""
    rng = np.random.default_rng(seed)
    Y = np.eye(4, dtype=int)[rng.integers(0, 4, 300)]
    Y[rng.random(len(Y)) < empty] = 0
    return 1.2 * Y + rng.standard_normal(Y.shape), Y


@pytest.mark.parametrize("threshold", ["auto", "per_label"])
@pytest.mark.parametrize("metric", ["jaccard", "subset_accuracy"])
def test_whether_sets_may_be_empty_is_chosen_on_rows_left_out(threshold, metric):
    X, Y = hardly_told_apart(0, empty=0.0)
    X_new, Y_new = hardly_told_apart(1, empty=0.0)

    def quality(machine):
        return known_label_score(Y_new, machine.predict(X_new), metric=metric)

    asked = MultiLabelSVC(loss="squared_relevance", threshold=threshold, metric=metric)
    free, full = clone(asked).set_params(allow_empty=True).fit(X, Y), clone(asked).fit(X, Y)
    assert free.allow_empty_ and not full.allow_empty_ and full.predict(X_new).any(axis=1).all()
    assert full.threshold_score_ > free.threshold_score_ and quality(full) > quality(free)
    assert clone(asked).fit(*hardly_told_apart(0, empty=0.6)).allow_empty_


def test_rows_that_must_have_a_label_have_that_of_the_highest_score():
    X, Y = labelled(10)
    machine = MultiLabelSVC(allow_empty=False).fit(X, Y)
    few, scores = MultiLabelSVC().fit(X, Y).predict(X), machine.decision_function(X)
    none = few.sum(axis=1) == 0
    np.testing.assert_array_equal(machine.predict(X)[~none], few[~none])
    np.testing.assert_array_equal(machine.predict(X)[none], np.eye(4, dtype=int)[scores[none].argmax(axis=1)])


# ---- kind errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, words",
    [
        ({"loss": "hinge"}, "loss='hinge'.*relevance"),
        ({"threshold": "best"}, "threshold='best'.*per_label"),
        ({"metric": "f1"}, "metric='f1'.*micro_f1"),
        ({"allow_empty": "no"}, "allow_empty='no'"),
    ],
)
def test_parameters_are_checked(params, words):
    with pytest.raises((ValueError, TypeError), match=words):
        MultiLabelSVC(**params).fit(*labelled())


def test_a_matrix_without_members_is_refused():
    X, Y = labelled()
    with pytest.raises(ValueError, match="y has no 1"):
        MultiLabelSVC().fit(X, 0 * Y)


def test_too_many_pairs_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr("polymargin.solvers.ascent.labels.rankings._MOST_DUALS", 100)
    with pytest.raises(ValueError, match=r"pairs of labels of a row.*relevance"):
        MultiLabelSVC(loss="ranking").fit(*labelled())


# ---- One versus None, told about negatives --------------------------------------------------------------------------------


def test_zeros_as_negatives_are_minus_ones():
    X, Y = labelled(11)
    Y[0, 0] = 1
    told = OneVsNoneSVC(zeros="negative", tol=1e-6).fit(X, Y)
    same = OneVsNoneSVC(threshold=0.0, tol=1e-6).fit(X, signs(Y))
    assert told.objective_ == pytest.approx(same.objective_, rel=2e-6)
    assert told.threshold_ == 0.0 and told.objective(X, Y) == pytest.approx(told.objective_)
    assert (told.predict(X).sum(axis=1) == 0).any()
    paper = OneVsNoneSVC().fit(X, Y)
    assert paper.threshold_ == 1.0 and paper.predict(X).any(axis=1).all()
    assert known_label_score(Y, told.predict(X)) > known_label_score(Y, paper.predict(X))


def test_zeros_as_negatives_of_classes():
    X, y = load_iris(return_X_y=True)
    machine = OneVsNoneSVC(zeros="negative", probability=True).fit(X, y)
    assert machine.score(X, y) > 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine.predict_proba(X).shape == (150, 3)
    with pytest.raises(ValueError, match="zeros='no'"):
        OneVsNoneSVC(zeros="no").fit(X, y)


@pytest.mark.parametrize("loss", ["relevance", "squared_relevance"])
def test_rows_at_rest_wake_when_the_offset_moves(loss):
    """Offsets of few rows go far at first: rows that rested before must not be forgotten by the ascent."""
    X = np.repeat([[1.0, 3.0], [2.0, 1.0], [3.0, 3.0], [4.0, 1.0]], 4, axis=0)
    y = np.repeat([0, 1, 0, 1], 4)
    machine = MultiLabelSVC(loss=loss).fit(X, np.column_stack([y, 1 - y]))
    assert machine.certificate_.status == "optimal"
    assert machine.n_iter_ < 300


@pytest.mark.filterwarnings("ignore:MultiLabelSVC found a trivial solution")
def test_what_zero_means_does_not_depend_on_weights():
    """The only row with a -1 weighs nothing: zeros are unknown all the same, to `fit` and to `objective`."""
    X, Y = np.random.default_rng(0).normal(size=(8, 3)), np.eye(8, 2, dtype=int)
    Y[2:] = [[1, 0], [0, 1], [1, 1], [0, 1], [1, 0], [-1, 0]]
    weight = np.append(np.ones(7), 0.0)
    with pytest.warns(UserWarning, match="2 of 2 labels are the same for all rows"):
        machine = MultiLabelSVC().fit(X, Y, weight)
    assert machine.objective(X, Y, weight) == pytest.approx(machine.objective_, abs=1e-12)
