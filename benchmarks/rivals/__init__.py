"""The rivals, one small file each. A new one: write its file, add it to ALL."""

from . import liblinear_official, liblinear_sklearn, ours, pecos_ovr, sklearn_others
from .base import Rival

ALL: dict[str, Rival] = {
    r.name: r
    for r in (*ours.RIVALS, liblinear_sklearn.RIVAL, *sklearn_others.RIVALS, liblinear_official.RIVAL, pecos_ovr.RIVAL)
}
OURS = "polymargin"
LIBLINEAR = "liblinear"

__all__ = ["ALL", "LIBLINEAR", "OURS", "Rival"]
