"""Labels that share nothing but the rows: a binary machine each, natively (``_core/labels/labels_apart.hpp``).

What each label proves of itself is known; ``solvers/label_by_label.py`` adds it up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.problems.native_rows import native_rows
from polymargin.problems.sets import SetProblem
from polymargin.solvers.rows import centre_and_spread
from polymargin.solvers.types import Machine, SparseDuals, Start

Array = NDArray[np.float64]

_PART_OF_SQUARE = 0.1  # of the mean squared norm of the centred rows, for 1/rho
_VISITS_AT_A_TIME = 2_000_000  # rows times labels, of one epoch: no call lasts much longer than a second


class LabelsApart:
    """The machines in the making: W (d, c), b (c,), signed duals; F and D of each label."""

    def __init__(self, problem: SetProblem, seed: int, n_threads: int, start: Start | None):
        self.problem, self._seed, self._n_threads = problem, seed, n_threads
        n, c = problem.n_rows, problem.n_classes
        means, mean_square = centre_and_spread(problem.X)
        free = problem.fit_intercept
        self._means = means if free else np.zeros_like(means)
        inverse_rho = _PART_OF_SQUARE * mean_square if mean_square > 0.0 else 1.0
        self._inverse_rho, self._rows = inverse_rho if free else 0.0, native_rows(problem.X)
        columns = problem.y.stored.tocsc()
        self._signs = columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data
        supply, demand = problem.y.counts(problem.cost)
        self.b = np.where(supply > demand, 1.0, -1.0) if free else np.zeros(c)
        self.W, self.visits = np.zeros((problem.n_features, c)), np.zeros(c)
        self.primal, self.dual = problem.y.label_weight * problem.loss.trivial_values(supply, demand, free), np.zeros(c)
        empty = np.empty(0, dtype=np.int32), np.empty(0)
        self._duals = [empty] * c  # signed: rows and values of each label
        if start is not None:
            duals = sparse.csr_array((start.duals.values, start.duals.classes, start.duals.starts), shape=(n, c)).tocsc()
            self._keep(range(c), duals.indptr, duals.indices, duals.data)
            self.b = start.b.copy()

    def groups(self) -> list[NDArray[np.int32]]:
        """Labels that are solved in one call."""
        some = max(1, _VISITS_AT_A_TIME // max(1, self.problem.n_rows))
        return np.split(np.arange(self.problem.n_classes, dtype=np.int32), range(some, self.problem.n_classes, some))

    def solve(self, labels: NDArray[np.int32], tol: float, max_visits: int) -> None:
        """Climbs with these labels from where they are."""
        problem = self.problem
        start = [self._duals[k] for k in labels]
        W, numbers, duals = native.labels_apart(
            self._rows,
            *self._signs,
            problem.y.others,
            problem.cost,
            problem.y.label_weight,
            labels,
            self._means,
            np.append(0, np.cumsum([len(rows) for rows, _ in start])),
            np.concatenate([rows for rows, _ in start]),
            np.concatenate([values for _, values in start]),
            self.b[labels],
            inverse_rho=self._inverse_rho,
            free_offset=problem.fit_intercept,
            tol=tol,
            max_visits=max_visits,
            n_threads=self._n_threads,
            squared=problem.loss.squared,
            seed=self._seed,
        )
        self.W[:, labels] = W.T
        self.b[labels], self.primal[labels], self.dual[labels] = numbers[:, 0], numbers[:, 1], numbers[:, 2]
        self.visits[labels] += numbers[:, 3]
        self._keep(labels, *duals)

    def _keep(self, labels: Iterable[int], starts: NDArray[Any], rows: NDArray[Any], values: Array) -> None:
        for j, k in enumerate(labels):
            own = slice(starts[j], starts[j + 1])
            self._duals[k] = rows[own].astype(np.int32, copy=False), values[own]

    @property
    def duals(self) -> SparseDuals:
        """Signed, row by row."""
        counts = [len(rows) for rows, _ in self._duals]
        columns = np.repeat(np.arange(len(counts)), counts)
        rows, values = (np.concatenate(parts) for parts in zip(*self._duals, strict=True))
        table = sparse.csr_array((values, (rows, columns)), shape=(self.problem.n_rows, len(counts)))
        return SparseDuals(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data)

    def machine(self) -> Machine:
        return Machine(self.W, self.b, float(self.primal.sum()))

    def unfinished(self, tol: float) -> NDArray[np.int32]:
        """Labels whose own gap is above the tolerance."""
        return np.flatnonzero(self.primal - self.dual > tol * np.abs(self.primal)).astype(np.int32)

    def at_hand(self) -> Machine:
        """The machine as it is, should the fit be interrupted."""
        W, b = self.W.copy(), self.b.copy()
        return Machine(W, b, self.problem.primal(W, b))

    def part_of(self, k: int) -> Machine:
        """One label's machine."""
        return Machine(self.W[:, [k]], self.b[[k]], float(self.primal[k]))

    def take(self, k: int, machine: Machine, dual: float, signed: Array) -> None:
        """Another machine of a label, and signed duals (n,) that prove as much: each where it is better."""
        if machine.primal <= self.primal[k]:
            self.W[:, k], self.b[k], self.primal[k] = machine.W[:, 0], machine.b[0], machine.primal
        if dual > self.dual[k]:
            rows = np.flatnonzero(signed).astype(np.int32)
            self._duals[k], self.dual[k] = (rows, signed[rows]), dual
