"""Dual ascent over rows: machines with ``R = 1/2 |W|^2``, alone or with a norm that makes zeros, or with a block norm.

Off-class duals ``a_il >= 0`` make ``Z = X' tau`` with ``tau_iy = sum_l a_il``, ``tau_il = -a_il``. Plainly W is Z, and

    P = sum_i u_i loss_i + 1/2 |W|^2        D = sum_il a_il delta_yl - 1/2 |W|^2     (free intercept: sum_i tau_ik = 0)

with the targets delta of the margins, usually 1; squared losses take ``square(a_i) / (4 u_i)`` off D. Absolute margins have
duals of the own class too, ``tau_iy = a_iy``. Penalties that couple the classes, or fix their sum at zero, make
``w_k = scale (z_k - mean z) + common (mean z)``; offsets of sum zero need the same ``sum_i tau_ik`` for all k.

With ``R = 1/2 |W|^2 + l1 norm`` (penalties/sparse.py) ascent is proximal: W is Z, shortened by a threshold, and
``R* = 1/2 |W|^2``. It is at most as curved as 1/2 |Z|^2, in whose metric the rows move. Multiples t <= 1 of duals have
``R*(t Z) <= t^2 R*(Z)``: rays bound from below as they do without a threshold.

The block norm ``R = 1/2 (sum_k |w_k|^p)^(2/p)`` is a minimum over class scales beta (penalties/block_norm.py). For fixed
beta the machine has the penalty ``sum_k |w_k|^2 / (2 beta_k)``, whose dual the native loop climbs: ``w_k = beta_k z_k``.
Every other epoch beta moves. The true dual needs no beta,

    D = sum_i A_i - 1/2 |z|_{2,p*}^2        (squared hinge: A_i - A_i^2 / (4 u_i)),      A_i = sum_l a_il,

so that the gap of w and a splits into the loop's own gap and the price of wrong class scales, which takes c numbers:

    P(w) - D(a) = sum_i (row gap) + [ 1/2 |w|_{2,p}^2 + 1/2 |z|_{2,p*}^2 - <w, z> ].

Neither part is driven far below the other. (Lei, Dogan, Binder & Kloft 2015, Algorithm 1, Problems 11 and 13.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.problems.native_rows import can_have_native_loss, native_loss
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.driver import Driver, Proof, Rhythm
from polymargin.solvers.ascent.loops import open_loop, open_scaled_loop
from polymargin.solvers.ascent.moves import ClassScales, FreeIntercept, Move
from polymargin.solvers.ascent.path_starts import place
from polymargin.solvers.bounds import (
    Ray,
    Repaired,
    balancing_factors,
    best_of_two_multiples,
    class_sums,
    hidden_on_ray,
    reduced_to_balance,
    reducing_factors,
    rows_reduced_to_balance,
    stretching_factors,
    value_of_loop,
)
from polymargin.solvers.rows import centre_and_coupling, centre_and_spread
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start

Array = NDArray[np.float64]
_COARSE = 1e-5  # tolerance from which rounding to single precision is a small part of it
_LITTLE = 0.05  # of a tolerance is what it may cost
_NEARLY = 1.5  # tolerances: where a rounded machine misses its own, it is looked at as it was before
_TIGHT = 1e-7  # tolerance below which the loop's own sums and those of the arrays may differ by a part of it
Watch = Callable[[int, Callable[[], SparseDuals]], bool]

_MULTIPLES = 0.3, 0.1, 0.03, 0.01, 1e-3, 0.0  # of a machine that is worse than none
_MOSTLY_ZERO = 0.25  # of the entries of W may be other than 0, for a CSR matrix to be much smaller
_CHEAP = 1.0  # products an entry of W, to make it from the duals


class RowsProof(Proof):
    """With ``R = 1/2 |W|^2``. With a free intercept the duals are repaired first."""

    plain: ClassVar = Rhythm(epochs=100, inner=1.0, restores="look")
    with_intercept: ClassVar = Rhythm(epochs=4, grace=12, restores="look", foresees=True)

    def __init__(self, problem: Problem, loop: native.RowLoop, n_threads: int):
        self.problem: Problem = problem
        self.loop, self._n_threads = loop, n_threads
        self._repaired: Repaired | None = None
        self._reduces = False  # which repair is tried first
        self._is_averaged = False  # the machine that was looked at last
        self._ready: tuple[Any, Array] | None = None  # or, in the precision in which it is going to be returned
        self._rounds, self._rounding_is_known = True, False  # to the precision of the rows, and whether that costs little
        self._best_bound = -np.inf
        self._best_duals: Callable[[], SparseDuals] | None = None
        self._inside: SparseDuals | None = None  # where no multiple of the repaired duals is
        self.keeps_zeros = False  # whether machines may have sparse class vectors
        self.origin: Array | None = None  # of the loop's rows, where that is not the origin of X
        coupling = problem.penalty.coupling(problem.n_classes)
        self._is_coupled = coupling is not None
        self.scale = 1.0 if coupling is None else coupling.scale
        self._trivial = problem.trivial_value()  # F of no class vectors
        self._multiple = 1.0  # of the loop's machine, that was looked at last
        self._stretch = 1.0 if coupling is None else max(coupling.scale, coupling.common)  # of the squares of Z, at most

    def penalty(self) -> float:
        """R of the iterate."""
        return 0.5 * float(self.loop.squared_norm)

    def dual(self, matters: float) -> float:
        """Dual value of the loop's duals; `matters` says what rounding may hide without harm."""
        return value_of_loop(self.loop, self.problem.n_classes, self._reach, matters)

    @property
    def _reach(self) -> float:
        return self.problem.longest_row * float(np.sqrt(self._stretch))

    def ray(self, factors: Array) -> Ray:
        """That of the loop's duals times a factor for each pair of classes."""
        room, total, squared_norm, squares = self.loop.scaled(factors)
        self._inside = None
        if room > 0.0:
            return Ray(total, 0.5 * (squared_norm + squares), room)
        # a cone: no multiple of these duals lies in it
        duals, problem = SparseDuals(*self.loop.duals()), self.problem
        reduced = rows_reduced_to_balance(problem, duals)
        return self._ray_inside(problem.moved_inside(duals.times(factors, problem.y)) if reduced is None else reduced)

    def _ray_inside(self, duals: SparseDuals) -> Ray:
        """That of duals of margins to rivals which lie in their domains."""
        problem, self._inside = self.problem, duals
        targets = problem.loss.targets(problem.n_classes)[problem.y[duals.rows], duals.classes]
        quadratic = 0.5 * self.scale * float(np.square(class_sums(problem, duals)).sum())
        if not problem.loss.squared:
            return Ray(float(targets @ duals.values), quadratic)
        square = problem.row_domains.domain.square(duals.dense(problem.n_classes), problem.y)
        return Ray(float(targets @ duals.values), quadratic + float((0.25 * square / problem.cost).sum()), np.inf)

    def primal(self) -> float:
        """F of the iterate. With a coupling large sums may cancel in the loop: then it is that of the arrays."""
        if self._is_coupled:
            return self._primal_of_arrays(*self.iterate())
        if self.problem.penalty.threshold is not None:
            return self.problem.penalty.value(self.loop.weights()) + float(self.loop.loss(self._n_threads))
        return self.penalty() + float(self.loop.loss(self._n_threads))

    def _primal_of_arrays(self, W: Array, b: Array) -> float:
        if not can_have_native_loss(self.problem, W):
            return self.problem.primal(W, b)
        return native_loss(self.problem, W, b) + self.problem.penalty_value(W, b)

    def values(self, tol: float) -> tuple[float, float]:
        """Of the average of the last epoch, or of what would be returned, if there is one; of its end, if they fail."""
        self._multiple = 1.0
        self._is_averaged, self._ready = bool(self.loop.has_average), None
        if not self._is_averaged:
            self._ready = self._sums_of_rows()
        self._ready = self._ready or self._rounded(tol)
        primal = self._primal_of_what_is_looked_at()
        dual = self._bound(primal, tol)
        if self._repaired is not None and dual > self._best_bound:  # repairs of later duals may prove less
            self._best_bound, self._best_duals = dual, self._duals_now()
        looked_at = self._is_averaged, self._ready
        nearly = primal - dual <= _NEARLY * tol * primal
        another = self._is_averaged or (self._ready is not None and (nearly or not self._rounding_is_known))
        if another and not primal - dual <= tol * primal:
            self._is_averaged, self._ready = False, None
            value = self.primal()
            if not looked_at[0]:
                self._rounds, self._rounding_is_known = primal - value <= _LITTLE * tol * value, True
            if value < primal:
                primal = value
            else:
                self._is_averaged, self._ready = looked_at
        if self._trivial < primal and self._trivial - dual <= tol * self._trivial < primal - dual:
            primal = self._shortened(primal, dual, tol)
        if tol < _TIGHT and primal - dual <= tol * primal:  # what ends the climb must be true of the arrays
            primal = max(primal, self.problem.primal(*self.iterate()))
        return primal, dual

    def _shortened(self, primal: float, dual: float, tol: float) -> float:
        """The value of a multiple of the iterate, where that is worse than no class vectors and those prove the tolerance.

        The longest that proves it too: so it still tells the classes apart.
        """
        self._is_averaged, self._ready = False, None
        W, b = self.iterate()
        for multiple in _MULTIPLES:
            value = self._primal_of_arrays(multiple * W, multiple * b) if multiple else self._trivial
            if value - dual <= tol * value:
                self._multiple = multiple
                return value
        return primal

    def wants_look(self, tol: float) -> bool:
        """Whether the loop's duals may prove that class vectors are not worth their price."""
        return bool(self._trivial - self.loop.dual <= tol * self._trivial)

    def _bound(self, primal: float, tol: float) -> float:
        if not self.problem.fit_intercept:
            return self.dual(tol * primal)
        flows = self.loop.flows()
        stretched: Callable[[Array], Array] = balancing_factors
        reduced_by: Callable[[Array], Array] = reduced_to_balance
        if not self.problem.row_domains.domain.margins.relative:
            at_sum_zero = self.problem.loss.sums_to_zero
            stretched = partial(stretching_factors, sums_to_zero=at_sum_zero)
            reduced_by = partial(reducing_factors, sums_to_zero=at_sum_zero)
        # what proved more at the last look comes first
        first, second = (reduced_by, stretched) if self._reduces else (stretched, reduced_by)
        bound = self._repair(first(flows))
        repaired, inside = self._repaired, self._inside
        assert repaired is not None
        held_back = repaired.ray.best == repaired.ray.room  # all duals, by the bounds of a few
        if primal - bound <= tol * primal or not (held_back or self._reduces):
            return bound
        if (other := self._repair(second(flows))) > bound:
            self._reduces = not self._reduces
            return other
        self._repaired, self._inside = repaired, inside
        return bound

    def _repair(self, factors: Array) -> float:
        """The bound of the loop's duals times these factors."""
        ray = self.ray(factors)
        self._repaired = Repaired(factors, ray)
        return ray.value - hidden_on_ray(ray, float(self.loop.flow), self._reach)

    def trust(self, ledger: Ledger, epochs: int, primal: float) -> bool:
        if not self.problem.fit_intercept:  # nothing is repaired: a look is one pass over the rows
            return False
        self._is_averaged, self._ready, self._multiple = False, None, 1.0
        ledger.add(primal, primal, epochs)
        self.best = Machine(*self.iterate(), primal)
        return True

    def at_hand(self) -> Machine:
        self._is_averaged, self._ready, self._multiple = False, None, 1.0  # the loop may have gone on
        return super().at_hand()

    def iterate(self) -> tuple[Any, Array]:
        if self._ready is not None:
            return self._ready
        W, b = self.loop.averaged_machine() if self._is_averaged else (self.loop.weights(), self.loop.intercepts())
        if self.problem.penalty.fixes_sum:  # rounding moves it
            W -= W.mean(axis=1, keepdims=True)
        if self.origin is not None:
            b = b - self.origin @ W
        W, b = (W, b) if self._multiple == 1.0 else (self._multiple * W, self._multiple * b)
        return W, b - b.mean() if self.problem.loss.sums_to_zero else b

    def _rounded(self, tol: float) -> tuple[Array, Array] | None:
        """The iterate beside dense rows of single precision as it will be returned, so that it is judged once.

        None where rounding might take a part of the tolerance that matters, or offsets are not returned as they are.
        """
        problem = self.problem
        plain = problem.penalty.identity_hessian and self.origin is None
        if not plain or not self._rounds or tol < _COARSE or sparse.issparse(problem.X) or problem.X.dtype == np.float64:
            return None
        if problem.loss.sums_to_zero or not problem.row_domains.domain.margins.relative:
            return None
        W, b = self.iterate()
        if not can_have_native_loss(problem, W):
            return None
        return W.astype(problem.X.dtype).astype(np.float64), (b - b.mean()).astype(problem.X.dtype).astype(np.float64)

    def _primal_of_what_is_looked_at(self) -> float:
        if self._ready is None and not self._is_averaged:
            return self.primal()
        if self._ready is None and not self._is_coupled:
            return float(self.loop.averaged_value(self._n_threads))
        W, b = self.iterate()
        return self.problem.primal(W, b) if sparse.issparse(W) else self._primal_of_arrays(W, b)

    def _sums_of_rows(self) -> tuple[Any, Array] | None:
        """``W = X' tau`` of sparse rows, without an intercept, where few duals make that cheap; sparse if most of it is 0.

        It is in the precision of the rows, as it will be returned, so that it is judged once. None where it is dear. With
        many classes the copies of the loop's W on its way out take more memory than the rest.
        """
        problem = self.problem
        if not (self.keeps_zeros and problem.penalty.identity_hessian and sparse.issparse(problem.X)):
            return None
        if problem.fit_intercept or self._is_coupled:
            return None
        duals = SparseDuals(*self.loop.duals())
        most = int(np.diff(problem.X.indptr) @ (np.diff(duals.starts) + 1))
        entries = problem.n_features * problem.n_classes
        if most > _CHEAP * entries:
            return None
        W = sparse.csr_array(sparse.csr_array(problem.X).T @ problem.sparse_signed_duals(duals))
        W.data = W.data.astype(problem.X.dtype).astype(np.float64)
        return W if W.nnz <= _MOSTLY_ZERO * entries else W.toarray(), np.zeros(problem.n_classes)

    def duals(self) -> SparseDuals:
        """The duals whose value is the best bound."""
        return (self._best_duals or self._duals_now())()

    def _duals_now(self) -> Callable[[], SparseDuals]:
        """Those of the last look: the loop's as they are now, repaired when they are asked for."""
        duals, repaired, inside, y = SparseDuals(*self.loop.duals()), self._repaired, self._inside, self.problem.y
        if repaired is None:
            return lambda: duals
        if inside is not None:
            return lambda: inside._replace(values=repaired.ray.best * inside.values)
        return lambda: repaired.duals(duals, y)


