"""The command line: train, predict, evaluate, inspect, convert; what it prints equals what Python gives."""

import argparse
import csv
import html
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from interpreters import run_python
from registry import all_estimators, supports_multilabel
from scipy import sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import polymargin
from polymargin import CrammerSingerSVC, load, save
from polymargin.cli import COMMANDS, compare, main
from polymargin.cli.compare import _command
from polymargin.comparison import candidates_for
from polymargin.comparison.evaluation import search
from polymargin.comparison.report import held_out
from polymargin.metrics import brier_score, expected_calibration_error
from polymargin.tables import make_preprocessor, read_table


def write_iris(path, labels=("setosa", "versicolor", "virginica")):
    data = load_iris()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sepal length", "sepal width", "petal length", "petal width", "species"])
        writer.writerows([*row, labels[k]] for row, k in zip(data.data.tolist(), data.target, strict=True))
    return path


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_iris(tmp_path / "iris.csv")
    return tmp_path


def run(*arguments):
    assert main(list(arguments)) == 0


def test_help_and_version_need_no_heavy_import():
    code = """
        import contextlib, io, sys
        from polymargin.cli import main
        for argument in ("--help", "--version"):
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
                main([argument])
            assert "polymargin" in out.getvalue()
        print([name for name in ("numpy", "scipy", "sklearn") if name in sys.modules])
    """
    assert run_python(code).strip() == "[]"


def test_every_command_has_help(capsys):
    for name in COMMANDS:
        with pytest.raises(SystemExit) as left:
            main([name, "--help"])
        assert left.value.code == 0 and "usage: polymargin" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line, said",
    [
        ("compre iris.csv", "there is no command 'compre'; did you mean 'compare'?"),
        ("explain m.pm iris.csv", "did you mean 'inspect'?"),
        ("compare iris.csv --taget species", "no option --taget; did you mean '--target'? (polymargin compare --help"),
        ("predict m.pm iris.csv more.csv", "there is a word too many: 'more.csv' (polymargin predict --help"),
        ("train iris.csv", "required: -o/--output"),
    ],
)
def test_wrong_words_are_one_line_with_the_right_one(line, said, capsys):
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("polymargin: ") and err.count("\n") == 1 and said in err


def test_no_words_at_all_are_answered_with_the_commands(capsys):
    assert main([]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in COMMANDS)


