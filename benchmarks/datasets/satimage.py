"""Statlog satellite image: 4,435 x 36, dense, 6 classes, columns in [0, 1]."""

from . import base

NAME = "satimage"


def real() -> base.Data:
    return base.scaled_dense(NAME)


def stand_in() -> base.Data:
    return base.blobs(NAME, 5_500, 36, 6, spread=1.5)
