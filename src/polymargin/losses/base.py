"""The contract of a loss."""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Classes = NDArray[np.integer]


class ScoreLoss(abc.ABC):
    """A convex loss of one row's scores ``s (c,)`` and its class ``y``, applied to all rows of ``S (n, c)``.

    What a solver may ask for is declared, never guessed from the class:

    Attributes
    ----------
    name : str
        How errors and documents call it.
    smooth : bool
        Whether the gradient is continuous.
    row_problem : str or None
        Name of the exact row sub-problem in the core's dual loop, None if it has none.
    scaled_row_problem : str or None
        The same for machines with class scales, ``w_k = beta_k sum_i tau_ik x_i``.
    interior_block : str or None
        Name of the slack block in the interior point, None if it has none.
    score_kernel : str or None
        Name of the core's pass over the scores for Newton's method. A smooth loss without one gives its `hessian_product`.
    """

    name: ClassVar[str]
    smooth: ClassVar[bool] = False
    row_problem: ClassVar[str | None] = None
    scaled_row_problem: ClassVar[str | None] = None
    interior_block: ClassVar[str | None] = None
    score_kernel: ClassVar[str | None] = None

    @abc.abstractmethod
    def value(self, S: Array, y: Classes) -> Array:
        """Loss of each row, ``(n,)``."""

    @abc.abstractmethod
    def gradient(self, S: Array, y: Classes) -> Array:
        """A (sub)gradient of each row's loss in its scores, ``(n, c)``."""

    @abc.abstractmethod
    def conjugate(self, T: Array, y: Classes) -> Array:
        """``max_s <t, s> - loss(s)`` of each row, ``(n,)``; ``inf`` outside its domain.

        Rounding of 1e-9 over the edge of the domain is forgiven.
        """

    def hessian_product(self, S: Array, y: Classes, V: Array) -> Array:
        """Each row's second derivative times its row of V, ``(n, c)``; smooth losses have it."""
        raise NotImplementedError(f"the {self.name} loss has no Hessian products")


def own_and_others(S: Array, y: Classes) -> tuple[Array, NDArray[np.bool_]]:
    """Scores of the rows' own classes ``(n, 1)`` and the mask ``(n, c)`` of the other classes."""
    others = np.ones(S.shape, dtype=bool)
    rows = np.arange(len(y))
    others[rows, y] = False
    return S[rows, y][:, None], others
