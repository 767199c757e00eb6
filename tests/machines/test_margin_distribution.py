"""MarginDistributionSVC: its convex steps against CVXPY, its rounds, its row problem against a twin, its special cases."""

from __future__ import annotations

import functools
import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import minmax_scale, scale

from polymargin import CrammerSingerSVC, MarginDistributionSVC
from polymargin._core import _baseline, native
from polymargin.features.kernel_map import KernelMap
from polymargin.losses.margin_distribution import MarginDistributionLoss
from polymargin.penalties import SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import Start, cost_model
from polymargin.solvers.ascent import margin_step
from polymargin.solvers.models.rivals import descend as descent_by_rivals
from polymargin.solvers.models.rivals import rounds as rival_rounds
from polymargin.solvers.models.rivals.steps import InteriorRounds

BUILDS = [_baseline] if native is _baseline else [_baseline, native]


# -- the row problem ---------------------------------------------------------------------------------------------------


def row_twin(h, h_own, h_rival, rival, q, kappa, theta, mu):
    """Maximise the row's dual over a >= 0, beta >= 0 by a general solver; h are scores without the row's contribution."""
    m = len(h)

    def tau(z):
        own, others = z[:m].sum() - z[m], -z[:m]
        if rival >= 0:
            others = others.copy()
            others[rival] += z[m]
        return own, others

    def negative(z):
        A, beta = z[:m].sum(), z[m]
        own, others = tau(z)
        gain = (1 - theta) * A - (1 + theta) * beta - A**2 / (4 * kappa) - beta**2 / (4 * kappa * mu)
        if rival < 0:
            gain -= beta * h_rival
        return -(gain - own * h_own - others @ h - q / 2 * (own**2 + others @ others))

    def gradient(z):
        own, others = tau(z)
        s_own, s = h_own + q * own, h + q * others
        top = s[rival] if rival >= 0 else h_rival
        slope = (1 - theta) - z[:m].sum() / (2 * kappa) - (s_own - s)
        return -np.append(slope, s_own - top - (1 + theta) - z[m] / (2 * kappa * mu))

    start = np.full(m + 1, 0.1)
    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-17, "gtol": 1e-12}
    return minimize(negative, start, jac=gradient, bounds=[(0, None)] * (m + 1), method="L-BFGS-B", options=options)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_row_is_solved_exactly(build, frozen):
    rng = np.random.default_rng(0)
    with_beta = 0
    for _ in range(300):
        m = int(rng.integers(1, 7))
        q, kappa = 10.0 ** rng.uniform(-1, 1, size=2)
        theta, mu = rng.uniform(0, 0.9), rng.uniform(0.05, 1)
        h, h_own = rng.normal(size=m), float(rng.normal() * 2 + 1)
        rival = -1 if frozen else int(rng.integers(m))
        h_rival = float(rng.normal()) if frozen else float(h[rival])
        # the loop sees scores with the contribution of the duals so far
        a, beta = rng.random(m) * (rng.random(m) < 0.5), float(rng.random())
        if not frozen:
            a[rival] = 0.0
        g, g_own = h - q * a, h_own + q * (a.sum() - beta)
        if not frozen:
            g[rival] += q * beta
        found, found_beta = build.solve_band_row(g, a, beta, g_own, rival, h_rival, q, kappa, theta, mu)
        twin = row_twin(h, h_own, h_rival, rival, q, kappa, theta, mu)
        scale_of = 1e-5 * max(1.0, np.abs(twin.x).max())
        np.testing.assert_allclose(np.append(found, found_beta), twin.x, atol=scale_of)
        with_beta += found_beta > 0
    assert 30 < with_beta < 270  # both cases occur


def test_a_row_of_zeros_pays_in_full():
    a, beta = native.solve_band_row(np.zeros(3), np.zeros(3), 0.0, 0.0, 0, 0.0, 0.0, 2.0, 0.3, 0.5)
    assert a.sum() == pytest.approx(2 * 2.0 * 0.7) and beta == 0.0


# -- a convex step against CVXPY -----------------------------------------------------------------------------------------


def step_data(seed, n=40, d=5, c=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n).astype(np.int32)
    y[:c] = np.arange(c)
    X = rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(c, d))[y]
    cost = rng.uniform(0.2, 2.0, size=n) * 10.0 ** rng.uniform(-1, 1)
    return X, y, cost, float(rng.uniform(0, 0.8)), float(rng.uniform(0.05, 1.0))


def reference_step(X, y, cost, theta, mu, fit_intercept, rivals=None, levels=None):
    """The optimum of one convex step, written once more."""
    n, c = len(y), int(y.max()) + 1
    W, b = cp.Variable((X.shape[1], c)), cp.Variable((1, c))
    S = X @ W + np.ones((n, 1)) @ b
    own = cp.sum(cp.multiply(np.eye(c)[y], S), axis=1)
    gaps = 1 - theta + S - cp.reshape(own, (n, 1), order="C") @ np.ones((1, c))
    below = cp.pos(cp.max(cp.multiply(1 - np.eye(c)[y], gaps), axis=1))
    top = levels if rivals is None else cp.sum(cp.multiply(np.eye(c)[rivals], S), axis=1)
    above = cp.pos(own - top - 1 - theta)
    kappa = cost / (1 - theta) ** 2
    losses = cp.sum(cp.multiply(kappa, cp.square(below))) + mu * cp.sum(cp.multiply(kappa, cp.square(above)))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + losses), [] if fit_intercept else [b == 0])
    return float(problem.solve(solver=cp.CLARABEL))


