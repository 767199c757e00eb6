"""ONNX models answer as the machines do: in onnxruntime, alone and in pipelines, for every machine and kernel."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from interpreters import run_warm
from registry import all_estimators
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler, scale

from polymargin import M3SVC, AngularSVC, CrammerSingerSVC, LpNormSVC, OneVsNoneSVC, WestonWatkinsSVC, to_onnx
from polymargin.cli import main

pytest.importorskip("onnx", reason="onnx is not installed: pip install 'polymargin[onnx]'")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'polymargin[onnx]'")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install 'polymargin[onnx]'")

IRIS = load_iris()
X = scale(IRIS.data)
Y = np.column_stack([X[:, 2] > 0, X[:, 3] > 0.2, X[:, 1] > -0.5]).astype(int)
TARGETS = {
    "strings": IRIS.target_names[IRIS.target],
    "numbers": IRIS.target * 10 - 5,
    "two classes": np.where(IRIS.target == 1, "b", "a"),
    "two numbers": (IRIS.target == 1).astype(np.int32),
    "booleans": IRIS.target == 1,
}
FLOATS = (np.float32, np.float64)
NEW = np.random.default_rng(0).standard_normal((64, 4)) * 1.5


def answers(model, **inputs):
    content = model if isinstance(model, bytes) else model.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def assert_same(model, est, rows):
    found = answers(model, X=rows)
    scores = est.decision_function(rows)
    # what double or single precision may lose in a sum of few numbers
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if scores.dtype == np.float64 else {"rtol": 2e-6, "atol": 2e-6}
    assert found["scores"].dtype == scores.dtype
    np.testing.assert_allclose(found["scores"], scores, **tolerance)
    labels = est.predict(rows)
    np.testing.assert_array_equal(found["label"], labels.toarray() if sparse.issparse(labels) else labels)
    assert ("probabilities" in found) == hasattr(est, "predict_proba")
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], est.predict_proba(rows), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("machine", all_estimators())
def test_every_linear_machine(machine, target, dtype):
    est = machine(tol=1e-3).fit(X.astype(dtype), TARGETS[target])
    assert_same(to_onnx(est), est, NEW.astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
@pytest.mark.parametrize("machine", all_estimators())
def test_every_kernel_machine(machine, kernel, dtype):
    est = machine(tol=1e-2, kernel=kernel).fit(X.astype(dtype), TARGETS["strings"])
    assert_same(to_onnx(est), est, NEW.astype(dtype))


@pytest.mark.parametrize("fitted", FLOATS)
@pytest.mark.parametrize("asked", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_of_another_precision_than_those_of_the_fit(kernel, fitted, asked):
    est = CrammerSingerSVC(kernel=kernel).fit(X.astype(fitted), TARGETS["numbers"])
    assert_same(to_onnx(est, dtype=asked), est, NEW.astype(asked))


@pytest.mark.parametrize("parameters", [{"kernel": "rbf", "n_components": 20}, {"kernel": "rbf", "gamma": 40.0}])
def test_nystroem_and_narrow_kernels(parameters):
    est = WestonWatkinsSVC(**parameters).fit(X, TARGETS["two classes"])
    assert_same(to_onnx(est), est, NEW)


def test_rows_far_from_zero_keep_their_kernel_values():
    est = CrammerSingerSVC(kernel="rbf").fit(X + 1e4, TARGETS["strings"])
    found = answers(to_onnx(est), X=NEW + 1e4)
    np.testing.assert_allclose(found["scores"], est.decision_function(NEW + 1e4), atol=1e-9)


def test_sigmoid_kernels_by_their_formula():
    est = CrammerSingerSVC(kernel="rbf").fit(X, TARGETS["strings"])
    est.set_params(kernel="sigmoid", coef0=0.3)  # few of them are semi-definite; the arrays are the same
    assert_same(to_onnx(est), est, NEW)


def test_kernel_values_in_place_of_rows():
    est = CrammerSingerSVC(kernel="precomputed").fit(X @ X.T, TARGETS["strings"])
    assert_same(to_onnx(est), est, NEW @ X.T)


def test_sparse_support_rows_and_sparse_class_vectors():
    kernel = CrammerSingerSVC(kernel="rbf").fit(sparse.csr_array(np.maximum(X, 0)), TARGETS["strings"])
    assert_same(to_onnx(kernel), kernel, NEW)
    linear = LpNormSVC().fit(X, TARGETS["strings"]).sparsify()
    assert_same(to_onnx(linear), linear, NEW)


def test_a_machine_of_offsets_alone():
    est = CrammerSingerSVC(kernel="rbf").fit(X, TARGETS["strings"])
    est.support_, est.support_vectors_, est.dual_coef_ = np.arange(0), X[:0], est.dual_coef_[:, :0]
    assert_same(to_onnx(est), est, NEW)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("labels", [Y, Y.astype(bool), Y.astype("f4"), sparse.csr_array(Y)], ids=["i", "b", "f", "csr"])
@pytest.mark.parametrize("parameters", [{}, {"kernel": "rbf"}, {"threshold": "auto"}, {"threshold": 30.0}])
def test_label_matrices(parameters, labels, dtype):
    est = OneVsNoneSVC(**parameters).fit(X.astype(dtype), labels)
    assert_same(to_onnx(est), est, NEW.astype(dtype))


def test_label_matrices_in_a_pipeline():
    model = make_pipeline(StandardScaler(), OneVsNoneSVC()).fit(X, Y)
    assert_same(to_onnx(model), model, NEW)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("target", ["strings", "two classes"])
def test_probabilities_are_a_third_output(loss, target, dtype):
    est = M3SVC(loss=loss).fit(X.astype(dtype), TARGETS[target])
    assert_same(to_onnx(est), est, NEW.astype(dtype))
    model = make_pipeline(MinMaxScaler(), M3SVC(loss=loss)).fit(X, TARGETS[target])
    assert_same(to_onnx(model), model, NEW)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("machine", [CrammerSingerSVC, OneVsNoneSVC])
def test_probabilities_that_were_fitted(machine, kernel, dtype):
    est = machine(kernel=kernel, probability=True).fit(X.astype(dtype), Y if machine is OneVsNoneSVC else TARGETS["strings"])
    assert_same(to_onnx(est), est, NEW.astype(dtype))


def test_probabilities_with_mixing_and_a_lapse():
    """Few data sets have them: here by hand."""
    est = CrammerSingerSVC(probability=True).fit(X, TARGETS["strings"])
    est.class_mixing_, est.lapse_ = np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3), 0.05
    assert_same(to_onnx(est), est, NEW)


@pytest.mark.parametrize("target", ["strings", "two numbers"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_pipelines_and_searches_through_skl2onnx(kernel, target):
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.05, np.nan, X)
    model = make_pipeline(SimpleImputer(), StandardScaler(), AngularSVC(kernel=kernel, tol=1e-3)).fit(holes, TARGETS[target])
    assert_same(to_onnx(model), model, np.where(NEW > 2.5, np.nan, NEW))
    search = GridSearchCV(make_pipeline(StandardScaler(), CrammerSingerSVC()), {"crammersingersvc__C": [0.1, 1.0]}, cv=2)
    search.fit(X, TARGETS[target])
    assert_same(to_onnx(search), search, NEW)


def test_skl2onnx_itself_finds_the_converter():
    est = CrammerSingerSVC().fit(X, TARGETS["strings"])
    assert_same(skl2onnx.to_onnx(est, NEW), est, NEW)
    model = make_pipeline(StandardScaler(), est).fit(X, TARGETS["strings"])
    found = answers(skl2onnx.to_onnx(model, NEW.astype(np.float32)), X=NEW.astype(np.float32))
    np.testing.assert_array_equal(found["label"], model.predict(NEW))


def test_single_precision_on_request_in_a_pipeline():
    model = make_pipeline(StandardScaler(), WestonWatkinsSVC(kernel="rbf")).fit(X, TARGETS["numbers"])
    found = answers(to_onnx(model, dtype=np.float32), X=NEW.astype(np.float32))
    assert found["scores"].dtype == np.float32
    np.testing.assert_allclose(found["scores"], model.decision_function(NEW), atol=1e-5)


def test_what_cannot_be_written_is_refused_with_a_sentence():
    with pytest.raises(TypeError, match="cannot be written as a graph; these can: 'linear', 'rbf'"):
        to_onnx(CrammerSingerSVC(kernel=lambda A, B: A @ B.T).fit(X, TARGETS["strings"]))
    with pytest.raises(ValueError, match="dtype='int32' is not valid"):
        to_onnx(CrammerSingerSVC().fit(X, TARGETS["strings"]), dtype="int32")
    calibrated = CalibratedClassifierCV(CrammerSingerSVC(), cv=2).fit(X, TARGETS["strings"])
    with pytest.raises(TypeError, match=r"skl2onnx cannot convert CalibratedClassifierCV around .*CrammerSingerSVC"):
        to_onnx(calibrated)


def test_the_example_in_the_documents(capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text("utf-8")
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```$", text, re.M | re.S)  # "py" is for those with onnx
    assert any("onnxruntime" in block for block in blocks)
    names = {}
    for block in blocks:
        exec(compile(block, "export.md", "exec"), names)


# ---- the command line -----------------------------------------------------------------------------------------------------


def write_table(path, text_column):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["length", "width", *(["colour"] if text_column else []), "kind"])
        for k, row in enumerate(IRIS.data):
            colour = [("red", "blue", "green")[(k + IRIS.target[k]) % 3]] if text_column else []
            writer.writerow([row[2], "" if k % 17 == 0 else row[3], *colour, IRIS.target_names[IRIS.target[k]]])


@pytest.mark.parametrize("text_column", [False, True])
def test_export_of_a_trained_model(text_column, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "iris.csv", text_column)
    assert main(["train", "iris.csv", "-o", "iris.pm", "--target", "kind"]) == 0
    assert main(["export", "iris.pm", "iris.onnx"]) == 0
    capsys.readouterr()
    assert main(["predict", "iris.pm", "iris.csv"]) == 0
    labels = capsys.readouterr().out.split()
    missing = np.where(np.arange(150) % 17 == 0, np.nan, IRIS.data[:, 3])
    inputs = {"X": np.column_stack([IRIS.data[:, 2], missing])}
    if text_column:
        colours = np.array(["red", "blue", "green"], dtype=object)[(np.arange(150) + IRIS.target) % 3]
        inputs = {"length": IRIS.data[:, 2:3], "width": missing[:, None], "colour": colours[:, None]}
    found = answers((tmp_path / "iris.onnx").read_bytes(), **inputs)
    assert found["label"].tolist() == labels


def test_without_onnx_the_error_says_how_to_get_it():
    said = run_warm("""
        import sys
        sys.modules["onnx"] = None
        import numpy as np, polymargin
        try:
            polymargin.to_onnx(polymargin.CrammerSingerSVC().fit(np.eye(4), [0, 1, 2, 3]))
        except ImportError as error:
            print(error)
    """)
    assert said.strip() == "this needs onnx: pip install 'polymargin[onnx]'"
