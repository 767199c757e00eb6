"""Which margins a loss is made of: ``e_j = delta_j - <D_j, s>`` of a row of class y, at most one for each class j.

    relative     ``D_l = e_y - e_l``          the own score against that of a rival
    absolute     ``D_y = e_y``, ``D_l = -e_l``  the own score, and the rivals' with the opposite sign, against 0

Duals ``a_j >= 0`` of the margins make the derivative of the loss in the scores, ``T = -sum_j a_j D_j``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Classes = NDArray[np.integer]


@dataclass(frozen=True)
class Margins:
    """Which classes of a row have a margin: the own one, its rivals, or both (absolute ones only)."""

    relative: bool
    own: bool
    rivals: bool

    def present(self, y: Classes, n_classes: int) -> Mask:
        """Where the rows have margins, ``(n, c)``."""
        out = np.full((len(y), n_classes), self.rivals)
        out[np.arange(len(y)), y] = self.own
        return out

    def violations(self, S: Array, y: Classes, targets: Array) -> Array:
        """``e_j`` of scores ``S (n, c)``, 0 where there is no margin; `targets` are delta for each class y, ``(c, c)``."""
        rows = np.arange(len(y))
        E = targets[y] + (S - S[rows, y][:, None] if self.relative else S)
        if self.own:
            E[rows, y] = targets[y, y] - S[rows, y]
        return np.where(self.present(y, S.shape[1]), E, 0.0)

    def derivative(self, A: Array, y: Classes) -> Array:
        """T of duals ``A (n, c)`` that are 0 where there is no margin."""
        T, rows = np.array(A, dtype=np.float64), np.arange(len(y))
        T[rows, y] = -A.sum(axis=1) if self.relative else -A[rows, y]
        return T

    def duals(self, T: Array, y: Classes) -> tuple[Array, Array]:
        """The duals whose derivative is T, and by how much each row of T is none of the kind, ``(n,)``."""
        A, rows = np.array(T, dtype=np.float64), np.arange(len(y))
        A[rows, y] = -T[rows, y]
        A = np.where(self.present(y, T.shape[1]), A, 0.0)
        off = np.abs(self.derivative(A, y) - T).max(axis=1)
        return np.maximum(A, 0.0), np.maximum(off, -A.min(axis=1))


TO_RIVALS = Margins(relative=True, own=False, rivals=True)
OWN = Margins(relative=False, own=True, rivals=False)
OF_RIVALS = Margins(relative=False, own=False, rivals=True)
OF_ALL = Margins(relative=False, own=True, rivals=True)