def solved_step(X, y, cost, theta, mu, fit_intercept, frozen, tol=1e-7):
    """One convex step at a rough machine: its values, and the rivals and levels it was made with."""
    problem = Problem(X, y, cost, int(y.max()) + 1, MarginDistributionLoss(theta, mu), SquaredNorm(), fit_intercept)
    ascent = margin_step.Ascent(problem, margin_step.Settings(10**7, 0, 1), None, frozen)
    margin_step.solve_step(ascent, 1e-2)
    machine = ascent.machine(0.0)
    S = np.asarray(X @ machine.W) + machine.b
    S[np.arange(len(y)), y] = -np.inf
    ascent.relinearise()
    return margin_step.solve_step(ascent, tol), S.argmax(axis=1), S.max(axis=1)


@pytest.mark.parametrize("newton", [True, False])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("frozen, fit_intercept", [(False, False), (False, True), (True, False)])
def test_a_convex_step_matches_cvxpy(frozen, fit_intercept, storage, newton, monkeypatch):
    if not newton:
        monkeypatch.setattr(cost_model, "_MOST_NEWTON_FEATURES", 0)
    for seed in range(3):
        X, y, cost, theta, mu = step_data(seed)
        rows = sparse.csr_matrix(X) if storage == "csr" else X
        seen, rivals, levels = solved_step(rows, y, cost, theta, mu, fit_intercept, frozen)
        wanted = (None, levels) if frozen else (rivals, None)
        optimum = reference_step(X, y, cost, theta, mu, fit_intercept, *wanted)
        assert seen.relaxed == pytest.approx(optimum, rel=1e-6)
        assert seen.dual <= optimum * (1 + 1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_convex_step_by_conjugate_gradients_matches_cvxpy(fit_intercept, monkeypatch):
    monkeypatch.setattr(cost_model, "_LARGEST_NEWTON_MATRIX", 0)
    X, y, cost, theta, mu = step_data(3)
    seen, rivals, _ = solved_step(X + 2.0, y, cost, theta, mu, fit_intercept, False)
    assert seen.relaxed == pytest.approx(reference_step(X + 2.0, y, cost, theta, mu, fit_intercept, rivals), rel=1e-6)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_convex_step_by_interior_points_matches_cvxpy(fit_intercept, storage):
    for seed in range(6):
        X, y, cost, theta, mu = step_data(seed, d=5 if seed % 2 else 60)
        rows = sparse.csr_matrix(X) if storage == "csr" else X
        problem = Problem(rows, y, cost, 4, MarginDistributionLoss(theta, mu), SquaredNorm(), fit_intercept)
        interior = InteriorRounds(problem, 1e-9, margin_step.Ascent(problem, margin_step.Settings(100 * len(y), 0, 1)))
        interior.start_at_hinges(1e-2)
        interior.relinearise()
        interior.improve(1e-9)
        machine, duals, bound = interior.machine(0.0), interior.duals(), interior.look().dual
        optimum = reference_step(X, y, cost, theta, mu, fit_intercept, interior.rivals)
        assert bound == pytest.approx(optimum, rel=1e-6) and bound <= optimum * (1 + 1e-7)
        assert machine.primal == pytest.approx(problem.primal(machine.W, machine.b), rel=1e-12)
        # the signed duals make the machine, and start the native loop at it
        support, tau = problem.signed_duals(duals)
        np.testing.assert_allclose(X[support].T @ tau, machine.W, atol=1e-5 * abs(machine.W).max())
        ascent = margin_step.Ascent(problem, margin_step.Settings(10**7, 0, 1), Start(duals, machine.b))
        assert ascent.look().dual == pytest.approx(optimum, rel=1e-5)


@pytest.mark.parametrize("frozen, fit_intercept", [(False, False), (False, True), (True, False)])
def test_a_convex_step_with_an_rbf_kernel_matches_cvxpy(frozen, fit_intercept):
    X, y, cost, theta, mu = step_data(5, n=30)
    features = KernelMap("rbf", 0.3, 3, 0.0, None, 0).fit_transform(X, np.ones(len(y)))
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    np.testing.assert_allclose(features @ features.T, K, atol=1e-6)
    seen, rivals, levels = solved_step(np.ascontiguousarray(features), y, cost, theta, mu, fit_intercept, frozen)
    wanted = (None, levels) if frozen else (rivals, None)
    values, vectors = np.linalg.eigh(K)  # another factor of the same kernel matrix
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    assert seen.relaxed == pytest.approx(reference_step(factor, y, cost, theta, mu, fit_intercept, *wanted), rel=1e-5)


def test_the_bound_holds_however_early_a_step_is_left():
    X, y, cost, theta, mu = step_data(6)
    for fit_intercept in (False, True):
        problem = Problem(X, y, cost, 4, MarginDistributionLoss(theta, mu), SquaredNorm(), fit_intercept)
        ascent = margin_step.Ascent(problem, margin_step.Settings(3 * len(y), 0, 1))
        ascent.improve(1e-9)
        first = ascent.look()
        machine = ascent.machine(0.0)
        S = X @ machine.W + machine.b
        S[np.arange(len(y)), y] = -np.inf
        ascent.relinearise()
        ascent.budget = 5 * len(y)
        ascent.improve(1e-9)
        seen = ascent.look()
        assert first.dual <= first.relaxed and seen.dual <= seen.relaxed
        assert seen.dual <= reference_step(X, y, cost, theta, mu, fit_intercept, S.argmax(axis=1)) * (1 + 1e-7)


# -- the rounds ------------------------------------------------------------------------------------------------------------


@functools.cache
def wine():
    X, y = load_wine(return_X_y=True)
    return np.column_stack([minmax_scale(X), np.ones(len(y))]), y


WINE = [(1.0, 0.2, 0.4, 17.2829), (10.0, 0.4, 0.8, 52.480)]


@pytest.mark.parametrize("C, theta, mu, known", WINE)
def test_wine_ends_no_worse_than_known(C, theta, mu, known):
    X, y = wine()
    est = MarginDistributionSVC(C, theta=theta, mu=mu, fit_intercept=False, tol=1e-6, random_state=0).fit(X, y)
    assert est.certificate_.status == "stationary"
    assert est.objective_ <= known * (1 + 1e-4)
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-10)


