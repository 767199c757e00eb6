"""Smooth losses of all pairs (own class, other class): the pairwise logistic loss and the cross-entropy."""

from __future__ import annotations

import numpy as np

from polymargin.losses.base import FORGIVEN, Array, Classes, ScoreLoss, own_and_others


class PairwiseLogistic(ScoreLoss):
    """``sum_{k != y} log(1 + exp(-(s_y - s_k)))`` (ISM3, Nie et al. 2024, Eq. 32)."""

    name = "pairwise logistic"
    key = "pairwise_logistic"
    smooth = True
    score_kernel = "pairwise_logistic"

    def value(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        return np.where(others, np.logaddexp(0.0, S - own), 0.0).sum(axis=1)

    def gradient(self, S: Array, y: Classes) -> Array:
        G = self._weights(S, y)
        G[np.arange(len(y)), y] = -G.sum(axis=1)
        return G

    def hessian_product(self, S: Array, y: Classes, V: Array) -> Array:
        weights = self._weights(S, y)
        own, _ = own_and_others(V, y)
        out = weights * (1.0 - weights) * (V - own)
        out[np.arange(len(y)), y] = -out.sum(axis=1)
        return out

    def conjugate(self, T: Array, y: Classes) -> Array:
        _, others = own_and_others(T, y)
        a = np.where(others, T, 0.0)
        inside = (np.abs(T.sum(axis=1)) <= FORGIVEN) & (a.min(axis=1) >= -FORGIVEN) & (a.max(axis=1) <= 1.0 + FORGIVEN)
        a = np.clip(a, 0.0, 1.0)
        return np.where(inside, (_entropy(a) + _entropy(1.0 - a)).sum(axis=1), np.inf)

    @staticmethod
    def _weights(S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        return np.where(others, 0.5 * (1.0 + np.tanh(0.5 * (S - own))), 0.0)


class CrossEntropy(ScoreLoss):
    """``log sum_k exp(s_k) - s_y``: what the released code of M3SVM minimises."""

    name = "cross-entropy"
    key = "cross_entropy"
    smooth = True
    score_kernel = "softmax"

    def value(self, S: Array, y: Classes) -> Array:
        own, others = own_and_others(S, y)
        D = np.where(others, S - own, -np.inf)
        top = np.maximum(D.max(axis=1), 0.0)
        rest = np.exp(D - top[:, None]).sum(axis=1)
        # a loss far below 1 keeps its digits: log(1 + rest) and a difference of scores would have none of them
        return np.where(top > 0.0, top + np.log(np.exp(-top) + rest), np.log1p(rest))

    def gradient(self, S: Array, y: Classes) -> Array:
        G = softmax(S)
        rows = np.arange(len(y))
        G[rows, y] = 0.0
        G[rows, y] = -G.sum(axis=1)
        return G

    def hessian_product(self, S: Array, y: Classes, V: Array) -> Array:
        P = softmax(S)
        return P * (V - (P * V).sum(axis=1, keepdims=True))

    def conjugate(self, T: Array, y: Classes) -> Array:
        P = np.array(T, dtype=np.float64)
        P[np.arange(len(y)), y] += 1.0
        inside = (np.abs(P.sum(axis=1) - 1.0) <= FORGIVEN) & (P.min(axis=1) >= -FORGIVEN)
        return np.where(inside, _entropy(np.clip(P, 0.0, 1.0)).sum(axis=1), np.inf)


def softmax(S: Array) -> Array:
    """Probabilities of the classes, row by row."""
    P = np.exp(S - S.max(axis=1, keepdims=True))
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def _entropy(a: Array) -> Array:
    """``a log a``, 0 at 0."""
    return a * np.log(np.where(a > 0.0, a, 1.0))
