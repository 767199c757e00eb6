"""Fits of rows on disk: every kind of source, a budget of memory, a fit that is killed and goes on."""

import json
import os
import signal

import numpy as np
import pytest
from interpreters import run_warm
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from polymargin import M3SVC, CrammerSingerSVC, LpNormSVC, MarginSVC, MultiLabelSVC, WestonWatkinsSVC, load, save
from polymargin.distributed import Parts, parts
from polymargin.distributed.disk import on_disk
from polymargin.distributed.disk.blocks import Blocks
from polymargin.label_costs import ordered_costs


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Memory counts the rows only, so that small data makes several blocks."""
    monkeypatch.setattr(parts, "_INTERPRETER", 0.0)
    monkeypatch.setattr(parts, "_MACHINES", 0)
    monkeypatch.setattr(parts, "_SMALLEST", 1e3)


def rows(n: int = 300, sparse_rows: bool = False):
    rng = np.random.default_rng(1)
    y = np.sort(rng.integers(4, size=n))  # sorted by class, as files often are
    X = rng.standard_normal((4, 5))[y] + rng.standard_normal((n, 5))
    return (sparse.csr_matrix(X * (rng.random(X.shape) < 0.6)) if sparse_rows else X), y, rng.uniform(0.5, 2.0, n)


def source_of(kind: str, folder):
    X, y, weight = rows(sparse_rows=kind in ("csr", "svmlight"))
    cuts = np.array_split(np.arange(len(y)), 3)
    if kind in ("arrays", "csr"):
        return (X, y, weight), X, y, weight
    if kind == "memmap":
        np.save(folder / "X.npy", X.astype(np.float32))
        mapped = np.load(folder / "X.npy", mmap_mode="r")
        return (mapped, y), np.asarray(mapped), y, None
    if kind == "iterator":
        return (lambda: ((X[cut], y[cut], weight[cut]) for cut in cuts)), X, y, weight
    for number, cut in enumerate(cuts):
        if kind == "npz":
            np.savez(folder / f"{number}.npz", X=X[cut], y=y[cut])
        elif kind == "svmlight":
            dump_svmlight_file(X[cut], y[cut], str(folder / f"{number}.svmlight"), zero_based=False)
        else:
            pandas = pytest.importorskip("pandas")
            pytest.importorskip("pyarrow")
            pandas.DataFrame(X[cut], columns=list("abcde")).assign(y=y[cut]).to_parquet(folder / f"{number}.parquet")
    return (folder if kind == "npz" else sorted(folder.iterdir())), X, y, None


@pytest.mark.parametrize("kind", ["arrays", "csr", "memmap", "iterator", "npz", "svmlight", "parquet"])
def test_every_kind_of_source(kind, tmp_path):
    source, X, y, weight = source_of(kind, tmp_path)
    best = CrammerSingerSVC(tol=1e-6).fit(X, y, weight)
    machine = CrammerSingerSVC(tol=1e-3).fit(Parts(source, memory=90_000))
    assert machine.certificate_.status == "optimal"
    assert machine.objective_ == pytest.approx(machine.objective(X, y, weight), rel=1e-9)
    assert best.certificate_.dual * (1 - 1e-9) <= machine.objective_ <= best.objective_ * (1 + 1e-3)
    assert machine.n_features_in_ == 5 and machine.class_vectors_.dtype == X.dtype
    np.testing.assert_array_equal(machine.classes_, best.classes_)


def test_classes_have_weights_and_costs_and_models_files(tmp_path):
    X, y, _ = rows()
    names = np.array(["ant", "bee", "cow", "dog"])[y]
    costs = ordered_costs(["ant", "bee", "cow", "dog"])
    for machine in (
        WestonWatkinsSVC(class_weight="balanced"),
        LpNormSVC(p=1.4, class_weight={"bee": 3.0}),
        CrammerSingerSVC(label_cost=costs),
        LpNormSVC(p=1.4, label_cost=costs, fit_intercept=False),
        LpNormSVC(p=1.4, loss="squared_hinge"),
    ):
        best = type(machine)(**machine.get_params() | {"tol": 1e-6}).fit(X, names).objective_
        machine.fit(Parts((X, names), memory=90_000))
        assert best * (1 - 1e-6) <= machine.objective_ <= best * (1 + machine.tol)
        assert machine.objective(X, names) == pytest.approx(machine.objective_, rel=1e-9)
        save(machine, tmp_path / "model.pm")
        np.testing.assert_array_equal(load(tmp_path / "model.pm").predict(X), machine.predict(X))


def test_rows_are_dealt_so_that_blocks_know_all_classes(tmp_path):
    X, y, _ = rows(400)
    blocks = Parts((X, y), memory=30_000).write(tmp_path)
    assert len(blocks) > 2
    assert sum(blocks.contents.rows) == 400
    assert all(len(np.unique(blocks.load(k).y)) == 4 for k in range(len(blocks)))
    found = np.concatenate([blocks.load(k).X for k in range(len(blocks))])
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(X, axis=0))


@pytest.mark.parametrize(
    "machine, match",
    [
        (CrammerSingerSVC(kernel="rbf"), "kernel='rbf'"),
        (CrammerSingerSVC(probability=True), "probability=True"),
        (CrammerSingerSVC(warm_start=True), "warm_start=True"),
        (LpNormSVC(p="auto"), "p='auto'"),
        (MarginSVC(loss="top_k", squared=True), "no quadratic form"),
        (M3SVC(), "penalty"),
    ],
)
def test_what_parts_do_not_take_is_refused(machine, match):
    X, y, _ = rows(60)
    with pytest.raises((ValueError, TypeError), match=match):
        machine.fit(Parts((X, y), memory=90_000))


def test_bad_sources_and_budgets(tmp_path, monkeypatch):
    X, y, _ = rows(60)
    with pytest.raises(ValueError, match="memory='much'"):
        Parts((X, y), memory="much")
    monkeypatch.setattr(parts, "_INTERPRETER", 250e6)
    with pytest.raises(MemoryError, match="too little"):
        CrammerSingerSVC().fit(Parts((X, y), memory="100MB"))
    with pytest.raises(TypeError, match="cannot read rows from a int"):
        CrammerSingerSVC().fit(Parts(3))
    with pytest.raises(ValueError, match="NaN"):
        CrammerSingerSVC().fit(Parts((np.full_like(X, np.nan), y)))
    with pytest.raises(ValueError, match="at least 2 classes"):
        CrammerSingerSVC().fit(Parts((X, np.zeros(60))))
    CrammerSingerSVC(C=1.0).fit(Parts((X, y), checkpoint=tmp_path))
    with pytest.raises(ValueError, match="with other parameters or rows"):
        CrammerSingerSVC(C=2.0).fit(Parts((X, y), checkpoint=tmp_path))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_label_matrices_go_to_blocks_and_back(kind, tmp_path):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 4))
    Y = (X @ rng.standard_normal((4, 3)) > 0.5).astype(np.int8)
    Y = sparse.csr_matrix(Y) if kind == "sparse" else Y
    best = MultiLabelSVC(tol=1e-6).fit(X, Y).objective_
    machine = MultiLabelSVC(tol=1e-3).fit(Parts((X, Y), memory=12_000, checkpoint=tmp_path / "run"))
    assert len(Blocks(tmp_path / "run" / "blocks")) > 1
    assert best * (1 - 1e-6) <= machine.objective_ <= best * (1 + 1e-3)
    again = MultiLabelSVC(tol=1e-3).fit(Parts((X, Y), memory=12_000, checkpoint=tmp_path / "run"))  # from its log
    np.testing.assert_array_equal(again.class_vectors_, machine.class_vectors_)
    save(machine, tmp_path / "model.pm")
    found = load(tmp_path / "model.pm").predict(X)
    assert found.dtype == np.int8 and sparse.issparse(found) == (kind == "sparse")
    assert machine.score(X, Y) > 0.8


def test_a_fit_without_a_checkpoint_leaves_nothing_and_logs_nothing(tmp_path, monkeypatch):
    X, y, _ = rows()
    logged = []
    monkeypatch.setattr(on_disk, "_write_reply", lambda file, reply: logged.append(file))
    CrammerSingerSVC(tol=1e-2).fit(Parts((X, y), memory=90_000, scratch=tmp_path))
    assert not logged and not list(tmp_path.iterdir())


KILLED = """
import json, os, signal, sys, time
from pathlib import Path
import numpy as np
from polymargin import CrammerSingerSVC
from polymargin.distributed import Parts, parts

