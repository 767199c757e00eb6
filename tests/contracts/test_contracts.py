"""What every loss and penalty promises; new ones are found by themselves."""

from __future__ import annotations

import ast
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from cases import all_losses, called
from registry import classes_in

import polymargin
from polymargin import losses, penalties
from polymargin.losses import LOSSES, ScoreLoss, TopKHinge
from polymargin.losses.margin_distribution import MarginDistributionLoss
from polymargin.penalties import (
    PENALTIES,
    AtSumZero,
    BlockNorm,
    CoupledNorm,
    ElasticNet,
    GroupNorm,
    PairwiseDistances,
    Penalty,
    ShiftedNorm,
    SquaredNorm,
    ZeroSumNorm,
)
from polymargin.penalties.angular import REGULARIZERS, AnglePenalty
from polymargin.penalties.pairs.pairwise_l1 import PairwiseL1
from polymargin.problems.classes import Problem
from polymargin.problems.labels import LabelProblem, Pairs
from polymargin.solvers.bounds import Ray, balanced_duals, balancing_factors, class_sums
from polymargin.solvers.types import sparse_duals

each_loss = pytest.mark.parametrize("loss", [loss for _, loss in all_losses()], ids=called)


def scores(seed=0, n=200, c=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, c)) * 2.0, rng.integers(0, c, size=n)


@each_loss
def test_the_gradient_of_a_loss_supports_it(loss):
    S, y = scores(0)
    R, _ = scores(1)
    G = loss.gradient(S, y)
    assert (loss.value(R, y) >= loss.value(S, y) + (G * (R - S)).sum(axis=1) - 1e-9).all()


@each_loss
def test_the_gradient_of_a_loss_is_its_slope(loss):
    S, y = scores(2)
    D, _ = scores(3)
    t = 1e-7
    slope = (loss.value(S + t * D, y) - loss.value(S - t * D, y)) / (2 * t)
    close = np.abs(slope - (loss.gradient(S, y) * D).sum(axis=1)) < 1e-5
    assert close.mean() > 0.99  # kinks have measure zero, but a row may straddle one


@each_loss
def test_loss_and_conjugate_obey_fenchel(loss):
    S, y = scores(4)
    T = loss.gradient(S, y)
    np.testing.assert_allclose(loss.value(S, y) + loss.conjugate(T, y), (S * T).sum(axis=1), atol=1e-9)
    R, _ = scores(5)
    assert (loss.value(R, y) + loss.conjugate(T, y) >= (R * T).sum(axis=1) - 1e-9).all()


@pytest.mark.parametrize("loss", [loss for _, loss in all_losses() if loss.domain is not None], ids=called)
def test_projections_are_nearest_and_move_as_they_say(loss):
    T, y = scores(12)
    V, _ = scores(13)
    domain, upper = loss.domain, np.random.default_rng(14).exponential(size=len(y)) + 0.3
    present = domain.margins.present(y, T.shape[1])
    T, V, t = np.where(present, T, 0.0), np.where(present, V, 0.0), 1e-6

    def nearest(T):
        return domain.project_squared(T, y, upper) if loss.squared else domain.project(T, y, upper)

    def distance(A):
        squares = 0.5 * upper * domain.square(A, y) if loss.squared else 0.0
        return 0.5 * np.square(A - T).sum(axis=1) + squares

    at = nearest(T)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = np.abs(at.A + 10.0 ** rng.uniform(-4, 0) * np.where(present, rng.normal(size=T.shape), 0.0))
        gauge = domain.gauge(A, y)
        inside = np.isfinite(gauge)
        A = A if loss.squared else A * np.minimum(1.0, upper / np.maximum(gauge, 1e-300))[:, None]
        assert (distance(A) - distance(at.A))[inside].min(initial=0.0) >= -1e-10
    slope = (nearest(T + t * V).A - nearest(T - t * V).A) / (2 * t)
    assert (np.abs(slope - at.along(V)).max(axis=1) < 1e-4).mean() > 0.98  # a row may straddle a kink


@each_loss
def test_the_conjugate_is_infinite_outside_its_domain(loss):
    S, y = scores(6)
    assert np.isinf(loss.conjugate(np.ones_like(S), y)).all()