def papers_machine(C, **params):
    return MarginDistributionSVC(C, relaxation="paper", fit_intercept=False, random_state=0, **params)


def test_the_papers_iteration_settles_far_above_its_best_round():
    X, y = wine()
    est = papers_machine(1.0, theta=0.2, mu=0.4, tol=1e-5).fit(X, y)
    history = est.objective_history_
    assert history[0] == len(y)  # W = 0
    np.testing.assert_allclose(history[1:5], [23.8, 22.7, 22.6, 23.0], atol=0.06)
    assert history[25] == pytest.approx(40.7, abs=0.06)
    assert est.certificate_.status == "stationary" and est.last_decrease_ <= est.tol
    assert est.objective_ == history[-1] == pytest.approx(63.4, abs=0.1)  # the last round is kept, not the best
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-10)
    assert est.certificate_.dual <= 17.2829 and est.certificate_.bounds == "optimum"


def test_the_papers_iteration_says_that_it_did_not_settle():
    X, y = wine()
    est = papers_machine(10.0, theta=0.4, mu=0.8, tol=1e-5)
    with pytest.warns(ConvergenceWarning, match="did not settle .*which is kept"):
        est.fit(X, y)
    history = est.objective_history_
    assert history[25] == pytest.approx(713.0, rel=5e-3)
    assert est.certificate_.status == "max_iter" and est.last_decrease_ > est.tol
    assert est.objective_ == history[-1] > 1.1 * history.min()  # it goes on to rise
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_where_every_round_is_above_w_0_the_papers_machine_is_still_that_of_the_last_round(kernel):
    X, y = load_wine(return_X_y=True)
    est = papers_machine(10.0, max_iter=300, kernel=kernel, gamma=1.0, degree=1)
    with pytest.warns(ConvergenceWarning, match="did not settle"):
        est.fit(X, y)
    assert est.score(X, y) > 0.9  # W = 0 has the share of the first class, a third
    assert est.objective_ == pytest.approx(est.objective(X, y), rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_a_papers_machine_that_settled_above_w_0_is_no_success(kernel, n_classes):
    X, y = make_blobs(7 * n_classes, n_features=4, centers=n_classes, cluster_std=1.0, random_state=3)
    est = papers_machine(1.0, mu=1.0, kernel=kernel, gamma=1.0, degree=1, max_iter=100_000)
    with pytest.warns(ConvergenceWarning, match="settled above a better machine, W = 0"):
        est.fit(X, y)
    assert est.certificate_.status == "stalled" and est.last_decrease_ <= est.tol
    assert est.objective_ == est.objective_history_[-1] > est.objective_history_[0] == len(y)  # kept all the same


@functools.cache
def uneven_rows():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), [40, 6, 5, 5])
    return rng.normal(size=(len(y), 3)) + 3.0 * rng.normal(size=(4, 3))[y], y


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_however_early_a_fit_ends_it_is_no_worse_than_w_0(n_classes, kernel, fit_intercept):
    X, y = uneven_rows()
    X, y = X[y < n_classes], y[y < n_classes]
    params = {"kernel": kernel, "gamma": 1.0, "degree": 1, "fit_intercept": fit_intercept}
    share = (y == 0).mean()
    known = 1e3 * len(y) * (4.0 * share * (1.0 - share) if fit_intercept else 1.0)
    for max_iter in (1, 2, 3, 5, 8, 13, 1000):
        est = MarginDistributionSVC(1e3, mu=1.0, theta=0.3, max_iter=max_iter, random_state=0, **params)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            est.fit(X, y)
        end = est.certificate_
        assert est.objective_ <= known * (1.0 + 1e-9) and end.dual <= known
        assert est.objective_ == pytest.approx(est.objective(X, y), rel=1e-9)
        assert [w.category for w in caught] == ([] if end.converged else [ConvergenceWarning])
        assert (np.diff(est.objective_history_) < 0.0).all()
    assert end.converged


def test_the_best_offsets_without_vectors_are_known():
    rng = np.random.default_rng(0)
    for share in (0.2, 0.45, 0.6, 0.95):
        y = np.arange(5, dtype=np.int32)
        cost = np.append(share, (1.0 - share) * rng.dirichlet(np.ones(4)))
        problem = Problem(np.zeros((5, 2)), y, cost, 5, MarginDistributionLoss(0.3, 0.5), SquaredNorm(), True)
        found = rival_rounds.without_vectors(problem)
        assert problem.primal(found.W, found.b) == pytest.approx(found.primal, rel=1e-12)
        for b in 10.0 ** rng.uniform(-2, 1, size=(2000, 1)) * rng.normal(size=(2000, 5)):
            assert found.primal <= problem.primal(found.W, b)
            assert found.primal <= problem.primal(found.W, found.b + 0.01 * b)


