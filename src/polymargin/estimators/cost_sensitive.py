"""Machines whose errors may have unequal costs: one parameter, and one way from it to the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from numpy.typing import NDArray

from polymargin.estimators.base import Common, MarginClassifier, Targets
from polymargin.label_costs import label_cost_matrix
from polymargin.problems.classes import Problem


class CommonWithCosts(Common, total=False):
    """The parameters of all machines with costs besides C."""

    label_cost: Any


class CostSensitiveClassifier(MarginClassifier):
    """Base of the machines with losses of margins to rivals: these should reach `label_cost`, or 1."""

    def __init__(self, C: float = 1.0, *, label_cost: Any = None, **common: Unpack[Common]):
        super().__init__(C, **common)
        self.label_cost = label_cost

    def _check_costs(self) -> None:
        """Refuses costs that the machine, as its other parameters have it, cannot take."""

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        targets = super()._read_targets(X, y, sample_weight)
        if self.label_cost is not None:  # its errors come before a kernel's features are made
            self._check_costs()
            label_cost_matrix(self.label_cost, targets.classes)
        return targets

    def _with_classes(self, problem: Problem, classes: NDArray[Any]) -> Problem:
        problem = super()._with_classes(problem, classes)
        if self.label_cost is None:
            return problem
        return replace(problem, loss=problem.loss.with_costs(label_cost_matrix(self.label_cost, classes)))