@each_loss
def test_a_constant_added_to_all_scores_changes_no_loss_of_relative_margins(loss):
    S, y = scores(7)
    unchanged = np.allclose(loss.value(S + 3.7, y), loss.value(S, y), atol=1e-12)
    assert unchanged == (loss.domain is None or loss.domain.margins.relative)


each_domain = pytest.mark.parametrize("loss", [loss for _, loss in all_losses() if loss.domain is not None], ids=called)


def support(loss, V, y):
    """``max_{a in A} <a, v>``: the loss, not squared, of scores whose violations are v."""
    loss = copy(loss)
    loss.squared, rows, margins = False, np.arange(len(y)), loss.domain.margins
    S = V - loss.targets(5)[y]
    S[rows, y] = 0.0 if margins.relative else loss.targets(5)[y, y] - V[rows, y]
    return loss.value(S, y)


@each_domain
def test_the_projection_is_the_nearest_point_of_the_domain(loss):
    """Nothing in the domain is farther in the direction of what was projected: ``max_a <t - p, a> = <t - p, p>``."""
    T, y = scores(12)
    cost = np.random.default_rng(13).uniform(0.2, 2.0, len(y))
    domains = loss.domain.of_rows(y, cost)
    A = domains.project(T).A
    assert (A >= 0.0).all() and (A[~loss.domain.margins.present(y, 5)] == 0.0).all()
    assert domains.room(A) >= 1.0 - 1e-12
    np.testing.assert_allclose(((T - A) * A).sum(axis=1), cost * support(loss, T - A, y), atol=1e-12)
    np.testing.assert_allclose(domains.project(A).A, A, atol=1e-12)


@each_domain
def test_the_gauge_is_the_least_cost_that_duals_need(loss):
    T, y = scores(14)
    A = loss.domain.project(T, y, np.ones(len(y))).A
    some = A.any(axis=1)
    A, y = A[some] * np.random.default_rng(15).uniform(0.1, 9.0, int(some.sum()))[:, None], y[some]
    gauge = loss.domain.gauge(A, y)
    assert np.isfinite(gauge).all()
    np.testing.assert_allclose(loss.domain.project(A, y, gauge).A, A, atol=1e-10)
    shorter = loss.domain.project(A, y, 0.9 * gauge).A
    assert (np.abs(shorter - A).max(axis=1) > 1e-3 * A.max(axis=1)).all()
    assert loss.domain.room(A, y, 0.5 * gauge) == pytest.approx(0.5)


each_relative = pytest.mark.parametrize(
    "loss", [loss for _, loss in all_losses() if loss.domain is not None and loss.domain.margins.relative], ids=called
)


@each_relative
def test_repaired_duals_lie_in_the_domain_and_circulate(loss):
    """Factors that balance flows between classes may push duals out of their domain."""
    T, y = scores(17)
    cost = np.random.default_rng(18).uniform(0.2, 2.0, len(y))
    domains = loss.domain.of_rows(y, cost)
    for size in (1e-6, 0.1):
        A = domains.project(T).A * (1.0 + size * np.random.default_rng(19).random((5, 5)))[y]
        A = domains.repaired(balanced_duals(A, y))
        flows = np.zeros((5, 5))
        np.add.at(flows, y, A)
        assert (A >= 0.0).all() and domains.room(A) >= 1.0 - 1e-9
        np.testing.assert_allclose(flows.sum(axis=0), flows.sum(axis=1), atol=1e-12 * flows.sum())
        assert A.sum() > 0.0
    small = domains.repaired(1e-3 * balanced_duals(np.where(np.arange(5) != y[:, None], cost[:, None], 0.0), y))
    assert small.sum() > 0.0  # inside: nothing is taken away


