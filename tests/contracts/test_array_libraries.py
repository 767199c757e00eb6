"""Rows of other array libraries: the same answers, in kind where scikit-learn dispatches."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from polymargin import CrammerSingerSVC, LpNormSVC, MultiLabelSVC

X, Y = load_iris(return_X_y=True)


class SpeaksDLPack:
    """An array of a library that nobody knows."""

    def __init__(self, array):
        self._array, self.shape = array, array.shape

    def __dlpack__(self, **how):
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("machine", [CrammerSingerSVC(), CrammerSingerSVC(kernel="rbf"), LpNormSVC()], ids=repr)
def test_dlpack(machine):
    plain = machine.fit(X, Y)
    scores, labels = plain.decision_function(X), plain.predict(X)
    machine.fit(SpeaksDLPack(X), SpeaksDLPack(Y))
    assert_array_equal(machine.decision_function(SpeaksDLPack(X)), scores)
    assert_array_equal(machine.predict(SpeaksDLPack(X)), labels)


def test_wrong_rows_are_refused_as_ever():
    machine = CrammerSingerSVC().fit(X, Y)
    with pytest.raises(ValueError, match="4 features"):
        machine.predict(SpeaksDLPack(np.ones((2, 3))))


DISPATCHED = """
import numpy as np, sklearn, torch
from sklearn.datasets import load_iris
from polymargin import CrammerSingerSVC, MultiLabelSVC

X, y = load_iris(return_X_y=True)
rows, marks = torch.tensor(X, requires_grad=True), np.column_stack([y < 2, y > 0])
for settings in ({}, {"kernel": "rbf"}, {"probability": True}):
    plain = CrammerSingerSVC(**settings).fit(X, y)
    names = ["decision_function", "predict"] + ["predict_proba"] * ("probability" in settings)
    with sklearn.config_context(array_api_dispatch=True):
        tensors = CrammerSingerSVC(**settings).fit(rows, torch.tensor(y))
        found = {name: getattr(tensors, name)(rows) for name in names}
        best = tensors.decision_function(rows, top=2)
        assert all(isinstance(part, torch.Tensor) for part in (*best, tensors.predict_topk(rows, 2)))
    for name, answer in found.items():
        assert isinstance(answer, torch.Tensor), (settings, name, type(answer))
        np.testing.assert_array_equal(answer.numpy(), getattr(plain, name)(X))
    assert isinstance(tensors.predict(rows), np.ndarray)  # not asked to dispatch
half = CrammerSingerSVC().fit(rows.to(torch.bfloat16), y)  # as networks give embeddings; NumPy has no such type
assert half.class_vectors_.dtype == np.float32 and half.predict(rows.to(torch.bfloat16)).shape == y.shape
texts = CrammerSingerSVC().fit(X, np.array(["a", "b", "c"])[y])
labels = MultiLabelSVC().fit(X, marks)
with sklearn.config_context(array_api_dispatch=True):
    assert isinstance(texts.predict(rows), np.ndarray)  # a tensor holds no texts
    assert isinstance(labels.predict(rows), torch.Tensor)
print("all in kind")
"""


def test_answers_in_kind():
    """In a process of its own: SciPy asks at its start whether other arrays are wanted."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", DISPATCHED]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert "all in kind" in result.stdout


def test_label_matrices():
    marks = np.column_stack([Y < 2, Y > 0]).astype(np.int64)
    plain = MultiLabelSVC().fit(X, marks).predict(X)
    assert_array_equal(MultiLabelSVC().fit(SpeaksDLPack(X), SpeaksDLPack(marks)).predict(SpeaksDLPack(X)), plain)
