"""ONNX: machines alone by the onnx package, inside pipelines through skl2onnx, which asks machines for these functions."""

from __future__ import annotations

from importlib import import_module
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from polymargin.export.graph import OPSET, Node, Output, build, outputs_of

_IR = 7  # the file format of the time of opset 13


def to_onnx(model: Any, *, dtype: Any = None) -> Any:
    """A fitted machine, or a pipeline that ends with one, as an ONNX model.

    Parameters
    ----------
    model : estimator
        A machine of polymargin with any kernel but a callable. Pipelines and other estimators go through skl2onnx, if it is
        installed; a search is its best estimator.
    dtype : numpy.float32 or numpy.float64, default=None
        Type of the input. None: float32 for a machine that was fitted on float32 rows, else float64.

    Returns
    -------
    onnx.ModelProto
        Input ``X``, outputs ``label`` and ``scores``, equal to `predict` and `decision_function` (label matrices: 0 and 1 in
        the columns of ``label``), and ``probabilities`` for a machine that has them. ``onnx.save(it, path)`` writes it. A
        pipeline with text columns from the command line has one input a column, with its name (`_` for what is neither
        letter nor digit).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import CrammerSingerSVC, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = to_onnx(CrammerSingerSVC().fit(X, y)).graph  # doctest: +SKIP
    >>> [output.name for output in graph.output]  # doctest: +SKIP
    ['label', 'scores']
    """
    model = getattr(model, "best_estimator_", model)
    check_is_fitted(model)
    if hasattr(model, "onnx_converter"):
        return _alone(model, _input_type(model, dtype))
    return _through_skl2onnx(model, dtype)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install 'polymargin[onnx]'") from error


def _input_type(model: Any, dtype: Any) -> Any:
    if dtype is None:
        arrays = [getattr(model, name, None) for name in ("class_vectors_", "support_vectors_")]
        dtype = next((np.dtype(array.dtype) for array in arrays if array is not None), np.float64)
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} is not valid: use numpy.float32 or numpy.float64.")
    return np.dtype(dtype)


# ---- a machine alone ------------------------------------------------------------------------------------------------------


