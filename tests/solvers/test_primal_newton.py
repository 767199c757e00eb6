"""The parts of the primal Newton methods: passes over scores, models of the penalty, linear systems, starts of the pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from polymargin._core import native
from polymargin.losses import CrossEntropy, PairwiseLogistic, WestonWatkinsHinge
from polymargin.penalties import PairwiseDistances
from polymargin.penalties.pairs.pairwise_l1 import PairwiseL1
from polymargin.solvers.interior.systems import NewtonSystem, ProductCurvature, SoftmaxCurvature, StarCurvature
from polymargin.solvers.interior.systems import stacked as newton_system
from polymargin.solvers.rows import Design

N, D, C = 40, 6, 4
SCALES = ("norm", "power")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = (np.arange(N) % C).astype(np.int32)
    return rng.normal(size=(N, D)) + y[:, None], y, rng.uniform(0.5, 2.0, N), rng


@pytest.mark.parametrize("loss", [PairwiseLogistic(), CrossEntropy()], ids=lambda loss: loss.name)
def test_native_passes_agree_with_the_losses(loss, data):
    _, y, cost, rng = data
    S, V = 5.0 * rng.normal(size=(2, N, C))
    T, W = np.empty_like(S), np.empty_like(S)
    value = getattr(native, loss.score_kernel)(S, y, cost, T, W)
    assert value == pytest.approx(cost @ loss.value(S, y))
    np.testing.assert_allclose(T, cost[:, None] * loss.gradient(S, y), atol=1e-12)
    product = V.copy()
    if loss.score_kernel == "softmax":
        native.softmax_product(W, cost, product)
    else:
        native.star_product(W, y, product)
    np.testing.assert_allclose(product, cost[:, None] * loss.hessian_product(S, y, V), atol=1e-12)


@pytest.mark.parametrize("loss", [PairwiseLogistic(), CrossEntropy()], ids=lambda loss: loss.name)
def test_hessian_products_are_slopes_of_the_gradient(loss, data):
    _, y, _, rng = data
    S, V = rng.normal(size=(2, N, C))
    t = 1e-6
    slope = (loss.gradient(S + t * V, y) - loss.gradient(S - t * V, y)) / (2 * t)
    np.testing.assert_allclose(loss.hessian_product(S, y, V), slope, atol=1e-8)


def test_hinge_value_along_a_ray(data):
    _, y, cost, rng = data
    S = rng.normal(size=(N, C))
    for t in (0.0, 0.3, 2.0):
        assert native.hinge_value(S, y, cost, t) == pytest.approx(cost @ WestonWatkinsHinge().value(t * S, y))


def test_pairs_start_on_the_central_path(data):
    _, y, cost, rng = data
    S = 3.0 * rng.normal(size=(N, C))
    A, B, xi, s = (np.zeros((N, C)) for _ in range(4))
    mu = 0.01
    native.start_pairs(y, cost, mu, S, A, B, xi, s)
    rivals = np.arange(C) != y[:, None]
    x = 1.0 - (S[np.arange(N), y][:, None] - S)
    np.testing.assert_allclose((xi - s)[rivals], x[rivals], atol=1e-9)
    np.testing.assert_allclose((A + B)[rivals], np.broadcast_to(cost[:, None], A.shape)[rivals])
    np.testing.assert_allclose((A * s)[rivals], mu)
    np.testing.assert_allclose((B * xi)[rivals], mu)


def test_native_passes_refuse_arrays_that_do_not_fit(data):
    _, y, cost, _ = data
    S = np.zeros((N, C))
    with pytest.raises(ValueError, match="shape"):
        native.star_product(np.zeros((N, C + 1)), y, S)
    with pytest.raises(ValueError, match="class"):
        native.hinge_value(S, np.full(N, C, dtype=np.int32), cost, 1.0)
    with pytest.raises(ValueError, match="cost"):
        native.hinge_value(S, y, cost[1:], 1.0)


@pytest.mark.parametrize("blur", [0.0, 1e-3])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 4.0, np.inf])
@pytest.mark.parametrize("scale", SCALES)
def test_penalty_models(scale, p, blur, data):
    rng = data[3]
    penalty, (W, V) = PairwiseDistances(p, 1e-3, scale), rng.normal(size=(2, D, C))
    width = penalty.width(W, blur)
    model = penalty.model(W, width)
    t = 1e-5
    slope = (penalty.model(W + t * V, width).value - penalty.model(W - t * V, width).value) / (2 * t)
    assert slope == pytest.approx((model.gradient * V).sum(), rel=1e-6)
    if np.isfinite(p) or blur > 0:
        bend = (penalty.model(W + t * V, width).gradient - penalty.model(W - t * V, width).gradient) / (2 * t)
        np.testing.assert_allclose(model.product(V), bend, atol=1e-6 * np.abs(bend).max())
    H = np.zeros((C * D, C * D))
    model.add_to(H, D)
    np.testing.assert_allclose(H @ V.T.ravel(), model.product(V).T.ravel(), atol=1e-9 * np.abs(H).max())


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("scale", SCALES)
def test_l1_models(scale, p, data):
    rng = data[3]
    penalty, (W, V) = PairwiseL1(p, 1e-3, scale), rng.normal(size=(2, D, C))
    width, t = penalty.width(W, 0.3), 1e-6
    model = penalty.model(W, width)
    slope = (penalty.model(W + t * V, width).value - penalty.model(W - t * V, width).value) / (2 * t)
    assert slope == pytest.approx((model.gradient * V).sum(), rel=1e-6)
    bend = (penalty.model(W + t * V, width).gradient - penalty.model(W - t * V, width).gradient) / (2 * t)
    np.testing.assert_allclose(model.product(V), bend, atol=1e-5 * np.abs(bend).max())
    H = np.zeros((C * D, C * D))
    model.add_to(H, D)
    np.testing.assert_allclose(H @ V.T.ravel(), model.product(V).T.ravel(), atol=1e-9 * np.abs(H).max())


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, np.inf])
@pytest.mark.parametrize("scale", SCALES)
def test_flows_bound_the_conjugate(scale, p, data):
    """R*(tZ) >= <tZ, W> - R(W) for every W: the bound must lie above."""
    rng = data[3]
    penalty = PairwiseDistances(p, 1e-3, scale)
    for _ in range(20):
        W, Z = rng.normal(size=(2, D, C))
        Z -= Z.mean(axis=1, keepdims=True)
        bound, _ = penalty.conjugate_along(penalty.model(W, penalty.width(W, 1e-6)), Z)
        for t in (0.1, 1.0, 2.0):
            for factor in (0.1, 1.0, 3.0):
                V = factor * rng.normal(size=(D, C))
                assert bound(t) >= t * (Z * V).sum() - penalty.value(V) - 1e-9


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["star", "softmax", "products"])
@pytest.mark.parametrize("p", [1.5, 4.0])
@pytest.mark.parametrize("scale", SCALES)
def test_assembled_and_iterative_systems_agree(scale, p, kind, fit_intercept, data, monkeypatch):
    X, y, cost, rng = data
    design = Design(X, cost, fit_intercept, rotate=False)
    V = rng.normal(size=(design.n_unknowns, C))
    V -= V.mean(axis=1, keepdims=True)
    S = design.scores(V)
    T, W = np.empty_like(S), np.zeros_like(S)
    penalty = PairwiseDistances(p, 1e-3, scale)
    model = penalty.model(V[: design.r], penalty.width(V[: design.r], 1e-2))
    if kind == "star":
        native.pairwise_logistic(S, y, cost, T, W)
        W *= 10.0 ** rng.uniform(-4, 4, W.shape)  # some pairs are heavy
        curvature = StarCurvature(W, y, [np.flatnonzero(y == k) for k in range(C)])
    elif kind == "softmax":
        native.softmax(S, y, cost, T, W)
        curvature = SoftmaxCurvature(W, cost)
    else:
        curvature = ProductCurvature(CrossEntropy(), S, y, cost)
    G = rng.normal(size=V.shape)
    G -= G.mean(axis=1, keepdims=True)
    direct = NewtonSystem(design, penalty, model, curvature, C).solve(G, 1e-12, 500)
    monkeypatch.setattr(newton_system, "assembled", lambda design, c: False)
    system = NewtonSystem(design, penalty, model, curvature, C)
    iterative = system.solve(G, 1e-12, 500)
    np.testing.assert_allclose(system.product(direct), G, atol=1e-8 * np.abs(G).max())
    np.testing.assert_allclose(iterative, direct, atol=1e-6 * np.abs(direct).max())


def test_design_is_the_same_dense_sparse_single_and_rotated(data, monkeypatch):
    rng = data[3]
    X, cost = np.round(rng.normal(size=(7, 12)), 2), np.ones(7)
    X[np.abs(X) < 0.5] = 0.0
    W, b = rng.normal(size=(12, C)), rng.normal(size=C)
    T = rng.normal(size=(7, C))
    plain = Design(X, cost, True, rotate=False)
    V = np.vstack([W, b + plain.mean @ W])
    np.testing.assert_allclose(plain.scores(V), X @ W + b)
    np.testing.assert_allclose(plain.machine(V)[1], b)
    assert np.vdot(plain.scores(V), T) == pytest.approx(np.vdot(V, plain.adjoint(T)))
    monkeypatch.setattr("polymargin.solvers.rows._COPY_ENTRIES", 1)
    for other in (Design(sparse.csr_array(X), cost, True, False), Design(X.astype(np.float32), cost, True, False)):
        np.testing.assert_allclose(other.scores(V), plain.scores(V), atol=1e-6)
        np.testing.assert_allclose(other.adjoint(T), plain.adjoint(T), atol=1e-6)
        np.testing.assert_allclose(other.gram(), plain.gram(), atol=1e-6)
    monkeypatch.undo()
    rotated = Design(X, cost, True, rotate=True)
    assert rotated.r == 7
    U = rng.normal(size=(8, C))
    back, offsets = rotated.machine(U)
    np.testing.assert_allclose(X @ back + offsets, rotated.scores(U), atol=1e-12)