@each_relative
def test_repaired_duals_prove_a_bound_with_a_free_intercept(loss):
    """The best machine of a descent by hand is above it."""
    rng = np.random.default_rng(20)
    y = np.r_[np.arange(5), rng.integers(0, 5, 35)].astype(np.int32)
    X, cost = rng.normal(size=(40, 3)) + 2.0 * rng.normal(size=(5, 3))[y], rng.uniform(0.2, 1.0, 40)
    problem = Problem(X, y, cost, 5, loss, SquaredNorm(), fit_intercept=True)
    if loss.squared:  # its duals have no bound: nothing to repair
        return
    W, b, mean, best = np.zeros((3, 5)), np.zeros(5), np.zeros((40, 5)), np.inf
    for step in range(1, 400):  # subgradient descent: its subgradients, averaged, are duals
        T = cost[:, None] * loss.gradient(X @ W + b, y)
        mean += 2.0 / (step + 1) * (T - mean)
        W, b = W - 2.0 / (step + 1) * (W + X.T @ T), b - 0.1 / step * T.sum(axis=0)
        best = min(best, problem.primal(W, b))
    A = np.where(np.arange(5) != y[:, None], np.maximum(mean, 0.0), 0.0)
    inside = problem.moved_inside(sparse_duals(balanced_duals(A, y)))
    assert 0.0 < Ray(float(inside.values.sum()), 0.5 * float(np.square(class_sums(problem, inside)).sum())).value <= best
    assert problem.row_domains.room(inside.dense(5)) >= 1.0 - 1e-9


def test_top_1_is_the_closest_rival():
    S, y = scores(16)
    first, hinge = TopKHinge(1), LOSSES["crammer_singer"]()
    np.testing.assert_allclose(first.value(S, y), hinge.value(S, y), atol=1e-14)
    np.testing.assert_array_equal(first.gradient(S, y), hinge.gradient(S, y))
    A = np.abs(S) * (hinge.gradient(S, y) >= 0.0)
    np.testing.assert_array_equal(first.domain.gauge(A, y), hinge.domain.gauge(A, y))


def test_duals_of_few_classes_lie_in_no_multiple_of_a_top_k_domain():
    """Where three violations are averaged one rival cannot have all the weight."""
    A = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.5, 0.5, 0.1]])
    y = np.zeros(3, dtype=int)
    np.testing.assert_allclose(TopKHinge(3).domain.gauge(A, y), [np.inf, 3.0, 1.5])
    assert TopKHinge(3).domain.room(A, y, np.ones(3)) == 0.0


def test_every_loss_has_its_contracts():
    """A loss outside the registry says why: the tests above do not see it."""
    assert classes_in(losses, ScoreLoss) - set(LOSSES.values()) == {MarginDistributionLoss}
    assert {(name, type(loss)) for name, loss in all_losses()} == set(LOSSES.items()), "add a line to tests/support/cases.py"
    S, y = scores(10)
    D, _ = scores(11)
    loss = MarginDistributionLoss(0.2, 0.7)  # not convex: a gradient, but no conjugate
    slope = (loss.value(S + 1e-7 * D, y) - loss.value(S - 1e-7 * D, y)) / 2e-7
    assert (np.abs(slope - (loss.gradient(S, y) * D).sum(axis=1)) < 1e-5).mean() > 0.99
    with pytest.raises(TypeError, match="not convex"):
        loss.conjugate(D, y)


def anywhere(W):
    return W


def at_sum_zero(W):
    return W - W.mean(axis=1, keepdims=True)


TILT = np.random.default_rng(9).normal(size=(6, 4))

# Every penalty with the W it is a function of. Its conjugate is exact, or only bounds what it stands for: then, why.
EXACT = [
    (SquaredNorm(), anywhere),
    *((BlockNorm(p), anywhere) for p in (1.1, 1.5, 2.0)),
    *((CoupledNorm(alpha), anywhere) for alpha in (-0.2, 0.0, 0.5, 0.9)),
    (ZeroSumNorm(), at_sum_zero),
    *((AtSumZero(free), at_sum_zero) for free in (BlockNorm(1.2), BlockNorm(1.7), CoupledNorm(0.3))),
    *((AtSumZero(free), at_sum_zero) for free in (ElasticNet(0.3), GroupNorm(0.3), PairwiseDistances(4.0, 0.1))),
    (ShiftedNorm(1.7, TILT, 3.0), anywhere),
    (AtSumZero(ShiftedNorm(1.7, TILT, 3.0)), at_sum_zero),
    *((ElasticNet(l1), anywhere) for l1 in (0.0, 0.3)),
    *((GroupNorm(l1), anywhere) for l1 in (0.0, 0.3)),
    *((PairwiseDistances(p, 0.1, s), anywhere) for p in (1.0, 1.3, 2.0, 4.0, 8.0, np.inf) for s in ("norm", "power")),
]
BOUNDED = {  # has no conjugate of its own: a bound along flows
    PairwiseL1: [PairwiseL1(p, 0.1, scale) for p in (1.0, 1.3, 2.0, 4.0) for scale in ("norm", "power")],
}
NOT_CONVEX = {  # its conjugate is that of a convex function below it
    AnglePenalty: [AnglePenalty(0.7, kind, 4, 0.0) for kind in REGULARIZERS],
}
ALL = [penalty for penalty, _ in EXACT] + [penalty for some in (BOUNDED | NOT_CONVEX).values() for penalty in some]


