"""Penalties that make class vectors sparse: entry by entry, or a feature for all classes at once.

Both are ``1/2 |W|^2`` and a norm, strongly convex: the W that attains the conjugate is Z, shortened by a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polymargin.penalties.base import Array, Penalty
from polymargin.penalties.capabilities import Threshold

_HALVINGS = 60


@dataclass(frozen=True)
class EntryKink:
    """``l1 sum_jk |w_jk|``: the ball is a box."""

    l1: float

    def project(self, Y: Array) -> Array:
        return np.clip(Y, -self.l1, self.l1)

    def along(self, Y: Array, V: Array) -> Array:
        return np.where(np.abs(Y) < self.l1, V, 0.0)


@dataclass(frozen=True)
class FeatureKink:
    """``l1 sum_j |W_j|``: a ball for each feature."""

    l1: float

    def project(self, Y: Array) -> Array:
        return np.asarray(Y * self._factors(Y))

    def along(self, Y: Array, V: Array) -> Array:
        norms = np.maximum(feature_norms(Y), 1e-300)[:, None]
        inward = (Y * V).sum(axis=1, keepdims=True) / norms**2 * Y
        return np.where(norms > self.l1, self._factors(Y) * (V - inward), V)

    def _factors(self, Y: Array) -> Array:
        norms = feature_norms(Y)[:, None]
        return np.divide(self.l1, norms, out=np.ones_like(norms), where=norms > self.l1)


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

    def class_metric(self, W: Array) -> Array:
        return np.eye(W.shape[1])

    @property
    def threshold(self) -> Threshold:
        return Threshold(self.l1, by_features=False)

    @property
    def kink(self) -> EntryKink:
        return EntryKink(self.l1)

    def best_shift(self, Z: Array) -> Array:
        """By bisection: the thresholded entries of a feature add up to zero."""
        low, high = -Z.max(axis=1, keepdims=True), -Z.min(axis=1, keepdims=True)
        for _ in range(_HALVINGS):
            v = 0.5 * (low + high)
            more = self.minimizer(Z + v).sum(axis=1, keepdims=True) > 0.0
            low, high = np.where(more, low, v), np.where(more, v, high)
        return np.asarray(0.5 * (low + high))


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

    def class_metric(self, W: Array) -> Array:
        return np.eye(W.shape[1])

    @property
    def threshold(self) -> Threshold:
        return Threshold(self.l1, by_features=True)

    @property
    def kink(self) -> FeatureKink:
        return FeatureKink(self.l1)


def feature_norms(W: Array) -> Array:
    """Norms of the rows."""
    return np.asarray(np.sqrt(np.einsum("jk,jk->j", W, W)))
