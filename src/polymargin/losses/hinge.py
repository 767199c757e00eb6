"""The hinge losses of the classical machines, of margins to the rival classes."""

from __future__ import annotations

from polymargin.losses.domains.domain import Box, Simplex
from polymargin.losses.margin_loss import RelativeLoss


class CrammerSingerHinge(RelativeLoss):
    """``[1 - (s_y - max_{k != y} s_k)]_+`` (Crammer & Singer 2001)."""

    title = "Crammer-Singer hinge"
    key = "crammer_singer"
    domain = Simplex()


class WestonWatkinsHinge(RelativeLoss):
    """``sum_{k != y} [1 - (s_y - s_k)]_+`` (Weston & Watkins 1999)."""

    title = "Weston-Watkins hinge"
    key = "weston_watkins"
    domain = Box()
