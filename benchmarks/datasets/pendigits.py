"""UCI pen-based digits: 7,494 x 16, dense, 10 classes, columns in [0, 1]."""

from . import base

NAME = "pendigits"


def real() -> base.Data:
    return base.scaled_dense(NAME)


def stand_in() -> base.Data:
    return base.blobs(NAME, 9_000, 16, 10, spread=0.6)
