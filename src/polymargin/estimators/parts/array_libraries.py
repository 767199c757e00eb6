"""Rows of other array libraries: PyTorch's tensors, and whatever speaks DLPack.

Everything is computed on the host, in NumPy. Where scikit-learn's `array_api_dispatch` is on, answers come back in the
library and on the device of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn import config_context, get_config

Method = TypeVar("Method", bound=Callable[..., Any])


def is_foreign(X: Any) -> bool:
    """Whether this is an array of another library, not NumPy's, and no table."""
    return hasattr(X, "__dlpack__") and hasattr(X, "shape") and not isinstance(X, np.ndarray) and not hasattr(X, "columns")


def on_host(X: Any) -> Any:
    """An array of another library as NumPy's: the same memory, or a copy from its device. Anything else as it is."""
    if not is_foreign(X):
        return X
    for step in ("detach", "cpu"):  # PyTorch: what is part of a gradient, or on a device, is not handed out
        X = getattr(X, step, lambda X=X: X)()
    try:
        return np.from_dlpack(X)
    except (BufferError, RuntimeError, TypeError) as error:  # bfloat16, which NumPy does not know
        if hasattr(X, "float"):
            return np.from_dlpack(X.float())
        raise TypeError(f"NumPy does not take an array of {X.dtype!r} ({error}); make it float32 first.") from error


def any_arrays(method: Method) -> Method:
    """A method of rows that takes arrays of any library, and answers in kind where scikit-learn dispatches."""

    @wraps(method)
    def taking_any(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = args[0] if args else kwargs.get("X")
        dispatches = get_config()["array_api_dispatch"]
        if not dispatches and not is_foreign(rows):
            return method(self, *args, **kwargs)
        given = [on_host(value) for value in args], {name: on_host(value) for name, value in kwargs.items()}
        with config_context(array_api_dispatch=False):
            found = method(self, *given[0], **given[1])
        return _like(rows, found) if dispatches and is_foreign(rows) else found

    return taking_any  # type: ignore[return-value]


def _like(rows: Any, found: Any) -> Any:
    """NumPy's numbers as an array of the rows' library; what it cannot hold (texts, sparse matrices) stays."""
    if isinstance(found, tuple):  # scores and classes of the best
        return type(found)(*(_like(rows, part) for part in found))
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf":
        return found
    from sklearn.utils._array_api import get_namespace_and_device

    namespace, _, device = get_namespace_and_device(rows)
    return namespace.asarray(np.array(found), device=device)
