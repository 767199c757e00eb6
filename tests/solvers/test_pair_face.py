"""The parts of Newton's method on the pairs that lie on their margins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from polymargin._core import native
from polymargin.losses import WestonWatkinsHinge
from polymargin.penalties.pairs.pairwise import PairwiseDistances
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import rows as row_products
from polymargin.solvers.ascent.pair_weights import PairMetric
from polymargin.solvers.interior.pair_iterate import PairIterate
from polymargin.solvers.newton.faces.active_set import _PairNewton
from polymargin.solvers.newton.faces.pair_factor import PairFactor
from polymargin.solvers.rows import Design, KeptProducts, RowSpan


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("most", [4000, 10])
def test_kept_products_grow(kind, most, monkeypatch):
    monkeypatch.setattr(row_products, "_MOST", most)
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((30, 6)) * (rng.random((30, 6)) < 0.6)
    X = sparse.csr_matrix(dense) if kind == "csr" else dense
    mean = dense.mean(axis=0)
    gram = (dense - mean) @ (dense - mean).T
    products = KeptProducts(X, mean)
    for rows in (np.array([4, 7, 4, 1]), np.array([1, 4]), np.arange(2, 29, 3), np.arange(30)):
        K, at = products.of(rows)
        np.testing.assert_allclose(K[at[:, None], at], gram[rows][:, rows], atol=1e-12)


def test_coordinates_in_the_span_of_the_rows():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5, 12))
    X[4] = X[0] + X[1]  # a row that adds nothing
    span = RowSpan(X)
    V = rng.standard_normal((5, 3))
    W = span.outside(V)
    np.testing.assert_allclose(X @ W, span.rows @ V, atol=1e-12)
    np.testing.assert_allclose(span.inside(W), V, atol=1e-12)
    np.testing.assert_allclose(W.T @ W, V.T @ V, atol=1e-12)


def test_the_matrix_of_pairs():
    rng = np.random.default_rng(2)
    Z, P = rng.standard_normal((7, 4)), rng.standard_normal((5, 5))
    P = P @ P.T
    rows, own = rng.integers(0, 7, 9).astype(np.int32), rng.integers(0, 5, 9).astype(np.int32)
    rivals = ((own + rng.integers(1, 5, 9)) % 5).astype(np.int32)
    K = Z @ Z.T
    M = np.empty((9, 9))
    native.pair_matrix(K, rows, own, rivals, P, M)
    signs = np.eye(5)[own] - np.eye(5)[rivals]
    np.testing.assert_allclose(np.triu(M), np.triu(K[rows][:, rows] * (signs @ P @ signs.T)), atol=1e-12)
    with pytest.raises(ValueError, match="out of range"):
        native.pair_matrix(K, rows + np.int32(7), own, rivals, P, M)
    with pytest.raises(ValueError, match="square"):
        native.pair_matrix(K, rows, own, rivals, P, M[:8])


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_factor_serves_pairs_that_leave_and_join(fit_intercept, kind):
    rng = np.random.default_rng(3)
    n, d, c = 24, 10, 4
    dense = rng.standard_normal((n, d)) + 0.5
    y = np.arange(n, dtype=np.int32) % c
    X = sparse.csr_matrix(dense) if kind == "csr" else dense
    problem = Problem(X, y, np.full(n, 2.0), c, WestonWatkinsHinge(), PairwiseDistances(3.0, scale="power"), fit_intercept)
    now = PairIterate(problem, Design(X, problem.cost, fit_intercept, False))
    now.start_along_means()
    metric = PairMetric(problem.penalty, now.V[:d])
    pairs = rng.permutation(np.flatnonzero((np.arange(c) != y[:, None]).ravel()))
    base, left, joined = pairs[:14], pairs[:3], pairs[14:17]
    now.A.flat[base] = rng.uniform(0.1, 0.5, len(base))
    now.A.flat[left] = 0.0
    newton = _PairNewton(now, metric, Ledger(1e-6), 1)
    newton._pulls = now.pulls(now.A)
    newton._place()
    factor_of, where = (np.zeros((n, c), dtype=bool) for _ in range(2))
    factor_of.flat[base] = True
    where.flat[np.r_[base[3:], joined]] = True
    face = PairFactor.of(now, metric, factor_of)
    assert face is not None and face.serves(where, metric, 0.0)
    steps, offsets = face.steps(now, where)
    assert not steps[~where].any()
    now.A += steps
    newton._pulls = now.pulls(now.A)
    newton._place(offsets)
    rows, rivals = np.nonzero(where)
    np.testing.assert_allclose(now.S[rows, y[rows]] - now.S[rows, rivals], 1.0, atol=1e-6)
    if fit_intercept:
        np.testing.assert_allclose(now.sums(), 0.0, atol=1e-4)


@pytest.mark.parametrize("p", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("size", [1.0, 1e6])
@pytest.mark.parametrize("scale", ["norm", "power"])
def test_a_model_far_away_bounds_the_conjugate_nevertheless(scale, p, size):
    """With two classes the large parts of the bound cancel; what rounding hides must not make it a false one."""
    penalty = PairwiseDistances(p=p, scale=scale)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((6, 2))
        Z -= Z.mean(axis=1, keepdims=True)
        cost, _ = penalty.conjugate_along(penalty.model(size * rng.standard_normal((6, 2)), 0.0), Z)
        assert cost(1.0) >= penalty.conjugate(Z) * (1.0 - 1e-9)
