"""The condensed system of a quadratic penalty: a graph Laplacian on the classes, assembled with the last class grounded.

Its order is ``(c - 1)(min(n, d) + 1)``: a row adds ``M_i (x) x_i x_i'`` with ``M_i`` a graph Laplacian on the classes.
With class scales beta the penalty is ``sum_k ||w_k||^2 / (2 beta_k)``. On ``sum_k w_k / beta_k = 0``, where the optimum
lies, that is the Laplacian with edges ``1/(beta_k beta_l sum_j 1/beta_j)``, 1/c for all beta = 1. So the last class can be
grounded (w = 0, b = 0) and the solution shifted to ``sum_k w_k / beta_k = sum_k b_k = 0``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from polymargin.solvers.interior.blocks.row_terms import Edges
from polymargin.solvers.interior.systems.sorted_rows import SortedRows
from polymargin.solvers.linear import definite

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

CHUNK = 2**17  # scaled coordinates per update of the Newton matrix: they stay in cache


class LaplacianSystem:
    """Unknowns ``V (c, q)`` are W' and, with an intercept, b in the last column."""

    def __init__(self, rows: SortedRows):
        self._rows = rows

    def scores(self, V: Array) -> Array:
        """(c, n)."""
        return np.asarray(V @ self._rows.T)

    def sums(self, tau: Array) -> Array:
        """``sum_i tau_i x_i'``, (c, q)."""
        return np.asarray(tau @ self._rows.T.T)

    def factorise(self, edges: Edges) -> None:
        rows = self._rows
        back = definite(assemble(rows.T, rows.starts, edges, rows.n_penalised, rows.scales))
        if back is None:
            raise np.linalg.LinAlgError("the Newton matrix is not finite")
        self._back = back

    def solve(self, right: Array) -> Array:
        rows = self._rows
        V = np.zeros(right.shape)
        V[:-1] = self._back(right[:-1].ravel()).reshape(V[:-1].shape)
        shares = 1.0 / rows.scales
        penalised = V[:, : rows.n_penalised]
        penalised -= shares @ penalised / shares.sum()
        V[:, rows.n_penalised :] -= V[:, rows.n_penalised :].mean(axis=0)
        return V


def assemble(T: Array, starts: Labels, given: Edges, n_penalised: int, scales: Array | None = None) -> Array:
    """Newton matrix ``penalty + sum_i M_i (x) x_i x_i'`` with the last class grounded.

    All of it is a Laplacian on the classes, so the Gram matrices between two classes determine it.

    Parameters
    ----------
    T : (q, n) coordinates of the rows, sorted by class
    starts : (c + 1,) class k holds the rows ``starts[k]`` to ``starts[k + 1]``
    given : arrays (c, n) or None; row i has edges (k, l) of weight ``mesh[k, i] * mesh[l, i]``, less those of `minus`,
        and edges (y_i, l) of weight ``star[l, i]``
    n_penalised : the first so many coordinates carry the penalty, the others are intercepts
    scales : (c,) class scales beta of the penalty, None for 1

    Returns
    -------
    ((c - 1) q, (c - 1) q) array, class-major; only the lower triangle is valid
    """
    (q, n), c = T.shape, starts.size - 1
    edges = np.zeros((c * q, c * q))
    grams = edges.reshape(c, q, c, q)  # of classes k > l: grams[k, :, l]
    chunk = max(128, CHUNK // (c * q))
    for sign, mesh in ((1.0, given.mesh), (-1.0, given.minus)):
        if mesh is not None:
            for i in range(0, n, chunk):
                scaled = (mesh[:, None, i : i + chunk] * T[:, i : i + chunk]).reshape(c * q, -1)
                dsyrk(sign, scaled.T, trans=1, beta=1.0, c=edges.T, overwrite_c=1, lower=0)
    star = given.star
    if star is not None:
        for k in range(c):
            for i in range(starts[k], starts[k + 1], chunk):
                x = T[:, i : min(i + chunk, starts[k + 1])]
                scaled = (star[:, None, i : i + x.shape[1]] * x).reshape(c * q, -1)
                gram = (scaled @ x.T).reshape(c, q, q)
                grams[k + 1 :, :, k] += gram[k + 1 :]
                grams[k, :, :k] += gram[:k].transpose(1, 0, 2)
    H = -edges[:-q, :-q]
    laplacian = H.reshape(c - 1, q, c - 1, q)
    for k in range(c - 1):  # the rows of a Laplacian sum to zero
        laplacian[k, :, k] = grams[k, :, :k].sum(axis=1) + grams[k + 1 :, :, k].sum(axis=0)
    penalty = np.einsum("kjlj->klj", laplacian)[:, :, :n_penalised]
    shares = np.ones(c) if scales is None else 1.0 / scales
    penalty -= (np.outer(shares, shares) / shares.sum())[:-1, :-1, None]
    np.einsum("kkj->kj", penalty)[:] += shares[:-1, None]
    return H
