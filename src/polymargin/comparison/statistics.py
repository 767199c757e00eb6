"""Who is better, and how sure that is: scores of repeated cross-validation are not independent, and the tests know it.

The corrected resampled t-test (Nadeau & Bengio 2003) inflates the variance of the mean difference over k splits from s^2/k
to (1/k + n_test/n_train) s^2. Read as a posterior (Corani & Benavoli 2015) the same distribution gives the probability that
one machine is better than another. p-values of several comparisons are corrected by Holm's procedure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


class Difference(NamedTuple):
    """Mean difference of paired scores, its standard error, two-sided p-value, and the probability that it is positive."""

    mean: float
    standard_error: float
    p_value: float
    probability: float


def corrected_t_test(first: ArrayLike, second: ArrayLike, test_share: float, resolution: float = 0.0) -> Difference:
    """Compares paired scores of the same splits.

    Parameters
    ----------
    first, second : array-like of shape (n_splits,)
    test_share : float
        n_test / n_train of a split.
    resolution : float, default=0
        The score of one test row, 1 / n_test: the least standard deviation. Scores are counted in rows, and the same
        difference on a few splits is no proof that it has none.
    """
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    k, mean = len(differences), float(differences.mean())
    if k < 2:
        return Difference(mean, float("nan"), 1.0, 0.5)
    error = float(np.sqrt((1.0 / k + test_share) * max(differences.var(ddof=1), resolution**2)))
    if error == 0.0:  # the same difference everywhere
        return Difference(mean, 0.0, 1.0 if mean == 0.0 else 0.0, 0.5 if mean == 0.0 else float(mean > 0))
    t = mean / error
    return Difference(mean, error, float(2 * stats.t.sf(abs(t), k - 1)), float(stats.t.cdf(t, k - 1)))


def half_width(scores: ArrayLike, test_share: float, resolution: float = 0.0, confidence: float = 0.95) -> float:
    """Half the width of the corrected confidence interval of a mean score; `resolution` as in `corrected_t_test`."""
    scores = np.asarray(scores, dtype=np.float64)
    k = len(scores)
    if k < 2:
        return float("nan")
    error = np.sqrt((1.0 / k + test_share) * max(scores.var(ddof=1), resolution**2))
    return float(stats.t.ppf(0.5 + confidence / 2, k - 1) * error)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's adjusted p-values."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    steps = p[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted
