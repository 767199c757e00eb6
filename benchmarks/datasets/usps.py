"""USPS digits: 7,291 x 256, dense, 10 classes, columns in [0, 1]."""

from . import base

NAME = "usps"


def real() -> base.Data:
    return base.scaled_dense(NAME)


def stand_in() -> base.Data:
    return base.digits(NAME)
