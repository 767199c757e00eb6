"""Kernel feature maps: Phi Phi' is the kernel, ranks are revealed, scores come back from the pivots."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel, sigmoid_kernel
from sklearn.svm import SVC

from polymargin.features import kernel_map as features
from polymargin.features.kernel_map import KernelMap

NAMED = ("linear", "rbf", "poly", "sigmoid", "laplacian")


def _rows(n=90, d=120, seed=0, dtype=np.float64):
    """Fewer rows than columns, so that the sigmoid kernel is positive definite on them."""
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def _plane(n=600, seed=0, dtype=np.float64):
    """Two columns: the spectrum of an RBF kernel falls fast."""
    return np.random.default_rng(seed).standard_normal((n, 2)).astype(dtype)


def _exact_kernel(kernel, X, Y=None, **knobs):
    X = X.toarray() if sparse.issparse(X) else X
    Y = X if Y is None else Y
    return pairwise_kernels(X.astype(float), Y.astype(float), metric=kernel, filter_params=True, **knobs)


@pytest.mark.parametrize("kernel", NAMED)
@pytest.mark.parametrize("form", (np.asarray, sparse.csr_matrix, sparse.csr_array))
@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_phi_phi_is_the_kernel(kernel, form, dtype):
    X = form(np.where(np.abs(_rows()) > 0.5, _rows(), 0).astype(dtype))
    knobs = {"gamma": 0.002 if kernel == "sigmoid" else 0.02, "degree": 2, "coef0": 0.0 if kernel == "sigmoid" else 1.0}
    fitted = KernelMap(kernel, **knobs)
    Phi = fitted.fit_transform(X)
    K = _exact_kernel(kernel, X.astype(np.float64), **knobs)
    assert Phi.dtype == np.float64 and Phi.flags.c_contiguous and len(fitted.pivots_) == Phi.shape[1]
    np.testing.assert_allclose(Phi @ Phi.T, K, atol=1e-10 * K.max())
    np.testing.assert_array_equal(Phi[fitted.pivots_], fitted.factor_)
    np.testing.assert_array_equal(fitted.factor_, np.tril(fitted.factor_))


@pytest.mark.parametrize("kernel", NAMED)
def test_large_maps_of_float32_rows_are_float32(kernel, monkeypatch):
    monkeypatch.setattr(features, "_LARGE_MAP", 10)
    X = _rows().astype(np.float32)
    knobs = {"gamma": 0.002 if kernel == "sigmoid" else 0.02, "degree": 2, "coef0": 0.0 if kernel == "sigmoid" else 1.0}
    Phi = KernelMap(kernel, **knobs).fit_transform(X)
    K = _exact_kernel(kernel, X, **knobs)
    assert Phi.dtype == np.float32
    np.testing.assert_allclose(Phi @ Phi.T, K, atol=1e-5 * K.max())


def test_many_blocks():
    X = _rows(700, 20)
    K = rbf_kernel(X, gamma=0.05)
    for source, kernel in ((X, "rbf"), (K, "precomputed"), (X, lambda A, B: rbf_kernel(A, B, gamma=0.05))):
        fitted = KernelMap(kernel, gamma=0.05)
        Phi = fitted.fit_transform(source)
        assert len(set(fitted.pivots_)) == Phi.shape[1] > 2 * features._BLOCK
        np.testing.assert_allclose(Phi @ Phi.T, K, atol=1e-9)
        assert np.trace(K - Phi @ Phi.T) <= 2e-12 * np.trace(K)


@pytest.mark.parametrize("form", (np.asarray, sparse.csr_matrix))
def test_gamma_as_in_svc(form):
    X = form(_rows(30, 4))
    for gamma in ("scale", "auto", 0.3):
        fitted = KernelMap("rbf", gamma=gamma)
        fitted.fit_transform(X)
        assert fitted.gamma_ == pytest.approx(SVC(gamma=gamma).fit(X, np.arange(30) % 2)._gamma)
    constant = KernelMap("rbf")
    assert constant.fit_transform(form(np.ones((5, 2)))).shape == (5, 1)
    assert constant.gamma_ == 1.0


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
@pytest.mark.parametrize("d", (1, 7, 60))
def test_rank_of_the_linear_kernel(d, dtype):
    X = _rows(800, d, dtype=dtype)
    for source, kernel in ((X, "linear"), (X @ X.T, "precomputed")):
        Phi = KernelMap(kernel).fit_transform(source)
        assert Phi.shape == (800, d)
    # far from the origin, and rows of very different lengths
    assert KernelMap("linear").fit_transform(100 + X).shape[1] == d
    assert KernelMap("linear").fit_transform(X * np.logspace(0, 2, 800).astype(dtype)[:, None]).shape[1] == d


def test_duplicate_rows_add_nothing():
    X = _rows(40, 10)
    twice = np.vstack([X, X, X])
    Phi = KernelMap("rbf").fit_transform(twice)
    assert Phi.shape == (120, 40)
    np.testing.assert_allclose(Phi[:40], Phi[80:], atol=1e-7)


def test_nothing_to_map():
    fitted = KernelMap("linear")
    assert fitted.fit_transform(np.zeros((5, 3))).shape == (5, 0)
    assert fitted.coefficients(np.zeros((0, 4))).shape == (0, 4) and fitted.residual_ == 0.0
    assert KernelMap("rbf").fit_transform(np.ones((1, 2))).shape == (1, 1)


@pytest.mark.parametrize("n_components", (None, 25))
@pytest.mark.parametrize("kernel", (*NAMED, "precomputed"))
def test_coefficients_give_the_scores(kernel, n_components):
    X, X_new = _rows(), _rows(11, seed=1)
    support = X
    if kernel == "precomputed":
        X, X_new, support = rbf_kernel(X), rbf_kernel(X_new, X), np.arange(90)
    fitted = KernelMap(kernel, gamma=0.002, n_components=n_components, random_state=0)
    Phi = fitted.fit_transform(X)
    W = np.random.default_rng(2).standard_normal((Phi.shape[1], 3))
    A = fitted.coefficients(W)
    assert A.shape == W.shape
    np.testing.assert_allclose(fitted.kernel_rows(X, support[fitted.pivots_]) @ A, Phi @ W, atol=1e-8)
    block = fitted.kernel_rows(X_new, support[fitted.pivots_])
    phi_new = solve_triangular(fitted.factor_, block.T, lower=True).T
    np.testing.assert_allclose(block @ A, phi_new @ W, atol=1e-8)


@pytest.mark.parametrize("dtype, atol", ((np.float64, 1e-7), (np.float32, 5e-3)))
def test_coefficients_of_an_ill_conditioned_factor(dtype, atol):
    X = _plane(dtype=dtype)
    fitted = KernelMap("rbf")
    Phi = fitted.fit_transform(X)
    assert np.linalg.cond(fitted.factor_) > (1e4 if dtype == np.float64 else 1e2)
    W = np.random.default_rng(2).standard_normal((Phi.shape[1], 3))
    scores = fitted.kernel_rows(X, X[fitted.pivots_]) @ fitted.coefficients(W)
    np.testing.assert_allclose(scores, Phi @ W, atol=atol * np.abs(Phi @ W).max())


def test_nystroem_error_falls_with_the_rank():
    X = _rows(300, 5)
    K = rbf_kernel(X, gamma=0.2)
    errors = []
    for r in (5, 20, 80, 200, 300, 1000):
        fitted = KernelMap("rbf", gamma=0.2, n_components=r, random_state=0)
        Phi = fitted.fit_transform(X)
        assert Phi.shape[1] <= min(r, 300)
        landmarks = fitted.pivots_
        nystroem = K[:, landmarks] @ np.linalg.pinv(K[np.ix_(landmarks, landmarks)], hermitian=True) @ K[landmarks]
        np.testing.assert_allclose(Phi @ Phi.T, nystroem, atol=1e-5)
        errors.append(np.trace(K - Phi @ Phi.T) / 300)
        assert errors[-1] == pytest.approx(fitted.residual_, abs=1e-12)
    assert errors[:4] == sorted(errors[:4], reverse=True) and errors[3] < 0.01 * errors[0]
    np.testing.assert_array_equal(Phi, KernelMap("rbf", gamma=0.2).fit_transform(X))


def test_landmarks_follow_the_residual():
    """Nine rows in ten are nearly the same: uniform landmarks would waste themselves on them."""
    X = np.vstack([1e-3 * _plane(900), 3 * _plane(100)])
    fitted = KernelMap("rbf", gamma=1.0, n_components=40, random_state=0)
    fitted.fit_transform(X)
    assert (fitted.pivots_ >= 900).mean() > 0.8 and fitted.residual_ < 0.05


def test_seeds():
    X = _rows(300, 5)
    draws = [KernelMap("rbf", n_components=20, random_state=seed) for seed in (0, 0, 1, None)]
    for draw in draws:
        draw.fit_transform(X)
    assert (draws[0].pivots_ == draws[1].pivots_).all() and set(draws[0].pivots_) != set(draws[2].pivots_)
    exact = [KernelMap("rbf", random_state=seed).fit_transform(X) for seed in (None, 3)]
    np.testing.assert_array_equal(*exact)


def test_memory_is_checked_before_allocation(monkeypatch):
    X = _rows(400, 30)
    monkeypatch.setattr(features, "available_memory", lambda: 1e6)
    with pytest.raises(MemoryError, match=r"0\.00128 GB for 400 columns.*0\.001 GB are free.*n_components="):
        KernelMap("rbf").fit_transform(X)
    with pytest.raises(MemoryError, match="n_components= to at most 312"):
        KernelMap("rbf", n_components=350).fit_transform(X)
    assert KernelMap("rbf", n_components=300).fit_transform(X).shape == (400, 300)
    assert KernelMap("rbf").fit_transform(X[:, :1]).shape[1] < 100  # the rank decides, not n
    # nothing is computed before the check
    monkeypatch.setattr(features, "available_memory", lambda: 1e3)
    monkeypatch.setattr(KernelMap, "kernel_rows", None)
    with pytest.raises(MemoryError):
        KernelMap("rbf", n_components=10).fit_transform(X)


def test_available_memory():
    assert features.available_memory() > 1e6


def test_columns_are_computed_on_demand():
    X, values = _plane(2000), []

    def kernel(A, B):
        values.append(A.shape[0] * B.shape[0])
        return rbf_kernel(A, B, gamma=0.1)

    Phi = KernelMap(kernel).fit_transform(X)
    assert Phi.shape[1] < 100
    # the columns of the pivots, the diagonal, the candidates' blocks and a sample for the last check
    steps = sum(count == features._POOL**2 for count in values)
    assert sum(values) <= 2000 * (Phi.shape[1] + 10 + features._DIAGONAL_TILE + features._SAMPLE) + steps * features._POOL**2
    assert steps < 20
    assert max(values) <= features._TILE * features._BLOCK
    np.testing.assert_allclose(Phi @ Phi.T, rbf_kernel(X, gamma=0.1), atol=1e-8)


INDEFINITE = {
    "negative diagonal": np.diag([1.0, 1.0, -0.5]),
    "no diagonal": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "negative eigenvalue": np.array([[1.0, 2.0], [2.0, 1.0]]),
    "distances": -np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0))),
}


@pytest.mark.parametrize("name", INDEFINITE)
@pytest.mark.parametrize("n_components", (None, 1))
@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_indefinite_matrices_are_refused(name, n_components, dtype):
    K = INDEFINITE[name].astype(dtype)
    with pytest.raises(ValueError, match=r"kernel='precomputed' is not positive semi-definite.*shift"):
        KernelMap("precomputed", n_components=n_components, random_state=0).fit_transform(K)


def test_a_small_negative_eigenvalue():
    K = np.eye(50)
    K[3, 4] = K[4, 3] = 1 + 1e-6
    with pytest.raises(ValueError, match=r"not positive semi-definite.*-2e-06 on the diagonal"):
        KernelMap("precomputed").fit_transform(K)


def test_one_indefinite_pair_among_many_rows():
    K = rbf_kernel(_plane(1500))
    K[700, 1200] = K[1200, 700] = K[700, 1200] + 0.1
    with pytest.raises(ValueError, match="not positive semi-definite"):
        KernelMap("precomputed").fit_transform(K)


def test_indefinite_functions_are_refused():
    X = _plane()
    for kernel, knobs in (
        ("poly", {"coef0": -1.0, "degree": 1, "gamma": 1.0}),
        (lambda A, B: -rbf_kernel(A, B), {}),
        (lambda A, B: 1 - rbf_kernel(A, B), {}),
    ):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            KernelMap(kernel, **knobs).fit_transform(X)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_sigmoid_is_mapped_by_its_definite_part(storage):
    X = _plane()
    doubled = storage(np.vstack([X, X[:20]]))  # counts once
    K = sigmoid_kernel(X, gamma=1.0, coef0=0.0)
    values, vectors = np.linalg.eigh(K)
    mapping = KernelMap("sigmoid", gamma=1.0, coef0=0.0)
    Phi = mapping.fit_transform(doubled)[: len(X)]
    assert_allclose(Phi @ Phi.T, (vectors * np.maximum(values, 0.0)) @ vectors.T, atol=1e-8)
    assert mapping.cut_ == pytest.approx(-values[values < 0].sum() / np.abs(values).sum())
    W = np.random.default_rng(0).normal(size=(Phi.shape[1], 3))
    assert_allclose(K[:, mapping.pivots_] @ mapping.coefficients(W), Phi @ W, atol=1e-4)


def test_few_rows_stand_for_a_sigmoid():
    X = _plane()
    mapping = KernelMap("sigmoid", gamma=1.0, n_components=30, random_state=0)
    Phi = mapping.fit_transform(X)
    assert len(mapping.pivots_) == 30 and Phi.shape[1] <= 30 and mapping.cut_ > 0.0


def test_callables_may_give_sparse_matrices():
    X = sparse.csr_array(_rows(40, 5))
    assert_allclose(
        KernelMap(lambda A, B: A @ B.T).fit_transform(X), KernelMap(lambda A, B: (A @ B.T).toarray()).fit_transform(X)
    )


def test_rounding_is_not_indefinite():
    """A matrix of low rank whose rounding makes half of its small eigenvalues negative."""
    X = _rows(300, 5)
    noise = 1e-13 * np.random.default_rng(3).standard_normal((300, 300))
    assert KernelMap("precomputed").fit_transform(X @ X.T + noise + noise.T).shape == (300, 5)
    assert KernelMap("rbf").fit_transform(X + 1e4).shape[1] > 100  # distances lose eight digits here


def test_bad_matrices():
    K = rbf_kernel(_rows(300, 5))
    K[7, 280] += 0.25
    K[7, 8] += 0.1
    with pytest.raises(ValueError, match=r"kernel='precomputed' is not symmetric.*0\.25"):
        KernelMap("precomputed").fit_transform(K)
    K[280, 290] = K[290, 280] = np.nan
    with pytest.raises(ValueError, match="kernel='precomputed': X contains NaN"):
        KernelMap("precomputed").fit_transform(K)
    with pytest.raises(ValueError, match="square"):
        KernelMap("precomputed").fit_transform(K[:, :20])
    with pytest.raises(TypeError, match="dense"):
        KernelMap("precomputed").fit_transform(sparse.csr_matrix(np.eye(3)))


def test_bad_functions():
    X = _rows(30, 5)
    with pytest.raises(ValueError, match="is not symmetric"):
        KernelMap(lambda A, B: A @ np.triu(np.ones((5, 5))) @ B.T).fit_transform(X)
    with pytest.raises(ValueError, match="returned an array of shape"):
        KernelMap(lambda A, B: np.ones(3)).fit_transform(X)
    with pytest.raises(ValueError, match="not finite"):
        KernelMap(lambda A, B: np.full((len(A), len(B)), np.nan)).fit_transform(X)
    with pytest.raises(ValueError, match="not finite"):
        KernelMap("poly", gamma=1e30, degree=20).fit_transform(X)


@pytest.mark.parametrize("n", [50, 300, 1000])
def test_one_pair_of_rows_tells_that_a_kernel_is_not_definite(n):
    """All rows are alike but for one pair, which a few columns of the kernel may miss."""

    def kernel(A, B):
        pair = np.outer(A[:, 0] == 17, B[:, 0] == 31) + np.outer(A[:, 0] == 31, B[:, 0] == 17)
        return np.where(pair, 0.75, 1.0)

    X = np.arange(n, dtype=np.float64)[:, None]
    assert np.linalg.eigvalsh(kernel(X, X))[0] == pytest.approx(-0.25, rel=0.1)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        KernelMap(kernel).fit_transform(X)
