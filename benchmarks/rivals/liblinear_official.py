"""LIBLINEAR's own Python package (`liblinear-official`), solver -s 4; converting the data counts."""

from typing import Any

import numpy as np

from .base import Coefficients, Rival, ladder


def fit(X: Any, y: np.ndarray, C: float, tol: float) -> Any:
    from liblinear.liblinearutil import train

    return train(y.astype(np.float64), X, f"-s 4 -c {C!r} -e {tol!r} -q")


def coefficients(model: Any) -> Coefficients:
    c, d = model.get_nr_class(), model.get_nr_feature()
    W = np.ctypeslib.as_array(model.w, shape=(d, c)).T
    # LIBLINEAR numbers the classes in order of appearance.
    order = np.argsort(model.get_labels())
    return np.ascontiguousarray(W[order]), np.zeros(c)


RIVAL = Rival("liblinear-official", "liblinear.liblinearutil", "cs", ladder(1.0, 1e-6), fit, coefficients)
