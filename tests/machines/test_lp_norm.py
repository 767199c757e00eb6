"""LpNormSVC: against CVXPY, its p = 2 limit, its row problems, its class weights and the choice of p."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import twins
from loops import solved_row
from reference_lp import block_norm, lp_norm_objective, lp_norm_optimum
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel

from polymargin import CrammerSingerSVC, LpNormSVC
from polymargin._core import native
from polymargin.estimators.fitting.choice_of_p import CANDIDATES
from polymargin.penalties import BlockNorm
from polymargin.selection.folds import stratified_folds

each_p = pytest.mark.parametrize("p", [1.1, 1.33, 1.5, 1.8, 2.0])
each_loss = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
each_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def small_problem(seed, n=36, d=4, c=4):
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(c), rng.integers(0, c, n - c)]
    X = rng.standard_normal((c, d))[y] + rng.standard_normal((n, d))
    return X, y, rng.uniform(0.2, 2.0, n)


# -- the optimum -------------------------------------------------------------------------------------------


def cvxpy_optimum(X, y, cost, p, loss, fit_intercept):
    """F at CVXPY's point, written once more."""
    (n, d), c = X.shape, y.max() + 1
    W, b, own = cp.Variable((d, c)), cp.Variable((1, c)), np.eye(y.max() + 1)[y]
    S = X @ W + np.ones((n, 1)) @ b
    worst = cp.max((1 - own) + S - cp.sum(cp.multiply(own, S), axis=1, keepdims=True) @ np.ones((1, c)), axis=1)
    losses = cost @ (worst if loss == "hinge" else cp.square(cp.pos(worst)))
    if p == 1:
        squared_norm = cp.square(cp.sum(cp.norm(W, 2, axis=0)))
    else:
        squared_norm = cp.sum_squares(W) if p == 2 else cp.square(cp.pnorm(cp.norm(W, 2, axis=0), p, approx=False))
    problem = cp.Problem(cp.Minimize(losses + 0.5 * squared_norm), [] if fit_intercept else [b == 0])
    problem.solve(solver=cp.CLARABEL, **({"tol_gap_rel": 1e-7, "tol_gap_abs": 1e-7, "tol_feas": 1e-7} if p == 1 else {}))
    return lp_norm_objective(W.value, b.value[0], X, y, cost, p, loss == "squared_hinge")


@pytest.mark.filterwarnings("ignore:.*Solution may be inaccurate")
@each_intercept
@each_loss
@each_p
def test_optimum_equals_cvxpy(p, loss, fit_intercept):
    X, y, v = small_problem(int(100 * p) + fit_intercept)
    est = LpNormSVC(p=p, C=0.7, loss=loss, fit_intercept=fit_intercept, tol=1e-7, random_state=0)
    est.fit(X, y, sample_weight=v)
    F_star = cvxpy_optimum(X, y, 0.7 * v, p, loss, fit_intercept)
    assert est.objective_ == pytest.approx(F_star, rel=1e-5)
    assert est.certificate_.dual <= F_star * (1 + 1e-10)
    assert est.certificate_.status == "optimal"


@pytest.mark.filterwarnings("ignore:.*Solution may be inaccurate")
@each_intercept
@each_loss
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_of_the_norms(seed, loss, fit_intercept):
    X, y, v = small_problem(seed)
    est = LpNormSVC(p=1, C=0.7, loss=loss, fit_intercept=fit_intercept, tol=1e-5, random_state=0).fit(X, y, sample_weight=v)
    F_star = cvxpy_optimum(X, y, 0.7 * v, 1, loss, fit_intercept)
    assert est.certificate_.status == "optimal"
    assert est.certificate_.dual <= F_star * (1 + 1e-8) and est.objective_ <= F_star * (1 + 2e-5)
    norms = np.linalg.norm(est.class_vectors_, axis=1)
    rows_loss = est.objective_ - 0.5 * norms.sum() ** 2
    S = est.decision_function(X)
    own = S[np.arange(len(y)), y].copy()
    S[np.arange(len(y)), y] = -np.inf
    hinges = np.maximum(0.0, 1.0 - own + S.max(axis=1))
    assert rows_loss == pytest.approx(0.7 * v @ (hinges if loss == "hinge" else hinges**2), rel=1e-8)


