"""What an iterate of a quadratic interior point proves, and the arrays it ends with.

F is evaluated with the exact hinge, and a dual whose columns sum to ``r != 0`` is charged ``1/2 ||r||_1`` times a bound of
the spread of the optimal b: the dual value never exceeds the optimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
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
    tau: Array | None = None

    @property
    def gap(self) -> float:
        return self.primal - self.dual


def primal_value(rows: SortedRows, block: RowTerms, V: Array) -> float:
    """F of the unknowns."""
    W = V[:, : rows.n_penalised]
    return 0.5 * float(np.vdot(W, W / rows.scales[:, None])) + block.loss(V @ rows.T)


def dual_value(rows: SortedRows, block: RowTerms, tau: Array, V: Array, primal: float) -> tuple[Array, float]:
    """tau X, (c, q), and the dual value; `primal` is F at V."""
    Z = tau @ rows.T.T
    W, r = Z[:, : rows.n_penalised], Z[:, rows.n_penalised :]
    lost = 0.5 * rows.lost * float(rows.scales.max()) * float(np.vdot(tau, tau))
    dual = block.gain(tau) - 0.5 * float(np.vdot(W, rows.scales[:, None] * W)) - lost
    return Z, dual - _imbalance(rows, block, r, dual, V, primal)


def _imbalance(rows: SortedRows, block: RowTerms, r: Array, dual: float, V: Array, primal: float) -> float:
    """How much too large the dual value may be if sum_i tau_i = r: r'b* <= 1/2 ||r||_1 (max b* - min b*).

    At the optimum the rows of class y, with mean x_y and total cost U_y, lose at most `primal`, so that
    ``b*_l - b*_y <= primal/U_y - 1 + (w*_y - w*_l)'x_y``. With w in place of w* the last term changes by at
    most ``2 e ||x_y|| sqrt(max beta)``, ``e^2 = primal - F*``, as F is strongly convex in W: a quadratic
    inequality for e. A loss that bounds only sums of m such differences bounds the one of the largest and the smallest
    offset by them: with y that of the smallest, none of the others is negative.
    """
    if not r.size:
        return 0.0
    size = float(np.abs(r).sum())
    scores = V[:, : rows.n_penalised] @ rows.class_mean.T + rows.class_given  # of the means, one per column
    m = block.n_rivals
    below = np.sort(scores.diagonal() - scores, axis=0)[-m:].sum(axis=0)
    charge = 0.5 * size * max(0.0, float((block.mean_hinge(primal, rows.class_cost) - m + below).max()))
    slope = m * size * rows.largest_mean * math.sqrt(rows.scales.max())
    return charge + 0.5 * slope * (slope + math.sqrt(slope**2 + 4.0 * max(0.0, primal - dual + charge)))


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


def certified(rows: SortedRows, block: RowTerms, best: Best, tol: float) -> CertifiedArrays:
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
    a = block.feasible(a)
    dual, r = _dual_of_arrays(rows, block, a, best.V, primal)
    if rows.has_intercept and np.abs(r).max() > 1e-13 * a.sum():  # stopped before r was down to rounding
        with np.errstate(all="ignore"):
            repaired = block.feasible(_balanced(rows, a))
            value, _ = _dual_of_arrays(rows, block, repaired, best.V, primal)
        if primal - value <= max(primal - dual, tol * primal):
            a, dual = repaired, value
    return CertifiedArrays(scale * W, scale * b, a, primal, dual)


def _balanced(rows: SortedRows, a: Array) -> Array:
    """Duals (c, n) of the same signs whose tau sums to zero over the rows; negative ones flow back to the own class."""
    flows = np.array([np.maximum(a[:, i:j], 0.0).sum(axis=1) for i, j in pairwise(rows.starts)])
    back = np.array([np.maximum(-a[:, i:j], 0.0).sum(axis=1) for i, j in pairwise(rows.starts)])
    factors = balancing_factors(flows + back.T)
    return np.asarray(a * np.where(a < 0.0, factors[:, rows.y], factors.T[:, rows.y]))


def _dual_of_arrays(rows: SortedRows, block: RowTerms, a: Array, V: Array, primal: float) -> tuple[float, Array]:
    """Dual value of a (c, n), from X as given, and the sums of tau."""
    tau = -a
    tau.ravel()[rows.own] = a.sum(axis=0)
    r = tau.sum(axis=1)
    Z = rows.X.T @ tau.T - np.outer(rows.mean, r)
    # sums of long rows that nearly cancel are known to rounding only
    error = 4.0 * EPS * float(np.abs(tau).sum()) * math.sqrt(rows.largest_norm)
    dual = block.gain(tau) - 0.5 * float(np.vdot(Z, Z * rows.scales)) - error * (error + float(np.linalg.norm(Z)))
    return dual - _imbalance(rows, block, r[: rows.n_classes * rows.has_intercept], dual, V, primal), r
