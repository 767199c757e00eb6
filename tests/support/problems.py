"""Random problems of all kinds, one a seed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from reference import row_weights


@dataclass(frozen=True)
class Problem:
    X: Any
    y: np.ndarray
    C: float
    sample_weight: np.ndarray | None
    class_weight: Any
    fit_intercept: bool
    single: bool  # float32
    duplicates: bool
    wide: bool  # n < d

    @property
    def v(self) -> np.ndarray:
        return row_weights(self.y, self.sample_weight, self.class_weight)


def random_problem(seed: int) -> Problem:
    """2-8 classes; the other features of the problem go through all their combinations with the seed."""
    rng = np.random.default_rng(seed)
    c = 2 + seed % 7
    fit_intercept, sparse, single, weighted, duplicates, wide = (bool(seed >> bit & 1) for bit in range(6))
    n = int(rng.integers(3 * c, (4 if wide else 8) * c))
    d = n + 3 if wide else int(rng.integers(2, min(9, n)))
    y = np.r_[np.arange(c), rng.integers(0, c, n - c)]
    X = rng.uniform(0.3, 2.0) * rng.standard_normal((c, d))[y] / np.sqrt(d) ** wide + rng.standard_normal((n, d))
    if duplicates:  # the same row again, sometimes under another label
        X[n // 2 :] = X[rng.integers(0, n // 2, n - n // 2)]
    if sparse:
        X *= rng.random((n, d)) < 0.5
    sample_weight = None
    if weighted:
        sample_weight = rng.uniform(0.1, 3.0, n)
        sample_weight[c:][rng.random(n - c) < 0.15] = 0.0
    class_weight = [None, "balanced", {0: 0.3, c - 1: 4.0}][int(rng.integers(3))]
    X = X.astype(np.float32 if single else np.float64)
    labels = np.array(["c", "a", "b", "h", "e", "d", "g", "f"])[:c] if seed % 5 == 4 and class_weight is None else None
    return Problem(
        X=sp.csr_array(X) if sparse else X,
        y=y if labels is None else labels[y],
        C=float(10 ** rng.uniform(-2, 1 if single else 2)),
        sample_weight=sample_weight,
        class_weight=class_weight,
        fit_intercept=fit_intercept,
        single=single,
        duplicates=duplicates,
        wide=wide,
    )
