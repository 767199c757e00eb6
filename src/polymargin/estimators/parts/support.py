"""The support rows of linear machines: kept as bits, their coefficients made of the duals that a warm start keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.estimators.parts.vectors import dense64
from polymargin.problems.duals import SparseDuals
from polymargin.solvers import Solution


class Derived:
    """An attribute that is computed, unless it has been set."""

    def __init__(self, compute: Callable[[Any], Any]):
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, machine: Any, owner: type | None = None) -> Any:
        if machine is None:
            return self
        return vars(machine)[self._name] if self._name in vars(machine) else self._compute(machine)

    def __set__(self, machine: Any, value: Any) -> None:
        vars(machine)[self._name] = value


class KeptDuals(NamedTuple):
    """What the coefficients of the support rows are made of; the problem has no rows any more."""

    problem: Any
    duals: SparseDuals
    scales: NDArray[np.float64] | None


class LinearSupport:
    """`support_`, `n_support_` and `dual_coef_` of a linear machine. A kernel machine sets them."""

    warm_start: bool
    class_vectors_: Any
    n_support_: NDArray[np.int32]

    def _store_support(self, problem: Any, solution: Solution, kept: NDArray[np.bool_] | None) -> None:
        if solution.duals is None:
            return
        support = problem.support_rows(solution.duals)
        self.n_support_ = problem.support_counts(support)
        is_support = np.zeros(problem.n_rows if kept is None else len(kept), dtype=bool)
        is_support[support if kept is None else np.flatnonzero(kept)[support]] = True
        self._support_bits = np.packbits(is_support)
        if self.warm_start and solution.certificate.price == 0.0:  # an averaged machine is not that of its duals
            without_rows = replace(problem, X=np.empty((problem.n_rows, 0)))
            self._kept_duals = KeptDuals(without_rows, solution.duals, solution.scales)

    @Derived
    def support_(self) -> NDArray[np.intp]:
        """Numbers of the rows with a dual that is not 0."""
        self._need("_support_bits", "support_", "the fit left no duals")
        return np.flatnonzero(np.unpackbits(self._support_bits))

    @Derived
    def dual_coef_(self) -> NDArray[np.float64]:
        """Coefficients (n_classes, n_support): ``class_vectors_`` is ``dual_coef_ @ X[support_]``, to the tolerance."""
        self._need("_kept_duals", "dual_coef_", "fit it with warm_start=True, which keeps the duals, where there are some")
        from polymargin.estimators.kernels.expansion import coefficients

        problem, duals, scales = self._kept_duals
        rows, A = coefficients(problem, duals, scales, dense64(self.class_vectors_).T)
        return np.ascontiguousarray(A[np.isin(rows, problem.support_rows(duals))].T)

    def _need(self, name: str, asked: str, why: str) -> None:
        if name in vars(self):
            return
        fitted = "class_offsets_" in vars(self)
        raise AttributeError(f"{type(self).__name__} has no {asked}{f': {why}' if fitted else ' before fit'}.")
