"""Kernel machines by a map of their active rows: the same machine as by a map of all rows, with a certificate that holds."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import polymargin as pm
from polymargin.features.kernel_map import KernelMap

TOL = 1e-5
MACHINES = {
    "lp": pm.LpNormSVC(p=1.5),
    "lp squared": pm.LpNormSVC(p=1.2, loss="squared_hinge"),
    "lp without offsets": pm.LpNormSVC(p=1.5, fit_intercept=False),
    "m3": pm.M3SVC(),
    "m3 power": pm.M3SVC(p=3.0, scale="power"),
    "one versus none": pm.OneVsNoneSVC(),
    "one versus none, hard": pm.OneVsNoneSVC(weights="hard"),
    "one versus none, soft offsets": pm.OneVsNoneSVC(biases="soft", gamma_b=0.5),
    "top-k with lp": pm.MarginSVC(loss="top_k", k=2, penalty="lp", p=1.5),
    "squared ww": pm.MarginSVC(loss="weston_watkins", squared=True),
    "one versus rest": pm.MarginSVC(loss="one_vs_rest"),
    "lee-lin-wahba": pm.MarginSVC(loss="lee_lin_wahba"),
    "reinforced, coupled": pm.MarginSVC(loss="reinforced", penalty="coupled", alpha=0.3),
}


@pytest.fixture(autouse=True)
def without_the_kernel_dual(monkeypatch):
    """Some of these machines have one, which comes before the active rows."""
    for machine in (pm.LpNormSVC, pm.M3SVC, pm.MarginSVC):
        monkeypatch.setattr(machine, "_has_kernel_dual", False)


def blobs(n=1300, c=5, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    return rng.normal(size=(c, 8))[y] * 2.0 + rng.normal(size=(n, 8)), y


def fitted(machine, X, y, weight=None, **params):
    params = {"kernel": "rbf", "gamma": 0.1, "C": 3.0, "tol": TOL, "random_state": 0, **params}
    return clone(machine).set_params(**params).fit(X, y, weight)


def methods(machine):
    return [stage.method for stage in machine.certificate_.stages]


def by_map(machine, X, y, monkeypatch, weight=None, **params):
    """The same fit by a map of all rows."""
    with monkeypatch.context() as patch:
        patch.setattr(type(machine), "_has_active_rows", False)
        found = fitted(machine, X, y, weight, **params)
    assert "active rows" not in methods(found)
    return found


def recorded(monkeypatch, fit):
    """What it returns, and how many rows its maps had."""
    sizes, mapping = [], KernelMap.fit_transform
    with monkeypatch.context() as patch:
        patch.setattr(KernelMap, "fit_transform", lambda self, X, *rest: sizes.append(X.shape[0]) or mapping(self, X, *rest))
        return fit(), sizes


@pytest.mark.parametrize("name", MACHINES)
def test_it_is_the_machine_of_all_rows(name, monkeypatch):
    X, y = blobs()
    machine, mapped = recorded(monkeypatch, lambda: fitted(MACHINES[name], X, y))
    assert max(mapped) < len(y)
    whole = by_map(MACHINES[name], X, y, monkeypatch)
    assert methods(machine)[0] == "active rows"
    assert machine.certificate_.status == whole.certificate_.status == "optimal"
    assert machine.objective_ == pytest.approx(whole.objective_, rel=2 * TOL)
    # bounds of one fit hold for the machine of the other
    assert machine.certificate_.dual <= whole.objective_ * (1 + 1e-12)
    assert whole.certificate_.dual <= machine.objective_ * (1 + 1e-12)
    rows = np.random.default_rng(1).normal(size=(200, X.shape[1])) * 2.0
    assert np.mean(machine.predict(rows) == whole.predict(rows)) > 0.98


@pytest.mark.parametrize("storage", ["float32", "csr"])
@pytest.mark.parametrize("name", ["lp", "m3", "one versus none", "squared ww"])
def test_storage_and_weights(name, storage, monkeypatch):
    X, y = blobs(seed=1)
    rows = X.astype(np.float32) if storage == "float32" else sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    weight = np.random.default_rng(2).uniform(0.2, 2.0, size=len(y))
    weight[::50] = 0.0
    tol = 1e-4
    machine = fitted(MACHINES[name], rows, y, weight, tol=tol)
    whole = by_map(MACHINES[name], rows, y, monkeypatch, weight, tol=tol)
    assert methods(machine)[0] == "active rows" and machine.certificate_.status == "optimal"
    assert machine.objective_ == pytest.approx(whole.objective_, rel=2 * tol)
    assert not np.isin(machine.support_, np.arange(0, len(y), 50)).any()  # numbers in the data as it was given


def test_the_objective_is_that_of_the_stored_arrays():
    X, y = blobs(seed=3)
    machine = fitted(MACHINES["lp without offsets"], X, y)
    K = rbf_kernel(X, machine.support_vectors_, gamma=0.1)
    S = K @ machine.dual_coef_.T
    own = S[np.arange(len(y)), y].copy()
    S[np.arange(len(y)), y] = -np.inf
    hinges = np.maximum(0.0, 1.0 - own + S.max(axis=1))
    squares = np.einsum("ki,ij,kj->k", machine.dual_coef_, K[machine.support_], machine.dual_coef_)
    penalty = 0.5 * (squares**0.75).sum() ** (2 / 1.5)
    assert machine.objective_ == pytest.approx(3.0 * hinges.sum() + penalty, rel=1e-9)


def test_not_convex_it_ends_stationary_and_no_worse(monkeypatch):
    X, y = blobs(seed=4)
    machine = fitted(pm.MarginDistributionSVC(), X, y, tol=1e-4)
    whole = by_map(pm.MarginDistributionSVC(), X, y, monkeypatch, tol=1e-4)
    assert methods(machine)[0] == "active rows"
    assert machine.certificate_.status == "stationary"
    assert machine.objective_ <= 1.01 * whole.objective_
    assert (np.diff(machine.objective_history_) <= 0.0).all()


def test_all_rows_are_mapped_where_most_have_duals(monkeypatch):
    X, y = blobs(n=1100, seed=5)
    y = np.random.default_rng(0).integers(5, size=len(y))  # nothing to learn
    machine, mapped = recorded(monkeypatch, lambda: fitted(MACHINES["m3"], X, y, C=0.1, tol=1e-3))
    assert methods(machine)[0] == "active rows" and max(mapped) == len(y)
    assert machine.certificate_.status == "optimal"


def test_classes_of_one_row(monkeypatch):
    X, y = blobs(seed=6)
    y[:3] = [7, 8, 9]
    for name in ("lp", "one versus none"):
        machine, whole = fitted(MACHINES[name], X, y), by_map(MACHINES[name], X, y, monkeypatch)
        assert machine.certificate_.status == "optimal"
        assert machine.objective_ == pytest.approx(whole.objective_, rel=2 * TOL)


def test_few_iterations_are_a_machine_and_a_warning():
    X, y = blobs(seed=7)
    with pytest.warns(ConvergenceWarning):
        machine = fitted(MACHINES["lp"], X, y, max_iter=2)
    assert machine.certificate_.status == "max_iter"
    assert machine.certificate_.dual < machine.objective_ and machine.score(X, y) > 0.5


@pytest.mark.parametrize("name", ["lp", "m3", "one versus none"])
def test_warm_starts_and_probabilities(name):
    X, y = blobs(seed=8)
    machine = fitted(MACHINES[name], X, y, warm_start=True, probability=True, tol=1e-4)
    first = machine.objective_
    assert -np.log(machine.predict_proba(X)[np.arange(len(y)), y]).mean() < 0.6
    machine.fit(X, y)
    assert machine.objective_ == pytest.approx(first, rel=2e-4)


def test_interrupted_it_keeps_a_machine_whose_bound_holds(monkeypatch):
    X, y = blobs(seed=9)
    calls, mapping = [], KernelMap.fit_transform

    def third_time(self, rows, *rest):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return mapping(self, rows, *rest)

    whole = fitted(MACHINES["one versus none"], X, y)
    monkeypatch.setattr(KernelMap, "fit_transform", third_time)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        kept = fitted(MACHINES["one versus none"], X, y, on_interrupt="keep")
    assert kept.certificate_.status == "interrupted"
    assert kept.certificate_.dual <= whole.objective_ and kept.objective_ >= whole.certificate_.dual


@pytest.mark.parametrize("params", [{"kernel": "precomputed"}, {"C": np.inf}, {"n_components": 50}])
def test_other_kernels_keep_their_map(params):
    X, y = blobs(n=1050, seed=10)
    X = rbf_kernel(X, gamma=0.1) if params.get("kernel") == "precomputed" else X * (3.0 if "C" in params else 1.0)
    assert "active rows" not in methods(fitted(MACHINES["lp"], X, y, **params))
