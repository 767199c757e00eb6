"""What happened to the rows, as scalings of their scores are judged by it: a class each, or label sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, log_expit, log_softmax, softmax

from polymargin.calibration.scaling import Terms
from polymargin.selection.folds import Folds, label_folds, stratified_folds

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassOutcomes:
    """One class a row: indices y, and weights of the rows."""

    y: NDArray[Any]
    weight: Array
    n_classes: int

    @property
    def mixes(self) -> bool:
        return True

    @property
    def lapses(self) -> bool:
        return True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", self.weight / self.weight.mean())

    def bases(self) -> list[Array]:
        return [np.zeros((self.n_classes, 0)), np.eye(self.n_classes)]

    @property
    def _pseudo(self) -> float:
        """Share of the pseudo-row in the targets."""
        return 1.0 / (len(self.y) + 1.0)

    def terms(self, Z: Array) -> Terms:
        own, e, c = np.arange(len(Z)), self._pseudo, self.n_classes
        Z = Z - Z.max(axis=1, keepdims=True)
        P = np.exp(Z)
        total = P.sum(axis=1)
        P /= total[:, None]
        value = float(self.weight @ (np.log(total) - (1.0 - e) * Z[own, self.y] - e * Z.mean(axis=1)))
        G = P - e / c
        G[own, self.y] -= 1.0 - e
        G *= self.weight[:, None]
        return Terms(value, G, P)

    def curvature(self, P: Array, S: Array, B: Array) -> Array:
        mean, v = np.einsum("ik,ik->i", P, S), self.weight
        tilted = P * (S - mean[:, None])
        H = np.empty((1 + B.shape[1], 1 + B.shape[1]))
        H[0, 0] = float(v @ np.einsum("ik,ik->i", tilted, S))
        H[0, 1:] = H[1:, 0] = B.T @ (v @ tilted)
        if B.shape[1]:
            PB = P @ B
            H[1:, 1:] = (B.T * (v @ P)) @ B - (PB.T * v) @ PB
        return H

    def losses(self, Z: Array) -> Array:
        Z = Z - Z[np.arange(len(Z)), self.y][:, None]
        top = Z.max(axis=1)
        return np.asarray(self.weight * (top + np.log(np.exp(Z - top[:, None]).sum(axis=1))))

    def part(self, rows: NDArray[Any]) -> ClassOutcomes:
        return ClassOutcomes(self.y[rows], self.weight[rows], self.n_classes)

    def folds(self, n_folds: int, seed: int) -> Folds:
        return stratified_folds(self.y, n_folds, seed)

    @staticmethod
    def probabilities(Z: NDArray[Any], lapse: float = 0.0) -> NDArray[Any]:
        """Of scaled scores."""
        return np.asarray((1.0 - lapse) * softmax(Z, axis=1) + lapse / Z.shape[1])

    @staticmethod
    def log_probabilities(Z: NDArray[Any], lapse: float = 0.0) -> NDArray[Any]:
        """Their logarithms, none of which is minus infinity."""
        log_P = log_softmax(Z, axis=1)
        return np.asarray(log_P if lapse == 0.0 else np.logaddexp(log_P + np.log1p(-lapse), np.log(lapse / Z.shape[1])))


@dataclass(frozen=True)
class LabelOutcomes:
    """Label sets: 1 has the label, -1 has not, 0 is unknown; and weights of all entries."""

    signs: NDArray[np.int8]
    weight: Array  # (n, c)

    @property
    def mixes(self) -> bool:
        return False

    @property
    def lapses(self) -> bool:
        return False

    def __post_init__(self) -> None:
        known = np.where(self.signs != 0, self.weight, 0.0)
        object.__setattr__(self, "weight", known / max(float(known[self.signs != 0].mean()), 1e-300))

    def bases(self) -> list[Array]:
        c = self.signs.shape[1]
        return [np.ones((c, 1)), np.eye(c)]

    @cached_property
    def _targets(self) -> Array:
        e = 1.0 / (len(self.signs) + 2.0)
        return np.where(self.signs > 0, 1.0 - e, e)

    def terms(self, Z: Array) -> Terms:
        P, t = expit(Z), self._targets
        value = -float((self.weight * (t * log_expit(Z) + (1.0 - t) * log_expit(-Z))).sum())
        return Terms(value, self.weight * (P - t), P)

    def curvature(self, P: Array, S: Array, B: Array) -> Array:
        V = self.weight * P * (1.0 - P)
        H = np.empty((1 + B.shape[1], 1 + B.shape[1]))
        H[0, 0] = float((V * S * S).sum())
        H[0, 1:] = H[1:, 0] = B.T @ (V * S).sum(axis=0)
        H[1:, 1:] = (B.T * V.sum(axis=0)) @ B
        return H

    def losses(self, Z: Array) -> Array:
        return np.asarray(-(self.weight * log_expit(self.signs * Z)).sum(axis=1))

    def part(self, rows: NDArray[Any]) -> LabelOutcomes:
        return LabelOutcomes(self.signs[rows], self.weight[rows])

    def folds(self, n_folds: int, seed: int) -> Folds:
        return label_folds(sparse.csr_array(self.signs > 0), n_folds, seed)

    @staticmethod
    def probabilities(Z: NDArray[Any], lapse: float = 0.0) -> NDArray[Any]:
        """Of scaled scores; labels do not lapse."""
        return np.asarray(expit(Z))

    @staticmethod
    def log_probabilities(Z: NDArray[Any], lapse: float = 0.0) -> NDArray[Any]:
        """Their logarithms, none of which is minus infinity."""
        return np.asarray(log_expit(Z))


Outcomes = ClassOutcomes | LabelOutcomes
