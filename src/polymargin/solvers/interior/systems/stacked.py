"""Newton systems of losses of scores plus a penalty: ``(d2R + Z' M Z) D = G``, unknowns stacked as in `Design`.

Small systems are assembled and factorised, with the heaviest pairs as a border where rounding asks for it (`bordered.py`);
large ones are solved by conjugate gradients (`preconditioner.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties import Penalty
from polymargin.penalties.capabilities import HessianModel
from polymargin.solvers.cost_model import assembly_fits
from polymargin.solvers.interior.systems.bordered import BorderedSystem
from polymargin.solvers.interior.systems.curvature import Curvature, StarCurvature
from polymargin.solvers.interior.systems.preconditioner import class_laplacian
from polymargin.solvers.linear import Apply, conjugate_gradients, definite
from polymargin.solvers.rows import Design

Array = NDArray[np.float64]

RELIABLE = 1e-8  # of a solution's energy: what the first refinement may change
MOST_HEAVY = 2.0  # pairs of a border, in unknowns


class NewtonSystem:
    """The system at one iterate; `solve` may be called for several right-hand sides."""

    def __init__(self, design: Design, penalty: Penalty, model: HessianModel, curvature: Curvature, n_classes: int):
        self.design, self.penalty, self.model, self.curvature, self.c = design, penalty, model, curvature, n_classes
        self._inverse: Apply | None = None
        self._bordered: BorderedSystem | None = None
        self.stretch_pulls: Array | None = None  # of the penalty's stretches, if the last solution has them apart
        self._preconditioner: Apply | None = None
        self._offset_rate = float(penalty.offset_gradient(np.ones(1))[0])  # of the penalty of b
        if assembled(design, n_classes):
            self._factorise()

    def product(self, V: Array) -> Array:
        """The matrix times V."""
        d = self.design
        out = d.adjoint(self.curvature.apply(d.scores(V)))
        out[: d.r] += self.model.product(V[: d.r])
        return self._add_offsets(out, V)

    def penalty_gradient(self, model: HessianModel, V: Array) -> Array:
        """Of the penalties of W, as in `model`, and of b, stacked like the unknowns V."""
        out = np.zeros_like(V)
        out[: self.design.r] = model.gradient
        return self._add_offsets(out, V)

    def _add_offsets(self, out: Array, V: Array) -> Array:
        d = self.design
        if d.fit_intercept:
            offset = self.penalty.offset_gradient(V[d.r] - d.mean @ V[: d.r])  # linear: its own Hessian product
            out[d.r] += offset
            out[: d.r] -= np.outer(d.mean, offset)
        return out

    def solve(self, G: Array, tol: float, max_iter: int) -> Array:
        """``D`` with ``H D = G``."""
        if self._inverse is not None:
            D = self._back(G)
            rest = G - self.product(D)  # one step of refinement: the weights range over many decades
            change = self._back(rest)
            if abs(float(np.vdot(rest, change))) <= RELIABLE * abs(float(np.vdot(G, D))) or not self._set_heavy_apart():
                return _centred(D + change)
        if self._bordered is not None:
            D, self._pulls, self.stretch_pulls = self._bordered.solve(G)
            return _centred(D)
        if self._preconditioner is None:
            self._preconditioner = self.curvature.preconditioner(self.design, self.model, self._offset_rate)
        return _centred(conjugate_gradients(self.product, self._preconditioner, G, tol, max_iter))

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
        assert self._inverse is not None
        return self._inverse(G.T.ravel()).reshape(self.c, -1).T

    def _factorise(self) -> None:
        H = self._matrix(self.curvature, self.model)
        self._inverse = definite(H, with_ridge=False)
        if self._inverse is None and not self._set_heavy_apart():
            self._inverse = definite(H)
            if self._inverse is None:
                raise np.linalg.LinAlgError("the Newton matrix is not finite")

    def _matrix(self, curvature: Curvature, model: HessianModel) -> Array:
        d, c = self.design, self.c
        q = d.n_unknowns
        H = np.zeros((c * q, c * q))
        curvature.add_to(H, d)
        model.add_to(H, q)
        blocks = H.reshape(c, q, c, q)
        if d.fit_intercept:
            direction = np.append(-d.mean, 1.0)
            for k in range(c):
                blocks[k, :, k] += self._offset_rate * np.outer(direction, direction)
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
        self._heavy, self._inverse = (rows, rivals, weights, curvature.y), None
        return True


def _centred(V: Array) -> Array:
    """Without the vector that all classes have in common."""
    return np.asarray(V - V.mean(axis=1, keepdims=True))


def assembled(design: Design, n_classes: int) -> bool:
    """Whether the system is small enough to be assembled and factorised."""
    return assembly_fits(design.n, design.n_unknowns, n_classes)
