"""What solvers hand to each other: duals, machines, solutions, starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.problems.certificate import Certificate
from polymargin.problems.duals import NO_DUALS, SparseDuals, sparse_duals

__all__ = ["NO_DUALS", "Machine", "Passed", "Solution", "SparseDuals", "Start", "signs_of", "sparse_duals"]

Array = NDArray[np.float64]


class Machine(NamedTuple):
    """Class vectors ``W (d, c)``, offsets ``b (c,)`` and their objective.

    W is an array; the machine that a fit ends with may have a CSR matrix, where that is much smaller.
    """

    W: Any
    b: Array
    primal: float

    def scores(self, X: Any) -> Array:
        """Of rows, (n, c)."""
        S = X @ self.W
        return np.asarray(S.toarray() if sparse.issparse(S) else S, dtype=np.float64) + self.b


class Solution(NamedTuple):
    """A solved problem: the best machine of this solver, its last duals (if it has such), and the certificate.

    With class scales beta the duals make the machine ``w_k = beta_k sum_i tau_ik x_i``.
    `notes` is what a machine's own solver has to tell its estimator beyond that.
    Solvers that work in rounds add the objective after each and the relative change of the last.
    `crawled` says that dual ascent did not get there and interior points ended the fit.
    `spread` is how its rows lie, where an ascent with free offsets has looked (`centre_and_coupling`).
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
    spread: tuple[Array, float] | None = None

    @property
    def start_b(self) -> Array:
        """Offsets for a start on the same rows."""
        return self.machine.b if self.inner_b is None else self.inner_b


class Passed(NamedTuple):
    """A solution of the same rows at other costs: duals, offsets, its bound, and its costs as a multiple of those now."""

    duals: SparseDuals
    b: Array
    dual: float
    cost: float


class Start(NamedTuple):
    """Where a fit starts: offsets, and what else an earlier one left.

    Methods on duals ask for feasible ones, those on class vectors for W; what is missing is empty. `scales` are the class
    scales of machines that have them; `crawled` says that dual ascent did not get there, `rescaled` that the duals were
    those of other costs, and have been multiplied to fit. `spread` is how the rows lie, or others like them. `passed` are
    the last two solutions of a path, the last one last.
    """

    duals: SparseDuals
    b: Array
    scales: Array | None = None
    crawled: bool = False
    W: Array = np.empty((0, 0))
    rescaled: bool = False
    spread: tuple[Array, float] | None = None
    passed: tuple[Passed, Passed] | None = None


def signs_of(own: NDArray[np.integer[Any]], rivals: NDArray[np.integer[Any]], n_classes: int) -> NDArray[np.float64]:
    """``e_own - e_rival``, one row a pair."""
    out, each = np.zeros((len(own), n_classes)), np.arange(len(own))
    out[each, own] = 1.0
    out[each, rivals] -= 1.0
    return out
