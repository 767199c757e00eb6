"""The native loops: each opened here, for the storage of the rows, and nowhere else."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.label_problem import LabelProblem
from polymargin.problem import Problem
from polymargin.solvers.rows import centre_and_spread

LoopOfRows: TypeAlias = native.RowLoop | native.BandLoop  # with the duals of rows and classes


def native_rows(X: Any) -> native.Rows:
    """The rows as native loops read them, borrowed: column numbers in four bytes, starts of rows in eight."""
    if not sparse.issparse(X):
        return native.Rows(X)
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"X has {X.shape[1]} columns, more than the {np.iinfo(np.int32).max} that native loops can number")
    stored = slice(0, int(X.indptr[-1]))
    indices, starts = X.indices[stored].astype(np.int32, copy=False), X.indptr.astype(np.int64, copy=False)
    return native.Rows(X.data[stored], indices, starts, X.shape[1])


def domain_of(problem: Problem, squares: bool = False) -> str:
    """The core's name of the domain of the loss, whose loops solve it; with `squares` that of a squared loss too."""
    loss = problem.loss
    if loss.row_problem is None or (loss.squared and not squares):
        kind = "a loss" if squares else "a loss that is not squared,"
        raise TypeError(f"this dual ascent needs {kind} whose domain is one of {native.domains()}; got '{loss.name}'")
    return loss.row_problem


def open_loop(problem: Problem, seed: int) -> native.RowLoop:
    """The native loop for this problem's storage and loss, for the penalty 1/2 |W|^2."""
    name = domain_of(problem)
    if not problem.penalty.identity_hessian:
        raise TypeError(f"dual ascent without a metric needs the penalty 1/2 |W|^2; got '{problem.penalty.name}'")
    return native_loop(name, "identity", problem.X, problem, seed)


def open_scaled_loop(problem: Problem, seed: int) -> native.RowLoop:
    """The same for a penalty with class scales."""
    name = domain_of(problem, squares=True)
    if problem.penalty.class_scales is None:
        raise TypeError(f"class-weighted ascent needs a penalty with class scales; got '{problem.penalty.name}'")
    return native_loop(name, "class_scales", problem.X, problem, seed)


def native_loop(domain: str, metric: str, X: Any, problem: Problem, seed: int, waiting: bool = False) -> native.RowLoop:
    """The native loop of a domain, with the parameters of the loss, in a metric, on rows X with the targets of `problem`.

    With `waiting` quiet rows wait. That pays on sparse rows, where few rows matter at a time, and where a visit is dear.
    """
    waiting, parameters = waiting or sparse.issparse(X), problem.loss.row_parameters
    return native.row_loop(
        domain, metric, native_rows(X), problem.y, problem.cost, problem.n_classes, waiting, seed, parameters
    )


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