@pytest.mark.parametrize("ending", ["csv", "tsv", "svm", "parquet", "npz", "csv.gz"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_train_and_predict_equal_python(ending, kernel, work, capsys):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    name = f"iris.{ending}"
    if ending == "csv.gz":
        import gzip

        (work / name).write_bytes(gzip.compress((work / "iris.csv").read_bytes()))
    elif ending != "csv":
        run("convert", "iris.csv", name)
    run("train", name, "-o", "m.pm", "--C", "10", "--kernel", kernel)
    capsys.readouterr()
    run("predict", "m.pm", name)
    printed = capsys.readouterr().out.splitlines()
    table = read_table(name)
    model = make_pipeline(make_preprocessor(table), CrammerSingerSVC(C=10, kernel=kernel, random_state=0)).fit(
        table.X, table.y
    )
    assert printed == [str(label) for label in model.predict(table.X).tolist()]
    np.testing.assert_array_equal(load("m.pm").decision_function(table.X), model.decision_function(table.X))
    assert set(printed) == ({"0", "1", "2"} if ending == "svm" else {"setosa", "versicolor", "virginica"})


@pytest.mark.parametrize("machine", [cls.__name__ for cls in all_estimators()])
def test_every_machine_can_be_trained_saved_and_asked(machine, work, capsys):
    run("train", "iris.csv", "--machine", machine, "-o", "m.pm", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert summary["machine"] == machine and summary["certificate"]["status"]
    run("evaluate", "m.pm", "iris.csv", "--json")
    measured = json.loads(capsys.readouterr().out)
    assert measured["accuracy"] == pytest.approx(summary["training"]["accuracy"]) and measured["accuracy"] > 0.6
    run("inspect", "m.pm")
    assert machine in capsys.readouterr().out


def test_new_rows_in_another_order_and_without_labels(work, capsys):
    run("train", "iris.csv", "-o", "m.pm")
    (work / "new.csv").write_text(
        "petal width,petal length,id,sepal width,sepal length\n0.2,1.4,7,3.5,5.1\n2.3,5.2,8,3.0,6.7\n"
    )
    (work / "bare.csv").write_text("5.1,3.5,1.4,0.2\n6.7,3.0,5.2,2.3\n")
    capsys.readouterr()
    for name in ("new.csv", "bare.csv"):
        run("predict", "m.pm", name)
        assert capsys.readouterr().out == "setosa\nvirginica\n"


def test_categories_and_missing_values_go_with_the_model(work, capsys):
    (work / "mixed.csv").write_text("size,colour,kind\n1,red,a\n2,red,a\n1.5,,a\n8,blue,b\n9,blue,b\n,blue,b\n")
    run("train", "mixed.csv", "-o", "m.pm")
    (work / "new.csv").write_text("colour,size\nred,\nblue,\ngreen,1\nblue,9\n")
    capsys.readouterr()
    run("predict", "m.pm", "new.csv")
    assert capsys.readouterr().out.splitlines() == ["a", "b", "a", "b"]


def test_scores_json_and_output_files(work, capsys):
    run("train", "iris.csv", "-o", "m.pm")
    capsys.readouterr()
    model, table = load("m.pm"), read_table("iris.csv")
    run("predict", "m.pm", "iris.csv", "--scores", "-o", "out.csv")
    assert capsys.readouterr().out == ""
    rows = list(csv.reader(io.StringIO((work / "out.csv").read_text())))
    assert rows[0] == ["label", "score setosa", "score versicolor", "score virginica"]
    np.testing.assert_array_equal(np.array([row[1:] for row in rows[1:]], dtype=float), model.decision_function(table.X))
    run("predict", "m.pm", "iris.csv", "--scores", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["predictions"] == model.predict(table.X).tolist() and document["classes"] == model.classes_.tolist()
    np.testing.assert_array_equal(document["scores"], model.decision_function(table.X))


def test_probabilities_by_class_name(work, capsys):
    run("train", "iris.csv", "-o", "m.pm", "--proba")
    capsys.readouterr()
    model, table = load("m.pm"), read_table("iris.csv")
    run("predict", "m.pm", "iris.csv", "--proba", "--scores")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    names = ["setosa", "versicolor", "virginica"]
    assert rows[0] == ["label", *(f"{kind} {name}" for kind in ("score", "probability") for name in names)]
    found = np.array([row[4:] for row in rows[1:]], dtype=float)
    np.testing.assert_array_equal(found, model.predict_proba(table.X))
    run("predict", "m.pm", "iris.csv", "--proba", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["probabilities_of"] == names
    np.testing.assert_array_equal(document["probabilities"], model.predict_proba(table.X))
    run("train", "iris.csv", "-o", "plain.pm")
    assert main(["predict", "plain.pm", "iris.csv", "--proba"]) != 0
    assert "train it with --proba" in capsys.readouterr().err


def test_probabilities_are_evaluated_and_inspected(work, capsys):
    from sklearn.metrics import log_loss

    run("train", "iris.csv", "-o", "m.pm", "--proba", "--test", "iris.csv", "--json")
    told = json.loads(capsys.readouterr().out)["test"]
    run("evaluate", "m.pm", "iris.csv", "--json")
    measured = json.loads(capsys.readouterr().out)
    model, table = load("m.pm"), read_table("iris.csv")
    P = model.predict_proba(table.X)
    assert measured["log_loss"] == told["log_loss"] == pytest.approx(log_loss(table.y, P))
    assert measured["brier_score"] == pytest.approx(brier_score(table.y, P))
    assert measured["calibration_error"] == pytest.approx(expected_calibration_error(table.y, P))
    write_iris(work / "other.csv", ("setosa", "versicolor", "unheard of"))
    run("evaluate", "m.pm", "other.csv", "--json")
    assert json.loads(capsys.readouterr().out)["log_loss"] > 5.0  # a class without a column has probability 0
    run("inspect", "m.pm", "--json")
    machine = model.steps[-1][1]
    found = json.loads(capsys.readouterr().out)["probabilities"]
    assert found["temperature"] == machine.temperature_ and found["lapse"] == machine.lapse_
    assert found["class_biases"] == machine.class_biases_.tolist()
    assert found["mixes_classes"] == (machine.class_mixing_ is not None)
    run("inspect", "m.pm", "iris.csv")
    page = capsys.readouterr().out
    assert f"temperature {machine.temperature_:.3g}" in page and f"log loss {measured['log_loss']:.3g}" in page
    run("train", "iris.csv", "-o", "plain.pm")
    run("inspect", "plain.pm", "--json")
    run("evaluate", "plain.pm", "iris.csv", "--json")
    assert "probabilities" not in (out := capsys.readouterr().out) and "log_loss" not in out


def test_machines_compared_by_their_probabilities(work, capsys):
    short = ["--machines", "crammer,logistic", "--cv", "2", "--json", "--jobs", "1"]
    run("compare", "iris.csv", "--metric", "neg_log_loss", *short)
    document = json.loads(capsys.readouterr().out)
    assert document["metric"] == "neg_log_loss" and len(document["table"]) == 4  # linear, kernel, squared, logistic
    assert all(-1.0 < row["scores"]["neg_log_loss"] < 0.0 for row in document["table"])


def test_two_classes_and_labels_with_commas(work, capsys):
    (work / "two.csv").write_text('a,k\n1,"yes, sure"\n2,"yes, sure"\n8,no\n9,no\n')
    run("train", "two.csv", "-o", "m.pm")
    capsys.readouterr()
    run("predict", "m.pm", "two.csv", "--scores")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["label", "score yes, sure"] and [row[0] for row in rows[1:]] == ["yes, sure", "yes, sure", "no", "no"]


def test_standard_input_and_output_in_fresh_processes(work):
    polymargin_ = [sys.executable, "-m", "polymargin"]
    data = (work / "iris.csv").read_bytes()
    trained = subprocess.run(
        [*polymargin_, "train", "-", "--format", "csv", "-o", "-"], input=data, capture_output=True, check=True
    )
    assert b"optimal" in trained.stderr
    predicted = subprocess.run(
        [*polymargin_, "predict", "-", "iris.csv"], input=trained.stdout, capture_output=True, check=True
    )
    (work / "m.pm").write_bytes(trained.stdout)
    assert predicted.stdout.decode().splitlines() == load("m.pm").predict(read_table("iris.csv").X).tolist()
    unwilling = subprocess.run([*polymargin_, "predict", "-", "-"], input=b"", capture_output=True, check=False)
    assert unwilling.returncode == 2 and unwilling.stderr.count(b"\n") == 1


def test_test_rows_and_evaluate(work, capsys):
    run("train", "iris.csv", "-o", "m.pm", "--test", "iris.csv", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert summary["test"] == summary["training"]
    run("evaluate", "m.pm", "iris.csv")
    out = capsys.readouterr().out
    assert f"accuracy           {summary['test']['accuracy']:.4f}" in out and "virginica" in out
    write_iris(work / "other.csv", ("setosa", "versicolor", "unheard of"))
    run("evaluate", "m.pm", "other.csv", "--json")
    measured = json.loads(capsys.readouterr().out)
    assert measured["accuracy"] < 0.7 and "unheard of" in {row["name"] for row in measured["classes"]}
    (work / "new.csv").write_text("5.1,3.5,1.4,0.2\n")
    assert main(["evaluate", "m.pm", "new.csv"]) == 1
    assert "no labels to compare with" in capsys.readouterr().err


def test_evaluate_counts_as_scikit_learn_does(work, capsys):
    from sklearn.metrics import balanced_accuracy_score, f1_score

    (work / "wine.csv").write_text(
        "\n".join(["a,b,k", *(f"{x[0]},{x[1]},{k}" for x, k in zip(*load_wine(return_X_y=True), strict=True))])
    )
    run("train", "wine.csv", "-o", "m.pm", "--machine", "WestonWatkinsSVC")
    capsys.readouterr()
    run("evaluate", "m.pm", "wine.csv", "--json")
    measured = json.loads(capsys.readouterr().out)
    table = read_table("wine.csv")
    predicted = load("m.pm").predict(table.X)
    assert measured["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(table.y, predicted))
    assert measured["macro_f1"] == pytest.approx(f1_score(table.y, predicted, average="macro"))
    assert [row["rows"] for row in measured["classes"]] == [59, 71, 48]


def test_several_labels(work, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    Y = (X[:, :2] + 0.1 * rng.standard_normal((60, 2)) > 0).astype(int)
    lines = ["a,b,c,sun,rain", *(",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True))]
    (work / "labels.csv").write_text("\n".join(lines))
    able = [cls.__name__ for cls in all_estimators() if supports_multilabel(cls)]
    if not able:
        assert main(["train", "labels.csv", "--multilabel", "--target", "sun,rain", "-o", "m.pm"]) == 2
        assert "several labels" in capsys.readouterr().err
    for machine in able:
        run("train", "labels.csv", "--multilabel", "--target", "-2:", "-o", "m.pm", "--machine", machine)
        capsys.readouterr()
        run("predict", "m.pm", "labels.csv")
        rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
        assert rows[0] == ["sun", "rain"]
        expected = load("m.pm").predict(read_table("labels.csv", "-2:", True).X)
        np.testing.assert_array_equal(np.array(rows[1:], dtype=int), expected)
        run("evaluate", "m.pm", "labels.csv", "--json")
        measured = json.loads(capsys.readouterr().out)
        assert {"jaccard", "micro_f1", "macro_f1", "subset_accuracy"} <= set(measured)
    assert (
        main(["train", "labels.csv", "--multilabel", "--target", "-2:", "-o", "m.pm", "--machine", "CrammerSingerSVC"]) == 2
    )


def write_labels(path, unknown=0.0):
    """Rows with three features and two labels; the file has -1 for "does not have it" and 0 where it is not known."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    Y = np.where(X[:, :2] + 0.1 * rng.standard_normal((60, 2)) > 0, 1, -1 if unknown else 0)
    Y[rng.random(Y.shape) < unknown] = 0
    rows = [",".join(map(str, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    path.write_text("\n".join(["a,b,c,sun,rain", *rows]))
    return X, Y


@pytest.mark.parametrize("target", ["-2:", "sun,rain", "4:5"])
def test_test_rows_with_several_labels(target, work, capsys):
    """Reliability case 35: the labels of the test file were looked for under the text of --target."""
    write_labels(work / "labels.csv")
    (work / "bare.csv").write_text("\n".join((work / "labels.csv").read_text().splitlines()[1:]))
    run("train", "labels.csv", "--multilabel", "--target", target, "-o", "m.pm", "--test", "labels.csv", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert summary["test"] == summary["training"] and summary["test"]["jaccard"] > 0.5
    run("evaluate", "m.pm", "labels.csv", "--target", target, "--json")
    assert json.loads(capsys.readouterr().out)["jaccard"] == pytest.approx(summary["test"]["jaccard"])
    run("evaluate", "m.pm", "bare.csv", "--target", "-2:", "--json")
    assert json.loads(capsys.readouterr().out)["jaccard"] == pytest.approx(summary["test"]["jaccard"])
    assert main(["evaluate", "m.pm", "labels.csv", "--target", "3:5"]) == 1
    assert "3 target columns, but the model was trained with 2 labels" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["-1", "5", "species"])
def test_test_rows_with_the_target_by_place(target, work, capsys):
    run("train", "iris.csv", "--target", target, "-o", "m.pm", "--test", "iris.csv", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert summary["test"] == summary["training"]


def test_test_rows_with_labels_in_one_column(work, capsys):
    lines = [f"{k % 7},{k % 5},{'sun;rain' if k % 3 else 'sun'}" for k in range(30)]
    (work / "tags.csv").write_text("\n".join(["a,b,tags", *lines]))
    (work / "more.csv").write_text("\n".join(["a,b,tags,other", *(f"{line},1" for line in lines)]))
    for name in ("tags.csv", "more.csv"):
        run("train", "tags.csv", "--multilabel", "--target", "tags", "-o", "m.pm", "--test", name, "--json")
        summary = json.loads(capsys.readouterr().out)
        assert summary["test"] == summary["training"]


def test_labels_known_not_to_be_there(work, capsys):
    """-1 in train, predict and evaluate; only known entries count (reliability case 36)."""
    from polymargin.metrics import METRICS, known_label_score

    X, Y = write_labels(work / "labels.csv", unknown=0.3)
    run("train", "labels.csv", "--multilabel", "--target", "-2:", "-o", "m.pm", "--test", "labels.csv", "--json")
    summary = json.loads(capsys.readouterr().out)
    predicted = load("m.pm").predict(X)
    assert set(np.unique(predicted)) <= {0, 1}
    for name in METRICS:
        assert summary["test"][name] == pytest.approx(known_label_score(Y, predicted, metric=name))
    assert summary["test"]["subset_accuracy"] == pytest.approx(load("m.pm").score(X, Y))
    run("predict", "m.pm", "labels.csv")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    np.testing.assert_array_equal(np.array(rows[1:], dtype=int), predicted)
    run("evaluate", "m.pm", "labels.csv")
    out = capsys.readouterr().out
    assert f"{(Y != 0).sum()} of 120 entries are known (1 or -1); only these count" in out


def test_labels_without_members_are_named(work, capsys):
    text = "a,b,sun,rain,snow\n1,2,1,0,0\n2,1,0,1,-1\n3,4,1,1,0\n"
    (work / "labels.csv").write_text(text)
    assert main(["train", "labels.csv", "--multilabel", "--target", "-3:", "-o", "m.pm"]) == 1
    assert capsys.readouterr().err.startswith("polymargin: labels.csv: no row has 'snow': leave labels without a member out")


def test_control_characters_do_not_reach_a_terminal(work, capsys, monkeypatch):
    """Class names and cells are shown, not obeyed (reliability case 34); files and pipes get them as they are."""
    names = ("\x1b[31mred\x1b[0m", "\x07bell", "\u202eright to left")
    write_iris(work / "wild.csv", names)
    for command in (["train", "wild.csv", "-o", "m.pm"], ["evaluate", "m.pm", "wild.csv"], ["inspect", "m.pm"]):
        run(*command)
        out, err = capsys.readouterr()
        assert not any(sign in out + err for sign in "\x1b\x07\u202e"), command
    run("evaluate", "m.pm", "wild.csv")
    assert r"\x1b[31mred\x1b[0m  " in capsys.readouterr().out
    run("convert", "wild.csv", "wild.svm")
    assert r"= \x1b[31mred" in capsys.readouterr().err
    run("predict", "m.pm", "wild.csv")
    assert capsys.readouterr().out.startswith("\x1b[31mred")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run("predict", "m.pm", "wild.csv")
    assert capsys.readouterr().out.startswith(r"\x1b[31mred")


def test_messages_have_an_end(work, capsys):
    names = ",".join(f"column{k}" for k in range(5000))
    (work / "wide.csv").write_text(f"{names},y\n{'1,' * 5000}p\n{'2,' * 5000}q\n")
    run("train", "wide.csv", "-o", "m.pm")
    run("inspect", "m.pm")
    out = capsys.readouterr().out
    assert "(5000 in all)" in out and len(out) < 5000


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
def test_ctrl_c_with_worker_processes_is_one_line(work):
    """A terminal sends it to the workers too, and those that are still importing would each print a traceback."""
    command = [sys.executable, "-m", "polymargin", "compare", "dataset:digits", "--jobs", "2"]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=work
    )
    child.stderr.readline()  # what the data is; then workers are started
    deadline = time.monotonic() + 60
    while "popen_loky_posix" not in processes_of(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, "", "polymargin: interrupted\n")


def processes_of(session):
    """The command lines of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                found.append((folder / "cmdline").read_text())
        except OSError:  # it has just ended
            continue
    return " ".join(found)


def test_measures_of_several_labels():
    from polymargin.cli.evaluate import metrics, per_class

    Y, P = np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, 0], [1, 0], [0, 0]])
    measured = metrics(Y, P, True)
    assert measured["jaccard"] == pytest.approx((1 + 0.5 + 1) / 3) and measured["subset_accuracy"] == pytest.approx(2 / 3)
    assert measured["micro_f1"] == pytest.approx(0.8) and measured["macro_f1"] == pytest.approx(0.5)
    assert per_class(Y, P, ("u", "v"))[1] == {"name": "v", "precision": 0.0, "recall": 0.0, "f1": 0.0, "rows": 1}


def test_parameters_reach_the_machine(work):
    run(
        "train", "iris.csv", "-o", "m.pm", "--C", "0.5", "--gamma", "0.1", "--kernel", "rbf", "--param", "max_iter=77",
        "--param", "n_components=30", "--class-weight", "{'setosa': 2}", "--seed", "5",
    )  # fmt: skip
    machine = load("m.pm")[-1]
    expected = {"C": 0.5, "gamma": 0.1, "max_iter": 77, "n_components": 30, "class_weight": {"setosa": 2}, "random_state": 5}
    assert expected.items() <= machine.get_params().items()


def test_scaling_can_be_left_out(work):
    run("train", "iris.csv", "-o", "m.pm", "--no-scale")
    assert "StandardScaler" not in str(load("m.pm"))


USAGE = [
    (["--machine", "CramerSingerSVC"], "did you mean 'CrammerSingerSVC'"),
    (["--machine", "crammersingersvc"], "did you mean 'CrammerSingerSVC'"),
    (["--machine", "Certificate"], "there is no machine"),
    (["--param", "max_itr=3"], "did you mean 'max_iter'"),
    (["--param", "max_iter"], "NAME=VALUE"),
    (["--json", "-o", "-"], "not both"),
]


@pytest.mark.parametrize("options, message", USAGE)
def test_wrong_usage_is_exit_code_2_and_one_line(options, message, work, capsys):
    assert main(["train", "iris.csv", "-o", "m.pm", *options]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "options, message",
    [
        (["--C", "-1"], "C=-1 is not valid"),
        (["--kernel", "rfb"], "kernel='rfb' is not valid"),
        (["--target", "specie"], "did you mean 'species'"),
        (["-o", "no/such/folder/m.pm"], "No such file or directory"),
        (["--test", "gone.csv"], "gone.csv: there is no such file"),
    ],
)
def test_errors_are_exit_code_1_and_one_line(options, message, work, capsys):
    assert main(["train", "iris.csv", "-o", "m.pm", *options]) == 1
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_warnings_are_lines_too(work, capsys):
    assert main(["train", "iris.csv", "-o", "m.pm", "--param", "max_iter=1", "--tol", "1e-9"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("polymargin: warning: CrammerSingerSVC stopped after") and err.count("\n") == 1


def test_progress_goes_to_standard_error(work, capsys):
    run("train", "iris.csv", "-o", "m.pm", "-v", "--json")
    out, err = capsys.readouterr()
    json.loads(out)
    assert "[CrammerSingerSVC]" in err


def test_traceback_on_demand(work):
    with pytest.raises(ValueError, match="C=-1"):
        main(["--traceback", "train", "iris.csv", "-o", "m.pm", "--C", "-1"])


def test_a_bug_says_that_it_is_one(work, capsys, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr("polymargin.tables.read_table", broken)
    assert main(["train", "iris.csv", "-o", "m.pm"]) == 3
    assert "bug (RuntimeError: boom)" in capsys.readouterr().err


def test_ctrl_c_is_exit_code_130(work, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("polymargin.tables.read_table", interrupted)
    assert main(["train", "iris.csv", "-o", "m.pm"]) == 130
    assert capsys.readouterr().err == "polymargin: interrupted\n"


def test_models_saved_in_python(work, capsys):
    """Arrays: columns by place. Data frames: by name."""
    X, y = load_iris(return_X_y=True)
    save(make_pipeline(StandardScaler(), CrammerSingerSVC(random_state=0)).fit(X, y), "m.pm")
    run("predict", "m.pm", "iris.csv", "--target", "species")
    assert capsys.readouterr().out.splitlines() == [str(label) for label in load("m.pm").predict(X)]
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv("iris.csv")
    save(
        make_pipeline(StandardScaler(), CrammerSingerSVC(random_state=0)).fit(
            frame.drop(columns="species"), frame["species"]
        ),
        "f.pm",
    )
    frame[frame.columns[::-1]].to_csv("reversed.csv", index=False)
    run("evaluate", "f.pm", "reversed.csv", "--target", "species", "--json")
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.9


def test_inspect_tells_what_is_inside(work, capsys):
    run("train", "iris.csv", "-o", "m.pm", "--kernel", "rbf")
    capsys.readouterr()
    run("inspect", "m.pm")
    out = capsys.readouterr().out
    for word in (
        "CrammerSingerSVC(kernel='rbf', random_state=0)",
        "optimal",
        "virginica",
        "petal width",
        "species",
        "dual_coef_",
    ):
        assert word in out
    run("inspect", "m.pm", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["certificate"]["status"] == "optimal" and found["arrays"]["dual_coef_"][0] == 3


def test_inspect_prints_the_machines_own_page(work, capsys, monkeypatch):
    """With the training data, as the machine saw it."""

    def explain(self, X=None, y=None):
        print("a page", None if X is None else (X.shape, abs(X.mean()) < 1e-9, y[0]))

    monkeypatch.setattr(CrammerSingerSVC, "explain", explain, raising=False)
    run("train", "iris.csv", "-o", "m.pm")
    run("inspect", "m.pm")
    assert "a page None" in capsys.readouterr().out
    run("inspect", "m.pm", "iris.csv")
    assert "a page ((150, 4), True, 'setosa')" in capsys.readouterr().out.replace("np.True_", "True").replace(
        "np.str_('setosa')", "'setosa'"
    )


def test_inspect_gives_margins_and_bounds_as_json(work, capsys):
    run("train", "iris.csv", "-o", "m.pm", "--machine", "M3SVC", "--param", "loss=logistic")
    capsys.readouterr()
    run("inspect", "m.pm", "iris.csv", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [bound["kind"] for bound in found["bounds"]] == ["lp", "lp_sharp", "mcodm", "angular"]
    for bound in found["bounds"]:
        assert bound["value"] == pytest.approx(sum(bound["terms"].values())) and bound["holds"]
    assert found["norm_bound"]["largest"] <= found["norm_bound"]["bound"]
    assert found["margins"]["n_rows"] == 150 and np.shape(found["logistic_margins"]) == (3, 3)
    run("inspect", "m.pm", "iris.csv")
    page = capsys.readouterr().out
    assert "Theorem 6" in page and "Eq. 29" in page


def test_inspect_tells_what_the_fit_has_chosen(work, capsys):
    run("train", "iris.csv", "-o", "m.pm", "--machine", "LpNormSVC", "--param", "p=auto")
    run("train", "iris.csv", "-o", "fixed.pm", "--machine", "LpNormSVC", "--param", "p=1.2")
    capsys.readouterr()
    run("inspect", "m.pm", "--json")
    chosen = json.loads(capsys.readouterr().out)["chosen"]
    assert chosen["p"] in chosen["p_candidates"] and len(chosen["p_scores"]) == len(chosen["p_candidates"])
    run("inspect", "m.pm")
    assert f"chosen p             {chosen['p']:.4g}" in capsys.readouterr().out
    run("inspect", "fixed.pm", "--json")
    assert "chosen" not in json.loads(capsys.readouterr().out)


def test_convert_tells_the_codes_of_labels(work, capsys):
    run("convert", "iris.csv", "iris.svm")
    assert "0 = setosa" in capsys.readouterr().err
    assert main(["convert", "iris.csv", "iris.arff"]) == 1
    assert "not written as 'arff'" in capsys.readouterr().err
    run("convert", "iris.svm", "-", "--to", "csv")
    assert capsys.readouterr().out.splitlines()[0] == "column 1,column 2,column 3,column 4,target"


def test_data_sets_by_name(work, capsys):
    run("train", "dataset:wine", "-o", "m.pm")
    run("evaluate", "m.pm", "dataset:wine", "--json")
    assert main(["train", "dataset:win", "-o", "m.pm"]) == 1
    assert "did you mean 'wine'" in capsys.readouterr().err


def test_the_public_names_load_on_use():
    assert set(polymargin.__all__) <= set(dir(polymargin))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = polymargin.nothing


def command_of(page):
    """The command that a report says to repeat it with, as words."""
    text = re.search(r"To repeat this</h2><pre>(.*?)</pre>", page, re.DOTALL)[1]
    return shlex.split(html.unescape(text))


def scores_in(printed):
    found = json.loads(printed)
    rows = [(row["machine"], row["scores"], row["interval"], row["p_value"], row["params"]) for row in found["table"]]
    return found["winner"], rows


def test_the_printed_command_repeats_a_comparison(work, capsys):
    """Every option that matters is in it, quoted: other columns, another cell for missing, another seed, ..."""
    lines = (work / "iris.csv").read_text().splitlines()
    lines[1] = lines[1].replace("5.1", "-", 1)  # one cell is missing
    (work / "my iris;1.csv").write_text("\n".join(line.replace(",", ";") for line in lines) + "\n")
    options = ["--target", "-1", "--drop", "petal length", "--drop", "sepal width", "--missing=-", "--delimiter", ";"]
    options += ["--machines", "one-vs-rest,logistic", "--cv", "3", "--seed", "7", "--metric", "macro_f1", "--jobs", "1"]
    run("compare", "my iris;1.csv", *options, "--json", "--report", "page.html")
    first = capsys.readouterr().out
    words = command_of((work / "page.html").read_text())
    assert words[:3] == ["polymargin", "compare", "my iris;1.csv"] and shlex.split(json.loads(first)["command"]) == words
    run(*words[1:], "--json")
    assert scores_in(capsys.readouterr().out) == scores_in(first)
    run(*(word for word in words[1:] if word != "--drop=petal length"), "--json")
    assert scores_in(capsys.readouterr().out) != scores_in(first)


def test_the_command_names_what_differs_from_the_defaults():
    every = {
        "categorical": ["a", "b c"], "format": "csv", "header": "no", "decimal": ",", "encoding": "latin-1", "index_base": 0,
        "n_features": 9, "label_separator": "|", "multilabel": True, "budget": "90s", "repeats": 2, "missing": ["", "?"],
    }  # fmt: skip
    args = parsed_compare(["-odd.csv"])
    assert _command(args) == "polymargin compare --cv=5 --repeats=1 --seed=0 -- -odd.csv"
    for name, value in every.items():
        setattr(args, name, value)
    again = parsed_compare(shlex.split(_command(args))[2:])
    assert {name: getattr(again, name) for name in every} == every and again.data == "-odd.csv"


def parsed_compare(words):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    return parser.parse_args(words if "--" in words else ["--", *words])


@pytest.mark.parametrize("rows", ["many columns", "sparse"])
def test_every_winner_of_a_comparison_can_be_saved(work, capsys, rows, monkeypatch):
    """Without skops, each default candidate alone: fitted, saved by the command, loaded, the same predictions."""
    monkeypatch.setitem(sys.modules, "skops", None)
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    many = make_preprocessor(read_table(work / "iris.csv", "species")) if rows == "many columns" else MaxAbsScaler()
    X = X if rows == "many columns" else sparse.csr_matrix(X)
    multilabel = np.column_stack([y == 0, y > 0]).astype(int)
    signed = np.where(multilabel > 0, 1, -1) * (np.arange(100).reshape(50, 2) % 3 > 0)
    for labels in (y, multilabel, signed):
        for candidate in candidates_for(X, labels):
            if candidate.ours:
                continue  # every machine of ours has this test in test_persistence.py
            grid = {name: values[2:3] for name, values in candidate.grid.items()}
            model = search(replace(candidate, grid=grid), many, labels, inner=2, scoring=None, seed=0).estimator
            model.set_params(**{f"machine__{name}": values[0] for name, values in grid.items()}).fit(X, labels)
            save(model, "winner.pm")
            np.testing.assert_array_equal(load("winner.pm").predict(X), model.predict(X))


def test_a_comparison_saves_svc(work, capsys):
    run("compare", "iris.csv", "--machines", "SVC rbf", "--cv", "2", "--jobs", "1", "--quiet", "-o", "svc.pm")
    assert "saved: svc.pm" in capsys.readouterr().out
    run("predict", "svc.pm", "iris.csv", "--json")


@pytest.mark.parametrize("option", ["--output", "--report", "--plot"])
def test_a_comparison_that_could_not_be_written_is_not_begun(work, capsys, option, monkeypatch):
    monkeypatch.setattr("polymargin.comparison.compare_machines", lambda *_, **__: pytest.fail("it was run"))
    assert main(["compare", "iris.csv", option, "no/such/folder/file"]) == 1
    assert "no/such/folder/file" in capsys.readouterr().err
    assert main(["compare", "iris.csv", option, "iris.csv"]) == 1
    assert "is the input iris.csv itself" in capsys.readouterr().err
    assert main(["compare", "iris.csv", "--output", "-"]) == 2
    assert "standard output has the table" in capsys.readouterr().err


# ---- out of core --------------------------------------------------------------------------------------------------------


def test_blocks_are_written_and_trained_on(work, capsys):
    X, y = load_iris(return_X_y=True)
    (work / "parts").mkdir()
    for k in range(3):
        np.savez(work / "parts" / f"{k}.npz", X=X[k::3], y=y[k::3])
    run("convert", "parts", "rows.blocks", "--to", "blocks")
    run("train", "rows.blocks", "--memory", "500MB", "--tol", "1e-3", "-o", "model.pm")
    said = capsys.readouterr().err
    assert "150 rows, 4 features, 3 classes" in said and "optimal" in said
    machine = load("model.pm")
    assert machine.objective_ <= CrammerSingerSVC(tol=1e-6).fit(X, y).objective_ * (1 + 1e-3)
    assert main(["convert", "parts", "rows.blocks", "--to", "blocks"]) != 0  # it is there already
    assert "a folder of their own" in capsys.readouterr().err


def test_the_report_of_a_table_names_its_columns(work):
    lines = (work / "iris.csv").read_text().splitlines()
    colours = ["colour", *(("red", "blue", "green")[k % 3] for k in range(150))]
    (work / "mixed.csv").write_text("\n".join(f"{line},{colour}" for colour, line in zip(colours, lines, strict=True)))
    table = read_table("mixed.csv", target="species")
    model = make_pipeline(make_preprocessor(table), CrammerSingerSVC()).fit(table.X, table.y)
    said = held_out._values(SimpleNamespace(X_test=table.X, model=model), 0)
    assert said.startswith("colour red, petal ") and "column" not in said
    assert held_out._names(model)[:5] == ["sepal length", "sepal width", "petal length", "petal width", "colour_blue"]
