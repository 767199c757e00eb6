"""Convex problems with one class a row: methods one after the other, each where it pays.

    R = 1/2 |W|^2, or with class scales     dual ascent; then interior points if their system is small, Newton steps on the
                                            free duals if those are few (if both, the cheaper one first), or ascent to the
                                            end: as these know the loss
    a coupling of the classes               the same, without Newton steps
    R with a norm that makes zeros          proximal dual ascent; Newton's method on the unknowns where it crawls
    a smooth loss, any R with a model       Newton's method
    the pairwise hinge, any R with a model  dual ascent with weights of pairs if R is made of powers of distances; then, or
                                            at once for small exact fits, interior points
    any other loss of margins               Newton's method with multipliers on the unknowns
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from polymargin._core import native
from polymargin.losses import ScoreLoss
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import cost_model
from polymargin.solvers.ascent.pair_weights import pair_weighted_ascent
from polymargin.solvers.ascent.row_ascent import dual_ascent
from polymargin.solvers.interior.pair_iterate import PairIterate, solution_of, with_better_machine
from polymargin.solvers.interior.pairwise import hinge_path
from polymargin.solvers.interior.quadratic import interior_point
from polymargin.solvers.interior.scaled import finish_with_scaled_interior_points
from polymargin.solvers.newton.augmented import multiplier_newton
from polymargin.solvers.newton.general import general_newton
from polymargin.solvers.newton.smooth import primal_newton
from polymargin.solvers.newton.smooth_part import takes_part
from polymargin.solvers.progress import Forecast
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Machine, Solution, SparseDuals, Start, sparse_duals

_SPAN = 50  # epochs over which its pace is seen
_SCALED_INTERIOR_POINTS = 8  # that end a small fit with class scales, usually
_FEW_SCALED_EPOCHS = 200  # before that, they are not worth a thought
_EXACT_SCALES = 1e-9  # below this tolerance a small fit always ends with them: they leave W exact to rounding
_EXACT_PAIRS = 1e-6  # the same for the pairwise hinge
_FEW_PAIR_EPOCHS = 100  # before interior points that are cheap


class Settings(NamedTuple):
    max_iter: int
    seed: int
    n_threads: int = 1


def solve_convex(
    problem: Problem, ledger: Ledger, *, max_iter: int, seed: int, n_threads: int = 1, start: Start | None = None
) -> Solution:
    """Solves `problem` to ``ledger.tol``, by the methods that its loss and penalty offer."""
    settings, loss, penalty = Settings(max_iter, seed, n_threads), problem.loss, problem.penalty
    quadratic = penalty.identity_hessian or penalty.coupling(problem.n_classes) is not None
    if quadratic and loss.row_problem is not None:
        return _quadratic(problem, ledger, settings, start)
    has_faces = loss.domain is not None and loss.domain.has_plain_faces
    if penalty.threshold is not None and loss.row_problem is not None and has_faces:
        return _with_threshold(problem, ledger, settings, start)
    if penalty.class_scales is not None and loss.row_problem is not None:
        return _with_class_scales(problem, ledger, settings, start)
    if start is not None and not start.W.size:  # it has duals only, and these methods start from class vectors
        start = None
    with np.errstate(all="ignore"):  # high powers and bad steps overflow; what is not finite is not kept
        if penalty.has_model and loss.smooth:
            ledger.stage("Newton's method", "the loss is smooth")
            return primal_newton(problem, ledger, max_iter=max_iter, start=start)
        if penalty.has_model and not penalty.fixes_sum and _moves_with_pairs(loss):
            return _pairwise(problem, ledger, settings, start)
    if has_faces and takes_part(penalty):
        ledger.stage("Newton's method on the unknowns", "it takes any loss of margins with any penalty that has a model")
        return general_newton(problem, ledger, max_iter, start)
    raise TypeError(
        f"no method solves the loss '{loss.name}' with the penalty '{penalty.name}': ascent needs 1/2 |W|^2, a coupling or "
        "class scales, Newton's methods need a smooth loss or one of margins (no cone: top-k from k = 3 on) and a "
        "model of the penalty"
    )


def _moves_with_pairs(loss: ScoreLoss) -> bool:
    """Whether the core's rows know a matrix between the classes, and the methods for pairs their targets."""
    return loss.row_problem is not None and loss.unit_targets and native.knows(loss.row_problem, "between_classes")


# ---- quadratic penalties ----------------------------------------------------------------------------------------------


