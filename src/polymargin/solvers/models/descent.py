"""Descent by convex models of what is not convex.

At the machine at hand, F is replaced by a convex model that meets it there. A proven bound of the model says how much it
promises at most; a machine with enough of that is taken if F falls too. So F never rises, no model is solved better than it
pays, and the descent ends when a model promises no more than the tolerance: the machine is stationary.

What the models are and how they are solved is said by `AngularModels` (tangents with a proximal term) and `RivalModels`
(linearised rivals).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Look(NamedTuple):
    """How far a machine is below F at the start of its model, how far the model can lead at most, and if that is proven
    to be too little to go on."""

    gain: float
    promise: float
    is_little: bool


class Models(Protocol):
    """Convex models of one function, one at a time, and the machine that they lower."""

    enough: float  # share of the promise at which a model is left

    def begin(self) -> None:
        """The model at the machine at hand."""

    def improve(self) -> Look:
        """Solves the model a little better."""

    @property
    def is_exhausted(self) -> bool:
        """Whether there is no use in, or nothing left for, solving this model better."""

    def tighten(self, look: Look) -> bool:
        """Asks for more accuracy than the last `improve`; False if rounding forbids that."""

    def take(self, look: Look) -> str:
        """Moves to the machine of the model if F falls, and prepares the next model; a status if there is none."""


def descend(models: Models) -> str:
    """Lowers F as long as it pays; returns how that ended: "stationary", "max_iter" or "stalled"."""
    while True:
        models.begin()
        look = models.improve()
        while not (look.is_little or look.gain >= models.enough * look.promise or models.is_exhausted):
            if not models.tighten(look):
                return "stalled"
            look = models.improve()
        if status := models.take(look):
            return status
