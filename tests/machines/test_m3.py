"""M3SVC: the optimum for every p, loss and norm, the paper's theorems, probabilities, own losses, warm starts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from polymargin import M3SVC, WestonWatkinsSVC
from polymargin.losses import ScoreLoss
from polymargin.penalties import PairwiseDistances

EPSILON = 1e-7
SCALES = ("norm", "power")


def blobs(seed=0, n=45, d=4, c=3, spread=1.2):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    return rng.normal(size=(n, d)) + spread * rng.normal(size=(c, d))[y], y


def cvxpy_optimum(X, y, C, p, loss="hinge", norm=2, v=None, fit_intercept=True, scale="norm"):
    """The problem as the documentation states it, from Clarabel; nan where it gives up, as on a few cross-entropies."""
    import cvxpy as cp

    n, d, c = *X.shape, int(y.max()) + 1
    v = np.ones(n) if v is None else v
    W, b, own = cp.Variable((d, c)), cp.Variable((1, c)), np.eye(c)[y]
    S = X @ W + np.ones((n, 1)) @ b
    margins = cp.sum(cp.multiply(own, S), axis=1, keepdims=True) @ np.ones((1, c)) - S
    if loss == "softmax":
        losses = v @ (cp.log_sum_exp(S, axis=1) - cp.sum(cp.multiply(own, S), axis=1))
    else:
        pairs = cp.pos(1 - margins) if loss == "hinge" else cp.logistic(-margins)
        losses = cp.sum(cp.multiply((1 - own) * v[:, None], pairs))
    lengths = [cp.norm(W[:, k] - W[:, other], norm) for k in range(c) for other in range(k + 1, c)]
    if np.isinf(p):
        R = (0.25 * (c - 1) if scale == "norm" else 1.0) * cp.square(cp.maximum(*lengths))
    elif scale == "norm":
        mean = len(lengths) ** (-1.0 / p) * (sum(lengths) if p == 1 else cp.pnorm(cp.hstack(lengths), p))
        R = 0.25 * (c - 1) * cp.square(mean)
    else:
        R = sum(lengths if p == 1 else [cp.power(r, p) for r in lengths])
    F = C * losses + R + EPSILON * (cp.sum_squares(W) + cp.sum_squares(b))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate": at 1e-8; we compare at 1e-5
        try:
            return float(cp.Problem(cp.Minimize(F), [] if fit_intercept else [b == 0]).solve(solver=cp.CLARABEL))
        except cp.error.SolverError:
            return np.nan


def assert_optimal(est, optimum):
    assert est.certificate_.status == "optimal"
    if np.isnan(optimum):
        return
    assert est.objective_ == pytest.approx(optimum, rel=1e-5)
    assert est.objective_ - optimum <= est.certificate_.gap + 1e-7 * optimum
    assert est.certificate_.dual <= optimum * (1 + 1e-6)


@pytest.mark.filterwarnings("ignore:.*trivial solution")
@pytest.mark.parametrize("C", [0.02, 1.0, 30.0])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 4, 8, np.inf])
@pytest.mark.parametrize("scale", SCALES)
def test_hinge_optimum_for_every_p(scale, p, C):
    X, y = blobs()
    assert_optimal(M3SVC(C=C, p=p, scale=scale, tol=1e-6).fit(X, y), cvxpy_optimum(X, y, C, p, scale=scale))


@pytest.mark.parametrize("p", [1.2, 4, 30, np.inf])
@pytest.mark.parametrize("storage", ["dense", "csr", "float32"])
def test_the_scale_of_a_norm_with_weights(storage, p):
    X, y = blobs(11, n=60, d=5, c=5)
    X = X.astype(np.float32).astype(float)
    v = np.random.default_rng(1).exponential(size=len(y))
    for C, fit_intercept in ((0.05, True), (3.0, False)):
        est = M3SVC(C=C, p=p, tol=1e-6, fit_intercept=fit_intercept)
        data = {"dense": X, "csr": sparse.csr_array(X), "float32": X.astype(np.float32)}[storage]
        est.fit(data, y, sample_weight=v)
        assert_optimal(est, cvxpy_optimum(X, y, C, p, v=v, fit_intercept=fit_intercept))
        assert est.objective(data, y, sample_weight=v) == pytest.approx(est.objective_, rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*trivial solution")
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("p", [1, 2, 4, np.inf])
@pytest.mark.parametrize("scale", SCALES)
def test_smooth_optimum(scale, p, loss):
    X, y = blobs(1)
    v = np.random.default_rng(0).uniform(0.3, 2.0, len(y))
    for C, fit_intercept in ((0.1, True), (5.0, False)):
        est = M3SVC(C=C, p=p, loss=loss, scale=scale, tol=1e-6, fit_intercept=fit_intercept)
        optimum = cvxpy_optimum(X, y, C, p, loss, v=v, fit_intercept=fit_intercept, scale=scale)
        for data in (X, sparse.csr_array(X)):
            assert_optimal(est.fit(data, y, sample_weight=v), optimum)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("scale", SCALES)
def test_l1_optimum(scale, p, loss):
    X, y = blobs(2)
    optimum = cvxpy_optimum(X, y, 1.0, p, loss, norm=1, scale=scale)
    est = M3SVC(p=p, loss=loss, norm="l1", scale=scale, tol=5e-5).fit(X, y)
    assert est.certificate_.status == "optimal"
    assert est.objective_ == pytest.approx(optimum, rel=5e-5)
    assert est.objective_ - optimum <= est.certificate_.gap + 1e-7 * optimum
    assert est.certificate_.dual <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("scale", SCALES)
def test_the_kernel_machine_solves_the_rkhs_problem(scale, p, loss):
    X, y = blobs(3, n=30)
    values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=0.3))
    optimum = cvxpy_optimum(vectors * np.sqrt(np.maximum(values, 0.0)), y, 10.0, p, loss, scale=scale)
    est = M3SVC(C=10.0, p=p, loss=loss, scale=scale, kernel="rbf", gamma=0.3, tol=1e-6).fit(X, y)
    assert_optimal(est, optimum)
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-6)


def test_golden_value_iris(iris):
    X, y = iris
    assert M3SVC(C=10.0, p=4, scale="power", tol=1e-8).fit(X, y).objective_ == pytest.approx(299.5846, abs=1e-3)


def test_theorem_5_two_is_weston_watkins(iris):
    X, y = iris
    c, C = 3, 5.0
    ours = M3SVC(C=C, p=2, scale="power", epsilon=1e-10, tol=1e-8).fit(X, y)
    theirs = WestonWatkinsSVC(C=C / (2 * c), tol=1e-8, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.class_vectors_, theirs.class_vectors_, atol=2e-3 * abs(theirs.class_vectors_).max())
    assert ours.objective_ == pytest.approx(2 * c * theirs.objective_, rel=1e-6)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0, 100.0])
def test_two_is_weston_watkins_with_the_same_C(C, iris):
    """The machine and its value with default parameters: the ridge is not felt."""
    X, y = iris
    ours, theirs = M3SVC(C=C, p=2, tol=1e-11).fit(X, y), WestonWatkinsSVC(C=C, tol=1e-11).fit(X, y)
    assert ours.certificate_.status == theirs.certificate_.status == "optimal"
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)
    apart = np.linalg.norm(ours.class_vectors_ - theirs.class_vectors_)
    assert apart <= 1e-6 * np.linalg.norm(theirs.class_vectors_)


def test_one_scale_is_a_function_of_the_other(iris):
    """They have the same machines: at C' = C dR_norm/dR_power of a machine the other one has it too."""
    X, y = iris
    p, epsilon = 4.0, 1e-12
    norm = M3SVC(C=1.0, p=p, epsilon=epsilon, tol=1e-9).fit(X, y)
    W = norm.class_vectors_.T
    R = {scale: PairwiseDistances(p, epsilon, scale).value(W) for scale in SCALES}
    C = p * R["power"] / (2.0 * R["norm"])
    power = M3SVC(C=C, p=p, scale="power", epsilon=epsilon, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(power.class_vectors_, norm.class_vectors_, atol=1e-3 * np.abs(W).max())


@pytest.mark.parametrize("p", [1, 3, np.inf])
def test_equal_distances_have_the_same_penalty_for_every_p(p):
    for c in (2, 5):
        assert PairwiseDistances(p, 1e-300).value(3.0 * np.eye(c)) == pytest.approx(0.5 * 9.0 * (c - 1))


def test_lemma_3():
    W = np.random.default_rng(0).normal(size=(6, 5))
    centred = W - W.mean(axis=1, keepdims=True)
    assert PairwiseDistances(2, 1e-300, "power").value(W) == pytest.approx(5 * np.square(centred).sum())
    assert PairwiseDistances(2, 1e-300).value(W) == pytest.approx(0.5 * np.square(centred).sum())


def test_infinite_p_has_the_widest_smallest_margin():
    """Separable classes and a large C: the hinge vanishes, and the longest difference is what p = inf minimises."""
    X, y = blobs(6, spread=6.0)
    longest = {}
    for p in (1, 2, 4, 8, np.inf):
        W = M3SVC(C=1e4, p=p, tol=1e-7).fit(X, y).class_vectors_
        longest[p] = max(np.linalg.norm(W[k] - W[other]) for k, other in ((0, 1), (0, 2), (1, 2)))
    assert all(longest[np.inf] <= length * (1 + 1e-5) for length in longest.values())
    assert longest[np.inf] < 0.9999 * longest[1]


@pytest.mark.parametrize("p", [0.5, 0, -1, np.nan, "4", True, None])
def test_p_below_one_is_refused_with_the_reason(p, iris):
    with pytest.raises(ValueError, match=r"(?s)p=.*at least 1.*not convex"):
        M3SVC(p=p).fit(*iris)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"loss": "squared"}, "loss='squared'.*'hinge', 'logistic', 'softmax'"),
        ({"norm": "l3"}, "norm='l3'.*'l2' or 'l1'"),
        ({"scale": "square"}, "scale='square'.*'norm' or 'power'"),
        ({"norm": "l1", "kernel": "rbf"}, "norm='l1'.*kernel='rbf'.*rotation"),
        ({"norm": "l1", "p": np.inf}, "norm='l1'.*p=inf"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"C": 0.0}, "C=0.0"),
        ({"C": -1.0}, "C=-1.0"),
    ],
)
def test_bad_parameters_are_named(settings, words, iris):
    with pytest.raises(ValueError, match=words):
        M3SVC(**settings).fit(*iris)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_probabilities(loss, iris):
    X, y = iris
    est = M3SVC(C=10.0, loss=loss).fit(X, y)
    P = est.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(est.classes_[P.argmax(axis=1)], est.predict(X))
    two = M3SVC(loss=loss).fit(X[y < 2], y[y < 2])
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], 1 / (1 + np.exp(-two.decision_function(X))), rtol=1e-9)


def test_a_hinge_has_no_probabilities_but_can_be_calibrated(iris):
    X, y = iris
    est = M3SVC().fit(X, y)
    assert not hasattr(est, "predict_proba")
    assert CalibratedClassifierCV(M3SVC(), cv=3).fit(X, y).predict_proba(X).shape == (150, 3)


class SquaredExponential(ScoreLoss):
    """sum_{k != y} exp(-(s_y - s_k)), without a kernel in the core and without a conjugate."""

    name = "exponential"
    smooth = True

    def _weights(self, S, y):
        E = np.exp(S - S[np.arange(len(y)), y][:, None])
        E[np.arange(len(y)), y] = 0.0
        return E

    def value(self, S, y):
        return self._weights(S, y).sum(axis=1)

    def gradient(self, S, y):
        G = self._weights(S, y)
        G[np.arange(len(y)), y] = -G.sum(axis=1)
        return G

    def hessian_product(self, S, y, V):
        rows = np.arange(len(y))
        out = self._weights(S, y) * (V - V[rows, y][:, None])
        out[rows, y] = -out.sum(axis=1)
        return out

    def conjugate(self, T, y):
        raise AssertionError("not needed")


def test_an_own_smooth_loss_is_solved_to_a_certificate():
    from scipy.optimize import minimize

    X, y = blobs(4)
    loss, penalty = SquaredExponential(), PairwiseDistances(4.0, EPSILON)
    est = M3SVC(loss=loss, tol=1e-8).fit(X, y)
    assert est.certificate_.status == "optimal"

    def F(z):
        W, b = z[:12].reshape(4, 3), z[12:]
        S = X @ W + b
        T = loss.gradient(S, y)
        value = loss.value(S, y).sum() + penalty.value(W) + penalty.offset_value(b)
        return value, np.r_[(X.T @ T + penalty.gradient(W)).ravel(), T.sum(axis=0) + penalty.offset_gradient(b)]

    rival = minimize(F, np.zeros(15), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9})
    assert est.objective_ <= rival.fun * (1 + 1e-8)
    assert est.certificate_.dual <= rival.fun