def _quadratic(problem: Problem, ledger: Ledger, settings: Settings, start: Start | None) -> Solution:
    max_iter, seed, n_threads = settings
    ascend = partial(dual_ascent, problem, ledger, seed=seed, n_threads=n_threads, keeps_zeros=True)
    epochs = cost_model.epochs_from(start, min(max_iter, cost_model.epochs_before_interior_points(problem)))
    ledger.stage("dual ascent", "it ends most fits within few epochs")
    solution = ascend(max_iter=epochs, start=start, gives_up=Pace(problem, ledger, max_iter).gives_up)
    left = max_iter - solution.certificate.n_iter
    if ledger.done or left <= 0:
        return solution
    if not cost_model.has_interior_point(problem):
        return _finish_with_newton(problem, ledger, left, solution, ascend)
    assert solution.duals is not None
    if _price_of_newton(problem, solution.duals) < cost_model.flops_of_interior_point(problem):
        ledger.stage("Newton's method with multipliers", "ascent crawls, and so few duals are free that it is the cheapest")
        solution = multiplier_newton(problem, ledger, left, solution)
        left = max_iter - solution.certificate.n_iter
        if ledger.done or left <= 0:
            return solution
    ledger.stage("interior points", "ascent crawls, and their system is small")
    solution = _finish_with_interior_point(problem, ledger, left, solution)
    left = max_iter - solution.certificate.n_iter
    if ledger.done or left <= 0 or solution.certificate.status == "interrupted":
        return solution
    return _gone_on(ledger, left, solution, partial(ascend, gives_up=Pace(problem, ledger, max_iter).gives_up))


def _with_threshold(problem: Problem, ledger: Ledger, settings: Settings, start: Start | None) -> Solution:
    max_iter, seed, n_threads = settings
    ascend = partial(dual_ascent, problem, ledger, seed=seed, n_threads=n_threads)
    ledger.stage("proximal dual ascent", "the penalty is 1/2 |W|^2 and a norm: class vectors are read through a threshold")
    solution = ascend(max_iter=max_iter, start=start, gives_up=Pace(problem, ledger, max_iter).gives_up)
    left = max_iter - solution.certificate.n_iter
    return solution if ledger.done or left <= 0 else _finish_with_newton(problem, ledger, left, solution, ascend)


