"""Machines whose class vectors may be kept apart: not convex then, and solved to a stationary point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.estimators.cost_sensitive import CostSensitiveClassifier
from polymargin.penalties.angular import AnglePenalty, angles_between, smallest_angle
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import Solution, solve
from polymargin.solvers.models.angles.descend import AngularNotes
from polymargin.solvers.models.angles.row_space import look_at_rows
from polymargin.solvers.models.angles.starts import Memory

_OF_ANGLES = ("angles_", "min_angle_", "singular_values_", "uniformity_", "objective_history_", "min_angle_history_")


class ApartClassifier(CostSensitiveClassifier):
    """Base of the machines with a penalty of angles, or, if that is one of several, without."""

    def _angle_penalty(self, omega: float, kind: str) -> AnglePenalty:
        """The penalty as the last fit has settled it."""
        return AnglePenalty(omega, kind, getattr(self, "_rank", 1), getattr(self, "_floor", 0.0))

    @property
    def _is_apart(self) -> bool:
        return self._penalty().angular is not None

    # ---- fitting ------------------------------------------------------------------------------------------------------

    def _solve(self, problem: Problem, ledger: Ledger, **settings: Any) -> Solution:
        if self._is_apart:
            settings["n_starts"] = getattr(self, "n_starts", 1)
        return solve(problem, ledger, **settings)

    def _start_from(self, last: Any, problem: Problem) -> Any:
        """Of angles the solver checks that it belongs to the same rows and loss."""
        if isinstance(last, Memory) != self._is_apart:
            return None
        return last if self._is_apart else super()._start_from(last, problem)

    def _leftover(self, problem: Problem, solution: Solution) -> Any:
        if not self._is_apart:
            return super()._leftover(problem, solution)
        return None if solution.notes is None else solution.notes.memory

    def _leftover_of_part(self, last: Any, kept: NDArray[np.bool_], part: Problem) -> Any:
        if not isinstance(last, Memory):
            return super()._leftover_of_part(last, kept, part)
        duals, classical = (None if found is None else found.part(kept) for found in (last.duals, last.classical.duals))
        return last._replace(
            fingerprint=look_at_rows(part).fingerprint,
            y=part.y,
            cost=last.cost[kept] * (1.0 + 1e-12),  # another problem: its machine without angles is not that of all rows
            duals=duals,
            classical=last.classical._replace(duals=classical),
        )

    def _store(self, problem: Problem, solution: Solution, offsets: NDArray[Any]) -> None:
        super()._store(problem, solution, offsets)
        penalty, W = problem.penalty.angular, solution.machine.W
        if penalty is None:
            for name in _OF_ANGLES:  # of an earlier fit
                self.__dict__.pop(name, None)
            return
        self._rank, self._floor = penalty.angles.rank, penalty.angles.floor  # as the solver has settled it
        self.angles_ = angles_between(W)
        self.min_angle_ = smallest_angle(self.angles_)
        self.singular_values_ = np.linalg.svd(W, compute_uv=False)[: self._rank]
        self.uniformity_ = _uniformity(self.singular_values_)
        ways = solution.notes or AngularNotes((self.objective_,), (self.min_angle_,), None, None)  # None: it was interrupted
        self.objective_history_ = np.asarray(ways.objectives)
        self.min_angle_history_ = np.asarray(ways.min_angles)

    # ---- what is said of it -------------------------------------------------------------------------------------------

    def _shortfall(self) -> str:
        end = self.certificate_
        if end.stationarity is None:
            return super()._shortfall()
        promised = "an unknown amount" if end.stationarity == np.inf else f"{end.stationarity:.2e}"
        return (
            f"a possible relative decrease of the objective by {promised}, above tol={self.tol:g}; its relative gap to the "
            f"lower bound is {end.rel_gap:.2e}"
        )

    def _is_trivial(self, problem: Problem) -> bool:
        """W = 0, or no machine is much better than equal scores."""
        if problem.penalty.angular is None:
            return super()._is_trivial(problem)
        return not self.singular_values_.any() or self._is_proven_trivial(problem)

    def _is_proven_trivial(self, problem: Problem) -> bool:
        end = self.certificate_
        return end.dual - end.constant >= 0.999 * problem.trivial_value()

    def _trivial_finding(self, problem: Problem) -> str:
        penalty, end = problem.penalty.angular, self.certificate_
        if penalty is None or self._is_proven_trivial(problem):
            return super()._trivial_finding(problem)
        found = f"with C={self.C:g} and omega={penalty.omega:g} no machine was found that is better than W = 0"
        if end.rel_gap <= 1e-3:
            return f"{found}, and none is by more than 0.1 %"
        return f"{found} (objective {end.primal:.6g}); the lower bound {end.dual:.6g} does not exclude one"


def _uniformity(singular_values: NDArray[Any]) -> float:
    squares = np.square(singular_values)
    if not squares.size or not squares.all():
        return 0.0
    return float(np.exp(np.log(squares).mean()) / squares.mean())
