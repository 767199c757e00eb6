"""The interior point against CVXPY, against the definition of its certificate, and at its edges."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from polymargin.losses import CrammerSingerHinge, TopKHinge
from polymargin.penalties import SquaredNorm
from polymargin.problems.classes import Problem
from polymargin.solvers.interior.blocks import BLOCKS
from polymargin.solvers.interior.blocks.row_terms import Edges
from polymargin.solvers.interior.quadratic import interior_point
from polymargin.solvers.interior.systems.laplacian import assemble

BOTH = ["crammer_singer", "weston_watkins"]
both = pytest.mark.parametrize("block", BOTH)


def objective(X, y, cost, W, b, block):
    rows = np.arange(len(y))
    S = (X @ W) + b
    h = 1.0 - (S[rows, y][:, None] - S)
    h[rows, y] = 0.0
    losses = np.maximum(h, 0.0)
    loss = losses.sum(axis=1) if block == "weston_watkins" else losses.max(axis=1)
    loss = loss**2 if block == "squared_crammer_singer" else loss
    return 0.5 * np.sum(W**2) + cost @ loss


def dual_value(X, y, a, mean=0.0):
    tau = -a
    tau[np.arange(len(y)), y] = a.sum(axis=1)
    return a.sum() - 0.5 * np.sum(((X - mean).T @ tau) ** 2), tau.sum(axis=0)


def optimum(X, y, cost, c, block, fit_intercept):
    n, d = X.shape
    W, b = cp.Variable((d, c)), cp.Variable((1, c))
    S = X @ W + (np.ones((n, 1)) @ b if fit_intercept else 0.0)
    own = np.eye(c)[y]
    h = 1.0 - own + S - cp.reshape(cp.sum(cp.multiply(S, own), axis=1), (n, 1), order="C") @ np.ones((1, c))
    if block == "crammer_singer":
        loss = cost @ cp.max(h, axis=1)
    else:
        loss = cp.sum(cp.multiply(cost[:, None] * (1.0 - own), cp.pos(h)))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + loss))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return objective(X, y, cost, W.value, b.value[0] if fit_intercept else np.zeros(c), block)


def fit(X, y, cost, block, c=None, fit_intercept=True, tol=1e-8, max_iter=200, **kw):
    c = int(np.max(y)) + 1 if c is None else c
    cost = np.broadcast_to(np.asarray(cost, dtype=float), (len(y),))
    problem = Problem(X, np.asarray(y, dtype=np.int32), cost, c, CrammerSingerHinge(), SquaredNorm(), fit_intercept)
    return interior_point(problem, tol=tol, max_iter=max_iter, block=block, **kw)


def relative_gap(result):
    return (result.primal - result.dual) / abs(result.primal)


def blobs(n, d, c, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    return rng.standard_normal((n, d)) + spread * rng.standard_normal((c, d))[y], y


# -- the optimum -------------------------------------------------------------------------------------------

CASES = [  # n, d, c, C, spread, what is done to the rows
    (40, 4, 3, 1.0, 1.0, "plain"),
    (40, 4, 3, 1e-3, 1.0, "weighted"),
    (50, 3, 4, 1e3, 1.0, "weighted"),
    (30, 1, 2, 1.0, 1.0, "plain"),
    (30, 1, 5, 10.0, 2.0, "weighted"),
    (12, 40, 3, 1.0, 0.0, "plain"),
    (20, 30, 6, 100.0, 0.0, "weighted"),
    (48, 5, 8, 0.1, 3.0, "plain"),
    (60, 2, 7, 1.0, 4.0, "duplicates"),
    (36, 3, 2, 1e2, 1.0, "duplicates"),
    (30, 6, 3, 1e3, 5.0, "plain"),  # separable
]


@both
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_objective_of_cvxpy(case, fit_intercept, block):
    n, d, c, C, spread, kind = case
    X, y = blobs(n, d, c, seed=n + d + c, spread=spread)
    cost = np.full(n, C)
    if kind == "weighted":
        cost *= np.random.default_rng(n).choice([0.0, 0.5, 1.0, 3.0], n)
    if kind == "duplicates":
        X = np.round(X)
    result = fit(X, y, cost, block, c=c, fit_intercept=fit_intercept)
    best = optimum(X, y, cost, c, block, fit_intercept)
    assert relative_gap(result) <= 1e-8
    assert result.primal <= best * (1 + 1e-6)
    assert result.primal >= best * (1 - 1e-6)
    assert result.dual <= best * (1 + 1e-7)


@both
def test_golden_value_of_iris(iris, block):
    result = fit(*iris, 1.0, block, tol=1e-10)
    assert_allclose([result.primal, result.dual], 16.916106, atol=5e-7)


@both
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_reaches_a_gap_of_1e_12(wine, C, block):
    X, y = wine
    assert relative_gap(fit(X, y, C, block, tol=1e-12)) <= 1e-12
    assert relative_gap(fit(*blobs(15, 30, 3, seed=1), C, block, tol=1e-12)) <= 1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_classes_are_one_machine(two_classes, fit_intercept):
    X, y = two_classes
    first, second = (fit(X, y, 2.0, name, fit_intercept=fit_intercept, tol=1e-12) for name in BOTH)
    assert_allclose(first.W, second.W, atol=1e-9)
    assert_allclose(first.b, second.b, atol=1e-9)


# -- the certificate ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
def test_values_are_those_of_the_arrays(overlapping, tol, fit_intercept, block):
    X, y = overlapping
    cost = np.random.default_rng(0).uniform(0.1, 5.0, len(y))
    W, b, a, primal, dual, _ = fit(X, y, cost, block, fit_intercept=fit_intercept, tol=tol)
    assert_allclose(primal, objective(X, y, cost, W, b, block), rtol=1e-13)
    value, balance = dual_value(X, y, a, np.average(X, axis=0, weights=cost) if fit_intercept else 0.0)
    assert value * (1 - 1e-11) <= dual <= value * (1 + 1e-13)
    assert dual <= primal <= dual + tol * primal
    assert (a >= 0.0).all() and (a[np.arange(len(y)), y] == 0.0).all()
    assert ((a.sum(axis=1) if block == "crammer_singer" else a.max(axis=1)) <= cost * (1 + 1e-15)).all()
    if fit_intercept:
        assert np.abs(balance).max() <= 1e-12 * a.sum()
        assert abs(b.sum()) <= 1e-12
    else:
        assert (b == 0.0).all()
    assert_allclose(W.sum(axis=1), 0.0, atol=1e-10)


@both
def test_every_reported_bound_is_valid(overlapping, block):
    X, y = overlapping
    exact = fit(X, y, 3.0, block, tol=1e-12)
    seen = []
    result = fit(X, y, 3.0, block, tol=1e-10, on_iteration=lambda *values: seen.append(values))
    primal, dual = np.array(seen).T
    assert len(seen) == result.n_iter + 1
    assert (dual <= exact.primal * (1 + 1e-13)).all() and (primal >= exact.dual * (1 - 1e-13)).all()
    assert (np.diff(primal) <= 0.0).all() and (np.diff(dual) >= 0.0).all()


def test_callback_may_stop_the_fit(iris):
    def stop(primal, dual):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(*iris, 1.0, "crammer_singer", on_iteration=stop)


@both
@pytest.mark.parametrize("max_iter", [0, 1, 4])
@pytest.mark.parametrize("wide", [True, False])
def test_max_iter_is_a_limit(block, max_iter, wide):
    X, y = blobs(20, 60, 3, seed=2) if wide else blobs(60, 3, 3, seed=2)
    for rows in (X, sp.csr_matrix(X)):
        result = fit(rows, y, 10.0, block, tol=1e-12, max_iter=max_iter)
        assert result.n_iter <= max_iter
        assert np.isfinite(result.W).all() and np.isfinite(result.dual)
        value = objective(X, y, np.full(len(y), 10.0), result.W, result.b, block)
        assert_allclose(result.primal, value, rtol=1e-9)


def test_impossible_tolerance_ends_at_rounding(iris):
    result = fit(*iris, 1.0, "weston_watkins", tol=0.0, max_iter=500)
    assert result.n_iter < 100
    assert abs(relative_gap(result)) <= 1e-12


def test_unknown_block_is_named(iris):
    with pytest.raises(ValueError, match=r"block='hinge'.*crammer_singer"):
        fit(*iris, 1.0, "hinge")


# -- the same problem, written differently -----------------------------------------------------------------


@both
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])  # at C = 0.01 b is often not unique
@pytest.mark.parametrize("seed", [5, 7, 49, 58])
def test_weights_are_repetitions(seed, C, block):
    rng = np.random.RandomState(seed)
    X, y, weight = rng.rand(15, 30), rng.randint(0, 3, 15), rng.randint(0, 5, 15)
    weighted = fit(X, y, C * weight, block, c=3, tol=1e-12)
    k = rng.permutation(np.repeat(np.arange(15), weight))
    repeated = fit(X[k], y[k], C, block, c=3, tol=1e-12)
    assert_allclose(X @ weighted.W + weighted.b, X @ repeated.W + repeated.b, rtol=1e-7, atol=1e-9)


@both
def test_free_intercept_is_centred(block):
    X, y = blobs(20, 3, 2, seed=0)
    W, b, a, *_ = fit(X, y, 1e-3, block, tol=1e-12)
    assert_allclose(a.sum(axis=1), 1e-3)  # all duals at their bounds: b is free in an interval
    margin = (X @ W)[np.arange(20), y] - (X @ W)[np.arange(20), 1 - y]
    lower, upper = (margin[y == 0] - 1.0).max(), (1.0 - margin[y == 1]).min()
    assert lower < upper
    assert_allclose(b[1] - b[0], 0.5 * (lower + upper), rtol=1e-9)


@both
def test_invariance_under_shift_and_order(overlapping, block):
    X, y = overlapping
    k = np.random.default_rng(0).permutation(len(y))
    plain, moved = fit(X, y, 1.0, block, tol=1e-12), fit(X[k] + 1e3, y[k], 1.0, block, tol=1e-12)
    assert_allclose(moved.W, plain.W, atol=1e-9)
    assert_allclose(moved.b + 1e3 * moved.W.sum(axis=0), plain.b, atol=1e-6)
    assert_allclose(moved.primal, plain.primal, rtol=1e-9)


@both
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(90, 20), (25, 400)])
def test_sparse_is_dense(shape, fit_intercept, block):
    X = sp.random(*shape, density=0.1, format="csr", random_state=0)
    y = np.arange(shape[0]) % 4
    sparse = fit(X, y, 5.0, block, fit_intercept=fit_intercept, tol=1e-12)
    dense = fit(X.toarray(), y, 5.0, block, fit_intercept=fit_intercept, tol=1e-12)
    assert_allclose(sparse.W, dense.W, atol=1e-8)
    assert_allclose(sparse.b, dense.b, atol=1e-8)


@both
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n", [6, 80])
def test_columns_of_very_different_scale(n, fit_intercept, block):
    X, y = blobs(n, 8, 3, seed=1, spread=2.0)
    X *= np.logspace(-6, 6, 8)
    result = fit(X, y, 1.0, block, fit_intercept=fit_intercept)
    assert relative_gap(result) <= 1e-7
    assert_allclose(result.primal, objective(X, y, np.ones(n), result.W, result.b, block), rtol=1e-8)


# -- the edges ---------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("rows", ["zero", "constant", "identical", "no columns", "empty sparse"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rows_without_information(rows, fit_intercept, block):
    X = {
        "zero": np.zeros((12, 3)),
        "constant": np.full((12, 3), 5.0),
        "identical": np.tile([1.0, -2.0, 3.0], (12, 1)),
        "no columns": np.zeros((12, 0)),
        "empty sparse": sp.csr_matrix((12, 3)),
    }[rows]
    result = fit(X, np.arange(12) % 3, 1.0, block, fit_intercept=fit_intercept)
    assert_allclose(result.W, 0.0, atol=1e-12)
    assert_allclose([result.primal, result.dual], 12.0 if block == "crammer_singer" else 24.0)


@both
def test_classes_without_rows(block):
    X, y = blobs(30, 3, 3, seed=4)
    present = fit(X, y, 1.0, block, tol=1e-12)
    W, b, a, primal, *_ = fit(X, 2 * y + 1, 1.0, block, c=8, tol=1e-12)
    assert_allclose(W[:, 1:6:2], present.W, atol=1e-10)
    assert_allclose(primal, present.primal)
    assert_allclose(primal, objective(X, 2 * y + 1, np.ones(30), W, b, block))
    assert not a[:, [0, 2, 4, 6, 7]].any()
    without = fit(X, 2 * y + 1, 1.0, block, c=8, fit_intercept=False)  # there they are rivals like any other
    assert_allclose(without.primal, optimum(X, 2 * y + 1, np.ones(30), 8, block, False), rtol=1e-7)


@both
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_nothing_to_separate(fit_intercept, block):
    X = np.ones((4, 2))
    for classes, cost, c in [("0000", 0.0, 3), ("1111", 1.0, 3), ("0000", 1.0, 1), ("0101", [1, 0, 1, 0], 2)]:
        y = np.array(list(classes), dtype=int)
        result = fit(X, y, cost, block, c=c, fit_intercept=fit_intercept)
        assert np.isfinite(result.b).all() and np.isfinite(result.W).all()
        cost = np.broadcast_to(np.asarray(cost, dtype=float), 4)
        assert_allclose(result.primal, objective(X, y, cost, result.W, result.b, block), atol=1e-12)
        assert_allclose(result.primal, result.dual, rtol=1e-7)


# -- the parts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mesh", "star", "both"])
def test_newton_matrix_is_the_sum_over_rows(kind):
    rng = np.random.default_rng(0)
    c, q, n, p = 4, 3, 700, 2
    y = np.sort(rng.integers(0, c, n))
    T, mesh, star = rng.standard_normal((q, n)), rng.random((c, n)), rng.random((c, n))
    M = np.zeros((n, c, c))
    if kind != "star":
        M -= mesh.T[:, :, None] * mesh.T[:, None, :]
    if kind != "mesh":
        M[np.arange(n), y] -= star.T
        M[np.arange(n), :, y] -= star.T
    M[:, np.arange(c), np.arange(c)] = 0.0
    M[:, np.arange(c), np.arange(c)] = -M.sum(axis=2)
    full = np.einsum("ikl,ai,bi->kalb", M, T, T)
    starts = np.searchsorted(y, np.arange(c + 1))
    for scales in (None, rng.uniform(0.1, 2.0, c)):
        shares = np.ones(c) if scales is None else 1.0 / scales
        laplacian = np.diag(shares) - np.outer(shares, shares) / shares.sum()
        with_penalty = full.copy()
        with_penalty[:, :p, :, :p] += np.einsum("kl,ab->kalb", laplacian, np.eye(p))
        wanted = with_penalty[:-1, :, :-1].reshape((c - 1) * q, -1)
        given = Edges(None if kind == "star" else mesh, None if kind == "mesh" else star)
        H = assemble(T, starts, given, p, scales)
        assert_allclose(np.tril(H), np.tril(wanted), atol=1e-10)


def hessians(edges, y):
    """Of all rows, (n, c, c), as `linearise` describes them."""
    c, n = next(part for part in edges if part is not None).shape
    M = np.zeros((n, c, c))
    for sign, mesh in ((-1.0, edges.mesh), (1.0, edges.minus)):
        if mesh is not None:
            M += sign * mesh.T[:, :, None] * mesh.T[:, None, :]
    if edges.star is not None:
        M[np.arange(n), y] -= edges.star.T
        M[np.arange(n), :, y] -= edges.star.T
    M[:, np.arange(c), np.arange(c)] = 0.0
    M[:, np.arange(c), np.arange(c)] = -M.sum(axis=2)
    return M


def block_case(name, *parameters):
    rng = np.random.default_rng(0)
    c, n = 4, 30
    y, cost = np.sort(rng.integers(0, c, n)), rng.uniform(0.1, 2.0, n)
    return BLOCKS[name](y, cost, c, np.zeros(n), *parameters), y, cost, *rng.standard_normal((2, c, n))


@pytest.mark.parametrize("name", ["crammer_singer", "squared_crammer_singer", "weston_watkins"])
def test_blocks_keep_their_contract(name):
    block, y, cost, S, dS = block_case(name)
    block.start(S)
    assert_allclose(block.loss(S), objective(np.eye(len(y)), y, cost, S.T, 0.0, name) - 0.5 * np.sum(S**2))
    # W = X' tau: the loss falls along tau at the optimum of <S, tau>; tau sums to zero over the classes
    assert_allclose(block.pull().sum(axis=0), 0.0, atol=1e-14)
    M = hessians(block.linearise(), y)
    still = block.aim(0.3)
    block.follow(dS)
    dA, df = (part.reshape(block.A.shape) for part in block.direction[:2])
    dt = block.direction[2]
    weight = block.weight * 2.0 * (block.t + dt) if name == "squared_crammer_singer" else block.weight
    assert_allclose(dA.sum(axis=0), weight - block.A.sum(axis=0), atol=1e-12)
    assert_allclose(df, dt - block.lift(dS) + (block.t - block.E - block.f), atol=1e-12)
    check_direction(block, dA, still, M, dS)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_top_k_blocks_keep_their_contract(k):
    block, y, cost, S, dS = block_case("top_k", k)
    block.start(S)
    assert_allclose(block.loss(S), cost @ TopKHinge(k).value(S.T, y))
    tau = block.pull()
    assert_allclose(tau.sum(axis=0), 0.0, atol=1e-14)
    a = np.where(np.arange(4)[:, None] != y, -tau, 0.0)
    assert (block.domain.gauge(a.T, y) <= cost * (1 + 1e-12)).all()
    M = hessians(block.linearise(), y)
    still = block.aim(0.3)
    block.follow(dS)
    dA = block.direction[0][: block.A.size].reshape(block.A.shape)
    if 1 < k < 4:
        df, dx = block.direction[1][: 2 * block.A.size].reshape(2, *block.A.shape)
        dt, ds = block.direction[2]
        assert_allclose(dA.sum(axis=0), ds, atol=1e-12)
        assert_allclose(df - dx, dt - block.lift(dS) + block.t[0] - block.E - block.f + block.x, atol=1e-12)
        assert_allclose(block.direction[1][2 * block.A.size :], dt + dx.sum(axis=0) / k, atol=1e-12)
    check_direction(block, dA, still, M, dS)


def check_direction(block, dA, still, M, dS):
    """Products reach their target, tau changes by what `aim` said less the Hessians times dS, half a step stays inside."""
    change = block.multipliers * block.direction[1] + block.slacks * block.direction[0]
    assert_allclose(change, 0.3 - block.multipliers * block.slacks, atol=1e-12)
    assert_allclose(block.adjoint(dA), still - np.einsum("ikl,li->ki", M, dS), atol=1e-12)
    block.step(0.5 * min(1.0, block.longest_step()))
    assert (block.multipliers > 0.0).all() and (block.slacks > 0.0).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_top_k_reaches_its_reference(k, fit_intercept):
    for seed, C in ((0, 0.1), (1, 10.0), (2, 1e3)):
        X, y = blobs(40, 4, 5, seed)
        problem = Problem(X, y.astype(np.int32), np.full(40, C), 5, TopKHinge(k), SquaredNorm(), fit_intercept)
        result = interior_point(problem, tol=1e-6, max_iter=100)
        assert relative_gap(result) <= 1e-6
        assert result.primal == pytest.approx(problem.primal(result.W, result.b))
        W, b = cp.Variable((4, 5)), cp.Variable((1, 5))
        S, own = X @ W + (np.ones((40, 1)) @ b if fit_intercept else 0.0), np.eye(5)[y]
        m = 1.0 - own + S - cp.reshape(cp.sum(cp.multiply(S, own), axis=1), (40, 1), order="C") @ np.ones((1, 5))
        loss = sum(cp.pos(cp.sum_largest(m[i], k) / k) for i in range(40))
        best = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + C * loss)).solve(solver=cp.CLARABEL)
        assert result.primal == pytest.approx(best, rel=1e-5) and result.dual <= best * (1 + 1e-6)