def test_a_round_of_the_paper_that_is_cut_short_does_not_count():
    X, y = load_wine(return_X_y=True)
    est = papers_machine(1.0)
    with pytest.warns(ConvergenceWarning, match="did not settle"):
        est.fit(X, y)
    assert est.objective_ < 1e3 and est.score(X, y) > 0.9  # in the middle of the next round it is 1e5


@pytest.mark.parametrize("relaxation", ["paper", "cccp"])
@pytest.mark.parametrize("tol", [1e-4, 1e-1])
def test_w_0_is_never_a_result_without_a_warning(relaxation, tol):
    X = np.tile(np.random.default_rng(0).normal(size=(10, 3)), (3, 1))
    y = np.repeat([0, 1, 2], 10)  # every row once in each class
    est = MarginDistributionSVC(1.0, relaxation=relaxation, tol=tol, fit_intercept=False, random_state=0)
    with pytest.warns(UserWarning, match="trivial solution.*gives all classes the same score"):
        est.fit(X, y)
    assert np.abs(est.decision_function(X)).max() < 0.1


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_offsets_alone_are_no_result_without_a_warning(kernel):
    est = MarginDistributionSVC(kernel=kernel, random_state=0)
    with pytest.warns(UserWarning, match="trivial solution.*all rows have the same scores"):
        est.fit(np.ones((12, 2)), np.repeat([0, 1], [9, 3]))
    assert est.objective_ < 0.9 * 12


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_no_round_raises_the_objective(fit_intercept, sparse_rows):
    for seed in range(4):
        X, y = make_blobs(n_samples=150, n_features=6, centers=5, cluster_std=4.0, random_state=seed)
        X = scale(X)
        rows = sparse.csr_matrix(X) if sparse_rows else X
        for C, theta, mu in ((0.1, 0.0, 1.0), (3.0, 0.5, 0.2)):
            est = MarginDistributionSVC(C, theta=theta, mu=mu, fit_intercept=fit_intercept, tol=1e-6, random_state=seed)
            est.fit(rows, y)
            history = est.objective_history_
            assert (np.diff(history) < 0.0).all() and est.objective_ == history[-1]
            assert est.certificate_.status == "stationary" and 0.0 <= est.certificate_.rel_gap <= 1e-6
            assert est.objective(rows, y) == pytest.approx(est.objective_, rel=1e-9)
            # a stationary point of F: no convex step at it gains more than the tolerance
            problem = est._problem(X, y.astype(np.int32), np.ones(len(y)), 5)
            S = X @ est.class_vectors_.T + est.class_offsets_
            S[np.arange(len(y)), y] = -np.inf
            gain = est.objective_ - reference_step(X, y, problem.cost, theta, mu, fit_intercept, S.argmax(axis=1))
            assert gain <= 3e-6 * est.objective_


def hard_problems():
    """Raw columns, far from 0 or of any scale; classes that overlap or are far apart; more columns than rows."""
    rng = np.random.default_rng(0)
    yield "far from 0", rng.normal(100.0, 1.0, size=(90, 3)), rng.integers(0, 3, size=90)
    yield "wide", rng.normal(size=(50, 80)), rng.integers(0, 4, size=50)
    X, y = load_wine(return_X_y=True)
    yield "wine", X, y
    yield "wine x 1e4", 1e4 * X, y
    yield "wine / 1e4", 1e-4 * X, y
    X, y = load_digits(n_class=4, return_X_y=True)
    yield "digits", X[:150], y[:150]


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("X, y", [pytest.param(X, y, id=name) for name, X, y in hard_problems()])
@pytest.mark.filterwarnings("ignore:MarginDistributionSVC (was fitted on badly scaled|found a trivial):UserWarning")
def test_small_problems_converge_however_hard(X, y, C, fit_intercept):
    est = MarginDistributionSVC(C, fit_intercept=fit_intercept, random_state=0).fit(X, y)  # or a ConvergenceWarning
    assert est.certificate_.status == "stationary" and est.certificate_.rel_gap <= est.tol
    assert (np.diff(est.objective_history_) < 0.0).all()
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-6)
    again = MarginDistributionSVC(C, fit_intercept=fit_intercept, max_iter=est.n_iter_, random_state=0).fit(X, y)
    assert again.objective_ == est.objective_ and again.n_iter_ == est.n_iter_


# -- columns far from 0, and of any scale ---------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.filterwarnings("ignore:MarginDistributionSVC was fitted on badly scaled:UserWarning")
def test_columns_far_from_zero_change_nothing(n_classes, storage):
    X, y, cost, theta, mu = step_data(7, c=n_classes)
    X = np.column_stack([X, np.ones(len(y))])
    params = {"theta": theta, "mu": mu, "random_state": 0}
    near = MarginDistributionSVC(**params).fit(X, y, sample_weight=cost)
    for distance in 10.0 ** np.arange(9):
        moved = X + distance * np.arange(1, X.shape[1] + 1)
        rows = sparse.csr_matrix(moved) if storage == "csr" else moved
        far = MarginDistributionSVC(**params).fit(rows, y, sample_weight=cost)
        assert far.certificate_.converged and far.certificate_.rel_gap <= far.tol
        assert far.objective_ == pytest.approx(near.objective_, rel=2e-4)
        assert far.objective(rows, y, sample_weight=cost) == pytest.approx(far.objective_, rel=1e-5)
        np.testing.assert_array_equal(far.predict(rows), near.predict(X))


