"""A fitted machine as a graph of tensor operations: from rows to labels, scores and, where it has them, probabilities.

The operations are ONNX's (those of opset 13, which later ones keep), written down as data: `onnx.py` hands them to the onnx
package or to skl2onnx. Scores are computed in the precisions of `decision_function`: linear ones in that of rows and class
vectors, kernels in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.estimators.parts.vectors import dense, dense64

OPSET = 13


class Output(NamedTuple):
    """What a graph gives: the type is that of `predict` and `decision_function`, None in a shape is the number of rows."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


class Node(NamedTuple):
    """An operation on named tensors; attributes that are dtypes stand for ONNX's numbers of them."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]


class Graph:
    """Operations in the order of their use, and the constants among their inputs."""

    def __init__(self, unique: Callable[[str], str]):
        self._unique = unique  # a name that nobody else has
        self.nodes: list[Node] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def add(self, op: str, *inputs: str | NDArray[Any], output: str | None = None, **attributes: Any) -> str:
        """Adds an operation; returns the name of its result."""
        names = tuple(one if isinstance(one, str) else self._constant(one) for one in inputs)
        self.nodes.append(Node(op, names, output or self._unique(op.lower()), attributes))
        return self.nodes[-1].output

    def cast(self, x: str, dtype: Any) -> str:
        return self.add("Cast", x, to=np.dtype(dtype))

    def _constant(self, array: NDArray[Any]) -> str:
        name = self._unique("constant")
        self.constants[name] = array
        return name


def outputs_of(machine: Any, rows: Any) -> list[Output]:
    """What the graph of a machine gives for rows of this type."""
    width = len(machine.classes_)
    shape: tuple[int | None, ...] = (None, width) if _has_columns(machine) else (None,)
    scores = Output("scores", _score_type(machine, rows), shape)
    if machine._label_cut is not None:
        found = [Output("label", _label_type(machine), shape), scores]
    else:
        found = [Output("label", _label_array(machine).dtype, (None,)), scores]
    if machine._scaling is not None:
        found.append(Output("probabilities", scores.dtype, (None, width)))
    return found


def build(machine: Any, rows: Any, X: str, results: list[str], unique: Callable[[str], str]) -> Graph:
    """The graph from the tensor `X`, whose type is `rows`, to tensors with the names `results`, those of `outputs_of`."""
    graph = Graph(unique)
    kind = _score_type(machine, rows)
    columns = graph.cast(_raw_scores(graph, machine, X, kind), kind)
    flat: tuple[Any, ...] = () if _has_columns(machine) else (np.array([-1]),)
    scores = graph.add("Reshape" if flat else "Identity", columns, *flat, output=results[1])
    if machine._label_cut is not None:
        _label_sets(graph, machine, scores, kind, results[0])
    else:
        _winners(graph, machine, scores, kind, results[0])
    if machine._scaling is not None:
        _probabilities(graph, machine, columns, kind, results[2])
    return graph


# ---- scores -----------------------------------------------------------------------------------------------------------


def _has_columns(machine: Any) -> bool:
    """Whether there is a score a class; else there is one for both."""
    return bool(machine.intercept_.shape[0] > 1)


def _score_type(machine: Any, rows: Any) -> np.dtype[Any]:
    rows = np.dtype(np.float32 if rows == np.float32 else np.float64)
    return np.result_type(rows, machine.class_vectors_.dtype) if machine.kernel == "linear" else rows


def _raw_scores(graph: Graph, machine: Any, X: str, kind: Any) -> str:
    """Scores (n, c), or (n, 1) for two classes."""
    if machine.kernel == "linear":
        rows, V = graph.cast(X, kind), dense(machine.coef_)
    else:
        kind = np.dtype(np.float64)
        rows, V = _kernel_rows(graph, machine, graph.cast(X, kind)), dense64(machine._shaped(machine.dual_coef_))
    product = graph.add("MatMul", rows, V.T.astype(kind))
    return graph.add("Add", product, machine.intercept_.astype(kind))


def _kernel_rows(graph: Graph, machine: Any, X: str) -> str:
    """Kernel values of rows and support rows."""
    if machine.kernel not in _KERNELS:
        known = ", ".join(map(repr, ["linear", *_KERNELS]))
        raise TypeError(f"kernel={machine.kernel!r} cannot be written as a graph; these can: {known}.")
    return _KERNELS[machine.kernel](graph, machine, X)


def _rbf(graph: Graph, machine: Any, X: str) -> str:
    """``exp(2 gamma z . z_j - gamma |z|^2 - gamma |z_j|^2)``, rows z about the mean of the support rows.

    Runtimes fuse factors beside a product into one in single precision: 2 gamma is part of the constant.
    """
    gamma, support = float(machine._gamma), dense64(machine.support_vectors_)
    centre = support.mean(axis=0) if len(support) else np.zeros(support.shape[1])
    Z = support - centre
    z = graph.add("Sub", X, centre)
    squares = graph.add("ReduceSum", graph.add("Mul", z, z), np.array([1]), keepdims=1)
    lengths = graph.add("Sub", graph.add("Mul", squares, np.array(-gamma)), gamma * np.einsum("ij,ij->i", Z, Z)[None])
    exponent = graph.add("Add", graph.add("MatMul", z, 2.0 * gamma * Z.T), lengths)
    return graph.add("Exp", graph.add("Min", exponent, np.array(0.0)))


def _products(graph: Graph, machine: Any, X: str) -> str:
    """``gamma x . x_j + coef0``."""
    product = graph.add("MatMul", X, machine._gamma * dense64(machine.support_vectors_).T)
    return graph.add("Add", product, np.array(float(machine.coef0)))


def _polynomial(graph: Graph, machine: Any, X: str) -> str:
    return graph.add("Pow", _products(graph, machine, X), np.array(float(machine.degree)))


def _sigmoid(graph: Graph, machine: Any, X: str) -> str:
    return graph.add("Tanh", _products(graph, machine, X))


def _laplacian(graph: Graph, machine: Any, X: str) -> str:
    """All differences of a row and a support row are held at a time."""
    support = dense64(machine.support_vectors_)
    apart = graph.add("Sub", graph.add("Unsqueeze", X, np.array([1])), support[None])
    lengths = graph.add("ReduceSum", graph.add("Abs", apart), np.array([2]), keepdims=0)
    return graph.add("Exp", graph.add("Mul", lengths, np.array(-float(machine._gamma))))


def _precomputed(graph: Graph, machine: Any, X: str) -> str:
    return graph.add("Gather", X, np.asarray(machine.support_, dtype=np.int64), axis=1)


_KERNELS: dict[Any, Callable[[Graph, Any, str], str]] = {
    "rbf": _rbf,
    "poly": _polynomial,
    "sigmoid": _sigmoid,
    "laplacian": _laplacian,
    "precomputed": _precomputed,
}


# ---- from scores to answers ---------------------------------------------------------------------------------------------


def _winners(graph: Graph, machine: Any, scores: str, kind: Any, result: str) -> None:
    """The class of the highest score; of two classes there is the difference of their scores."""
    if _has_columns(machine):
        winners = graph.add("ArgMax", scores, axis=1, keepdims=0)
    else:
        winners = graph.cast(graph.add("Greater", scores, np.zeros((), kind)), np.int64)
    graph.add("Gather", _label_array(machine), winners, output=result)


def _label_array(machine: Any) -> NDArray[Any]:
    """The classes in a type that ONNX has: whole numbers, floats, booleans or strings."""
    classes = np.asarray(machine.classes_)
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    if classes.dtype.kind in "fb":
        return classes
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    raise TypeError(f"classes {classes.tolist()[:3]!r} are neither numbers nor strings, and ONNX has no other labels.")


def _label_type(machine: Any) -> np.dtype[Any]:
    """Of a label matrix: that of Y, whole numbers as 64 bits."""
    return np.dtype(np.int64 if machine._label_type.kind in "iu" else machine._label_type)


def _label_sets(graph: Graph, machine: Any, scores: str, kind: Any, result: str) -> None:
    """Labels whose score reaches the cut; where none does and a row must have one, that of the highest score."""
    cut = np.asarray(machine._label_cut)
    kind = np.result_type(kind, cut) if cut.ndim else kind
    reached = graph.add("GreaterOrEqual", graph.cast(scores, kind), cut.astype(kind))
    if machine._allows_empty_sets:
        graph.add("Cast", reached, output=result, to=_label_type(machine))
        return
    count = graph.add("ReduceSum", graph.cast(reached, np.int64), np.array([1]), keepdims=1)
    best = graph.add("ArgMax", scores, axis=1, keepdims=1)
    is_best = graph.add("Equal", best, np.arange(len(machine.classes_))[None])
    alone = graph.add("And", is_best, graph.add("Equal", count, np.array(0)))
    graph.add("Cast", graph.add("Or", reached, alone), output=result, to=_label_type(machine))


def _probabilities(graph: Graph, machine: Any, columns: str, kind: Any, result: str) -> None:
    """As `predict_proba` has them; one score for two classes is the second's, the first's is 0."""
    scaling, c = machine._scaling, len(machine.classes_)
    if not _has_columns(machine):
        columns = graph.add("Mul", columns, np.array([[0.0, 1.0]], dtype=kind))
    if scaling.mixing is not None:
        columns = graph.add("MatMul", columns, scaling.mixing.astype(kind))
    scaled = graph.add("Mul", columns, np.array(scaling.slope, dtype=kind))
    shifted = graph.add("Add", scaled, scaling.biases.astype(kind))
    if machine._label_cut is not None:
        graph.add("Sigmoid", shifted, output=result)
        return
    shares = graph.add("Mul", graph.add("Softmax", shifted, axis=1), np.array(1.0 - scaling.lapse, dtype=kind))
    graph.add("Add", shares, np.array(scaling.lapse / c, dtype=kind), output=result)
