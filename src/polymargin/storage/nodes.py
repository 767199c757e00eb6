"""Values as JSON and arrays, and back: the vocabulary of model files.

A node is null, a bool, an int, a finite float, a string, a list, or an object with one key:

    {"float": "inf"}                       infinities and NaN
    {"scalar": array}                      a NumPy scalar
    {"array": number}                      an array of the file: booleans, numbers, strings
    {"objects": [...], "shape": [...]}     an array of Python strings, numbers and None
    {"csr": [...], "shape": [...]}         a CSR matrix: its data, indices, indptr
    {"tuple": [...]}, {"dict": [[k, v], ...]}, {"slice": [start, stop, step]}
    {"dtype": "<f8"}, {"type": "<f8"}      numpy.dtype("float64"), numpy.float64
    {"random": [...]}                      the state of a RandomState
    {"class": name, "state": {...}}        an object of a class in `classes()`: its attributes
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.problems.duals import OF_WARM_STARTS
from polymargin.storage import libsvm as _libsvm
from polymargin.storage.models import ModelFileError, UnsavableError
from polymargin.validation import check_csr

_SKLEARN = {
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.preprocessing": ("LabelBinarizer", "MaxAbsScaler", "MinMaxScaler", "OneHotEncoder", "StandardScaler"),
    "sklearn.linear_model": ("LogisticRegression",),
    "sklearn.svm": ("LinearSVC", "SVC"),
    "sklearn.multiclass": ("OneVsOneClassifier", "OneVsRestClassifier", "OutputCodeClassifier", "_ConstantPredictor"),
}
_CHECKED = {"sklearn.svm.SVC": _libsvm.unsafe_part}  # predictions hand their arrays to native code unchecked
_LEFT_OUT = OF_WARM_STARTS  # what a warm start keeps goes to native loops: it is not taken from files
_PLAIN = (bool, int, float, str, type(None))


@cache
def classes() -> dict[str, type]:
    """The classes that a file may name: ours, and scikit-learn's usual preprocessing and linear classifiers."""
    from importlib import import_module

    import polymargin
    from polymargin.comparison.known_labels import KnownLabelsClassifier
    from polymargin.problems.certificate import Certificate, Record, Stage
    from polymargin.tables.preprocess import NamedColumns
    from polymargin.trees.nodes import Tree

    public = [getattr(polymargin, name) for name in polymargin.__all__]
    known: dict[str, type] = {
        thing.__name__: thing for thing in public if inspect.isclass(thing) and hasattr(thing, "get_params")
    }
    known |= {"Certificate": Certificate, "Record": Record, "Stage": Stage, "NamedColumns": NamedColumns}
    known |= {"KnownLabelsClassifier": KnownLabelsClassifier, "Tree": Tree}
    for module, names in _SKLEARN.items():  # constant names: nothing here comes from a file
        known |= {f"{module}.{name}": getattr(import_module(module), name) for name in names}
    return known


