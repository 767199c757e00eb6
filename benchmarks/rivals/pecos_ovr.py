"""PECOS, one-versus-rest hinge machines (`libpecos`), one thread, float32.

Another problem: its numbers are a time and an accuracy at its default tolerance, never a relP.
"""

from typing import Any

import numpy as np
from scipy import sparse

from .base import Coefficients, Rival


def fit(X: Any, y: np.ndarray, C: float, tol: float) -> Any:
    from pecos.xmc import MLModel, MLProblem

    n, c = len(y), int(y.max()) + 1
    Y = sparse.csc_matrix((np.ones(n, np.float32), (np.arange(n), y)), shape=(n, c))
    X = X.astype(np.float32)
    # threshold=0 keeps every weight, bias=-1 means no intercept.
    return MLModel.train(
        MLProblem(X, Y),
        solver_type="L2R_L1LOSS_SVC_DUAL",
        Cp=C,
        Cn=C,
        eps=tol,
        bias=-1.0,
        threshold=0.0,
        threads=1,
    )


def coefficients(model: Any) -> Coefficients:
    W = np.asarray(model.W.todense() if sparse.issparse(model.W) else model.W, dtype=np.float64).T
    return W, np.zeros(len(W))


RIVAL = Rival("pecos-ovr", "pecos.xmc", None, (0.1,), fit, coefficients)
