"""Pairs of a row's own class and a rival, as vectors over the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def signs_of(own: NDArray[np.integer[Any]], rivals: NDArray[np.integer[Any]], n_classes: int) -> NDArray[np.float64]:
    """``e_own - e_rival``, one row a pair."""
    out, each = np.zeros((len(own), n_classes)), np.arange(len(own))
    out[each, own] = 1.0
    out[each, rivals] -= 1.0
    return out
