"""A penalty as Newton's methods carry it along: as it is, or blurred where it has kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Blurred:
    """Models of one function, whose kinks have one width until it is sharpened."""

    n_products = 0

    def __init__(self, penalty: Any):
        self._penalty, self.blur, self._width = penalty, 0.0, 0.0

    def sharpen(self, W: Array, blur: float) -> None:
        if not self._penalty.smooth:
            self.blur, self._width = blur, self._penalty.width(W, blur)

    def model(self, W: Array) -> Any:
        return self._penalty.model(W, self._width)

    def aim(self, model: Any, mu: float, *, correct: bool) -> Any:
        return model

    def follow(self, model: Any, D: Array, pulls: Array | None = None) -> None:
        self._model, self._step, self._slope = model, D, float((model.gradient * D).sum())

    def longest(self) -> float:
        return np.inf

    def products_after(self, a: float) -> float:
        return 0.0

    def strays(self, a: float, bend: float) -> float:
        there = self.model(self._model.W + a * self._step).value
        return abs(float(there) - float(self._model.value) - a * self._slope - 0.5 * a * a * bend)

    def value_after(self, W: Array, a: float, mu: float) -> float:
        return float(self.model(W).value)

    def take(self, a: float) -> None:
        """Nothing moves but W."""