@each_loss
@pytest.mark.parametrize("C", [0.03, 0.001])
def test_the_sum_of_the_norms_with_many_classes(C, loss):
    """Which classes have a vector is open to the end here, and the fixed point of the scales does not contract."""
    X, y = load_digits(return_X_y=True)
    est = LpNormSVC(p=1, C=C, loss=loss, tol=1e-4, random_state=0).fit(X[:200] / 16, y[:200])
    assert est.certificate_.status == "optimal"
    below = LpNormSVC(p=1.01, C=C, loss=loss, tol=1e-4, random_state=0).fit(X[:200] / 16, y[:200]).certificate_
    assert below.dual <= est.objective_ and est.certificate_.dual <= est.objective_  # a smaller p is a larger norm


def test_the_sum_of_the_norms_leaves_classes_out(iris):
    est = LpNormSVC(p=1, C=0.1).fit(*iris)
    norms = np.linalg.norm(est.class_vectors_, axis=1)
    assert norms.min() < 1e-4 * norms.max()


@pytest.mark.pool(0.3)
@pytest.mark.parametrize("C", [0.02, 1.0, 50.0])
@each_intercept
@each_loss
@each_p
def test_optimum_and_honest_gap_on_sparse_weighted_rows(p, loss, fit_intercept, C):
    X, y, v = small_problem(int(1000 * p), n=48, d=6, c=5)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.6)
    est = LpNormSVC(p=p, C=C, loss=loss, fit_intercept=fit_intercept, tol=1e-7, random_state=0)
    est.fit(sp.csr_array(X), y, sample_weight=v)
    F = lp_norm_objective(est.class_vectors_.T, est.class_offsets_, X, y, C * v, p, loss == "squared_hinge")
    F_star = lp_norm_optimum(X, y, C * v, fit_intercept, p, loss == "squared_hinge")
    assert est.objective_ == pytest.approx(F, rel=1e-9)
    assert pytest.approx(F_star, rel=1e-5) == F
    assert F - F_star <= est.certificate_.gap + 1e-9 * F
    assert est.certificate_.dual <= F_star * (1 + 1e-10)


@each_intercept
@each_loss
@each_p
def test_kernel_machine(p, loss, fit_intercept):
    X, y, v = small_problem(3)
    K = rbf_kernel(X, gamma=0.3)
    est = LpNormSVC(p=p, C=2.0, loss=loss, kernel="rbf", gamma=0.3, fit_intercept=fit_intercept, tol=1e-7, random_state=0)
    est.fit(X, y, sample_weight=v)
    squares, Q = np.linalg.eigh(K)
    F_star = lp_norm_optimum(Q * np.sqrt(np.maximum(squares, 0.0)), y, 2.0 * v, fit_intercept, p, loss == "squared_hinge")
    assert est.objective_ == pytest.approx(F_star, rel=1e-5)
    assert est.objective(X, y, v) == pytest.approx(est.objective_, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 3, 30, 210])
@each_intercept
@each_loss
def test_the_bound_holds_before_convergence(loss, fit_intercept, max_iter):
    X, y, v = small_problem(5)
    for p in (1.1, 1.5):
        est = LpNormSVC(p=p, C=5.0, loss=loss, fit_intercept=fit_intercept, tol=1e-9, max_iter=max_iter, random_state=0)
        est.fit(X, y, sample_weight=v)
        F_star = lp_norm_optimum(X, y, 5.0 * v, fit_intercept, p, loss == "squared_hinge")
        F = lp_norm_objective(est.class_vectors_.T, est.class_offsets_, X, y, 5.0 * v, p, loss == "squared_hinge")
        assert est.objective_ == pytest.approx(F, rel=1e-9)
        assert F - F_star <= est.certificate_.gap + 1e-9 * F
        assert est.certificate_.dual <= F_star * (1 + 1e-10)
        assert est.n_iter_ <= max_iter


