"""Broken, truncated and hostile files on the command line: one clear line, an exit code that is not 0, nothing run."""

import io
import json
import os
import pickle
import zipfile
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_iris

from polymargin import CrammerSingerSVC, save
from polymargin.cli import main

HEADER = "a,b,c,d,kind\n"


class Payload:
    """Pickled, it makes a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@cache
def good_model():
    X, y = load_iris(return_X_y=True)
    file = io.BytesIO()
    save(CrammerSingerSVC(kernel="rbf", random_state=0).fit(X, y), file)
    return file.getvalue()


def archive(entries, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as packed:
        for name, content in entries.items():
            packed.writestr(name, content)
    return file.getvalue()


def changed(change=None, **entries):
    """The good model with another tree or other entries."""
    with zipfile.ZipFile(io.BytesIO(good_model())) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    head = json.loads(parts["model.json"])
    if change is not None:
        head = change(head) or head
    parts["model.json"] = json.dumps(head)
    return archive({**parts, **entries})


def state(**settings):
    return changed(lambda head: head["model"]["state"].update(settings))


def node(value):
    return state(gamma=value)


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def hostile_models(folder):
    """Name and content of files that must be refused."""
    good = good_model()
    cases = {
        f"cut at {percent} %": good[: len(good) * percent // 100]
        for percent in (0, 1, 5, 10, 25, 40, 50, 60, 75, 90, 95, 99)
    }
    cases |= {"last byte lost": good[:-1], "first byte lost": good[1:], "cut in the middle": good[:500] + good[600:]}
    data = good.index(b"\x93NUMPY")
    for name, place in {"tree": good.index(b'"protocol"') + 3, "array": data + 200, "later": data + 400}.items():
        cases[f"bit turned, {name}"] = good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :]
    pickled = pickle.dumps(Payload(folder))
    objects = np.array([Payload(folder)], dtype=object)
    huge = npy(np.zeros(3)).replace(b"(3,)", b"(999999999999,)".ljust(4))
    with_tree = {"format": "polymargin model", "x": [0] * 10_000}
    cases |= {
        "text": b"this is no model\n",
        "zeros": bytes(1000),
        "a pickle": pickled,
        "an empty zip": archive({}),
        "another zip": archive({"readme.txt": "hello"}),
        "tree no json": archive({"model.json": "{"}),
        "tree a list": archive({"model.json": "[]"}),
        "tree of others": archive({"model.json": '{"format": "other"}'}),
        "tree too deep": archive({"model.json": "[" * 200_000}),
        "tree not text": archive({"model.json": b"\xff\xfe\x00"}),
        "compressed": archive({"model.json": json.dumps(with_tree)}, zipfile.ZIP_DEFLATED),
        "protocol later": changed(lambda head: head.update(protocol=2)),
        "protocol text": changed(lambda head: head.update(protocol="1")),
        "no model": changed(lambda head: {key: value for key, value in head.items() if key != "model"}),
        "model a number": changed(lambda head: head.update(model=3)),
        "model a certificate": changed(lambda head: head.update(model=head["model"]["state"]["certificate_"])),
        "class os.system": changed(lambda head: head["model"].update({"class": "os.system"})),
        "class builtins.eval": node({"class": "builtins.eval", "state": {"source": "1"}}),
        "class not listed": node({"class": "sklearn.preprocessing.FunctionTransformer", "state": {}}),
        "class a list": changed(lambda head: head["model"].update({"class": ["CrammerSingerSVC"]})),
        "state a list": changed(lambda head: head["model"].update(state=[])),
        "state sets predict": state(predict="x"),
        "state sets __class__": state(**{"__class__": "x"}),
        "state lacks C": changed(lambda head: head["model"]["state"].pop("C") and None),
        "pipeline with a cache": changed(
            lambda head: head.update(
                model={"class": "sklearn.pipeline.Pipeline", "state": {"steps": [], "memory": folder, "verbose": False}}
            )
        ),
        "node unknown": node({"reduce": ["os.system", "true"]}),
        "node empty": node({}),
        "array 99": node({"array": 99}),
        "array a path": node({"array": "../../etc/passwd"}),
        "array true": node({"array": True}),
        "array negative": node({"array": -1}),
        "array of objects": changed(**{"0.npy": npy(objects, allow_pickle=True)}),
        "array a pickle": changed(**{"0.npy": pickled}),
        "array too short": changed(**{"0.npy": npy(np.zeros(9))[:-8]}),
        "array too long": changed(**{"0.npy": npy(np.zeros(9)) + bytes(8)}),
        "array huge": changed(**{"0.npy": huge}),
        "array of dates": changed(**{"0.npy": npy(np.zeros(3, dtype="M8[s]"))}),
        "csr out of bounds": node({"csr": [{"array": 0}, {"array": 0}, {"array": 0}], "shape": [2, 1]}),
        "dtype void": node({"dtype": "V8"}),
        "float a word": node({"float": "one"}),
        "random state short": node({"random": ["MT19937"]}),
        "objects of no shape": node({"objects": ["a", "b"], "shape": [3]}),
        "dict unhashable": node({"dict": [[[1], 2]]}),
        "certificate with more": state(certificate_={"class": "Certificate", "state": {"status": "x", "more": 1}}),
        "notes a list": changed(lambda head: head.update(notes=[])),
        "layout damaged": changed(lambda head: head.update(notes={"layout": {"n_features": "four"}})),
        "not fitted": changed(lambda head: head["model"]["state"].pop("n_features_in_") and None),
        "vectors of another shape": state(support_vectors_={"objects": ["a"], "shape": [1]}),
        "classes a number": state(classes_=3),
        "coefficients a list": state(dual_coef_=[1, 2]),
        "kernel unknown": state(kernel="__import__('os')"),
        "skops of a function": archive(
            {"schema.json": json.dumps({"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "content": {
                "module_path": "os", "function": "system"}, "protocol": 2, "_skops_version": "0.13"})}
        ),
        "skops of nonsense": archive({"schema.json": "{}"}),
    }  # fmt: skip
    return cases


DATA = {
    "empty.csv": "",
    "blank.csv": "\n\n\n",
    "header only.csv": HEADER,
    "a word.csv": HEADER + "1,2,x,4,p\n" * 1 + "1,2,3,4,q\n" * 9,
    "short row.csv": HEADER + "1,2,3,4,p\n1,2,3\n",
    "long row.csv": HEADER + "1,2,3,4,p\n1,2,3,4,5,q\n",
    "no label.csv": HEADER + "1,2,3,4,p\n1,2,3,4,\n",
    "infinite.csv": HEADER + "1,2,3,4,p\n1,inf,3,4,q\n",
    "same name.csv": "a,a,kind\n1,2,p\n3,4,q\n",
    "header or not.csv": "1,b,kind\n1,2,p\n3,4,q\n",
    "bytes.csv": b"a,b,kind\n1,2,\xff\xfe\n",
    "nul.csv": b"a,b,kind\n1,2\x00,p\n",
    "one class.csv": HEADER + "1,2,3,4,p\n" * 3,
    "one column.csv": "kind\np\nq\n",
    "numbers to predict.csv": HEADER + "1,2,3,4,0.5\n1,2,3,4,1.5\n",
    "open quote.csv": HEADER + '1,2,3,"4,p\n' + "1,2,3,4,q\n" * 3,
    "decimal comma.csv": "a;b;kind\n1,5;2,5;p\n3,5;4,5;q\n",
    "huge number.csv": HEADER + "1,2,3,1e200,p\n1,2,3,4,q\n",
    "ragged.tsv": "a\tb\tkind\n1\t2\tp\n1\t2\n",
    "word.tsv": "a\tb\tkind\n1\t2\tp\n1\t2\tq\n1\tz\tp\n",
    "not gzip.csv.gz": b"\x1f\x8b123456",
    "no ending": HEADER,
    "wrong ending.xls": HEADER,
    "word.svm": "1 1:2 2:x\n2 1:3\n",
    "label.svm": "yes 1:2\nno 1:3\n",
    "index 0.svm": "1 0:2\n2 1:3\n",
    "falling.svm": "1 2:2 1:3\n2 1:3\n",
    "twice.svm": "1 1:2 1:3\n2 1:3\n",
    "no colon.svm": "1 1=2\n2 1:3\n",
    "negative.svm": "1 -3:2\n2 1:3\n",
    "nan.svm": "1 1:nan\n2 1:3\n",
    "nan label.svm": "nan 1:1\n2 1:3\n",
    "comments only.svm": "# nothing\n",
    "csv.svm": HEADER + "1,2,3,4,p\n",
    "several labels.svm": "1,2 1:1\n2 1:3\n",
    "text.parquet": "PAR1 this is not parquet",
    "cut.parquet": b"PAR1\x00\x00",
    "text.npz": "no archive",
    "empty.npz": archive({}),
    "no X.npz": {"Z": np.zeros((3, 2))},
    "no y.npz": {"X": np.zeros((3, 2))},
    "flat X.npz": {"X": np.zeros(3), "y": np.arange(3)},
    "lengths.npz": {"X": np.zeros((3, 2)), "y": np.arange(4)},
    "texts.npz": {"X": np.array([["a", "b"]]), "y": np.arange(1)},
    "infinite.npz": {"X": np.array([[1.0, np.inf], [0.0, 1.0]]), "y": np.arange(2)},
    "fractions.npz": {"X": np.eye(2), "y": np.array([0.5, 1.0])},
    "matrix y.npz": {"X": np.eye(2), "y": np.eye(2)},
    "csr.npz": {"data": np.ones(2), "indices": np.array([0, 9]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2]),
                "y": np.arange(2)},
    "pickled.npz": {"X": np.array([[None]]), "y": np.arange(1)},
    "no data.arff": "@relation r\n@attribute a numeric\n",
    "no header.arff": "1,2,3\n",
    "type.arff": "@relation r\n@attribute a date\n@attribute k {p,q}\n@data\n1,p\n2,q\n",
    "value.arff": "@relation r\n@attribute a numeric\n@attribute k {p,q}\n@data\n1,p\n2,r\n",
    "word.arff": "@relation r\n@attribute a numeric\n@attribute k {p,q}\n@data\n1,p\nz,q\n",
    "sparse.arff": "@relation r\n@attribute a numeric\n@attribute k {p,q}\n@data\n{0 1}\n{9 1}\n",
    "open brace.arff": "@relation r\n@attribute a {x,y\n@data\nx\n",
    "missing.csv": None,
}  # fmt: skip
WITH_LINE = {
    "a word.csv": 2, "short row.csv": 3, "long row.csv": 3, "no label.csv": 3, "infinite.csv": 3, "bytes.csv": 2,
    "nul.csv": 2, "ragged.tsv": 3, "word.tsv": 4, "word.svm": 1, "label.svm": 1, "index 0.svm": 1, "falling.svm": 1,
    "negative.svm": 1, "nan.svm": 1, "value.arff": 6, "word.arff": 6, "sparse.arff": 6, "numbers to predict.csv": 2,
}  # fmt: skip


def write(path, content):
    if isinstance(content, dict):
        with path.open("wb") as file:
            np.savez(file, **content)
    elif content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def only_line(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("polymargin: ") and "Traceback" not in err and len(err) < 500, err
    return err


MODELS = sorted(hostile_models("x"))


def test_each_is_damaged_in_its_own_way():
    """A change that changes nothing, or what another one does, would test nothing; so would a line for no file."""
    models = hostile_models("x")
    assert changed() not in models.values()
    assert len(set(models.values())) == len(models)
    assert len({(name.partition(".")[2], repr(content)) for name, content in DATA.items()}) == len(DATA)
    assert set(WITH_LINE) <= set(DATA)


@pytest.mark.parametrize("name", MODELS)
def test_hostile_model_files(name, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    rows.write_text("5.1,3.5,1.4,0.2\n")
    target, folder = tmp_path / "m.pm", tmp_path / "made by the payload"
    target.write_bytes(hostile_models(str(folder))[name])
    assert main(["predict", str(target), str(rows)]) == 1
    only_line(capsys)
    assert not folder.exists()


@pytest.mark.parametrize("name", DATA)
def test_malformed_data_files(name, tmp_path, capsys):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    write(tmp_path / name, DATA[name])
    assert main(["train", str(tmp_path / name), "-o", str(tmp_path / "m.pm")]) == 1
    line = only_line(capsys)
    if name in WITH_LINE:
        assert f"line {WITH_LINE[name]}" in line
    assert not (tmp_path / "m.pm").exists()


def test_the_good_model_of_these_tests_is_good(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("5.1,3.5,1.4,0.2\n")
    (tmp_path / "m.pm").write_bytes(changed())
    assert main(["predict", str(tmp_path / "m.pm"), str(tmp_path / "rows.csv")]) == 0
    assert capsys.readouterr().out == "0\n"