def test_a_loss_that_is_not_smooth_is_refused(iris):
    from polymargin.losses import CrammerSingerHinge

    with pytest.raises(ValueError, match="smooth"):
        M3SVC(loss=CrammerSingerHinge()).fit(*iris)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_warm_starts_over_C_and_p(loss, iris):
    X, y = iris
    warm = M3SVC(loss=loss, warm_start=True, tol=1e-6)
    for C, p in ((0.1, 4), (1.0, 4), (10.0, np.inf), (10.0, 1.5), (10.0, 8), (10.0, 3)):
        warm.set_params(C=C, p=p).fit(X, y)
        cold = M3SVC(C=C, p=p, loss=loss, tol=1e-6).fit(X, y)
        assert warm.objective_ == pytest.approx(cold.objective_, rel=3e-6)
    warm.fit(X, y)
    assert warm.n_iter_ <= 2


def test_systems_too_large_to_assemble_are_solved_by_conjugate_gradients(monkeypatch):
    from polymargin.solvers.interior import pairwise as hinge_path
    from polymargin.solvers.interior.systems import stacked as newton_system

    X, y = blobs(5, n=60, d=8, c=4)
    for loss in ("hinge", "logistic", "softmax"):
        direct = M3SVC(C=2.0, loss=loss, tol=1e-7).fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(newton_system, "assembled", lambda design, c: False)
            patch.setattr(hinge_path, "assembled", lambda design, c: False)
            patch.setattr(PairwiseDistances, "pair_powers", None)
            iterative = M3SVC(C=2.0, loss=loss, tol=1e-4).fit(X, y)
        assert iterative.certificate_.status == "optimal"
        assert iterative.objective_ == pytest.approx(direct.objective_, rel=2e-4)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 4.0, 8.0])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_dual_ascent_with_a_class_metric_reaches_the_interior_points_optimum(p, storage, fit_intercept, scale, monkeypatch):
    from scipy import sparse

    from polymargin.solvers import convex, cost_model

    for seed, C in ((7, 0.5), (8, 100.0)):
        X, y = blobs(seed, n=60, d=8, c=4)
        X = sparse.csr_array(X) if storage == "csr" else X
        weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
        machine = M3SVC(C=C, p=p, scale=scale, fit_intercept=fit_intercept, tol=1e-6)
        with monkeypatch.context() as patch:
            patch.setattr(PairwiseDistances, "pair_powers", None)
            direct = machine.fit(X, y, weights).certificate_
            patch.undo()
            patch.setattr(cost_model, "pair_interior_points_are_cheap", lambda problem: False)
            patch.setattr(convex, "hinge_path", None)  # the ascent must get there alone
            ascent = machine.fit(X, y, weights).certificate_
        assert direct.status == ascent.status == "optimal"
        assert ascent.primal == pytest.approx(direct.primal, rel=2e-6)
        assert max(ascent.dual, direct.dual) <= min(ascent.primal, direct.primal) * (1.0 + 1e-12)


