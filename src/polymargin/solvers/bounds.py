"""What duals prove: the only prover.

A bound is made in three steps: duals are repaired until they are feasible, the best multiple of them is taken, and what
rounding may hide is taken off.

With a free intercept feasible duals satisfy ``sum_i tau_ik = 0`` for every class k: what the rows of class y take from the
classes l, ``f_yl = sum_{i in y} a_il``, is a circulation. Methods reach that only in the limit; multiplying the duals by
``exp(u_y - u_l)`` reaches it exactly and keeps them non-negative. They may leave their upper bounds on the way: the multiple
brings them back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin._core import native
from polymargin.penalties import Penalty
from polymargin.penalties.capabilities import HessianModel
from polymargin.problems.classes import Problem
from polymargin.problems.duals import row_sums
from polymargin.solvers.linear import conjugate_gradients
from polymargin.solvers.rows import Design
from polymargin.solvers.types import SparseDuals, sparse_duals

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_SUMMED = 64.0 * _EPS  # rounding of a sum of duals, relative to their size
_ADDED = 4.0 * _EPS  # the same of class vectors whose rows are added one by one
_BALANCED = 1e-12  # of the total flow: more than rounding leaves
_FEW_CLASSES = 200  # whose flows are balanced by systems that are factorised
_NEWTON_STEPS = 100
_TOUCHES = 1e-9  # relative: duals so near to their bounds are there
_MOSTLY = 0.99  # of the rows
_LEAST_FACTOR = 0.5  # of rows that are reduced, where there may be a better way
_REDUCTIONS = 12  # steps: each halves, about, what is left
_LOOSE_STEP, _LONGEST_STEP = 1e-3, 300  # of conjugate gradients, far from the balance; their iterations
_NEGLIGIBLE = 1e-6  # part of what matters that a dual value may lose to rounding without a second sum


# ---- the best multiple ------------------------------------------------------------------------------------------------


class Ray(NamedTuple):
    """Duals ``t a`` that are feasible for ``0 <= t <= room``, of the dual value ``t linear - t^2 quadratic``."""

    linear: float
    quadratic: float
    room: float = 1.0

    @property
    def best(self) -> float:
        """The t of the largest value."""
        if self.quadratic > 0.0:
            return min(self.room, max(0.0, 0.5 * self.linear / self.quadratic))
        return self.room if np.isfinite(self.room) else 0.0

    @property
    def value(self) -> float:
        """The largest value."""
        t = self.best
        return t * self.linear - t * t * self.quadratic


def room_of_sums(sums: Array, cost: Array) -> float:
    """The largest t <= 1 for which the duals of a row, t times these sums, add up to its cost at most."""
    return float(np.min(cost / np.maximum(sums, cost), initial=1.0))


# ---- repair to a circulation ------------------------------------------------------------------------------------------


class Repaired(NamedTuple):
    """Duals times a factor for each pair of own class and other class, and the ray through them."""

    factors: Array
    ray: Ray

    def duals(self, duals: SparseDuals, y: NDArray[np.int32]) -> SparseDuals:
        """The duals whose value is the bound. Negative ones (of margins that are too large) flow the other way."""
        own, other, scale = y[duals.rows], duals.classes, self.ray.best * self.factors
        return duals._replace(values=duals.values * np.where(duals.values > 0.0, scale[own, other], scale[other, own]))


def balancing_factors(flows: Array, max_iter: int = _NEWTON_STEPS) -> Array:
    """Factors ``(c, c)`` that turn the flows into a circulation.

    Edges between strong components cannot be part of a circulation and get the factor 0. Inside a component
    ``sum_yl f_yl exp(u_y - u_l)`` is convex in u and its stationarity is the balance: a damped Newton iteration.
    What rounding leaves unbalanced is below 1e-14 of the total flow, usually. Flows that differ by more decades than a
    double has may defy it: all factors are 0 then, which proves nothing, but nothing false.
    """
    edges = _Edges(flows)
    return edges.matrix(edges.balanced(np.ones_like(edges.flow), max_iter))


def reduced_to_balance(flows: Array) -> Array:
    """The same with factors of (almost) at most 1: duals stay below their upper bounds.

    They are ``exp(min(u_y - u_l, 0))`` at the minimum of the convex ``sum_yl f_yl h(u_y - u_l)`` with h' = exp(min(., 0)).
    Steps with at least its curvature come near it, not to it; what is left is balanced as above.
    """
    edges = _Edges(flows)
    u = np.zeros(len(flows))
    for _ in range(_REDUCTIONS):
        factors = edges.factors(u, highest=0.0)
        step = edges.step(edges.flow * factors)
        if step is None:
            break
        u += step / max(1.0, np.abs(step).max())
    factors = edges.factors(u, highest=0.0)
    return edges.matrix(factors * edges.balanced(factors, _NEWTON_STEPS))


def rows_reduced_to_balance(problem: Problem, duals: SparseDuals) -> SparseDuals | None:
    """Duals of margins to rivals whose flows are made a circulation by a factor of at most 1 for each row.

    A row's multiples stay in its domain, whatever that is: a cone too. Rows inside of their bounds lie where their multiples
    are best, about, and reducing them costs next to nothing: only they are reduced, by a factor for each class, if that is
    enough, and otherwise all rows. None if no such factors are found.
    """
    y, c, of_rows = problem.y, problem.n_classes, duals.rows
    held = np.zeros(problem.n_rows, dtype=bool) if problem.loss.squared else _at_bounds(problem, duals)
    pairs = y[of_rows] * np.int64(c) + duals.classes

    def flows(values: Array) -> Array:
        return np.asarray(np.bincount(pairs, values, c * c), dtype=np.float64).reshape(c, c)

    for still in (held, np.zeros_like(held)):
        factors = _factors_of_classes(flows(np.where(still[of_rows], 0.0, duals.values)), flows(duals.values))
        if factors is not None:
            return duals._replace(values=duals.values * np.where(still, 1.0, factors[y])[of_rows])
        if not still.any():
            break
    return None


def _factors_of_classes(moving: Array, flows: Array) -> Array | None:
    """Factors s of at most 1 with which what is `moving` of the flows out of each class balances all of them.

    Flows out of class y less those into it are ``excess_y + (M (s - 1))_y``, M the Laplacian of what moves. It has a null
    vector, by multiples of which all factors are brought below 1. None if some factor is not well above 0.
    """
    c, excess = len(flows), flows.sum(axis=1) - flows.sum(axis=0)
    laplacian = np.diag(moving.sum(axis=1)) - moving.T
    pin = float(np.trace(laplacian)) / c
    try:
        steps, null = np.linalg.solve(laplacian + pin, np.column_stack([-excess, np.ones(c)])).T
    except np.linalg.LinAlgError:  # not all classes are connected by what moves
        return None
    if not (null > 0.0).all():
        return None
    factors = np.asarray(1.0 + steps - float((steps / null).max()) * null)
    left = np.abs(excess + laplacian @ (factors - 1.0)).max()
    return factors if factors.min() >= _LEAST_FACTOR and left <= _BALANCED * flows.sum() else None


class _Edges:
    """The positive flows inside of strong components, in parts of their sum: most pairs of many classes have none."""

    def __init__(self, flows: Array):
        self.c = len(flows)
        same = _same_component(flows)
        self.rows, self.cols = np.nonzero((flows > 0.0) & same)
        self.flow = flows[self.rows, self.cols]
        total = self.flow.sum()
        if total > 0.0:
            self.flow /= total
        # a constant may be added to u in every component: pinned without changing the step
        self._pins = same / self.c if self.c <= _FEW_CLASSES else None

    def matrix(self, factors: Array) -> Array:
        out = np.zeros((self.c, self.c))
        out[self.rows, self.cols] = factors
        return out

    def factors(self, u: Array, highest: float = np.inf) -> Array:
        return np.asarray(np.exp(np.minimum(u[self.rows] - u[self.cols], highest)))

    def excess(self, flow: Array) -> Array:
        """What flows out of every class more than into it."""
        return np.asarray(np.bincount(self.rows, flow, self.c) - np.bincount(self.cols, flow, self.c))

    def balanced(self, factors: Array, max_iter: int) -> Array:
        """Factors of these flows times `factors` that balance them; 0 if none were found."""
        flow, u = self.flow * factors, np.zeros(self.c)
        if not flow.size:
            return flow
        for _ in range(max_iter):
            scaled = flow * self.factors(u)
            if np.abs(self.excess(scaled)).max() <= 1e-16:
                break
            step = self.step(scaled)
            if step is None:
                return np.zeros_like(flow)
            longest = np.abs(step).max()
            u += step / max(1.0, longest)
            if longest <= 1e-15:
                break
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.factors(u)
            scaled = flow * found
            unbalanced = np.abs(self.excess(scaled)).max()
        return found if unbalanced <= _BALANCED * scaled.sum() else np.zeros_like(flow)

    def step(self, flow: Array) -> Array | None:
        """Newton's, where flows are `flow`: of few classes by a factorisation."""
        diagonal = np.bincount(self.rows, flow, self.c) + np.bincount(self.cols, flow, self.c)
        excess = self.excess(flow)
        if self._pins is not None:
            there = self.matrix(flow)
            try:
                return np.asarray(np.linalg.solve(np.diag(diagonal) - there - there.T + self._pins, -excess))
            except np.linalg.LinAlgError:
                return None
        both = sparse.csr_array((flow, (self.rows, self.cols)), shape=(self.c, self.c))
        both = sparse.csr_array(both + both.T)
        share = np.divide(1.0, diagonal, out=np.zeros(self.c), where=diagonal > 0.0)
        tol = min(_LOOSE_STEP, float(np.abs(excess).max()) ** 0.5)
        return conjugate_gradients(lambda p: diagonal * p - both @ p, lambda r: share * r, -excess, tol, _LONGEST_STEP)


