"""The machines on Dask: collections of all kinds, a real cluster of processes on loopback, workers that are killed."""

import json
import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy import sparse

from polymargin import CrammerSingerSVC, LpNormSVC, MultiLabelSVC, PathCV, load, save

dask = pytest.importorskip("dask", reason="needs polymargin[dask]")
distributed = pytest.importorskip("distributed", reason="needs polymargin[dask]")
pytestmark = pytest.mark.filterwarnings("default")  # Dask's own


def rows(wide: bool = False):
    rng = np.random.default_rng(0)
    n, d, c = 240, 900 if wide else 6, 4
    y = rng.integers(c, size=n)
    X = rng.standard_normal((c, d))[y] / np.sqrt(d) ** wide + rng.standard_normal((n, d)) / np.sqrt(d) ** wide
    return X * (rng.random((n, d)) < 0.3 if wide else 1.0), np.array(["a", "b", "c", "d"])[y], rng.uniform(0.5, 2.0, n)


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(host="127.0.0.1", **settings) as cluster, distributed.Client(cluster) as client:
        yield client


def delayed_blocks(X, y, n_blocks=5):
    cuts = np.array_split(np.arange(len(y)), n_blocks)
    return [dask.delayed((X[rows], y[rows])) for rows in [*cuts, np.arange(0)]]  # the last one is empty


@pytest.mark.parametrize("kind", ["array", "frame", "delayed", "csr"])
def test_every_kind_of_collection_without_a_cluster(kind):
    from polymargin.dask import CrammerSingerSVC as OnDask

    X, y, weight = rows()
    best = CrammerSingerSVC(tol=1e-6).fit(X, y, weight if kind == "array" else None).objective_
    machine = OnDask()
    if kind == "array":
        da = pytest.importorskip("dask.array")
        machine.fit(da.from_array(X, (50, 2)), da.from_array(y, 50), da.from_array(weight, 50))
        lazy = da.from_array(X, (50, 2))
    elif kind == "frame":
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(6)]).assign(y=y)
        lazy = dd.from_pandas(frame, npartitions=3)
        machine.fit(lazy[[f"x{k}" for k in range(6)]], lazy["y"])
        lazy = lazy[[f"x{k}" for k in range(6)]]
    else:
        machine.fit(delayed_blocks(sparse.csr_matrix(X) if kind == "csr" else X, y), client=False)
        lazy = None
    assert machine.certificate_.status == "optimal"
    assert machine.objective_ <= best * (1 + machine.tol)
    if lazy is not None:
        found = machine.predict(lazy)
        assert hasattr(found, "compute") and hasattr(machine.decision_function(lazy), "compute")
        np.testing.assert_array_equal(found.compute(), machine.predict(X))
        scores = machine.decision_function(lazy).compute(scheduler="synchronous")
        np.testing.assert_allclose(scores, machine.ordinary().decision_function(X))


def test_what_is_fitted_is_an_ordinary_machine(tmp_path):
    from polymargin.dask import LpNormSVC as OnDask

    X, y, _ = rows()
    machine = OnDask(p=1.4).fit(delayed_blocks(X, y))
    assert machine.objective_ <= LpNormSVC(p=1.4, tol=1e-6).fit(X, y).objective_ * (1 + machine.tol)
    save(machine, tmp_path / "model.pm")
    again = load(tmp_path / "model.pm")
    assert type(again) is LpNormSVC
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    assert machine.score(X, y) == again.score(X, y)


@pytest.mark.parametrize("wide", [False, True])
def test_a_cluster_gives_the_bits_of_one_process(client, wide):
    from polymargin.dask import CrammerSingerSVC as OnDask

    X, y, _ = rows(wide)
    X = sparse.csr_matrix(X) if wide else X
    here = OnDask(tol=1e-3, fit_intercept=False).fit(delayed_blocks(X, y), client=False)
    there = OnDask(tol=1e-3, fit_intercept=False).fit(delayed_blocks(X, y), client=client)
    assert there.certificate_.status == "optimal"
    np.testing.assert_array_equal(here.class_vectors_, there.class_vectors_)


