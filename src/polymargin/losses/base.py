"""The contract of a loss."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.losses.domains.domain import Domain

Array = NDArray[np.float64]
Classes = NDArray[np.integer]

FORGIVEN = 1e-9  # rounding over the edge of a conjugate's domain


class MarginBand(NamedTuple):
    """Margins between ``1 - theta`` and ``1 + theta`` cost nothing; those above weigh mu times as much as those below."""

    theta: float
    mu: float


class ScoreLoss(abc.ABC):
    """A loss of one row's scores ``s (c,)`` and its class ``y``, applied to all rows of ``S (n, c)``.

    What a solver may ask for is declared here, never guessed from the class; None and False mean "not offered".

    Attributes
    ----------
    name : str
        How errors and documents call it.
    key : str or None
        Its name in `LOSSES`; None keeps it out, for losses whose conjugate bounds nothing.
    domain : Domain or None
        The set of the duals of a row, if the loss is a maximum over such a set (`domain.py`) or the square of one. The
        conjugate follows from it.
    squared : bool
        Whether it is the square.
    sums_to_zero : bool
        Whether it is meant for class vectors, and offsets, that add up to zero: a constraint of the problem.
    smooth : bool
        Whether the gradient is continuous.
    score_kernel : str or None
        Name of the core's pass over the scores for Newton's method. A smooth loss without one gives its `hessian_product`.
    margin_band : MarginBand or None
        The band of margins around 1 that cost nothing, for the concave-convex rounds.
    """

    name: ClassVar[str]
    key: ClassVar[str | None] = None
    domain: Domain | None = None
    squared: bool = False
    sums_to_zero: ClassVar[bool] = False
    smooth: ClassVar[bool] = False
    score_kernel: ClassVar[str | None] = None
    margin_band: MarginBand | None = None

    @abc.abstractmethod
    def value(self, S: Array, y: Classes) -> Array:
        """Loss of each row, ``(n,)``."""

    @abc.abstractmethod
    def gradient(self, S: Array, y: Classes) -> Array:
        """A (sub)gradient of each row's loss in its scores, ``(n, c)``."""

    def conjugate(self, T: Array, y: Classes) -> Array:
        """``max_s <t, s> - loss(s)`` of each row, ``(n,)``; ``inf`` outside its domain.

        Rounding of 1e-9 over the edge of the domain is forgiven. Losses without a `domain` have one of their own.
        """
        if self.domain is None:
            raise NotImplementedError(f"the {self.name} loss has neither a domain nor a conjugate of its own")
        A, off = self.domain.margins.duals(T, y)
        linear = (self.targets(T.shape[1])[y] * A).sum(axis=1)
        if self.squared:
            return np.where(off <= FORGIVEN, 0.25 * self.domain.square(A, y) - linear, np.inf)
        inside = (off <= FORGIVEN) & (self.domain.gauge(A, y) <= 1.0 + FORGIVEN)
        return np.where(inside, -linear, np.inf)

    def targets(self, n_classes: int) -> Array:
        """What the margins of a row of class y should reach, ``delta (c, c)``: 1 unless a loss says otherwise."""
        return np.broadcast_to(1.0, (n_classes, n_classes))  # with many classes a matrix of ones would be large

    def hessian_product(self, S: Array, y: Classes, V: Array) -> Array:
        """Each row's second derivative times its row of V, ``(n, c)``; smooth losses have it."""
        raise NotImplementedError(f"the {self.name} loss has no Hessian products")

    @property
    def unit_targets(self) -> bool:
        """Whether all margins should reach 1."""
        return True

    @property
    def takes_costs(self) -> bool:
        """Whether its margins are to rivals, and may be asked to reach the cost of an error."""
        return False

    def with_costs(self, costs: Array) -> ScoreLoss:
        """The same loss of margins that should reach these costs (c, c)."""
        raise TypeError(f"the {self.name} loss takes no costs of errors: its margins are no differences of two scores")

    def of_classes(self, kept: NDArray[np.intp]) -> ScoreLoss:
        """The loss of rows of some of the classes only."""
        return self

    # ---- who solves it ------------------------------------------------------------------------------------------------

    @property
    def row_problem(self) -> str | None:
        """The core's name of its domain, whose loops solve it in every metric; None if there are none."""
        if self.domain is None:
            return None
        kind = self.domain.name if self.domain.margins.relative else f"absolute_{self.domain.name}"
        name = f"squared_{kind}" if self.squared else kind
        return name if name in native.domains() else None

    @property
    def row_parameters(self) -> tuple[float, ...]:
        """What the loops need to know besides the name: the parameters of the domain."""
        return () if self.domain is None else self.domain.parameters

    @property
    def interior_block(self) -> str | None:
        """Name of the slack block in the interior point."""
        if self.domain is None or not self.domain.margins.relative:
            return None
        return self.domain.squared_interior_block if self.squared else self.domain.interior_block

    @property
    def has_plain_faces(self) -> bool:
        """Whether Newton's method with multipliers knows the faces of its domain."""
        return self.domain is not None and self._has_plain_margins and self.domain.has_plain_faces and not self.squared

    @property
    def _has_plain_margins(self) -> bool:
        """Whether all margins are ``s_y - s_l``, to reach 1: what the methods on duals are made for."""
        return self.domain is not None and self.domain.margins.relative and self.unit_targets


def own_and_others(S: Array, y: Classes) -> tuple[Array, NDArray[np.bool_]]:
    """Scores of the rows' own classes ``(n, 1)`` and the mask ``(n, c)`` of the other classes."""
    others = np.ones(S.shape, dtype=bool)
    rows = np.arange(len(y))
    others[rows, y] = False
    return S[rows, y][:, None], others
