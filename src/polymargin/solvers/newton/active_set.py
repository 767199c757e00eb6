"""Newton steps of the pairwise hinge on the pairs that matter, with a class metric.

Near the optimum the pairs j = (row i, rival k) with ``0 < a_j < u_i`` are known, and they lie on their margins. With the
metric's inverse P their margins are linear in their duals:

    M da + E db = 1 - margins,      E' da = 2 eps b - sums,      M_jl = <x_j, x_l> (e_y - e_k)_j' P (e_y - e_k)_l

One factorisation of order |J| replaces hundreds of epochs. Pairs whose duals leave their bounds leave the face, pairs that
violate their margins join it, and the factor solves the new system too, with a small border. If they do not become fewer,
epochs find a better face. Once it is right, the weights of the metric move: what is left of the gap is their price, which is
of second order. The factor outlives small moves: the margins are exact, the matrix need not be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from polymargin._core import native
from polymargin.certificate import Ledger
from polymargin.solvers.interior.pair_iterate import PairIterate
from polymargin.solvers.progress import Anderson
from polymargin.solvers.types import signs_of

if TYPE_CHECKING:
    from polymargin.solvers.ascent.pair_weights import PairMetric

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

LARGEST = 2500  # pairs of a face
_RIDGE = 1e-10  # relative, on the diagonal of M
_VIOLATED = 1e-7  # of a margin
_FEW = 0.03  # of a face: so many pairs may be wrong at first
_FAR, _MOVES = 0.5, 3.0  # while the weights still move, it serves up to the first, and up to so many of their last moves
_STEPS = 20
_BORDER = 60  # pairs that may leave or join before a new factor pays
_NEAR = 0.05  # a factor serves weights whose logarithms have moved by less


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
        helped, least, moved = False, np.inf, 0.0
        for _ in range(_STEPS):
            if not 0 < np.count_nonzero(where) <= LARGEST:
                break
            if face is None or not face.serves(where, metric, moved):
                face = _Face.of(now, metric, where)
                if face is None:
                    break
            left = self._step(face, where)
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
            where, least = (where & ~left) | joins, wrong
            if not wrong:  # else the pairs first: wrong weights cost less than they are wrong
                least = np.inf
                before = metric.log_Q
                metric.set(self._extrapolate(before, metric.step(now.V[: now.design.r])))
                moved = float(np.abs(metric.log_Q - before).max())
            self._place()
        now.A, now.V, log_Q = best
        metric.set(log_Q)
        return helped

    def _step(self, face: _Face, where: Mask) -> Mask | None:
        """Puts the pairs of the face on their margins; returns those whose duals had to be clipped."""
        now = self.now
        try:
            steps, offsets = face.steps(now, where)
        except np.linalg.LinAlgError:  # pairs that joined depend on the others
            return None
        if not np.isfinite(steps).all():
            return None
        now.A += steps
        self._pulls = now.pulls(now.A)
        self._place(offsets)
        left = where & ((now.A <= 0.0) | (self.upper <= now.A))
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

    def _place(self, offsets: Array | None = None) -> None:
        """The iterate of the pulls and of the metric, its offsets moved.

        Pulls are those of centred rows. Rows as they are add the mean times the sums of the duals, which are taken for what
        they must become, 2 eps b: so margins change by M times the steps, whatever the sums were.
        """
        now, design = self.now, self.now.design
        V, Z = now.V.copy(), self._pulls[: design.r]
        if now.problem.fit_intercept:
            _, b = design.split(now.V)
            Z = Z + np.outer(design.mean, _slope_of_offsets(now, b))
            V[design.r] += 0.0 if offsets is None else offsets
        V[: design.r] = Z @ self.metric.P
        now.V, now.S = V, design.scores(V)


class _Face:
    """The factor of the system of some pairs; it also solves the systems of a few pairs less or more.

    With steps x of the pairs of the factor, and z of the offsets, of the slacks of pairs that left and of the duals of pairs
    that joined:  ``M x + N z = misses``,  ``N' x + C z = right``.
    """

    def __init__(self, now: PairIterate, metric: PairMetric, where: Mask, factor: Array):
        self._base, self._factor, self._log_Q, self._P = where, factor, metric.log_Q, metric.P
        self._pairs = np.flatnonzero(where)
        self._products = now.design.products
        self._y, self._n_classes, self._free = now.y, now.S.shape[1], now.problem.fit_intercept
        self._borders: dict[int, tuple[Array, Array]] = {}  # columns of N, and M^-1 times them, by pair
        if self._free:
            self._signs_of_all = self._signs(self._pairs)
            self._solved_signs = dpotrs(factor, self._signs_of_all, lower=1)[0]

    @classmethod
    def of(cls, now: PairIterate, metric: PairMetric, where: Mask) -> _Face | None:
        """None if the system cannot be factorised."""
        rows, rivals = np.nonzero(where)
        K, at = now.design.products.of(rows)
        M = now.room(len(rows) ** 2).reshape(len(rows), len(rows))
        native.pair_matrix(K, at.astype(np.int32), now.y[rows], rivals.astype(np.int32), metric.P, M)
        M[np.diag_indices_from(M)] *= 1.0 + _RIDGE
        factor, failed = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        return None if failed else cls(now, metric, where, factor)

    def serves(self, where: Mask, metric: PairMetric, moved: float) -> bool:
        """Whether the factor is good enough for these pairs and this metric, which has moved last by so much."""
        far = float(np.abs(metric.log_Q - self._log_Q).max())
        near = far <= _NEAR or far <= min(_FAR, _MOVES * moved)
        return bool(near and np.count_nonzero(where != self._base) <= _BORDER)

    def steps(self, now: PairIterate, where: Mask) -> tuple[Array, Array]:
        """Steps of all duals (n, c), and of the offsets, that put the pairs on their margins."""
        left, joined = np.flatnonzero(self._base & ~where), np.flatnonzero(where & ~self._base)
        out, offsets = np.zeros(now.A.shape), np.zeros(self._n_classes)
        x = dpotrs(self._factor, self._misses(now, self._pairs), lower=1)[0]
        if self._free or len(left) or len(joined):
            N, solved = self._border(left, joined)
            z = np.linalg.solve(self._corner(now, left, joined) - N.T @ solved, self._right(now, left, joined) - N.T @ x)
            x -= solved @ z
            if self._free:
                offsets = z[: self._n_classes] - z[: self._n_classes].mean()
            out.flat[joined] = z[len(z) - len(joined) :]
        out.flat[self._pairs] = x
        out.flat[left] = 0.0
        return out, offsets

    def _misses(self, now: PairIterate, pairs: Index) -> Array:
        rows, rivals = np.divmod(pairs, self._n_classes)
        return np.asarray(1.0 - (now.S[rows, self._y[rows]] - now.S[rows, rivals]))

    def _signs(self, pairs: Index) -> Array:
        """``e_y - e_k`` of the pairs."""
        rows, rivals = np.divmod(pairs, self._n_classes)
        return signs_of(self._y[rows], rivals, self._n_classes)

    def _matrix(self, pairs: Index, others: Index) -> Array:
        """M between some pairs and others."""
        K, at = self._products.of(np.r_[pairs, others] // self._n_classes)
        first, second = at[: len(pairs)], at[len(pairs) :]
        return np.asarray(K[first[:, None], second] * (self._signs(pairs) @ self._P @ self._signs(others).T))

    def _border(self, left: Index, joined: Index) -> tuple[Array, Array]:
        """N and ``M^-1 N``."""
        wanted = np.r_[left, joined]
        new = np.array([pair for pair in wanted.tolist() if pair not in self._borders], dtype=np.intp)
        if len(new):
            inside = self._base.ravel()[new]
            columns = np.zeros((len(self._pairs), len(new)))
            columns[np.searchsorted(self._pairs, new[inside]), np.flatnonzero(inside)] = 1.0
            if not inside.all():
                columns[:, ~inside] = self._matrix(self._pairs, new[~inside])
            found = dpotrs(self._factor, columns, lower=1)[0]
            self._borders.update((pair, (columns[:, k], found[:, k])) for k, pair in enumerate(new.tolist()))
        parts = [self._borders[pair] for pair in wanted.tolist()]
        N, solved = [part[0] for part in parts], [part[1] for part in parts]
        if self._free:
            N, solved = [self._signs_of_all, *N], [self._solved_signs, *solved]
        return np.column_stack(N), np.column_stack(solved)

    def _corner(self, now: PairIterate, left: Index, joined: Index) -> Array:
        """C. All offsets may grow by the same number, so that direction is held."""
        c = self._n_classes if self._free else 0
        C = np.zeros((c + len(left) + len(joined),) * 2)
        if len(joined):
            C[c + len(left) :, c + len(left) :] = self._matrix(joined, joined)
        if self._free:
            rate = float(_slope_of_offsets(now, np.ones(1))[0])
            held = float(np.einsum("jk,jk->", self._signs_of_all, self._solved_signs)) / c**2
            C[:c, :c] = -rate * np.eye(c) - held
            C[:c, c + len(left) :] = self._signs(joined).T
            C[c + len(left) :, :c] = self._signs(joined)
        return C

    def _right(self, now: PairIterate, left: Index, joined: Index) -> Array:
        misses = np.r_[np.zeros(len(left)), self._misses(now, joined)]
        if not self._free:
            return misses
        _, b = now.design.split(now.V)
        return np.r_[_slope_of_offsets(now, b) - now.sums(), misses]


def _slope_of_offsets(now: PairIterate, b: Array) -> Array:
    penalty: Any = now.problem.penalty  # one that holds the offsets
    return np.asarray(penalty.offset_gradient(b))


def _margins(now: PairIterate) -> Array:
    """``s_y - s_k``, infinite at the own class."""
    margins = now.S[now.own, now.y][:, None] - now.S
    margins[now.own, now.y] = np.inf
    return np.asarray(margins)
