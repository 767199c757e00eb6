"""One versus None: all its forms against CVXPY, label matrices, thresholds, and the paper's example."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from label_reference import cvxpy_label_optimum, label_objective, label_optimum
from reference import square_root
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from polymargin import OneVsNoneSVC
from polymargin.estimators.fitting.cut import best_cut, label_sets
from polymargin.penalties import CoupledNorm, ZeroSumNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.labels import LabelProblem, Pairs
from polymargin.solvers.ascent.labels.pairs import label_ascent
from polymargin.solvers.ascent.loops import open_label_loop
from polymargin.solvers.models.majorisation import majorisation

TIGHT = {"tol": 1e-8, "random_state": 0}
FORMS = [
    {"weights": weights, "biases": biases} for weights, biases in itertools.product(("soft", "hard"), ("hard", "soft"))
]
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form['weights']}-{form['biases']}")
each_kind = pytest.mark.parametrize("kind", ["classes", "labels", "signed"])


def data(kind: str, seed: int = 0, n: int = 45, d: int = 4, c: int = 3):
    """X away from the origin, y for `fit`, and the matrix T of known labels it stands for."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(c), rng.integers(0, c, n - c)]
    X = 0.7 + rng.standard_normal((n, d)) + 1.5 * rng.standard_normal((c, d))[y]
    T = np.eye(c, dtype=int)[y]
    if kind == "classes":
        return X, y, T
    T = np.maximum(T, rng.random((n, c)) < 0.3)
    if kind == "signed":
        T = np.where(T == 1, 1, -(rng.random((n, c)) < 0.6).astype(int))
    T[5] = 0  # a row without labels
    return X, T, T


def parameters_of(est: OneVsNoneSVC) -> tuple[float | None, float | None]:
    """alpha and gamma_b as the reference wants them."""
    return (est.alpha if est.weights == "soft" else None), getattr(est, "gamma_b_", None)


# -- the optimum ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@each_kind
@each_form
def test_linear_machines_match_cvxpy(form, kind, storage):
    for seed, C in ((0, 0.05), (1, 1.0), (2, 30.0)):
        X, y, T = data(kind, seed, c=2 + seed)
        weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(X))
        per_class = np.r_[3.0, np.ones(T.shape[1] - 1)]
        alpha = (0.5, -0.2, 0.9)[seed] if form["weights"] == "soft" else 0.5
        est = OneVsNoneSVC(C=C, alpha=alpha, class_weight={0: 3.0}, **form, **TIGHT).fit(storage(X), y, weight)
        U = C * weight[:, None] * per_class
        optimum = cvxpy_label_optimum(X, T, U, *parameters_of(est))
        F = label_objective(est.class_vectors_, est.class_offsets_, X, T, U, *parameters_of(est))
        assert est.certificate_.status == "optimal"
        assert est.objective_ == pytest.approx(F, rel=1e-9)
        assert est.objective(storage(X), y, weight) == pytest.approx(F, rel=1e-9)
        assert pytest.approx(optimum, rel=1e-5) == F
        assert F - optimum <= est.certificate_.gap + 1e-6 * optimum
        assert est.certificate_.dual <= optimum * (1 + 1e-6)


@each_kind
@each_form
def test_kernel_machines_match_the_rkhs_problem(form, kind):
    for seed, C in ((0, 0.1), (1, 10.0)):
        X, y, T = data(kind, seed, c=2 + seed)
        est = OneVsNoneSVC(C=C, kernel="rbf", gamma=0.3, tol=1e-6, random_state=0, **form).fit(X, y)
        features = square_root(rbf_kernel(X, gamma=0.3))
        optimum = label_optimum(features, T, np.full(T.shape, C), *parameters_of(est))
        assert est.objective_ == pytest.approx(optimum.value, rel=1e-5)
        assert est.objective_ - optimum.value <= est.certificate_.gap + 1e-8 * optimum.value
        assert est.certificate_.dual <= optimum.value * (1 + 1e-8)
        assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-6)
        scores = features @ optimum.class_vectors.T + optimum.class_offsets
        if kind != "classes":
            np.testing.assert_allclose(est.decision_function(X), scores, atol=0.05 * abs(scores).max())


