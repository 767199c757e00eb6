"""Losses on scores: one class a loss. A new one is a class in a file of this folder, with a `key`: `LOSSES` finds it."""

from importlib import import_module
from pkgutil import iter_modules

from polymargin.losses.absolute import (
    AbsoluteMaxHinge,
    LeeLinWahbaHinge,
    MarginRegressionHinge,
    OneVsRestHinge,
    ReinforcedHinge,
    TotalMaxHinge,
    TotalSumHinge,
)
from polymargin.losses.base import MarginBand, ScoreLoss
from polymargin.losses.domains.domain import Domain
from polymargin.losses.hinge import CrammerSingerHinge, WestonWatkinsHinge
from polymargin.losses.margin_loss import MarginLoss
from polymargin.losses.pairwise import CrossEntropy, PairwiseLogistic
from polymargin.losses.top_k import TopKHinge, TopKSumHinge

__all__ = [
    "LOSSES",
    "AbsoluteMaxHinge",
    "CrammerSingerHinge",
    "CrossEntropy",
    "Domain",
    "LeeLinWahbaHinge",
    "MarginBand",
    "MarginLoss",
    "MarginRegressionHinge",
    "OneVsRestHinge",
    "PairwiseLogistic",
    "ReinforcedHinge",
    "ScoreLoss",
    "TopKHinge",
    "TopKSumHinge",
    "TotalMaxHinge",
    "TotalSumHinge",
    "WestonWatkinsHinge",
]


def _losses() -> dict[str, type[ScoreLoss]]:
    """The losses of all files of this folder, by key. Losses that users define are none of them."""
    modules = [import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__)]
    classes = [thing for module in modules for thing in vars(module).values() if isinstance(thing, type)]
    found = {cls.key: cls for cls in classes if issubclass(cls, ScoreLoss) and cls.key is not None}
    return dict(sorted((key, cls) for key, cls in found.items() if key is not None))


LOSSES = _losses()
