"""F of a fitted machine, written from the documents alone, and how far rounding may move it.

Only public arrays of the estimator are read (`class_vectors_`, or `dual_coef_` with the support rows, and `class_offsets_`),
taken as exact numbers, whatever their precision. Products and sums are formed in extended precision where the platform has
it. The allowance `rounding` is what an evaluation in double precision may differ by:

    scores   |ds_ik| <= STEPS eps (|x_i| |w_k| + |b_k| + 1)  and the loss, made of 1 - s, changes by its slope times that,
    R        STEPS eps R, and for a machine of coefficients A on rows with kernel K: STEPS eps |A|'|K||A| in its squares,

so it grows with the scale of the data and not with a flat number. Kernel values count as known to the precision of X.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

Array = NDArray[Any]

WIDE = np.longdouble
EPS = float(np.finfo(np.float64).eps)
UNSEEN = 1e-10  # of F, of kernel machines: residuals of their features at the level of rounding count as none
STEPS = 1000  # roundings that add up: sums over rows and columns, and the updates that made the arrays


class Valued(NamedTuple):
    """A value between `low` and `high` (they differ where the machine floors singular values), known up to `rounding`."""

    low: float
    high: float
    rounding: float

    def distance(self, other: float) -> float:
        return max(self.low - other, other - self.high, 0.0)


def dense64(X: Any) -> NDArray[np.float64]:
    """X as a dense array of float64."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


# ---- kernels ------------------------------------------------------------------------------------------------------------


def cauchy(A: Any, B: Any) -> Array:
    """1 / (1 + |a - b|^2), positive definite: a callable kernel."""
    return 1.0 / (1.0 + cdist(dense64(A), dense64(B), "sqeuclidean"))


def minus_distance(A: Any, B: Any) -> Array:
    """-|a - b|, not positive semi-definite: to be refused."""
    return -cdist(dense64(A), dense64(B))


CALLABLES = {"cauchy": cauchy, "minus_distance": minus_distance}


def kernel_values(est: Any, A: Any, B: Any) -> tuple[Array, Array]:
    """k(a, b) of all pairs in double precision, and by how much the rounding of X's precision may move each."""
    eps = float(np.finfo(A.dtype).eps)
    P, Q = dense64(A), dense64(B)
    gamma = float(est._gamma)  # "scale" as the fit resolved it; its own invariant
    if callable(est.kernel):
        K = np.asarray(est.kernel(A, B), dtype=np.float64)
        return K, eps * np.abs(K)
    if est.kernel in ("rbf", "laplacian"):
        squares = est.kernel == "rbf"
        exponent = gamma * cdist(P, Q, "sqeuclidean" if squares else "cityblock")
        K = np.exp(-exponent)
        reach = exponent
        if squares:  # formed from inner products, of the rows as they are, about their mean or about the first support row
            origins = (0.0, Q.mean(axis=0), Q[0]) if len(Q) else (0.0,)
            sizes = [(np.square(P - o).sum(axis=1), np.square(Q - o).sum(axis=1)) for o in origins]
            reach = gamma * np.maximum.reduce([np.add.outer(*pair) for pair in sizes])
        return K, np.minimum(4.0 * eps * K * (1.0 + reach), 1.0)
    inner = np.asarray(P.astype(WIDE) @ Q.T.astype(WIDE), dtype=np.float64)
    size = gamma * np.outer(np.linalg.norm(P, axis=1), np.linalg.norm(Q, axis=1)) + abs(est.coef0)
    if est.kernel == "sigmoid":
        K = np.tanh(gamma * inner + est.coef0)
        # never quite positive semi-definite: what the documents call rounding of such a kernel is the machine's to spread
        spread = np.sqrt(np.finfo(np.float64).eps) / 8.0
        return K, eps * (np.abs(K) + 4.0 * (1.0 - K * K) * size) + spread * np.abs(K).max(initial=0.0)
    base = gamma * inner + est.coef0
    K = base**est.degree
    return K, eps * (np.abs(K) + 4.0 * est.degree * size * np.abs(base) ** max(0, est.degree - 1))


