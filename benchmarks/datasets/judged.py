"""Data that probabilities are judged on, by their own split or by random ones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits

from . import load
from .base import Data, blobs, read, split

SPLITS = 10  # of digits, which has none of its own


class Splits(NamedTuple):
    """Training and test rows by number, and how many such splits there are."""

    of: Callable[[int], Data]
    n: int


def digits(seed: int) -> Data:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return split("digits", X[order] / 16.0, y[order].astype(np.int64), 1200)


def banking77() -> Data:
    try:
        X, y, n_train = read("banking77_emb")
    except FileNotFoundError:
        return blobs("banking77", 4000, 60, 30, spread=2.0)
    return split("banking77", X.astype(np.float32), y, n_train)


def mnist() -> Data:
    """A tenth of the training rows."""
    data = load("mnist")
    rows = np.random.default_rng(0).permutation(len(data.y))[: len(data.y) // 10]
    return Data("mnist", data.X[rows], data.y[rows], data.X_test, data.y_test, data.stand_in)


def resplit(data: Data, seed: int) -> Data:
    """All its rows, as many of them for training, drawn at random."""
    X = sparse.vstack([data.X, data.X_test], format="csr") if sparse.issparse(data.X) else np.vstack([data.X, data.X_test])
    y, n = np.append(data.y, data.y_test), len(data.y)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n:]
    return Data(data.name, X[train], y[train], X[test], y[test], data.stand_in)


OWN_SPLIT: dict[str, Callable[[], Data]] = {
    "banking77": banking77,
    "news20": lambda: load("news20"),
    "letter": lambda: load("letter"),
    "mnist": mnist,
}
NAMES = ("digits", *OWN_SPLIT)
QUICK = {"digits": Splits(digits, 2), "blobs": Splits(lambda seed: load("blobs"), 1)}


def splits(name: str, n_random: int = 0) -> Splits:
    """Its own split, or so many random ones."""
    if name == "digits":
        return Splits(digits, SPLITS)
    data = OWN_SPLIT[name]()
    return Splits(lambda seed: resplit(data, seed + 1), n_random) if n_random else Splits(lambda seed: data, 1)