def test_dual_ascent_with_a_class_metric_starts_warm(monkeypatch):
    from polymargin.solvers import cost_model

    X, y = blobs(9, n=80, d=8, c=4)
    monkeypatch.setattr(cost_model, "pair_interior_points_are_cheap", lambda problem: False)
    warm = M3SVC(C=1.0, tol=1e-5, warm_start=True).fit(X, y)
    for C, p in ((2.0, 4), (2.0, 3), (20.0, 2)):
        warm.set_params(C=C, p=p).fit(X, y)
        cold = M3SVC(C=C, p=p, tol=1e-5).fit(X, y)
        assert warm.certificate_.status == "optimal"
        assert warm.objective_ == pytest.approx(cold.objective_, rel=3e-5)
    assert warm.fit(X, y).n_iter_ <= 2


def test_a_warm_start_that_interior_points_end_keeps_the_better_machine(iris):
    X, y = iris
    warm = M3SVC(C=100.0, p=1, tol=1e-2, warm_start=True, random_state=0).fit(X[1::2], y[1::2])
    warm.set_params(C=1e4).fit(X[1::2], y[1::2])
    assert warm.certificate_.status == "optimal" and warm.certificate_.rel_gap <= 1e-2
    assert warm.objective(X[1::2], y[1::2]) == pytest.approx(warm.certificate_.primal, rel=1e-6)


def test_ascent_that_will_not_get_there_gives_way():
    """To interior points, as soon as its pace says so, not when the iterations are used up."""
    X, y = load_digits(return_X_y=True)
    X = scale(PCA(16, random_state=0).fit_transform(X))
    X = np.tile(X, (5, 1)) + 0.3 * np.random.default_rng(0).normal(size=(5 * len(X), 16))
    fitted = M3SVC(C=20.0, random_state=0).fit(X, np.tile(y, 5))  # 1,000 epochs would not do
    assert fitted.certificate_.converged
    assert [stage.method for stage in fitted.certificate_.stages] == ["dual ascent with weights of pairs", "interior points"]
