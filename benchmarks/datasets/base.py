"""What a data set is, where its file lies, how columns are scaled, and the seeded makers of stand-ins."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

Matrix = Any  # np.ndarray or scipy.sparse.csr_matrix


@dataclass(frozen=True)
class Case:
    """One problem of the benchmark: a data set and a C."""

    data: str
    C: float

    @property
    def key(self) -> str:
        return f"{self.data}:{self.C:g}"


@dataclass
class Data:
    """Training and test rows in float64; y holds 0..c-1; `stand_in` says that this is not the data named."""

    name: str
    X: Matrix
    y: np.ndarray
    X_test: Matrix
    y_test: np.ndarray
    stand_in: bool = False

    def __post_init__(self) -> None:
        # Rivals order their coefficient rows by sorted class: that is our order only if none is missing.
        if not np.array_equal(np.unique(self.y), np.arange(self.n_classes)):
            raise ValueError(f"{self.name}: some class has no training row")

    @property
    def n_classes(self) -> int:
        return int(max(self.y.max(), self.y_test.max())) + 1

    @cached_property
    def digest(self) -> str:
        """Names the training rows: best known duals are kept under it."""
        X = self.X
        arrays = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        h = hashlib.blake2b(digest_size=8)
        for a in (*arrays, self.y):
            h.update(repr((a.shape, a.dtype.str)).encode())
            h.update(np.ascontiguousarray(a).data)
        return h.hexdigest()

    def describe(self) -> str:
        kind = f"CSR, {self.X.nnz} stored" if sparse.issparse(self.X) else "dense"
        n, d = self.X.shape
        return f"{n} x {d}, {self.n_classes} classes, {kind}"


class Source(NamedTuple):
    """Where a data set comes from: its file, or what stands in for it."""

    real: Callable[[], Data]
    stand_in: Callable[[], Data]


def data_directory() -> Path:
    """$POLYMARGIN_DATA, or `../shared/data` beside the project's root."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("POLYMARGIN_DATA", default))


def read(name: str) -> tuple[Matrix, np.ndarray, int]:
    """X (float64), y and the number of official training rows (they come first, -1: no split) of `name`.npz."""
    with np.load(data_directory() / f"{name}.npz") as z:
        y, n_train = z["y"].astype(np.int64), int(z["n_train"])
        if "X" in z:
            return z["X"].astype(np.float64), y, n_train
        X = sparse.csr_matrix(
            (z["data"].astype(np.float64), z["indices"], z["indptr"]), shape=tuple(z["shape"])
        )
    return X, y, n_train


def split(name: str, X: Matrix, y: np.ndarray, n_train: int, stand_in: bool = False) -> Data:
    """Cut into official training and test rows; without an official split four fifths are training rows, by a seed.

    The first row of every class is one of them.
    """
    if n_train < 0:
        order = np.random.default_rng(0).permutation(len(y))
        _, first = np.unique(y[order], return_index=True)
        order = np.concatenate([order[first], np.delete(order, first)])
        X, y, n_train = X[order], y[order], (4 * len(y)) // 5
    return Data(name, X[:n_train], y[:n_train], X[n_train:], y[n_train:], stand_in)


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1; constant ones become 0."""
    deviation = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def scaled_dense(name: str) -> Data:
    """A dense data set with columns scaled to [0, 1] by the range of the training rows."""
    data = split(name, *read(name))
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    data.X, data.X_test = ((X - low) / width for X in (data.X, data.X_test))
    return data


def blobs(name: str, n: int, d: int, c: int, *, spread: float, zeros: float = 0.0, seed: int = 0) -> Data:
    """Stand-in: overlapping Gaussian classes in [0, 1]; with a share `zeros` > 0 of zeros, CSR."""
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    X = rng.standard_normal((c, d))[y] + spread * rng.standard_normal((n, d))
    if zeros:
        X = np.maximum(X - np.quantile(X, zeros), 0.0)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return split(name, sparse.csr_matrix(X) if zeros else X, y, (4 * n) // 5, stand_in=True)


def text(name: str, n: int, d: int, c: int, *, words: int = 100, topical: float = 0.1, seed: int = 0) -> Data:
    """Stand-in: rows of word counts, log-scaled and normed as tf-idf rows are.

    Words follow Zipf's law; a share `topical` of a row's comes from its class's own shuffle of all words.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    own = np.stack([rng.permutation(d) for _ in range(c)])
    cdf = np.cumsum(1.0 / np.arange(10.0, d + 10.0))
    word = np.searchsorted(cdf, rng.random((n, words)) * cdf[-1])
    word = np.where(rng.random((n, words)) < topical, own[y[:, None], word], word)
    rows = np.repeat(np.arange(n), words)
    counts = sparse.csr_matrix((np.ones(n * words), (rows, word.ravel())), shape=(n, d))
    counts.sum_duplicates()
    document_frequency = np.bincount(counts.indices, minlength=d)
    counts.data = (1.0 + np.log(counts.data)) * np.log((1.0 + n) / (1.0 + document_frequency))[counts.indices]
    norms = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    counts.data /= np.repeat(np.maximum(norms, 1e-300), np.diff(counts.indptr))
    return split(name, counts, y, (4 * n) // 5, stand_in=True)


def digits(name: str) -> Data:
    """Scikit-learn's digits, 8 x 8 pixels scaled to [0, 1]; under another name a stand-in."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return split(name, X / 16.0, y.astype(np.int64), 1400, stand_in=name != "digits")