# ---- a machine: scores, and inner products of its class vectors ----------------------------------------------------------


class Metric(NamedTuple):
    """Inner products K of support vectors, and by how much these and those with the data rows are uncertain."""

    K: Array
    off_K: Array
    off_rows: Array


@dataclass
class Machine:
    """Class vectors ``w_k = sum_j A_jk phi_j`` of support vectors phi_j (orthonormal if there is no metric), offsets b.

    ``rows (n, m)`` are inner products of the data rows with the phi_j.
    """

    A: Array
    b: Array
    rows: Array
    lengths: Array  # (n,): |x_i|, linear machines only
    metric: Metric | None = None

    @cached_property
    def scores(self) -> Array:
        return np.asarray(self.rows.astype(WIDE) @ self.A.astype(WIDE) + self.b.astype(WIDE))

    @cached_property
    def score_rounding(self) -> Array:
        """(n, 1): how far the scores of a row may be off."""
        offsets = 1.0 + np.abs(self.b).max(initial=0.0)
        if self.metric is None:
            longest = float(np.sqrt(self.squares(self.A).max(initial=0.0)))
            return (STEPS * EPS * (self.lengths * longest + offsets))[:, None]
        size = np.abs(self.A)
        off = STEPS * EPS * (np.abs(self.rows) @ size + offsets) + 8.0 * self.metric.off_rows @ size
        return np.asarray(off.max(axis=1, initial=0.0))[:, None]

    def squares(self, V: Array) -> Array:
        """|v|^2 of the vectors with these coefficients, column by column."""
        wide = V.astype(WIDE)
        image = wide if self.metric is None else self.metric.K.astype(WIDE) @ wide
        return np.asarray(np.maximum((wide * image).sum(axis=0), 0.0), dtype=np.float64)

    def square_rounding(self, V: Array) -> Array:
        """By how much `squares` may be off."""
        if self.metric is None:
            return STEPS * EPS * self.squares(V)
        size = np.abs(V)
        off = (STEPS * EPS * np.abs(self.metric.K) + 8.0 * self.metric.off_K) @ size
        return np.asarray((size * off).sum(axis=0), dtype=np.float64)

    @property
    def n_classes(self) -> int:
        return int(self.A.shape[1])

    def with_(self, A: Array, b: Array) -> Machine:
        """Another machine of the same vectors."""
        return Machine(A, b, self.rows, self.lengths, self.metric)


def machine_of(est: Any, X: Any) -> Machine:
    """The fitted machine on the rows of X, which for kernels must be the training rows."""
    b = np.asarray(est.class_offsets_, dtype=np.float64)
    if est.kernel == "linear":
        rows = dense64(X)
        return Machine(np.asarray(est.class_vectors_, dtype=np.float64).T, b, rows, np.linalg.norm(rows, axis=1))
    A, lengths = np.asarray(est.dual_coef_, dtype=np.float64).T, np.zeros(X.shape[0])
    if est.kernel == "precomputed":
        rows = dense64(X)[:, est.support_]
        K = rows[est.support_]
        eps = float(np.finfo(X.dtype).eps)
        return Machine(A, b, rows, lengths, Metric(K, eps * np.abs(K), eps * np.abs(rows)))
    rows, off_rows = kernel_values(est, X, est.support_vectors_)
    K, off_K = kernel_values(est, est.support_vectors_, est.support_vectors_)
    return Machine(A, b, rows, lengths, Metric(K, off_K, off_rows))


# ---- losses: value of each row, and how much it may change if each score may be off by `off` -----------------------------


