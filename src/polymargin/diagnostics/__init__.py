"""Look at a fitted machine: margins of rows, margins and angles between classes, generalisation bounds.

All functions take polymargin's machines, linear or with a kernel, and linear scikit-learn classifiers with one vector per
class (`LogisticRegression`, `LinearSVC`, ...), alone, at the end of a `Pipeline` or inside a search.
"""

from polymargin.diagnostics.bounds import Assumption, Bound, generalization_bound
from polymargin.diagnostics.logistic import logistic_margins
from polymargin.diagnostics.margins import MarginStats, MarginSummary, margin_summary, margins
from polymargin.diagnostics.pairs import (
    ConfusablePair,
    NormBound,
    Spectrum,
    angles,
    confusable_pairs,
    pairwise_margins,
    pairwise_norm_bound,
    spectrum,
)

__all__ = [
    "Assumption",
    "Bound",
    "ConfusablePair",
    "MarginStats",
    "MarginSummary",
    "NormBound",
    "Spectrum",
    "angles",
    "confusable_pairs",
    "generalization_bound",
    "logistic_margins",
    "margin_summary",
    "margins",
    "pairwise_margins",
    "pairwise_norm_bound",
    "spectrum",
]