@each_intercept
def test_p_2_is_crammer_singer(iris, fit_intercept):
    X, y = iris
    ours = LpNormSVC(p=2, fit_intercept=fit_intercept, tol=1e-8, random_state=0).fit(X, y)
    theirs = CrammerSingerSVC(fit_intercept=fit_intercept, tol=1e-8, random_state=0).fit(X, y)
    assert ours.objective_ == theirs.objective_
    np.testing.assert_array_equal(ours.class_norm_weights_, 1.0)
    nearly = LpNormSVC(p=1.999999, fit_intercept=fit_intercept, tol=1e-7, random_state=0).fit(X, y)
    assert nearly.objective_ == pytest.approx(theirs.objective_, rel=1e-5)


def test_a_large_fit_without_interior_points_is_certified():
    X, y = load_digits(return_X_y=True)
    for loss in ("hinge", "squared_hinge"):
        for p in (1.1, 1.5):
            est = LpNormSVC(p=p, C=0.1, loss=loss, tol=1e-5, random_state=0).fit(X / 16, y)
            assert est.certificate_.status == "optimal"
            assert est.objective(X / 16, y) == pytest.approx(est.objective_, rel=1e-9)


# -- the row problems --------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["simplex", "squared_simplex"])
def test_a_row_is_solved_exactly(domain):
    rng = np.random.default_rng(0)
    for _ in range(1000):
        m = int(rng.integers(1, 9))
        cost = 10.0 ** rng.uniform(-2, 2)
        h = 10.0 ** rng.uniform(-3, 2, m + 1)
        own = h[m] + (0.5 / cost if domain == "squared_simplex" else 0.0)  # the square's own curvature
        a = rng.random(m) * (rng.random(m) < 0.5)
        a *= cost / max(cost, a.sum())
        g, g_target = rng.normal(size=m) * 10.0 ** rng.uniform(-1, 1), float(rng.normal())
        found = solved_row(native, domain, g, a, g_target, h, cost, metric="class_scales")
        slope = g_target + (own - h[m]) * a.sum()  # with the square's part
        expected = twins.solve_scaled_row(domain, g, a, slope, h[:m], own, cost)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * max(1.0, expected.max()))


@pytest.mark.parametrize("domain", ["simplex", "squared_simplex"])
def test_equal_scales_give_the_row_of_the_identity(domain):
    rng = np.random.default_rng(1)
    for _ in range(200):
        g, a = rng.normal(size=5), np.zeros(5)
        plain = solved_row(native, domain, g, a, 0.1, 0.7, 0.5)
        scaled = solved_row(native, domain, g, a, 0.1, 0.7, 0.5, metric="class_scales")
        np.testing.assert_allclose(scaled, plain, atol=1e-12)


# -- class weights -----------------------------------------------------------------------------------------


@each_p
def test_class_norm_weights_are_equation_14(p, overlapping):
    X, y = overlapping
    est = LpNormSVC(p=p, random_state=0).fit(X, y)
    norms = np.linalg.norm(est.class_vectors_, axis=1)
    beta = norms ** (2 - p) * (norms**p).sum() ** ((p - 2) / p)
    np.testing.assert_allclose(est.class_norm_weights_, beta, rtol=1e-10)
    assert (norms**2 / (2 * beta)).sum() == pytest.approx(block_norm(est.class_vectors_.T, p))


def test_scales_have_a_floor_from_which_a_class_comes_back():
    penalty = BlockNorm(1.5)
    scales = penalty.class_scales.of_norms(np.array([0.0, 1.0, 2.0]))
    assert scales[0] == pytest.approx(1e-8 * scales.max())
    assert (penalty.class_scales.of_norms(np.zeros(3)) > 0).all()
    assert (scales**3).sum() == pytest.approx(1.0)  # q = p / (2 - p)


