"""polymargin: Crammer-Singer without intercept (the contest), and three columns that have no rival.

`tol` is the certified relative gap at which a fit stops.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .base import Coefficients, Rival, ladder

MIN_BUDGET = 10_000  # the tolerance shall end a fit here, not a small default of max_iter


def fitter(class_name: str, fit_intercept: bool) -> Callable[[Any, np.ndarray, float, float], Any]:
    def fit(X: Any, y: np.ndarray, C: float, tol: float) -> Any:
        import polymargin

        machine = getattr(polymargin, class_name)(C=C, fit_intercept=fit_intercept, tol=tol)
        budget = machine.get_params().get("max_iter")
        if budget is not None and 0 < budget < MIN_BUDGET:
            machine.set_params(max_iter=MIN_BUDGET)
        with warnings.catch_warnings():
            # A run that fell short is told by its relP, in the table.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return machine.fit(X, y)

    return fit


def coefficients(model: Any) -> Coefficients:
    W = np.asarray(model.class_vectors_, dtype=np.float64)
    b = np.asarray(model.class_offsets_, dtype=np.float64)
    return W, np.broadcast_to(b, W.shape[:1])


def claims(model: Any) -> tuple[float, float]:
    return float(model.certificate_.primal), float(model.certificate_.dual)


def ours(
    name: str, problem: str, machine: str = "CrammerSingerSVC", last: float = 1e-8, **more: Any
) -> Rival:
    fit = fitter(machine, fit_intercept=problem.endswith("+b"))
    return Rival(name, "polymargin", problem, ladder(1e-1, last), fit, coefficients, claims=claims, **more)


RIVALS = (
    ours("polymargin", "cs"),
    # Rounding of the data alone keeps float32 above a relP of about 2e-6: a longer ladder would only wait.
    ours("polymargin-f32", "cs", last=1e-6, prepare=lambda X: X.astype(np.float32)),
    ours("polymargin-intercept", "cs+b"),
    ours("polymargin-ww", "ww", machine="WestonWatkinsSVC"),
)
