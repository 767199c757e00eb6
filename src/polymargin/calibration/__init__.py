"""From scores to probabilities: a slope for all classes, and biases of the classes where they pay."""

from polymargin.calibration.outcomes import ClassOutcomes, LabelOutcomes, Outcomes
from polymargin.calibration.scaling import Scaling, fit_scaling, rows_wanted

__all__ = ["ClassOutcomes", "LabelOutcomes", "Outcomes", "Scaling", "fit_scaling", "rows_wanted"]
