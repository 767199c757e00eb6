"""Displays in the manner of scikit-learn: `from_estimator` computes and draws, `plot` draws again, the data stay on it.

matplotlib is loaded when something is drawn, not before: ``pip install "polymargin[plot]"``.
"""

from polymargin.plotting.curves import ConvergenceDisplay, RegularizationPathDisplay
from polymargin.plotting.distributions import ClassAccuracyDisplay, MarginDistributionDisplay
from polymargin.plotting.heatmaps import AngleDisplay, PairwiseMarginDisplay
from polymargin.plotting.labels import LabelErrorsDisplay, LabelScoresDisplay
from polymargin.plotting.probabilities import ReliabilityDisplay, RiskCoverageDisplay
from polymargin.plotting.regions import DecisionRegionsDisplay

__all__ = [
    "AngleDisplay",
    "ClassAccuracyDisplay",
    "ConvergenceDisplay",
    "DecisionRegionsDisplay",
    "LabelErrorsDisplay",
    "LabelScoresDisplay",
    "MarginDistributionDisplay",
    "PairwiseMarginDisplay",
    "RegularizationPathDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
]