@each_kind
@each_form
def test_the_assembled_reference_equals_cvxpy(form, kind):
    X, _, T = data(kind, 3, c=4)
    U = np.random.default_rng(3).uniform(0.5, 2.0, T.shape)
    alpha, gamma_b = (0.3 if form["weights"] == "soft" else None), (2.0 if form["biases"] == "soft" else None)
    optimum = label_optimum(X, T, U, alpha, gamma_b)
    assert optimum.value == pytest.approx(cvxpy_label_optimum(X, T, U, alpha, gamma_b), rel=1e-6)
    assert optimum.value == pytest.approx(optimum.lower, rel=1e-7)


@pytest.mark.parametrize("max_iter", [1, 3, 20])
@each_kind
@each_form
def test_the_gap_is_honest_before_convergence(form, kind, max_iter):
    X, y, T = data(kind, 4)
    for solver in ("auto", "mm"):
        est = OneVsNoneSVC(C=3.0, max_iter=max_iter, tol=1e-12, solver=solver, random_state=0, **form)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            est.fit(X, y)
        optimum = label_optimum(X, T, np.full(T.shape, 3.0), *parameters_of(est)).value
        assert est.certificate_.dual <= optimum * (1 + 1e-9)
        assert est.objective_ >= optimum * (1 - 1e-9)
        assert est.objective_ == pytest.approx(est.objective(X, y), rel=1e-9)


def test_two_classes_and_everything_hard_is_the_binary_svm():
    rng = np.random.default_rng(5)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 3)) + y[:, None]
    for C in (0.1, 1.0, 50.0):
        est = OneVsNoneSVC(C=C, weights="hard", biases="hard", tol=1e-11, random_state=0).fit(X, y)
        svc = SVC(C=C / 2, kernel="linear", tol=1e-10).fit(X, y)
        scale = abs(svc.coef_).max()
        np.testing.assert_allclose(est.class_vectors_[1], svc.coef_[0], atol=1e-4 * scale)
        np.testing.assert_allclose(est.coef_, 2 * svc.coef_, atol=2e-4 * scale)
        np.testing.assert_allclose(est.decision_function(X), 2 * svc.decision_function(X), atol=1e-4 * (1 + scale))
        np.testing.assert_array_equal(est.predict(X), svc.predict(X))


def test_table_3_of_the_paper():
    """No training row has the second label alone, yet three test rows get it alone."""
    X = np.array([[3, 0], [2, 0], [-2, 5], [-1, 4], [-2, 3], [4, 6]])
    Y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [1, 1], [1, 1]])
    test = {(-4, 3): [0, 1], (-5, 2): [0, 1], (-3, 3): [0, 1], (-2, 4): [1, 1], (0, 3): [1, 0], (1, 5): [1, 1]}
    for tol in (1e-4, 1e-8):
        est = OneVsNoneSVC(C=10.0, alpha=0.5, tol=tol, random_state=0).fit(X, Y)
        assert est.objective_ == pytest.approx(0.154221, abs=2e-6 + tol)
        np.testing.assert_array_equal(est.predict(np.array(list(test))), list(test.values()))


def test_the_sum_of_offsets_is_not_touched():
    X, y, _ = data("classes", 6)
    soft = OneVsNoneSVC(biases="soft", gamma_b=0.01, **TIGHT).fit(X, y)
    assert abs(soft.class_offsets_.sum()) > 0.1
    assert soft.gamma_b_ == 0.01
    hard = OneVsNoneSVC(**TIGHT).fit(X, y)
    assert abs(hard.class_offsets_.sum()) < 1e-12
    assert not hasattr(hard, "gamma_b_")
    assert abs(OneVsNoneSVC(weights="hard", **TIGHT).fit(X, y).class_vectors_.sum(axis=0)).max() < 1e-10
    # the origin matters: what is at sum zero are the offsets in the user's coordinates
    moved = OneVsNoneSVC(**TIGHT).fit(X + 5.0, y)
    assert abs(moved.class_offsets_.sum()) < 1e-9
    assert abs(moved.objective_ - hard.objective_) > 1e-3 * hard.objective_


