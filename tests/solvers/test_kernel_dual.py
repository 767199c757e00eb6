"""The kernel dual against the map, against CVXPY, and its cache of kernel rows."""

from __future__ import annotations

import signal
import time

import cvxpy as cp
import numpy as np
import pytest
from reference import REFERENCES
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from polymargin import CrammerSingerSVC, WestonWatkinsSVC
from polymargin.estimators.kernels import expansion
from polymargin.features import kernel_map as features
from polymargin.features.kernel_map import KernelMap
from polymargin.features.rbf import RbfRows
from polymargin.solvers.ascent.kernels import dual as kernel_dual
from polymargin.solvers.ascent.kernels import gram_rows

MACHINES = [CrammerSingerSVC, WestonWatkinsSVC]
KERNELS = [
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "laplacian", "gamma": 0.2},
    {"kernel": "poly", "gamma": 0.3, "coef0": 1.0},
]
each_machine = pytest.mark.parametrize("machine", MACHINES)


@pytest.fixture
def always(monkeypatch):
    """The kernel dual for every kernel it may be used for, in small working sets; counts its calls."""
    calls = []
    real = kernel_dual.kernel_dual
    monkeypatch.setattr(expansion, "_FEWEST_ROWS", 0)
    monkeypatch.setattr(expansion, "_LOW_RANK", -1.0)
    monkeypatch.setattr(kernel_dual, "_FIRST", 40)
    monkeypatch.setattr(kernel_dual, "_JOIN", 10)
    monkeypatch.setattr(kernel_dual, "kernel_dual", lambda *args, **kwargs: calls.append(1) or real(*args, **kwargs))
    return calls


def blobs(seed, n=120, c=3, d=4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    y[:c] = np.arange(c)
    return (1.5 * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d))).astype(dtype), y


def square_root(K):
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
@each_machine
def test_the_optimum_is_that_of_the_reference(machine, kernel, fit_intercept, always):
    for seed, C in ((0, 0.3), (1, 10.0)):
        X, y = blobs(seed, c=2 + 2 * seed)
        weight = np.random.default_rng(seed).uniform(0.5, 2.0, size=len(y))
        parameters = {name: value for name, value in kernel.items() if name != "kernel"}
        K = pairwise_kernels(X, metric=kernel["kernel"], **parameters)
        optimum = REFERENCES[machine.__name__](square_root(K), y, C, weight, fit_intercept)
        for data in (X, sparse.csr_array(X)):
            est = machine(C=C, fit_intercept=fit_intercept, tol=1e-6, random_state=0, **kernel)
            est.fit(data, y, sample_weight=weight)
            assert est.certificate_.status == "optimal"
            assert est.certificate_.dual <= optimum * (1 + 1e-7)
            assert est.objective_ - optimum <= est.certificate_.gap + 1e-7 * optimum
            assert est.objective(data, y, sample_weight=weight) == pytest.approx(est.objective_, rel=1e-7)
    assert len(always) == 4