def _slacks(S: Array, y: Array, label_cost: Any = None) -> Array:
    """1 - (s_y - s_k), or what the error costs in the place of 1, and -inf at k = y."""
    rows, wanted = np.arange(len(y)), 1.0 if label_cost is None else np.asarray(label_cost)[y]
    slacks = wanted - (S[rows, y][:, None] - S)
    slacks[rows, y] = -np.inf
    return slacks


def hinge_of_closest(S: Array, y: Array, off: Array, label_cost: Any = None) -> tuple[Array, Array]:
    slack = _slacks(S, y, label_cost).max(axis=1)
    return np.maximum(slack, 0.0), np.where(slack > -2.0 * off[:, 0], 2.0 * off[:, 0], 0.0)


def squared_hinge_of_closest(S: Array, y: Array, off: Array, label_cost: Any = None) -> tuple[Array, Array]:
    slack, change = hinge_of_closest(S, y, off, label_cost)
    return slack**2, (2.0 * slack + change) * change


def sum_of_hinges(S: Array, y: Array, off: Array, label_cost: Any = None) -> tuple[Array, Array]:
    slacks = _slacks(S, y, label_cost)
    return np.maximum(slacks, 0.0).sum(axis=1), 2.0 * off[:, 0] * (slacks > -2.0 * off).sum(axis=1)


def sum_of_logistics(S: Array, y: Array, off: Array) -> tuple[Array, Array]:
    margins = 1.0 - _slacks(S, y)
    value = np.logaddexp(0.0, -margins).sum(axis=1)
    return value, (2.0 * off[:, 0] + STEPS * EPS) * np.minimum(S.shape[1], value + 1.0)


def cross_entropy(S: Array, y: Array, off: Array) -> tuple[Array, Array]:
    top = S.max(axis=1)
    value = np.log(np.exp(S - top[:, None]).sum(axis=1)) + top - S[np.arange(len(y)), y]
    return value, 2.0 * off[:, 0] + STEPS * EPS


def margin_band(theta: float, mu: float) -> Any:
    def loss(S: Array, y: Array, off: Array) -> tuple[Array, Array]:
        margin = 1.0 - _slacks(S, y).max(axis=1)
        below, above = np.maximum(0.0, 1.0 - theta - margin), np.maximum(0.0, margin - 1.0 - theta)
        change = 2.0 * off[:, 0]
        wide = (1.0 - theta) ** 2
        return (below**2 + mu * above**2) / wide, (2.0 * (below + mu * above) + change) * change / wide

    return loss


def mean_of_closest(k: int, label_cost: Any = None) -> Any:
    def loss(S: Array, y: Array, off: Array) -> tuple[Array, Array]:
        violations = _slacks(S, y, label_cost)
        violations[np.arange(len(y)), y] = 0.0  # the own class may be among the k closest
        mean, change = np.sort(violations, axis=1)[:, -k:].mean(axis=1), 2.0 * off[:, 0]
        return np.maximum(mean, 0.0), np.where(mean > -change, change, 0.0)

    return loss


_WITH_OWN_MARGIN = ("margin_regression", "total_max", "total_sum", "reinforced", "one_vs_rest")
_LARGEST_COUNTS = ("crammer_singer", "absolute_max", "total_max")


def _violations(est: Any, S: Array, y: Array) -> Array:
    """Of the margins that the loss has; -inf where it has none."""
    loss, rows = est.loss, np.arange(len(y))
    if loss in ("crammer_singer", "weston_watkins"):
        return _slacks(S, y, est.label_cost)
    found = np.full_like(S, -np.inf) if loss == "margin_regression" else 1.0 + S
    wanted = S.shape[1] - 1.0 if loss == "reinforced" else 1.0
    found[rows, y] = wanted - S[rows, y] if loss in _WITH_OWN_MARGIN else -np.inf
    return found