def _alone(machine: Any, rows: np.dtype[Any]) -> Any:
    onnx = _package("onnx")
    outputs, numbers = outputs_of(machine, rows), count()
    graph = build(machine, rows, "X", [output.name for output in outputs], lambda word: f"{word}_{next(numbers)}")
    nodes = [onnx.helper.make_node(node.op, node.inputs, [node.output], **_attributes(node)) for node in graph.nodes]
    proto = onnx.helper.make_graph(
        nodes,
        type(machine).__name__,
        [_value(Output("X", rows, (None, machine.n_features_in_)))],
        list(map(_value, outputs)),
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    model = onnx.helper.make_model(proto, opset_imports=[onnx.helper.make_opsetid("", OPSET)], producer_name="polymargin")
    model.ir_version = _IR
    onnx.checker.check_model(model)
    return model


def _attributes(node: Node) -> dict[str, Any]:
    return {name: _number(value) if isinstance(value, np.dtype) else value for name, value in node.attributes.items()}


def _number(dtype: np.dtype[Any]) -> int:
    """ONNX's number of a type."""
    helper = _package("onnx").helper
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _value(output: Output) -> Any:
    return _package("onnx").helper.make_tensor_value_info(output.name, _number(output.dtype), output.shape)


# ---- what skl2onnx asks a machine for -------------------------------------------------------------------------------------


def parser_of(machine: Any) -> Any:
    """Declares the outputs."""

    def parse(scope: Any = None, inputs: Any = None) -> list[Any]:
        found = outputs_of(machine, _rows_of(inputs))
        return [scope.declare_local_variable(output.name, _tensor_type(output)) for output in found]

    return parse


def shape_calculator_of(machine: Any) -> Any:
    """Sets types and shapes of the outputs."""

    def calculate(operator: Any) -> None:
        for variable, output in zip(operator.outputs, outputs_of(machine, _rows_of(operator.inputs)), strict=True):
            variable.type = _tensor_type(output)

    return calculate


def converter_of(machine: Any) -> Any:
    """Adds the graph to the model in the making."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        inputs = [variable.onnx_name for variable in operator.inputs]
        X = inputs[0]
        if len(inputs) > 1:
            X = scope.get_unique_variable_name("X")
            container.add_node("Concat", inputs, [X], name=scope.get_unique_operator_name("Concat"), axis=1)
        results = [variable.onnx_name for variable in operator.outputs]
        graph = build(machine, _rows_of(operator.inputs), X, results, scope.get_unique_variable_name)
        for name, array in graph.constants.items():
            _add_constant(container, name, array)
        for node in graph.nodes:
            own = scope.get_unique_operator_name(node.op)
            container.add_node(node.op, list(node.inputs), [node.output], name=own, **_attributes(node))

    return convert


def _rows_of(inputs: Any) -> np.dtype[Any]:
    """The type of the rows that reach a machine."""
    types = {type(variable.type).__name__ for variable in inputs}
    return np.dtype(np.float32 if types == {"FloatTensorType"} else np.float64)


def _tensor_type(output: Output) -> Any:
    types = _package("skl2onnx.common.data_types")
    by_kind = {"i": "Int64TensorType", "b": "BooleanTensorType", "O": "StringTensorType"}
    by_name = {"float32": "FloatTensorType", "float64": "DoubleTensorType"}
    return getattr(types, by_name.get(output.dtype.name) or by_kind[output.dtype.kind])(list(output.shape))


def _add_constant(container: Any, name: str, array: NDArray[Any]) -> None:
    onnx = _package("onnx")
    if array.dtype == object:
        container.add_initializer(name, onnx.TensorProto.STRING, array.shape, [label.encode() for label in array])
    else:
        container.add_initializer(name, None, None, onnx.numpy_helper.from_array(array, name))


# ---- pipelines ------------------------------------------------------------------------------------------------------------


def _through_skl2onnx(model: Any, dtype: Any) -> Any:
    skl2onnx = _package("skl2onnx")
    types = _package("skl2onnx.common.data_types")
    model, names, text = _without_named_columns(model)
    machine = model.steps[-1][1] if isinstance(model, Pipeline) else model
    number = types.FloatTensorType if _input_type(machine, dtype) == np.float32 else types.DoubleTensorType
    inputs = [("X", number([None, _width(model)]))]
    if text:
        inputs = [(name, (types.StringTensorType if name in text else number)([None, 1])) for name in names]
    try:
        return skl2onnx.convert_sklearn(model, initial_types=inputs, custom_conversion_functions={SimpleImputer: _filled})
    except KeyError as error:  # it looks some estimators up in a list of scikit-learn's, and does not ask them
        name = type(model).__name__
        raise TypeError(f"skl2onnx cannot convert {name} around {error}; convert the machine inside alone.") from error


def _filled(scope: Any, operator: Any, container: Any) -> None:
    """An imputer of numbers in any precision; onnxruntime knows ONNX's own in single precision only."""
    step, types = operator.raw_operator, {type(variable.type).__name__ for variable in operator.inputs}
    floats = types <= {"FloatTensorType", "DoubleTensorType"}
    if not floats or step.add_indicator or step.missing_values == step.missing_values:  # NaN differs from itself
        _package("skl2onnx.common._registration").get_converter("SklearnSimpleImputer")(scope, operator, container)
        return
    X, fill, is_missing = operator.inputs[0].onnx_name, *map(scope.get_unique_variable_name, ("fill", "missing"))
    _add_constant(container, fill, step.statistics_.astype(_rows_of(operator.inputs))[None])
    container.add_node("IsNaN", [X], [is_missing], name=scope.get_unique_operator_name("IsNaN"))
    name = scope.get_unique_operator_name("Where")
    container.add_node("Where", [is_missing, fill, X], [operator.outputs[0].onnx_name], name=name)


def _width(model: Any) -> int:
    width = getattr(model, "n_features_in_", None)
    return int(width if width is not None else model.steps[-1][1].n_features_in_)


def _without_named_columns(model: Any) -> tuple[Any, list[str], set[str]]:
    """The pipeline of the command line without its first step, whose order of columns is that of the inputs."""
    from polymargin.tables.preprocess import NamedColumns

    steps = _flat(model)
    if not steps or not isinstance(steps[0][1], NamedColumns):
        return model, [], set()
    columns = steps[0][1]
    return Pipeline(steps[1:]), list(map(str, columns.names)), set(map(str, columns.text))


def _flat(model: Any) -> list[tuple[str, BaseEstimator]]:
    """Steps of a pipeline of pipelines."""
    if not isinstance(model, Pipeline):
        return []
    parts = [_flat(step) or [(name, step)] for name, step in model.steps if step not in (None, "passthrough")]
    steps = [step for part in parts for _, step in part]
    return [(f"step{k}", step) for k, step in enumerate(steps)]
