"""A fit of rows that are not in memory: the same machine, solved where its rows are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import polymargin
from polymargin import validation
from polymargin.distributed.communicator import Communicator
from polymargin.distributed.disk.sources import Labels
from polymargin.distributed.parts import Elsewhere
from polymargin.distributed.solve import gather, gather_sets, solve_labels_of_parts, solve_parts
from polymargin.estimators.fitting.label_targets import one_hot
from polymargin.estimators.fitting.returned import as_returned, solve_or_keep, solver_tolerance
from polymargin.losses.label_sets import SetLoss
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.problems.sets import LabelTable, SetProblem
from polymargin.problems.whole import WholeProblem, WholeSets

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
        _fit(machine, elsewhere)


def _fit(machine: Any, elsewhere: Elsewhere) -> None:
    machine._check_parameters()
    for name, (only, why) in _ONLY_IN_MEMORY.items():
        if getattr(machine, name) != only:
            raise ValueError(f"{name}={getattr(machine, name)!r} is not for rows in parts: {why}.")
    validation.positive("C", machine.C, "of rows in parts, try 0.01, 1 or 100")
    machine._check_in_parts()
    of_sets = isinstance(machine._loss(), SetLoss)
    if elsewhere.labels is not None and not of_sets:
        raise ValueError(f"y is a label matrix, and {type(machine).__name__} takes one class a row: use MultiLabelSVC.")
    few_y, few_weights = (elsewhere.classes, elsewhere.weights) if elsewhere.labels is None else _few_sets(elsewhere.labels)
    targets = machine._read_targets(np.empty((len(few_weights), 0)), few_y, few_weights)  # each class as one row
    problem, parts = (_sets if of_sets else _classes)(machine, elsewhere, targets)
    if problem.facts.largest:
        validation.check_magnitude(np.array([problem.facts.largest]))
    dtype = elsewhere.dtype
    ledger = Ledger(solver_tolerance(machine.tol, dtype), machine.verbose, type(machine).__name__, problem.rounding_at)
    ledger.keeps_interrupted = machine.on_interrupt == "keep"
    seed = validation.seed_of(machine.random_state)

    def solve(problem: Any, ledger: Ledger) -> Any:
        by = solve_labels_of_parts if of_sets else solve_parts
        return by(problem, parts, ledger, max_iter=validation.iterations(machine.max_iter), seed=seed)

    solution = solve_or_keep(solve, problem, ledger)
    end = as_returned(problem, solution, machine._representative(solution.machine.b), machine.tol)
    machine._learn({**targets.facts, "n_features_in_": problem.n_features})
    machine.__dict__.pop("feature_names_in_", None)
    machine._store(problem, solution._replace(certificate=end.certificate), end.offsets)
    machine.class_vectors_ = end.vectors
    machine._say_what_is_wrong(problem, problem.facts.largest)


def _classes(machine: Any, elsewhere: Elsewhere, targets: Any) -> tuple[WholeProblem, Communicator]:
    """One class a row."""
    balance = targets.weight / targets.sample_weight
    problem_of = partial(_problem, balance, machine.C, machine._loss(), machine._penalty(), machine.fit_intercept)
    none = problem_of(np.empty((0, 0), dtype=elsewhere.dtype), np.empty(0, dtype=np.int32), np.empty(0))
    none = machine._with_classes(none, targets.classes)  # what parameters say of single classes
    loss, penalty = none.loss, none.penalty
    parts = elsewhere.engine(partial(_problem, balance, machine.C, loss, penalty, machine.fit_intercept))
    return gather(parts, loss, penalty, machine.fit_intercept, elsewhere.dtype), parts


def _problem(
    balance: Array, C: float, loss: Any, penalty: Any, fit_intercept: bool, X: Any, y: NDArray[np.int32], weight: Array
) -> Problem:
    cost = np.ascontiguousarray(C * weight * balance[y], dtype=np.float64)
    return Problem(X, y, cost, len(balance), loss, penalty, fit_intercept)


def _sets(machine: Any, elsewhere: Elsewhere, targets: Any) -> tuple[WholeSets, Communicator]:
    """Label sets, of a matrix or of one class a row."""
    like: LabelTable = targets.y
    balance = np.ones(0)
    if elsewhere.labels is None:
        balance = targets.weight / targets.sample_weight
    else:
        like = like._replace(others=elsewhere.labels.others)
    settings = machine._loss(), machine._penalty(), machine.fit_intercept
    parts = elsewhere.engine(partial(_set_problem, like, balance, machine.C, *settings))
    return gather_sets(parts, like, *settings, elsewhere.dtype), parts


def _few_sets(labels: Labels) -> tuple[Any, Array]:
    """Rows that have, and have not, a single label each, and their weights: what all rows together know of every label."""
    c = len(labels.have)
    Y = np.vstack([np.eye(c, dtype=np.int8), -np.eye(c, dtype=np.int8)]).astype(labels.dtype)
    return sparse.csr_array(Y) if labels.is_sparse else Y, np.concatenate([labels.have, labels.have_not])


def _set_problem(
    like: LabelTable, balance: Array, C: float, loss: Any, penalty: Any, fit_intercept: bool, X: Any, y: Any, weight: Array
) -> SetProblem:
    cost = C * weight
    if not sparse.issparse(y):
        y, cost = one_hot(y, len(balance)), cost * balance[y]
    return SetProblem(X, like.holding(y), np.ascontiguousarray(cost), like.n_labels, loss, penalty, fit_intercept)
