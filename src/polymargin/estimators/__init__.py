"""scikit-learn estimators: thin classes that validate, build a `Problem`, solve it and store arrays."""

from typing import Any

from polymargin.estimators.angular import AngularSVC
from polymargin.estimators.classical import CrammerSingerSVC, WestonWatkinsSVC
from polymargin.estimators.lp_norm import LpNormSVC
from polymargin.estimators.m3 import M3SVC
from polymargin.estimators.margin_distribution import MarginDistributionSVC
from polymargin.estimators.margin_svc import MarginSVC
from polymargin.estimators.multi_label import MultiLabelSVC
from polymargin.estimators.one_vs_none import OneVsNoneSVC
from polymargin.estimators.top_k import TopKSVC

__all__ = [
    "M3SVC",
    "AngularSVC",
    "CrammerSingerSVC",
    "LpNormSVC",
    "MarginDistributionSVC",
    "MarginSVC",
    "MultiLabelSVC",
    "OneVsNoneSVC",
    "TopKSVC",
    "WestonWatkinsSVC",
]


def machines() -> dict[str, type[Any]]:
    """All machines by name."""
    return {name: globals()[name] for name in __all__}
