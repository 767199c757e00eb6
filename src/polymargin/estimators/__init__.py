"""scikit-learn estimators: thin classes that validate, build a `Problem`, solve it and store arrays."""

from typing import Any

from polymargin.estimators.classical import CrammerSingerSVC, WestonWatkinsSVC
from polymargin.estimators.margin_distribution import MarginDistributionSVC

__all__ = ["CrammerSingerSVC", "MarginDistributionSVC", "WestonWatkinsSVC"]


def machines() -> dict[str, type[Any]]:
    """All machines by name."""
    return {name: globals()[name] for name in __all__}
