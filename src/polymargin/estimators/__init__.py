"""scikit-learn estimators: thin classes that validate, build a `Problem`, solve it and store arrays."""

from polymargin.estimators.classical import CrammerSingerSVC, WestonWatkinsSVC

__all__ = ["CrammerSingerSVC", "WestonWatkinsSVC"]
