"""Dual ascent for the block norm ``R = 1/2 (sum_k |w_k|^p)^(2/p)``: class scales on top of the native loop.

R is a minimum over class scales beta (penalties/block_norm.py). For fixed beta the machine is a Crammer-Singer machine with
the penalty ``sum_k |w_k|^2 / (2 beta_k)``, whose dual the native loop climbs: duals a make ``z_k = sum_i tau_ik x_i`` and
``w_k = beta_k z_k``. Every other epoch beta moves. The true dual needs no beta,

    D = sum_i A_i - 1/2 |z|_{2,p*}^2        (squared hinge: A_i - A_i^2 / (4 u_i)),      A_i = sum_l a_il,

so that the gap of w and a splits into the loop's own gap and the price of wrong class scales, which takes c numbers:

    P(w) - D(a) = sum_i (row gap) + [ 1/2 |w|_{2,p}^2 + 1/2 |z|_{2,p*}^2 - <w, z> ].

Neither part is driven far below the other. (Lei, Dogan, Binder & Kloft 2015, Algorithm 1, Problems 11 and 13.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.certificate import Ledger
from polymargin.problem import Problem
from polymargin.solvers.ascent.driver import Rhythm, RowsProof, Watch, climb_rows
from polymargin.solvers.ascent.loops import open_scaled_loop
from polymargin.solvers.ascent.moves import ClassScales
from polymargin.solvers.bounds import Ray
from polymargin.solvers.types import Solution, Start

Array = NDArray[np.float64]

_PLAIN = Rhythm(epochs=2, grace=40, promise=0.7, loosely=True, restores="look")
_WITH_INTERCEPT = _PLAIN._replace(epochs=5, restores="slice")


def class_weighted_ascent(
    problem: Problem,
    ledger: Ledger,
    *,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    start: Start | None = None,
    gives_up: Watch | None = None,
) -> Solution:
    """Climbs until ``ledger.tol`` is certified, ``max_iter`` epochs are used up or `gives_up` says so."""
    loop, scaling = open_scaled_loop(problem, seed), problem.penalty.class_scales
    assert scaling is not None  # else there would be no loop
    warm = None if start is None else start.scales
    scales = ClassScales(loop, scaling, np.ones(problem.n_classes) if warm is None else warm)
    proof = _BlockNormProof(problem, loop, n_threads, scales)
    solution = climb_rows(
        proof,
        ledger,
        _PLAIN,
        _WITH_INTERCEPT,
        max_iter=max_iter,
        moves=[scales],
        scale=float(np.median(scales.scales)),
        start=start,
        gives_up=None if gives_up is None else lambda epochs, _: gives_up(epochs, proof.duals),
    )
    return solution._replace(scales=scales.scales)


class _BlockNormProof(RowsProof):
    def __init__(self, problem: Problem, loop: Any, n_threads: int, scales: ClassScales):
        super().__init__(problem, loop, n_threads)
        self._scales = scales

    def penalty(self) -> float:
        return self._scales.primal_penalty

    def dual(self, matters: float) -> float:
        return float(self.loop.dual_sum) - self._scales.conjugate(self._scales.squares)

    def ray(self, factors: Array) -> Ray:
        room, total, losses, squares = self.loop.totals_of(factors)
        return Ray(total, 0.5 * losses + self._scales.conjugate(squares), room)
