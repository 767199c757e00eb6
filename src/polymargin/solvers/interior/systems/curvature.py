"""Second derivatives of losses in the scores: a row's is a graph Laplacian on the classes, a star for pairwise losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.losses import ScoreLoss
from polymargin.penalties.capabilities import HessianModel
from polymargin.solvers.interior.systems.preconditioner import HeavyPairs, MeanInverse
from polymargin.solvers.rows import Design

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class Curvature(ABC):
    """Second derivative of the weighted losses in the scores: weights of edges between the classes, for each row."""

    @abstractmethod
    def apply(self, V: Array) -> Array:
        """M V row by row; may overwrite V."""

    @abstractmethod
    def edges(self) -> Iterable[tuple[Rows, list[tuple[int, int]]]]:
        """Rows, and the edges that they have."""

    @abstractmethod
    def weights(self, rows: Rows, k: int, other: int) -> Array:
        """Of the edge (k, other) in these rows."""

    def add_to(self, H: Array, design: Design) -> None:
        """Adds Z'MZ to the assembled matrix."""
        q = design.n_unknowns
        c = len(H) // q
        blocks = H.reshape(c, q, c, q)
        for rows, edges in self.edges():
            for part, Z in design.dense_rows(rows):
                for k, other in edges:
                    G = (Z.T * self.weights(part, k, other)) @ Z
                    blocks[k, :, k] += G
                    blocks[other, :, other] += G
                    blocks[k, :, other] -= G
                    blocks[other, :, k] -= G

    def preconditioner(self, design: Design, model: HessianModel, rate: float) -> Callable[[Array], Array]:
        """An approximate inverse; `model` is the penalty of W, `rate` the curvature of that of b."""
        flows = np.zeros_like(model.Q)
        for rows, edges in self.edges():
            for k, other in edges:
                flows[k, other] = self.weights(rows, k, other).sum()
        flows += flows.T
        return MeanInverse(design, np.diag(flows.sum(axis=1)) - flows, model, rate)


class StarCurvature(Curvature):
    """Weights omega (n, c) of the edges from a row's own class to the others; 0 at the own class."""

    def __init__(self, omega: Array, y: NDArray[np.int32], classes: list[Rows]):
        self.omega, self.y, self.classes = omega, y, classes

    def apply(self, V: Array) -> Array:
        native.star_product(self.omega, self.y, V)
        return V

    def edges(self) -> Iterable[tuple[Rows, list[tuple[int, int]]]]:
        for own, rows in enumerate(self.classes):
            yield rows, [(own, k) for k in range(len(self.classes)) if k != own]

    def weights(self, rows: Rows, k: int, other: int) -> Array:
        return np.asarray(self.omega[rows, other])

    def preconditioner(self, design: Design, model: HessianModel, rate: float) -> Callable[[Array], Array]:
        return HeavyPairs(design, self.omega, self.y, model, rate)

    def split(self, design: Design, level: float) -> tuple[StarCurvature, Rows, Rows]:
        """The pairs whose curvature stays below `level`, and rows and rival classes of the others."""
        sizes = np.concatenate([np.einsum("ij,ij->i", Z, Z) for _, Z in design.dense_rows(np.arange(design.n))])
        heavy = 2.0 * self.omega * sizes[:, None] > level
        rows, rivals = np.nonzero(heavy)
        return StarCurvature(np.where(heavy, 0.0, self.omega), self.y, self.classes), rows, rivals


class SoftmaxCurvature(Curvature):
    """``u (diag(P) - P P')`` of class probabilities P (n, c)."""

    def __init__(self, P: Array, cost: Array):
        self.P, self.cost = P, cost

    def apply(self, V: Array) -> Array:
        native.softmax_product(self.P, self.cost, V)
        return V

    def edges(self) -> Iterable[tuple[Rows, list[tuple[int, int]]]]:
        yield np.arange(len(self.P)), list(combinations(range(self.P.shape[1]), 2))

    def weights(self, rows: Rows, k: int, other: int) -> Array:
        return np.asarray(self.cost[rows] * self.P[rows, k] * self.P[rows, other])


class ProductCurvature(Curvature):
    """A loss that knows its Hessian products only."""

    def __init__(self, loss: ScoreLoss, S: Array, y: NDArray[np.int32], cost: Array):
        self.loss, self.S, self.y, self.cost = loss, S, y, cost

    def apply(self, V: Array) -> Array:
        return self.cost[:, None] * np.asarray(self.loss.hessian_product(self.S, self.y, V), dtype=np.float64)

    def edges(self) -> Iterable[tuple[Rows, list[tuple[int, int]]]]:
        yield np.arange(len(self.S)), list(combinations(range(self.S.shape[1]), 2))

    def weights(self, rows: Rows, k: int, other: int) -> Array:
        return np.asarray(-0.5 * (self._columns[k][rows, other] + self._columns[other][rows, k]))

    @cached_property
    def _columns(self) -> list[Array]:
        return [self.apply(np.tile(unit, (len(self.S), 1))) for unit in np.eye(self.S.shape[1])]
