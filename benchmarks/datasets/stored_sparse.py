"""Sparse data sets: texts, images with many zeros, one-hot columns."""

from functools import partial

import numpy as np
from scipy import sparse

from . import base


def as_stored(name: str) -> base.Data:
    return base.split(name, *base.read(name))


def pixels(name: str) -> base.Data:
    """Images, divided by 255, in CSR."""
    X, y, n_train = base.read(name)
    return base.split(name, sparse.csr_matrix(X / 255.0), y, n_train)


def first_label(name: str) -> base.Data:
    """The lowest label of each row as its class; rows without labels leave, as do test rows of classes never trained on."""
    X, labels, n_train = base.read(name)
    y = labels.argmax(axis=1)
    train = np.arange(len(y)) < n_train
    classes, has_label = np.unique(y[train & labels.any(axis=1)]), labels.any(axis=1)
    kept = has_label & np.isin(y, classes)
    return base.split(name, X[kept], np.searchsorted(classes, y[kept]), int((kept & train).sum()))


SETS: dict[str, base.Source] = {
    "news20": base.Source(partial(as_stored, "news20"), partial(base.text, "news20", 10_000, 40_000, 20, words=150)),
    "mnist": base.Source(partial(pixels, "mnist"), partial(base.blobs, "mnist", 25_000, 200, 10, spread=2.0, zeros=0.8)),
    "fashion_mnist": base.Source(
        partial(pixels, "fashion_mnist"), partial(base.blobs, "fashion_mnist", 25_000, 200, 10, spread=3.0, zeros=0.5)
    ),
    "connect4": base.Source(
        partial(as_stored, "connect4"), partial(base.blobs, "connect4", 50_000, 126, 3, spread=8.0, zeros=0.66)
    ),
    "cornell": base.Source(partial(as_stored, "cornell"), partial(base.text, "cornell", 827, 4_134, 7, words=90)),
    "bibtex_ml": base.Source(
        partial(first_label, "bibtex_ml"), partial(base.text, "bibtex_ml", 7_000, 1_836, 100, words=68)
    ),
    "wordnet": base.Source(
        partial(as_stored, "wordnet"), partial(base.text, "wordnet", 20_000, 10_000, 1_000, words=8, topical=0.5)
    ),
}