parts._INTERPRETER = parts._MACHINES = 0
parts._SMALLEST = 1e3
d = int(sys.argv[2])
rng = np.random.default_rng(0)
y = rng.integers(3, size=300)
X = rng.standard_normal((3, d))[y] / np.sqrt(d) + rng.standard_normal((300, d)) / np.sqrt(d)


def run(name, kill_after=None):
    folder = Path(sys.argv[1]) / name
    folder.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        machine = CrammerSingerSVC(C=3.0, tol=1e-3).fit(Parts((X, y), memory=X.nbytes, checkpoint=folder))
        np.save(folder / "vectors.npy", machine.class_vectors_)
        os._exit(0)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if kill_after is not None and len(list((folder / "states").glob("reply-*"))) >= kill_after:
            os.kill(child, signal.SIGKILL)  # once so many replies are in the log
        time.sleep(0.002)


said = [run("whole"), run("killed", 2), run("killed", 5)]
print(json.dumps([*said, (Path(sys.argv[1]) / "killed" / "vectors.npy").exists(), run("killed")]))
"""


@pytest.mark.pool(0.33)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("d", [8, 1200])  # Newton's method, ascent
def test_a_killed_fit_goes_on_to_the_same_bits(d, tmp_path):
    said = json.loads(run_warm(KILLED, str(tmp_path), str(d), timeout=240))
    assert said == [0, -signal.SIGKILL, -signal.SIGKILL, False, 0]
    whole, resumed = (np.load(tmp_path / name / "vectors.npy") for name in ("whole", "killed"))
    assert whole.tobytes() == resumed.tobytes()


def test_blocks_say_what_they_are(tmp_path):
    (tmp_path / "blocks.json").write_text(json.dumps({"format": "another"}))
    with pytest.raises(ValueError, match="no folder of blocks"):
        Blocks(tmp_path)