@pytest.fixture(scope="module")
def wide_blocks():
    X, y, _ = rows(wide=True)
    return delayed_blocks(sparse.csr_matrix(X), y)


@pytest.fixture(scope="module")
def undisturbed(wide_blocks):
    """In this process: a cluster gives the same bits, as the test above has shown."""
    from polymargin.dask import CrammerSingerSVC as OnDask

    return OnDask(tol=1e-4, fit_intercept=False).fit(wide_blocks, client=False)


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("after", [0.3, 1.0, 2.5])
def test_a_killed_worker_costs_time_not_the_result(client, wide_blocks, undisturbed, after):
    from polymargin.dask import CrammerSingerSVC as OnDask

    worker = next(iter(client.run(os.getpid).values()))
    killer = threading.Thread(target=lambda: (time.sleep(after), os.kill(worker, signal.SIGKILL)))
    killer.start()
    machine = OnDask(tol=1e-4, fit_intercept=False).fit(wide_blocks, client=client)
    killer.join()
    np.testing.assert_array_equal(machine.class_vectors_, undisturbed.class_vectors_)
    client.wait_for_workers(2, timeout=120)  # for the next one


@pytest.mark.parametrize("wide", [False, True])
def test_labels_on_a_cluster_have_the_bits_of_one_process(client, wide):
    from polymargin.dask import MultiLabelSVC as OnDask

    da = pytest.importorskip("dask.array")
    X, y, _ = rows(wide)
    Y = np.stack([y == "a", y != "b"], axis=1).astype(int)
    lazy, labels = da.from_array(X, (60, -1)), da.from_array(Y, (60, 1))
    settings = {"tol": 1e-2, "loss": "squared_relevance", "fit_intercept": not wide}
    here = OnDask(**settings).fit(lazy, labels, client=False)
    there = OnDask(**settings).fit(lazy, labels, client=client)
    best = MultiLabelSVC(**settings | {"tol": 1e-6}).fit(X, Y)
    assert there.objective_ <= best.objective_ * (1 + 1e-2)
    np.testing.assert_array_equal(here.class_vectors_, there.class_vectors_)
    np.testing.assert_array_equal(there.predict(lazy).compute(), there.predict(X))
    assert there.score(lazy, labels) == pytest.approx(there.ordinary().score(X, Y))


def test_comparisons_searches_and_paths_on_a_cluster(client, tmp_path, capsys):
    """What they find is what they find here; the work is done by the workers."""
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV

    from polymargin.cli import main

    X, y, _ = rows()
    file = tmp_path / "rows.npz"
    np.savez(file, X=X, y=y)
    asked = ["compare", str(file), "--machines", "crammer", "--cv", "2", "--json"]
    found = []
    for where in (["--jobs", "1"], ["--dask", client.scheduler.address]):
        assert main([*asked, *where]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["winner"] == found[1]["winner"]
    scores = [[record["scores"] for record in one["records"]] for one in found]
    assert scores[0] == scores[1] and len(scores[0]) >= 2
    search = GridSearchCV(CrammerSingerSVC(), {"C": [0.1, 1.0]}, cv=2, n_jobs=2, scoring=_where_it_is_scored, refit=False)
    path = PathCV(CrammerSingerSVC(random_state=0), {"C": [0.1, 1.0]}, cv=2, n_jobs=2)
    with parallel_config(backend="dask"):
        places = search.fit(X, y).cv_results_["split0_test_score"]
        best = path.fit(X, y).best_params_
    assert set(places) <= set(client.run(os.getpid).values())
    assert best == path.set_params(n_jobs=None).fit(X, y).best_params_


def _where_it_is_scored(machine, X, y):
    return os.getpid()


def test_no_scheduler_no_comparison(capsys):
    from polymargin.cli import main

    before = dask.config.get("scheduler", None)
    assert main(["compare", "--dask", "nowhere:x", "--quiet"]) != 0
    assert "no Dask scheduler answers" in capsys.readouterr().err
    assert dask.config.get("scheduler", None) == before  # nothing of it is left for those that use Dask next