def of_the_family(est: Any) -> Any:
    if est.loss == "top_k":
        return mean_of_closest(est.k, est.label_cost)

    def loss(S: Array, y: Array, off: Array) -> tuple[Array, Array]:
        found = _violations(est, S, y)
        change = np.where(found > -2.0 * off, 2.0 * off, 0.0)
        found = np.maximum(found, 0.0)
        if est.squared:
            found, change = found**2, (2.0 * found + change) * change
        if est.loss in _LARGEST_COUNTS:
            return found.max(axis=1), change.max(axis=1)
        if est.loss == "reinforced":
            share = 0.5 if est.own_share is None else est.own_share
            weights = np.where(np.arange(S.shape[1]) == y[:, None], share, 1.0 - share)
            found, change = weights * found, weights * change
        return found.sum(axis=1), change.sum(axis=1)

    return loss


def with_costs(loss: Any) -> Any:
    return lambda est: partial(loss, label_cost=est.label_cost)


_SMOOTH = {"logistic": sum_of_logistics, "softmax": cross_entropy}

LOSSES = {
    "MarginSVC": of_the_family,
    "CrammerSingerSVC": with_costs(hinge_of_closest),
    "WestonWatkinsSVC": with_costs(sum_of_hinges),
    "LpNormSVC": lambda est: with_costs(squared_hinge_of_closest if est.loss == "squared_hinge" else hinge_of_closest)(est),
    "M3SVC": lambda est: _SMOOTH.get(est.loss) or with_costs(sum_of_hinges)(est),
    "MarginDistributionSVC": lambda est: margin_band(est.theta, est.mu),
    "AngularSVC": with_costs(hinge_of_closest),
    "TopKSVC": lambda est: mean_of_closest(est.k, est.label_cost),
}


# ---- penalties ----------------------------------------------------------------------------------------------------------


def half_squared_norm(est: Any, m: Machine) -> Valued:
    value = 0.5 * float(m.squares(m.A).sum())
    return Valued(value, value, 0.5 * float(m.square_rounding(m.A).sum()))


def block_norm(est: Any, m: Machine) -> Valued:
    p, squares, off = float(getattr(est, "p_", est.p)), m.squares(m.A), m.square_rounding(m.A)

    def half(s: Array) -> float:
        largest = float(s.max())
        return 0.5 * largest * float((((s / largest) ** (0.5 * p)).sum()) ** (2.0 / p)) if largest > 0.0 else 0.0

    value = half(squares)
    return Valued(value, value, half(squares + off) - value + STEPS * EPS * value)


def _pair_columns(m: Machine) -> Array:
    k, other = np.triu_indices(m.n_classes, 1)
    return m.A[:, k] - m.A[:, other]


def pairwise_distances(est: Any, m: Machine) -> Valued:
    D, p = _pair_columns(m), float(est.p)
    if getattr(est, "norm", "l2") == "l1":
        lengths = np.abs(D).sum(axis=0)
        longest = lengths * (1.0 + STEPS * EPS)
    else:
        # differences of two vectors are known to the rounding of the vectors themselves
        k, other = np.triu_indices(m.n_classes, 1)
        off = m.square_rounding(m.A)
        squares = m.squares(D)
        sizes = m.squares(m.A)
        slack = m.square_rounding(D) + 4.0 * EPS * np.sqrt(squares * (sizes[k] + sizes[other])) + EPS * (off[k] + off[other])
        lengths, longest = np.sqrt(squares), np.sqrt(squares + slack)

    def power(r: Array) -> float:
        wide, top = r.astype(WIDE), r.max(initial=0.0)
        if est.scale == "power" and np.isfinite(p):
            return float((wide**p).sum())
        factor = 1.0 if est.scale == "power" else 0.25 * (m.n_classes - 1)
        mean = 1.0 if np.isinf(p) or top == 0.0 else ((wide / top) ** p).mean() ** (2.0 / p)
        return float(factor * WIDE(top) ** 2 * mean)

    ridge = est.epsilon * (float(m.squares(m.A).sum()) + float(m.b @ m.b))
    value = power(lengths) + ridge
    return Valued(value, value, power(longest) - power(lengths) + STEPS * EPS * value)


