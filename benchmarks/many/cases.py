"""Rows with many classes or labels: three data sets, and a synthetic series whose classes follow Zipf's law."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from ..datasets.base import data_directory

SERIES = (100, 1_000, 10_000, 100_000)
EQUAL_ROWS = (100, 1_000, 10_000)  # classes, with as many rows each as the last of them has in the series above
NAMES = ("wordnet", "bibtex_ml", "delicious_ml", *(f"zipf:{c}" for c in SERIES), *(f"zipf-rows:{c}" for c in EQUAL_ROWS))
QUICK = ("zipf:100",)

_WORDS, _OWN, _NOISE = 5_000, 8, 4  # of the vocabulary, of a class, and of a row beside its class


class Split(NamedTuple):
    """Training and test rows; y is one class a row, or a sparse label matrix."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any

    @property
    def has_labels(self) -> bool:
        return sparse.issparse(self.y)

    @property
    def n_labels(self) -> int:
        return int(self.y.shape[1]) if self.has_labels else int(max(self.y.max(), self.y_test.max())) + 1

    def label_matrix(self, y: Any) -> Any:
        """One class a row as a label matrix."""
        if sparse.issparse(y):
            return y
        return sparse.csr_matrix((np.ones(len(y)), y, np.arange(len(y) + 1)), shape=(len(y), self.n_labels))


def load(name: str) -> Split:
    kind, _, size = name.partition(":")
    if kind == "zipf-rows":
        return zipf(int(size), n_train=_rows(EQUAL_ROWS[-1]))
    return zipf(int(size)) if kind == "zipf" else stored(name)


def _rows(n_classes: int) -> int:
    return round(200 * math.sqrt(n_classes))


def stored(name: str) -> Split:
    """A data set of `$POLYMARGIN_DATA`, split as its source splits it."""
    path = data_directory() / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"many: there is no {path.name}; set POLYMARGIN_DATA")
    with np.load(path) as file:
        arrays = dict(file)
    entries = arrays["data"].astype(np.float32), arrays["indices"], arrays["indptr"]
    X = normalize(sparse.csr_matrix(entries, shape=tuple(arrays["shape"])))  # as omikuji and napkinXC do by themselves
    n, y = int(arrays["n_train"]), arrays["y"]
    if y.ndim == 2:
        y = sparse.csr_matrix(y, dtype=np.int64)  # of int8, OneVsRestClassifier makes machines that are wrong
    return Split(X[:n], y[:n], X[n:], y[n:])


def zipf(n_classes: int, seed: int = 0, n_train: int | None = None) -> Split:
    """200 sqrt(c) rows to train, or as many as are said, and a fifth of that to test; class k has a share of about 1/k.

    A class has its own words, some of them frequent ones that it shares with others; a row has half of them and some noise.
    """
    rng = np.random.default_rng(seed)
    n_train = n_train or _rows(n_classes)
    n = n_train + n_train // 5
    share = 1.0 / np.arange(1, n_classes + 1)
    y = np.searchsorted(np.cumsum(share) / share.sum(), rng.random(n)).clip(0, n_classes - 1)
    y = np.unique(y, return_inverse=True)[1]  # classes that no row has are not there
    frequency = 1.0 / np.arange(1, _WORDS + 1)
    cumulated = np.cumsum(frequency) / frequency.sum()
    own = np.searchsorted(cumulated, rng.random((n_classes, _OWN)) ** 0.5)
    words = own[y]
    words = np.where(rng.random(words.shape) < 0.5, words, -1)
    noise = np.searchsorted(cumulated, rng.random((n, _NOISE)))
    words = np.concatenate([words, noise], axis=1)
    rows = np.repeat(np.arange(n), words.shape[1])[words.ravel() >= 0]
    columns = words.ravel()[words.ravel() >= 0].clip(0, _WORDS - 1)
    X = sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(n, _WORDS))
    idf = np.log(n / np.maximum(1, np.bincount(X.indices, minlength=_WORDS))).astype(np.float32)
    X.data = idf[X.indices] * (1.0 + np.log(X.data))
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(X.indptr)).astype(np.float32)
    X, y = sparse.csr_matrix(X), y.astype(np.int64)
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])
