"""The penalty of M3SVM: powers of the distances between class vectors, or their norm (`scales.py`).

    power    R(W, b) = sum_{k<l} |w_k - w_l|^p + eps (|W|^2 + |b|^2),     p = inf:  max_{k<l} |w_k - w_l|^2 + eps (...)
    norm     R(W, b) = (c - 1)/4 (mean_{k<l} |w_k - w_l|^p)^(2/p) + eps (|W|^2 + |b|^2)

With weights ``Q_kl`` and stretches ``K_kl`` the gradient and Hessian are those of a graph on the classes. For the
differences ``d_kl = w_k - w_l``, and ``h_kl`` of V likewise,

    dR     = sum_{k<l} Q_kl d_kl (e_k - e_l)' + 2 eps W
    d2R[V] = sum_{k<l} (Q_kl h_kl + K_kl <d_kl, h_kl> d_kl)(e_k - e_l)' + 2 eps V

and, in the scale of a norm, ``bend <dR, V> dR`` with dR of the first part.
For p < 2 the Hessian has no bound where two vectors meet, and p = inf has kinks. A blurred R within `blur` of the true one
has neither: ``|d|^p -> (|d|^2 + eta^2)^(p/2)``, and for p = inf the minimum over t of ``t - mu sum log(t - |d|^2)``
(`largest.py`).

Conjugate (a bound that is tight at the optimum): any flows ``U_kl = -U_lk`` between the classes with ``sum_l U_kl = z_k``
give ``R*(Z) <= sum_{k<l} psi*(|U_kl|)``, ``psi(r) = r^p + (eps/c) r^2``; those used are
``(Q_kl + 2 eps/c) d_kl + (e_k - e_l)/c`` with the residual ``e`` of the gradient. Where R is the square of a norm, the flows
``2 eps/c d_kl`` are left to the ridge, which asks ``(eps/c) |d_kl|^2`` for them, and the others cost the square of the dual
norm of their lengths.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.penalties.base import Array, Penalty
from polymargin.penalties.capabilities import Carried, PairPowers, Ray
from polymargin.penalties.pairs.largest import LargestDistance
from polymargin.penalties.pairs.scales import SCALES

_TINY = 1e-300
_CANCELS = 0.01  # of the squared lengths: distances below are formed from differences
_FEW_ENTRIES = 1 << 16  # of all differences: they are formed anyway
_AT_ONCE = 1 << 20  # entries of differences
_ROUNDING = 2e-15  # of an inner product, in parts of the product of the lengths


class PenaltyModel(NamedTuple):
    """A (blurred) penalty at W: value, gradient and the graph of its Hessian; `shared` is K's part that all pairs share."""

    W: Array
    value: float
    gradient: Array
    Q: Array
    K: Array
    shared: float  # 0, or the sum of K over the pairs: then <K, .>^2 / shared is taken away
    ridge: float
    bend: float = 0.0  # of the square of the slope's products

    @property
    def slope(self) -> Array:
        """The gradient without that of the ridge."""
        return np.asarray(self.gradient - self.ridge * self.W)

    def product(self, V: Array) -> Array:
        """Hessian times V, in two (d, c)(c, c) products for each of V and W."""
        N = self.W.T @ V
        own = np.diag(N)
        inner = own[:, None] + own - N - N.T
        if self.shared:
            inner -= 0.5 * float((self.K * inner).sum()) / self.shared
        stretch = self.K * inner
        out = _laplacian(V, self.Q) + _laplacian(self.W, stretch) + self.ridge * V
        return out + along_slope(self, V) if self.bend else out

    def add_to(self, H: Array, n_rows: int) -> None:
        """Adds the Hessian to H, whose block (k, l) has the features of class k by those of class l in `n_rows` rows."""
        d, c = self.W.shape
        blocks = H.reshape(c, n_rows, c, n_rows)
        eye = np.arange(d)
        L = np.diag(self.Q.sum(axis=1) + self.ridge) - self.Q
        blocks[:, eye, :, eye] += L[None]
        if self.bend:
            add_slope(self, blocks)
        if not self.K.any():
            return
        if self.shared:
            self._add_shared(H, n_rows)
            return
        for k in range(c):
            D = self.W[:, k : k + 1] - self.W  # (d, c)
            scaled = D * self.K[k]
            blocks[k, :d, k, :d] += scaled @ D.T
            for other in range(c):
                if other != k:
                    blocks[k, :d, other, :d] -= np.outer(scaled[:, other], D[:, other])

    def _add_shared(self, H: Array, n_rows: int) -> None:
        """The stretches around their mean, one row a pair: to take the mean away later would take the digits with it."""
        _, vectors, weights = self.apart(n_rows)
        B = vectors.reshape(len(weights), -1)
        B -= weights @ B / weights.sum()
        B *= np.sqrt(weights)[:, None]
        H += B.T @ B

    def apart(self, n_rows: int) -> tuple[PenaltyModel, Array, Array]:
        """The model without stretches that have a part in common; their vectors ``d_kl (e_k - e_l)'`` and weights."""
        d, c = self.W.shape
        k, other = np.nonzero(np.triu(self.K) if self.shared else np.zeros_like(self.K))
        each, D = np.arange(len(k)), (self.W[:, k] - self.W[:, other]).T
        vectors = np.zeros((len(k), c, n_rows))
        vectors[each, k, :d], vectors[each, other, :d] = D, -D
        rest = self._replace(K=np.zeros_like(self.K), shared=0.0) if self.shared else self
        return rest, vectors, self.K[k, other]


