"""What is done on a part: plain functions of its rows, its duals and what all parts share.

The duals of a part are a CSR array (rows, classes). `Shared` is the machine that the duals of all parts make, in the terms
of the native loops (``_core/machine/weights.hpp``): sums of rows ``v_k = sum_i tau_ik x_i`` and ``s_k = sum_i tau_ik``,
means m of the columns, class scales beta, and with a free intercept the centre of its proximal term,

    w_k = beta_k (v_k - s_k m)          b_k = centre_k + s_k / rho - w_k . m
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.distributed.communicator import Least
from polymargin.problems.classes import Problem
from polymargin.problems.whole import Facts, facts_of
from polymargin.solvers.ascent.loops import open_loop, open_scaled_loop
from polymargin.solvers.bounds import class_sums
from polymargin.solvers.types import SparseDuals

Array = NDArray[np.float64]

_DENSE = 1 << 20  # duals that are projected at a time
_WIDE = 64  # classes from which on only those with duals are
Pending = tuple[float, bool]  # a step, and whether it leads to what was aimed at
_EXACT = 1e-300  # a gap at which no loop stops before its epochs are over


class Intercept(NamedTuple):
    """What centres the rows, and the proximal term of the offsets."""

    means: Array
    inverse_rho: float
    centre: Array


class Shared(NamedTuple):
    V: Array  # (d, c)
    sums: Array  # (c,)
    intercept: Intercept | None
    scales: Array | None

    @property
    def centred(self) -> Array:
        """``v_k - s_k m``."""
        return self.V if self.intercept is None else self.V - np.outer(self.intercept.means, self.sums)

    @property
    def machine(self) -> tuple[Array, Array]:
        """W and b."""
        W = self.centred if self.scales is None else self.centred * self.scales
        if self.intercept is None:
            return W, np.zeros(W.shape[1])
        means, inverse_rho, centre = self.intercept
        return W, centre + inverse_rho * self.sums - means @ W


class PartState(NamedTuple):
    """The duals of a part; those that a climb has reached, those before the last move, and those that were aimed at."""

    duals: Any
    ahead: Any = None
    before: Any = None
    aimed: Any = None


class Looks(NamedTuple):
    """Machines whose losses are asked for: some on the way from one to another. The last one is the other itself."""

    W: Array
    b: Array
    to_W: Array
    to_b: Array
    at: tuple[float, ...]  # 0 is the first machine, 1 the other


class Climbed(NamedTuple):
    """A move: losses before it, and what it adds to the linear part of the dual and to the sums of rows.

    `squares` are inner products of duals, of what squared losses take off the dual: of those before the move with it, of it
    with itself, of it with the last move, of those before it with the last move, and of the last move with itself.
    """

    losses: Array
    linear: float
    V: Array
    sums: Array
    squares: Array


class Sums(NamedTuple):
    """Duals in sum: the linear part of their value, their size, the sums of rows; the first two `squares` of `Climbed`."""

    linear: float
    flow: float
    V: Array
    sums: Array
    squares: Array


class Scaled(NamedTuple):
    """Duals times factors: the part of them that is feasible, and what they are in sum."""

    room: Least
    linear: float
    flow: float
    V: Array
    sums: Array
    square: float


def facts(problem: Problem, state: Any) -> tuple[Any, Facts]:
    return state, facts_of(problem)


def no_duals(problem: Problem) -> PartState:
    return PartState(sparse.csr_array((problem.n_rows, problem.n_classes)))


# ---- a climb ----------------------------------------------------------------------------------------------------------


def climb(
    problem: Problem,
    state: PartState,
    pending: Pending | None,
    shared: Shared,
    looks: Looks,
    epochs: int,
    seed: int,
    round: int,
    part: int,
) -> tuple[PartState, Climbed]:
    """Epochs of dual ascent over the rows of the part, the duals of all others standing still; the last move comes first."""
    if pending is not None:
        state, _ = move(problem, state, *pending)
    ahead, climbed = _ascended(problem, state.duals, shared, looks, epochs, _seed(seed, round, part))
    if problem.loss.squared and problem.n_rows and state.before is not None:
        last, gone, duals = state.duals - state.before, ahead - state.duals, state.duals
        climbed.squares[2:] = [_inner(problem, *pair) for pair in ((gone, last), (duals, last), (last, last))]
    return state._replace(ahead=ahead), climbed


class Turned(NamedTuple):
    """What a part adds to a pass in which every part begins where the one before it has come to."""

    losses: Array
    value: float  # that its own duals gain, without the sums of rows


def turn(
    problem: Problem,
    state: PartState,
    carried: tuple[Array, Array],
    shared: Shared,
    looks: Looks,
    epochs: int,
    seed: int,
    round: int,
    part: int,
) -> tuple[PartState, tuple[tuple[Array, Array], Turned]]:
    """The same of parts that take turns: all of the move is made, and the sums of rows are `carried` on."""
    shared = shared._replace(V=carried[0], sums=carried[1])
    duals, climbed = _ascended(problem, state.duals, shared, looks, epochs, _seed(seed, round, part))
    carried = carried[0] + climbed.V, carried[1] + climbed.sums
    value = climbed.linear - float(climbed.squares[0]) - 0.5 * float(climbed.squares[1])
    return PartState(duals), (carried, Turned(climbed.losses, value))


def _ascended(
    problem: Problem, duals: Any, shared: Shared, looks: Looks, epochs: int, seed: int
) -> tuple[Any, Climbed]:
    """The duals after some epochs, and what that adds."""
    if problem.n_rows == 0:
        none = np.zeros_like(shared.V), np.zeros_like(shared.sums), np.zeros(5)
        return duals, Climbed(np.zeros(len(looks.at)), 0.0, *none)
    losses = _losses(problem, looks)
    loop = _loop_at(problem, duals, shared, seed)
    loop.ascend(epochs * problem.n_rows, _EXACT)
    ahead = _as_matrix(SparseDuals(*loop.duals()), problem)
    gone = ahead - duals
    linear, _, sums = _few_sums(problem, gone)
    V = loop.weights() if shared.scales is None else loop.weights() / shared.scales
    if shared.intercept is not None:
        V += np.outer(shared.intercept.means, shared.sums + sums)
    V -= shared.V
    return ahead, Climbed(losses, linear, V, sums, np.append(_squares(problem, duals, gone), np.zeros(3)))


def _losses(problem: Problem, looks: Looks) -> Array:
    """Scores change evenly on the way: those of its ends are enough."""
    if len(looks.at) == 1:
        return np.array([problem.loss_of_machine(looks.to_W, looks.to_b)])
    out, c = np.zeros(len(looks.at)), problem.n_classes
    both, offsets = np.hstack([looks.W, looks.to_W]), np.concatenate([looks.b, looks.to_b])
    for rows in problem.blocks():
        S = np.asarray(problem.X[rows] @ both, dtype=np.float64) + offsets
        first, gone = S[:, :c], S[:, c:] - S[:, :c]
        out += [problem.total_loss(first + t * gone, rows) for t in looks.at]
    return out


def _loop_at(problem: Problem, duals: Any, shared: Shared, seed: int) -> native.RowLoop:
    """The native loop of the part beside the other parts: its class vectors are those of all duals."""
    loop = open_loop(problem, seed) if shared.scales is None else open_scaled_loop(problem, seed)
    if shared.intercept is not None:
        loop.start_intercept(shared.intercept.means, shared.intercept.inverse_rho)
    if shared.scales is not None:
        loop.rescale(shared.scales, np.zeros(problem.n_classes))
    loop.set_duals(*_as_duals(duals))
    base = shared.V
    if shared.intercept is not None:  # the loop centres its own rows itself
        others = shared.sums - _few_sums(problem, duals)[2]
        base = base - np.outer(shared.intercept.means, others)
        loop.move_centre(shared.intercept.centre + shared.intercept.inverse_rho * others)
    loop.set_base(np.ascontiguousarray(base), 0.0)
    return loop


def _seed(seed: int, round: int, part: int) -> int:
    return int(np.random.SeedSequence((seed, round, part)).generate_state(1)[0])


# ---- moves of all parts together --------------------------------------------------------------------------------------


def aim(problem: Problem, state: PartState, ahead: float, on: float) -> tuple[PartState, Sums]:
    """So much of the climb and so much of the last move, back in the rows' domains: what that would add."""
    if problem.n_rows == 0:
        return state, _sums_of(problem, no_duals(problem).duals)
    wanted = state.duals + ahead * (state.ahead - state.duals)
    if state.before is not None and on != 0.0:
        wanted = wanted + on * (state.duals - state.before)
    aimed = _projected(problem, sparse.csr_array(wanted))
    gone = aimed - state.duals
    return state._replace(aimed=aimed), _sums_of(problem, gone)._replace(squares=_squares(problem, state.duals, gone))