# -- solvers ----------------------------------------------------------------------------------------------------


def problem_of(kind: str, form: dict[str, str], seed: int = 7) -> LabelProblem:
    X, _, T = data(kind, seed)
    table = sp.csr_array(T.astype(float))
    pairs = Pairs(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data)
    cost = np.random.default_rng(seed).uniform(0.5, 2.0, len(table.data))
    penalty = CoupledNorm(0.5) if form["weights"] == "soft" else ZeroSumNorm()
    return LabelProblem(X, pairs, cost, T.shape[1], penalty, 1.5 if form["biases"] == "soft" else None)


@each_kind
@each_form
def test_majorisation_falls_monotonically_to_the_same_optimum(form, kind):
    """Sublinear: a fifth digit can take hundreds of steps, which is why it is not the default."""
    problem, history = problem_of(kind, form), []
    solution = majorisation(problem, Ledger(1e-3), max_iter=300, history=history)
    assert len(history) > 5
    assert (np.diff(history) <= 1e-9 * abs(history[0])).all()
    assert solution.machine.primal <= history[-1]
    assert solution.certificate.rel_gap <= 0.1
    optimum = label_ascent(problem, Ledger(1e-7), max_iter=2000, seed=0).certificate
    assert optimum.dual <= solution.machine.primal * (1 + 1e-9)
    assert solution.machine.primal - optimum.primal <= solution.certificate.gap


def test_majorisation_refuses_what_does_not_fit():
    X, y = sp.random_array((60, 50_000), density=1e-3, rng=0, format="csr"), np.arange(60) % 3
    OneVsNoneSVC(solver="mm", max_iter=3, tol=0.9).fit(X, y)  # rotated to 60 columns
    X = sp.random_array((20_000, 9_000), density=1e-4, rng=0, format="csr")
    with pytest.raises(ValueError, match=r"solver='mm'.*GB.*solver='auto'"):
        OneVsNoneSVC(solver="mm").fit(X, np.arange(20_000) % 3)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@each_kind
@each_form
def test_the_native_loop_is_what_its_duals_say(form, kind, storage):
    """Machine, loss and dual value of the loop, recomputed in NumPy from the duals it returns."""
    problem = problem_of(kind, form)
    X = problem.X
    if storage == "csr":
        problem = replace(problem, X=sp.csr_array(X))
    loop, means = open_label_loop(problem, 0)
    loop.move_centre(np.array([0.3, -0.5, 0.7]))
    last = -np.inf
    for _ in range(3):
        loop.ascend(len(X), 0.0)
        assert loop.dual >= last
        last = loop.dual
    a, c = loop.duals(), problem.n_classes
    assert ((a >= 0) & (a <= problem.cost)).all()
    tau = np.zeros((len(X), c))
    tau[problem.pair_rows, problem.y.labels] = a * problem.y.signs
    coupling = problem.penalty.coupling(c)
    differences = tau - tau.mean(axis=1, keepdims=True)
    W = coupling.scale * (X - means).T @ differences + coupling.common * (X.T @ tau).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(loop.weights(), W, atol=1e-10)
    beta = loop.next_centre()
    slack = 0.0 if problem.gamma_b is None else 0.5 / problem.gamma_b
    b = beta - means @ (coupling.scale * (X - means).T @ differences) + slack * tau.sum() / c**2
    np.testing.assert_allclose(loop.offsets(), b, atol=1e-10)
    assert loop.loss(1) == pytest.approx(problem.primal(W, b) - problem.penalty_value(W, b))
    loop.set_duals(a)  # clears the centre: put it back
    loop.move_centre(np.array([0.3, -0.5, 0.7]))
    assert loop.dual == pytest.approx(last, rel=1e-10)


