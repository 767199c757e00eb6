"""MNIST digits: 60,000 x 784, CSR (80 % zeros), 10 classes, pixels divided by 255."""

from scipy import sparse

from . import base

NAME = "mnist"


def real() -> base.Data:
    X, y, n_train = base.read(NAME)
    return base.split(NAME, sparse.csr_matrix(X / 255.0), y, n_train)


def stand_in() -> base.Data:
    return base.blobs(NAME, 25_000, 200, 10, spread=2.0, zeros=0.8)
