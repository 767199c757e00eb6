"""Checks of parameters and targets whose errors name the argument, the value and what would work."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import assert_all_finite

KERNELS = ("linear", "rbf", "poly", "sigmoid", "laplacian", "precomputed")
_NO_LIMIT = 1_000_000  # epochs that no fit gets to: what crawls is handed to other methods long before
_LARGEST = 1e75  # squares of larger entries overflow when they are summed and multiplied by C


def positive(name: str, value: Any, hint: str) -> float:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r} is not valid: {name} must be a finite number greater than 0 ({hint}).")
    return float(value)


def weight_of_loss(C: Any) -> float:
    """A number above zero; infinity is a hard margin."""
    if isinstance(C, Real) and float(C) == np.inf:
        return np.inf
    return positive("C", C, "try 0.01, 1 or 100; np.inf is a hard margin")


def not_negative(name: str, value: Any, hint: str) -> float:
    """A finite number, 0 or above."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name}={value!r} is not valid: {name} must be a finite number of at least 0 ({hint}).")
    return float(value)


def whole(name: str, value: Any, least: int, hint: str) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r} is not valid: {name} must be an integer of at least {least} ({hint}).")
    return int(value)


def iterations(max_iter: Any) -> int:
    """The limit that ``max_iter`` stands for: -1 is none, as in scikit-learn's SVC."""
    if isinstance(max_iter, Integral) and not isinstance(max_iter, bool) and max_iter == -1:
        return _NO_LIMIT
    return whole("max_iter", max_iter, 1, "epochs; -1 for no limit")


def flag(name: str, value: Any, word: str | None = None) -> bool:
    """True or False, or a word that says how, if there is one."""
    if isinstance(value, (bool, np.bool_)) or (word is not None and isinstance(value, str) and value == word):
        return bool(value)
    choices = "True or False" if word is None else f"True, False or {word!r}"
    raise ValueError(f"{name}={value!r} is not valid: {name} must be {choices}.")


def number(name: str, value: Any, hint: str = "") -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise ValueError(f"{name}={value!r} is not valid: {name} must be a finite number{hint and f' ({hint})'}.")
    return float(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r} is not valid: use {' or '.join(map(repr, choices))}.")
    return value


def seed_of(random_state: Any) -> int:
    """A seed for the native generator, drawn from ``random_state``. None is one seed: default fits can be repeated."""
    if random_state is None:
        return 0
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state={random_state!r} is not valid: use None, an integer of at least 0 or a numpy RandomState."
        ) from error


def thread_count(n_jobs: Any) -> int:
    """Threads for ``n_jobs``: None means 1, -1 all processors, -2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs={n_jobs!r} is not valid: n_jobs must be None, a positive integer, or -1 for all processors."
        )
    count = int(n_jobs)
    return count if count > 0 else max(1, (os.cpu_count() or 1) + 1 + count)


def class_weights(
    class_weight: Any, classes: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[Any]
) -> NDArray[np.float64]:
    """One weight per class, from None, "balanced" or a dictionary with class labels as keys."""
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, Mapping) and class_weight != "balanced":
        raise ValueError(
            f"class_weight={class_weight!r} is not valid: use None, 'balanced' or a dict {{class: weight}}."
        )
    if isinstance(class_weight, str):
        # "balanced" counts a row of weight 2 as two rows
        counts = np.bincount(np.searchsorted(classes, y), weights=sample_weight, minlength=len(classes))
        return np.asarray(counts.sum() / (len(classes) * counts))
    known = set(classes.tolist())
    unknown = [key for key in class_weight if key not in known]
    if unknown:
        raise ValueError(f"class_weight names {unknown!r}, but the classes in y are {classes.tolist()!r}.")
    for key, weight in class_weight.items():
        positive(f"class_weight[{key!r}]", weight, "leave a class's rows out to ignore it")
    return np.asarray(compute_class_weight(dict(class_weight), classes=classes, y=y), dtype=np.float64)


def sample_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    """Non-negative, finite weights, one per row."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, float(sample_weight))
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("sample_weight must hold numbers, one per row of X.") from error
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar: sample_weight has shape {weights.shape}.")
    if len(weights) != n_rows:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one weight per row of X.")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity; weights must be finite numbers >= 0.")
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight contains negative values (the lowest is {weights.min():g}); weights must be >= 0."
        )
    if not (weights > 0).any():
        raise ValueError("sample_weight is zero for every row; at least two classes need rows of positive weight.")
    return weights


def check_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any, n_components: Any) -> None:
    """Kernel and its parameters."""
    if not callable(kernel) and kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r} is not valid: use one of {', '.join(map(repr, KERNELS))}, or a callable.")
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"gamma={gamma!r} is not valid: use 'scale', 'auto' or a number greater than 0.")
    else:
        positive("gamma", gamma, "or 'scale' or 'auto'")
    whole("degree", degree, 0, "of the polynomial kernel")
    number("coef0", coef0)
    if n_components is not None:
        whole("n_components", n_components, 1, "or None")