def penalty_called(thing):
    settings = "-".join(str(value) for value in vars(thing).values() if isinstance(value, (float, int, str)))
    return f"{type(thing).__name__}-{settings}" if isinstance(thing, Penalty) else getattr(thing, "__name__", None)


def test_every_penalty_has_its_contracts():
    assert {type(penalty) for penalty in ALL} == classes_in(penalties, Penalty)
    assert set(PENALTIES.values()) <= {type(penalty) for penalty, _ in EXACT}, "the dual solvers trust their conjugates"


def vectors(seed=0):
    return np.random.default_rng(seed).normal(size=(2, 6, 4))


@pytest.mark.parametrize("penalty", ALL, ids=penalty_called)
def test_the_gradient_of_a_penalty_is_its_slope(penalty):
    W, V = vectors()
    W, V = (at_sum_zero(W), at_sum_zero(V)) if penalty.fixes_sum else (W, V)
    t = 1e-6
    slope = (penalty.value(W + t * V) - penalty.value(W - t * V)) / (2 * t)
    assert slope == pytest.approx((penalty.gradient(W) * V).sum(), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("penalty, domain", EXACT, ids=penalty_called)
def test_gradient_conjugate_and_minimizer_of_a_penalty_belong_together(penalty, domain):
    W, V = map(domain, vectors())
    Z = penalty.gradient(W)
    assert penalty.value(W) + penalty.conjugate(Z) == pytest.approx((Z * W).sum())
    np.testing.assert_allclose(penalty.minimizer(Z), W, atol=1e-7 if penalty.smooth else 1e-3)  # it blurs the others
    for factor in (0.0, 0.3, 1.0, 2.0):
        other = domain(factor * V)
        assert penalty.value(other) + penalty.conjugate(Z) >= (Z * other).sum() - 1e-12


@pytest.mark.parametrize("penalty", [p for p in ALL if p.class_metric(np.ones((2, 4))) is not None], ids=penalty_called)
def test_a_class_metric_is_the_gradient(penalty):
    W, _ = vectors()
    L = penalty.class_metric(W)
    kink = 0.0 if penalty.kink is None else penalty.kink.project(1e9 * W)
    tilt = 0.0 if penalty.tilt is None else penalty.tilt
    np.testing.assert_allclose(W @ L + kink - tilt, penalty.gradient(W), atol=1e-12)


@pytest.mark.parametrize("penalty", [p for p in ALL if p.kink is not None], ids=penalty_called)
def test_a_kink_is_a_norm_by_its_ball(penalty):
    W, V = vectors()
    kink, t = penalty.kink, 1e-6
    assert 0.5 * (W * W).sum() + (kink.project(1e9 * W) * W).sum() == pytest.approx(penalty.value(W))
    slope = (kink.project(W + t * V) - kink.project(W - t * V)) / (2 * t)
    np.testing.assert_allclose(kink.along(W, V), slope, atol=1e-6)
    shifted = kink.project(W + penalty.best_shift(W))
    np.testing.assert_allclose(kink.project(shifted), shifted)


ALONG_FLOWS = [penalty for penalty in ALL if penalty.has_model and not penalty.fixes_sum]


@pytest.mark.parametrize("penalty", ALL, ids=penalty_called)
def test_what_a_penalty_does_not_offer_it_says(penalty):
    W, _ = vectors()
    if not penalty.has_model:
        name = penalty.name.removesuffix(" at sum zero")
        with pytest.raises(NotImplementedError, match=f"'{name}' has no model"):
            penalty.model(W, 0.0)
        with pytest.raises(NotImplementedError, match=f"'{name}' has no bound"):
            penalty.conjugate_along(None, W)
    problem = LabelProblem(W, Pairs(np.arange(7), np.zeros(6, dtype=np.int32), np.ones(6)), np.ones(6), 4, penalty, None)
    if penalty.coupling(4) is None:
        with pytest.raises(TypeError, match=f"coupling of classes; got '{penalty.name}'"):
            problem.coupling  # noqa: B018
    else:
        assert problem.coupling == penalty.coupling(4)


@pytest.mark.parametrize("penalty", ALL, ids=penalty_called)
def test_a_penalty_that_centres_is_least_at_sum_zero(penalty):
    W, _ = vectors()
    if penalty.centres:
        assert penalty.value(at_sum_zero(W)) < penalty.value(W)
    b, t = np.arange(4.0), 1e-4
    slope = (penalty.offset_value(b + t) - penalty.offset_value(b - t)) / (2 * t)
    assert slope == pytest.approx(penalty.offset_gradient(b).sum())


def test_mixing_at_sum_zero_keeps_the_digits_that_count():
    """Along (1, ..., 1) a pairwise penalty has next to no curvature: its inverse there is 1e6 times the rest."""
    W, T = at_sum_zero(vectors()[0]), np.random.default_rng(3).normal(size=(5, 4))
    free = PairwiseDistances(2.0, 1e-6)
    A = T @ AtSumZero(free).mixing(W)
    assert np.abs(A.sum(axis=1)).max() <= 1e-8 * np.abs(A).max()
    np.testing.assert_allclose(at_sum_zero(A), at_sum_zero(at_sum_zero(T) @ free.mixing(W)), atol=1e-9)


@pytest.mark.parametrize("penalty", [p for p in ALL if p.class_scales is not None], ids=penalty_called)
def test_class_scales_make_the_penalty(penalty):
    """``R = min_beta sum_k |w_k|^2 / (2 beta_k)``: the scales of the norms attain it, others do not."""
    W, _ = vectors()
    norms, scales = np.linalg.norm(W, axis=0), penalty.class_scales
    best = scales.of_norms(norms)
    assert (norms**2 / (2.0 * best)).sum() == pytest.approx(penalty.value(W))
    np.testing.assert_allclose(scales.log_step(best, norms), 0.0, atol=1e-12)
    other = scales.scales_at(np.log(best) + np.array([0.1, -0.1, 0.2, 0.0]))
    assert (norms**2 / (2.0 * other)).sum() >= penalty.value(W) - 1e-12


@pytest.mark.parametrize("penalty", [p for p in ALL if p.pair_powers is not None], ids=penalty_called)
def test_weights_of_pairs_make_the_gradient(penalty):
    W, _ = vectors()
    powers, (k, other) = penalty.pair_powers, np.triu_indices(W.shape[1], 1)
    Q = np.zeros((W.shape[1],) * 2)
    Q[k, other] = np.exp(powers.log_weights(powers.squares(W)))
    Q += Q.T
    np.testing.assert_allclose(W * Q.sum(axis=1) - W @ Q + 2.0 * powers.epsilon * W, penalty.gradient(W), rtol=1e-9)


@pytest.mark.parametrize("penalty", [p for p in ALL if p.coupling(4) is not None], ids=penalty_called)
def test_a_coupling_is_the_hessian(penalty):
    W, _ = vectors()
    W = at_sum_zero(W) if penalty.fixes_sum else W
    coupling = penalty.coupling(4)
    across = coupling.across if np.isfinite(coupling.across) else 0.0
    np.testing.assert_allclose(penalty.gradient(W), coupling.own * W + across * W.sum(axis=1, keepdims=True), atol=1e-12)


@pytest.mark.parametrize("penalty", ALONG_FLOWS, ids=penalty_called)
def test_a_bound_along_flows_is_one(penalty):
    W, V = vectors()
    model = penalty.model(W, 0.0)
    along, _ = penalty.conjugate_along(model, model.gradient)
    for t in (0.2, 0.7, 1.0, 1.3):
        for factor in (0.3, 1.0, 2.0):
            for other in (factor * W, factor * V):
                assert penalty.value(other) + along(t) >= t * float((model.gradient * other).sum()) - 1e-9


@pytest.mark.parametrize("penalty", ALONG_FLOWS, ids=penalty_called)
def test_a_bound_along_flows_is_tight(penalty):
    """At the gradient of W, where the optimum is."""
    W, _ = vectors()
    model = penalty.model(W, 0.0)
    along, _ = penalty.conjugate_along(model, model.gradient)
    inner, value = float((model.gradient * W).sum()), penalty.value(W)
    t = 1.0 - 1e-7  # for p = 1 the bound is infinite beyond 1, and rounding may be beyond it
    assert along(t) == pytest.approx(t * inner - value, abs=1e-6 * value)


@pytest.mark.parametrize("penalty", [p for some in NOT_CONVEX.values() for p in some], ids=penalty_called)
def test_the_conjugate_of_a_penalty_that_is_not_convex_bounds_it(penalty):
    for seed in range(20):
        W, V = vectors(seed)
        Z = penalty.minimizer(W)
        for factor in (1e-3, 0.3, 1.0, 3.0):
            assert penalty.value(factor * V) + penalty.conjugate(Z) >= factor * (Z * V).sum() - 1e-12


@each_loss
def test_weak_duality_of_the_problem(loss):
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 5, size=30).astype(np.int32)
    cost = rng.uniform(0.5, 2.0, size=30)
    problem = Problem(X, y, cost, 5, loss, PENALTIES["squared_norm"](), fit_intercept=False)
    W = rng.normal(size=(4, 5))
    T = cost[:, None] * problem.loss.gradient(X @ W, y)
    dual = problem.dual(T)
    assert np.isfinite(dual)
    for _ in range(20):
        assert dual <= problem.primal(rng.normal(size=(4, 5)), np.zeros(5)) + 1e-9
    free = Problem(X, y, cost, 5, loss, PENALTIES["squared_norm"](), fit_intercept=True)
    assert free.dual(T) == -np.inf  # its columns do not add up to zero


