"""What solvers hand to each other: duals, machines, solutions, starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Certificate

Array = NDArray[np.float64]


class SparseDuals(NamedTuple):
    """Non-zero off-class duals, row by row: entries ``starts[i]:starts[i + 1]`` belong to row i."""

    starts: NDArray[np.int64]
    classes: NDArray[np.int32]
    values: Array

    @property
    def rows(self) -> NDArray[np.intp]:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def times(self, factors: Array, y: NDArray[np.int32]) -> SparseDuals:
        """The duals times a factor for their pair of own class and class, ``factors (c, c)``."""
        return self._replace(values=self.values * factors[y[self.rows], self.classes])

    def dense(self, n_classes: int) -> Array:
        """The duals as an array (n, c)."""
        out = np.zeros((len(self.starts) - 1, n_classes))
        out[self.rows, self.classes] = self.values
        return out


class Machine(NamedTuple):
    """Class vectors ``W (d, c)``, offsets ``b (c,)`` and their objective."""

    W: Array
    b: Array
    primal: float


class Solution(NamedTuple):
    """A solved problem: the best machine of this solver, its last duals (if it has such), and the certificate.

    With class scales beta the duals make the machine ``w_k = beta_k sum_i tau_ik x_i``.
    `notes` is what a machine's own solver has to tell its estimator beyond that.
    Solvers that work in rounds add the objective after each and the relative change of the last.
    `crawled` says that dual ascent did not get there and interior points ended the fit.
    `inner_b` are the offsets for the rows as the solver saw them, if those were moved: where a later fit starts.
    """

    machine: Machine
    duals: SparseDuals | None
    certificate: Certificate
    scales: Array | None = None
    notes: Any = None
    rounds: tuple[float, ...] = ()
    last_change: float = 0.0
    crawled: bool = False
    inner_b: Array | None = None

    @property
    def start_b(self) -> Array:
        """Offsets for a start on the same rows."""
        return self.machine.b if self.inner_b is None else self.inner_b


NO_DUALS = SparseDuals(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))


class Start(NamedTuple):
    """Where a fit starts: offsets, and what else an earlier one left.

    Methods on duals ask for feasible ones, those on class vectors for W; what is missing is empty. `scales` are the class
    scales of machines that have them; `crawled` says that dual ascent did not get there.
    """

    duals: SparseDuals
    b: Array
    scales: Array | None = None
    crawled: bool = False
    W: Array = np.empty((0, 0))


def sparse_duals(a: np.ndarray) -> SparseDuals:
    """The non-zero entries of duals ``(n, c)``."""
    rows, classes = np.nonzero(a)
    starts = np.zeros(len(a) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(a)), out=starts[1:])
    return SparseDuals(starts, classes.astype(np.int32), a[rows, classes])


def signs_of(own: NDArray[np.integer[Any]], rivals: NDArray[np.integer[Any]], n_classes: int) -> NDArray[np.float64]:
    """``e_own - e_rival``, one row a pair."""
    out, each = np.zeros((len(own), n_classes)), np.arange(len(own))
    out[each, own] = 1.0
    out[each, rivals] -= 1.0
    return out
