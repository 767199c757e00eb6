"""The kernel dual in a metric between the classes: against references, against the map, and its parts."""

from __future__ import annotations

import numpy as np
import pytest
from reference import REFERENCES, square_root
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import polymargin as pm
from polymargin.estimators.kernels import expansion
from polymargin.penalties import BlockNorm, PairwiseDistances
from polymargin.solvers.ascent.kernels import dual as kernel_dual
from polymargin.solvers.ascent.kernels import metrics
from polymargin.solvers.types import NO_DUALS, Start

MACHINES = {
    "lp": pm.LpNormSVC(p=1.5),
    "lp near 1": pm.LpNormSVC(p=1.1),
    "lp near 2": pm.LpNormSVC(p=1.9),
    "top-k with lp": pm.MarginSVC(loss="top_k", k=2, penalty="lp", p=1.5),
    "m3": pm.M3SVC(),
    "m3 power": pm.M3SVC(p=3.0, scale="power"),
    "m3 below 2": pm.M3SVC(p=1.5),
    "m3 of 2": pm.M3SVC(p=2.0),
    "m3 of 10": pm.M3SVC(p=10.0),
    "m3, dear offsets": pm.M3SVC(epsilon=0.5),
}
LIKE_THE_REFERENCE = {"LpNormSVC": pm.LpNormSVC(p=1.5), "M3SVC": pm.M3SVC(p=4)}
each_machine = pytest.mark.parametrize("name", MACHINES)
few_machines = pytest.mark.parametrize("name", ["lp", "m3"])


@pytest.fixture
def always(monkeypatch):
    """For every kernel it may be used for, in small working sets."""
    monkeypatch.setattr(expansion, "_FEWEST_ROWS", 0)
    monkeypatch.setattr(expansion, "_LOW_RANK", -1.0)
    monkeypatch.setattr(kernel_dual, "_FIRST", 40)
    monkeypatch.setattr(kernel_dual, "_JOIN", 10)


def blobs(seed, n=160, c=4, d=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    y[:c] = np.arange(c)
    return 1.5 * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d)), y


def fitted(machine, X, y, weight=None, **params):
    params = {"kernel": "rbf", "gamma": 0.3, "C": 2.0, "tol": 1e-5, "random_state": 0, **params}
    return clone(machine).set_params(**params).fit(X, y, weight)


def by_map(machine, X, y, monkeypatch, weight=None, **params):
    with monkeypatch.context() as patch:
        patch.setattr(expansion, "_FEWEST_ROWS", 10**9)
        found = fitted(machine, X, y, weight, **params)
    assert "kernel dual" not in methods(found)
    return found


def methods(machine):
    return [stage.method for stage in machine.certificate_.stages]


def agree(one, other, slack=1e-9):
    """Bounds of one fit hold for the machine of the other."""
    assert one.certificate_.status == other.certificate_.status == "optimal"
    assert max(one.certificate_.dual, other.certificate_.dual) <= min(one.objective_, other.objective_) * (1 + slack)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", LIKE_THE_REFERENCE)
def test_the_optimum_is_that_of_the_reference(name, fit_intercept, always):
    for seed, C in ((0, 0.3), (1, 10.0)):
        X, y = blobs(seed, n=60, c=3)
        weight = np.random.default_rng(seed).uniform(0.5, 2.0, size=len(y))
        optimum = REFERENCES[name](square_root(rbf_kernel(X, gamma=0.3)), y, C, weight, fit_intercept)
        machine = fitted(LIKE_THE_REFERENCE[name], X, y, weight, C=C, fit_intercept=fit_intercept, tol=1e-6)
        assert methods(machine) == ["kernel dual"] and machine.certificate_.status == "optimal"
        assert machine.certificate_.dual <= optimum * (1 + 1e-6)
        assert machine.objective_ - optimum <= machine.certificate_.gap + 1e-6 * optimum


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("c", [2, 3, 9])
@each_machine
def test_both_ways_give_the_same_machine(name, c, fit_intercept, always, monkeypatch):
    if name.startswith("top-k") and c == 2:
        return
    X, y = blobs(c, c=c)
    machine = fitted(MACHINES[name], X, y, fit_intercept=fit_intercept)
    assert methods(machine) == ["kernel dual"]
    agree(machine, by_map(MACHINES[name], X, y, monkeypatch, fit_intercept=fit_intercept))
    assert machine.objective(X, y) == pytest.approx(machine.objective_, rel=1e-9)


@pytest.mark.parametrize("storage", ["float32", "csr"])
@few_machines
def test_storage_and_weights(name, storage, monkeypatch):
    X, y = blobs(5, n=1100, c=5, d=12)
    rows = X.astype(np.float32) if storage == "float32" else sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    weight = np.random.default_rng(2).uniform(0.2, 2.0, size=len(y))
    weight[::50] = 0.0
    machine = fitted(MACHINES[name], rows, y, weight, gamma=0.1, tol=1e-4, class_weight="balanced")
    assert methods(machine)[0] == "kernel dual"  # chosen by the library
    agree(machine, by_map(MACHINES[name], rows, y, monkeypatch, weight, gamma=0.1, tol=1e-4, class_weight="balanced"), 1e-6)
    assert machine.objective(rows, y, weight) == pytest.approx(machine.objective_, rel=1e-7)
    assert not np.isin(machine.support_, np.arange(0, len(y), 50)).any()


@few_machines
def test_costs_of_errors(name, always, monkeypatch):
    X, y = blobs(6)
    cost = np.random.default_rng(0).uniform(0.5, 2.0, size=(4, 4))
    np.fill_diagonal(cost, 0.0)
    machine = fitted(MACHINES[name], X, y, label_cost=cost)
    assert methods(machine) == ["kernel dual"]
    agree(machine, by_map(MACHINES[name], X, y, monkeypatch, label_cost=cost))


