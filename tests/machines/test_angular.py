"""AngularSVC: the penalty and its derivatives, the shifted models, the descent, and the corners of the definition."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from polymargin import AngularSVC, CrammerSingerSVC, load, save
from polymargin.losses import CrammerSingerHinge
from polymargin.penalties.angular import REGULARIZERS, AnglePenalty, Angular, Pairwise, angles_between
from polymargin.problems.classes import Problem
from polymargin.selection.paths import regularization_path
from polymargin.solvers.ascent.convex_model import ModelAscent, Tangent, solve_exactly
from polymargin.solvers.models.angles import angle_models
from polymargin.solvers.models.angles.row_space import look_at_rows
from polymargin.solvers.newton.faces.angle_face import hessian
from polymargin.solvers.types import Machine

RIVALS = sorted(name for name, kind in REGULARIZERS.items() if issubclass(kind, Pairwise))
each_regularizer = pytest.mark.parametrize("regularizer", sorted(REGULARIZERS))
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
SHAPES = [(6, 4), (4, 4), (3, 5), (5, 2), (1, 3), (2, 2)]


def vectors(d, c, seed=0):
    return np.random.default_rng(seed).normal(size=(d, c))


def problem_of(X, y, fit_intercept=True, omega=1.0, cost=None, regularizer="angular", floor=1e-7):
    c = int(y.max()) + 1
    penalty = AnglePenalty(omega, regularizer, min(np.linalg.matrix_rank(np.asarray(X)), c), floor)
    cost = np.ones(len(y)) if cost is None else cost
    return Problem(X, y.astype(np.int32), cost, c, CrammerSingerHinge(), penalty, fit_intercept)


# -- the penalty -------------------------------------------------------------------------------------------


@each_regularizer
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_gradient_against_finite_differences(regularizer, shape, floor):
    angles = REGULARIZERS[regularizer](min(shape), floor)
    W, V = vectors(*shape), vectors(*shape, seed=1)
    t = 1e-6
    slope = (angles.value(W + t * V) - angles.value(W - t * V)) / (2 * t)
    # with one dimension all cosines are 1 and only rounding is left
    rounding = 1e-6 if shape[0] > 1 or floor == 0.0 else 1e-3
    assert slope == pytest.approx(np.vdot(angles.gradient(W), V), rel=1e-5, abs=rounding)


@pytest.mark.parametrize("shape", [(6, 4), (4, 4), (9, 2)])
def test_the_paper_s_formulas_where_it_defines_them(shape):
    """Eq. 9 and Eq. 11."""
    W, c = vectors(*shape), shape[1]
    G = W.T @ W
    angles = Angular(c, 0.0)
    assert angles.value(W) == pytest.approx(np.log(np.trace(G)) - np.log(np.linalg.det(G)) / c)
    np.testing.assert_allclose(angles.gradient(W), 2 * W / np.trace(G) - (2 / c) * W @ np.linalg.inv(G), atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_angular_regulariser_does_not_care_about_scale_rotation_and_which_side_is_longer(shape):
    W, r = vectors(*shape), min(shape)
    angles = Angular(r, 0.0)
    Q = np.linalg.qr(vectors(shape[0], shape[0], seed=3))[0]
    for same in (7.0 * W, Q @ W, np.vstack([W, np.zeros((3, shape[1]))]), W.T):
        assert angles.value(same) == pytest.approx(angles.value(W))
    assert angles.value(W) >= np.log(r) - 1e-12
    U, _, Vt = np.linalg.svd(W, full_matrices=False)
    assert angles.value(U @ Vt) == pytest.approx(np.log(r))


@each_regularizer
def test_values_of_known_angles(regularizer):
    """Three vectors in the plane, 60 degrees apart: |cos| is 1/2 for every pair."""
    t = np.radians([0, 60, 120])
    W = np.array([np.cos(t), np.sin(t)]) * [1.0, 2.0, 3.0]
    s = np.linalg.svd(W, compute_uv=False) ** 2
    expected = {
        "angular": np.log(s.sum()) - np.log(s).mean(),
        "cosine": 0.5,
        "incoherence": 0.5,
        "diversity": -np.pi / 3,
    }
    assert REGULARIZERS[regularizer](2, 0.0).value(W) == pytest.approx(expected[regularizer])
    np.testing.assert_allclose(angles_between(W)[np.triu_indices(3, 1)], 60.0)


@each_regularizer
def test_no_value_is_below_the_least(regularizer):
    penalty = AnglePenalty(2.0, regularizer, 3, 0.0)
    for seed in range(50):
        W = vectors(3, 5, seed)
        assert penalty.apart(W) >= penalty.least
        Z = vectors(3, 5, seed + 100)
        assert penalty.value(W) + penalty.conjugate(Z) >= np.vdot(W, Z)
    assert np.isfinite(penalty.value(np.zeros((3, 5)))) and not penalty.gradient(np.zeros((3, 5))).any()


@pytest.mark.parametrize("shape", SHAPES)
def test_hessian_against_finite_differences(shape):
    penalty = AnglePenalty(3.0, "angular", min(shape), 0.1)
    W, V = vectors(*shape), vectors(*shape, seed=1)
    t = 1e-6
    change = (penalty.gradient(W + t * V) - penalty.gradient(W - t * V)) / (2 * t)
    np.testing.assert_allclose((hessian(penalty, W) @ V.ravel()).reshape(shape), change, atol=1e-6)


# -- shifted machines --------------------------------------------------------------------------------------


@with_and_without_intercept
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_the_two_solvers_of_a_model_agree_and_their_bounds_hold(fit_intercept, container, overlapping):
    X, y = overlapping
    rng = np.random.default_rng(1)
    problem = problem_of(X, y, fit_intercept, cost=rng.uniform(0.5, 2.0, len(y)))
    problem = replace(problem, X=container(X))
    W, b = vectors(5, 4), rng.normal(size=4) * fit_intercept
    machine = Machine(W, b, problem.primal(W, b))
    tangent = Tangent(machine, problem.penalty.apart(W), problem.penalty.pull(W), 0.7)
    exact, _ = solve_exactly(problem, tangent, 1e-9, 200)
    optimum = tangent.model(exact.W, exact.loss)
    assert optimum - tangent.bound(problem, exact.duals) <= 1e-8
    loop = ModelAscent(problem, tangent, None, machine.primal, 0)
    bounds = []
    for _ in range(60):
        loop.advance(1e-9, 10**5)
        bounds.append(tangent.bound(problem, loop.attempt(1).duals))
    assert max(bounds) <= optimum + 1e-9
    tried = loop.attempt(1)
    assert tangent.model(tried.W, tried.loss) == pytest.approx(optimum, rel=1e-6) == max(bounds)
    S = X @ tried.W + tried.b
    assert tried.loss == pytest.approx(float(problem.cost @ problem.loss.value(S, problem.y)))


# -- the machine -------------------------------------------------------------------------------------------


@with_and_without_intercept
@each_regularizer
def test_the_objective_never_rises_and_ends_below_the_start(regularizer, fit_intercept, wine):
    X, y = wine
    for omega in (0.3, 30.0):
        est = AngularSVC(omega=omega, regularizer=regularizer, fit_intercept=fit_intercept, random_state=0, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what it is about holds all the same
            est.fit(X, y)
        assert (np.diff(est.objective_history_) <= 0).all()
        assert est.objective_ == pytest.approx(est.objective_history_[-1], rel=1e-12)
        assert est.objective_history_[-1] <= est.objective_history_[0]
        assert omega < 1.0 or est.objective_ < est.objective_history_[0]
        assert len(est.min_angle_history_) == len(est.objective_history_)
        assert est.certificate_.dual <= est.objective_


def smoothed(problem, width):
    """F with a rounded hinge, and its gradient, in (W, b)."""
    X, y, (d, c) = np.asarray(problem.X), problem.y, (problem.n_features, problem.n_classes)
    rows = np.arange(len(y))

    def F(v):
        W, b = v[: d * c].reshape(d, c), v[d * c :]
        E = X @ W + (b if problem.fit_intercept else 0.0)
        E = 1.0 + E - E[rows, y][:, None]
        E[rows, y] = 0.0
        top = E.max(axis=1, keepdims=True)
        P = np.exp((E - top) / width)
        total = P.sum(axis=1, keepdims=True)
        T = problem.cost[:, None] * P / total
        value = float(problem.cost @ (top + width * np.log(total))[:, 0])
        T[rows, y] -= T.sum(axis=1)
        slope = np.concatenate([(X.T @ T + problem.penalty.gradient(W)).ravel(), T.sum(axis=0) * problem.fit_intercept])
        return value + problem.penalty.value(W), slope

    return F


@pytest.mark.parametrize("omega", [0.5, 5.0, 50.0])
@with_and_without_intercept
def test_no_worse_than_many_starts_of_lbfgs_on_the_smoothed_problem(omega, fit_intercept, overlapping, iris):
    for X, y in (overlapping, iris):
        est = AngularSVC(omega=omega, fit_intercept=fit_intercept, random_state=0, tol=1e-6).fit(X, y)
        problem = problem_of(X, y, fit_intercept, omega, floor=est._floor)
        d, c = X.shape[1], problem.n_classes
        best = np.inf
        for seed in range(6):
            v = np.random.default_rng(seed).normal(size=d * c + c)
            for width in (0.1, 1e-2, 1e-3):
                v = minimize(smoothed(problem, width), v, jac=True, method="L-BFGS-B", options={"maxiter": 400}).x
            best = min(best, problem.primal(v[: d * c].reshape(d, c), v[d * c :] * fit_intercept))
        assert est.objective_ <= best * (1 + 1e-3)


@with_and_without_intercept
def test_a_stationary_machine_cannot_be_improved_nearby(fit_intercept, overlapping):
    X, y = overlapping
    est = AngularSVC(omega=5.0, fit_intercept=fit_intercept, tol=1e-8, random_state=0).fit(X, y)
    assert est.certificate_.status == "stationary" and est.certificate_.stationarity <= 1e-8
    problem = problem_of(X, y, fit_intercept, 5.0, floor=est._floor)
    W, b = est.class_vectors_.T, est.class_offsets_
    assert problem.primal(W, b) == pytest.approx(est.objective_)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3, 1e-4):
        for _ in range(20):
            step = size * rng.normal(size=W.shape)
            moved = b + size * rng.normal(size=b.shape) * fit_intercept
            assert problem.primal(W + step, moved) >= est.objective_ * (1 - 1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@with_and_without_intercept
def test_omega_zero_is_crammer_singer(kernel, fit_intercept, wine):
    settings = {"kernel": kernel, "fit_intercept": fit_intercept, "tol": 1e-6, "random_state": 0}
    plain, est = CrammerSingerSVC(**settings).fit(*wine), AngularSVC(omega=0.0, **settings).fit(*wine)
    assert est.certificate_.status == "optimal"
    assert est.objective_ == plain.objective_
    np.testing.assert_array_equal(est.decision_function(wine[0]), plain.decision_function(wine[0]))
    tiny = AngularSVC(omega=1e-7, **settings).fit(*wine)
    assert tiny.objective_ == pytest.approx(plain.objective_, rel=1e-5)


@with_and_without_intercept
@each_regularizer
def test_columns_of_zeros_change_nothing(regularizer, fit_intercept, iris):
    X, y = iris
    settings = {"omega": 3.0, "regularizer": regularizer, "fit_intercept": fit_intercept, "random_state": 0, "tol": 1e-5}
    plain = AngularSVC(**settings).fit(X, y)
    more = AngularSVC(**settings).fit(np.c_[X, np.zeros((len(y), 3))], y)
    assert more.objective_ == pytest.approx(plain.objective_, rel=1e-4)
    np.testing.assert_array_equal(more.class_vectors_[:, 4:], 0.0)
    assert len(more.singular_values_) == len(plain.singular_values_) == 3


def test_dependent_columns_add_no_dimension(iris):
    X, y = iris
    twice = AngularSVC(fit_intercept=False).fit(np.c_[X[:, :2], X[:, :2]], y)
    assert len(twice.singular_values_) == 2  # not 3, the number of classes
    shifted = AngularSVC(fit_intercept=True).fit(np.c_[X[:, :2], np.ones(len(y))], y)
    assert len(shifted.singular_values_) == 2  # with an intercept a constant column is no direction
    assert len(AngularSVC(fit_intercept=False).fit(np.c_[X[:, :2], np.ones(len(y))], y).singular_values_) == 3


def test_larger_omega_larger_angles(wine):
    X, y = wine
    fits = [AngularSVC(omega=omega, random_state=0).fit(X, y) for omega in (0.01, 1.0, 10.0, 100.0)]
    assert (np.diff([est.min_angle_ for est in fits]) > 0).all()
    assert (np.diff([est.uniformity_ for est in fits]) > 0).all()
    assert fits[-1].min_angle_ > 80


def test_attributes_describe_the_class_vectors(wine):
    est = AngularSVC(random_state=0).fit(*wine)
    W = est.class_vectors_
    unit = W / np.linalg.norm(W, axis=1, keepdims=True)
    pairs = np.triu_indices(3, 1)
    np.testing.assert_allclose(np.cos(np.radians(est.angles_[pairs])), np.abs(unit @ unit.T)[pairs], atol=1e-12)
    assert est.min_angle_ == est.angles_[pairs].min() == pytest.approx(est.min_angle_history_[-1])
    np.testing.assert_allclose(est.singular_values_, np.linalg.svd(W, compute_uv=False))
    squares = est.singular_values_**2
    assert est.uniformity_ == pytest.approx(np.exp(np.log(squares).mean()) / squares.mean())


def test_more_classes_than_columns():
    """The paper's Yeast: its formula is log 0 there."""
    X, y = load_digits(return_X_y=True)
    X = np.random.default_rng(0).normal(size=(64, 4)).T @ X[:400].T / 16.0
    X = X.T
    est = AngularSVC(omega=10.0, random_state=0).fit(X, y[:400])
    assert est.class_vectors_.shape == (10, 4) and len(est.singular_values_) == 4
    assert np.isfinite(est.objective_) and est.certificate_.status == "stationary"


