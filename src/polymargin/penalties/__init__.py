"""Penalties on the class vectors: one class a penalty. A new one is a class in this folder and a line in `PENALTIES`."""

from polymargin.penalties.base import Penalty
from polymargin.penalties.block_norm import BlockNorm
from polymargin.penalties.coupled import CoupledNorm, ZeroSumNorm
from polymargin.penalties.pairs.pairwise import PairwiseDistances
from polymargin.penalties.sparse import ElasticNet, GroupNorm
from polymargin.penalties.squared_norm import ShiftedNorm, SquaredNorm
from polymargin.penalties.sum_zero import AtSumZero

PENALTIES: dict[str, type[Penalty]] = {
    "block_norm": BlockNorm,
    "coupled_norm": CoupledNorm,
    "elastic_net": ElasticNet,
    "group_norm": GroupNorm,
    "pairwise_distances": PairwiseDistances,
    "squared_norm": SquaredNorm,
}

__all__ = [
    "PENALTIES",
    "AtSumZero",
    "BlockNorm",
    "CoupledNorm",
    "ElasticNet",
    "GroupNorm",
    "PairwiseDistances",
    "Penalty",
    "ShiftedNorm",
    "SquaredNorm",
    "ZeroSumNorm",
]
