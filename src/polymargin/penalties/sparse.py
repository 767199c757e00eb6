"""Penalties that make class vectors sparse: entry by entry, or a feature for all classes at once.

Both are ``1/2 |W|^2`` and a norm, strongly convex: the W that attains the conjugate is Z, shortened by a threshold.
"""

from __future__ import annotations

import numpy as np

from polymargin.penalties.base import Array, Penalty


class ElasticNet(Penalty):
    """``1/2 |W|^2 + l1 sum_jk |w_jk|`` (Zou & Hastie 2005)."""

    name = "elastic net"

    def __init__(self, l1: float = 0.1):
        self.l1 = float(l1)

    def value(self, W: Array) -> float:
        return 0.5 * float((W * W).sum()) + self.l1 * float(np.abs(W).sum())

    def gradient(self, W: Array) -> Array:
        return W + self.l1 * np.sign(W)

    def conjugate(self, Z: Array) -> float:
        return 0.5 * float(np.square(self.minimizer(Z)).sum())

    def minimizer(self, Z: Array) -> Array:
        return np.asarray(np.sign(Z) * np.maximum(np.abs(Z) - self.l1, 0.0))


class GroupNorm(Penalty):
    """``1/2 |W|^2 + l1 sum_j |W_j|`` with the rows W_j of W: a feature is in or out for all classes (Yuan & Lin 2006)."""

    name = "group norm"

    def __init__(self, l1: float = 0.1):
        self.l1 = float(l1)

    def value(self, W: Array) -> float:
        return 0.5 * float((W * W).sum()) + self.l1 * float(feature_norms(W).sum())

    def gradient(self, W: Array) -> Array:
        norms = feature_norms(W)[:, None]
        return W + self.l1 * np.divide(W, norms, out=np.zeros_like(W), where=norms > 0.0)

    def conjugate(self, Z: Array) -> float:
        return 0.5 * float(np.square(np.maximum(feature_norms(Z) - self.l1, 0.0)).sum())

    def minimizer(self, Z: Array) -> Array:
        norms = feature_norms(Z)
        kept = np.divide(norms - self.l1, norms, out=np.zeros_like(norms), where=norms > self.l1)
        return Z * kept[:, None]


def feature_norms(W: Array) -> Array:
    """Norms of the rows."""
    return np.asarray(np.sqrt(np.einsum("jk,jk->j", W, W)))