ANGLES = ("angular", "cosine", "incoherence", "diversity")


def angles(est: Any, m: Machine) -> Valued:
    """1/2 |W|^2 + (omega/2) A(W); without and with the floor that the machine puts under singular values."""
    norm, omega = half_squared_norm(est, m), 1.0 if est.omega is None else float(est.omega)
    if omega == 0.0:
        return norm
    value = {"angular": _decorrelation}.get(_kind_of_angles(est), _of_cosines)
    floored, _ = value(est, m, float(getattr(est, "_floor", 0.0)))
    exact, off = value(est, m, 0.0)
    low, high = sorted([floored, exact])
    return Valued(norm.low + 0.5 * omega * low, norm.high + 0.5 * omega * high, norm.rounding + 0.5 * omega * off)


def _kind_of_angles(est: Any) -> str:
    return str(est.regularizer if hasattr(est, "regularizer") else est.penalty)


def _gram(m: Machine) -> tuple[Array, Array]:
    """Inner products of the class vectors, and by how much they may be off."""
    wide = m.A.astype(WIDE)
    size = np.abs(m.A)
    if m.metric is None:
        image, off = wide, STEPS * EPS * size
    else:
        image = m.metric.K.astype(WIDE) @ wide
        off = (STEPS * EPS * np.abs(m.metric.K) + 8.0 * m.metric.off_K) @ size
    return np.asarray(wide.T @ image, dtype=np.float64), size.T @ off


def _decorrelation(est: Any, m: Machine, floor: float) -> tuple[float, float]:
    r = max(1, len(est.singular_values_))
    if m.metric is None:
        found = np.linalg.svd(m.A, compute_uv=False)
        sigma = np.zeros(r)
        sigma[: min(r, len(found))] = found[:r]
        squares = sigma**2
        off = STEPS * EPS * sigma.max(initial=0.0) * (2.0 * sigma + STEPS * EPS * sigma.max(initial=0.0))
    else:
        G, off_G = _gram(m)
        squares = np.maximum(np.linalg.eigvalsh(G)[::-1][:r], 0.0)
        squares = np.append(squares, np.zeros(r - len(squares)))
        off = np.full(r, np.abs(off_G).sum(axis=1).max())
    if not squares.any():
        return float(np.log(r)), 0.0
    padded = squares + floor**2
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.log(padded.sum()) - np.log(padded).mean())
        spread = float(np.where(off < padded, -np.log1p(-np.minimum(off / padded, 1.0)), np.inf).mean())
    return value, 2.0 * spread + STEPS * EPS * abs(value)


def _of_cosines(est: Any, m: Machine, floor: float) -> tuple[float, float]:
    G, off_G = _gram(m)
    k, other = np.triu_indices(m.n_classes, 1)
    norms = np.sqrt(np.maximum(G.diagonal(), 0.0) + floor**2)
    sizes = np.where(norms[k] * norms[other] > 0.0, norms[k] * norms[other], 1.0)
    s = np.clip(np.abs(G[k, other]) / sizes, 0.0, 1.0)
    relative = off_G.diagonal() / np.maximum(np.square(norms), 1e-300)
    off = np.abs(off_G[k, other]) / sizes + s * (relative[k] + relative[other])
    if _kind_of_angles(est) == "cosine":
        return float(s.mean()), float(off.mean())
    if _kind_of_angles(est) == "incoherence":
        return float(np.sqrt(np.square(s).mean())), float(np.sqrt(np.square(off).mean()))
    t = np.arccos(s)
    moved = np.arccos(np.clip(s - off, 0.0, 1.0)) - np.arccos(np.clip(s + off, 0.0, 1.0))
    return float(t.var() - t.mean()), float(moved.mean()) * (1.0 + np.pi) + STEPS * EPS