@pytest.mark.filterwarnings("ignore:MarginDistributionSVC was fitted on badly scaled:UserWarning")
def test_a_warm_start_on_columns_far_from_zero_goes_on_from_the_last_machine():
    X, y, cost, theta, mu = step_data(8)
    est = MarginDistributionSVC(theta=theta, mu=mu, warm_start=True, random_state=0).fit(X + 1e6, y, sample_weight=cost)
    cold, last = est.n_iter_, est.objective_
    est.fit(X + 1e6, y, sample_weight=cost)
    assert est.objective_history_[0] == pytest.approx(last, rel=1e-2) and est.n_iter_ <= cold // 3


def wild_problem(seed):
    """Columns up to 1e8 standard deviations from 0, of scales 1e-8 to 1e8; C likewise; any band."""
    rng = np.random.default_rng(seed)
    n, d, c = rng.integers(6, 100), rng.integers(1, 12), rng.integers(2, 6)
    y = rng.integers(0, c, size=n)
    y[:c] = np.arange(c)
    X = rng.normal(size=(n, d)) + rng.uniform(0, 3) * rng.normal(size=(c, d))[y]
    X = (X + 10.0 ** rng.uniform(0, 8) * rng.normal(size=d)) * 10.0 ** rng.uniform(-8, 8, size=d if seed % 2 else 1)
    theta, mu = rng.choice([0.0, 0.2, 0.5, 0.9, 0.99]), rng.choice([1.0, 0.5, 0.1, 1e-3])
    return X, y, {"C": 10.0 ** rng.uniform(-8, 8), "theta": theta, "mu": mu, "fit_intercept": bool(rng.random() < 0.7)}


# Most of these seeds ended in "this is a bug", in overflows or at W = 0; the others are there for company.
@pytest.mark.pool(0.33)
@pytest.mark.parametrize("seed", [0, 1, 7, 25, 65, 177, 205, 299, 360, 371, 376, 382, 435, 446, 478, 675, 827, 1107, 1427])
@pytest.mark.parametrize("relaxation", ["cccp", "paper"])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_wild_columns_are_fitted_or_warned_about(seed, relaxation):
    X, y, params = wild_problem(seed)
    if relaxation == "paper":
        params["fit_intercept"] = False
    est = MarginDistributionSVC(**params, relaxation=relaxation, random_state=0).fit(X, y)  # or an error of any kind
    end = est.certificate_
    assert np.isfinite(est.class_vectors_).all() and np.isfinite(est.objective_)
    assert end.gap >= 0.0 and end.dual <= end.primal
    if end.converged:
        assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-3)
        assert est.class_vectors_.any() or est.objective_ == pytest.approx(params["C"] * len(y))


# -- degenerate rows -------------------------------------------------------------------------------------------------------


def degenerate_rows():
    rng = np.random.default_rng(0)
    thirds = np.arange(12) % 3
    yield "constant", np.full((12, 3), 2.0), thirds
    yield "constant, far from 0", np.full((12, 3), 1e6), thirds
    yield "zeros", np.zeros((12, 3)), thirds
    yield "a row of zeros", np.vstack([np.zeros((1, 3)), rng.normal(size=(11, 3))]), thirds
    yield "one column", rng.normal(size=(12, 1)), thirds
    yield "one column of ones", np.ones((12, 1)), thirds
    yield "one row a class", rng.normal(size=(5, 2)), np.arange(5)
    yield "each row in every class", np.tile(rng.normal(size=(4, 2)), (3, 1)), np.repeat([0, 1, 2], 4)
    yield "two rows", np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1])
    yield "two equal rows", np.ones((2, 2)), np.array([0, 1])
    yield "two rows of zeros", np.zeros((2, 2)), np.array([0, 1])
    yield "tiny", 1e-20 * rng.normal(size=(12, 3)), thirds