def _with_class_scales(problem: Problem, ledger: Ledger, settings: Settings, start: Start | None) -> Solution:
    max_iter, seed, n_threads = settings
    ascend = partial(dual_ascent, problem, ledger, seed=seed, n_threads=n_threads)
    ledger.stage("dual ascent with class scales", "the penalty is a minimum over class scales")
    if not cost_model.has_interior_point(problem):
        solution = ascend(max_iter=max_iter, start=start, gives_up=Pace(problem, ledger, max_iter).gives_up)
        left = max_iter - solution.certificate.n_iter
        return solution if ledger.done or left <= 0 else _finish_with_newton(problem, ledger, left, solution, ascend)
    patience = cost_model.epochs_before_interior_points(problem, _SCALED_INTERIOR_POINTS)
    solution = ascend(max_iter=min(max_iter, patience, max(_FEW_SCALED_EPOCHS, max_iter // 2)), start=start)
    left = max_iter - solution.certificate.n_iter
    if left <= 0 or (ledger.done and ledger.tol > _EXACT_SCALES):
        return solution
    ledger.stage("interior points", "they end small fits exactly" if ledger.done else "ascent crawls, and they are small")
    return finish_with_scaled_interior_points(problem, ledger, left, solution, _EXACT_SCALES)


def _finish_with_newton(
    problem: Problem, ledger: Ledger, left: int, so_far: Solution, ascend: Callable[..., Solution]
) -> Solution:
    """Newton steps on the free duals if these are few; where they fail, or are too many, ascent goes on."""
    assert so_far.duals is not None
    last = so_far.certificate.n_iter + left
    if np.isfinite(_price_of_newton(problem, so_far.duals)):
        ledger.stage("Newton's method with multipliers", "ascent crawls, and few duals are free")
        so_far = multiplier_newton(problem, ledger, left, so_far)
    elif cost_model.general_newton_fits(problem) and problem.row_domains.domain.has_plain_faces:
        ledger.stage("Newton's method on the unknowns", "ascent crawls, and its system is small")
        so_far = _finished_in_general(problem, ledger, left, so_far)
    left = last - so_far.certificate.n_iter
    if ledger.done or left <= 0:
        return so_far
    return _gone_on(ledger, left, so_far, ascend)


def _gone_on(ledger: Ledger, left: int, so_far: Solution, ascend: Callable[..., Solution]) -> Solution:
    """Ascent from what other methods have found."""
    assert so_far.duals is not None
    ledger.stage("dual ascent", "Newton steps have not got there")
    solution = ascend(max_iter=left, start=Start(so_far.duals, so_far.machine.b, so_far.scales))
    certificate = replace(solution.certificate, n_iter=so_far.certificate.n_iter + solution.certificate.n_iter)
    if not ledger.done and certificate.n_iter < so_far.certificate.n_iter + left:  # given up
        certificate = replace(certificate, status=so_far.certificate.status)
    machine = min(solution.machine, so_far.machine, key=lambda one: one.primal)
    return solution._replace(machine=machine, certificate=certificate, crawled=so_far.crawled)


def _finished_in_general(problem: Problem, ledger: Ledger, left: int, so_far: Solution) -> Solution:
    assert so_far.duals is not None
    machine, before = so_far.machine, so_far.certificate.n_iter
    found = general_newton(problem, ledger, left, Start(so_far.duals, machine.b, so_far.scales, W=machine.W))
    certificate = replace(found.certificate, n_iter=before + found.certificate.n_iter)
    return found._replace(machine=min(found.machine, machine, key=lambda one: one.primal), certificate=certificate)


def _price_of_newton(problem: Problem, duals: SparseDuals) -> float:
    """Of the method of multipliers, which knows no coupling of classes."""
    coupled = problem.penalty.coupling(problem.n_classes) is not None
    return np.inf if coupled else cost_model.price_of_newton(problem, duals)


def _finish_with_interior_point(problem: Problem, ledger: Ledger, max_iter: int, so_far: Solution) -> Solution:
    n_iter = so_far.certificate.n_iter
    ledger.at_hand = lambda: so_far.machine

    def note(primal: float, dual: float) -> None:
        """Bounds only: the values are those of coordinates that are rounded on the way back to X."""
        nonlocal n_iter
        n_iter += 1
        ledger.add(np.inf, dual, n_iter)

    coupling = problem.penalty.coupling(problem.n_classes)  # of margins to rivals: their class vectors add up to zero anyway
    scales = None if coupling is None else np.full(problem.n_classes, coupling.scale)
    result = interior_point(problem, tol=ledger.tol, max_iter=max_iter, on_iteration=note, scales=scales)
    n_iter = so_far.certificate.n_iter + result.n_iter
    ledger.add(result.primal, result.dual, n_iter)
    certificate = ledger.close(n_iter, "max_iter" if result.n_iter >= max_iter else "stalled")
    if not result.primal < so_far.machine.primal:
        return so_far._replace(certificate=certificate, crawled=True)
    return Solution(Machine(result.W, result.b, result.primal), sparse_duals(result.a), certificate, crawled=True)


class Pace:
    """Whether ascent will get there: extrapolates the logarithm of the relative gap.

    It is given up if it would take more epochs than are left, or than another method costs.
    """

    def __init__(self, problem: Problem, ledger: Ledger, max_iter: int):
        self._problem, self._ledger, self._max_iter = problem, ledger, max_iter
        self._forecast = Forecast(_SPAN)

    def gives_up(self, epochs: int, duals: Callable[[], SparseDuals]) -> bool:
        needed = self._forecast.needed(epochs, float(np.log(self._ledger.rel_gap / self._ledger.tol)))
        if needed is None or epochs < cost_model.FEWEST_EPOCHS:
            return False
        price = self._price(duals())
        return bool(np.isfinite(price) and needed > min(self._max_iter - epochs, price))

    def _price(self, duals: SparseDuals) -> float:
        """Of the other method, in epochs."""
        if cost_model.has_interior_point(self._problem):
            newton = _price_of_newton(self._problem, duals) / cost_model.flops_of_epoch(self._problem)
            return min(float(cost_model.epochs_before_interior_points(self._problem)), newton)
        price = min(_price_of_newton(self._problem, duals), cost_model.price_of_general_newton(self._problem))
        return price / cost_model.flops_of_epoch(self._problem)


# ---- the pairwise hinge -----------------------------------------------------------------------------------------------


def _pairwise(problem: Problem, ledger: Ledger, settings: Settings, start: Start | None) -> Solution:
    """``Solution.notes`` are the multipliers (n, c) of the end."""
    max_iter, used, cheap = settings.max_iter, 0, cost_model.pair_interior_points_are_cheap(problem)
    now: PairIterate | None = None
    if problem.penalty.pair_powers is not None and not (cheap and ledger.tol < _EXACT_PAIRS):
        ledger.stage("dual ascent with weights of pairs", "the penalty is made of powers of distances")
        now = PairIterate(problem, Design(problem.X, problem.cost, problem.fit_intercept, not sparse.issparse(problem.X)))
        epochs = cost_model.epochs_from(start, min(max_iter, _FEW_PAIR_EPOCHS) if cheap else max_iter)
        try:
            used = pair_weighted_ascent(now, ledger, max_iter=epochs, seed=settings.seed, start=start)
        except np.linalg.LinAlgError:  # weights beyond all bounds, of data that no weights suit
            used = 1
        if ledger.done or used >= max_iter:
            solution, multipliers = solution_of(now, ledger, used, "max_iter")
            return solution._replace(notes=multipliers)
        start = None  # the ascent used it up
    why = "ascent crawls" if used else "they are exact, and cheap here" if cheap else "they suit any penalty"
    ledger.stage("interior points", why)
    solution, multipliers = hinge_path(problem, ledger, max_iter=max_iter - used, start=start)
    end = replace(solution.certificate, n_iter=used + solution.certificate.n_iter)
    best = with_better_machine(solution._replace(certificate=end), now, ledger.tol)
    return best._replace(notes=multipliers, crawled=used > 0)
