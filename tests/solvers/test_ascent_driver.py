"""The driver around the native loops: slices, moves, looks; and what bounds and stalls say."""

import numpy as np
import pytest

from polymargin.losses import CrammerSingerHinge
from polymargin.penalties import SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers.ascent.driver import Driver, Proof, Rhythm
from polymargin.solvers.ascent.moves import FixedPoint, Move
from polymargin.solvers.bounds import Ray, Repaired, balanced_duals, balanced_sparse_duals, class_sums, flows_of, signed
from polymargin.solvers.progress import Anderson, Forecast, Stall
from polymargin.solvers.types import sparse_duals


class Loop:
    """Its estimate, unknown at first, halves with every epoch of ten rows."""

    def __init__(self):
        self.visits, self.estimate, self.dual, self.log = 0, np.inf, 1.0, []

    def ascend(self, visits, tol):
        self.visits += visits
        self.estimate = 0.5 ** (self.visits / 10)
        self.log.append(("ascend", visits, tol))

    def restore(self):
        self.log.append("restore")


class Root(Move):
    """x <- 1 + x / 2, or at rest."""

    def __init__(self, loop, x=0.0):
        self.loop, self.x, self.rests, self.dear = loop, np.array([x]), False, 0.0

    def price(self):
        return self.dear

    def step(self, tol):
        return None if self.rests else (self.x, 1.0 - 0.5 * self.x)

    def go(self, to):
        self.x = to
        self.loop.log.append("move")


