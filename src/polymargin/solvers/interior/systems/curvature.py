"""Second derivatives of losses in the scores: a row's is a graph Laplacian on the classes, a star for pairwise losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.solvers.interior.systems.preconditioner import HeavyPairs, MeanInverse
from polymargin.solvers.rows import Design

Array = NDArray[np.float64]


class Curvature(Protocol):
    """Second derivative of the weighted losses in the scores."""

    def apply(self, V: Array) -> Array:
        """M V row by row; may overwrite V."""

    def add_to(self, H: Array, design: Design) -> None:
        """Adds Z'MZ to the assembled matrix."""

    def preconditioner(self, design: Design, model: Any, rate: float) -> Callable[[Array], Array]:
        """An approximate inverse; `model` is the penalty of W, `rate` the curvature of that of b."""


class StarCurvature:
    """Weights omega (n, c) of the edges from a row's own class to the others; 0 at the own class."""

    def __init__(self, omega: Array, y: NDArray[np.int32], classes: list[NDArray[np.intp]]):
        self.omega, self.y, self.classes = omega, y, classes

    def apply(self, V: Array) -> Array:
        native.star_product(self.omega, self.y, V)
        return V

    def preconditioner(self, design: Design, model: Any, rate: float) -> Callable[[Array], Array]:
        return HeavyPairs(design, self.omega, self.y, model, rate)

    def split(self, design: Design, level: float) -> tuple[StarCurvature, NDArray[np.intp], NDArray[np.intp]]:
        """The pairs whose curvature stays below `level`, and rows and rival classes of the others."""
        sizes = np.concatenate([np.einsum("ij,ij->i", Z, Z) for _, Z in design.dense_rows(np.arange(design.n))])
        heavy = 2.0 * self.omega * sizes[:, None] > level
        rows, rivals = np.nonzero(heavy)
        return StarCurvature(np.where(heavy, 0.0, self.omega), self.y, self.classes), rows, rivals

    def add_to(self, H: Array, design: Design) -> None:
        c, q = self.omega.shape[1], design.n_unknowns
        blocks = H.reshape(c, q, c, q)
        for own, rows in enumerate(self.classes):
            for part, Z in design.dense_rows(rows):
                weights = self.omega[part]
                for k in range(c):
                    if k == own:
                        continue
                    G = (Z.T * weights[:, k]) @ Z
                    blocks[own, :, own] += G
                    blocks[k, :, k] += G
                    blocks[own, :, k] -= G
                    blocks[k, :, own] -= G


class SoftmaxCurvature:
    """``u (diag(P) - P P')`` of class probabilities P (n, c)."""

    def __init__(self, P: Array, cost: Array):
        self.P, self.cost = P, cost

    def apply(self, V: Array) -> Array:
        native.softmax_product(self.P, self.cost, V)
        return V

    def preconditioner(self, design: Design, model: Any, rate: float) -> Callable[[Array], Array]:
        weighted = self.P * self.cost[:, None]
        return MeanInverse(design, np.diag(weighted.sum(axis=0)) - self.P.T @ weighted, model, rate)

    def add_to(self, H: Array, design: Design) -> None:
        c, q = self.P.shape[1], design.n_unknowns
        blocks = H.reshape(c, q, c, q)
        for part, Z in design.dense_rows(np.arange(design.n)):
            P, cost = self.P[part], self.cost[part]
            for k in range(c):
                for other in range(k + 1):
                    weights = cost * P[:, k] * ((k == other) - P[:, other])
                    G = (Z.T * weights) @ Z
                    blocks[k, :, other] += G
                    if k != other:
                        blocks[other, :, k] += G


class ProductCurvature:
    """A loss that knows its Hessian products only."""

    def __init__(self, loss: Any, S: Array, y: NDArray[np.int32], cost: Array):
        self.loss, self.S, self.y, self.cost = loss, S, y, cost

    def apply(self, V: Array) -> Array:
        return self.cost[:, None] * np.asarray(self.loss.hessian_product(self.S, self.y, V), dtype=np.float64)

    def preconditioner(self, design: Design, model: Any, rate: float) -> Callable[[Array], Array]:
        return MeanInverse(design, self._matrices().sum(axis=0), model, rate)

    def add_to(self, H: Array, design: Design) -> None:
        c, q = self.S.shape[1], design.n_unknowns
        blocks = H.reshape(c, q, c, q)
        M = self._matrices()
        for part, Z in design.dense_rows(np.arange(design.n)):
            for k in range(c):
                for other in range(c):
                    blocks[k, :, other] += (Z.T * M[part, k, other]) @ Z

    def _matrices(self) -> Array:
        """The rows' second derivatives, (n, c, c)."""
        n, c = self.S.shape
        columns = np.stack([self.apply(np.tile(np.eye(c)[k], (n, 1))) for k in range(c)], axis=1)
        return np.asarray(0.5 * (columns + columns.transpose(0, 2, 1)))
