"""Scores of rows by machines that have not seen them, for little more than the fit that is there already.

Each fold's machine starts from the duals of the whole fit, less those of the rows left out, and is solved coarsely: how
scores are read as probabilities hardly depends on the last digits of the machine. With many rows not all folds are needed.
Kernel machines share the map of the whole fit.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polymargin.calibration import Outcomes, fit_scaling, rows_wanted
from polymargin.estimators.fitting.returned import solve_near_zero
from polymargin.estimators.parts.probabilities import AVERAGED, CALIBRATION
from polymargin.problems.certificate import Ledger
from polymargin.selection.folds import NEVER, Folds
from polymargin.solvers import Solution, Start

if TYPE_CHECKING:
    from polymargin.estimators.base import MarginClassifier
    from polymargin.features.kernel_map import KernelMap

FEW, MANY = 3, 5  # folds: few where all rows are needed
LARGER = 4  # instead of many, if one fold then has enough rows: one machine less
SMALL = 1800  # rows up to which all folds are worked on
ENOUGH_KERNEL = 1000  # rows with scores, where each fold computes its kernel rows anew
VERY_FEW = 300  # rows of which each counts, and whose machines take milliseconds:
FINEST = 1e-8  # their gap, so that probabilities do not depend on the order in which sums are formed
SHORT = 0.25  # a fold may take this share of the iterations of the whole fit,
FEWEST = 50  # and so many in any case

Array = NDArray[np.float64]


@dataclass
class FoldFits:
    """Fits of parts of a problem, from the duals of its solution.

    `kernel` is that of a problem without features, which was solved by the kernel dual. With `averages` the machines of the
    parts are added up.
    """

    machine: MarginClassifier
    problem: Any
    solution: Solution
    kernel: KernelMap | None
    settings: dict[str, Any]
    averages: bool = False

    def __post_init__(self) -> None:
        self._sum: tuple[Any, Array] | None = None  # of W and of b of the parts' machines
        self._n_added = 0

    @cached_property
    def leftover(self) -> Any:
        """What parts start from."""
        return self.machine._leftover(self.problem, self.solution)

    def with_mean_machine(self) -> Solution:
        """The solution with the mean of its machine and those of the parts in its place, and the certificate of that.

        Duals and offsets to start from stay those of the solution. Without `averages` it is the solution.
        """
        if self._sum is None:
            return self.solution
        whole, n = self.solution.machine, 1 + self._n_added
        W, b = (self._sum[0] + whole.W) / n, (self._sum[1] + whole.b) / n
        primal = float(self.problem.primal(W, b))
        certificate = self.solution.certificate.altered(AVERAGED, primal, lambda: self.problem.rounding(W, b))
        return self.solution._replace(
            machine=whole._replace(W=W, b=b, primal=primal), certificate=certificate, inner_b=self.solution.start_b
        )

    def _part(self, kept: NDArray[np.bool_]) -> Any:
        """Some rows, with a penalty of their own: solvers settle the scale of angles on it."""
        part = self.problem.part(kept)
        return part if self.problem.is_convex else replace(part, penalty=deepcopy(part.penalty))

    def _add(self, W: Any, b: Array) -> None:
        self._n_added += 1
        self._sum = (W, b) if self._sum is None else (self._sum[0] + W, self._sum[1] + b)

    def scores(self, left_out: NDArray[np.bool_]) -> tuple[Array, bool]:
        """Scores of these rows by a machine of the others, and whether its fit was interrupted."""
        start, part = None, self._part(~left_out)
        if self.leftover is not None:
            start = self.machine._start_from(self.machine._leftover_of_part(self.leftover, ~left_out, part), part)
        if self.kernel is None and isinstance(start, Start) and not (self._is_moved or self._is_tiny):
            start = start._replace(spread=self.solution.spread)  # it only scales: a part may have that of all rows
        try:
            return self._scores_from(start, part, left_out)
        except ArithmeticError:  # duals of some rows do not balance: far from zero, centred sums of them are rounding alone
            if start is None:
                raise
            return self._scores_from(None, self._part(~left_out), left_out)

    def _scores_from(self, start: Any, part: Any, left_out: NDArray[np.bool_]) -> tuple[Array, bool]:
        ledger = Ledger(self._gap, rounding=part.rounding_at, trusts_estimates=not self._is_tiny)
        ledger.keeps_interrupted = self.machine.on_interrupt == "keep"
        settings = {**self.settings, "start": start}
        if start is not None and not self._is_tiny:
            settings["max_iter"] = min(settings["max_iter"], max(FEWEST, int(SHORT * self.solution.certificate.n_iter)))
        rows = self.problem.X[left_out]
        if self.kernel is not None:
            by_kernel = self._by_kernel_dual if self.machine._has_kernel_dual else self._on_active_rows
            return by_kernel(part, ledger, rows, settings)
        free = self.machine._free_offsets and (self._is_moved or self._is_tiny)  # a part lies where the whole does
        found = solve_near_zero(self.machine._solve, part, ledger, free, **settings)
        if self.averages:
            self._add(found.machine.W, found.machine.b)
        return found.machine.scores(rows), found.certificate.status == "interrupted"

    @property
    def _is_moved(self) -> bool:
        """Whether columns of the whole were so far from zero that the solver moved them there."""
        return self.solution.inner_b is not None

    @property
    def _gap(self) -> float:
        """Relative gap of the folds' machines: each of very few rows counts, and they cost little."""
        if self._is_tiny:
            return min(FINEST, self.machine.tol)
        return max(self.machine.tol, self.machine._coarse)

    @property
    def _is_tiny(self) -> bool:
        return bool(self.problem.n_rows <= VERY_FEW)

    def _by_kernel_dual(self, part: Any, ledger: Ledger, rows: Any, settings: dict[str, Any]) -> tuple[Array, bool]:
        from polymargin.solvers.ascent.kernels.dual import kernel_dual

        assert self.kernel is not None
        asked = {name: settings[name] for name in ("max_iter", "seed", "start")}
        found = kernel_dual(part, ledger, self.kernel, **asked)
        scores = self.machine._kernel_scores(self.kernel, rows, part.X[found.support], found.A.T, found.b)
        return scores, found.certificate.status == "interrupted"


    def _on_active_rows(self, part: Any, ledger: Ledger, rows: Any, settings: dict[str, Any]) -> tuple[Array, bool]:
        from polymargin.estimators.kernels.active_rows import solve_on_active_rows

        assert self.kernel is not None
        solve = partial(solve_near_zero, self.machine._solve, free_offsets=self.machine._free_offsets)
        settings = {**settings, "tol": ledger.tol, "representative": self.machine._representative}
        found, made = solve_on_active_rows(solve, part, ledger, self.kernel, part.X, **settings)
        scores = self.machine._kernel_scores(self.kernel, rows, part.X[made.support], made.A.T, made.b)
        return scores, found.certificate.status == "interrupted"


