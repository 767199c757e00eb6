"""The native working-set loop of the kernel dual against its NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from loops import BUILDS
from sklearn.metrics.pairwise import rbf_kernel

from polymargin._core import native

DOMAINS = ["simplex", "box"]


def kernel_data(seed: int, n: int = 30, c: int = 4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n).astype(np.int32)
    y[:c] = np.arange(c)
    K = rbf_kernel(rng.normal(size=(n, 2)), gamma=0.7).astype(np.float32)
    return K, y, rng.uniform(0.1, 3.0, size=n)


class Iterate:
    """What the loop reads and writes, from nothing."""

    def __init__(self, n, c):
        self.S, self.a = np.zeros((c, n)), np.zeros((n, c))
        self.b, self.sums = np.zeros(c), np.zeros(c)

    def ascend(self, build, domain, K, y, cost, inverse_rho=0.0, goal=1e-9, max_visits=10**6, seed=0):
        arrays = (K, self.S, self.a, y, cost, self.b, self.sums, inverse_rho)
        return build.kernel_ascend(domain, *arrays, goal, max_visits, seed)


def dual_value(K, y, a, inverse_rho=0.0):
    T = twins.tau(a, y)
    return a.sum() - 0.5 * np.einsum("ik,ij,jk->", T, K.astype(np.float64) + inverse_rho, T)


def twin_dual(domain: str, seed: int) -> float:
    K, y, cost = kernel_data(seed)
    return float(dual_value(K, y, twins.kernel_ascent(domain, K.astype(np.float64), y, cost, 4, epochs=150)))


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("seed", range(2))
def test_the_loop_reaches_the_optimum_of_its_twin(seed, domain):
    K, y, cost = kernel_data(seed)
    twin = twin_dual(domain, seed)
    for build in BUILDS:
        found = Iterate(30, 4)
        visits, gap = found.ascend(build, domain, K, y, cost)
        assert visits > 0 and gap <= 1e-5 * twin, build
        assert dual_value(K, y, found.a) == pytest.approx(twin, rel=1e-5), build


@pytest.mark.parametrize("inverse_rho", [0.0, 0.3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_what_it_writes_belongs_together(domain, inverse_rho):
    K, y, cost = kernel_data(4)
    found = Iterate(30, 4)
    found.ascend(native, domain, K, y, cost, inverse_rho, goal=0.0, max_visits=200)
    T = twins.tau(found.a, y)
    gauge = found.a.sum(axis=1) if domain == "simplex" else found.a.max(axis=1)
    assert found.a.min() >= 0.0 and (gauge <= cost * (1 + 1e-12)).all()
    assert (found.a[np.arange(30), y] == 0.0).all()
    np.testing.assert_allclose(found.S, (K.astype(np.float64) @ T).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.sums, T.sum(axis=0), atol=1e-10)


@pytest.mark.parametrize("c", [2, 3, 26])
@pytest.mark.parametrize("domain", DOMAINS)
def test_working_sets_of_more_than_a_block(domain, c):
    """Few classes, whose blocks share what they fetch, and many, of which a row lists few; both in several blocks."""
    rng = np.random.default_rng(c)
    n = 1400
    y = rng.integers(0, c, size=n).astype(np.int32)
    X = rng.normal(size=(n, 3)) + 1.5 * rng.normal(size=(c, 3))[y]
    K, cost = rbf_kernel(X, gamma=0.5).astype(np.float32), np.full(n, 1.0)
    found = Iterate(n, c)
    _, gap = found.ascend(native, domain, K, y, cost, goal=2.0)
    T = twins.tau(found.a, y)
    assert gap <= 2.0
    np.testing.assert_allclose(found.S, (K.astype(np.float64) @ T).T, atol=1e-3)
    gaps = np.zeros(n)
    native.kernel_gaps(domain, found.S, found.a, y, cost, found.b, gaps)
    assert gaps.min() >= -1e-9 and gaps.sum() == pytest.approx(gap, rel=1e-9)
    again = Iterate(n, c)
    again.ascend(native, domain, K, y, cost, goal=2.0)
    np.testing.assert_array_equal(again.a, found.a)


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_proximal_steps_end_in_balance(domain):
    K, y, cost = kernel_data(5)
    found = Iterate(30, 4)
    found.ascend(native, domain, K, y, cost, inverse_rho=0.3, goal=1e-4)
    assert np.abs(found.sums).sum() <= 1e-4
    # b is the multiplier of the balance: no first-order change is left in any direction that keeps it
    gaps = np.zeros(30)
    native.kernel_gaps(domain, found.S, found.a, y, cost, found.b, gaps)
    assert gaps.min() >= -1e-12 and gaps.sum() <= 2e-4


@pytest.mark.parametrize("domain", DOMAINS)
def test_gaps_are_losses_less_duals(domain):
    K, y, cost = kernel_data(6)
    found = Iterate(30, 4)
    found.ascend(native, domain, K, y, cost, goal=0.0, max_visits=60)
    gaps, b = np.zeros(30), np.array([0.2, -0.1, 0.0, -0.1])
    loss = native.kernel_gaps(domain, found.S, found.a, y, cost, b, gaps)
    S = found.S.T + b
    hinge = np.maximum(0.0, 1.0 - S[np.arange(30), y][:, None] + S)
    hinge[np.arange(30), y] = 0.0
    losses = cost * (hinge.max(axis=1) if domain == "simplex" else hinge.sum(axis=1))
    assert loss == pytest.approx(losses.sum())
    np.testing.assert_allclose(gaps, losses + (twins.tau(found.a, y) * S).sum(axis=1) - found.a.sum(axis=1), atol=1e-9)


def test_room_and_gather():
    a, cost = np.array([[0.0, 1.0, 1.0], [3.0, 0.0, 0.5]]), np.array([4.0, 1.5])
    assert native.kernel_room("simplex", a, cost) == pytest.approx(1.5 / 3.5)
    assert native.kernel_room("box", a, cost) == pytest.approx(0.5)
    K = np.arange(20.0).reshape(4, 5)
    for dtype in (np.float32, np.float64):
        out = np.empty((2, 3), dtype=np.float32)
        native.gather(K.astype(dtype), np.array([3, 0]), np.array([0, 2, 4]), out)
        np.testing.assert_array_equal(out, K[[3, 0]][:, [0, 2, 4]])


def test_shapes_that_do_not_belong_together_are_refused():
    K, y, cost = kernel_data(7)
    with pytest.raises(ValueError, match="belong together"):
        Iterate(29, 4).ascend(native, "simplex", K, y, cost)
    with pytest.raises(ValueError, match=r"\(m, m\)"):
        Iterate(30, 4).ascend(native, "simplex", K[:, :29].copy(), y, cost)
    with pytest.raises(ValueError, match="unknown domain"):
        Iterate(30, 4).ascend(native, "hinge", K, y, cost)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 256, 600])  # a group of rows is 256
def test_steps_are_carried_to_all_columns(n_rows, dtype):
    rng = np.random.default_rng(n_rows)
    rows, numbers = rng.random((700, 333)).astype(dtype), rng.permutation(700)[:n_rows]
    T = rng.normal(size=(n_rows, 7)) * (rng.random((n_rows, 7)) < 0.3)
    T[:, 2] = 0.0
    before = rng.normal(size=(7, 333))
    expected = before + T.T @ rows[numbers].astype(np.float64)
    for build in BUILDS:
        S = before.copy()
        build.add_rows(rows, numbers, T, S)
        np.testing.assert_array_equal(S[2], before[2])
        np.testing.assert_allclose(S, expected, atol=1e-12 if dtype == np.float64 else 1e-4)
