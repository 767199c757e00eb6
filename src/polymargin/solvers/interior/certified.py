"""What an iterate of a quadratic interior point proves, and the arrays it ends with.

F is evaluated with the exact hinge. Duals are repaired first: a circulation between the classes if b is free (`bounds.py`),
inside their domains. So the dual value never exceeds the optimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.solvers.bounds import balancing_factors
from polymargin.solvers.interior.blocks.row_terms import RowTerms
from polymargin.solvers.interior.systems.sorted_rows import EPS, SortedRows

Array = NDArray[np.float64]


@dataclass
class Best:
    """Best certified values so far and where they were reached."""

    primal: float = np.inf
    dual: float = -np.inf
    V: Array | None = None  # (c, q): W', and b in the last column
    V_tau: Array | None = None  # tau of the iterate that gave V
    tau: Array | None = None  # repaired

    @property
    def gap(self) -> float:
        return self.primal - self.dual


def primal_value(rows: SortedRows, block: RowTerms, V: Array) -> float:
    """F of the unknowns."""
    W = V[:, : rows.n_penalised]
    return 0.5 * float(np.vdot(W, W / rows.scales[:, None])) + block.loss(V @ rows.T)


def dual_value(rows: SortedRows, block: RowTerms, tau: Array) -> tuple[Array, float]:
    """tau (c, n), repaired, and its dual value."""
    a = -tau
    a.ravel()[rows.own] = 0.0
    a = block.feasible(_balanced(rows, a) if rows.has_intercept else a)
    tau = -a
    tau.ravel()[rows.own] = a.sum(axis=0)
    W = tau @ rows.T[: rows.n_penalised].T
    lost = 0.5 * rows.lost * float(rows.scales.max()) * float(np.vdot(tau, tau))
    return tau, block.gain(tau) - 0.5 * float(np.vdot(W, rows.scales[:, None] * W)) - lost


def _balanced(rows: SortedRows, a: Array) -> Array:
    """Duals (c, n) of the same signs whose tau sums to zero over the rows; negative ones flow back to the own class."""
    first = rows.starts[:-1]  # no class is empty if b is free
    with np.errstate(all="ignore"):
        if a.min() >= 0.0:
            return np.asarray(a * balancing_factors(np.add.reduceat(a, first, axis=1).T).T[:, rows.y])
        there, back = (np.add.reduceat(np.maximum(part, 0.0), first, axis=1) for part in (a, -a))
        factors = balancing_factors(there.T + back)
        return np.asarray(a * np.where(a < 0.0, factors[:, rows.y], factors.T[:, rows.y]))


def tolerated(rows: SortedRows, target: float) -> float:
    """Gap that may be due to the rounding of margins of order 1, but never more than half the target."""
    return min(0.5 * target, 16.0 * EPS * float(rows.class_cost.sum()))


class CertifiedArrays(NamedTuple):
    """W (d, c), b (c,) and a (c, n) for X as given, and the values of exactly these arrays."""

    W: Array
    b: Array
    a: Array
    primal: float
    dual: float


def certified(rows: SortedRows, block: RowTerms, best: Best) -> CertifiedArrays:
    """The end: back to the coordinates of X, and all values anew."""
    assert best.V is not None and best.V_tau is not None and best.tau is not None
    p, c = rows.n_penalised, rows.n_classes
    W = rows.back(best.V[:, :p] / rows.scales[:, None], best.V_tau) * rows.scales
    b = best.V[:, p] - rows.mean @ W if rows.has_intercept else np.zeros(c)
    # Active margins are 1 up to rounding, which costs u * eps each; a hair longer, W has them all at 1.
    S, R = np.ascontiguousarray((rows.X @ W + b).T), 0.5 * float(np.vdot(W, W / rows.scales))
    primal, scale = min((t * t * R + block.loss(t * S), t) for t in (1.0, 1.0 + 16.0 * EPS))
    a = -best.tau
    a.ravel()[rows.own] = 0.0
    return CertifiedArrays(scale * W, scale * b, a, primal, _value_of_arrays(rows, block, best.tau))


def _value_of_arrays(rows: SortedRows, block: RowTerms, tau: Array) -> float:
    """Dual value of tau, from X as given."""
    Z = rows.X.T @ tau.T - np.outer(rows.mean, tau.sum(axis=1))
    # sums of long rows that nearly cancel are known to rounding only
    error = 4.0 * EPS * float(np.abs(tau).sum()) * math.sqrt(rows.largest_norm)
    return block.gain(tau) - 0.5 * float(np.vdot(Z, Z * rows.scales)) - error * (error + float(np.linalg.norm(Z)))