@pytest.mark.pool(0.25)
@pytest.mark.parametrize("relaxation", ["cccp", "paper"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid", "laplacian", "precomputed", "no kernel"])
@pytest.mark.parametrize("X, y", [pytest.param(X, y, id=name) for name, X, y in degenerate_rows()])
@pytest.mark.filterwarnings(
    "ignore:MarginDistributionSVC :UserWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:kernel='sigmoid' is not positive:UserWarning",
)
def test_degenerate_rows_are_fitted_and_predicted(X, y, kernel, relaxation):
    if kernel == "precomputed":
        X = X @ X.T
    elif kernel == "no kernel":
        X, kernel = np.zeros((len(y), len(y))), "precomputed"
    params = {"kernel": kernel, "relaxation": relaxation, "fit_intercept": relaxation == "cccp", "random_state": 0}
    try:
        KernelMap(kernel, "scale", 3, 0.0, None, 0).fit_transform(X)
    except ValueError:  # it overflows, or is indefinite
        with pytest.raises(ValueError, match=r"kernel='.*(not finite|semi-definite)"):
            MarginDistributionSVC(**params).fit(X, y)
        return
    for C in (1e-6, 1.0, 1e6):
        est = MarginDistributionSVC(C, **params).fit(X, y)
        end = est.certificate_
        assert np.isfinite(est.decision_function(X)).all() and set(est.predict(X)) <= set(y)
        assert np.isfinite([end.primal, end.dual]).all() and end.gap >= 0.0
        assert end.primal <= C * len(y) * (1 + est.tol) or relaxation == "paper"  # that of W = 0


def test_every_round_of_a_budget_too_small_is_kept():
    X, y = load_digits(return_X_y=True)
    for max_iter in (1, 3, 8):
        est = MarginDistributionSVC(max_iter=max_iter, tol=1e-9, random_state=0)
        with pytest.warns(ConvergenceWarning, match="could still lower the objective"):
            est.fit(minmax_scale(X), y)
        assert est.n_iter_ <= max_iter and est.certificate_.status == "max_iter"
        assert est.objective_ == est.objective_history_.min()
        assert est.certificate_.gap > 0.0


def test_theta_0_and_mu_to_0_is_the_squared_hinge():
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    n, c = len(y), 3
    W, b = cp.Variable((X.shape[1], c)), cp.Variable((1, c))
    S = X @ W + np.ones((n, 1)) @ b
    own = cp.reshape(cp.sum(cp.multiply(np.eye(c)[y], S), axis=1), (n, 1), order="C")
    hinge = cp.pos(cp.max(cp.multiply(1 - np.eye(c)[y], 1 + S - own @ np.ones((1, c))), axis=1))
    optimum = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + 0.1 * cp.sum_squares(hinge))).solve(solver=cp.CLARABEL)
    settings = {"theta": 0.0, "tol": 1e-7, "random_state": 0}
    values = [MarginDistributionSVC(0.1, mu=mu, **settings).fit(X, y).objective_ for mu in (1e-1, 1e-3, 1e-6)]
    assert values[0] > values[1] > values[2]
    assert values[2] == pytest.approx(optimum, rel=1e-4)


# -- two classes: a convex machine ------------------------------------------------------------------------------------------


