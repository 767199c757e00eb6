"""The native loops: each opened here, for the storage of the rows, and nowhere else."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.losses import ScoreLoss
from polymargin.problems.classes import Problem
from polymargin.problems.labels import LabelProblem
from polymargin.problems.native_rows import native_rows
from polymargin.solvers import cost_model
from polymargin.solvers.rows import centre_and_spread

LoopOfRows: TypeAlias = native.RowLoop | native.BandLoop  # with the duals of rows and classes


def domain_of(problem: Problem, plain: bool = False) -> str:
    """The core's name of the domain of the loss, whose loops solve it; `plain` ones have no squares or absolute margins."""
    loss = problem.loss
    if loss.row_problem is None or (plain and not is_plain(loss)):
        kind = "a loss of margins to rivals that is not squared," if plain else "a loss"
        raise TypeError(f"this dual ascent needs {kind} whose domain is one of {native.domains()}; got '{loss.name}'")
    return loss.row_problem


def is_plain(loss: ScoreLoss) -> bool:
    """Whether the kernel's loop takes it: a loss of margins to rivals that is not squared."""
    return loss.row_problem is not None and not loss.squared and loss.domain is not None and loss.domain.margins.relative


def open_loop(
    problem: Problem, seed: int, plain: bool = False, n_threads: int = 1, averages: bool = False
) -> native.RowLoop:
    """The native loop for this problem's storage and loss: for 1/2 |W|^2, with a threshold or without, or a coupling.

    If it `averages`, it ends with the average of an epoch beside its own machine. Thresholds and couplings have none.
    """
    name, penalty, c = domain_of(problem, plain), problem.penalty, problem.n_classes
    if penalty.threshold is not None and not plain and not problem.loss.sums_to_zero:
        loop = native_loop(name, "identity", problem.X, problem, seed, n_threads=n_threads)
        loop.shrink(*penalty.threshold)
        return loop
    if penalty.identity_hessian and not problem.loss.sums_to_zero:
        return native_loop(name, "identity", problem.X, problem, seed, n_threads=n_threads, averages=averages)
    coupling = penalty.coupling(c)
    if coupling is None or plain:
        wanted = "one at sum zero" if problem.loss.sums_to_zero else "1/2 |W|^2"
        raise TypeError(f"dual ascent for the {problem.loss.name} needs the penalty {wanted}; got '{penalty.name}'")
    loop = native_loop(name, "coupled", problem.X, problem, seed, n_threads=n_threads)
    loop.couple(coupling.scale, coupling.common, problem.loss.sums_to_zero)
    return loop


def open_scaled_loop(problem: Problem, seed: int, n_threads: int = 1) -> native.RowLoop:
    """The same for a penalty with class scales."""
    name = domain_of(problem)
    if problem.penalty.class_scales is None or problem.loss.sums_to_zero:
        raise TypeError(
            "class-weighted ascent needs a penalty with class scales, and a loss for class vectors of any sum; got the "
            f"{problem.loss.name} with '{problem.penalty.name}'"
        )
    return native_loop(name, "class_scales", problem.X, problem, seed, n_threads=n_threads)


def native_loop(
    domain: str,
    metric: str,
    X: Any,
    problem: Problem,
    seed: int,
    waiting: bool = False,
    n_threads: int = 1,
    averages: bool = False,
) -> native.RowLoop:
    """The native loop of a domain, with the parameters of the loss, in a metric, on rows X with the targets of `problem`.

    With `waiting` quiet rows wait. That pays on sparse rows, where few rows matter at a time, and where a visit is dear.
    How many rows are visited together depends on the problem alone, so that the threads change no bit.
    """
    return native.row_loop(
        domain,
        metric,
        native_rows(X),
        problem.y,
        problem.cost,
        problem.n_classes,
        waiting or sparse.issparse(X),
        seed,
        problem.loss.row_parameters,
        targets_of(problem),
        cost_model.rows_together(X, problem.y, problem.to_rivals, problem.fit_intercept),
        n_threads,
        averages,
    )


def targets_of(problem: Problem) -> NDArray[np.float64] | None:
    """What the margins should reach, ``(c, c)``; None for 1."""
    return None if problem.loss.unit_targets else np.ascontiguousarray(problem.loss.targets(problem.n_classes))


def open_band_loop(problem: Problem, seed: int, frozen: bool, waiting: bool) -> native.BandLoop:
    loss, band = problem.loss, problem.loss.margin_band
    if band is None or not problem.penalty.identity_hessian:
        raise TypeError(
            f"concave-convex rounds need the margin distribution loss, or one with a band, and the penalty 1/2 |W|^2; got "
            f"'{loss.name}' with the penalty '{problem.penalty.name}'"
        )
    return native.band_loop(
        native_rows(problem.X),
        problem.y,
        problem.cost,
        problem.n_classes,
        band.theta,
        band.mu,
        frozen,
        waiting or sparse.issparse(problem.X),
        seed,
    )


def open_label_loop(problem: LabelProblem, seed: int) -> tuple[native.LabelLoop, NDArray[np.float64]]:
    """The native loop for this problem's storage, and the column means it centres with.

    A constant ``1/rho`` of a fifth of the mean squared (centred) row norm keeps the pairs' curvatures well conditioned.
    """
    means, mean_square = centre_and_spread(problem.X)
    coupling = problem.coupling
    loop = native.label_loop(
        native_rows(problem.X),
        *problem.y[:2],
        problem.y.signs,
        problem.cost,
        means,
        scale=coupling.scale,
        common=coupling.common,
        slack=0.0 if problem.gamma_b is None else 0.5 / problem.gamma_b,
        inverse_rho=0.2 * coupling.scale * mean_square if mean_square > 0.0 else 1.0,
        n_labels=problem.n_classes,
        seed=seed,
    )
    return loop, means