def of_a_name(est: Any, m: Machine) -> Valued:
    """Penalties of the family: of the named machines, coupled, or with a norm beside it (of linear machines)."""
    if est.penalty == "lp":
        return block_norm(est, m)
    if est.penalty == "pairwise":
        return pairwise_distances(est, m)
    if est.penalty in ANGLES:
        return angles(est, m)
    half = half_squared_norm(est, m)
    if est.penalty == "coupled":
        together = m.A.sum(axis=1, keepdims=True)
        common, off = 0.5 * float(m.squares(together)[0]), 0.5 * float(m.square_rounding(together)[0])
        alpha = 0.5 if est.alpha is None else est.alpha
        value = (1.0 - alpha) * half.low + alpha * common
        return Valued(value, value, (1.0 - alpha) * half.rounding + abs(alpha) * off)
    l1, beside = 0.1 if est.l1 is None else est.l1, 0.0
    if est.penalty == "elastic_net":
        beside = l1 * float(np.abs(m.A).sum())
    if est.penalty == "group":
        beside = l1 * float(np.sqrt(np.square(m.A).sum(axis=1)).sum())
    return Valued(half.low + beside, half.low + beside, half.rounding + STEPS * EPS * beside)


PENALTIES = {
    "MarginSVC": of_a_name,
    "CrammerSingerSVC": half_squared_norm,
    "WestonWatkinsSVC": half_squared_norm,
    "LpNormSVC": block_norm,
    "M3SVC": pairwise_distances,
    "MarginDistributionSVC": half_squared_norm,
    "AngularSVC": angles,
    "TopKSVC": half_squared_norm,
}


# ---- F ------------------------------------------------------------------------------------------------------------------


class Targets(NamedTuple):
    """Signs and costs of the n x c labels; class indices `y` where there is one class a row, else None."""

    signs: Array
    costs: Array
    y: Array | None


def targets_of(est: Any, y: Any, sample_weight: Any) -> Targets:
    """u = C * sample weight * class weight."""
    labels = y.toarray() if sparse.issparse(y) else np.asarray(y)
    weight = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if labels.ndim == 2:
        signs = labels.astype(np.float64)
        codes = None
    else:
        codes = np.searchsorted(est.classes_, labels)
        signs = np.eye(len(est.classes_))[codes]
    members = (signs > 0.0) * weight[:, None]
    per_class = np.ones(signs.shape[1])
    if isinstance(est.class_weight, str):
        counts = members.sum(axis=0)
        per_class = counts.sum() / (len(counts) * counts)
    elif est.class_weight is not None:
        names = est.classes_.tolist()
        per_class = np.array([est.class_weight.get(name, 1.0) for name in names])
    C = est.C_ if np.isinf(est.C) else est.C
    return Targets(signs, C * weight[:, None] * per_class, codes)


def objective(est: Any, m: Machine, targets: Targets) -> Valued:
    """F of the machine."""
    if type(est).__name__ == "OneVsNoneSVC":
        return _one_vs_none(est, m, targets)
    if type(est).__name__ == "MultiLabelSVC":
        return _multi_label(est, m, targets)
    y = targets.y
    assert y is not None  # one class a row
    u = targets.costs[np.arange(len(y)), y]
    kept = u > 0.0
    loss, change = LOSSES[type(est).__name__](est)(m.scores[kept], y[kept], m.score_rounding[kept])
    R = PENALTIES[type(est).__name__](est, m)
    total = float(u[kept] @ loss)
    relative = STEPS * EPS + (0.0 if m.metric is None else UNSEEN)
    rounding = float(u[kept] @ change) + relative * (abs(total) + abs(R.low)) + R.rounding
    return Valued(total + R.low, total + R.high, rounding)


