"""The penalty as the general Newton method carries it: itself where it is smooth, a quadratic model that moves elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties import Penalty
from polymargin.solvers.progress import Anderson

Array = NDArray[np.float64]


class SmoothPart(ABC):
    """R, or its model, without the kink."""

    scales: Array | None = None  # class scales, if the model is made of such
    curvature: float  # about

    def __init__(self, penalty: Penalty):
        self.penalty = penalty

    @abstractmethod
    def value(self, W: Array) -> float: ...

    @abstractmethod
    def gradient(self, W: Array) -> Array: ...

    @abstractmethod
    def product(self, W: Array, V: Array) -> Array:
        """Hessian at W times V."""

    @abstractmethod
    def add_to(self, H: Array, W: Array, basis: Array | None) -> None:
        """Adds the Hessian to H (q, r, q, r), whose classes are coordinates in the basis (c, q)."""

    def moved(self, W: Array) -> SmoothPart:
        """The part for the next round."""
        return self

    def conjugate(self, Z: Array, W: Array) -> float:
        """``R*(Z)``, or a bound of it that is tight if W is the optimum."""
        return self.penalty.conjugate(Z)


class QuadraticPart(SmoothPart):
    """``1/2 <W, W L> - <tilt, W>``."""

    def __init__(self, penalty: Penalty, W: Array):
        super().__init__(penalty)
        self._memory = Anderson()
        self._tilt: Array | float = 0.0 if penalty.tilt is None else penalty.tilt
        self._set(self._wanted(W))

    def _wanted(self, W: Array) -> Array:
        L = self.penalty.class_metric(W)
        assert L is not None
        return L

    def _set(self, L: Array) -> None:
        self.L = L
        self.curvature = float(np.trace(L)) / len(L)
        if self.penalty.class_scales is not None:
            self.scales = 1.0 / np.diag(L)

    def value(self, W: Array) -> float:
        return float((W * (0.5 * (W @ self.L) - self._tilt)).sum())

    def gradient(self, W: Array) -> Array:
        return np.asarray(W @ self.L - self._tilt)

    def product(self, W: Array, V: Array) -> Array:
        return np.asarray(V @ self.L)

    def add_to(self, H: Array, W: Array, basis: Array | None) -> None:
        L = self.L if basis is None else basis.T @ self.L @ basis
        each = np.arange(len(W))
        H[:, each, :, each] += L

    def moved(self, W: Array) -> SmoothPart:
        """Diagonal models, of class scales, go on by Anderson's extrapolation of their logarithms."""
        wanted = self._wanted(W)
        if self.scales is not None:
            logs = np.log(np.diag(self.L))
            to = self._memory(logs, np.log(np.diag(wanted)) - logs)
            wanted = np.diag(1.0 / self.penalty.class_scales.scales_at(-to))  # type: ignore[union-attr]
        self._set(wanted)
        return self


class WholePenalty(SmoothPart):
    """R itself, by its model."""

    def __init__(self, penalty: Penalty, W: Array):
        super().__init__(penalty)
        self.curvature = float(np.abs(self.gradient(W)).sum() / max(float(np.abs(W).sum()), 1e-300))

    def value(self, W: Array) -> float:
        return self.penalty.value(W)

    def gradient(self, W: Array) -> Array:
        return np.asarray(self.penalty.model(W, 0.0).gradient)

    def product(self, W: Array, V: Array) -> Array:
        return np.asarray(self.penalty.model(W, 0.0).product(V))

    def add_to(self, H: Array, W: Array, basis: Array | None) -> None:
        c, r = W.shape[1], H.shape[1]
        full = np.zeros((c * r, c * r))
        self.penalty.model(W, 0.0).add_to(full, r)
        blocks = full.reshape(c, r, c, r)
        H += blocks if basis is None else np.einsum("kq,kilj,lp->qipj", basis, blocks, basis, optimize=True)

    def conjugate(self, Z: Array, W: Array) -> float:
        """Along flows between the classes, which R of W says."""
        return self.penalty.conjugate_along(self.penalty.model(W, 0.0), Z)[0](1.0)


def takes_part(penalty: Penalty) -> bool:
    """Whether the general method can carry this penalty."""
    return penalty.class_metric(np.ones((1, 2))) is not None or (penalty.has_model and penalty.smooth)


def smooth_part(penalty: Penalty, W: Array) -> SmoothPart:
    """How this penalty is carried, from class vectors W on."""
    if penalty.class_metric(W) is not None:
        return QuadraticPart(penalty, W)
    if penalty.has_model and penalty.smooth:
        return WholePenalty(penalty, W)
    raise TypeError(f"the penalty '{penalty.name}' is neither smooth nor has it a quadratic model")
