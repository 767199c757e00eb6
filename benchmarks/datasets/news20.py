"""20 newsgroups by date, tf-idf: 11,314 x 56,436, CSR, 20 classes."""

from . import base

NAME = "news20"


def real() -> base.Data:
    X, y, n_train = base.read(NAME)
    return base.split(NAME, X, y, n_train)


def stand_in() -> base.Data:
    return base.text(NAME, 10_000, 40_000, 20, words=150)
