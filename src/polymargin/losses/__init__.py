"""Losses on scores: one class a loss. A new one is a class in this folder and a line in `LOSSES`."""

from polymargin.losses.base import ScoreLoss
from polymargin.losses.hinge import CrammerSingerHinge, WestonWatkinsHinge
from polymargin.losses.pairwise import CrossEntropy, PairwiseLogistic
from polymargin.losses.squared_hinge import SquaredCrammerSingerHinge

LOSSES: dict[str, type[ScoreLoss]] = {
    "crammer_singer": CrammerSingerHinge,
    "squared_crammer_singer": SquaredCrammerSingerHinge,
    "weston_watkins": WestonWatkinsHinge,
    "pairwise_logistic": PairwiseLogistic,
    "cross_entropy": CrossEntropy,
}

__all__ = [
    "LOSSES",
    "CrammerSingerHinge",
    "CrossEntropy",
    "PairwiseLogistic",
    "ScoreLoss",
    "SquaredCrammerSingerHinge",
    "WestonWatkinsHinge",
]