def test_crammer_singer_agrees_with_cvxpy(always):
    X, y = blobs(3, n=60)
    K, C, n, c = pairwise_kernels(X, metric="rbf", gamma=0.3), 2.0, 60, 3
    root = square_root(K)
    W, b, slack = cp.Variable((n, c)), cp.Variable(c), cp.Variable(n, nonneg=True)
    S = root @ W + np.ones((n, 1)) @ cp.reshape(b, (1, c), order="C")
    own = cp.sum(cp.multiply(S, np.eye(c)[y]), axis=1)
    others = [np.flatnonzero(y != k) for k in range(c)]
    limits = [slack[rows] >= 1 - own[rows] + S[rows, k] for k, rows in enumerate(others)]
    problem = cp.Problem(cp.Minimize(C * cp.sum(slack) + 0.5 * cp.sum_squares(W)), limits)
    problem.solve(solver="CLARABEL")
    est = CrammerSingerSVC(C=C, kernel="rbf", gamma=0.3, tol=1e-6, random_state=0).fit(X, y)
    assert always and est.objective_ == pytest.approx(problem.value, rel=2e-6)
    scores = S.value - S.value.mean(axis=1, keepdims=True)
    found = est.decision_function(X)
    np.testing.assert_allclose(found - found.mean(axis=1, keepdims=True), scores, atol=2e-2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@each_machine
def test_both_ways_give_the_same_machine(machine, dtype, monkeypatch):
    X, y = blobs(5, n=1100, c=4, d=12, dtype=dtype)
    calls = []
    real = kernel_dual.kernel_dual
    monkeypatch.setattr(kernel_dual, "kernel_dual", lambda *args, **kwargs: calls.append(1) or real(*args, **kwargs))
    by_dual = machine(C=2.0, kernel="rbf", random_state=0).fit(X, y)
    assert calls  # chosen by the library
    monkeypatch.setattr(expansion, "_FEWEST_ROWS", 10**9)
    by_map = machine(C=2.0, kernel="rbf", random_state=0).fit(X, y)
    assert len(calls) == 1
    assert by_dual.certificate_.status == by_map.certificate_.status == "optimal"
    bounds, values = zip(*((m.certificate_.dual, m.objective_) for m in (by_dual, by_map)), strict=True)
    assert max(bounds) <= min(values) * (1 + 1e-6)
    assert by_dual.decision_function(X).dtype == dtype and by_dual.dual_coef_.dtype == np.float64
    assert by_dual.objective(X, y) == pytest.approx(by_dual.objective_, rel=1e-9)  # proven in double precision
    assert (by_dual.predict(X) == by_map.predict(X)).mean() > 0.995
    assert len(by_dual.support_) < len(y)
    np.testing.assert_allclose(by_dual.dual_coef_.sum(axis=0), 0.0, atol=1e-4)
    np.testing.assert_array_equal(by_dual.support_vectors_, X[by_dual.support_])


@each_machine
def test_a_kernel_of_low_rank_or_unknown_sign_goes_through_the_map(machine, monkeypatch):
    monkeypatch.setattr(expansion, "_FEWEST_ROWS", 0)
    monkeypatch.setattr(kernel_dual, "kernel_dual", None)
    X, y = blobs(6, n=300, d=2)
    machine(kernel="poly", degree=2, coef0=1.0).fit(X, y)  # rank 6
    machine(kernel="precomputed").fit(pairwise_kernels(X, metric="rbf"), y)
    machine(kernel=lambda A, B: A @ B.T).fit(X, y)
    machine(kernel="rbf", n_components=20).fit(X, y)
    with pytest.warns(UserWarning, match=r"not positive semi-definite.*without 0\.\d+ of it"):
        machine(kernel="sigmoid", gamma=5.0, coef0=-3.0).fit(X, y)


@each_machine
def test_weights_count_rows(machine, always):
    X, y = blobs(7)
    weight = np.random.default_rng(7).integers(0, 3, size=len(y)).astype(float)
    weight[:3] = 1.0
    settings = {"kernel": "rbf", "gamma": 0.3, "tol": 1e-6, "random_state": 0}
    weighted = machine(**settings).fit(X, y, sample_weight=weight)
    repeated = machine(**settings).fit(np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=3e-6)
    assert (weight[weighted.support_] > 0).all()


@each_machine
def test_the_same_seed_gives_the_same_bits(machine, always):
    X, y = blobs(8)
    first, second = (machine(C=3.0, kernel="rbf", random_state=5, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    np.testing.assert_array_equal(first.class_offsets_, second.class_offsets_)


@each_machine
def test_a_warm_start_goes_on_from_the_last_duals(machine, always):
    X, y = blobs(9, n=300)
    est = machine(C=1.0, kernel="rbf", gamma=0.3, tol=1e-5, random_state=0, warm_start=True).fit(X, y)
    objective, epochs = est.objective_, est.n_iter_
    est.fit(X, y)
    assert est.n_iter_ <= max(2, epochs // 2)
    assert est.objective_ == pytest.approx(objective, rel=2e-5)
    est.set_params(C=3.0).fit(X, y)
    cold = machine(C=3.0, kernel="rbf", gamma=0.3, tol=1e-5, random_state=0).fit(X, y)
    assert est.objective_ == pytest.approx(cold.objective_, rel=3e-5)


@each_machine
def test_what_rounding_keeps_from_the_tolerance_is_left_to_the_map(machine, always, monkeypatch):
    monkeypatch.setattr(kernel_dual, "_PATIENCE", 1)
    X, y = blobs(10)
    est = machine(C=1.0, kernel="rbf", gamma=0.3, tol=1e-9, max_iter=5000, random_state=0).fit(X, y)
    assert always and est.certificate_.status == "optimal" and est.certificate_.rel_gap <= 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each_machine
def test_the_limit_on_epochs_holds_and_is_said(machine, always):
    X, y = blobs(11, n=200)
    est = machine(C=100.0, kernel="rbf", max_iter=1, tol=1e-8, random_state=0).fit(X, y)
    assert est.certificate_.status == "max_iter" and est.n_iter_ == 1
    assert est.certificate_.dual <= est.objective_ == est.certificate_.primal
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-7)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
@each_machine
def test_interrupt_within_a_fifth_of_a_second(machine):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 40)), rng.integers(12, size=6000)
    est = machine(C=1e4, kernel="rbf", tol=1e-14, max_iter=10**9, random_state=0)
    delays = []
    for after in (1.5, 0.5, 1.0):
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            with pytest.raises(KeyboardInterrupt):
                est.fit(X, y)
            delays.append(time.monotonic() - start - after)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
    assert min(delays) <= 0.2, delays  # the best: others use the machine too
    assert not hasattr(est, "dual_coef_")


# -- rows of the kernel matrix -----------------------------------------------------------------------------------


def gram_of(X, kernel="rbf", **settings):
    mapping = KernelMap(kernel, gamma=0.3, **settings)
    mapping.gamma_ = 0.3
    return gram_rows.GramRows(X, mapping)


@pytest.mark.parametrize("capacity", [600, 560])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_rows_are_those_of_the_kernel_whatever_was_forgotten(kernel, dtype, storage, capacity, monkeypatch):
    X, _ = blobs(12, n=600, dtype=dtype)
    K = pairwise_kernels(X.astype(np.float64), metric=kernel, gamma=0.3)
    fast = kernel == "rbf" and storage is np.asarray
    room = capacity * 600 * (4 if fast else np.dtype(dtype).itemsize) / gram_rows._SHARE
    extra = 12 * 600 * (X.shape[1] + 2) if fast else 0
    monkeypatch.setattr(features, "available_memory", lambda: float(room + extra))
    gram = gram_of(storage(X), kernel)
    assert gram.capacity == capacity
    rng = np.random.default_rng(0)
    exact = 1e-12 if dtype == np.float64 else 2e-6
    kept = 2e-6 if fast else exact
    for share in 3 * (1.0, 0.2):  # of a row's classes that have moved
        rows = np.sort(rng.permutation(600)[:300])
        np.testing.assert_allclose(gram.block(rows), K[np.ix_(rows, rows)], atol=1e-6)
        T, S = rng.normal(size=(300, 3)) * (rng.random((300, 1)) < 0.7), rng.normal(size=(3, 600))
        T *= rng.random((300, 3)) < share
        expected = S + T.T @ K[rows]
        gram.add_product(rows, T, S)
        np.testing.assert_allclose(S, expected, atol=100 * kept)
        exactly = np.zeros((3, 600))
        gram.add_exact_product(rows, T, exactly)
        np.testing.assert_allclose(exactly, T.T @ K[rows], atol=100 * exact)
        np.testing.assert_allclose(gram.exact_sums(rows, T), K[np.ix_(rows, rows)] @ T, atol=100 * exact)


def test_rows_of_large_data_far_from_zero_keep_their_distances():
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32) + np.float32(1000.0)
    K = pairwise_kernels(X.astype(np.float64), metric="rbf", gamma=0.3)
    np.testing.assert_allclose(gram_of(X).block(np.arange(50)), K, atol=1e-6)


