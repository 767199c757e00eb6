"""Losses of absolute margins: the own score, and the rivals' with the opposite sign (Dogan, Glasmachers & Igel 2016).

All but one versus rest are meant for class vectors and offsets that add up to zero: without that constraint the own score
could grow for free, or nothing would keep the rivals' from falling together.
"""

from __future__ import annotations

import numpy as np

from polymargin.losses.base import Array
from polymargin.losses.domains.domain import Box, Simplex
from polymargin.losses.domains.margins import OF_ALL, OF_RIVALS, OWN
from polymargin.losses.margin_loss import MarginLoss


class LeeLinWahbaHinge(MarginLoss):
    """``sum_{l != y} [1 + s_l]_+`` at sum zero (Lee, Lin & Wahba 2004)."""

    title = "Lee-Lin-Wahba hinge"
    key = "lee_lin_wahba"
    domain = Box(OF_RIVALS)
    sums_to_zero = True


class MarginRegressionHinge(MarginLoss):
    """``[1 - s_y]_+`` at sum zero: maximum margin regression (Szedmak et al. 2006), One versus None with hard weights."""

    title = "maximum margin regression hinge"
    key = "margin_regression"
    domain = Box(OWN)
    sums_to_zero = True


class AbsoluteMaxHinge(MarginLoss):
    """``max_{l != y} [1 + s_l]_+`` at sum zero: absolute margins, discriminative maximum."""

    title = "absolute maximum hinge"
    key = "absolute_max"
    domain = Simplex(OF_RIVALS)
    sums_to_zero = True


class TotalMaxHinge(MarginLoss):
    """The largest of ``[1 - s_y]_+`` and all ``[1 + s_l]_+`` at sum zero: absolute margins, total maximum."""

    title = "total maximum hinge"
    key = "total_max"
    domain = Simplex(OF_ALL)
    sums_to_zero = True


class TotalSumHinge(MarginLoss):
    """``[1 - s_y]_+ + sum_{l != y} [1 + s_l]_+`` at sum zero: absolute margins, total sum."""

    title = "total sum hinge"
    key = "total_sum"
    domain = Box(OF_ALL)
    sums_to_zero = True


class ReinforcedHinge(MarginLoss):
    """``g [(c - 1) - s_y]_+ + (1 - g) sum_{l != y} [1 + s_l]_+`` at sum zero (Liu & Yuan 2011).

    Parameters
    ----------
    own_share : float, default=0.5
        ``g``, from 0 (Lee, Lin & Wahba) to 1.
    """

    title = "reinforced hinge"
    key = "reinforced"
    sums_to_zero = True

    def __init__(self, own_share: float = 0.5, *, squared: bool = False) -> None:
        super().__init__(squared=squared)
        self.own_share = float(own_share)
        # a margin without weight is none: it has no duals that a warm start could bring along
        margins = {0.0: OF_RIVALS, 1.0: OWN}.get(self.own_share, OF_ALL)
        self.domain = Box(margins, self.own_share, 1.0 - self.own_share)

    def targets(self, n_classes: int) -> Array:
        return np.ones((n_classes, n_classes)) + (n_classes - 2) * np.eye(n_classes)

    @property
    def unit_targets(self) -> bool:
        return False


class OneVsRestHinge(MarginLoss):
    """``[1 - s_y]_+ + sum_{l != y} [1 + s_l]_+``: a machine a class, each against all others."""

    title = "one-versus-rest hinge"
    key = "one_vs_rest"
    domain = Box(OF_ALL)