def check_csr(X: Any) -> None:
    """The native loops trust the index arrays: what scipy does not check is checked here, in one pass."""
    n_rows, n_features = X.shape
    starts = X.indptr
    stored = len(X.indices)
    sound = len(starts) == n_rows + 1 and starts[0] == 0 and starts[-1] <= stored and len(X.data) >= starts[-1]
    sound = sound and bool((starts[1:] >= starts[:-1]).all())
    if not sound:
        raise ValueError("X is a damaged sparse matrix: its indptr must start at 0 and not fall.")
    if stored and (X.indices.min() < 0 or X.indices.max() >= n_features):
        raise ValueError(
            f"X is a damaged sparse matrix: it has column indices from {X.indices.min()} to {X.indices.max()}, but "
            f"{n_features} columns."
        )


@contextmanager
def naming_text_columns(X: Any) -> Iterator[None]:
    """Completes scikit-learn's "could not convert string to float" with the columns and with what would work."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        if not hasattr(X, "columns"):
            raise ValueError(
                f"X holds text ({error}), and rows are numbers: encode categories first, e.g. with "
                "sklearn.preprocessing.OneHotEncoder, and texts with sklearn.feature_extraction.text.TfidfVectorizer; a "
                "kernel of texts goes in as kernel='precomputed' with the matrix of its values."
            ) from error
        text = [name for name in X.columns if any(isinstance(value, str) for value in X[name])]
        raise ValueError(
            f"X has text in the columns {text!r} ({error}); encode them first, e.g. with "
            "sklearn.preprocessing.OneHotEncoder, or leave them out."
        ) from error


def largest_entry(X: Any) -> float:
    """The largest absolute value in X, dense or sparse, without a temporary array."""
    values = X.data if sparse.issparse(X) else X
    return max(abs(float(values.max())), abs(float(values.min()))) if values.size else 0.0


def check_magnitude(X: Any, name: str | None = None) -> float:
    """The largest absolute value in X. NaN, and entries so large that their squares overflow, cannot be fitted.

    `name` is that of the estimator.
    """
    largest = largest_entry(X)
    if not np.isfinite(largest):
        assert_all_finite(X, estimator_name=name, input_name="X")
    if not largest <= _LARGEST:
        raise ValueError(
            f"X has entries as large as {largest:.3g}, whose squares overflow; scale the columns first, e.g. with "
            "sklearn.preprocessing.StandardScaler."
        )
    return largest


# ---- what needs no check ----------------------------------------------------------------------------------------------


def are_plain(X: Any, y: Any) -> bool:
    """Whether scikit-learn's checks of rows and classes would change nothing, and find nothing but NaN or infinity.

    Rows are a C-ordered array or a CSR matrix of float32 or float64, classes integers, one a row. `check_magnitude` finds
    the rest.
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "iu" or not y.dtype.isnative:
        return False
    if type(X) in (sparse.csr_matrix, sparse.csr_array):
        values = X.data
    elif type(X) is np.ndarray and X.flags.c_contiguous and X.flags.aligned:
        values = X
    else:
        return False
    return X.ndim == 2 and min(X.shape) >= 1 and X.shape[0] == len(y) and values.dtype in (np.float64, np.float32)


def counted_classes(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]] | None:
    """The classes of y and each row's index among them, counted where they are integers in a small range; else None.

    None also where scikit-learn has something to say of them: if more than half of all rows have a class of their own.
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
        return None
    low, high = int(y.min()), int(y.max())
    if high - low > 4 * len(y) or high > np.iinfo(np.int64).max:
        return None
    places = y.astype(np.int64) - low
    present = np.bincount(places) > 0
    classes = (np.flatnonzero(present) + low).astype(y.dtype)
    return None if 2 * len(classes) > len(y) else (classes, (np.cumsum(present) - 1)[places])


# ---- label matrices ---------------------------------------------------------------------------------------------------


def is_label_matrix(y: Any) -> bool:
    """Whether y is two-dimensional with more than one column; a single column is a 1-d y."""
    if not hasattr(y, "shape"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = np.asarray(y)
        except ValueError:  # ragged: scikit-learn says so
            return False
    return len(y.shape) == 2 and int(y.shape[1]) > 1


def as_signed(Y: Any) -> sparse.csr_array:
    """The label matrix as CSR of int8 without stored zeros; other values than -1, 0 and 1 are refused."""
    if not sparse.issparse(Y):
        return _signed_of_dense(np.asarray(Y))
    table = sparse.csr_array(Y)
    _check_signs(table.data)
    table = table.astype(np.int8)
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


def _signed_of_dense(Y: NDArray[Any]) -> sparse.csr_array:
    if Y.dtype.kind not in "biuf":
        try:
            Y = Y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError("Unknown label type: a label matrix y must hold the numbers -1, 0 and 1 only.") from error
    rows, labels = np.nonzero(Y)
    signs = Y[rows, labels]
    _check_signs(signs)
    starts = np.searchsorted(rows, np.arange(len(Y) + 1))
    return sparse.csr_array((signs.astype(np.int8), labels, starts), shape=Y.shape)


def _check_signs(values: NDArray[Any]) -> None:
    is_strange = (values != 1) & (values != 0) & (values != -1)
    if is_strange.any():
        strange = np.unique(values[is_strange])
        raise ValueError(
            f"Unknown label type: y holds {strange[:5].tolist()!r}, but a label matrix may hold 1 (has the label), 0 "
            "(unknown) and -1 (known not to have it) only."
        )