def calibrated(fits: FoldFits, outcomes: Outcomes) -> dict[str, Any]:
    """Attributes of the scaling of scores that makes the outcomes of rows left out likely."""
    seed = fits.settings["seed"]
    enough = rows_wanted(fits.problem.n_classes) if fits.kernel is None else ENOUGH_KERNEL
    folds = outcomes.folds(_n_folds(fits.problem, enough), seed)
    _check_folds(folds)
    scores, seen = scores_left_out(fits, folds, enough)
    return scaled(scores[seen], outcomes.part(seen), seed)


def _n_folds(problem: Any, enough: int) -> int:
    """So many that one of them has just enough rows where there are plenty: its machine is then near the whole one.

    Folds differ by at most one row a class.
    """
    if problem.n_rows < 2 * SMALL:
        return FEW
    with_enough = problem.n_rows // (enough + problem.n_classes)
    return with_enough if with_enough == LARGER else max(MANY, with_enough)


def scores_left_out(fits: FoldFits, folds: Folds, enough: int) -> tuple[Array, NDArray[np.bool_]]:
    """Scores of rows by machines that have not seen them, fold by fold until there are enough; and which rows these are."""
    scores, seen = np.zeros((len(folds), fits.problem.n_classes)), np.zeros(len(folds), dtype=bool)
    for fold in range(int(folds.max(initial=NEVER)) + 1):
        left_out = folds == fold
        if left_out.any():
            scores[left_out], interrupted = fits.scores(left_out)
            seen |= left_out
            if interrupted or seen.sum() >= enough:
                break
    return scores, seen


def scaled(scores: Array, outcomes: Outcomes, seed: int) -> dict[str, Any]:
    """Attributes of the scaling of such scores."""
    scaling = fit_scaling(scores, outcomes, seed)
    found = (1.0 / scaling.slope, scaling.biases, scaling.mixing, scaling.lapse)
    return dict(zip(CALIBRATION, found, strict=True))


def _check_folds(folds: NDArray[np.int64]) -> None:
    kept = int((folds == NEVER).sum())
    if kept == len(folds):
        raise ValueError(
            "probability=True needs a class with two rows or more, so that one can be left out and judged; here every class "
            "has a single row. Use probability=False, or more rows."
        )
    if kept:
        warnings.warn(
            f"probability=True: {kept} of {len(folds)} rows are the only ones of a class (or label), so they cannot be left "
            "out and judged: the probabilities of such classes rest on the scores of the others.",
            UserWarning,
            stacklevel=5,
        )
