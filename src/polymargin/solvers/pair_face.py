"""Newton steps of the pairwise hinge on the pairs that matter, with a class metric.

Near the optimum the pairs j = (row i, rival k) with ``0 < a_j < u_i`` are known, and they lie on their margins. With the
metric's inverse P their margins are linear in their duals:

    M da + E db = 1 - margins,      E' da = 2 eps b - sums,      M_jl = <x_j, x_l> (e_y - e_k)_j' P (e_y - e_k)_l

One factorisation of order |J| replaces hundreds of epochs. Pairs whose duals leave their bounds leave the face, pairs that
violate their margins join it; if there are many of both, epochs find a better face sooner than more factorisations. Between
steps the weights of the metric move. The factor outlives small moves: the margins are exact, the matrix need not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin._core import native
from polymargin.certificate import Ledger
from polymargin.solvers.dual_ascent import Anderson
from polymargin.solvers.pair_iterate import PairIterate

if TYPE_CHECKING:
    from polymargin.solvers.pair_weighted import PairMetric

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

LARGEST = 2500  # pairs of a face
_RIDGE = 1e-10  # relative, on the diagonal of M
_VIOLATED = 1e-7  # of a margin
_FEW = 0.01  # of a face: so many pairs may be wrong
_STEPS = 20
_NEAR = 0.01  # a factor serves weights whose logarithms have moved by less


def newton_on_pairs(now: PairIterate, metric: PairMetric, ledger: Ledger, bound: float, n_iter: int) -> bool:
    """Steps until ``ledger.tol`` is certified or the face turns out to be a wrong one; returns whether they were of use.

    Then multipliers, metric and iterate are where the best step came, for the ascent to go on from there. `bound` is what
    the multipliers are worth at the start.
    """
    return _PairNewton(now, metric, ledger, max(1, n_iter)).run(bound)


class _PairNewton:
    """The face, and the state of the steps on it."""

    def __init__(self, now: PairIterate, metric: PairMetric, ledger: Ledger, n_iter: int):
        self.now, self.metric, self.ledger, self.n_iter = now, metric, ledger, n_iter
        self.upper = now.cost[:, None]
        self._extrapolate = Anderson()

    def run(self, bound: float) -> bool:
        now, metric, ledger = self.now, self.metric, self.ledger
        best = now.A.copy(), now.V, metric.log_Q
        where = (now.A > 0.0) & (self.upper > now.A)
        face: _Face | None = None
        helped, least = False, np.inf
        for _ in range(_STEPS):
            if not 0 < np.count_nonzero(where) <= LARGEST:
                break
            if face is None or not face.serves(where, metric):
                face = _Face.of(now, metric, where)
                if face is None:
                    break
            left = self._step(face)
            if left is None:
                break
            margins = _margins(now)
            joins = ~where & np.where(now.A > 0.0, margins > 1.0 + _VIOLATED, margins < 1.0 - _VIOLATED)
            wrong = int(np.count_nonzero(left) + np.count_nonzero(joins))
            found = self._certify(clipped=bool(left.any()))
            if ledger.done:
                return True
            if found > bound:
                helped, bound, best = True, found, (now.A.copy(), now.V, metric.log_Q)
            if wrong > _FEW * np.count_nonzero(where) or 0 < least <= wrong:
                break
            least = min(least, wrong)
            where = (where & ~left) | joins
            self._move_metric()
        now.A, now.V, log_Q = best
        metric.set(log_Q)
        return helped

    def _step(self, face: _Face) -> Mask | None:
        """Puts the pairs of the face on their margins; returns those whose duals had to be clipped."""
        now, design = self.now, self.now.design
        steps, offsets = face.steps(now)
        if not np.isfinite(steps).all():
            return None
        now.A[face.where] += steps
        V = np.zeros_like(now.V)
        self._pulls = now.pulls(now.A)
        V[: design.r] = self._raw_pulls() @ self.metric.P
        if now.problem.fit_intercept:
            V[design.r] = now.V[design.r] + offsets
        now.V, now.S = V, design.scores(V)
        left = face.where & ((now.A <= 0.0) | (self.upper <= now.A))
        np.clip(now.A, 0.0, self.upper, out=now.A)
        return left

    def _certify(self, clipped: bool) -> float:
        now = self.now
        was, now.inexact = now.inexact, clipped
        model = now.problem.penalty.model(now.V[: now.design.r], 0.0)
        if clipped:
            self._pulls = now.pulls(now.A)
        found = now.certify(self.ledger, model, self.n_iter, self._pulls)
        now.inexact = was
        return found

    def _move_metric(self) -> None:
        now, metric, design = self.now, self.metric, self.now.design
        metric.set(self._extrapolate(metric.log_Q, metric.step(now.V[: design.r])))
        now.V = now.V.copy()
        now.V[: design.r] = self._raw_pulls() @ metric.P
        now.S = design.scores(now.V)

    def _raw_pulls(self) -> Array:
        """``X' tau`` of the rows as they are, not centred."""
        design = self.now.design
        Z = self._pulls[: design.r]
        return Z + np.outer(design.mean, self._pulls[design.r]) if self.now.problem.fit_intercept else Z


