"""scikit-learn's SVC in model files: what its arrays must look like before a prediction hands them to libsvm.

libsvm reads as many numbers as the counts say and looks at no length. So a file may set a fitted SVC only if every length
follows from the number of classes and support vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

_KERNELS = ("linear", "poly", "rbf", "sigmoid")


def unsafe_part(state: Mapping[str, Any]) -> str:
    """What is wrong with the attributes of an SVC; empty if a prediction can be left to libsvm."""
    if not isinstance(state.get("kernel"), str) or state["kernel"] not in _KERNELS:
        return f"kernel={str(state.get('kernel'))[:40]!r}, one of {', '.join(_KERNELS)} can be kept in a file"
    if state.get("probability") not in (False, "deprecated") or state.get("_effective_probability", False):
        return "probability=True, which model files do not hold; CalibratedClassifierCV gives probabilities as well"
    overridden = [name for name in ("_impl", "_sparse_kernels") if name in state]
    if overridden:
        return f"{overridden[0]}, which is no fitted attribute"
    if "support_vectors_" not in state:  # not fitted: it cannot predict either
        return ""
    return _wrong_length(state)


def _wrong_length(state: Mapping[str, Any]) -> str:
    counts: Any = state.get("_n_support")
    vectors = state["support_vectors_"]
    n_classes = np.size(state.get("classes_", ()))
    if n_classes < 2 or not _is_array(counts, (n_classes,), "i") or counts.min() < 0:
        return "the numbers of support vectors"
    n_vectors, n_pairs = int(counts.sum()), n_classes * (n_classes - 1) // 2
    shape = (n_vectors, state.get("n_features_in_"))
    is_sparse = sparse.issparse(vectors)
    if state.get("_sparse") is not is_sparse or not (vectors.shape == shape if is_sparse else _is_array(vectors, shape)):
        return "the support vectors"
    for name in ("dual_coef_", "_dual_coef_"):
        values: Any = state.get(name)
        if sparse.issparse(values):  # libsvm takes the stored entries for the whole matrix
            values = values.data.reshape(-1, n_vectors) if values.data.size == (n_classes - 1) * n_vectors else None
        if not _is_array(values, (n_classes - 1, n_vectors)):
            return f"{name}"
    lengths = {"support_": n_vectors, "intercept_": n_pairs, "_intercept_": n_pairs, "_probA": 0, "_probB": 0}
    lengths["class_weight_"] = n_classes
    wrong = [name for name, n in lengths.items() if not _is_array(state.get(name), (n,), "i" if name == "support_" else "f")]
    return wrong[0] if wrong else ""


def _is_array(value: Any, shape: tuple[Any, ...], kind: str = "f") -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape and value.dtype == ("int32" if kind == "i" else "float64")
