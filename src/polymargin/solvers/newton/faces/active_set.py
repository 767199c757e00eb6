"""Newton steps of the pairwise hinge on the pairs that matter, with a class metric: the face is one of `face_search.py`.

Near the optimum the pairs j = (row i, rival k) with ``0 < a_j < u_i`` are known, and they lie on their margins. With the
metric's inverse P their margins are linear in their duals:

    M da + E db = 1 - margins,      E' da = 2 eps b - sums,      M_jl = <x_j, x_l> (e_y - e_k)_j' P (e_y - e_k)_l

One factorisation of order |J| replaces hundreds of epochs. Pairs whose duals leave their bounds leave the face, pairs that
violate their margins join it, and the factor solves the new system too, with a small border. If they do not become fewer,
epochs find a better face. Once it is right, the weights of the metric move: what is left of the gap is their price, which is
of second order. The factor outlives small moves: the margins are exact, the matrix need not be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polymargin.problems.certificate import Ledger
from polymargin.solvers import cost_model
from polymargin.solvers.interior.pair_iterate import PairIterate
from polymargin.solvers.newton.faces.face_search import Change, FaceSearch, Mask
from polymargin.solvers.newton.faces.pair_factor import ClassMetric, PairFactor, slope_of_offsets
from polymargin.solvers.progress import Anderson

Array = NDArray[np.float64]

_VIOLATED = 1e-7  # of a margin
_FEW = 0.03  # of a face: so many pairs may be wrong at first
_STEPS = 20


def newton_on_pairs(now: PairIterate, metric: ClassMetric, ledger: Ledger, bound: float, n_iter: int) -> bool:
    """Steps until ``ledger.tol`` is certified or the face turns out to be a wrong one; returns whether they were of use.

    Then multipliers, metric and iterate are where the best step came, for the ascent to go on from there. `bound` is what
    the multipliers are worth at the start.
    """
    return _PairNewton(now, metric, ledger, max(1, n_iter)).run(bound)


class _PairNewton(FaceSearch):
    """The iterate, the factor of the face, and the best step so far."""

    most_steps, most_wrong, must_improve = _STEPS, _FEW, True

    def __init__(self, now: PairIterate, metric: ClassMetric, ledger: Ledger, n_iter: int):
        self.now, self.metric, self.ledger, self.n_iter = now, metric, ledger, n_iter
        self.upper = now.cost[:, None]
        self._factor: PairFactor | None = None
        self._extrapolate, self._moved = Anderson(), 0.0

    def run(self, bound: float) -> bool:
        now, metric = self.now, self.metric
        self._bound, self._helped, self._best = bound, False, (now.A.copy(), now.V, metric.log_Q)
        self.search((now.A > 0.0) & (self.upper > now.A))
        if self.ledger.done:
            return True
        now.A, now.V, log_Q = self._best
        metric.set(log_Q)
        return self._helped

    def _fits(self, free: Mask) -> bool:
        return bool(0 < np.count_nonzero(free) <= cost_model.LARGEST_PAIR_FACE)

    def _step(self, free: Mask) -> Change | None:
        """Puts the pairs of the face on their margins; duals beyond their bounds are clipped and leave it."""
        now = self.now
        if self._factor is None or not self._factor.serves(free, self.metric, self._moved):
            self._factor = PairFactor.of(now, self.metric, free)
        if self._factor is None:
            return None
        try:
            steps, offsets = self._factor.steps(now, free)
        except np.linalg.LinAlgError:  # pairs that joined depend on the others
            return None
        if not np.isfinite(steps).all():
            return None
        now.A += steps
        self._pulls = now.pulls(now.A)
        self._place(offsets)
        left = free & ((now.A <= 0.0) | (self.upper <= now.A))
        np.clip(now.A, 0.0, self.upper, out=now.A)
        margins = _margins(now)
        joins = ~free & np.where(now.A > 0.0, margins > 1.0 + _VIOLATED, margins < 1.0 - _VIOLATED)
        self._clipped = bool(left.any())
        return Change((free & ~left) | joins, int(np.count_nonzero(left) + np.count_nonzero(joins)))

    def _is_found(self, change: Change) -> bool:
        found = self._certify(self._clipped)
        if not self.ledger.done and found > self._bound:
            self._helped, self._bound = True, found
            self._best = self.now.A.copy(), self.now.V, self.metric.log_Q
        return self.ledger.done

    def _certify(self, clipped: bool) -> float:
        now = self.now
        was, now.inexact = now.inexact, clipped
        model = now.problem.penalty.model(now.V[: now.design.r], 0.0)
        if clipped:
            self._pulls = now.pulls(now.A)
        found = now.certify(self.ledger, model, self.n_iter, self._pulls)
        now.inexact = was
        return found

    def _go_on(self, change: Change) -> None:
        """The weights move once the pairs are right: wrong weights cost less than they are wrong."""
        now, metric = self.now, self.metric
        if not change.wrong:
            before = metric.log_Q
            metric.set(self._extrapolate(before, metric.step(now.V[: now.design.r])))
            self._moved = float(np.abs(metric.log_Q - before).max())
        self._place()

    def _place(self, offsets: Array | None = None) -> None:
        """The iterate of the pulls and of the metric, its offsets moved.

        Pulls are those of centred rows. Rows as they are add the mean times the sums of the duals, which are taken for what
        they must become, 2 eps b: so margins change by M times the steps, whatever the sums were.
        """
        now, design = self.now, self.now.design
        V, Z = now.V.copy(), self._pulls[: design.r]
        if now.problem.fit_intercept:
            _, b = design.split(now.V)
            Z = Z + np.outer(design.mean, slope_of_offsets(now, b))
            V[design.r] += 0.0 if offsets is None else offsets
        V[: design.r] = Z @ self.metric.P
        now.V, now.S = V, design.scores(V)


def _margins(now: PairIterate) -> Array:
    """``s_y - s_k``, infinite at the own class."""
    margins = now.S[now.own, now.y][:, None] - now.S
    margins[now.own, now.y] = np.inf
    return np.asarray(margins)