class _Face:
    """Pairs on their margins and the factor of their system."""

    def __init__(self, now: PairIterate, metric: PairMetric, where: Mask, factor: Array):
        self.where, self._factor, self._log_Q = where, factor, metric.log_Q
        self.rows, self.rivals = np.nonzero(where)
        self.own = now.y[self.rows]
        self._E: Array | None = None
        if now.problem.fit_intercept:
            each = np.arange(len(self.rows))
            self._E = np.zeros((len(each), now.S.shape[1]))
            self._E[each, self.own] = 1.0
            self._E[each, self.rivals] -= 1.0
            self._solved_E = dpotrs(factor, self._E, lower=1)[0]
            self._B = self._E.T @ self._solved_E

    @classmethod
    def of(cls, now: PairIterate, metric: PairMetric, where: Mask) -> _Face | None:
        """None if the system cannot be factorised."""
        rows, rivals = np.nonzero(where)
        K, at = now.design.products.of(rows)
        M = np.empty((len(rows), len(rows)))
        native.pair_matrix(K, at.astype(np.int32), now.y[rows], rivals.astype(np.int32), metric.P, M)
        M[np.diag_indices_from(M)] *= 1.0 + _RIDGE
        factor, failed = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        return None if failed else cls(now, metric, where, factor)

    def serves(self, where: Mask, metric: PairMetric) -> bool:
        """Whether the factor is good enough for these pairs and this metric."""
        return bool(np.array_equal(where, self.where) and np.abs(metric.log_Q - self._log_Q).max() <= _NEAR)

    def steps(self, now: PairIterate) -> tuple[Array, Array]:
        """Steps of the duals and of the offsets."""
        misses = 1.0 - (now.S[self.rows, self.own] - now.S[self.rows, self.rivals])
        step = dpotrs(self._factor, misses, lower=1)[0]
        if self._E is None:
            return step, np.zeros(now.S.shape[1])
        offsets = self._offsets(now, step)
        return step - self._solved_E @ offsets, offsets

    def _offsets(self, now: PairIterate, step: Array) -> Array:
        """The step of b that balances the duals, ``sums = 2 eps b``."""
        assert self._E is not None
        penalty: Any = now.problem.penalty
        c = self._E.shape[1]
        _, b = now.design.split(now.V)
        rate = float(penalty.offset_gradient(np.ones(1))[0])
        B = self._B + rate * np.eye(c)
        sums = np.bincount(now.y, now.A.sum(axis=1), c) - now.A.sum(axis=0)
        right = self._E.T @ step + sums - penalty.offset_gradient(b)
        offsets = np.linalg.solve(B + np.trace(B) / c**2, right)
        return np.asarray(offsets - offsets.mean())


def _margins(now: PairIterate) -> Array:
    """``s_y - s_k``, infinite at the own class."""
    margins = now.S[now.own, now.y][:, None] - now.S
    margins[now.own, now.y] = np.inf
    return np.asarray(margins)