@pytest.mark.parametrize("length", [0.1, 3.0, 1e4])
def test_rows_in_single_precision_are_those_in_double(length):
    X = length * np.random.default_rng(0).normal(size=(80, 3))
    double = RbfRows(X, 0.3)
    single, rows = double.in_single(), np.arange(7, 40)
    assert double.dtype == np.float64 and single.dtype == np.float32
    out = np.empty((len(rows), 80), dtype=np.float32)
    assert single.block(rows, out=out) is out
    np.testing.assert_allclose(out, double.block(rows), atol=2e-6)
    np.testing.assert_allclose(double.block(rows, slice(3, 50)), double.block(rows)[:, 3:50], atol=1e-12)


def test_double_rows_reach_a_tight_tolerance_with_kernel_rows_kept_in_single(always):
    X, y = blobs(5, n=300, c=4)
    machine = CrammerSingerSVC(C=10, kernel="rbf", gamma=0.3, tol=1e-8, max_iter=20_000, random_state=0).fit(X, y)
    assert machine.certificate_.converged and machine.certificate_.rel_gap <= 1e-8
    assert machine.objective(X, y) == pytest.approx(machine.objective_, rel=1e-10)


@each_machine
def test_memory_is_checked_before_allocation(machine, monkeypatch, always):
    X, y = blobs(13, n=600)
    monkeypatch.setattr(features, "available_memory", lambda: 2.4e6)
    monkeypatch.setattr(np, "empty", _no_large_array(np.empty))
    with pytest.raises(MemoryError, match=r"600 rows needs at least .* GB.*n_components="):
        machine(kernel="rbf").fit(X, y)


def _no_large_array(empty):
    def checked(shape, *args, **kwargs):
        assert np.prod(shape) < 300_000
        return empty(shape, *args, **kwargs)

    return checked


def test_a_few_duals_at_their_bounds_do_not_hold_back_the_bound(monkeypatch):
    X, y = blobs(3, n=200, c=6)
    cost = np.full(len(y), 0.5)
    machine = CrammerSingerSVC(kernel="rbf", gamma=0.3)
    problem = machine._problem(X, y.astype(np.int32), cost, 6)
    mapping = KernelMap("rbf", gamma=0.3)
    mapping.gamma_ = 0.3
    state = kernel_dual._State(problem, mapping, 0, None)
    state.ascend(state.first_rows(), 1e-2, 10**6)
    state.refresh()
    bound = state.bound()
    monkeypatch.setattr(kernel_dual, "reduced_to_balance", kernel_dual.balancing_factors)
    stretched = state.bound()
    assert stretched < bound < state.primal
    assert state.primal - bound < 0.8 * (state.primal - stretched)