def along_slope(model: Any, V: Array) -> Array:
    """``bend <slope, V> slope``, a part of the Hessian times V."""
    return np.asarray((model.bend * float(np.vdot(model.slope, V))) * model.slope)


def add_slope(model: Any, blocks: Array) -> None:
    """Adds that part to the blocks (c, rows, c, rows) of a matrix."""
    d = len(model.W)
    rows = model.slope.T.ravel()
    blocks[:, :d, :, :d] += (model.bend * np.outer(rows, rows)).reshape(-1, d, model.W.shape[1], d)


class PowersOfDistances(Penalty):
    """Powers of the distances in any norm, in one of two scales, and ``eps (|W|^2 + |b|^2)``."""

    centres = has_model = True

    def __init__(self, p: float = 4.0, epsilon: float = 1e-7, scale: str = "norm"):
        self.p = float(p)
        self.epsilon = float(epsilon)
        self.scale = scale
        self.outer = SCALES[scale](self.p)  # R as a function of the distances

    @abstractmethod
    def distances(self, W: Array) -> Array:
        """Of all pairs k < l."""

    def value(self, W: Array) -> float:
        return self.value_along(W)(1.0)

    def value_along(self, W: Array) -> Callable[[float], float]:
        return self.outer.along(self.distances(W), self.ridge_value(W))

    def longest_vector(self, value: float, n_classes: int) -> float:
        """At sum zero a class vector is no longer than its longest distance."""
        return self.outer.longest(value, n_classes * (n_classes - 1) // 2)

    def ridge_value(self, W: Array) -> float:
        """The part of R that picks one solution."""
        return self.epsilon * float((W * W).sum())

    def gradient(self, W: Array) -> Array:
        return self.model(W, 0.0).gradient

    def offset_value(self, b: Array) -> float:
        return self.epsilon * float(b @ b)

    def offset_gradient(self, b: Array) -> Array:
        return 2.0 * self.epsilon * b

    def offset_conjugate(self, sums: Array, scale: float) -> float:
        return float(sums @ sums) / (4.0 * self.epsilon)


class PairwiseDistances(PowersOfDistances):
    """The same in the Euclidean norm."""

    name = "pairwise distances"
    rotation_invariant = True

    @property
    def smooth(self) -> bool:
        """Whether R has a second derivative everywhere."""
        return 2.0 <= self.p < np.inf

    @property
    def pair_powers(self) -> PairPowers | None:
        return self if np.isfinite(self.p) else None

    def distances(self, W: Array) -> Array:
        return np.sqrt(self.squares(W))

    def mixing(self, W: Array) -> Array | None:
        """Without its part along ``(1, ..., 1)``, which signed duals of differences have none of.

        It is one over the ridge, and would leave their rounding so many times as large.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            model = self.model(W, self.width(W, 1e-9 * self.value(W)))
            L = np.diag(model.Q.sum(axis=1) + model.ridge) - model.Q
            L += float(np.diag(L).mean())  # along that part alone
        if not np.isfinite(L).all():
            return np.zeros_like(L)
        M = np.linalg.pinv(L)
        return np.asarray(M - M.mean(axis=0) - M.mean(axis=1, keepdims=True) + M.mean())

    # ---- for Newton's method ------------------------------------------------------------------------------------

    def width(self, W: Array, blur: float) -> float:
        """eta, or mu for p = inf."""
        if self.smooth:
            return 0.0
        if np.isinf(self.p):
            return blur / max(1, W.shape[1] * (W.shape[1] - 1) // 2)
        return self.outer.width(self.distances(W), blur)

    def model(self, W: Array, width: float) -> PenaltyModel:
        p, r2 = self.p, self.squares(W)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if np.isinf(p):
                return self._model_of_largest(W, r2, width)
            at = self.outer.at(np.sqrt(r2 + width**2))
            return self.weighted_model(W, at.slopes(p, 1), (p - 2.0) * at.slopes(p, 3), at.value, bend=at.bend)

    def _model_of_largest(self, W: Array, r2: Array, mu: float) -> PenaltyModel:
        if not mu > 0.0:
            top, factor = float(r2.max(initial=0.0)), self.outer.factor(len(r2))
            nu = (r2 >= top).astype(float)
            return self.weighted_model(W, 2.0 * factor * nu / max(1.0, nu.sum()), np.zeros_like(nu), factor * top)
        largest = LargestDistance(self, W, mu)
        value = largest.t - mu * float(np.log(largest.z / mu).sum()) + self.ridge_value(W)
        return largest.model(W)._replace(value=value)

    def weighted_model(
        self, W: Array, weights: Array, stretches: Array, value: float, *, shared: float = 0.0, bend: float = 0.0
    ) -> PenaltyModel:
        """R near W from weights and stretches of the pairs k < l, and the value of the first part of R."""
        c, ridge = W.shape[1], 2.0 * self.epsilon
        Q, K = _spread(weights, c), _spread(stretches, c)
        return PenaltyModel(W, value + self.ridge_value(W), _laplacian(W, Q) + ridge * W, Q, K, shared, ridge, bend)

    def carried(self, W: Array, mu: float) -> Carried:
        return LargestDistance(self, W, mu) if np.isinf(self.p) else super().carried(W, mu)

    def conjugate_along(self, model: PenaltyModel, Z: Array) -> tuple[Callable[[float], float], Ray]:
        """A function of t and its shape: an upper bound of ``R*(t Z)``, tight for t = 1 if Z is the model's gradient."""
        c, squares = Z.shape[1], self.squares(model.W)
        rest = Z - model.gradient
        share = np.full(c, 1.0 / c)  # a product with it is faster than a mean over few classes
        mean = Z @ share
        common = float(mean @ mean) * c / (2.0 * model.ridge)  # of what no difference of classes can carry
        rest -= (rest @ share)[:, None]
        if self.outer.degree == 2.0:
            s = _flow_lengths(model.W, model.Q, rest, squares)
            ray = self.outer.flow_ray(s, common + 0.5 * model.ridge / c * float(squares.sum()))
            return lambda t: t * t * ray.square, ray
        s = _flow_lengths(model.W, model.Q + model.ridge / c, rest, squares)
        return lambda t: self._flow_cost(t * s, c) + t * t * common, self.outer.flow_ray(s, common)

    def conjugate(self, Z: Array) -> float:
        W = self.minimizer(Z)
        return float((Z * W).sum()) - self.value(W)

    def minimizer(self, Z: Array) -> Array:
        """Newton's method in the span of Z's columns."""
        basis, small = np.linalg.qr(Z)
        size, degree = max(float(np.abs(Z).max()), _TINY), max(self.outer.degree, 1.5)
        W = small / size
        along = self.value(W)  # t^degree times that is worth most where it pulls like Z
        W *= (float((small * W).sum()) / (degree * max(along, _TINY))) ** (1.0 / (degree - 1.0))
        d, c = W.shape
        for _ in range(200):
            model = self.model(W, self.width(W, 1e-12 * (1.0 + abs(self.value(W)))))
            g = model.gradient - small
            H = np.zeros((c * d, c * d))
            model.add_to(H, d)
            H[np.diag_indices_from(H)] += 1e-14 * (1.0 + np.trace(H) / len(H))
            step = -np.linalg.solve(H, g.T.ravel()).reshape(c, d).T
            slope = float((g * step).sum())
            if -slope <= 1e-24 * (1.0 + abs(model.value)):
                break
            t = 1.0
            while t > 1e-8 and self.value(W + t * step) - float((small * (W + t * step)).sum()) > (
                self.value(W) - float((small * W).sum()) + 1e-4 * t * slope + 1e-15 * abs(model.value)
            ):
                t *= 0.5
            W = W + t * step
        return basis @ W

    # ---- parts ----------------------------------------------------------------------------------------------------

    def squares(self, W: Array) -> Array:
        """Squared distances of all pairs k < l.

        From the differences themselves, which nothing cancels in; with many entries from inner products where little does.
        """
        k, other = pair_indices(W.shape[1])
        if len(k) * len(W) <= _FEW_ENTRIES or np.isinf(self.p):
            return _distances(W, k, other)
        G = W.T @ W
        own = np.diag(G)
        sizes = own[k] + own[other]
        found = sizes - 2.0 * G[k, other]
        near = ~(found > _CANCELS * sizes)
        found[near] = _distances(W, k[near], other[near])
        return np.asarray(found)

    def log_weights(self, squares: Array) -> Array:
        return self.outer.log_weights(squares)

    @staticmethod
    def inner_products(V: Array, W: Array) -> Array:
        """``<v_k - v_l, w_k - w_l>`` of all pairs k < l, from the differences themselves."""
        k, other = pair_indices(W.shape[1])
        out = np.empty(len(k))
        for some in _parts(len(k), len(W)):
            out[some] = np.einsum("jk,jk->k", V[:, k[some]] - V[:, other[some]], W[:, k[some]] - W[:, other[some]])
        return out

    def _flow_cost(self, s: Array, c: int) -> float:
        """``sum psi*(s)``, where R is no square."""
        ridge = self.epsilon / c
        if self.p == 1.0:
            return float(np.square(np.maximum(s - 1.0, 0.0)).sum()) / (4.0 * ridge)
        r = _invert_slope(s, self.p, ridge)
        return float((s * r - r**self.p - ridge * r * r).sum())


def _flow_lengths(W: Array, Q: Array, e: Array, squares: Array) -> Array:
    """``|Q_kl d_kl + (e_k - e_l)/c|`` of all pairs k < l, from (c, c) products."""
    c = W.shape[1]
    across = e.T @ e
    parts = Q**2 * _spread(squares, c), 2.0 * Q / c * _sq(W.T @ e), _sq(across) / c**2
    # far from the optimum the parts cancel: what rounding may hide is added, so that the bound stays one
    w, r = np.sqrt(np.einsum("jk,jk->k", W, W)), np.sqrt(np.diag(across))
    sums = np.add.outer(r, r)
    hidden = parts[0] + 2.0 * Q / c * np.add.outer(w, w) * sums + sums**2 / c**2
    lengths2 = np.maximum(sum(parts), 0.0) + _ROUNDING * hidden
    return np.asarray(np.sqrt(lengths2[pair_indices(c)]))


def _invert_slope(s: Array, p: float, ridge: float) -> Array:
    """r >= 0 with ``p r^(p-1) + 2 ridge r = s``, by Newton's method in logarithms, where the slope is nearly a line."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_s = np.log(s)
        x = np.minimum(np.log(s / p) / (p - 1.0), np.log(s / (2.0 * ridge)))
        for _ in range(60):
            power, line = np.exp(np.log(p) + (p - 1.0) * x), 2.0 * ridge * np.exp(x)
            step = (np.log(power + line) - log_s) * (power + line) / ((p - 1.0) * power + line)
            step = np.where(np.isfinite(step), step, 0.0)
            x = x - step
            if np.abs(step).max(initial=0.0) < 1e-15:
                break
        return np.where(s > 0, np.exp(x), 0.0)


@lru_cache(maxsize=16)
def pair_indices(c: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs k < l of c classes."""
    return np.triu_indices(c, 1)


def _distances(W: Array, k: NDArray[np.intp], other: NDArray[np.intp]) -> Array:
    """``|w_k - w_l|^2`` of the given pairs."""
    out = np.empty(len(k))
    for some in _parts(len(k), len(W)):
        D = W[:, k[some]] - W[:, other[some]]
        out[some] = np.einsum("jk,jk->k", D, D)
    return out


def _parts(n_pairs: int, n_features: int) -> list[slice]:
    """Pairs whose differences are formed at once."""
    step = max(1, _AT_ONCE // max(1, n_features))
    return [slice(start, start + step) for start in range(0, n_pairs, step)]


def _laplacian(V: Array, weights: Array) -> Array:
    """``sum_l weights_kl (v_k - v_l)`` for every class k."""
    return V * weights.sum(axis=1) - V @ weights


def _sq(G: Array) -> Array:
    """``<a_k - a_l, b_k - b_l>`` from ``G = a'b``."""
    own = np.diag(G)
    return own[:, None] + own - G - G.T


def _spread(pairs: Array, c: int) -> Array:
    """A symmetric (c, c) matrix from the values of the pairs k < l."""
    out = np.zeros((c, c))
    out[pair_indices(c)] = pairs
    return out + out.T
