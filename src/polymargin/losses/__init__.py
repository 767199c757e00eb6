"""Losses on scores: one class a loss. A new one is a class in this folder and a line in `LOSSES`."""

from polymargin.losses.base import ScoreLoss
from polymargin.losses.hinge import CrammerSingerHinge, WestonWatkinsHinge

LOSSES: dict[str, type[ScoreLoss]] = {
    "crammer_singer": CrammerSingerHinge,
    "weston_watkins": WestonWatkinsHinge,
}

__all__ = ["LOSSES", "CrammerSingerHinge", "ScoreLoss", "WestonWatkinsHinge"]