def move(problem: Problem, state: PartState, step: float, to_aim: bool) -> tuple[PartState, float]:
    """Goes a part of the way, to what was aimed at or to where the climb led."""
    to = state.aimed if to_aim else state.ahead
    if to is None:
        return state, 0.0
    duals = to if step == 1.0 else sparse.csr_array((1.0 - step) * state.duals + step * to)
    return PartState(duals, before=state.duals), 0.0


def _projected(problem: Problem, wanted: Any) -> Any:
    """The nearest feasible duals. With very many classes only those that have a dual take part, where the others stay 0."""
    domain, c = problem.loss.domain, problem.n_classes
    assert domain is not None
    longest = int(np.diff(wanted.indptr).max(initial=0))
    width = c if c <= _WIDE or not domain.has_plain_faces else min(c, max(_WIDE, longest + 1))
    parts, step = [], max(1, _DENSE // width)
    for start in range(0, problem.n_rows, step):
        rows = slice(start, min(problem.n_rows, start + step))
        y, cost, some = problem.y[rows], problem.cost[rows], wanted[rows]
        if problem.loss.squared:  # duals are non-negative, and that is all
            cost = 1.0 + np.abs(some).sum(axis=1)
        if width == c:
            parts.append(sparse.csr_array(domain.project(some.toarray(), y, cost).A))
            continue
        within = np.arange(some.nnz) - np.repeat(some.indptr[:-1], np.diff(some.indptr)) + 1  # column 0: the own class
        of = np.repeat(np.arange(len(y)), np.diff(some.indptr))
        T = np.zeros((len(y), width))
        T[of, within] = some.data
        kept = domain.project(T, np.zeros(len(y), dtype=np.int32), cost).A[of, within]
        parts.append(sparse.csr_array((kept, some.indices, some.indptr), shape=some.shape))
    out = sparse.csr_array(sparse.vstack(parts, format="csr"))
    out.eliminate_zeros()
    return out


# ---- what a proof is made of ------------------------------------------------------------------------------------------


def loss_at(problem: Problem, state: Any, W: Array, b: Array) -> tuple[Any, float]:
    """The weighted loss of a machine."""
    return state, problem.loss_of_machine(W, b)


def flows(problem: Problem, state: PartState) -> tuple[PartState, Array]:
    """What the rows of class y take from class l, (c, c)."""
    out = np.zeros((problem.n_classes, problem.n_classes))
    duals = _as_duals(state.duals)
    np.add.at(out, (problem.y[duals.rows], duals.classes), duals.values)
    return state, out


def sums(problem: Problem, state: PartState) -> tuple[PartState, Sums]:
    return state, _sums_of(problem, state.duals)


def scaled(problem: Problem, state: PartState, factors: Array) -> tuple[PartState, Scaled]:
    """The duals times a factor for each pair of classes."""
    duals = _as_duals(state.duals).times(factors, problem.y)
    matrix, room = _as_matrix(duals, problem), np.inf if problem.loss.squared else 1.0
    if problem.n_rows and not problem.loss.squared:
        room = _room(problem, duals)
    total = _sums_of(problem, matrix)
    square = _inner(problem, matrix, matrix) if problem.loss.squared else 0.0
    return state, Scaled(Least(room), total.linear, total.flow, total.V, total.sums, square)


def _room(problem: Problem, duals: SparseDuals) -> float:
    matrix, room, step = _as_matrix(duals, problem), 1.0, max(1, _DENSE // problem.n_classes)
    assert problem.loss.domain is not None
    for start in range(0, problem.n_rows, step):
        rows = slice(start, min(problem.n_rows, start + step))
        room = min(room, problem.loss.domain.room(matrix[rows].toarray(), problem.y[rows], problem.cost[rows]))
    return room


def _sums_of(problem: Problem, duals: Any) -> Sums:
    linear, flow, sums = _few_sums(problem, duals)
    if not problem.n_rows or not duals.nnz:
        return Sums(linear, flow, np.zeros((problem.n_features, problem.n_classes)), sums, np.zeros(2))
    V = np.ascontiguousarray(class_sums(problem, _as_duals(duals)), dtype=np.float64)
    return Sums(linear, flow, V, sums, np.zeros(2))


def _squares(problem: Problem, duals: Any, gone: Any) -> Array:
    """Of duals with a move, and of that with itself."""
    if not problem.loss.squared:
        return np.zeros(2)
    return np.array([_inner(problem, duals, gone), _inner(problem, gone, gone)])


def _inner(problem: Problem, first: Any, second: Any) -> float:
    """The product of duals whose half square is what a squared loss takes off the dual: its quadratic form, polarised."""
    domain, total, step = problem.loss.domain, 0.0, max(1, _DENSE // problem.n_classes)
    assert domain is not None
    for start in range(0, problem.n_rows, step):
        rows = slice(start, min(problem.n_rows, start + step))
        A, B, y = first[rows].toarray(), second[rows].toarray(), problem.y[rows]
        total += float(((domain.square(A + B, y) - domain.square(A - B, y)) / (8.0 * problem.cost[rows])).sum())
    return total


def _few_sums(problem: Problem, duals: Any) -> tuple[float, float, Array]:
    """Those that need no rows: the linear part of the value, the size, and the sums of signed duals."""
    entries, c = _as_duals(duals), problem.n_classes
    own = problem.y[entries.rows]
    linear = entries.values if problem.loss.unit_targets else entries.values * problem.loss.targets(c)[own, entries.classes]
    sums = np.bincount(own, entries.values, c) - np.bincount(entries.classes, entries.values, c)
    return float(linear.sum()), float(np.abs(entries.values).sum()), np.asarray(sums, dtype=np.float64)


def _as_duals(duals: Any) -> SparseDuals:
    starts, classes = duals.indptr.astype(np.int64, copy=False), duals.indices.astype(np.int32, copy=False)
    return SparseDuals(starts, classes, np.asarray(duals.data, dtype=np.float64))


def _as_matrix(duals: SparseDuals, problem: Problem) -> Any:
    return sparse.csr_array((duals.values, duals.classes, duals.starts), shape=(problem.n_rows, problem.n_classes))
