"""Max-margin classification with many classes, certified optimal."""

from polymargin.certificate import Certificate
from polymargin.estimators import M3SVC, CrammerSingerSVC, WestonWatkinsSVC

__version__ = "0.1.0"

__all__ = ["M3SVC", "Certificate", "CrammerSingerSVC", "WestonWatkinsSVC", "__version__"]
