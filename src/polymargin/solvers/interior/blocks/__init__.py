"""What losses add to an interior point: slacks and multipliers, and how they follow a direction."""

from __future__ import annotations

from collections.abc import Callable

from polymargin.solvers.interior.blocks.hinges import CrammerSinger, SquaredCrammerSinger, WestonWatkins
from polymargin.solvers.interior.blocks.max_terms import Array, Labels
from polymargin.solvers.interior.blocks.row_terms import RowTerms
from polymargin.solvers.interior.blocks.top_k import MeanHinge, TopK


def _top_k(y: Labels, cost: Array, n_classes: int, proximal: Array, k: float) -> RowTerms:
    if k > n_classes:
        raise ValueError(f"k={k:g} classes count, but only {n_classes} have rows; choose k up to that.")
    if 1 < k < n_classes:
        return TopK(y, cost, n_classes, proximal, int(k))
    return (CrammerSinger if k == 1 else MeanHinge)(y, cost, n_classes, proximal)


# of classes, costs, number of classes and proximal terms of the sorted rows, and the parameters of the loss
BLOCKS: dict[str, Callable[..., RowTerms]] = {
    "crammer_singer": CrammerSinger,
    "squared_crammer_singer": SquaredCrammerSinger,
    "top_k": _top_k,
    "weston_watkins": WestonWatkins,
}