class BlockNormProof(RowsProof):
    """With class scales."""

    plain = Rhythm(epochs=2, grace=40, loosely=True, restores="look")
    with_intercept = Rhythm(epochs=5, grace=40, loosely=True)

    def __init__(self, problem: Problem, loop: native.RowLoop, n_threads: int, scales: ClassScales):
        super().__init__(problem, loop, n_threads)
        self.scales = scales

    def penalty(self) -> float:
        return self.scales.primal_penalty

    def dual(self, matters: float) -> float:
        return float(self.loop.dual_sum) - self.scales.conjugate(self.scales.squares)

    def ray(self, factors: Array) -> Ray:
        room, total, losses, squares = self.loop.totals_of(factors)
        return Ray(total, 0.5 * losses + self.scales.conjugate(squares), room)


def dual_ascent(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    gives_up: Watch | None = None,
    keeps_zeros: bool = False,
) -> Solution:
    """Climbs from `start` until ``ledger.tol`` is certified or ``max_iter`` epochs are used up; a free intercept moves too.

    `gives_up` is asked after looks at the true gap, with the epochs so far and a function that gets the duals. With
    `keeps_zeros` a fit that ends here may have a CSR matrix as its class vectors.
    """
    start = None if start is None else _suited(problem, start)
    settings: dict[str, Any] = {"max_iter": max_iter, "n_threads": n_threads, "start": start, "gives_up": gives_up}
    if problem.penalty.class_scales is not None:
        loop = open_scaled_loop(problem, seed, n_threads)
    elif problem.penalty.threshold is not None:
        return _proximal_ascent(problem, ledger, seed, **settings)
    else:  # offsets move between slices that end soon: an epoch over everything at each of their ends would not pay
        averages = not problem.fit_intercept and cost_model.average_fits(problem)
        loop = open_loop(problem, seed, n_threads=n_threads, averages=averages)
    # scales that move are at their fixed point together with the offsets: there a looser tie costs epochs
    centre = centre_and_coupling if problem.penalty.class_scales is None else centre_and_spread
    spread = None if start is None else start.spread
    if spread is None and problem.fit_intercept:
        spread = centre(problem.X)
    averages_slices = problem.penalty.class_scales is None and cost_model.average_fits(problem)
    solution = climb_rows(
        problem, loop, spread, ledger, keeps_zeros=keeps_zeros, averages_slices=averages_slices, **settings
    )
    return solution._replace(spread=spread)


