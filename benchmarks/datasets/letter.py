"""UCI letter recognition: 16,000 x 16, dense, 26 classes, columns in [0, 1]."""

from . import base

NAME = "letter"


def real() -> base.Data:
    return base.scaled_dense(NAME)


def stand_in() -> base.Data:
    return base.blobs(NAME, 20_000, 16, 26, spread=1.0)
