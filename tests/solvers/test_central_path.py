"""The central path: its driver on a path that can be told everything, and the blocks beside those of the hinge machines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import polymargin.solvers  # noqa: F401  before label_problem, which needs its types
from polymargin.losses import WestonWatkinsHinge
from polymargin.penalties import CoupledNorm, SquaredNorm, ZeroSumNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.problems.labels import LabelProblem, Pairs
from polymargin.solvers.interior.blocks.band import Band
from polymargin.solvers.interior.blocks.hinges import WestonWatkins
from polymargin.solvers.interior.blocks.label_pairs import LabelPairs
from polymargin.solvers.interior.blocks.native_pairs import NativePairs
from polymargin.solvers.interior.central_path import Path, follow_central_path
from polymargin.solvers.interior.labels import label_interior
from polymargin.solvers.interior.pair_iterate import PairIterate
from polymargin.solvers.interior.quadratic import interior_point
from polymargin.solvers.rows import Design
from polymargin.solvers.types import Machine, Solution, SparseDuals

# -- the driver --------------------------------------------------------------------------------------------


class OneHinge(Path):
    """``u [1 - v]_+ + v^2/2`` for one number v."""

    def __init__(self, tol=1e-10, trouble=None):
        self.block, self.V = LabelPairs(np.ones(1), np.full(1, 0.3)), np.zeros(1)
        self.block.start(self.V)
        self.tol, self.trouble, self.seen = tol, trouble, []

    def prove(self, n_iter):
        primal = 0.5 * float(self.V @ self.V) + self.block.loss(self.V)
        self.seen.append((n_iter, primal))
        a = self.block.pull()
        return primal - float(a.sum() - 0.5 * a @ a) <= self.tol

    def stalls(self):
        return self.trouble == "stall" and len(self.seen) > 3

    def linearise(self):
        if self.trouble == "singular" and len(self.seen) > 3:
            raise np.linalg.LinAlgError
        self.h = self.block.linearise()

    def direction_of(self, pull, target):
        dV = (self.block.pull() - self.V + pull) / (1.0 + self.h)
        return (dV * np.nan if self.trouble == "nan" and len(self.seen) > 3 else dV), dV


def test_the_path_leads_to_the_optimum():
    path = OneHinge()
    status, n_iter = follow_central_path(path, 50)
    assert status == "max_iter" and n_iter < 12  # the caller knows that it is enough
    assert_allclose(path.V, 0.3, atol=1e-5)
    assert [n for n, _ in path.seen] == list(range(n_iter + 1))


@pytest.mark.parametrize("trouble", ["stall", "singular", "nan"])
def test_whatever_stops_a_path_leaves_it_where_it_was(trouble):
    path = OneHinge(trouble=trouble)
    assert follow_central_path(path, 50) == ("stalled", 3)
    assert np.isfinite(path.V).all() and (path.block.A > 0.0).all()


def test_no_more_steps_than_allowed():
    for max_iter in (0, 2):
        path = OneHinge(tol=0.0)
        assert follow_central_path(path, max_iter) == ("max_iter", max_iter)


# -- blocks ------------------------------------------------------------------------------------------------


def test_native_pairs_are_the_weston_watkins_block():
    rng = np.random.default_rng(1)
    n, c = 20, 4
    y, cost = np.sort(rng.integers(0, c, n)), rng.uniform(0.5, 2.0, n)
    S, dS, predictor = rng.standard_normal((3, n, c))
    problem = Problem(np.eye(n), y.astype(np.int32), cost, c, WestonWatkinsHinge(), SquaredNorm(), False)
    now = PairIterate(problem, Design(problem.X, cost, False, rotate=False))
    now.S = S.copy()
    native, block = NativePairs(now), WestonWatkins(y, cost, c, np.zeros(n))
    native.start(cost[:, None] * rng.uniform(0.2, 0.8, (n, c)))
    block.start(S.T)
    block.loss(S.T)
    off = block.off

    def pairs(array):
        return array.T.ravel()[off]

    block.place(np.stack([pairs(now.A), pairs(native.B)]), np.stack([pairs(native.s), pairs(native.xi)]))
    block.t = block.f[1].copy()
    star, omega = block.linearise().star, native.linearise()
    assert_allclose(omega.T, star, rtol=1e-12)
    assert_allclose(native.mean, block.complementarity() / native.n_products)
    for move, corrects in ((predictor, False), (dS, True)):
        if corrects:
            mu, _ = native.mehrotra_target(0.3)
            second_order = block.direction[0] * block.direction[1]
        target = mu - second_order if corrects else 0.0
        total = native.aim(mu if corrects else 0.0)
        assert_allclose(-total.T, block.pull() + block.aim(target), atol=1e-12)
        native.follow(move)
        block.follow(move.T)
        assert_allclose(native.longest_step(), block.longest_step())
        assert_allclose(native.products(0.2), block.products(0.2).sum())
    native.step(0.1)
    block.step(0.1)
    assert_allclose([pairs(now.A), pairs(native.B), pairs(native.s), pairs(native.xi)], [*block.A, *block.f])
    assert_allclose(now.S, S + 0.1 * dS)


def test_label_pairs_keep_their_contract():
    rng = np.random.default_rng(2)
    signs, cost = rng.choice([-1.0, 1.0], 30), rng.uniform(0.1, 2.0, 30)
    S, dS = rng.standard_normal((2, 30))
    block = LabelPairs(signs, cost)
    block.start(S)
    assert_allclose(block.loss(S), cost @ np.maximum(1.0 - signs * S, 0.0))
    h = block.linearise()
    still = block.aim(0.3)
    block.follow(dS)
    dA, df = (part.reshape(2, -1) for part in block.direction[:2])
    assert_allclose(dA.sum(axis=0), 0.0, atol=1e-13)
    assert_allclose(block.A * df + block.f * dA, 0.3 - block.A * block.f, atol=1e-12)
    assert_allclose(df[0] - df[1], signs * dS + (block.f[1] + signs * S - 1.0 - block.f[0]), atol=1e-12)
    assert_allclose(block.adjoint(dA), still - h * dS, atol=1e-12)


@pytest.mark.parametrize("max_iter", [2, 5, 100])
def test_signed_duals_are_balanced(max_iter):
    """Those of a band: whenever it stops, they sum to zero for every class or are charged for it."""
    rng = np.random.default_rng(3)
    y = np.arange(40) % 4
    X, rivals = rng.standard_normal((40, 3)) + 3.0 * rng.standard_normal((4, 3))[y], (y + 1) % 4
    problem = Problem(X, y.astype(np.int32), np.full(40, 10.0), 4, WestonWatkinsHinge(), SquaredNorm(), True)

    def block(y, cost, n_classes, proximal, order):
        return Band(y, cost, n_classes, proximal, rivals[order], 0.2, 0.5)

    exact = interior_point(problem, tol=1e-12, max_iter=100, block=block)
    found = interior_point(problem, tol=1e-12, max_iter=max_iter, block=block)
    tau = -found.a
    tau[np.arange(40), y] = found.a.sum(axis=1)
    assert (found.a < 0.0).any()
    assert np.abs(tau.sum(axis=0)).max() <= 1e-11 * np.abs(tau).sum()
    assert found.dual <= exact.primal * (1.0 + 1e-12)


# -- One versus None ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [CoupledNorm(alpha=0.5), ZeroSumNorm()], ids=["soft", "hard"])
@pytest.mark.parametrize("gamma_b", [None, 1.0])
@pytest.mark.parametrize("few", [False, True])
def test_label_pairs_reach_a_gap_of_1e_9(penalty, gamma_b, few):
    rng = np.random.default_rng(4)
    n, d, c = 60, 5, 12
    known = rng.random((n, c)) < (0.05 if few else 0.7)
    known[np.arange(n), np.arange(n) % c] = True  # every class has members
    rows, labels = np.nonzero(known)
    starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    signs = np.where(rows % c == labels, 1.0, rng.choice([-1.0, 1.0], len(rows)))
    pairs = Pairs(starts, labels.astype(np.int32), signs)
    problem = LabelProblem(rng.standard_normal((n, d)), pairs, np.full(len(rows), 100.0), c, penalty, gamma_b)
    ledger = Ledger(1e-9, rounding=problem.rounding_at)
    zero = Machine(np.zeros((d, c)), np.zeros(c), problem.primal(np.zeros((d, c)), np.zeros(c)))
    so_far = Solution(zero, SparseDuals(starts, pairs.labels, np.zeros(len(rows))), ledger.close(0))
    found = label_interior(problem, ledger, max_iter=100, so_far=so_far)
    assert found.certificate.status == "optimal" and found.certificate.n_iter <= 25
    assert found.machine.primal == pytest.approx(problem.primal(found.machine.W, found.machine.b))
