"""Penalties on the class vectors: one class a penalty. A new one is a class in this folder and a line in `PENALTIES`."""

from polymargin.penalties.base import Penalty
from polymargin.penalties.pairwise import PairwiseDistances
from polymargin.penalties.squared_norm import SquaredNorm

PENALTIES: dict[str, type[Penalty]] = {"squared_norm": SquaredNorm, "pairwise_distances": PairwiseDistances}

__all__ = ["PENALTIES", "PairwiseDistances", "Penalty", "SquaredNorm"]
