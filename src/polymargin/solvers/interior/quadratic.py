"""Interior point for hinge-type losses with a quadratic penalty.

Problem, with ``X (n, d)``, ``W (d, c)``, free ``b (c,)``, scores ``S = X W + 1 b'``, costs ``u_i = C v_i``::

    min_{W, b}  F(W, b) = 1/2 ||W||_F^2 + sum_i u_i loss_i(S_i)
    loss_i = max_{k != y} [1 - (s_y - s_k)]_+          "crammer_singer"
    loss_i = sum_{k != y} [1 - (s_y - s_k)]_+          "weston_watkins"

and others (`blocks/`). Dual, in the off-class multipliers ``a_il >= 0`` with ``tau_il = -a_il``, ``tau_iy = sum_l a_il``::

    max_a  sum_il a_il - 1/2 ||X' tau||_F^2,    sum_i tau_ik = 0 for every k if b is free
    sum_l a_il <= u_i    "crammer_singer",      a_il <= u_i    "weston_watkins"

Slacks and multipliers are eliminated row by row (`blocks/`). What is left is one system in (W, b) (`systems/laplacian.py`).
With class scales ``beta`` the penalty is ``sum_k ||w_k||^2 / (2 beta_k)`` and ``w_k = beta_k X' tau_k``.

Every iterate is certified (`certified.py`). In the end the optimality conditions are solved on the face the iterates tend to
(`polish.py`): W is then exact to rounding.

References: Crammer & Singer, JMLR 2 (2001) 265-292; Weston & Watkins, ESANN (1999) 219-224.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polymargin.problems.classes import Problem
from polymargin.solvers.interior.blocks import BLOCKS
from polymargin.solvers.interior.blocks.max_terms import Array, Labels
from polymargin.solvers.interior.blocks.row_terms import RowTerms
from polymargin.solvers.interior.central_path import Path, follow_central_path
from polymargin.solvers.interior.certified import Best, certified, dual_value, primal_value, tolerated
from polymargin.solvers.interior.polish import centre_offsets, polish
from polymargin.solvers.interior.systems.laplacian import LaplacianSystem
from polymargin.solvers.interior.systems.sorted_rows import SortedRows
from polymargin.solvers.progress import Stall

PROXIMAL = 1e-11, 1e-6  # of max ||x||^2, and of 1/u_i: see _proximal
NEAR = 0.01  # of F: before, duals prove next to nothing
PATIENCE = 5  # iterations without halving the gap, once rounding dominates
_HOPELESS = 60  # iterations in which neither the gap nor the products have come down by a tenth

# Of the classes, costs, number of classes and proximal terms of the sorted rows, and of which rows these are.
BlockMaker = Callable[[Labels, Array, int, Array, Labels], RowTerms]
Note = Callable[[float, float], None]


class InteriorPointResult(NamedTuple):
    """Coefficients, duals and certificate; ``primal`` and ``dual`` are the values of the arrays returned."""

    W: Array  # (d, c), sum_k w_k / beta_k = 0
    b: Array  # (c,), sum_k b_k = 0
    a: Array  # (n, c), a[i, y_i] = 0
    primal: float
    dual: float
    n_iter: int


def interior_point(
    problem: Problem,
    *,
    tol: float,
    max_iter: int,
    on_iteration: Note | None = None,
    scales: Array | None = None,
    given: Array | None = None,
    block: str | BlockMaker | None = None,
) -> InteriorPointResult:
    """Minimises F until ``primal - dual <= tol * |primal|``, `max_iter` steps, or rounding stops the progress.

    Parameters
    ----------
    problem : of whose penalty nothing is asked: it is the quadratic one of `scales`
        Meant for small ``min(n, d) * n_classes``: the Newton matrix is dense. Rows of cost 0 take no part.
    tol : relative duality gap
    max_iter : hard limit of Newton steps
    on_iteration : called as ``on_iteration(primal, dual)`` with the best values so far; may raise to stop
    scales : (n_classes,) positive class scales beta, None for 1
    given : (n, c) scores that are added to ``X W + 1 b'``, or None
    block : key of ``BLOCKS``, or a function that makes a block; None for that of the problem's loss

    Notes
    -----
    The optimal b need not be unique. For the optimal W it is a set ``{b : b_k - b_l <= m_kl}``; b is its
    centre ``b_k = 1/2 mean_l (m_kl - m_lk)`` with the tightest m, the mid-point for two classes. That depends
    on which rows there are, not on whether a row is weighted or repeated.
    """
    X, y, cost = problem.X.astype(np.float64, copy=False), problem.y.astype(np.intp), problem.cost
    n_classes, make = problem.n_classes, _maker(problem, block)
    order = np.argsort(y, kind="stable")
    order = order[cost[order] > 0.0]
    # With a free b a class without rows has b = -inf: it takes no part, and gets a finite b in the end.
    classes = np.unique(y[order]) if problem.fit_intercept else np.arange(n_classes)
    W, b, a = np.zeros((X.shape[1], n_classes)), np.zeros(n_classes), np.zeros((y.size, n_classes))
    if order.size == 0 or classes.size < 2:
        b[classes] = 1.0  # one class at most: a margin of 1 for nothing
        return InteriorPointResult(W, b - b.mean(), a, 0.0, 0.0, 0)
    scales = np.ones(n_classes) if scales is None else scales
    given = _with_targets(problem, given)
    given = None if given is None else np.ascontiguousarray(given[order][:, classes].T)
    present = np.searchsorted(classes, y[order])
    rows = SortedRows(X[order], present, cost[order], scales[classes], problem.fit_intercept)
    slacks = make(rows.y, rows.cost, classes.size, _proximal(rows), order)
    if given is not None:
        slacks.shift(given)
    path = _QuadraticPath(rows, slacks, tol, on_iteration)
    n_iter = follow_central_path(path, max_iter)[1]
    path.bound()  # of the last iterate, far from the optimum as it may be
    with np.errstate(all="ignore"):  # a wrong face may lead anywhere: it is not accepted
        polish(rows, slacks, path.best, tol)
    if problem.fit_intercept:
        centre_offsets(rows, slacks, path.best, tol)
    W[:, classes], b[classes], duals, primal, dual = certified(rows, slacks, path.best)
    a[order[:, None], classes] = duals.T
    if classes.size < n_classes:
        own = (rows.X @ W + b)[np.arange(order.size), y[order]]
        reach = 1.0 if problem.loss.unit_targets else max(1.0, float(problem.loss.targets(n_classes).max()))
        b[np.isin(np.arange(n_classes), classes, invert=True)] = own.min() - reach  # no margin is violated
    return InteriorPointResult(W, b - b.mean(), a, primal, dual, n_iter)


def _with_targets(problem: Problem, given: Array | None) -> Array | None:
    """The scores of rivals are given a lead of what their margins should reach beyond 1."""
    if problem.loss.unit_targets:
        return given
    lead = problem.loss.targets(problem.n_classes)[problem.y] - 1.0
    lead[np.arange(problem.n_rows), problem.y] = 0.0
    return lead if given is None else given + lead


def _maker(problem: Problem, block: str | BlockMaker | None) -> BlockMaker:
    if callable(block):
        return block
    name, parameters = (problem.loss.interior_block, problem.loss.row_parameters) if block is None else (block, ())
    if name not in BLOCKS:
        raise ValueError(f"block={name!r} is unknown; choose one of {sorted(BLOCKS)}.")
    kind = BLOCKS[name]
    return lambda y, cost, n_classes, proximal, order: kind(y, cost, n_classes, proximal, *parameters)


def _proximal(rows: SortedRows) -> Array:
    """How far a slack may deviate per unit of its multiplier's change, (n,).

    Large enough that the penalty is not lost in the rounding of ``theta ||x||^2``, small enough that a
    multiplier that crosses its whole range [0, u] does not disturb a margin.
    """
    return np.minimum(PROXIMAL[0] * rows.largest_norm, PROXIMAL[1] / rows.cost)


class _QuadraticPath(Path):
    """The rows' block on the Laplacian system; keeps the best values that were certified."""

    block: RowTerms

    def __init__(self, rows: SortedRows, block: RowTerms, tol: float, on_iteration: Note | None):
        self.rows, self.block, self.system = rows, block, LaplacianSystem(rows)
        self.tol, self.on_iteration = tol, on_iteration
        self.best, self.stall, self.hope = Best(), Stall(PATIENCE, 0.5), Stall(_HOPELESS, 0.9, 0.9)
        self.V = self._start()
        block.start(self.system.scores(self.V))

    def _start(self) -> Array:
        """Best point on the ray of the balanced duals a_il ~ u_i * (cost of class l): scores of a fair size."""
        rows = self.rows
        tau = np.outer(rows.class_cost / -rows.class_cost.sum(), rows.cost)
        tau.ravel()[rows.own] += rows.cost
        Z = self.system.sums(tau)
        Z[:, rows.n_penalised :] = 0.0
        V = rows.scales[:, None] * Z
        squared = float(np.vdot(Z, V))
        return V * min(1.0, float(tau.ravel()[rows.own].sum()) / squared) if squared > 0.0 else V

    def prove(self, n_iter: int) -> bool:
        rows, best, V = self.rows, self.best, self.V
        tau, primal = self.block.pull(), primal_value(rows, self.block, V)
        if primal < best.primal or best.V is None:  # the first may be beyond all numbers
            best.primal, best.V, best.V_tau = primal, V.copy(), tau
        if best.tau is None or self.block.complementarity() <= NEAR * best.primal:
            self.bound()
        self.residual = self.system.sums(tau)  # of stationarity, tau X - (W', 0)
        self.residual[:, : rows.n_penalised] -= V[:, : rows.n_penalised] / rows.scales[:, None]
        if self.on_iteration is not None:
            self.on_iteration(best.primal, best.dual)
        target = self.tol * best.primal
        # The values are summed again in the end, in the coordinates of X: leave room for rounding.
        return best.gap <= target - tolerated(rows, target)

    def bound(self) -> None:
        """What the multipliers prove."""
        repaired, dual = dual_value(self.rows, self.block, self.block.pull())
        if dual > self.best.dual or self.best.tau is None:
            self.best.dual, self.best.tau = dual, repaired

    def stalls(self) -> bool:
        """The products promise a far smaller gap, and it does not fall any more: that is rounding. Or nothing falls."""
        best, products = self.best, self.block.complementarity()
        falls = products > 0.1 * best.gap or best.gap > NEAR * best.primal
        return self.stall.note(best.gap, excused=falls) or self.hope.note(best.gap, products)

    def linearise(self) -> None:
        self.system.factorise(self.block.linearise())

    def direction_of(self, pull: Array, target: Any) -> tuple[Array, Array]:
        dV = self.system.solve(self.system.sums(pull) + self.residual)
        return dV, self.system.scores(dV)
