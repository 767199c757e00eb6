"""The top-k hinges: an error counts if the right class is not among the k best (Lapin, Hein & Schiele 2015)."""

from __future__ import annotations

from polymargin.losses.base import Array
from polymargin.losses.domains.top_k import CappedSimplex, TopKSimplex
from polymargin.losses.margin_loss import RelativeLoss


class TopKHinge(RelativeLoss):
    """``[mean of the k largest of m]_+``, ``m_l = 1[l != y] + s_l - s_y`` over all classes, the own one (``m_y = 0``) too.

    The alpha form; for k = 1 the Crammer-Singer hinge.
    """

    title = "top-k hinge"
    key = "top_k"

    def __init__(self, k: int = 2, *, squared: bool = False, costs: Array | None = None) -> None:
        super().__init__(squared=squared, costs=costs)
        self.k = int(k)
        self.domain = TopKSimplex(self.k)


class TopKSumHinge(RelativeLoss):
    """The mean of the k largest of ``[1 - (s_y - s_l)]_+``: the beta form, which is above the alpha form for k >= 3."""

    title = "top-k sum hinge"
    key = "top_k_sum"

    def __init__(self, k: int = 2, *, squared: bool = False, costs: Array | None = None) -> None:
        super().__init__(squared=squared, costs=costs)
        self.k = int(k)
        self.domain = CappedSimplex(self.k)