class Values(Proof):
    """A gap that the estimate gives away."""

    def __init__(self, loop):
        self.loop, self.looks = loop, []

    def values(self, tol):
        self.looks.append(self.loop.visits // 10)
        return 1.0 + self.loop.estimate, 1.0

    def iterate(self):
        return np.zeros((1, 2)), np.zeros(2)


def test_moves_come_before_every_slice_but_the_first():
    loop = Loop()
    driver = Driver(loop, 10, 1000, Rhythm(epochs=2, inner=0.5, restores="look"), [Root(loop)])
    for _ in range(2):
        driver.advance(0.1)
    assert loop.log == [("ascend", 20, 0.05), "move", ("ascend", 20, 0.05)]
    driver.start_anew()
    driver.advance(0.1, most=7)
    assert loop.log[3:] == [("ascend", 7, 0.05)]


def test_it_climbs_until_the_gap_is_proven_and_keeps_the_best_machine():
    loop = Loop()
    proof, ledger = Values(loop), Ledger(1e-3)
    driver = Driver(loop, 10, 1000, Rhythm(epochs=1, grace=8), [Root(loop)])
    driver.climb(ledger, proof)
    assert ledger.done and proof.looks == [8, 10] and driver.n_iter == 10  # after eight slices, then when it is promised
    assert proof.best_machine.primal == ledger.primal


class WholeLoop(Loop):
    """It says how many epochs there were: `share` of them if rows rest."""

    def __init__(self, share=1.0):
        super().__init__()
        self.share = share

    @property
    def epochs(self):
        return int(self.visits // 10 / self.share)


@pytest.mark.parametrize(("share", "looks"), [(1.0, [10]), (0.5, [12])])
def test_slices_end_where_the_pace_says_unless_rows_rest(share, looks):
    """The gap is halved by every epoch, and 1e-3 after ten of them."""
    loop = WholeLoop(share)
    proof, ledger = Values(loop), Ledger(1e-3)
    Driver(loop, 10, 1000, Rhythm(epochs=4, grace=8, foresees=True)).climb(ledger, proof)
    assert ledger.done and proof.looks == looks


def test_a_move_that_costs_much_keeps_back_the_look_and_loosens_the_loop():
    loop = Loop()
    root = Root(loop)
    root.dear = 0.2
    driver = Driver(loop, 10, 10**6, Rhythm(epochs=3, grace=100, loosely=True), [root])
    driver.advance(0.1)
    assert loop.estimate > 0.1 and not driver.promises(0.1)
    driver.advance(0.1)
    assert loop.estimate < 0.1 and not driver.promises(0.1)
    assert loop.log[-1][2] == pytest.approx(0.3 * 0.2 / 1.125)
    root.dear = 0.0
    assert driver.promises(0.1)


def test_limits_hooks_and_other_loops():
    loop = Loop()
    proof, ledger = Values(loop), Ledger(1e-9)
    driver = Driver(loop, 10, 55, Rhythm(epochs=2, grace=100))
    driver.climb(ledger, proof)
    assert driver.left == 0 and loop.log[-1][1] == 15 and not ledger.done
    driver.reopen(Loop(), [])
    assert driver.visits == 55
    asked = []
    driver.limit = 1000
    driver.climb(ledger, proof, enough=lambda: True, wants_look=lambda: bool(asked.append(1)) or len(asked) == 2)
    assert driver.visits == 95


@pytest.mark.parametrize(
    ("restores", "log"),
    [("slice", ["restore", "a", "restore", "a"]), ("look", ["a", "a"])],
)
def test_when_rows_look_at_all_classes_again(restores, log):
    loop = Loop()
    driver = Driver(loop, 10, 1000, Rhythm(epochs=1, restores=restores))
    for _ in range(2):
        driver.advance(0.9)
    assert ["a" if entry[0] == "ascend" else entry for entry in loop.log] == log
    driver.advance_to_look(0.9)
    driver.advance(0.9)
    assert loop.log[-2] == "restore"


def test_moves_are_one_iteration_and_those_that_rest_are_left_out():
    loop = Loop()
    moves = [Root(loop, 0.0), Root(loop, 1.5)]
    together, joint = FixedPoint(moves), Anderson()
    x = np.array([0.0, 1.5])
    for _ in range(3):
        together.go(0.1)
        x = joint(x, 1.0 - 0.5 * x)
        np.testing.assert_array_equal([moves[0].x[0], moves[1].x[0]], x)
    moves[0].rests = True
    together.go(0.1)
    assert moves[0].x[0] == x[0] and moves[1].x[0] == pytest.approx(1.0 + 0.5 * x[1])
    moves[1].rests = True
    where = moves[1].x
    together.go(0.1)
    assert moves[1].x is where


def test_the_best_point_of_a_ray():
    assert Ray(2.0, 0.5).best == 1.0 and Ray(2.0, 0.5).value == 1.5
    assert Ray(2.0, 2.0).best == 0.5 and Ray(2.0, 2.0).value == 0.5
    assert Ray(-1.0, 2.0).value == 0.0
    assert Ray(3.0, 0.0, room=0.5).value == 1.5
    assert Ray(0.0, 0.0, room=np.inf).value == 0.0


def test_repaired_duals_are_a_circulation_dense_sparse_and_signed():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, size=60).astype(np.int32)
    A = rng.random((60, 4)) * (rng.random((60, 4)) < 0.5)
    A[np.arange(60), y] = 0.0
    balanced = balanced_duals(A, y)
    np.testing.assert_allclose(signed(balanced, y).sum(axis=0), 0.0, atol=1e-12)
    X = rng.normal(size=(60, 3))
    problem = Problem(X, y, np.ones(60), 4, CrammerSingerHinge(), SquaredNorm(), True)
    np.testing.assert_allclose(balanced_sparse_duals(problem, sparse_duals(A)).dense(4), balanced)
    flows = flows_of(A, y)
    assert flows[1, 2] == pytest.approx(A[y == 1, 2].sum())
    np.testing.assert_allclose(class_sums(problem, sparse_duals(A)), X.T @ signed(A, y))
    factors = np.exp(rng.normal(size=(4, 4)))
    turned = sparse_duals(A * np.where(rng.random(60) < 0.5, 1.0, -1.0)[:, None])
    scaled = Repaired(factors, Ray(1.0, 1.0)).duals(turned, y)
    own, other = y[turned.rows], turned.classes
    expected = 0.5 * np.where(turned.values > 0.0, factors[own, other], factors[other, own]) * turned.values
    np.testing.assert_allclose(scaled.values, expected)


def test_a_stall_is_seen_after_patience():
    stall = Stall(2, 0.5)
    assert [stall.note(gap) for gap in (8.0, 7.0, 6.0, 4.0, 3.9, 3.8, 3.7)] == [False] * 6 + [True]
    creeping = Stall(2, 0.9, must_pay=True)
    assert [creeping.note(gap) for gap in (1.0, 0.95, 0.9, 0.85)] == [False, False, False, True]
    adds_up = Stall(2, 0.9)
    assert not any(adds_up.note(0.95**k) for k in range(50))


def test_stalls_of_two_values_of_long_waits_and_with_excuses():
    either = Stall(0, 0.5, 0.999)
    assert not either.note(1.0, 1.0) and not either.note(0.9, 0.99) and either.note(0.9, 0.99)
    long = Stall(10, 0.5, share=0.5)
    assert not long.note(1.0, at=40.0) and not long.note(1.0, at=80.0) and long.note(1.0, at=81.0)
    assert long.waited == 41.0
    excused = Stall(0, 0.5)
    assert not excused.note(1.0) and not excused.note(2.0, excused=True) and not excused.note(1.0) and excused.note(0.9)


def test_a_forecast_extrapolates_the_pace():
    forecast = Forecast(50)
    assert forecast.needed(10, 5.0) is None and forecast.needed(40, 3.0) is None
    assert forecast.needed(60, 4.0) == pytest.approx(200.0)
    assert forecast.needed(160, 4.5) == np.inf