def _suited(problem: Problem, start: Start) -> Start:
    """Duals of other costs as they suit these: by what a path has passed, or else by two multiples."""
    if start.passed is not None and cost_model.paths_pay(problem):
        return start
    if start.rescaled and cost_model.multiples_pay(problem):
        start = start._replace(duals=best_of_two_multiples(problem, start.duals))
    return start._replace(passed=None)


def _proximal_ascent(problem: Problem, ledger: Ledger, seed: int, *, n_threads: int, **settings: Any) -> Solution:
    """The loop does not centre columns that are read through a threshold: dense rows are moved instead, sparse ones stay."""
    if not problem.fit_intercept:
        loop = open_loop(problem, seed, n_threads=n_threads)
        return climb_rows(problem, loop, None, ledger, n_threads=n_threads, **settings)
    (means, square), nowhere = centre_and_spread(problem.X), np.zeros(problem.n_features)
    if sparse.issparse(problem.X):
        loop, origin, square = open_loop(problem, seed, n_threads=n_threads), None, square + float(means @ means)
    else:
        loop, origin = open_loop(replace(problem, X=problem.X - means), seed, n_threads=n_threads), means
    return climb_rows(problem, loop, (nowhere, square), ledger, n_threads=n_threads, origin=origin, **settings)


def climb_rows(
    problem: Problem,
    loop: native.RowLoop,
    spread: tuple[Array, float] | None,
    ledger: Ledger,
    *,
    max_iter: int,
    n_threads: int = 1,
    start: Start | None = None,
    gives_up: Watch | None = None,
    keeps_zeros: bool = False,
    origin: Array | None = None,
    averages_slices: bool = False,
) -> Solution:
    """The same with a loop that is open, or what has its face; `spread` as by `centre_and_coupling` or `centre_and_spread`.

    The loop's rows may be those of the problem less an `origin`, where the intercept is free.
    """
    scaling, scales, moves = problem.penalty.class_scales, None, list[Move]()
    if scaling is None:
        proof = RowsProof(problem, loop, n_threads)
    else:
        warm = None if start is None else start.scales
        scales = ClassScales(loop, scaling, np.ones(problem.n_classes) if warm is None else warm)
        proof = BlockNormProof(problem, loop, n_threads, scales)
        moves.append(scales)
    intercept, proof.keeps_zeros, proof.origin = None, keeps_zeros, origin
    if spread is not None:
        size = proof.scale if scales is None else float(np.median(scales.scales))
        intercept = FreeIntercept(loop, *spread, size)
        moves.append(intercept)
    if start is not None:
        b = start.b
        if start.passed is None:
            loop.set_duals(*start.duals)
        else:
            b = place(problem, loop, start, start.passed)
        if intercept is not None:
            intercept.place(b if origin is None else b + origin @ loop.weights())
    ledger.at_hand = proof.at_hand
    rhythm = proof.plain if intercept is None else proof.with_intercept
    averages = loop.average_slices if averages_slices and intercept is not None else None
    driver = Driver(loop, problem.n_rows, max_iter * problem.n_rows, rhythm, moves, averages)

    def enough() -> bool:
        return gives_up is not None and gives_up(driver.visits // problem.n_rows, lambda: SparseDuals(*loop.duals()))

    wants_look = (lambda: proof.wants_look(ledger.tol)) if intercept is not None else lambda: False
    driver.climb(ledger, proof, enough, wants_look)
    end, machine = ledger.close(min(max_iter, driver.n_iter)), proof.best_machine
    if sparse.issparse(machine.W) and not ledger.done:  # other methods go on from it
        machine = machine._replace(W=machine.W.toarray())
    return Solution(machine, proof.duals(), end, scales=None if scales is None else scales.scales)
