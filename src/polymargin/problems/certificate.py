"""What every fit ends with: how good the machine is, and how we know.

For a convex machine `dual` is a proven lower bound on the optimum, so the optimum lies in ``[dual, primal]``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from polymargin.problems.progress_lines import forecast, lines_for

_ROUNDING = 1e-9  # of the objective: what sums over rows may lose, whatever the data


class Record(NamedTuple):
    """One line of a fit's history: the best values known after so many seconds."""

    seconds: float
    primal: float
    dual: float


class Stage(NamedTuple):
    """A method that took part in a fit: its name, why it was its turn, and when it began."""

    method: str
    reason: str
    seconds: float
    n_iter: int


@dataclass(frozen=True)
class Certificate:
    """The end of a fit, for the arrays that the estimator holds, in their precision.

    Attributes
    ----------
    status : str
        "optimal" if ``gap <= tol * |primal - constant|``, both finite; "max_iter" if the iterations ran out before;
        "stalled" if rounding stopped the progress, or an iteration that does not descend has ended above W = 0;
        "interrupted" if the user did and `on_interrupt` is "keep". A machine that is not convex ends "stationary" once its
        outer loop's relative decrease is below `tol`. "sparsified" or "averaged" if `sparsify`, or the mean of machines
        that ``probability="averaged"`` takes, has left more than the tolerance between the objective and the bound (see
        `price`).
    primal : float
        Objective F of the machine, in the scale of the documentation.
    dual : float
        A lower bound on what `bounds` says: the optimum of F.
    gap, rel_gap : float
        ``primal - dual``, and the same divided by ``|primal - constant|``.
    tol : float
        The relative gap that was asked for.
    n_iter : int
        Epochs (one epoch is as many row visits as there are rows) or Newton steps.
    seconds : float
        Time the solver took.
    history : tuple of Record
        (seconds, primal, dual) at each evaluation of the true gap.
    stationarity : float or None
        Machines that are not convex and measure it: the relative decrease of F that the last convex model of it promised at
        most, by a proven bound.
    bounds : str
        "optimum"; or "last convex round" of a machine that is not convex and solves one convex problem after another.
    constant : float
        What F has at least, whatever the data; what is relative is so to the rest. 0 but for machines with angles.
    stages : tuple of Stage
        The methods that ran, in order, each with the reason why.
    price : float
        What `sparsify` or ``probability="averaged"`` has added to the objective of the fit.
    """

    status: str
    primal: float
    dual: float
    gap: float
    rel_gap: float
    tol: float
    n_iter: int
    seconds: float
    history: tuple[Record, ...] = ()
    stationarity: float | None = None
    bounds: str = "optimum"
    constant: float = 0.0
    stages: tuple[Stage, ...] = ()
    price: float = 0.0

    def altered(self, how: str, primal: float, rounding: Callable[[], float]) -> Certificate:
        """The same bound beside the machine after it was "sparsified" or "averaged", and what that cost."""
        after = self.of_primal(primal, self.tol, rounding)
        kept = after.converged or not self.converged
        return replace(after, price=self.price + primal - self.primal, status=after.status if kept else how)

    def of_primal(self, primal: float, tol: float, rounding: Callable[[], float] = float) -> Certificate:
        """The same bound beside another machine's objective and another tolerance; `rounding` is what rounding may hide."""
        dual = _uncrossed(primal, self.dual, rounding)
        gap = primal - dual
        size = abs(primal - self.constant)
        rel_gap = gap / max(size, 1e-300)
        if not math.isfinite(primal):
            status = "stalled" if self.converged else self.status
        elif self.status == "stationary":  # the bound may be far below: what counts is that the descent is not undone
            risen = primal - self.primal
            status = "stationary" if risen <= tol * size or risen <= rounding() else "stalled"
        else:
            status = "optimal" if rel_gap <= tol else "stalled" if self.converged else self.status
        return replace(self, primal=primal, dual=dual, gap=gap, rel_gap=rel_gap, tol=tol, status=status)

    @property
    def converged(self) -> bool:
        """Whether the gap (of a machine that is not convex: the relative decrease) reached the tolerance."""
        return self.status in ("optimal", "stationary")