@each_kind
@each_form
def test_repair_balances_and_stays_within_the_bounds(form, kind):
    problem = problem_of(kind, form)
    rng = np.random.default_rng(8)
    for a in (rng.uniform(size=len(problem.cost)) * problem.cost, problem.cost, 0 * problem.cost):
        repaired = problem.repaired(a)
        balance = problem.balance(repaired)
        np.testing.assert_allclose(balance, balance[0], atol=1e-12 * problem.cost.sum())
        assert ((repaired >= 0) & (repaired <= problem.cost)).all()
        W, b = rng.standard_normal((4, 3)), rng.standard_normal(3)
        W, b = W - W.mean(axis=1, keepdims=True), b - b.mean()
        assert problem.bound(a) <= problem.primal(W, b)
        assert problem.dual(repaired) <= problem.bound(a) + 1e-12


@each_kind
@each_form
def test_the_trivial_value_is_the_best_without_features(form, kind):
    problem = problem_of(kind, form)
    T = np.zeros((problem.n_rows, 3))
    T[problem.pair_rows, problem.y.labels] = problem.y.signs
    U = np.zeros_like(T)
    U[problem.pair_rows, problem.y.labels] = problem.cost
    best = label_optimum(np.zeros((problem.n_rows, 1)), T, U, 0.5, problem.gamma_b).value
    assert problem.trivial_value() == pytest.approx(best, rel=1e-6)


# -- label matrices ---------------------------------------------------------------------------------------------


@pytest.fixture
def labelled():
    return make_multilabel_classification(150, 8, n_classes=4, n_labels=2, random_state=0, allow_unlabeled=False)


@pytest.mark.parametrize(
    "container", [np.asarray, np.ndarray.tolist, sp.csr_array, sp.csc_matrix, sp.coo_array], ids=lambda f: f.__name__
)
def test_every_container_of_labels_is_the_same_problem(container, labelled):
    X, Y = labelled
    first = OneVsNoneSVC(random_state=0).fit(X, Y)
    est = OneVsNoneSVC(random_state=0).fit(X, container(Y))
    np.testing.assert_array_equal(est.class_vectors_, first.class_vectors_)
    predicted = est.predict(X)
    assert sp.issparse(predicted) == sp.issparse(container(Y))
    np.testing.assert_array_equal(predicted.toarray() if sp.issparse(predicted) else predicted, first.predict(X))
    assert est.score(X, container(Y)) == first.score(X, Y) == np.mean((first.predict(X) == Y).all(axis=1))
    assert est.objective(X, container(Y)) == pytest.approx(est.objective_, rel=1e-9)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32, np.float64])
def test_predictions_have_the_type_of_the_labels(dtype, labelled):
    X, Y = labelled
    predicted = OneVsNoneSVC(random_state=0).fit(X, Y.astype(dtype)).predict(X)
    assert predicted.dtype == dtype
    assert set(np.unique(predicted)) <= {0, 1}


def test_shapes(labelled):
    X, Y = labelled
    for c in (2, 4):
        for kernel in ("linear", "rbf"):
            est = OneVsNoneSVC(kernel=kernel, random_state=0).fit(X, Y[:, :c])
            assert est.decision_function(X).shape == est.predict(X).shape == (len(X), c)
            assert est.intercept_.shape == (c,)
            np.testing.assert_array_equal(est.classes_, np.arange(c))
            assert est.predict(X).any(axis=1).all()  # the highest score if none reaches the threshold
        linear = OneVsNoneSVC(random_state=0).fit(X, Y[:, :c])
        assert linear.coef_.shape == (c, X.shape[1])
        np.testing.assert_allclose(linear.decision_function(X), X @ linear.coef_.T + linear.intercept_)


def test_one_column_for_each_row_is_the_multi_class_machine(iris):
    X, y = iris
    by_class = OneVsNoneSVC(**TIGHT).fit(X, y)
    by_label = OneVsNoneSVC(**TIGHT).fit(X, np.eye(3, dtype=int)[y])
    np.testing.assert_array_equal(by_class.class_vectors_, by_label.class_vectors_)
    assert not hasattr(by_class, "threshold_")
    again = by_label.fit(X, y)
    assert not hasattr(again, "threshold_")
    assert again.predict(X).ndim == 1


