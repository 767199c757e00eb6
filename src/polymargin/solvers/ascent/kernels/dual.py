"""The dual of a kernel machine on few rows at a time: no feature map, no whole kernel matrix.

    maximise  D = sum_il a_il delta_yl - R*(Z)      (free intercept: sum_i tau_ik = 0)

with tau_iy = sum_l a_il, tau_il = -a_il, ``Z = X' tau``, and sums ``S_ik = (K tau)_ik`` kept for all n rows. Scores are S in
a metric between the classes, the identity for ``R = 1/2 |W|^2`` (``metrics.py``). Repeat:

1. working set: the rows with a dual, and those outside with the largest gaps; all other rows rest;
2. the dual on the working set, by row sub-problems on its block of K (``_core/kernel_loop.hpp``), to a part of its gap;
   a metric that follows the machine moves between rounds of it;
3. the steps of the working set go into all sums by one matrix product with its rows of K, which are cached.

So rows that never have a dual cost n c operations a round, but no row of K. The intercept is a proximal point method
inside of 2. Primal values are those of tau itself; the bound is that of tau repaired to a circulation (``bounds.py``).

References
    Joachims. Making large-scale SVM learning practical, 1999. Wen et al. ThunderSVM. JMLR 19, 2018.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin._core import native
from polymargin.problems.certificate import Certificate, Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.kernels.gram_rows import GramRows, Rows
from polymargin.solvers.ascent.kernels.metrics import metric_of
from polymargin.solvers.ascent.loops import domain_of, targets_of
from polymargin.solvers.bounds import balancing_factors, flows_of, reduced_to_balance, signed
from polymargin.solvers.progress import Stall
from polymargin.solvers.types import SparseDuals, Start, sparse_duals

if TYPE_CHECKING:
    from polymargin.features.kernel_map import KernelMap

_FIRST = 512  # rows of the first working set
_GROWTH = 0.35  # rows that join a working set, relative to those that stay, and at least
_JOIN = 256
_PART = 0.1  # of a working set's gap that is left before the others are looked at
_PATIENCE = 15  # rounds without progress until rounding is to blame
_SLICE = 2.0  # visits of a working set, in parts of its rows, between two moves of the metric
_MOVES = 30  # of the metric on a working set
_INNER = 0.3  # of the goal, or of the price of the metric: what ends them before

Array = NDArray[np.float64]


class KernelSolution(NamedTuple):
    """Duals, the rows with such and their coefficients, offsets, R and F of the machine they make, and its certificate.

    `W` are its class vectors in c coordinates, if the metric needs them: no norm and no distance of them is another one.
    """

    duals: SparseDuals
    support: Rows
    A: Array
    b: Array
    W: Array
    scales: Array | None
    penalty: float
    primal: float
    certificate: Certificate


def kernel_dual(
    problem: Problem, ledger: Ledger, mapping: KernelMap, *, max_iter: int, seed: int, start: Start | None = None
) -> KernelSolution:
    """Solves `problem`, whose X holds the rows themselves, with the kernel of `mapping`, which must be semi-definite.

    Its loss `is_plain` (``loops.py``), and its penalty `is_metric` (``metrics.py``).
    """
    state = _State(problem, mapping, seed, start)
    budget, precision = max_iter * problem.n_rows, 0.7
    stall = Stall(_PATIENCE - 1, 0.9, must_pay=True)
    best: KernelSolution | None = None
    rows = state.first_rows()
    interrupted = False
    while True:
        try:
            state.ascend(rows, precision * ledger.tol, budget - state.visits)
        except KeyboardInterrupt:
            if not ledger.keeps_interrupted:
                raise
            interrupted = True  # the scores of the last round are formed anew below
        at_end = stall.note(state.estimate) or state.visits >= budget or interrupted
        if state.estimate <= ledger.tol * state.primal or at_end:
            precision *= 0.5
            state.refresh()
            ledger.add(state.primal, state.bound(), state.epochs)
            if best is None or state.primal < best.primal:
                best = state.solution(ledger)
            if ledger.done or at_end:
                break
        rows = state.next_rows(rows, ledger.tol)
    status = "interrupted" if interrupted else "max_iter" if state.visits >= budget else "stalled"
    return best._replace(certificate=ledger.close(min(max_iter, state.epochs), status))


class _State:
    """The iterate: duals a (n, c), sums S (c, n) of kernel values, offsets b, the metric, and the gaps of all rows."""

    def __init__(self, problem: Problem, mapping: KernelMap, seed: int, start: Start | None):
        n, c = problem.n_rows, problem.n_classes
        self.name = domain_of(problem, plain=True)
        assert problem.loss.domain is not None  # else it had no name
        self.domain, self.parameters = problem.loss.domain, problem.loss.row_parameters
        self.targets = targets_of(problem)
        self.y, self.cost, self.n, self.c = problem.y, problem.cost, n, c
        self.metric, self.offset_value = metric_of(problem.penalty, c, start), problem.penalty.offset_value
        self.ridge = float(problem.penalty.offset_gradient(np.ones(1))[0])  # what offsets cost
        reserved = 8.0 * (4 if self.metric.is_fixed else 6) * n * c
        self.gram = GramRows(problem.X, mapping, reserved, most=cost_model.KERNEL_WORKING_SET)
        self.rng = np.random.default_rng(seed)
        self.intercept, self.proximal_weight = problem.fit_intercept, 0.0
        self.a, self.S = np.zeros((n, c)), np.zeros((c, n))
        self.b, self.sums, self.gaps = np.zeros(c), np.zeros(c), np.zeros(n)
        self.visits = 0
        if start is not None:
            self._start_from(start)
        self._look()

    def _start_from(self, start: Start) -> None:
        self.a[:] = start.duals.dense(len(self.b))
        if self.intercept:
            self.b[:] = start.b
        self.sums = self._signed(np.arange(self.n)).sum(axis=0)
        self.gram.add_product(self._support(), self._signed(self._support()), self.S)

    @property
    def epochs(self) -> int:
        return -(-self.visits // self.n)

    @property
    def estimate(self) -> float:
        """The gap, and about what the repair of the balance is going to cost."""
        return float(self.gaps.sum()) + self.metric.price() + self._imbalance()

    def _imbalance(self) -> float:
        if not self.intercept:
            return 0.0
        off = self.sums - self.ridge * self.b
        repair = float(np.abs(off).sum())
        return min(repair, float(off @ off) / (2.0 * self.ridge)) if self.ridge > 0.0 else repair

    def _support(self) -> Rows:
        return np.flatnonzero(self.a.any(axis=1))

    def _signed(self, rows: Rows) -> Array:
        """tau of these rows."""
        return signed(self.a[rows], self.y[rows])

    def _look(self) -> None:
        """Gaps of all rows and the objective."""
        support = self._support()
        self.products = self.metric.products(self._signed(support), self.S[:, support].T)
        self.metric.see(self.products, self._linear(self.a, self.y))
        rules, scores = (self.parameters, self.targets), self.metric.scores(self.S)
        loss = native.kernel_gaps(self.name, scores, self.a, self.y, self.cost, self.b, self.gaps, *rules)
        self.primal = loss + self.penalty

    @property
    def penalty(self) -> float:
        return self.metric.penalty() + self.offset_value(self.b)

    def first_rows(self) -> Rows:
        """Any rows, since all tie; after a warm start those with duals and the worst others."""
        support = self._support()
        if len(support):
            return self.next_rows(support, 0.0)
        return np.sort(self.rng.permutation(self.n)[: min(_FIRST, self.gram.largest)])

    def next_rows(self, rows: Rows, tol: float) -> Rows:
        """Keeps what may move; if that is too much, its worse half. Then the worst of the others join."""
        kept = rows[self.a[rows].any(axis=1) | (self.gaps[rows] > 0.0)]
        if len(kept) > self.gram.largest - _JOIN:
            kept = _worst(kept, self.gaps, self.gram.largest // 2)
        outside = self.gaps > 1e-3 * tol * self.primal / self.n
        outside[kept] = False
        others = np.flatnonzero(outside)
        joining = min(max(_JOIN, int(_GROWTH * len(kept))), self.gram.largest - len(kept))
        return np.sort(np.concatenate([kept, _worst(others, self.gaps, joining)]))

    def ascend(self, rows: Rows, tol: float, max_visits: int) -> None:
        """Solves the dual on `rows` and carries its steps to all scores."""
        K, metric = self.gram.block(rows), self.metric
        if self.intercept and not self.proximal_weight:
            self.proximal_weight = _proximal_weight(K)
        S, a, before = np.ascontiguousarray(self.S[:, rows]), self.a[rows], self._signed(rows)
        goal = max(tol * self.primal, _PART * (float(self.gaps[rows].sum()) + metric.price()))
        y, cost, first, others = self.y[rows], self.cost[rows], S.copy(), self._linear(self.a, self.y)
        others -= self._linear(a, y)
        left = max_visits
        for moves in range(1, _MOVES + 1):
            inner, most = goal, left
            if not metric.is_fixed:
                inner = _INNER * max(goal, metric.price())
                most = min(left, max(1, int(_SLICE * len(rows))))
            inverse_rho, seed = self._inverse_rho(), int(self.rng.integers(2**63))
            visits, gap = native.kernel_ascend(
                self.name, K, S, a, y, cost, self.b, self.sums, inverse_rho, inner, most, seed,
                self.parameters, self.targets, self.ridge, metric.scales, metric.mixing,
            )
            left -= visits
            if metric.is_fixed:
                break  # the loop has seen to the goal
            change = signed(a, y) - before
            products = self.products + metric.products(change, (first + S).T)
            metric.see(products, others + self._linear(a, y))
            if gap + metric.price() + self._imbalance() <= goal or left <= 0 or moves == _MOVES:
                break
            metric.step(tol)
        self.visits += max_visits - left
        self.a[rows] = a
        self.gram.add_product(rows, self._signed(rows) - before, self.S)
        self._look()

    def _inverse_rho(self) -> float:
        """How b moves with the sums: that of the proximal step, and with a price of offsets less."""
        if not self.intercept:
            return 0.0
        scales = self.metric.scales
        weight = self.proximal_weight * (1.0 if scales is None else float(np.median(scales)))
        return weight / (1.0 + self.ridge * weight)

    def refresh(self) -> None:
        """Scores from scratch, in double precision: what counts is the machine, not the way to it."""
        support = self._support()
        tau = self._signed(support)
        self.S[:] = 0.0
        self.gram.add_exact_product(support, tau, self.S)
        self.sums = tau.sum(axis=0)
        self._look()

    def bound(self) -> float:
        """The dual value of a feasible point near the iterate."""
        linear = self._linear(self.a, self.y)
        if not self.intercept:
            return self.metric.bound(self.products, None, linear, 1.0)
        support = self._support()
        y = self.y[support]
        flows = flows_of(self.a, self.y)
        as_it_is = self.metric.bound(self.products, self.sums, linear, 1.0) if self.ridge > 0.0 else -np.inf
        balanced, room = self._times(balancing_factors(flows), support)
        if room == 0.0:  # a cone: no multiple of these duals lies in it
            balanced, room = self.domain.repaired(balanced, y, self.cost[support]), 1.0
        elif room < 1.0:  # a few duals hold back all others; the norms hardly differ
            reduced, wider = self._times(reduced_to_balance(flows), support)
            ways = (balanced, room), (reduced, wider)
            values = [self.metric.bound(self.products, None, self._linear(a, y), t) for a, t in ways]
            if values[1] > values[0]:
                balanced, room = reduced, wider
        tau = signed(balanced, y)
        change, products = tau - self._signed(support), self.metric.products
        N = self.products + 2.0 * products(change, self.S[:, support].T)
        N += products(change, self.gram.exact_sums(support, change))
        sums = tau.sum(axis=0) if self.ridge > 0.0 else None
        return max(as_it_is, self.metric.bound(N, sums, self._linear(balanced, y), room))

    def _times(self, factors: Array, support: Rows) -> tuple[Array, float]:
        """The duals of these rows times factors of their pairs of classes, and the largest multiple that is feasible."""
        a = self.a[support] * factors[self.y[support]]
        return a, float(native.kernel_room(self.name, a, self.cost[support], self.parameters))

    def _linear(self, a: Array, y: NDArray[np.int32]) -> float:
        """``sum_il a_il delta_yl``."""
        return float(a.sum()) if self.targets is None else float((a * self.targets[y]).sum())

    def solution(self, ledger: Ledger) -> KernelSolution:
        support, metric = self._support(), self.metric
        A, scales = metric.coefficients(self._signed(support)), None if metric.mixing is not None else metric.scales
        machine = support, A, self.b.copy(), metric.vectors(), scales, self.penalty, self.primal
        return KernelSolution(sparse_duals(self.a), *machine, ledger.close(self.epochs))


def _worst(rows: Rows, gaps: Array, count: int) -> Rows:
    """The `count` rows with the largest gaps."""
    return rows if len(rows) <= count else rows[np.argpartition(-gaps[rows], count)[:count]]


def _proximal_weight(K: NDArray[np.float32]) -> float:
    """A fifth of the mean squared distance of the rows from their mean: the row sub-problems stay well conditioned."""
    diagonal = float(K.diagonal().mean(dtype=np.float64))
    spread = diagonal - float(K.mean(dtype=np.float64))
    return 0.2 * spread if spread > 1e-6 * diagonal else diagonal or 1.0