def reducing_factors(flows: Array, *, sums_to_zero: bool) -> Array:
    """Factors ``(c, c)`` of at most 1 that balance the duals of absolute margins.

    ``f_kk`` of the own margins pushes class k up, the other ``f_yk`` push it down. Free offsets want the balance 0 for every
    class, offsets that add up to zero the same for all: the mean, as far as reducing gets there.
    """
    up = np.diag(flows).copy()
    down = flows.sum(axis=0) - up
    level = float(np.clip(np.mean(up - down), np.max(-down), np.min(up))) if sums_to_zero else 0.0
    high = up - down > level
    ups = np.divide(level + down, up, out=np.ones_like(up), where=high)
    downs = np.divide(up - level, down, out=np.ones_like(up), where=~high & (down > 0.0))
    factors = np.tile(np.clip(downs, 0.0, 1.0), (len(up), 1))
    np.fill_diagonal(factors, np.clip(ups, 0.0, 1.0))
    return factors


def stretching_factors(flows: Array, *, sums_to_zero: bool) -> Array:
    """The same with factors on both sides of 1: the mean is always reached, but duals may leave their upper bounds.

    Own duals of class k are multiplied by x, those of its rivals divided by it, with ``up x - down / x = level``. Where a
    row shares its cost among many classes, its sum hardly changes.
    """
    up = np.diag(flows).copy()
    down = flows.sum(axis=0) - up
    level = float(np.mean(up - down)) if sums_to_zero else 0.0
    root = np.sqrt(level * level + 4.0 * up * down)
    with np.errstate(divide="ignore", invalid="ignore"):  # the form of the root that nothing cancels in
        x = 2.0 * down / (root - level) if level < 0.0 else (level + root) / (2.0 * up)
        factors = np.tile(1.0 / x, (len(up), 1))
    np.fill_diagonal(factors, x)
    return factors if np.isfinite(factors).all() else np.zeros_like(factors)