def test_balancing_makes_a_circulation_of_the_flows():
    rng = np.random.default_rng(9)
    for c in (2, 3, 8, 70):
        flows = rng.random((c, c)) * (rng.random((c, c)) < 0.6)
        np.fill_diagonal(flows, 0.0)
        balanced = flows * balancing_factors(flows)
        assert (balanced >= 0.0).all()
        np.testing.assert_allclose(balanced.sum(axis=1), balanced.sum(axis=0), atol=1e-12 * max(1.0, flows.sum()))


def test_balancing_drops_what_cannot_flow_back():
    flows = np.array([[0.0, 1.0, 1.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # class 2 gives nothing back
    balanced = flows * balancing_factors(flows)
    np.testing.assert_allclose(balanced[:, 2], 0.0)
    assert balanced[0, 1] == pytest.approx(balanced[1, 0])
    assert balanced[0, 1] > 0.0
    np.testing.assert_array_equal(balancing_factors(np.zeros((3, 3))), np.zeros((3, 3)))


def test_nobody_asks_for_a_loss_or_penalty_by_its_class():
    """Solvers, estimators and diagnostics ask for capabilities; the base classes are no kind."""
    kinds = {kind.__name__ for kind in classes_in(losses, ScoreLoss) | classes_in(penalties, Penalty)}
    kinds |= {kind.__name__ for regularizer in REGULARIZERS.values() for kind in regularizer.__mro__[:-1]}
    found = []
    for path in Path(polymargin.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("isinstance", "issubclass"):
                asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                found += [f"{path.name}:{node.lineno} asks for {kind}" for kind in asked & kinds]
    assert not found


def test_no_room_has_more_than_ten_files():
    """Where the sources are at hand: an installed package has no headers."""
    root = Path(polymargin.__file__).parent
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__")]:
        files = [path.name for path in folder.iterdir() if path.is_file() and path.suffix != ".so"]
        assert len(files) <= 10, f"{folder.relative_to(root)} has {len(files)} files: make a room of some of them"
