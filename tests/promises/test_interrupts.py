"""Ctrl-C during a fit, and what is left of it: nothing, or on request the machine found so far."""

import signal
import warnings
from typing import Any

import numpy as np
import pytest
from registry import each_machine
from sklearn.exceptions import ConvergenceWarning

from polymargin import CrammerSingerSVC
from polymargin.problems.certificate import Ledger


@pytest.fixture
def interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C as soon as a fit has looked at its true gap for the first time."""
    real = Ledger.add

    def add(self: Ledger, *values: Any) -> None:
        real(self, *values)
        if self.label:  # the fit's own ledger, not that of a part of it
            raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "add", add)


def fit_and_keep(est: Any, X: Any, y: Any) -> None:
    """A Ctrl-C that gets out would end all tests."""
    try:
        est.fit(X, y)
    except KeyboardInterrupt:
        pytest.fail("nothing was kept")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@each_machine
def test_30_the_machine_found_so_far_can_be_kept(machine, kernel, interrupts, overlapping):
    X, y = overlapping
    est = machine(C=10.0, kernel=kernel, tol=1e-15, on_interrupt="keep")
    with pytest.warns(ConvergenceWarning, match="was interrupted|stopped"):
        fit_and_keep(est, X, y)
    end = est.certificate_
    assert end.status == "interrupted" or abs(end.rel_gap) < 1e-12  # what is seen first may be the end already
    assert est.objective(X, y) == pytest.approx(end.primal, rel=1e-9)
    assert end.dual <= end.primal and est.n_iter_ <= est.max_iter
    assert set(est.predict(X)) <= set(y)


@each_machine
def test_30_else_the_last_machine_stays_whole(machine, overlapping, request):
    X, y = overlapping
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = machine(tol=1e-2).fit(X, y)
    before = est.decision_function(X)
    request.getfixturevalue("interrupts")
    with pytest.raises(KeyboardInterrupt):
        est.set_params(C=10.0).fit(X[::2], y[::2])
    np.testing.assert_array_equal(est.decision_function(X), before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("knobs", [{}, {"kernel": "rbf", "gamma": 0.5}])
def test_30_in_the_middle_of_a_native_loop(knobs):
    """Before the first look at the true gap the loop's own machine is kept."""
    rng = np.random.default_rng(0)
    n = 60_000 if not knobs else 3000
    X, y = rng.standard_normal((n, 60)), rng.integers(0, 20, n)
    est = CrammerSingerSVC(C=1e3, tol=1e-12, max_iter=100_000, on_interrupt="keep", **knobs)
    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, 0.8)
    try:
        with pytest.warns(ConvergenceWarning, match="was interrupted"):
            fit_and_keep(est, X, y)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    assert est.certificate_.status == "interrupted"
    assert est.objective(X, y) == pytest.approx(est.objective_, rel=1e-9)


@each_machine
def test_30_what_on_interrupt_can_be(machine, iris):
    with pytest.raises(ValueError, match="on_interrupt='ignore' is not valid: use 'raise' or 'keep'"):
        machine(on_interrupt="ignore").fit(*iris)
