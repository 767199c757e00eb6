"""What the benchmark asks of a rival."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

Coefficients = tuple[np.ndarray, np.ndarray]  # W (c, d), b (c,)


def ladder(first: float, last: float) -> tuple[float, ...]:
    """Descending tolerances by factors of the square root of ten (3.16): the same grid for every side."""
    top, bottom = round(2 * np.log10(first)), round(2 * np.log10(last))
    return tuple(float(f"{10 ** (k / 2):.3g}") for k in range(top, bottom - 1, -1))


@dataclass(frozen=True)
class Rival:
    """A way to solve a problem.

    `fit(X, y, C, tol)` is what the clock measures; `prepare(X)` (a change of dtype, say) and
    `coefficients(model)` are not timed, and `module` is imported before. `problem` names what is minimised:
    "cs", "cs+b" (free intercept), "ww", or None for something else altogether, which then gets no relP.
    `claims(model)`: the primal and the certified dual value the rival itself states, where it states them.
    """

    name: str
    module: str
    problem: str | None
    tolerances: tuple[float, ...]
    fit: Callable[[Any, np.ndarray, float, float], Any]
    coefficients: Callable[[Any], Coefficients]
    claims: Callable[[Any], tuple[float, float]] | None = None
    prepare: Callable[[Any], Any] = lambda X: X

    def installed(self) -> bool:
        """Import the rival's module; False only if it is not there, a broken one may shout."""
        try:
            import_module(self.module)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] != self.module.split(".")[0]:
                raise
            return False
        return True