def _multi_label(est: Any, m: Machine, targets: Targets) -> Valued:
    """All zeros are negatives unless there is a -1; the weight of a label is its own, of a class that of its rows."""
    T, costs = targets.signs, targets.costs
    if not (T < 0.0).any():
        T = np.where(T > 0.0, 1.0, -1.0)
    off = np.broadcast_to(m.score_rounding, T.shape)
    if targets.y is not None:
        costs = np.broadcast_to(costs[np.arange(len(T)), targets.y][:, None], T.shape)
    if est.loss in ("relevance", "squared_relevance"):
        slacks, known = 1.0 - T * m.scores, (T != 0.0) & (costs > 0.0)
        hinges, moves = np.maximum(slacks, 0.0), np.where(slacks > -off, off, 0.0)
        if est.loss == "squared_relevance":
            hinges, moves = hinges**2, (2.0 * hinges + moves) * moves
        loss, change = float((costs * hinges)[known].sum()), float((costs * moves)[known].sum())
    else:
        loss = change = 0.0
        for t, s, u, o in zip(T, m.scores, costs, off, strict=True):
            pairs = 1.0 - s[t > 0.0][:, None] + s[t < 0.0]
            weight = u[t > 0.0].mean() if (t > 0.0).any() else 0.0
            if pairs.size and weight > 0.0:
                hinges = np.maximum(pairs, 0.0)
                loss += float(weight * (hinges.mean() if est.loss == "ranking" else hinges.max()))
                change += float(weight * 2.0 * o.max())
    R, off_R = 0.5 * float(m.squares(m.A).sum()), 0.5 * float(m.square_rounding(m.A).sum())
    return Valued(loss + R, loss + R, change + off_R + STEPS * EPS * (loss + R))


def _one_vs_none(est: Any, m: Machine, targets: Targets) -> Valued:
    if est.zeros == "negative":
        targets = targets._replace(signs=np.where(targets.signs > 0.0, 1.0, -1.0))
        if targets.y is not None:  # rows are weighted by their class
            own = targets.costs[np.arange(len(targets.y)), targets.y][:, None]
            targets = targets._replace(costs=np.broadcast_to(own, targets.signs.shape))
    slacks = 1.0 - targets.signs * m.scores
    known = (targets.signs != 0.0) & (targets.costs > 0.0)
    off = np.broadcast_to(m.score_rounding, slacks.shape)
    loss = float((targets.costs * np.maximum(slacks, 0.0))[known].sum())
    change = float((targets.costs * np.where(slacks > -off, off, 0.0))[known].sum())
    together = m.A.sum(axis=1, keepdims=True)
    squares, sums = float(m.squares(m.A).sum()), float(m.squares(together)[0])
    off_squares, off_sums = float(m.square_rounding(m.A).sum()), float(m.square_rounding(together)[0])
    if est.weights == "hard":
        R, off_R = 0.5 * squares, 0.5 * off_squares
    else:
        R = 0.5 * (1.0 - est.alpha) * squares + 0.5 * est.alpha * sums
        off_R = 0.5 * (1.0 - est.alpha) * off_squares + 0.5 * abs(est.alpha) * (off_sums + STEPS * EPS * squares)
    gamma_b = bias_weight(est, targets)
    total, size = float(m.b.astype(WIDE).sum()), float(np.abs(m.b).sum())
    biases = gamma_b * total**2
    off_biases = gamma_b * (2.0 * abs(total) + STEPS * EPS * size) * STEPS * EPS * size
    value = loss + R + biases
    return Valued(value, value, change + off_R + off_biases + STEPS * EPS * (loss + abs(R) + biases))


def bias_weight(est: Any, targets: Targets) -> float:
    """gamma_b of One versus None; 0 where the offsets add up to zero."""
    if est.biases == "hard":
        return 0.0
    if est.gamma_b == "scale":
        return float((targets.costs * (targets.signs > 0.0)).sum()) / targets.signs.shape[1]
    return float(est.gamma_b)