def test_sample_weights_of_label_matrices(labelled):
    X, Y = labelled
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    rows = np.repeat(np.arange(len(X)), weight)
    weighted = OneVsNoneSVC(**TIGHT).fit(X, Y, weight)
    repeated = OneVsNoneSVC(**TIGHT).fit(X[rows], Y[rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)
    np.testing.assert_allclose(weighted.class_vectors_, repeated.class_vectors_, atol=1e-3)
    for own, mapped in zip(weighted.support_by_class_, repeated.support_by_class_, strict=True):
        assert (weight[own] > 0).all()
        assert set(own) == set(rows[mapped])


def test_a_row_without_labels_says_nothing(labelled):
    X, Y = labelled
    more = np.vstack([X, 100.0 + X[:3]]), np.vstack([Y, 0 * Y[:3]])
    plain, padded = OneVsNoneSVC(**TIGHT).fit(X, Y), OneVsNoneSVC(**TIGHT).fit(*more)
    assert plain.objective_ == pytest.approx(padded.objective_, rel=1e-7)
    np.testing.assert_allclose(plain.class_vectors_, padded.class_vectors_, atol=1e-4)


def test_a_column_without_members_is_refused(labelled):
    X, Y = labelled
    Y = Y.copy()
    Y[:, 2] = 0
    with pytest.raises(ValueError, match=r"y has no row with a 1 in the columns \[2\]"):
        OneVsNoneSVC().fit(X, Y)
    with pytest.raises(ValueError, match=r"columns \[2\]"):
        OneVsNoneSVC().fit(X, np.where(Y, Y, -1))
    Y[7, 2] = 1
    with pytest.raises(ValueError, match=r"columns \[2\] and a positive sample_weight"):
        OneVsNoneSVC().fit(X, Y, np.where(np.arange(len(X)) == 7, 0.0, 1.0))


@each_form
def test_a_column_with_every_label_is_fitted(form, labelled):
    X, Y = labelled
    Y = Y.copy()
    Y[:, 1] = 1
    est = OneVsNoneSVC(**form, **TIGHT).fit(X, Y)
    assert est.objective_ == pytest.approx(label_optimum(X, Y, np.ones(Y.shape), *parameters_of(est)).value, rel=1e-6)
    if form["weights"] == "soft":
        assert est.predict(X)[:, 1].mean() > 0.9


@pytest.mark.parametrize("alpha", [1.0, 1.5, -1 / 3, -2.0, float("nan"), "half", None])
def test_alpha_outside_its_range_is_refused(alpha, labelled):
    X, Y = labelled
    with pytest.raises(ValueError, match=r"alpha=.*not valid"):
        OneVsNoneSVC(alpha=alpha).fit(X, Y)
    for inside in (-0.33, 0.0, 0.99):
        assert OneVsNoneSVC(alpha=inside, random_state=0).fit(X, Y).certificate_.status == "optimal"


def test_the_range_of_alpha_is_said(labelled):
    with pytest.raises(ValueError, match=r"alpha=-0.5 .*convex.*-0.3333 < alpha < 1 with c = 4"):
        OneVsNoneSVC(alpha=-0.5).fit(*labelled)


@pytest.mark.parametrize(
    "name, value",
    [
        *[("weights", "firm"), ("biases", None), ("gamma_b", 0.0), ("gamma_b", "auto")],
        *[("threshold", "best"), ("solver", "newton")],
    ],
)
def test_bad_parameters_are_named(name, value, labelled):
    with pytest.raises(ValueError, match=rf"{name}={value!r}"):
        OneVsNoneSVC(**{name: value}).fit(*labelled)


def test_parameters_without_effect_are_said(labelled, iris):
    with pytest.warns(UserWarning, match=r"alpha=0.2 has no effect on weights='hard'"):
        OneVsNoneSVC(weights="hard", alpha=0.2).fit(*labelled)
    with pytest.warns(UserWarning, match=r"gamma_b=2.0 has no effect on biases='hard'"):
        OneVsNoneSVC(gamma_b=2.0).fit(*labelled)
    with pytest.warns(UserWarning, match=r"threshold=0.5 has no effect on 1-d y"):
        OneVsNoneSVC(threshold=0.5).fit(*iris)


@pytest.mark.parametrize("bad", [2, -3, 0.5])
def test_other_values_in_a_label_matrix_are_refused(bad, labelled):
    X, Y = labelled
    Y = Y.astype(float)
    Y[3, 1] = bad
    for container in (np.asarray, sp.csr_array):
        with pytest.raises(ValueError, match=r"y holds .*1 \(has the label\)"):
            OneVsNoneSVC().fit(X, container(Y))
    with pytest.raises(ValueError, match=r"numbers -1, 0 and 1"):
        OneVsNoneSVC().fit(X, np.where(Y == 1, "yes", "no"))


def test_objective_wants_the_columns_of_fit(labelled):
    X, Y = labelled
    est = OneVsNoneSVC(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"label matrix with 4 columns"):
        est.objective(X, Y[:, :3])


def test_class_weights_have_column_numbers(labelled):
    X, Y = labelled
    est = OneVsNoneSVC(class_weight={1: 5.0}, **TIGHT).fit(X, Y)
    U = np.ones(Y.shape)
    U[:, 1] = 5.0
    assert est.objective_ == pytest.approx(label_optimum(X, Y, U).value, rel=1e-6)
    balanced = OneVsNoneSVC(class_weight="balanced", **TIGHT).fit(X, Y)
    U = np.ones(Y.shape) * Y.sum() / (4 * Y.sum(axis=0))
    assert balanced.objective_ == pytest.approx(label_optimum(X, Y, U).value, rel=1e-6)
    with pytest.raises(ValueError, match=r"class_weight names \[7\]"):
        OneVsNoneSVC(class_weight={7: 2.0}).fit(X, Y)


def test_score_counts_known_entries_only(labelled):
    X, Y = labelled
    est = OneVsNoneSVC(random_state=0).fit(X, Y)
    predicted = est.predict(X)
    known = np.random.default_rng(1).random(Y.shape) < 0.5
    known[4] = False
    partial = np.where(known, 2 * Y - 1, 0)
    right = ((predicted == Y) | ~known).all(axis=1)[known.any(axis=1)]
    assert est.score(X, partial) == est.score(X, sp.csr_array(partial)) == pytest.approx(right.mean())
    assert est.score(X, 2 * Y - 1) == est.score(X, Y)


# -- thresholds -------------------------------------------------------------------------------------------------


def test_label_sets_by_hand():
    scores = np.array([[1.2, 1.0, 0.3], [0.1, 0.2, 0.2], [2.0, -1.0, 1.5]])
    np.testing.assert_array_equal(label_sets(scores, 1.0), [[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(label_sets(scores, 9.0), [[1, 0, 0], [0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize("seed", range(20))
def test_the_best_cut_is_the_best_of_all_cuts(seed):
    rng = np.random.default_rng(seed)
    n, c = 25, 4
    scores = np.round(rng.standard_normal((n, c)), 1 if seed % 2 else 8)  # with and without ties
    Y = (rng.random((n, c)) < 0.4).astype(np.int8)
    weight = rng.uniform(0.5, 2.0, n)

    def quality(cut):
        return np.average(_jaccard(Y, label_sets(scores, cut)), weights=weight)

    every = np.r_[np.unique(scores) - 1e-9, scores.max() + 1.0]
    assert quality(best_cut(scores, Y, weight)) == pytest.approx(max(map(quality, every)))


def _jaccard(Y, Z):
    return (Y & Z).sum(axis=1) / np.maximum(1, (Y | Z).sum(axis=1))


def test_the_automatic_threshold_helps(labelled):
    X, Y = labelled
    train, test = slice(0, 100), slice(100, None)
    plain = OneVsNoneSVC(random_state=0).fit(X[train], Y[train])
    auto = OneVsNoneSVC(threshold="auto", random_state=0).fit(X[train], Y[train])
    assert plain.threshold_ == 1.0 != auto.threshold_
    np.testing.assert_array_equal(plain.class_vectors_, auto.class_vectors_)
    jaccard = [_jaccard(Y[test], est.predict(X[test])).mean() for est in (plain, auto)]
    assert jaccard[1] > jaccard[0]
    again = OneVsNoneSVC(threshold="auto", random_state=0).fit(X[train], Y[train])
    assert again.threshold_ == auto.threshold_


def test_the_automatic_threshold_with_every_kind_of_input(labelled):
    X, Y = labelled
    K = rbf_kernel(X, gamma=0.01)
    for rows, options in ((X, {}), (sp.csr_array(X), {}), (K, {"kernel": "precomputed"}), (X, {"class_weight": {3: 2.0}})):
        for labels in (Y, sp.csr_array(Y), 2 * Y - 1):
            est = OneVsNoneSVC(threshold="auto", random_state=0, tol=1e-3, **options).fit(rows, labels)
            assert np.isfinite(est.threshold_)
    rare = Y.copy()
    rare[:, 0] = 0
    rare[0, 0] = 1  # some folds have no member of it
    assert np.isfinite(OneVsNoneSVC(threshold="auto", random_state=0, class_weight={0: 2.0}).fit(X, rare).threshold_)
    with pytest.raises(ValueError, match=r"threshold='auto' needs"):
        OneVsNoneSVC(threshold="auto").fit(X[:2], [[1, 0], [0, 1]])


def test_support_rows_are_not_lost_to_rounding():
    """Rows with a score of exactly 1 at the optimum have their label, whatever the tolerance."""
    X, Y, _ = data("labels", 9)
    for tol in (1e-4, 1e-6, 1e-8):
        est = OneVsNoneSVC(C=100.0, tol=tol, random_state=0).fit(X, Y)
        exact = label_optimum(X, Y, np.full(Y.shape, 100.0))
        at_one = abs(X @ exact.class_vectors.T + exact.class_offsets - 1.0) < 1e-6
        assert (at_one & (Y == 1)).sum() >= 2
        assert est.predict(X)[at_one].all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_support_by_class(kernel, labelled):
    X, Y = labelled
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    est = OneVsNoneSVC(kernel=kernel, C=0.1, **TIGHT).fit(X, Y)
    scores = est.decision_function(X)
    assert len(est.support_by_class_) == 4
    for k, rows in enumerate(est.support_by_class_):
        np.testing.assert_array_equal(rows, np.flatnonzero((Y[:, k] == 1) & (scores[:, k] <= 1 + 1e-6)))
        assert len(rows) > 0
    with pytest.raises(AttributeError, match="support_by_class_"):
        _ = OneVsNoneSVC().support_by_class_


# -- scikit-learn's tools ---------------------------------------------------------------------------------------


def test_the_origin_is_where_all_scores_are_zero():
    X = np.array([[3, 0], [2, 0], [-2, 5], [-1, 4], [-2, 3], [4, 6]], dtype=float)
    est = OneVsNoneSVC(C=10.0).fit(X, [[1, 0], [1, 0], [1, 1], [1, 1], [1, 1], [1, 1]])
    np.testing.assert_allclose(est.decision_function(est.origin_[None]), 0.0, atol=1e-9)
    with pytest.raises(AttributeError, match="origin_ with kernel='rbf'"):
        _ = OneVsNoneSVC(kernel="rbf").fit(X, [0, 0, 1, 1, 1, 0]).origin_


def test_search_and_cross_validation_with_label_matrices(labelled):
    X, Y = labelled
    grid = {"alpha": [0.1, 0.5], "threshold": [0.9, "auto"]}
    search = GridSearchCV(OneVsNoneSVC(random_state=0, tol=1e-3), grid, cv=3, scoring="f1_samples", error_score="raise")
    assert search.fit(X, Y).best_score_ > 0.4
    assert cross_val_score(OneVsNoneSVC(kernel="rbf"), X, Y, cv=3).mean() > 0.05


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_warm_start_with_label_matrices(kernel, labelled):
    X, Y = labelled
    warm = OneVsNoneSVC(kernel=kernel, warm_start=True, tol=1e-6, random_state=0)
    for C, labels in ((0.1, Y), (1.0, Y), (1.0, 2 * Y - 1), (1.0, Y[:, :3])):
        warm.set_params(C=C).fit(X, labels)
        cold = OneVsNoneSVC(kernel=kernel, C=C, tol=1e-6, random_state=0).fit(X, labels)
        assert warm.objective_ == pytest.approx(cold.objective_, rel=3e-6)
