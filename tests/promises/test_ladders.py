"""Ladders: one difficulty, rung by rung, for every machine. Columns far from 0, and Ctrl-C at any moment."""

from __future__ import annotations

import signal
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from registry import each_machine, has_free_intercept, is_convex
from sklearn.datasets import load_wine

from fuzz import invariants
from polymargin import M3SVC, LpNormSVC
from polymargin.features.kernel_map import KernelMap

# ---- columns whose mean is far from 0, in standard deviations ------------------------------------------------------------

JUDGES = [
    invariants.warnings_are_kind,
    invariants.warns_unless_converged,
    invariants.attributes_are_finite,
    invariants.certificate_is_of_the_returned_arrays,
    invariants.objective_is_f,
    invariants.gap_is_not_negative,
    invariants.converged_means_the_gap_is_closed,
    invariants.optimal_is_true_of_the_returned_arrays,
]


def blobs():
    rng = np.random.default_rng(3)
    y = np.arange(90) % 3
    return rng.standard_normal((3, 6))[y] + rng.standard_normal((90, 6)), y


def scaled_wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def moved(data, shift):
    """Rows around means of `shift` standard deviations, and the same rows moved back, without any rounding."""
    X, y = data()
    return X + shift, (X + shift) - shift, y


@pytest.mark.pool(0.3)
@pytest.mark.parametrize("rung", range(9))
@pytest.mark.parametrize("data", [blobs, scaled_wine])
@each_machine
def test_25_columns_far_from_zero(machine, data, rung):
    """Right, to tol and to rounding in the scale of the data, or a warning that says scale; never an error."""
    X, near, y = moved(data, 10.0**rung)
    trial = invariants.fit_plainly(machine(random_state=0), X, y)
    assert trial.error is None, repr(trial.error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = [sentence for judge in JUDGES for sentence in judge(trial)]
    assert not wrong, wrong
    if not trial.certificate.converged:
        assert "scale" in str(trial.caught[-1].message)
        return
    if moving_changes_nothing(machine) and is_convex(machine):
        best, tol = machine(random_state=0).fit(near, y).certificate_, trial.est.tol
        assert trial.F.low <= best.primal * (1.0 + 1.1 * tol) + trial.F.rounding
        assert trial.certificate.dual <= best.primal + trial.F.rounding


def moving_changes_nothing(machine):
    """With free offsets only: those of M3SVC are penalised, those of OneVsNoneSVC add up to zero."""
    return has_free_intercept(machine) and machine.__name__ != "M3SVC"


# ---- Ctrl-C: how long it may take, in processor time ---------------------------------------------------------------------

posix_only = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")


@contextmanager
def alarm(seconds, handler, again=0.0):
    """Rings after so many seconds of processor time: other processes do not count."""
    previous = signal.signal(signal.SIGPROF, handler)
    signal.setitimer(signal.ITIMER_PROF, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)


def longest_stretch(action):
    """The longest processor time for which no signal was handled: what Ctrl-C would have to wait for at worst."""
    rung = [time.process_time()]

    def ring(*_):
        rung.append(time.process_time())

    with alarm(0.005, ring, again=0.005):
        action()
    rung.append(time.process_time())
    assert len(rung) > 20, "too short to be measured"
    return max(np.diff(rung))


@posix_only
def test_30_no_part_of_the_kernel_map_is_long():
    X = np.random.default_rng(0).standard_normal((4000, 20))
    mapping = KernelMap("rbf")
    assert longest_stretch(lambda: mapping.coefficients(mapping.fit_transform(X)[:, :8][: len(mapping.pivots_)])) <= 0.2


@posix_only
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("shape, loss, steps", [((2200, 2270), "hinge", 3), ((2900, 200), "logistic", 12)])
def test_30_no_factorisation_is_long(shape, loss, steps):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape), rng.integers(0, 5, shape[0])
    assert longest_stretch(lambda: M3SVC(C=1e3, loss=loss, max_iter=steps, tol=1e-12).fit(X, y)) <= 0.2


@posix_only
def test_30_interrupts_at_random_moments_of_a_kernel_fit(iris):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10_000, 20)), rng.integers(0, 8, 10_000)
    est = LpNormSVC(kernel="rbf", random_state=0)
    for after in (0.02, *rng.uniform(0.05, 2.0, 3)):
        start = time.process_time()
        with alarm(after, signal.default_int_handler), pytest.raises(KeyboardInterrupt):
            est.fit(X, y)
        assert time.process_time() - start - after <= 0.2
        assert not hasattr(est, "dual_coef_")
    again, fresh = est.fit(*iris), LpNormSVC(kernel="rbf", random_state=0).fit(*iris)
    np.testing.assert_array_equal(again.dual_coef_, fresh.dual_coef_)
