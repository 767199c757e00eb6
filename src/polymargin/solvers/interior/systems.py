"""Newton systems of losses of scores plus a penalty: ``(d2R + Z' M Z) D = G``, unknowns stacked as in `design.py`.

A row's curvature M_i is a graph Laplacian on the classes (a star for pairwise losses). Small systems are assembled and
factorised; large ones are solved by conjugate gradients (`pair_preconditioner.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin._core import native
from polymargin.solvers.interior.bordered import BorderedSystem
from polymargin.solvers.interior.preconditioner import HeavyPairs, class_laplacian, mean_preconditioner
from polymargin.solvers.rows import Design

Array = NDArray[np.float64]

LARGEST_MATRIX = 2600  # unknowns of a system that is assembled
_LONGEST_ASSEMBLY = 4e9  # operations
RELIABLE = 1e-8  # of a solution's energy: what the first refinement may change
MOST_HEAVY = 2.0  # pairs of a border, in unknowns
_PRODUCTS = 60  # or as many as conjugate gradients would need for about so many iterations


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
        return mean_preconditioner(design, np.diag(weighted.sum(axis=0)) - self.P.T @ weighted, model, rate)

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
        c = self.S.shape[1]
        columns = np.array([self.apply(np.tile(np.eye(c)[k], (len(self.y), 1))).sum(axis=0) for k in range(c)])
        return mean_preconditioner(design, 0.5 * (columns + columns.T), model, rate)

    def add_to(self, H: Array, design: Design) -> None:
        c, q = self.S.shape[1], design.n_unknowns
        blocks = H.reshape(c, q, c, q)
        columns = [self.apply(np.tile(np.eye(c)[k], (len(self.y), 1))) for k in range(c)]
        for part, Z in design.dense_rows(np.arange(design.n)):
            for k in range(c):
                for other in range(c):
                    blocks[k, :, other] += (Z.T * (0.5 * (columns[k][part, other] + columns[other][part, k]))) @ Z


class NewtonSystem:
    """The system at one iterate; `solve` may be called for several right-hand sides."""

    def __init__(self, design: Design, penalty: Any, model: Any, curvature: Curvature, n_classes: int):
        self.design, self.penalty, self.model, self.curvature, self.c = design, penalty, model, curvature, n_classes
        self._factor: Array | None = None
        self._bordered: BorderedSystem | None = None
        self.stretch_pulls: Array | None = None  # of the penalty's stretches, if the last solution has them apart
        self._preconditioner: Any = None
        if assembled(design, n_classes):
            self._factorise()

    def product(self, V: Array) -> Array:
        """The matrix times V."""
        d = self.design
        out = d.adjoint(self.curvature.apply(d.scores(V)))
        out[: d.r] += self.model.product(V[: d.r])
        return self._add_offsets(out, V)

    def _add_offsets(self, out: Array, V: Array) -> Array:
        d = self.design
        if d.fit_intercept:
            offset = self.penalty.offset_gradient(V[d.r] - d.mean @ V[: d.r])  # linear: its own Hessian product
            out[d.r] += offset
            out[: d.r] -= np.outer(d.mean, offset)
        return out

    def solve(self, G: Array, tol: float, max_iter: int) -> tuple[Array, int]:
        """``D`` with ``H D = G`` and the number of products it took."""
        if self._factor is not None:
            D = self._back(G)
            rest = G - self.product(D)  # one step of refinement: the weights range over many decades
            change = self._back(rest)
            if abs(float(np.vdot(rest, change))) <= RELIABLE * abs(float(np.vdot(G, D))) or not self._set_heavy_apart():
                return _centred(D + change), 1
        if self._bordered is not None:
            D, self._pulls, self.stretch_pulls = self._bordered.solve(G)
            return _centred(D), 0
        return self._conjugate_gradients(G, tol, max_iter)

    def scores(self, D: Array) -> Array:
        """What the last solution does to the scores; of a row's scores only the differences count.

        That of a heavy pair is known from its pull: formed from D it would be rounded, and the weight makes rounding large.
        """
        S = self.design.scores(D)
        if self._bordered is not None:
            rows, rivals, weights, y = self._heavy
            S -= S[np.arange(len(S)), y][:, None]
            S[rows, rivals] = self._pulls / weights
        return S

    @property
    def rounds_scores(self) -> bool:
        """Whether `scores` are not those of D to the last digit."""
        return self._bordered is not None

    def _back(self, G: Array) -> Array:
        x, _ = dpotrs(self._factor, np.ascontiguousarray(G.T).ravel(), lower=1)
        return np.asarray(x).reshape(self.c, -1).T

    def _factorise(self) -> None:
        H = self._matrix(self.curvature, self.model)
        factor, failed = dpotrf(H, lower=1)
        if failed and self._set_heavy_apart():
            return
        diagonal, jitter = H.ravel()[:: len(H) + 1], 0.0
        while failed:
            more = max(10.0 * jitter, 1e-14 * float(diagonal.max()))
            if not np.isfinite(more) or jitter > float(diagonal.max()):
                raise FloatingPointError("the Newton matrix is not finite")
            diagonal += more - jitter
            jitter = more
            factor, failed = dpotrf(H, lower=1)
        self._factor = factor

    def _matrix(self, curvature: Curvature, model: Any) -> Array:
        d, c = self.design, self.c
        q = d.n_unknowns
        H = np.zeros((c * q, c * q))
        curvature.add_to(H, d)
        model.add_to(H, q)
        blocks = H.reshape(c, q, c, q)
        if d.fit_intercept:
            direction = np.append(-d.mean, 1.0)
            rate = float(self.penalty.offset_gradient(np.ones(1))[0])
            for k in range(c):
                blocks[k, :, k] += rate * np.outer(direction, direction)
        # one vector may be added to all classes: pin it, at the size of the matrix, without changing the solution
        size = H.ravel()[:: c * q + 1].reshape(c, q).mean(axis=0) / c
        index = np.arange(q)
        blocks[:, index, :, index] += size[:, None, None]
        return H

    def _set_heavy_apart(self) -> bool:
        """Goes over to the system with its heavy pairs apart, unless there are none or too many to be a face."""
        curvature, c, q = self.curvature, self.c, self.design.n_unknowns
        if not isinstance(curvature, StarCurvature) or not np.isfinite(curvature.omega).all():
            return False
        light, rows, rivals = curvature.split(self.design, float(class_laplacian(self.model).diagonal().mean()))
        if not 0 < len(rows) <= MOST_HEAVY * c * q:
            return False
        base, stretched, stretches = self.model.apart(q)
        pairs, each = np.zeros((len(rows), c, q)), np.arange(len(rows))
        own, weights = curvature.y[rows], curvature.omega[rows, rivals]
        pairs[each, rivals] = np.concatenate([Z for _, Z in self.design.dense_rows(rows)])
        pairs[each, own] = -pairs[each, rivals]
        try:
            self._bordered = BorderedSystem(self._matrix(light, base), (pairs, weights), (stretched, stretches))
        except np.linalg.LinAlgError:
            return False
        self._heavy, self._factor = (rows, rivals, weights, curvature.y), None
        return True

    def _conjugate_gradients(self, G: Array, tol: float, max_iter: int) -> tuple[Array, int]:
        x, r = np.zeros_like(G), G.copy()
        z = self._precondition(r)
        p, rz = z.copy(), float((r * z).sum())
        stop = tol * tol * rz
        n = 0
        while n < max_iter:
            n += 1
            h = self.product(p)
            step = rz / float((p * h).sum())
            x += step * p
            r -= step * h
            z = self._precondition(r)
            new = float((r * z).sum())
            if new <= stop or not np.isfinite(step):
                break
            p *= new / rz
            p += z
            rz = new
        return _centred(x), n

    def _precondition(self, R: Array) -> Array:
        if self._preconditioner is None:
            rate = float(self.penalty.offset_gradient(np.ones(1))[0])
            self._preconditioner = self.curvature.preconditioner(self.design, self.model, rate)
        return self._preconditioner(R)


def _centred(V: Array) -> Array:
    """Without the vector that all classes have in common."""
    return np.asarray(V - V.mean(axis=1, keepdims=True))


def assembled(design: Design, n_classes: int) -> bool:
    """Whether the system is small enough to be assembled and factorised."""
    q = design.n_unknowns
    work = 2.0 * design.n * q * q * (n_classes - 1) + (q * n_classes) ** 3 / 3
    products = 4.0 * design.n * q * n_classes * _PRODUCTS
    return q * n_classes <= LARGEST_MATRIX and work <= max(_LONGEST_ASSEMBLY, products)