def take_warm_starts(model: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Removes what warm starts keep from a model and all its parts; returns where it was and what, to put it back."""
    taken, seen, waiting = [], set(), [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, (str, bytes, np.ndarray, type)):
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
        elif hasattr(part, "__dict__"):
            warm = {key: vars(part).pop(key) for key in list(vars(part)) if key.startswith(_LEFT_OUT)}
            if warm:
                taken.append((vars(part), warm))
            waiting += vars(part).values()
    return taken


# ---- to nodes -----------------------------------------------------------------------------------------------------------


def encode(value: Any, arrays: list[NDArray[Any]], where: str) -> Any:
    """The node of a value; arrays are put into `arrays`. `where` names the value in errors."""

    def inner(part: Any, name: Any) -> Any:
        return encode(part, arrays, f"{where}.{name}" if isinstance(name, str) else f"{where}[{name}]")

    if hasattr(type(value), "ordinary"):  # a machine for other collections: a file holds the one for arrays
        value = value.ordinary()
    name = next((known for known, cls in classes().items() if type(value) is cls), None)
    if name is not None:
        unsafe = _CHECKED[name](vars(value)) if name in _CHECKED else ""
        if unsafe:
            raise UnsavableError(f"{where} is a {type(value).__name__} with {unsafe}")
        return {"class": name, "state": {key: inner(part, key) for key, part in _state(value).items()}}
    if type(value) in (bool, int, str, type(None)):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is list:
        return [inner(part, k) for k, part in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": [inner(part, k) for k, part in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[inner(key, "keys"), inner(part, str(key))] for key, part in value.items()]}
    if isinstance(value, slice):
        return {"slice": [inner(part, "slice") for part in (value.start, value.stop, value.step)]}
    if isinstance(value, np.generic):
        return {"scalar": inner(np.asarray(value), "scalar")}
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, where)
    if sparse.issparse(value) and value.format == "csr":
        parts = [inner(part, "csr") for part in (value.data, value.indices, value.indptr)]
        return {"csr": parts, "shape": list(map(int, value.shape))}
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"type": np.dtype(value).str}
    if isinstance(value, np.random.RandomState):
        return {"random": [inner(part, "state") for part in value.get_state()]}
    raise UnsavableError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which a model file cannot hold")


def _state(value: Any) -> dict[str, Any]:
    if hasattr(value, "_asdict"):  # a NamedTuple
        return dict(value._asdict())
    if vars(value).get("memory") is not None:
        raise UnsavableError(
            f"memory={value.memory!r} of a {type(value).__name__} cannot be saved: such a cache holds pickles"
        )
    return {key: part for key, part in vars(value).items() if not key.startswith(_LEFT_OUT)}


def _encode_array(value: NDArray[Any], arrays: list[NDArray[Any]], where: str) -> Any:
    if value.dtype == object:
        flat = value.ravel().tolist()
        if not all(type(part) in _PLAIN for part in flat):
            kinds = sorted({type(part).__name__ for part in flat if type(part) not in _PLAIN})
            raise UnsavableError(f"{where} is an array of {', '.join(kinds)}: strings, numbers and None can be saved")
        return {"objects": [encode(part, arrays, where) for part in flat], "shape": list(value.shape)}
    if value.dtype.kind not in "biufUS":
        raise UnsavableError(f"{where} is an array of {value.dtype}: booleans, numbers and strings can be saved")
    value = np.asarray(value)
    if value.dtype.itemsize == 0:  # empty strings of no width, which no file may hold
        value = value.astype(f"{value.dtype.kind}1")
    arrays.append(value)
    return {"array": len(arrays) - 1}


# ---- from nodes ---------------------------------------------------------------------------------------------------------


def decode(node: Any, array: Callable[[Any], NDArray[Any]]) -> Any:
    """The value of a node; `array` gives the file's arrays by number."""
    if isinstance(node, _PLAIN):
        return node
    if isinstance(node, list):
        return [decode(part, array) for part in node]
    kind = next((key for key in _DECODERS if key in node), None)
    if kind is None:
        raise ModelFileError(
            f"the model file has an unknown entry {str(list(node))[:80]}: a later version may have written it"
        )
    return _DECODERS[kind](node, array)


def _objects(node: Any, array: Any) -> NDArray[Any]:
    flat = np.empty(len(node["objects"]), dtype=object)
    for k, part in enumerate(node["objects"]):
        flat[k] = decode(part, array)
    return flat.reshape(node["shape"])


def _csr(node: Any, array: Any) -> Any:
    data, indices, indptr = (decode(part, array) for part in node["csr"])
    X = sparse.csr_matrix((data, indices, indptr), shape=tuple(node["shape"]))
    check_csr(X)
    return X


def _random(node: Any, array: Any) -> np.random.RandomState:
    state = np.random.RandomState()
    state.set_state(tuple(decode(part, array) for part in node["random"]))
    return state


def _dtype(name: Any) -> np.dtype[Any]:
    dtype = np.dtype(str(name))
    if dtype.kind not in "biufUSO":
        raise ModelFileError(f"the model file names the type {dtype}")
    return dtype


# parameters that files of version 0.1 do not have, with what machines did then
_ADDED_LATER = {"on_interrupt": "raise", "probability": False, "scale": "power", "label_cost": None}


def _instance(node: Any, array: Any) -> Any:
    name, stored = node["class"], node["state"]
    if not isinstance(name, str) or not isinstance(stored, dict):
        raise ModelFileError("the model file is damaged: an object has no class name or no attributes")
    if name not in classes():
        raise ModelFileError(
            f"the model file names the class {name[:80]!r}, which is not among those that this version of polymargin loads"
        )
    cls = classes()[name]
    state = {key: decode(part, array) for key, part in stored.items() if not key.startswith(_LEFT_OUT)}
    if is_dataclass(cls) or issubclass(cls, tuple):
        return cls(**state)
    for key in state:
        if not key.isidentifier() or key.startswith("__") or inspect.isroutine(getattr(cls, key, None)):
            raise ModelFileError(f"the model file sets {key[:80]!r} of {name}, which is no fitted attribute")
    if state.get("memory") is not None:  # a folder of pickles, which the next fit would open
        raise ModelFileError(f"the model file sets memory={str(state['memory'])[:80]!r} of {name}, which is not trusted")
    parameters = inspect.signature(cls).parameters
    state |= {key: value for key, value in _ADDED_LATER.items() if key in parameters and key not in state}
    lacking = [key for key in parameters if key not in state]
    if lacking:
        raise ModelFileError(f"the model file has no {', '.join(lacking)} for {name}")
    unsafe = _CHECKED[name](state) if name in _CHECKED else ""
    if unsafe:
        raise ModelFileError(f"the model file has a {cls.__name__} whose parts do not fit together: {unsafe}")
    value = cls.__new__(cls)
    vars(value).update(state)
    return value


_DECODERS: dict[str, Callable[[Any, Any], Any]] = {
    "class": _instance,
    "array": lambda node, array: array(node["array"]),
    "objects": _objects,
    "csr": _csr,
    "scalar": lambda node, array: decode(node["scalar"], array)[()],
    "float": lambda node, array: float(node["float"]),
    "tuple": lambda node, array: tuple(decode(part, array) for part in node["tuple"]),
    "dict": lambda node, array: {decode(key, array): decode(part, array) for key, part in node["dict"]},
    "slice": lambda node, array: slice(*(decode(part, array) for part in node["slice"])),
    "dtype": lambda node, array: _dtype(node["dtype"]),
    "type": lambda node, array: _dtype(node["type"]).type,
    "random": _random,
}