def assert_certified(est, optimum, tol):
    """The optimum lies between the bound and the objective, which are as close as was asked for."""
    end = est.certificate_
    assert end.status == "optimal" and end.bounds == "optimum" and end.stationarity is None
    assert end.dual <= optimum * (1 + 1e-7) and optimum <= end.primal * (1 + 1e-7)
    assert 0.0 <= end.gap <= tol * end.primal and end.gap == end.primal - end.dual
    assert (np.diff(est.objective_history_) < 0.0).all() and est.objective_history_[-1] == est.objective_


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_two_classes_are_convex_and_match_cvxpy(storage, fit_intercept, weighted):
    for seed in range(3):
        X, y, cost, theta, mu = step_data(seed, c=2, d=4 if seed else 60)
        cost = cost if weighted else np.full(len(y), cost[0])
        rows = sparse.csr_matrix(X) if storage == "csr" else X
        est = MarginDistributionSVC(1.0, theta=theta, mu=mu, fit_intercept=fit_intercept, tol=1e-6, random_state=0)
        est.fit(rows, y, sample_weight=cost)
        optimum = reference_step(X, y, cost, theta, mu, fit_intercept, 1 - y)  # the rival never changes
        assert_certified(est, optimum, 1e-6)
        assert est.objective(rows, y, sample_weight=cost) == pytest.approx(est.objective_, rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_two_classes_with_a_kernel_match_cvxpy(kernel, fit_intercept):
    X, y, cost, theta, mu = step_data(1, c=2)
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    settings = {"kernel": kernel, "gamma": 0.3, "fit_intercept": fit_intercept, "tol": 1e-5, "random_state": 0}
    est = MarginDistributionSVC(1.0, theta=theta, mu=mu, **settings)
    est.fit(X if kernel == "rbf" else K, y, sample_weight=cost)
    values, vectors = np.linalg.eigh(K)
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    end, optimum = est.certificate_, reference_step(factor, y, cost, theta, mu, fit_intercept, 1 - y)
    assert end.status == "optimal" and end.bounds == "optimum"
    assert end.dual <= optimum * (1 + 1e-6) and optimum <= end.primal * (1 + 1e-6) and end.rel_gap <= 1e-5


@pytest.mark.parametrize("way", ["coordinates", "conjugate gradients", "interior points", "short rounds", "far from 0"])
def test_two_classes_are_certified_whatever_solves_them(way, monkeypatch):
    X, y, cost, theta, mu = step_data(2, c=2, n=90)
    cost *= 10.0
    fit_intercept = way != "short rounds"
    if way == "coordinates":
        monkeypatch.setattr(cost_model, "_MOST_NEWTON_FEATURES", 0)
    if way == "conjugate gradients":
        monkeypatch.setattr(cost_model, "_LARGEST_NEWTON_MATRIX", 0)
    if way == "interior points":
        monkeypatch.setattr(rival_rounds, "_ROUND_EPOCHS", 1)
        monkeypatch.setattr(descent_by_rivals, "_START_EPOCHS", 1)
    if way == "short rounds":
        monkeypatch.setattr(cost_model, "_MOST_NEWTON_FEATURES", 0)
        monkeypatch.setattr(cost_model, "SMALL_MARGIN_STEP", 0)
    rows = X + 9e4 if way == "far from 0" else X
    est = MarginDistributionSVC(1.0, theta=theta, mu=mu, fit_intercept=fit_intercept, tol=1e-5, random_state=0)
    est.fit(rows, y, sample_weight=cost)
    assert_certified(est, reference_step(X, y, cost, theta, mu, fit_intercept, 1 - y), 1e-5)


def test_two_classes_say_how_far_the_optimum_may_be():
    X, y, cost, theta, mu = step_data(4, c=2, n=90)
    est = MarginDistributionSVC(1.0, theta=theta, mu=mu, tol=1e-9, max_iter=12, random_state=0)
    with pytest.warns(ConvergenceWarning, match="relative duality gap .* the optimum is at least"):
        est.fit(X, y, sample_weight=cost)
    end = est.certificate_
    optimum = reference_step(X, y, cost, theta, mu, True, 1 - y)
    assert end.status == "max_iter" and end.dual <= optimum * (1 + 1e-7) and optimum <= end.primal * (1 + 1e-7)


# -- three classes and more ------------------------------------------------------------------------------------------------


def test_margins_gather_in_the_band():
    X, y = load_digits(return_X_y=True)
    X = minmax_scale(X)

    def margins(est):
        S = est.decision_function(X)
        own = S[np.arange(len(y)), y].copy()
        S[np.arange(len(y)), y] = -np.inf
        return own - S.max(axis=1)

    ours = margins(MarginDistributionSVC(0.1, random_state=0).fit(X, y))
    hinge = margins(CrammerSingerSVC(0.1, random_state=0).fit(X, y))
    assert ours.std() < 0.7 * hinge.std()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_warm_start_over_C_theta_and_mu(kernel):
    X, y = load_digits(return_X_y=True)
    X, y = minmax_scale(X)[:400], y[:400]
    warm = MarginDistributionSVC(1.0, kernel=kernel, gamma=0.02, warm_start=True, random_state=0).fit(X, y)
    again = warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ < again
    for change in ({"C": 2.0}, {"theta": 0.4}, {"mu": 0.2}, {"C": 0.5, "theta": 0.0, "mu": 1.0}):
        warm.set_params(**change).fit(X, y)
        cold = MarginDistributionSVC(**{**warm.get_params(), "warm_start": False}).fit(X, y)
        assert warm.certificate_.status == "stationary"
        assert warm.objective_ <= cold.objective_ * (1 + 1e-2)  # local minima may differ


def test_a_warm_path_on_easy_data_is_quick_and_knows_where_it_ended():
    X, y = load_iris(return_X_y=True)
    warm, epochs = MarginDistributionSVC(warm_start=True, random_state=0), np.zeros(2, dtype=int)
    for C in np.logspace(-2, 2, 10):
        warm.set_params(C=C).fit(X, y)
        epochs += warm.n_iter_, MarginDistributionSVC(C, random_state=0).fit(X, y).n_iter_
    assert epochs[0] < epochs[1] // 2
    warm.fit(X, y)
    assert warm.n_iter_ <= 3 and warm.objective_history_[0] <= warm.objective_ * (1 + 1e-3)
    assert [name for name in vars(warm) if name.startswith("_warm")] == ["_warm"]


def test_warm_start_of_the_papers_iteration_goes_on_where_it_was():
    X, y = wine()
    est = MarginDistributionSVC(0.1, relaxation="paper", fit_intercept=False, warm_start=True, random_state=0).fit(X, y)
    first, last = est.objective_history_[[0, -1]]
    est.fit(X, y)
    assert est.objective_history_[0] == pytest.approx(last, rel=1e-2) and last < 0.5 * first
    est.set_params(relaxation="cccp").fit(X, y)  # another relaxation starts anew
    assert est.objective_ <= last


def test_default_fits_are_repeatable():
    X, y = load_digits(n_class=5, return_X_y=True)
    rows = sparse.csr_matrix(X[:200])
    first, second = (MarginDistributionSVC(0.01).fit(rows, y[:200]) for _ in range(2))
    np.testing.assert_array_equal(first.class_vectors_, second.class_vectors_)
    assert first.objective_history_.tolist() == second.objective_history_.tolist()


def test_weights_count_rows():
    X, y = wine()
    w = np.random.default_rng(0).integers(0, 3, size=len(y))
    params = {"C": 1.0, "fit_intercept": False, "tol": 1e-8, "random_state": 0}
    weighted = MarginDistributionSVC(**params).fit(X, y, sample_weight=w)
    repeated = MarginDistributionSVC(**params).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


@pytest.mark.parametrize(
    "params, words",
    [
        ({"theta": 1.0}, "theta=1.0 .*0 <= theta < 1"),
        ({"theta": -0.1}, "theta=-0.1"),
        ({"theta": "a"}, "theta='a'"),
        ({"theta": float("nan")}, "theta=nan"),
        ({"mu": 0.0}, "mu=0.0 .*0 < mu <= 1"),
        ({"mu": 1.5}, "mu=1.5"),
        ({"mu": True}, "mu=True"),
        ({"relaxation": "ccp"}, "relaxation='ccp' .*'cccp' or 'paper'"),
        ({"relaxation": "paper"}, "fit_intercept=False"),
    ],
)
def test_parameters_out_of_range_are_named(params, words):
    X, y = wine()
    with pytest.raises(ValueError, match=words):
        MarginDistributionSVC(**params).fit(X, y)


def test_the_loss_has_the_slope_of_its_gradient():
    rng = np.random.default_rng(1)
    S, D = rng.normal(size=(2, 300, 4)) * 2.0
    y = rng.integers(0, 4, size=300)
    loss, t = MarginDistributionLoss(0.3, 0.6), 1e-6
    slope = (loss.value(S + t * D, y) - loss.value(S - t * D, y)) / (2 * t)
    np.testing.assert_allclose(slope, (loss.gradient(S, y) * D).sum(axis=1), atol=1e-3)
    with pytest.raises(TypeError, match="not convex"):
        loss.conjugate(D, y)


def test_the_rounds_want_their_own_loss():
    X, y = wine()
    problem = CrammerSingerSVC()._problem(X, y.astype(np.int32), np.ones(len(y)), 3)
    with pytest.raises(TypeError, match="margin distribution loss"):
        margin_step.Ascent(problem, margin_step.Settings(1, 0, 1))


def test_many_classes_move_rows_through_the_arena():
    rng = np.random.default_rng(3)
    n, c = 400, 90
    X, y = rng.normal(size=(n, 20)), rng.integers(0, c, size=n)
    y[:c] = np.arange(c)
    for rows in (X, sparse.csr_matrix(X)):
        est = MarginDistributionSVC(0.5, tol=1e-5, fit_intercept=False, random_state=0).fit(rows, y)
        assert est.certificate_.status == "stationary"
        assert est.objective(rows, y) == pytest.approx(est.objective_, rel=1e-9)


@functools.cache
def large_problem():
    """Enough rows, classes and features that coordinate ascent does the work and the first rounds are short."""
    rng = np.random.default_rng(1)
    n, d, c = 1500, 90, 15
    y = rng.integers(0, c, size=n).astype(np.int32)
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(c, d))[y]
    return Problem(X, y, np.full(n, 0.05), c, MarginDistributionLoss(0.2, 0.5), SquaredNorm(), False)


