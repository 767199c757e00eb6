"""Probabilities of a machine that was fitted with probability=True, and what can be decided by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from polymargin.calibration import ClassOutcomes, LabelOutcomes, Scaling
from polymargin.calibration.costs import cheapest
from polymargin.estimators.parts.array_libraries import any_arrays

CALIBRATION = ("temperature_", "class_biases_", "class_mixing_", "lapse_")  # attributes of a fit with probability=True
AVERAGED = "averaged"  # probability=: the machine is the mean of those that are fitted for the probabilities anyway


def _has_probabilities(machine: Probabilities) -> bool:
    if machine.probability or machine._has_own_probabilities:
        return True
    raise AttributeError(
        f"{type(machine).__name__} has probabilities only with probability=True, which fits them to rows left out in about "
        "half of the time of a fit more."
    )


class Probabilities:
    """`predict_proba` and its kin of all machines."""

    probability: bool | str
    classes_: NDArray[Any]
    temperature_: float
    class_biases_: NDArray[np.float64]
    class_mixing_: NDArray[np.float64] | None
    lapse_: float

    if TYPE_CHECKING:

        def decision_function(self, X: Any) -> NDArray[Any]: ...

    @property
    def _has_own_probabilities(self) -> bool:
        """Whether the softmax of the scores is a probability as it is."""
        return False

    @property
    def _outcome_kind(self) -> type[ClassOutcomes] | type[LabelOutcomes]:
        return ClassOutcomes

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @any_arrays
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities: ``(1 - lapse_) softmax(scores / temperature_ + class_biases_) + lapse_ / n_classes``.

        With ``probability=True`` only, which is when these numbers are fitted. `class_mixing_`, if it is not None,
        multiplies the scores first. Where biases or mixing paid, the most probable class may be another than that of
        `predict`, which has the highest score.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows add up to 1; for a label matrix each entry is the probability of that label alone, and rows do not.
        """
        scaled = self._scaled_scores(X)  # first: it asks whether there was a fit
        return self._outcome_kind.probabilities(*scaled)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @any_arrays
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Logarithms of the probabilities; finite also where a probability is rounded to 0."""
        scaled = self._scaled_scores(X)
        return self._outcome_kind.log_probabilities(*scaled)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @any_arrays
    def predict_min_cost(self, X: Any, cost: Any) -> NDArray[Any]:
        """Class of least expected cost for each row, by its probabilities.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
        cost : array of shape (n_classes, n_classes), or DataFrame with the classes as rows and columns
            What it costs to decide for the column where the row is the true class. With 1 for every error and 0 else the
            most probable class is the cheapest.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        P = self.predict_proba(X)
        if self._outcome_kind is LabelOutcomes:
            raise ValueError("predict_min_cost decides among classes; for a label matrix cut the probability of each label.")
        return np.asarray(self.classes_[cheapest(P, cost, self.classes_)])

    @property
    def _scaling(self) -> Scaling | None:
        """How scores become probabilities; None where there are none."""
        if self.probability and "temperature_" in vars(self):
            return Scaling(1.0 / self.temperature_, self.class_biases_, self.class_mixing_, self.lapse_)
        if not self.probability and self._has_own_probabilities:  # those of the loss itself
            return Scaling(1.0, np.zeros(len(self.classes_)))
        return None

    def _scaled_scores(self, X: Any) -> tuple[NDArray[Any], float]:
        """Scaled scores and the lapse."""
        scores, scaling = self.decision_function(X), self._scaling
        if scaling is None:
            raise NotFittedError(
                f"this {type(self).__name__} has no temperature_: it was fitted with probability=False, or interrupted. Fit "
                "it again with probability=True."
            )
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return scaling.apply(scores), scaling.lapse
