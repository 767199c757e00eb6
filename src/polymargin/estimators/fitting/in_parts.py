"""A fit of rows that are not in memory: the same machine, solved where its rows are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import polymargin
from polymargin import validation
from polymargin.distributed.solve import gather, solve_parts
from polymargin.estimators.fitting.returned import as_returned, solve_or_keep, solver_tolerance
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem

Array = NDArray[np.float64]

_ONLY_IN_MEMORY = {  # what parameters must be, and what to say otherwise
    "kernel": (
        "linear",
        "kernels need all rows at once; map them first, e.g. with sklearn.kernel_approximation.Nystroem",
    ),
    "probability": (False, "probabilities need fits of folds; calibrate on rows that fit into memory"),
    "warm_start": (False, "duals stay with their parts; use Parts(checkpoint=...) to go on with a fit"),
}
_OF_NO_MATTER = ("verbose", "n_jobs", "on_interrupt")  # for the bits of a fit


def fit_elsewhere(machine: Any, rows: Any) -> None:
    """Fits the machine to rows that are `opened`: `Parts`, or the collections of `polymargin.dask`."""
    parameters = {name: repr(value) for name, value in machine.get_params().items() if name not in _OF_NO_MATTER}
    run = {"polymargin": polymargin.__version__, "machine": type(machine).__name__, "parameters": parameters}
    with rows.opened(run) as elsewhere:
        _fit(machine, *elsewhere)


def _fit(machine: Any, engine: Any, classes: NDArray[Any], weights: Array, dtype: Any) -> None:
    machine._check_parameters()
    for name, (only, why) in _ONLY_IN_MEMORY.items():
        if getattr(machine, name) != only:
            raise ValueError(f"{name}={getattr(machine, name)!r} is not for rows in parts: {why}.")
    machine._check_in_parts()
    targets = machine._read_targets(np.empty((len(classes), 0)), classes, weights)  # each class as one row
    balance = targets.weight / targets.sample_weight
    problem_of = partial(_problem, balance, machine.C, machine._loss(), machine._penalty(), machine.fit_intercept)
    none = problem_of(np.empty((0, 0), dtype=dtype), np.empty(0, dtype=np.int32), np.empty(0))
    none = machine._with_classes(none, targets.classes)  # what parameters say of single classes
    loss, penalty = none.loss, none.penalty
    parts = engine(partial(_problem, balance, machine.C, loss, penalty, machine.fit_intercept))
    problem = gather(parts, loss, penalty, machine.fit_intercept, dtype)
    if problem.facts.largest:
        validation.check_magnitude(np.array([problem.facts.largest]))
    ledger = Ledger(solver_tolerance(machine.tol, dtype), machine.verbose, type(machine).__name__, problem.rounding_at)
    ledger.keeps_interrupted = machine.on_interrupt == "keep"
    seed = validation.seed_of(machine.random_state)

    def solve(problem: Any, ledger: Ledger) -> Any:
        return solve_parts(problem, parts, ledger, max_iter=machine.max_iter, seed=seed)

    solution = solve_or_keep(solve, problem, ledger)
    end = as_returned(problem, solution, machine._representative(solution.machine.b), machine.tol)
    machine._learn({**targets.facts, "n_features_in_": problem.n_features})
    machine.__dict__.pop("feature_names_in_", None)
    machine._store(problem, solution._replace(certificate=end.certificate), end.offsets)
    machine.class_vectors_ = end.vectors
    machine._say_what_is_wrong(problem, problem.facts.largest)


def _problem(
    balance: Array, C: float, loss: Any, penalty: Any, fit_intercept: bool, X: Any, y: NDArray[np.int32], weight: Array
) -> Problem:
    cost = np.ascontiguousarray(C * weight * balance[y], dtype=np.float64)
    return Problem(X, y, cost, len(balance), loss, penalty, fit_intercept)