def test_a_small_p_spends_the_norm_on_fewer_classes(overlapping):
    X, y = overlapping
    shares = []
    for p in (1.05, 1.5, 2.0):
        norms = np.linalg.norm(LpNormSVC(p=p, C=0.01, random_state=0).fit(X, y).class_vectors_, axis=1)
        shares.append(norms.min() / norms.max())
    assert shares[0] < shares[1] < shares[2]


# -- choice of p, warm starts, parameters ------------------------------------------------------------------


def test_auto_chooses_the_best_candidate():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    est = LpNormSVC(p="auto", C=0.1, random_state=0).fit(X, y)
    assert est.p_candidates_.tolist() == list(CANDIDATES)
    assert est.p_scores_[est.p_candidates_ == est.p_] == est.p_scores_.max()
    fixed = LpNormSVC(p=est.p_, C=0.1, random_state=0).fit(X, y)
    assert fixed.objective_ == pytest.approx(est.objective_, rel=2e-4)
    assert not hasattr(est.set_params(p=1.5).fit(X, y), "p_scores_")
    assert est.p_ == 1.5


def test_auto_survives_classes_of_one_row_and_kernels():
    X, y = load_iris(return_X_y=True)
    rows = np.r_[0:20, 50:70, 100]
    for params in ({}, {"kernel": "rbf"}, {"loss": "squared_hinge"}):
        est = LpNormSVC(p="auto", random_state=0, **params).fit(X[rows], y[rows])
        assert est.p_ in CANDIDATES
    folds = stratified_folds(np.array([0] * 7 + [1] * 5 + [2], dtype=np.int32), 3, 0)
    assert folds[-1] == -1
    assert np.ptp(np.bincount(folds[:7])) <= 1


@each_loss
def test_warm_starts_over_C_and_p_take_fewer_epochs(loss):
    """Near neighbours: half as far as the first fit is from nothing they would take as long as that."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    path = [{"C": 0.05}, {"C": 0.051}, {"p": 1.49}, {"p": 1.47}]
    warm = LpNormSVC(p=1.5, loss=loss, warm_start=True, tol=1e-4, random_state=0)
    warm_epochs = cold_epochs = 0
    for k, change in enumerate(path):
        warm.set_params(**change).fit(X, y)
        cold = clone(warm).set_params(warm_start=False).fit(X, y)
        assert warm.objective_ == pytest.approx(cold.objective_, rel=3e-4)
        if k:
            warm_epochs, cold_epochs = warm_epochs + warm.n_iter_, cold_epochs + cold.n_iter_
    assert warm_epochs < 0.7 * cold_epochs


def test_warm_start_after_another_loss_is_a_cold_start(overlapping):
    X, y = overlapping
    est = LpNormSVC(loss="squared_hinge", warm_start=True, random_state=0).fit(X, y)
    est.set_params(loss="hinge").fit(X, y)
    assert est.objective_ == LpNormSVC(random_state=0).fit(X, y).objective_


@pytest.mark.parametrize("p", [0.99, 0.5, 2.1, float("nan"), "both", None, True])
def test_p_out_of_range_is_named(p, iris):
    with pytest.raises((ValueError, TypeError), match="p="):
        LpNormSVC(p=p).fit(*iris)


def test_unknown_loss_is_named(iris):
    with pytest.raises(ValueError, match="loss='log'"):
        LpNormSVC(loss="log").fit(*iris)


def test_a_failed_refit_keeps_the_machine(iris):
    X, y = iris
    est = LpNormSVC(p=1.3, random_state=0).fit(X, y)
    before = est.objective_
    with pytest.raises(ValueError, match="at least 2 classes"):
        est.set_params(p="auto").fit(X, np.zeros(len(y)))
    assert est.p_ == 1.3
    assert est.objective(X, y) == pytest.approx(before)
