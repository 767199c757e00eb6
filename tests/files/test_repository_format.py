"""Files of the Extreme Classification Repository: read, trained on, evaluated and predicted from the command line."""

import io
import json

import numpy as np
import pytest
from scipy import sparse

from polymargin import load
from polymargin.cli import main
from polymargin.tables import TableError, read_table

TEXT = "4 3 5\n0,4 0:1.5 2:2\n 1:1\n2 0:1\n2,3 1:0.5 2:-1\n"


def read(text: str, **options):
    return read_table(io.BytesIO(text.encode()), multilabel=options.pop("multilabel", True), format="xc", **options)


def test_both_matrices_stay_sparse():
    table = read(TEXT)
    np.testing.assert_array_equal(table.X.toarray(), [[1.5, 0, 2], [0, 1, 0], [1, 0, 0], [0, 0.5, -1]])
    assert sparse.issparse(table.X) and sparse.issparse(table.y)
    np.testing.assert_array_equal(table.y.toarray(), [[1, 0, 0, 0, 1], [0] * 5, [0, 0, 1, 0, 0], [0, 0, 1, 1, 0]])
    assert table.target_names == tuple("01234") and table.multilabel and "5 labels" in table.describe()
    assert read("1 3 5\n4 2:1\n", layout=table.layout).y.toarray().tolist() == [[0, 0, 0, 0, 1]]
    assert read("1 2 2\n1,1 0:1\n").y.toarray().tolist() == [[0, 1]]


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 2\n0 0:1\n", "line 1: the first line must be 'rows features labels'"),
        ("0,1 0:1\n", "line 1: the first line must be"),
        ("3 2 2\n0 0:1\n", "promises 3 rows, but 1 follow"),
        ("1 2 2\n2 0:1\n", "the label 2 of row 1 is not a whole number below 2"),
        ("2 2 2\n0 0:1\n0.5 0:1\n", "the label 0.5 of row 2"),
        ("1 2 2\n0 2:1\n", "line 2.*too large for 2 features"),
        ("1 2 2\n0 0:x\n", "line 2.*'x' is not a finite number"),
        ("1 0 2\n0 0:1\n", "0 features and 2 labels"),
        (f"1 {2**31} 2\n0 0:1\n", "must be from 1 to"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(TableError, match=message):
        read(text)


def test_files_of_another_kind_are_refused():
    with pytest.raises(TableError, match="say --multilabel"):
        read(TEXT, multilabel=False)
    with pytest.raises(TableError, match="2 labels, but the model was trained with 5"):
        read("1 3 2\n1 0:1\n", layout=read(TEXT).layout)
    with pytest.raises(TableError, match="no named columns"):
        read(TEXT, target="a")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Training and test rows of 24 labels with a word each, label 7 without rows."""
    folder, rng = tmp_path_factory.mktemp("xc"), np.random.default_rng(0)
    for name, n in (("train", 240), ("test", 60)):
        lines = [f"{n} 30 24"]
        for _ in range(n):
            labels = sorted({label for label in rng.integers(0, 24, 2).tolist() if label != 7} or {0})
            words = sorted({*labels, int(rng.integers(24, 30))})
            lines.append(f"{','.join(map(str, labels))} {' '.join(f'{word}:1' for word in words)}")
        (folder / f"{name}.xc").write_text("\n".join(lines) + "\n")
    return folder


def test_a_tree_is_trained_evaluated_and_asked_for_the_best_labels(files, capsys):
    train, test, model = (str(files / name) for name in ("train.xc", "test.xc", "tree.pm"))
    options = ["--tree", "--C", "1", "--param", "max_leaf=4", "--param", "arity=3"]
    assert main(["train", train, "--multilabel", *options, "--test", test, "-o", model, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["machine"] == "LabelTree" and summary["nodes"]["number"] > 9 and summary["nodes"]["rel_gap"] < 0.02
    assert summary["test"]["P@1"] > 0.9 and set(summary["test"]) == {"P@1", "P@3", "P@5", "nDCG@3", "nDCG@5"}
    assert main(["evaluate", model, test, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["P@1"] == pytest.approx(summary["test"]["P@1"])
    assert main(["predict", model, test, "--top", "3"]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    table = read_table(test, multilabel=True)
    hits = [int(row[0]) in table.y[[i]].indices for i, row in enumerate(rows)]
    assert np.mean(hits) == pytest.approx(summary["test"]["P@1"]) and {len(row) for row in rows} == {3}
    assert load(model).predict(table.X).shape == (60, 24)


def test_a_machine_of_all_labels_takes_the_sparse_matrix_too(files, capsys, tmp_path):
    train = (files / "train.xc").read_text().replace("240 30 24\n", "240 30 23\n")
    lines = [train.splitlines()[0]]
    for line in train.splitlines()[1:]:  # label 7 has no rows: the last one takes its number
        labels, _, rest = line.partition(" ")
        lines.append(f"{','.join('7' if label == '23' else label for label in labels.split(','))} {rest}")
    (tmp_path / "all.xc").write_text("\n".join(lines) + "\n")
    model = str(tmp_path / "flat.pm")
    arguments = ["train", str(tmp_path / "all.xc"), "--multilabel", "--machine", "MultiLabelSVC", "--C", "10", "-o", model]
    assert main(arguments) == 0
    assert "p@1" in capsys.readouterr().out.lower()
    assert main(["predict", model, str(tmp_path / "all.xc")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == ",".join(map(str, range(23)))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tree", "--machine", "MultiLabelSVC"], "--tree is a machine of its own"),
        (["--tree", "--kernel", "rbf"], "LabelTree has no parameter 'kernel'"),
    ],
)
def test_options_that_do_not_fit_a_tree(files, capsys, arguments, message):
    assert main(["train", str(files / "train.xc"), "--multilabel", *arguments, "-o", str(files / "no.pm")]) != 0
    assert message in capsys.readouterr().err