@each_regularizer
@with_and_without_intercept
def test_two_classes(regularizer, fit_intercept, two_classes):
    """Without a common vector the two are opposite to each other: with it they are not."""
    X, y = two_classes
    settings = {"regularizer": regularizer, "fit_intercept": fit_intercept, "random_state": 0}
    est = AngularSVC(omega=10.0, **settings).fit(X, y)
    assert est.certificate_.status == "stationary"
    assert est.min_angle_ > 30
    plain = CrammerSingerSVC(fit_intercept=fit_intercept, random_state=0).fit(X, y)
    assert est.objective_ < plain.objective_ + 5.0 * AnglePenalty(1.0, regularizer, 2, est._floor).angles.value(
        plain.class_vectors_.T
    )


@each_regularizer
def test_one_column(regularizer):
    """All vectors lie on one line: the angles are given, and only the lengths are to be found."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 1)) + 2.0 * y[:, None]
    est = AngularSVC(regularizer=regularizer, random_state=0, tol=1e-6).fit(X, y)
    plain = CrammerSingerSVC(random_state=0, tol=1e-6).fit(X, y)
    assert np.isfinite(est.objective_) and len(est.singular_values_) == 1
    if regularizer == "angular":  # A = log s^2 - log s^2
        assert est.objective_ == pytest.approx(plain.objective_, rel=1e-4)


@each_regularizer
def test_classes_with_the_same_data(regularizer):
    """Their vectors coincide in the Crammer-Singer machine, so that the start is short of rank."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + 3.0 * np.eye(4)[y]
    X, y = np.vstack([X, X[y == 0]]), np.concatenate([y, np.full(30, 3)])
    est = AngularSVC(regularizer=regularizer, random_state=0, tol=1e-3).fit(X, y)
    assert np.isfinite(est.objective_) and np.isfinite(est.class_vectors_).all()
    assert (np.diff(est.objective_history_) <= 0).all()
    assert est.score(X[:90], y[:90]) > 0.6


