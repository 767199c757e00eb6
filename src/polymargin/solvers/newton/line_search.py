"""The line search of all Newton methods here: whole steps, halved until the value has fallen enough (Armijo)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P")


def backtrack(
    trial: Callable[[float], tuple[float, P]],
    here: float,
    slope: float,
    *,
    share: float,
    shortest: float,
    longest: float = 1.0,
    rounding: float = 0.0,
) -> tuple[float, P]:
    """The first of `longest`, half of it, ... that lowers the value by a `share` of what the (negative) slope promises.

    `trial` leads from a length to the value there and whatever else is known there; that is returned with the length. If
    no length down to `shortest` is good enough the length is 0, and what is returned belongs to the last one.
    """
    length = longest
    while True:
        value, reached = trial(length)
        if value <= here + share * length * slope + rounding:
            return length, reached
        if length <= shortest:
            return 0.0, reached
        length *= 0.5