def flows_of(A: Array, y: NDArray[np.int32]) -> Array:
    """``f_yl``, (c, c), of duals ``A (n, c)``."""
    n, c = A.shape
    members = sparse.csr_array((np.ones(n), (y, np.arange(n))), shape=(c, n))
    return np.asarray(members @ A)


def balanced_duals(A: Array, y: NDArray[np.int32]) -> Array:
    """Duals ``A (n, c)`` whose flows are made a circulation; they may have left their bounds."""
    return np.asarray(A * balancing_factors(flows_of(A, y))[y])


def balanced_by_margins(problem: Problem, A: Array) -> Array:
    """Duals that offsets allow, whatever the margins; those of relative ones may have left their bounds."""
    domain = problem.row_domains.domain
    if domain.margins.relative:
        return balanced_duals(A, problem.y)
    return np.asarray(A * reducing_factors(flows_of(A, problem.y), sums_to_zero=problem.loss.sums_to_zero)[problem.y])


def balanced_sparse_duals(problem: Problem, duals: SparseDuals) -> SparseDuals:
    """The same of sparse ones."""
    flows, y = np.zeros((problem.n_classes, problem.n_classes)), problem.y
    np.add.at(flows, (y[duals.rows], duals.classes), duals.values)
    if problem.to_rivals:
        return duals.times(balancing_factors(flows), y)
    return duals.times(reducing_factors(flows, sums_to_zero=problem.loss.sums_to_zero), y)