def test_a_collapsed_start_is_the_optimum_and_says_so():
    """Two classes with the same rows and nothing else: W = 0 is the Crammer-Singer machine."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.warns(UserWarning, match="trivial solution"):
        est = AngularSVC(random_state=0).fit(np.vstack([X, X]), np.repeat([0, 1], 30))
    assert est.certificate_.status == "optimal"
    np.testing.assert_allclose(est.class_vectors_, 0.0, atol=1e-6)
    assert est.objective_ == pytest.approx(60.0 + 0.5 * np.log(2), rel=1e-4)


def test_warm_start_over_C_and_omega(wine):
    X, y = wine
    warm = AngularSVC(warm_start=True, random_state=0, tol=1e-5)
    total = 0
    for C, omega in ((1.0, 0.1), (1.0, 1.0), (1.0, 10.0), (3.0, 10.0), (3.0, 0.0), (3.0, 1.0)):
        warm.set_params(C=C, omega=omega).fit(X, y)
        cold = AngularSVC(C=C, omega=omega, random_state=0, tol=1e-5).fit(X, y)
        assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-3)
        total += warm.n_iter_ - cold.n_iter_
    assert total < 0


def test_kernel_and_linear_agree_on_angles(iris):
    X, y = iris
    direct = AngularSVC(omega=3.0, random_state=0, tol=1e-7).fit(X, y)
    mapped = AngularSVC(omega=3.0, random_state=0, tol=1e-7, kernel="poly", degree=1, gamma=1.0).fit(X, y)
    np.testing.assert_allclose(mapped.angles_, direct.angles_, atol=0.05)
    np.testing.assert_allclose(mapped.singular_values_, direct.singular_values_, rtol=1e-3)


def test_wide_sparse_rows():
    """More columns than rows: W lies in the span of the rows, whose dimension counts."""
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 500), density=0.05, rng=rng, format="csr")
    y = np.arange(40) % 4
    est = AngularSVC(C=10.0, fit_intercept=False, random_state=0).fit(X, y)
    assert len(est.singular_values_) == 4
    dense = X.toarray()
    Q = np.linalg.svd(dense, full_matrices=False)[2]
    np.testing.assert_allclose(est.class_vectors_ @ Q.T @ Q, est.class_vectors_, atol=1e-10)


def test_the_span_is_seen_in_few_directions():
    X = vectors(50, 3) @ vectors(3, 20, seed=1)
    for fit_intercept, rank in ((False, 3), (True, 3)):
        assert look_at_rows(problem_of(X, np.arange(50) % 6, fit_intercept)).basis.shape[1] == rank
    assert look_at_rows(problem_of(X + 1.0, np.arange(50) % 6, True)).basis.shape[1] == 3
    assert look_at_rows(problem_of(X + 1.0, np.arange(50) % 6, False)).basis.shape[1] == 4


@pytest.mark.parametrize(
    "name, value", [("omega", -1.0), ("omega", np.nan), ("omega", "1"), ("regularizer", "angle"), ("n_starts", 0)]
)
def test_bad_parameters_are_named(name, value, iris):
    with pytest.raises(ValueError, match=f"{name}="):
        AngularSVC(**{name: value}).fit(*iris)


# -- heavy angles ------------------------------------------------------------------------------------------


def overlapping_blobs(n=300, d=10, c=8, seed=0, class_sep=0.5):
    X, y = make_classification(
        n, d, n_informative=5, n_redundant=0, n_classes=c, n_clusters_per_class=1, class_sep=class_sep, random_state=seed
    )
    return scale(X), y


def quietly(est, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what they are about is not the point here
        return est.fit(*data, **more)


def excess(est):
    """The objective without (omega/2) min A, which no machine can change."""
    rank = max(1, len(est.singular_values_))
    least = {"angular": np.log(rank), "diversity": -0.5 * np.pi}.get(est.regularizer, 0.0)
    return est.objective_ - 0.5 * est.omega * least


@pytest.mark.parametrize("fit_intercept, C", [(True, 0.1), (False, 1.0)])
def test_heavy_angles_end_no_higher_than_a_continuation_in_omega_and_no_seed_matters(fit_intercept, C):
    X, y = overlapping_blobs(d=6, seed=1, class_sep=1.0)
    settings = {"C": C, "fit_intercept": fit_intercept}
    warm = AngularSVC(warm_start=True, random_state=0, **settings)
    for omega in (10.0, 30.0, 100.0, 300.0, 1000.0):
        quietly(warm.set_params(omega=omega), X, y)
        if omega >= 300.0:
            ends = [excess(quietly(AngularSVC(omega=omega, random_state=seed, **settings), X, y)) for seed in range(3)]
            assert max(ends) <= 1.001 * excess(warm)
            assert max(ends) <= 1.001 * min(ends)


@pytest.mark.parametrize("omega", [500.0, 5000.0])
def test_w_is_zero_only_where_nothing_better_is_known(omega):
    """Such fits ended at W = 0, with the claim that no machine is better."""
    X, y = overlapping_blobs(200, 5, 4)
    for C in (0.01, 0.1, 1.0):
        est = quietly(AngularSVC(C, omega=omega, random_state=0), X, y)
        assert np.linalg.norm(est.class_vectors_) > 0.1
        assert excess(est) < 0.996 * C * len(y)


@each_regularizer
@with_and_without_intercept
def test_never_worse_than_without_class_vectors(regularizer, fit_intercept):
    """W = 0 costs the loss of equal scores and nothing else, whatever omega is."""
    X, y = overlapping_blobs(120, 5, 6, seed=3)
    for C in (1e-3, 0.1):
        for omega in (1.0, 1e4):
            settings = {"omega": omega, "regularizer": regularizer, "fit_intercept": fit_intercept, "max_iter": 200}
            est = AngularSVC(C, random_state=0, **settings)
            assert excess(quietly(est, X, y)) <= C * len(y) * (1 + 1e-9)


def test_a_machine_without_angles_that_is_all_but_zero_may_be_sparse():
    """Where W = 0 is all but proven to be the best, the start is solved as convex machines are, which may keep W sparse."""
    X, y = sp.csr_matrix((105, 14)), np.arange(105) % 2
    for omega in (0.0, 1.0):
        est = AngularSVC(omega=omega, fit_intercept=False, tol=1e-4, max_iter=3, warm_start=True, random_state=0)
        est = quietly(quietly(est, X, y).set_params(C=3.0), X, y)
        assert isinstance(est.class_vectors_, np.ndarray) and est.certificate_.converged


def test_the_warning_about_a_trivial_solution_claims_what_is_proven():
    X, y = overlapping_blobs(400, 8, 6, seed=1)  # no class stands out: the Crammer-Singer machine is 0 too
    with pytest.warns(UserWarning, match="no machine is better by more than 0.1 %"):
        est = AngularSVC(0.1, omega=500.0, random_state=0).fit(X, y)
    assert est.certificate_.status == "optimal"
    assert est.certificate_.dual - est.certificate_.constant >= 0.999 * 0.1 * len(y)
    X, y = overlapping_blobs(400, 8, 6, seed=0)
    with pytest.warns(UserWarning, match="no machine was found that is better than W = 0.*does not exclude one"):
        est = AngularSVC(0.1, omega=500.0, random_state=0).fit(X, y)
    assert not est.class_vectors_.any() and est.certificate_.rel_gap > 1e-3


@with_and_without_intercept
@pytest.mark.parametrize("omega", [1e3, 1e4, 1e6])
def test_a_large_omega_does_not_loosen_the_tolerance(omega, fit_intercept, iris):
    settings = {"omega": omega, "fit_intercept": fit_intercept, "random_state": 0, "max_iter": 3000}
    usual, tight = (quietly(AngularSVC(tol=tol, **settings), *iris) for tol in (1e-4, 1e-6))
    assert excess(usual) <= excess(tight) * (1 + 2e-3)
    end = usual.certificate_
    assert end.constant == pytest.approx(0.5 * omega * np.log(3))
    assert end.rel_gap == pytest.approx(end.gap / (end.primal - end.constant))


# -- kinks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", RIVALS)
def test_rounded_kinks(regularizer):
    """Never above the exact value, smooth, and exact at right angles once the multipliers have settled."""
    exact = REGULARIZERS[regularizer](4, 0.0)
    rounded = exact.rounded(0.1)
    Q = np.linalg.qr(vectors(6, 4))[0]
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.03, 0.3):
        W, V = Q + size * rng.normal(size=Q.shape), rng.normal(size=Q.shape)
        rounded = rounded.settled_at(W)
        for t in (0.0, 0.02):
            if regularizer != "diversity":  # which is not monotone in |cos|
                assert rounded.value(W + t * V) <= exact.value(W + t * V) + 1e-12
        h = 1e-6
        slope = (rounded.value(W + h * V) - rounded.value(W - h * V)) / (2 * h)
        assert slope == pytest.approx(np.vdot(rounded.gradient(W), V), rel=1e-4, abs=1e-6)
        assert rounded.value(Q) <= rounded.value(Q + 1e-3 * V) + 1.0 * size  # a kink stays a kink
    assert np.any(rounded.multipliers)
    assert rounded.value(Q) == pytest.approx(exact.value(Q), abs=1e-12)


@pytest.mark.parametrize("omega", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("regularizer", RIVALS)
def test_rivals_are_no_worse_than_many_starts_of_lbfgs_at_the_default_tolerance(
    regularizer, omega, overlapping, iris, wine
):
    # on iris a class vector tends to 0 if omega is large, and more than 1000 epochs are needed
    for (X, y), fit_intercept in ((overlapping, False), (iris if omega <= 10.0 else wine, True)):
        est = quietly(AngularSVC(omega=omega, regularizer=regularizer, fit_intercept=fit_intercept, random_state=0), X, y)
        problem = problem_of(X, y, fit_intercept, omega, regularizer=regularizer, floor=est._floor)
        d, c = X.shape[1], problem.n_classes
        best = np.inf
        for seed in range(2):
            v = np.random.default_rng(seed).normal(size=d * c + c)
            for width in (0.3, 0.03, 3e-3, 3e-4):
                rounded = replace(problem, penalty=problem.penalty.with_(angles=problem.penalty.angles.rounded(width)))
                v = minimize(smoothed(rounded, width), v, jac=True, method="L-BFGS-B", options={"maxiter": 150}).x
            best = min(best, problem.primal(v[: d * c].reshape(d, c), v[d * c :] * fit_intercept))
        assert excess(est) <= (best - problem.penalty.least) * (1 + 1e-3)


# -- several starts ----------------------------------------------------------------------------------------


def test_several_starts_keep_the_best():
    X, y = overlapping_blobs(150, 6, seed=1, class_sep=1.0)
    few, many, again = (
        AngularSVC(0.1, n_starts=n_starts, fit_intercept=False, random_state=0).fit(X, y) for n_starts in (1, 4, 4)
    )
    assert excess(many) < 0.995 * excess(few)  # there is a better minimum
    assert many.certificate_.status == "stationary" and many.certificate_.stationarity <= many.tol
    assert many.certificate_.dual <= many.objective_
    assert (np.diff(many.objective_history_) <= 0).all() and many.n_iter_ <= many.max_iter
    np.testing.assert_array_equal(many.class_vectors_, again.class_vectors_)


# -- degenerate rows ---------------------------------------------------------------------------------------


def degenerate_rows():
    rng = np.random.default_rng(0)
    y = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2])  # the first class has more than half of the rows
    even = np.arange(12) % 3
    return {
        "constant": (np.full((12, 2), 5.0), y),
        "constant, even classes": (np.ones((12, 3)), even),
        "zero": (np.zeros((12, 3)), y),
        "one column": (rng.normal(size=(12, 1)), even),
        "one constant column": (np.ones((12, 1)), y),
        "one row a class": (rng.normal(size=(3, 4)), np.arange(3)),
        "one zero row a class": (np.zeros((3, 2)), np.arange(3)),
        "two classes": (rng.normal(size=(12, 3)), np.arange(12) % 2),
        "two equal rows": (np.ones((2, 3)), np.arange(2)),
        "rows with all labels": (np.repeat(rng.normal(size=(4, 3)), 3, axis=0), even),
        "one row differs": (np.vstack([np.ones((11, 2)), [[2.0, 3.0]]]), y),
    }


@pytest.mark.pool(0.25)
@each_regularizer
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid", "precomputed"])
@pytest.mark.parametrize("case", degenerate_rows())
def test_degenerate_rows(case, kernel, regularizer):
    X, y = degenerate_rows()[case]
    X = X @ X.T if kernel == "precomputed" else X
    for fit_intercept in (True, False):
        for omega in (1.0, 1000.0):
            settings = {"kernel": kernel, "regularizer": regularizer, "fit_intercept": fit_intercept, "omega": omega}
            est = AngularSVC(max_iter=60, **settings)
            quietly(est, X, y)
            assert est.predict(X).shape == y.shape and np.isfinite(est.decision_function(X)).all()
            assert np.isfinite(est.objective_) and est.certificate_.dual <= est.objective_ + 1e-9 * abs(est.objective_)
            assert excess(est) <= len(y) * (1 + 1e-9)


def test_a_majority_of_constant_rows():
    """The best machine is an offset: W = 0, a margin for the class with more than half of the rows."""
    X, y = degenerate_rows()["constant"]
    for kernel in ("linear", "rbf"):
        with pytest.warns(UserWarning, match="trivial solution"):
            est = AngularSVC(kernel=kernel).fit(X, y)
        assert excess(est) == pytest.approx(2.0 * 5.0, rel=1e-4)
        assert (est.predict(X) == 0).all()


# -- far from zero -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", ["angular", "cosine"])
def test_columns_far_from_zero(regularizer, iris):
    X, y = iris
    X = np.round(X * 2**20) / 2**20  # so that nothing is lost when the columns move
    settings = {"regularizer": regularizer, "omega": 3.0, "tol": 1e-5, "random_state": 0}
    near = AngularSVC(**settings).fit(X, y)
    for far in 10.0 ** np.arange(1, 9):
        est = quietly(AngularSVC(**settings), X + far, y)
        assert est.objective_ == pytest.approx(near.objective_, rel=1e-4)
        assert est.certificate_.status == "stationary" and est.certificate_.dual <= est.objective_


def test_a_warm_start_knows_moved_rows(iris):
    X, y = iris
    warm = AngularSVC(warm_start=True, random_state=0)
    quietly(warm, X + 1e6, y)
    cold = warm.n_iter_
    quietly(warm, X + 1e6, y)
    assert warm.n_iter_ < 0.5 * cold
    assert warm.objective_ == pytest.approx(AngularSVC(random_state=0).fit(X, y).objective_, rel=1e-3)


# -- what a fit leaves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("omega", [0.0, 1.0])
def test_a_warm_machine_can_be_saved_and_paths_keep_nothing_warm(omega, iris, tmp_path):
    est = AngularSVC(omega=omega, warm_start=True, random_state=0).fit(*iris)
    save(est, tmp_path / "machine.pm")
    loaded = load(tmp_path / "machine.pm")
    np.testing.assert_array_equal(loaded.decision_function(iris[0]), est.decision_function(iris[0]))
    assert not [name for name in vars(loaded) if name.startswith(("_warm", "_memory"))]
    path = regularization_path(AngularSVC(random_state=0), *iris, Cs=[0.1, 1.0], param_name="omega")
    for machine in path.machines:
        assert not [name for name in vars(machine) if name.startswith(("_warm", "_memory"))]


def test_a_warm_start_from_omega_0_is_not_told_that_ascent_crawls(iris, monkeypatch):
    est = AngularSVC(omega=0.0, warm_start=True, random_state=0).fit(*iris)
    monkeypatch.setattr(angle_models, "solve_exactly", lambda *_: pytest.fail("the interior point was called"))
    est.set_params(omega=0.1).fit(*iris)
    assert est.certificate_.status == "stationary"


@pytest.mark.parametrize("settings", [{}, {"omega": 1000.0, "regularizer": "cosine"}, {"kernel": "rbf"}, {"n_starts": 2}])
def test_default_fits_are_repeatable(settings, iris):
    first, second = (quietly(AngularSVC(**settings), *iris) for _ in range(2))
    np.testing.assert_array_equal(first.decision_function(iris[0]), second.decision_function(iris[0]))
    assert first.objective_ == second.objective_
