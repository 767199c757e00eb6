"""scikit-learn estimators: thin classes that validate, build a `Problem`, solve it and store arrays."""

from polymargin.estimators.classical import CrammerSingerSVC, WestonWatkinsSVC
from polymargin.estimators.m3 import M3SVC

__all__ = ["M3SVC", "CrammerSingerSVC", "WestonWatkinsSVC"]
