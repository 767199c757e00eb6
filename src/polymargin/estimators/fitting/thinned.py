"""Fewer entries of the class vectors, at a price that is known.

Entries below a threshold become 0. The objective of what is left is evaluated on the rows of the fit, threshold after
threshold, until the largest is found that keeps it within the budget.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_MOST_LEVELS = 1 << 17  # thresholds that are tried come from a sample of the entries
_CLOSE = 0.02  # of the kept entries: the search for the largest threshold ends here


class Thinned(NamedTuple):
    """Class vectors (c, d) as CSR, offsets (c,), and their objective."""

    vectors: sparse.csr_matrix
    offsets: NDArray[Any]
    primal: float


def thinned(problem: Any, vectors: Any, offsets: NDArray[Any], ceiling: float, dtype: Any) -> Thinned:
    """The fewest entries, by one threshold for all of them, with an objective of at most `ceiling`.

    Entries and offsets are rounded to `dtype` before they are judged.
    """
    whole = sparse.csr_matrix(vectors, dtype=dtype)
    whole.eliminate_zeros()
    levels = np.sort(np.abs(whole.data[:: max(1, whole.nnz // _MOST_LEVELS)]))
    offsets = offsets if problem.fixes_sum_of_offsets else offsets.astype(dtype)

    def above(level: float) -> Thinned:
        kept = whole.copy()
        kept.data[np.abs(kept.data) < level] = 0.0
        kept.eliminate_zeros()
        return Thinned(kept, offsets, objective_of(problem, kept, offsets))

    best = above(0.0)
    if not best.primal <= ceiling:
        raise ValueError(
            f"budget is not valid: rounding the class vectors to {np.dtype(dtype)} alone raises the objective to "
            f"{best.primal:.10g}, above {ceiling:.10g}; use a larger budget or dtype=None."
        )
    low, high = 0, len(levels)  # all entries are kept; none
    while high - low > max(1.0, _CLOSE * (len(levels) - low)):
        middle = (low + high) // 2
        found = above(float(levels[middle]))
        if found.primal <= ceiling:
            low, best = middle, found
        else:
            high = middle
    return best


def objective_of(problem: Any, vectors: Any, offsets: NDArray[Any]) -> float:
    """F of class vectors (c, d), in double precision; sparse ones stay sparse."""
    if sparse.issparse(vectors):
        W: Any = sparse.csr_array(vectors.T, dtype=np.float64)
    else:
        W = np.asarray(vectors, dtype=np.float64).T
    return float(problem.primal(W, np.asarray(offsets, dtype=np.float64)))
