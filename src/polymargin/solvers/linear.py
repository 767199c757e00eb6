"""Linear systems of Newton methods: a factorisation that survives rounding, an iteration for matrices that are not made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

Array = NDArray[np.float64]
Apply = Callable[[Array], Array]

_FIRST_RIDGE, _LARGER = 1e-14, 100.0


def definite(H: Array, *, with_ridge: bool = True) -> Apply | None:
    """Solves systems of a positive definite matrix, of which the lower triangle is read.

    Where rounding made it indefinite a ridge relative to the diagonal is added to it; None if that does not help either, or
    must not be tried.
    """
    if not H.size:  # no unknowns: LAPACK has no answer to that
        return np.copy
    diagonal, ridge = H.diagonal().copy(), 0.0
    while ridge < 1.0:
        factor, failed = dpotrf(H.T, lower=0, clean=0)
        if not failed:
            return lambda right: np.asarray(dpotrs(factor, right, lower=0)[0])
        ridge = max(_LARGER * ridge, _FIRST_RIDGE) if with_ridge else np.inf
        np.fill_diagonal(H, diagonal * (1.0 + ridge) if with_ridge else diagonal)
    return None


def conjugate_gradients(product: Apply, precondition: Apply, right: Array, tol: float, max_iter: int) -> Array:
    """x with ``product(x) = right``, about: the preconditioned residual falls to `tol` of what it was at first."""
    x, r = np.zeros_like(right), right.copy()
    p = z = precondition(r)
    rz = float(np.vdot(r, z))
    enough = tol * tol * rz
    for _ in range(max_iter):
        image = product(p)
        curvature = float(np.vdot(p, image))
        if not curvature > 0.0:
            break
        step = rz / curvature
        x += step * p
        r -= step * image
        z = precondition(r)
        rz, before = float(np.vdot(r, z)), rz
        if rz <= enough:
            break
        p = z + (rz / before) * p
    return x