@pytest.mark.parametrize("name", ["lp", "m3", "m3 power", "m3 below 2"])
def test_a_warm_start_goes_on_from_the_last_duals(name, always):
    X, y = blobs(9, n=300)
    machine = fitted(MACHINES[name], X, y, warm_start=True)
    objective, epochs = machine.objective_, machine.n_iter_
    machine.fit(X, y)
    assert machine.n_iter_ <= max(2, epochs // 2)
    assert machine.objective_ == pytest.approx(objective, rel=2e-5)
    machine.set_params(C=4.0).fit(X, y)
    agree(machine, fitted(MACHINES[name], X, y, C=4.0))


@few_machines
def test_the_same_seed_gives_the_same_bits(name, always):
    X, y = blobs(8)
    first, second = (fitted(MACHINES[name], X, y, random_state=5, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    np.testing.assert_array_equal(first.class_offsets_, second.class_offsets_)


@few_machines
def test_probabilities(name):
    X, y = blobs(11, n=1300, c=4, d=8)
    machine = fitted(MACHINES[name], X, y, gamma=0.1, probability=True, tol=1e-4)
    assert methods(machine)[0] == "kernel dual"
    assert -np.log(machine.predict_proba(X)[np.arange(len(y)), y]).mean() < 0.6


@few_machines
def test_what_it_leaves_open_is_left_to_the_active_rows(name, always, monkeypatch):
    monkeypatch.setattr(kernel_dual, "_PATIENCE", 1)
    X, y = blobs(10)
    machine = fitted(MACHINES[name], X, y, tol=1e-9, max_iter=5000)
    assert methods(machine)[:2] == ["kernel dual", "active rows"]
    assert machine.certificate_.rel_gap <= 1e-7
    assert machine.objective(X, y) == pytest.approx(machine.objective_, rel=1e-9)


def test_where_nobody_gets_there_the_better_machine_is_kept(always):
    X, y = blobs(12, n=200)
    y = np.random.default_rng(0).integers(4, size=len(y))
    with pytest.warns(ConvergenceWarning):
        machine = fitted(MACHINES["m3"], X, y, C=1e4, tol=1e-9, max_iter=60)
    history = machine.certificate_.history
    assert machine.certificate_.dual <= machine.objective_ <= 1.001 * min(record.primal for record in history)
    assert machine.objective(X, y) == pytest.approx(machine.objective_, rel=1e-7)


def test_the_norms_that_class_scales_are_made_of(always):
    X, y = blobs(13)
    machine = fitted(MACHINES["lp"], X, y, tol=1e-7)
    A, K = machine.dual_coef_, rbf_kernel(X[machine.support_], gamma=0.3)
    norms = np.sqrt(np.einsum("ki,ij,kj->k", A, K, A))
    expected = norms**0.5 * (norms**1.5).sum() ** (-1 / 3)
    np.testing.assert_allclose(machine.class_norm_weights_, expected, rtol=1e-9)


# -- parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 26])
def test_separate_scales_bound_the_metric(c):
    rng = np.random.default_rng(c)
    W = rng.normal(size=(40, c))
    P = metrics.PairMetric(PairwiseDistances(4.0), W).P
    h = metrics.separate_scales(P)
    x = rng.normal(size=(1000, c))
    x -= x.mean(axis=1, keepdims=True)
    ratios = np.einsum("ik,kl,il->i", x, P, x) / (x * x @ h)
    assert ratios.max() <= metrics._MOST_EXCEEDED * (1 + 1e-9)
    assert ratios.min() > 0.3  # little is lost


def some_duals(seed, n=30, c=5):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 7)), rng.integers(c, size=n)
    A = rng.uniform(size=(n, c))
    A[np.arange(n), y] = 0.0
    tau = -A
    tau[np.arange(n), y] = A.sum(axis=1)
    return X, tau


@pytest.mark.parametrize("penalty", [BlockNorm(1.5), PairwiseDistances(4.0), PairwiseDistances(1.5, scale="power")])
def test_products_say_what_class_vectors_would(penalty):
    X, tau = some_duals(0)
    Z = X.T @ tau
    for start in (None, Start(NO_DUALS, np.zeros(5))):
        metric = metrics.metric_of(penalty, 5, start)
        metric.see(metric.products(tau, X @ Z), 1.0)
        W = X.T @ metric.coefficients(tau)
        np.testing.assert_allclose(metric.scores(Z.T @ X.T), (X @ W).T, atol=1e-9)
        assert metric.penalty() == pytest.approx(penalty.value(W), rel=1e-9)
        assert penalty.value(metric.vectors()) == pytest.approx(penalty.value(W), rel=1e-9)
        linear = 1.5 * penalty.conjugate(Z)
        best = minimize_scalar(lambda t, a=linear: penalty.conjugate(t * Z) - a * t, bounds=(0.0, 1.0), method="bounded")
        bound = metric.bound(metric.products(tau, X @ Z), None, linear, 1.0)
        assert bound <= -best.fun * (1 + 1e-6)
        if start is not None or metric.mixing is None:  # the weights of pairs are those of the duals
            assert bound == pytest.approx(-best.fun, rel=1e-6)


def test_a_warm_metric_follows_duals_that_stand_still():
    X, tau = some_duals(1)
    metric = metrics.metric_of(PairwiseDistances(4.0), 5, Start(NO_DUALS, np.zeros(5)))
    metric.see(metric.products(tau, X @ (X.T @ tau)), 1.0)
    assert metric.price() <= 1e-9 * metric.penalty()