def feasible(problem: Problem, duals: SparseDuals) -> tuple[SparseDuals, float]:
    """The duals, moved into their domains if no multiple of them is part of these, and how far they may be stretched."""
    if problem.loss.squared:
        return duals, np.inf
    domains, room, c, of_rows = problem.row_domains, 1.0, problem.n_classes, duals.rows
    for rows in problem.blocks():
        part = slice(duals.starts[rows.start], duals.starts[rows.stop])
        A = np.zeros((rows.stop - rows.start, c))
        A[of_rows[part] - rows.start, duals.classes[part]] = duals.values[part]
        room = min(room, domains.domain.room(A, problem.y[rows], problem.cost[rows]))
    if room > 0.0:
        return duals, room
    return sparse_duals(domains.repaired(duals.dense(c))), 1.0


def _same_component(flows: Array) -> NDArray[np.bool_]:
    """Which pairs of classes lie in one strong component of the graph of positive flows."""
    reached = flows > 0.0
    np.fill_diagonal(reached, True)
    if reached.all():
        return reached
    if len(flows) > 64:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        labels = connected_components(csr_array(reached), connection="strong")[1]
        return np.asarray(labels[:, None] == labels)
    for _ in range(len(flows).bit_length()):  # paths of twice the length each time
        reached = reached @ reached
    return np.asarray(reached & reached.T)


# ---- class vectors of duals -------------------------------------------------------------------------------------------


def signed(A: Array, y: NDArray[np.int32]) -> Array:
    """tau, (n, c), of duals A: ``tau_il = -a_il``, ``tau_iy = sum_l a_il``."""
    tau = -A
    tau[np.arange(len(y)), y] = A.sum(axis=1)
    return tau


def class_sums(problem: Problem, duals: SparseDuals) -> Array:
    """``X' tau``, (d, c)."""
    y, n, rows = problem.y, problem.n_rows, duals.rows
    if problem.to_rivals:
        own = np.bincount(rows, duals.values, n)
        entries = np.concatenate([-duals.values, own])
        where = np.concatenate([rows, np.arange(n)]), np.concatenate([duals.classes, y])
    else:
        entries, where = np.where(duals.classes == y[rows], duals.values, -duals.values), (rows, duals.classes)
    return row_sums(problem.X, sparse.csr_array((entries, where), shape=(n, problem.n_classes)), problem.blocks)


