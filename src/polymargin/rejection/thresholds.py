"""Thresholds on a confidence with guarantees that hold for any classifier and any distribution, for so many held-out rows.

Held-out rows and the rows to come are to be drawn alike, and independently of the fit.

- `for_coverage`: a row to come is accepted with probability at least `coverage`, over held-out rows and itself. With n
  held-out confidences the threshold is their k-th smallest, ``k = floor((n + 1)(1 - coverage))``: by exchangeability a new
  one is below it with probability at most k / (n + 1).
- `for_risk`: with probability at least 1 - delta over the held-out rows, the share of errors among accepted rows to come is
  at most `risk`. Learn then test (Angelopoulos, Bates, Candes, Jordan and Lei 2021) with a fixed sequence: for a threshold
  that is fixed beforehand, the errors among the m accepted held-out rows are binomial, so ``P(Bin(m, risk) <= errors)`` is a
  p-value of "the risk is above `risk`" (the exact bound of Clopper and Pearson). Thresholds are tested from the highest
  down, each at level delta, up to the first that fails; the one before it is taken. So the first true hypothesis is rejected
  with probability delta at most, and no correction for the number of thresholds is needed. The thresholds are quantiles of
  other rows.
- `quantile_of_strangeness`: split conformal prediction. The set of all classes no stranger than the
  ``ceil((n + 1)(1 - alpha))``-th smallest strangeness of the true class on held-out rows has the true class with probability
  at least 1 - alpha.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

Array = NDArray[np.float64]

_LEVELS = 200  # thresholds of the sequence, at most
_STARTS_AT = 2.0  # the first threshold accepts so many times the rows without which nothing can be proven, if there are more


def for_coverage(confidences: Array, coverage: float) -> float:
    """The threshold that accepts a share `coverage` of rows to come; minus infinity for all."""
    k = math.floor((len(confidences) + 1) * (1.0 - coverage) + 1e-9)
    return -np.inf if k == 0 else float(np.sort(confidences)[k - 1])


def fewest_rows(risk: float, delta: float) -> int:
    """Accepted rows without an error that prove the risk."""
    return math.ceil(math.log(delta) / math.log1p(-risk))


def for_risk(confidences: Array, wrong: NDArray[np.bool_], grid_rows: Array, risk: float, delta: float) -> float:
    """The lowest threshold whose risk is proven; infinity if there is none."""
    proven = np.inf
    for threshold in _sequence(grid_rows, len(confidences), fewest_rows(risk, delta)):
        accepted = confidences >= threshold
        errors, m = int(wrong[accepted].sum()), int(accepted.sum())
        if m == 0 or bdtr(errors, m, risk) > delta:
            break
        proven = threshold
    return proven


def _sequence(grid_rows: Array, n: int, needed: int) -> Array:
    """Quantiles of the confidences of other rows, from high to low, the last of which accepts all of them.

    The first is to accept twice the rows that a proof needs, or half of what there is beyond those: that depends on other
    rows and on n, not on what is tested.
    """
    first = min(1.0, _STARTS_AT * needed / n, 0.5 * (needed + n) / n)
    shares = np.linspace(first, 1.0, max(2, min(_LEVELS, len(grid_rows))))
    levels = np.unique(np.quantile(grid_rows, 1.0 - shares, method="lower"))[::-1]
    return np.append(levels, -np.inf)  # and all rows


def quantile_of_strangeness(strangeness_of_truth: Array, alpha: float) -> float:
    """What the classes of a conformal set may have at most; infinity where there are too few rows to leave out any."""
    n = len(strangeness_of_truth)
    k = math.ceil((n + 1) * (1.0 - alpha) - 1e-9)
    return np.inf if k > n else float(np.sort(strangeness_of_truth)[k - 1])