def _uncrossed(primal: float, dual: float, rounding: Callable[[], float]) -> float:
    """The bound, lowered to the value where rounding has lifted it above; an error if rounding does not explain that."""

    def is_crossed() -> bool:
        return primal - dual < -_ROUNDING * max(abs(primal), abs(dual))

    if is_crossed():
        dual -= rounding()
    if is_crossed():
        raise ArithmeticError(
            f"the dual bound {dual!r} exceeds the objective {primal!r}: this is a bug in polymargin, please report it with "
            "the data that led to it"
        )
    return min(dual, primal)  # NaN stays what it is


class Ledger:
    """Collects the primal and dual values that a solver proves on its way, and closes with a `Certificate`.

    `rounding` says how much of an objective of some size rounding may hide, in the scale of the rows and class vectors.
    A solver leaves in `at_hand` how to get the machine it has, with its objective, should the fit be interrupted;
    `keeps_interrupted` says that this is wanted. With `trusts_estimates` values need not be proven: nobody is told them.
    """

    def __init__(
        self,
        tol: float,
        verbose: int = 0,
        label: str = "",
        rounding: Callable[[float], float] = lambda primal: 0.0,
        trusts_estimates: bool = False,
    ):
        self.tol = tol
        self.trusts_estimates = trusts_estimates
        self.rounding = rounding
        self.primal = float("inf")
        self.dual = float("-inf")
        self.n_iter = 0
        self.keeps_interrupted = False
        self.at_hand: Callable[[], Any] | None = None
        self.constant = 0.0
        self.label = label
        self._lines = lines_for(label, verbose)
        self._start = time.perf_counter()
        self._history: list[Record] = []
        self._stages: list[Stage] = []

    def stage(self, method: str, reason: str) -> None:
        """Notes that a method begins, and why; one that goes on is not noted again."""
        if self._stages and self._stages[-1].method == method:
            return
        self._stages.append(Stage(method, reason, time.perf_counter() - self._start, self.n_iter))
        if self._lines is not None:
            self._lines.say(f"{method}: {reason}")

    def say(self, text: str) -> None:
        """Shows what goes on between two values, if progress is wanted."""
        if self._lines is not None:
            self._lines.say(text)

    def add(self, primal: float, dual: float, n_iter: int) -> None:
        """Notes a primal value and a bound.

        A bound above a value by more than rounding means that one of them is wrong: that is never hidden.
        """
        self.n_iter = n_iter
        self.primal = min(self.primal, primal)
        self.dual = _uncrossed(self.primal, max(self.dual, dual), lambda: self.rounding(self.primal))
        self._history.append(Record(time.perf_counter() - self._start, self.primal, self.dual))
        if self._lines is not None:
            gaps = [(record.seconds, self._relative(record.primal - record.dual)) for record in self._history]
            self._lines.say(
                f"iteration {n_iter:6d}  objective {self.primal:.8g}  relative gap {self.rel_gap:.2e} (tol {self.tol:g})"
                + forecast(gaps, self.tol)
            )

    def ask(self, tol: float, *, anew: bool = False, bounds_anew: bool = False) -> None:
        """Another tolerance; `anew` forgets what was proven so far, `bounds_anew` the bounds only."""
        self.tol = tol
        if anew or bounds_anew:
            self.dual = float("-inf")
        if anew:
            self.primal = float("inf")

    def leave_out(self, constant: float) -> None:
        """What the objective has at least: tolerances are relative to the rest."""
        self.constant = constant

    def start_anew(self, primal: float) -> None:
        """Another problem begins at this value: what bounded the last one does not bound it."""
        self.primal, self.dual = primal, float("-inf")
        self._history = [record._replace(dual=self.dual) for record in self._history]

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def rel_gap(self) -> float:
        return self._relative(self.gap)

    def _relative(self, gap: float) -> float:
        return gap / max(abs(self.primal - self.constant), 1e-300)

    @property
    def done(self) -> bool:
        """Whether the tolerance is proven; a value that is not finite proves nothing."""
        return math.isfinite(self.gap) and self.gap <= self.tol * abs(self.primal - self.constant)

    def close(self, n_iter: int, status: str = "max_iter") -> Certificate:
        """The certificate; `status` is what to say if the tolerance was not reached."""
        return Certificate(
            status="optimal" if self.done else status,
            primal=self.primal,
            dual=self.dual,
            gap=self.gap,
            rel_gap=self.rel_gap,
            tol=self.tol,
            n_iter=n_iter,
            seconds=time.perf_counter() - self._start,
            history=tuple(self._history),
            constant=self.constant,
            stages=tuple(self._stages),
        )