def best_of_two_multiples(problem: Problem, duals: SparseDuals) -> SparseDuals:
    """Feasible duals of a neighbouring problem: its rows at their bounds times one factor, all others times another one.

    Stronger losses push the first to their new bounds and leave the others where they are, more or less: where costs have
    grown and all duals with them, the dual may be far below 0. The two factors, at most 1, are the best for ``1/2 |W|^2``.
    """
    bound, c = _at_bounds(problem, duals), problem.n_classes
    if bound.mean() > _MOSTLY:  # as the duals are, they have grown with the costs
        return duals
    targets = problem.loss.targets(c)[problem.y[duals.rows], duals.classes]
    linear = np.bincount(duals.rows, duals.values * targets, problem.n_rows)
    tau = problem.sparse_signed_duals(duals).tocoo()
    side_by_side = sparse.csr_array((tau.data, (tau.row, tau.col + c * ~bound[tau.row])), shape=(problem.n_rows, 2 * c))
    Z = row_sums(problem.X, side_by_side, problem.blocks)
    parts = Z[:, :c], Z[:, c:]
    H = np.array([[np.einsum("jk,jk->", u, v) for u in parts] for v in parts])
    if problem.fit_intercept:  # of centred rows, without an array of these sums
        mean, sums = np.asarray(problem.X.mean(axis=0), dtype=np.float64).ravel(), side_by_side.sum(axis=0).reshape(2, c)
        pulls = (mean @ Z).reshape(2, c)
        H += (mean @ mean) * (sums @ sums.T) - pulls @ sums.T - sums @ pulls.T
    factors = _largest_in_square(np.array([linear[bound].sum(), linear[~bound].sum()]), H)
    return duals._replace(values=duals.values * np.where(bound, *factors)[duals.rows])


def _at_bounds(problem: Problem, duals: SparseDuals) -> NDArray[np.bool_]:
    """Rows whose duals cannot all grow."""
    domain, of_rows, out = problem.row_domains.domain, duals.rows, np.zeros(problem.n_rows, dtype=bool)
    for rows in problem.blocks():
        part = slice(duals.starts[rows.start], duals.starts[rows.stop])
        A = np.zeros((rows.stop - rows.start, problem.n_classes))
        A[of_rows[part] - rows.start, duals.classes[part]] = duals.values[part]
        out[rows] = domain.gauge(A, problem.y[rows]) >= (1.0 - _TOUCHES) * problem.cost[rows]
    return out


def _largest_in_square(linear: Array, H: Array) -> tuple[float, float]:
    """The point of [0, 1]^2 where the concave ``linear . x - x' H x / 2`` is largest."""

    def value(x: tuple[float, float]) -> float:
        return float(linear @ x - 0.5 * np.dot(x, H @ x))

    def best(k: int, other: float) -> float:
        slope = float(linear[k] - H[0, 1] * other)
        return float(np.clip(slope / H[k, k], 0.0, 1.0)) if H[k, k] > 0.0 else float(slope > 0.0)

    edges = [(best(0, t), t) for t in (0.0, 1.0)] + [(t, best(1, t)) for t in (0.0, 1.0)]
    if (H.diagonal() > 0.0).all():
        across, alone = H[0, 1] / H.diagonal(), linear / H.diagonal()  # the two may be of sizes that no matrix has room for
        apart = 1.0 - across[0] * across[1]
        if apart > _EPS:
            inside = (alone - across * alone[::-1]) / apart
            if (inside >= 0.0).all() and (inside <= 1.0).all():
                edges.append((float(inside[0]), float(inside[1])))
    return max(edges, key=value)


# ---- what rounding may hide -------------------------------------------------------------------------------------------


def hidden_by_rounding(flow: float, norm: float, reach: float) -> float:
    """How much too high a bound may be: duals of size `flow` on rows of norm `reach` at most make a W of this norm.

    Rounding disturbs sums of duals, and with a free intercept leaves sum_i tau_i a little beside 0; it disturbs W in units
    of ``flow * reach``, and the bound by that times |W|.
    """
    return _SUMMED * flow * (1.0 + norm * reach)


def hidden_on_ray(ray: Ray, flow: float, reach: float) -> float:
    """The same of the best of a ray, through duals of about this flow. Where rows are long |W| may be rounding itself."""
    flow = ray.best * max(flow, abs(ray.linear)) if ray.best > 0.0 else 0.0
    norm = ray.best * float(np.sqrt(2.0 * max(0.0, ray.quadratic))) if flow > 0.0 else 0.0
    return hidden_by_rounding(flow, norm + 2.0 * _ADDED * flow * reach, reach)