@pytest.mark.parametrize("patience", [20, 0])
def test_short_rounds_lower_f_and_end_where_a_round_gains_nothing(patience, monkeypatch):
    problem = large_problem()
    monkeypatch.setattr(rival_rounds, "_PATIENCE", patience)  # 0: straight on to descending rounds
    tol = 1e-4
    assert margin_step.Ascent(problem, margin_step.Settings(1, 0, 1)).prefers_short_rounds
    found = descent_by_rivals.concave_convex(problem, Ledger(tol), max_iter=1000, seed=0)
    machine, certificate = found.machine, found.certificate
    assert certificate.status == "stationary" and certificate.rel_gap <= tol
    assert (np.diff(found.rounds) < 0.0).all() and found.rounds[-1] == machine.primal
    assert machine.primal == pytest.approx(problem.primal(machine.W, machine.b), rel=1e-9)
    ascent = margin_step.Ascent(problem, margin_step.Settings(10**7, 0, 1), Start(found.duals, machine.b))
    assert ascent.look().stated == pytest.approx(machine.primal, rel=1e-9)
    ascent.relinearise()
    gain = machine.primal - margin_step.solve_step(ascent, 0.1 * tol).dual
    assert gain <= 2.0 * tol * machine.primal  # the machine came out of the round that was certified


def test_short_rounds_that_find_nothing_better_give_way_to_descending_ones(monkeypatch):
    problem = large_problem()
    settings, ledger = margin_step.Settings(10**7, 0, 1), Ledger(1e-4)
    ascent = margin_step.Ascent(problem, settings)
    seen = margin_step.solve_step(ascent, 0.2)
    descent = rival_rounds.BestMachine(problem, ascent, seen.stated)
    start = descent.value
    monkeypatch.setattr(margin_step.Ascent, "run_epochs", lambda *_: None)  # rounds that never begin
    steps = rival_rounds.short_rounds(problem, settings, ascent, seen, ledger, descent)
    assert steps is not ascent and not descent.settled(ledger)
    assert descent.value <= start and steps.look().stated == pytest.approx(descent.value, rel=1e-9)


# -- several starts ------------------------------------------------------------------------------------------------------


def test_more_starts_are_never_worse():
    X, y = load_iris(return_X_y=True)
    one, more = (MarginDistributionSVC(C=1.0, n_starts=n, random_state=0).fit(scale(X), y) for n in (1, 6))
    assert more.objective_ < one.objective_ and more.certificate_.status == "stationary"
    assert more.certificate_.seconds > one.certificate_.seconds
    again = MarginDistributionSVC(C=1.0, n_starts=6, random_state=0).fit(scale(X), y)
    np.testing.assert_array_equal(more.class_vectors_, again.class_vectors_)


def test_two_classes_have_one_start():
    X, y = load_iris(return_X_y=True)
    X, y = scale(X)[y > 0], y[y > 0]
    one, more = (MarginDistributionSVC(n_starts=n, random_state=0).fit(X, y) for n in (1, 5))
    np.testing.assert_array_equal(one.class_vectors_, more.class_vectors_)


@pytest.mark.parametrize("value", [0, 1.5, True])
def test_starts_are_counted(value):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=f"n_starts={value!r}"):
        MarginDistributionSVC(n_starts=value).fit(X, y)


def test_the_papers_iteration_has_one_start():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="n_starts=2 has no effect"):
        MarginDistributionSVC(n_starts=2, relaxation="paper", fit_intercept=False).fit(X, y)
