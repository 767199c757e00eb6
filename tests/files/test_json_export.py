"""Linear machines as JSON: numbers that give the same scores and labels, and steps that are multiplied in."""

import json

import numpy as np
import pandas as pd
import pytest
from registry import all_estimators
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, StandardScaler

from polymargin import M3SVC, CrammerSingerSVC, OneVsNoneSVC, WestonWatkinsSVC, to_json
from polymargin.cli import main

IRIS = load_iris(as_frame=True)
X, y = IRIS.data.to_numpy(), IRIS.target_names[IRIS.target]
Y = np.column_stack([X[:, 2] > 4, X[:, 3] > 1.2, X[:, 1] > 3]).astype(int)
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)


def scored(document, rows):
    model = json.loads(document)
    if model["missing"] is not None:
        rows = np.where(np.isnan(rows), model["missing"], rows)
    return model, rows @ np.array(model["class_vectors"]).T + model["class_offsets"]


def assert_same(model, rows):
    document, scores = scored(to_json(model), rows)
    ours = model.decision_function(rows)
    theirs = scores[:, 1] - scores[:, 0] if ours.ndim == 1 else scores
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(np.array(document["classes"])[scores.argmax(axis=1)], model.predict(rows))
    return document


@pytest.mark.parametrize("machine", all_estimators())
def test_every_machine_with_many_classes_and_two(machine):
    document = assert_same(machine(tol=1e-3).fit(X, y), X)
    assert document["machine"] == machine.__name__
    assert document["label_cut"] is document["probabilities"] is document["missing"] is None
    assert_same(machine(tol=1e-3).fit(X, IRIS.target == 1), X)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [StandardScaler(with_std=False), MaxAbsScaler()],
        [MinMaxScaler((-1, 3)), StandardScaler()],
        [SimpleImputer(strategy="median"), StandardScaler()],
        [StandardScaler(), SimpleImputer(), MinMaxScaler()],
        [make_pipeline(SimpleImputer(), StandardScaler()), "passthrough"],
    ],
    ids=str,
)
def test_steps_are_multiplied_in(steps):
    fills = "Imputer" in str(steps)
    document = assert_same(make_pipeline(*steps, WestonWatkinsSVC()).fit(HOLES if fills else X, y), HOLES if fills else X)
    assert (document["missing"] is not None) == fills


def test_labels_probabilities_and_names():
    labels = OneVsNoneSVC(threshold="auto").fit(X, Y)
    document, scores = scored(to_json(labels), X)
    sets = scores >= document["label_cut"]
    sets[np.arange(len(sets)), scores.argmax(axis=1)] |= ~sets.any(axis=1)
    np.testing.assert_array_equal(sets, labels.predict(X))
    assert document["classes"] == [0, 1, 2]
    named = OneVsNoneSVC().fit(X, pd.DataFrame(Y, columns=["long", "wide", "high"]))
    assert json.loads(to_json(named))["classes"] == ["long", "wide", "high"]
    for machine in (M3SVC(loss="softmax"), CrammerSingerSVC(probability=True)):
        likely = make_pipeline(StandardScaler(), machine).fit(IRIS.data, y)
        document, scores = scored(to_json(likely), X)
        how = document["probabilities"]
        assert how["of"] == "classes" and how["mixing"] is None
        P = softmax(how["slope"] * scores + how["biases"], axis=1)
        np.testing.assert_allclose((1 - how["lapse"]) * P + how["lapse"] / 3, likely.predict_proba(IRIS.data), atol=1e-12)
    assert document["features"] == list(IRIS.data.columns)
    assert json.loads(to_json(CrammerSingerSVC().fit(IRIS.data, y)))["features"] == list(IRIS.data.columns)
    assert json.loads(to_json(CrammerSingerSVC().fit(X, y)))["features"] is None


def test_sparse_vectors_float32_and_linear_machines_of_scikit_learn():
    assert_same(CrammerSingerSVC().fit(X, y).sparsify(), X)
    single = CrammerSingerSVC().fit(X.astype(np.float32), y)
    _, scores = scored(to_json(single), X)
    np.testing.assert_allclose(scores, single.decision_function(X.astype(np.float32)), rtol=1e-4, atol=1e-4)
    rows, two = load_breast_cancer(return_X_y=True)
    assert_same(make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, two), rows)


def test_what_is_not_linear_is_refused_with_a_sentence():
    with pytest.raises(TypeError, match=r"has kernel='rbf'; JSON holds linear machines, to_onnx all others\."):
        to_json(CrammerSingerSVC(kernel="rbf").fit(X, y))
    imputers = [SimpleImputer(missing_values=0), SimpleImputer(add_indicator=True)]
    steps = [PolynomialFeatures(), MinMaxScaler(clip=True), *imputers]
    for step in steps:
        rows = HOLES if step is steps[-1] else X
        model = make_pipeline(step, StandardScaler(), CrammerSingerSVC()).fit(rows, y)
        with pytest.raises(TypeError, match=r"cannot be written as numbers of a linear machine; ONNX .* takes most"):
            to_json(model)


def test_export_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    IRIS.data.assign(kind=y).to_csv("iris.csv", index=False)
    assert main(["train", "iris.csv", "--target", "kind", "-o", "iris.pm"]) == 0
    assert main(["export", "iris.pm", "iris.json"]) == 0
    capsys.readouterr()
    assert main(["predict", "iris.pm", "iris.csv"]) == 0
    labels = capsys.readouterr().out.split()
    document, scores = scored((tmp_path / "iris.json").read_text(), X)
    assert document["features"] == list(IRIS.data.columns)
    assert np.array(document["classes"])[scores.argmax(axis=1)].tolist() == labels
    assert main(["export", "iris.pm", "-", "--to", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == document
    for wrong, code, said in (
        (["iris.txt"], 2, "says no format"),
        (["iris.json", "--float32"], 2, "--float32 is for ONNX"),
        (["iris.pm", "--to", "json"], 1, "is the input iris.pm itself"),
    ):
        assert main(["export", "iris.pm", *wrong]) == code
        assert said in capsys.readouterr().err