def value_of_loop(loop: native.RowLoop, n_classes: int, reach: float, matters: float) -> float:
    """``sum_il a_il delta_yl - 1/2 |W|^2`` of a native loop's duals, less squares, on rows of norm `reach` at most.

    Where sums of long rows may have lost more than a little of what `matters` on the way, the class vectors are summed anew,
    and what rounding may hide in that is taken off.
    """
    total, squared_norm = loop.dual_sum, loop.squared_norm
    error = _ADDED * 2.0 * loop.flow * reach
    hidden = (np.sqrt(squared_norm) + error) * error
    if hidden > _NEGLIGIBLE * matters:
        _, total, squared_norm, squares = loop.scaled(np.ones((n_classes, n_classes)))
        total -= 0.5 * squares
        hidden = (np.sqrt(squared_norm) + error) * error
    return float(total - 0.5 * squared_norm - hidden)


# ---- any penalty ------------------------------------------------------------------------------------------------------


def lower_bound(
    penalty: Penalty,
    model: HessianModel,
    design: Design,
    gradient: Array,
    linear: float,
    longest: float,
    hidden: float = 0.0,
) -> float:
    """The best bound along the ray of the given derivatives.

    For derivatives T of the weighted losses that are feasible for ``0 <= t <= longest``, with ``gradient = Z'T`` (stacked)
    and ``linear <= -sum_i u_i loss*(T_i / u_i)``, and a loss that is nowhere negative,

        D(t) = t linear - R*(-t X'T) - offsets*(t sum_i T_i)     is a lower bound for every t in [0, longest].

    `hidden` is what rounding may hide in these sums and in the values they are compared with: it is taken off.
    """
    r = design.r
    sums = gradient[r] if design.fit_intercept else None
    Z = -(gradient[:r] + np.outer(design.mean, sums)) if sums is not None else -gradient[:r]
    return bound_of_sums(penalty, model, Z, sums, linear, longest, hidden)


def bound_of_sums(
    penalty: Penalty,
    model: HessianModel,
    Z: Array,
    sums: Array | None,
    linear: float,
    longest: float,
    hidden: float = 0.0,
) -> float:
    """The same of duals that make the class vectors Z, and of offsets these sums; None if there are no offsets."""
    cost, ray = penalty.conjugate_along(model, Z)
    scale = abs(linear)
    offsets = 0.0 if sums is None else penalty.offset_conjugate(sums, scale)

    def value(t: float) -> float:
        found = t * linear - cost(t) - (0.0 if sums is None else penalty.offset_conjugate(t * sums, scale))
        return found if np.isfinite(found) else 0.0

    with np.errstate(over="ignore", invalid="ignore"):
        t = min(_best_on_ray(linear, ray.power, ray.exponent, ray.square + offsets), ray.longest, longest)
        return max(0.0, max(value(t), value(min(1.0, longest))) - hidden)


def _best_on_ray(linear: float, power: float, exponent: float, square: float) -> float:
    """The t > 0 that maximises ``t linear - power t^exponent - square t^2``, by Newton's method in log t from above."""
    if not linear > 0.0 or not np.isfinite(power + square):
        return 0.0
    candidates = [linear / (2.0 * square)] if square > 0.0 else []
    if power > 0.0:
        log_t = (np.log(linear) - np.log(exponent * power)) / (exponent - 1.0)
        candidates.append(float(np.exp(min(log_t, 700.0))))
    t = min(candidates, default=np.inf)
    if not 0.0 < t < 1e100:  # beyond all bounds: the longest step that is allowed
        return t
    for _ in range(30):
        a, b = exponent * power * t ** (exponent - 1.0), 2.0 * square * t
        step = np.log((a + b) / linear) * (a + b) / ((exponent - 1.0) * a + b)
        t *= float(np.exp(-step))
        if abs(step) < 1e-12:
            break
    return t
