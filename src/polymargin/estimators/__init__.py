"""scikit-learn estimators: thin classes that validate, build a `Problem`, solve it and store arrays."""

from typing import Any

from polymargin.estimators.machines.angular import AngularSVC
from polymargin.estimators.machines.classical import CrammerSingerSVC, WestonWatkinsSVC
from polymargin.estimators.machines.lp_norm import LpNormSVC
from polymargin.estimators.machines.m3 import M3SVC
from polymargin.estimators.machines.margin_distribution import MarginDistributionSVC
from polymargin.estimators.machines.margin_svc import MarginSVC
from polymargin.estimators.machines.multi_label import MultiLabelSVC
from polymargin.estimators.machines.one_vs_none import OneVsNoneSVC
from polymargin.estimators.machines.top_k import TopKSVC

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
