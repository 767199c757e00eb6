"""Rows that are visited together: threads change no bit, the optimum is that of rows one by one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import twins
from loops import BUILDS, STORAGES, stored
from scipy import sparse

from polymargin import CrammerSingerSVC, LpNormSVC, WestonWatkinsSVC
from polymargin._core import native
from polymargin.solvers import cost_model

LOOPS = [
    ("simplex", "identity", ()),
    ("box", "identity", ()),
    ("top_k", "identity", (2,)),
    ("squared_top_k", "identity", (2,)),
    ("absolute_box", "identity", (1.0, 1.0)),
    ("simplex", "class_scales", ()),
    ("box", "between_classes", ()),
    ("box", "coupled", ()),
    ("absolute_box", "coupled", (1.0, 1.0)),
]


def wide_data(seed: int = 0, n: int = 150, d: int = 60, c: int = 6):
    """Rows that have little to do with each other."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)).astype(np.float32).astype(np.float64)
    y = rng.integers(0, c, size=n).astype(np.int32)
    y[:c] = np.arange(c)
    return X, y, rng.uniform(0.1, 2.0, size=n)


def opened(build, domain, metric, data, storage="dense64", parameters=(), together=8, n_threads=1):
    X, y, cost = data
    rows, waiting = stored(build, X, storage), storage.startswith("csr")
    c = int(y.max()) + 1
    loop = build.row_loop(domain, metric, rows, y, cost, c, waiting, 3, list(parameters), None, together, n_threads)
    if metric == "coupled":
        loop.couple(1.0, 0.5, False)
    return loop


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("domain", "metric", "parameters"), LOOPS)
@pytest.mark.parametrize("build", BUILDS)
def test_threads_change_no_bit(build, domain, metric, parameters, storage):
    data, found = wide_data(), []
    for n_threads in (1, 2, 4):
        loop = opened(build, domain, metric, data, storage, parameters, n_threads=n_threads)
        loop.start_intercept(data[0].mean(axis=0), 0.3)
        for _ in range(3):
            loop.ascend(7 * len(data[1]), 1e-9)
            loop.move_centre(loop.centre() + 0.3 * loop.sums())
        found.append((loop.visits, loop.dual, loop.estimate, loop.weights(), *loop.duals()))
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("together", [2, 5, 16])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("domain", ["simplex", "box"])
def test_the_optimum_is_that_of_rows_one_by_one(domain, storage, together):
    X, y, _ = data = wide_data(1)
    duals = []
    for rows in (1, together):
        loop = opened(native, domain, "identity", data, storage, together=rows, n_threads=2)
        for _ in range(10):
            loop.ascend(200 * len(y), 1e-12)
            loop.restore()
        a = twins.dense_duals(*loop.duals(), int(y.max()) + 1)
        W = X.T @ twins.tau(a, y)
        np.testing.assert_allclose(loop.weights(), W, atol=1e-9)
        assert loop.dual == pytest.approx(a.sum() - 0.5 * float((W**2).sum()), rel=1e-12)
        duals.append(loop.dual)
    assert duals[1] == pytest.approx(duals[0], rel=1e-9)


def test_rows_that_are_alike_are_visited_apart():
    """Copies of one row that move together overshoot: left to themselves they would never come to rest."""
    rng = np.random.default_rng(2)
    X = np.repeat(rng.normal(size=(4, 20)), 64, axis=0) + 1e-3 * rng.normal(size=(256, 20))
    y = np.repeat(np.arange(4, dtype=np.int32), 64)
    X, y = X[order := rng.permutation(256)], y[order]
    loop = opened(native, "simplex", "identity", (X, y, np.ones(256)), together=64)
    for _ in range(10):
        loop.ascend(200 * 256, 1e-8)
        loop.restore()
    assert 0.5 * loop.squared_norm + loop.loss(1) - loop.dual <= 1e-6 * loop.dual


# 64 listed classes and the own one are all there are
@pytest.mark.parametrize("c", [65, 300])
def test_threads_change_no_bit_of_many_classes(c):
    data, found = wide_data(3, n=600, c=c), []
    for n_threads in (1, 2, 3):
        loop = opened(native, "simplex", "identity", data, together=40, n_threads=n_threads)
        loop.ascend(10 * len(data[1]), 1e-9)
        found.append(loop.weights())
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


# rows, columns, classes that tiles of four rows and three classes do not divide
@pytest.mark.parametrize(("n", "d", "c"), [(257, 37, 23), (130, 64, 3), (97, 5, 4)])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
def test_rows_that_want_all_scores_get_them_whatever_the_threads(build, storage, n, d, c):
    """One epoch, in which all rows look at all classes, with a few columns and classes too many for whole tiles."""
    data, found = wide_data(8, n=n, d=d, c=c), []
    X, y, _ = data
    for n_threads in (1, 2, 4):
        loop = opened(build, "box", "identity", data, storage, together=7, n_threads=n_threads)
        loop.ascend(n, 1e-9)
        found.append((loop.weights(), loop.loss(n_threads), *loop.duals()))
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    W, loss, *duals = found[0]
    np.testing.assert_allclose(W, X.T @ twins.tau(twins.dense_duals(*duals, c), y), atol=1e-9)
    S = X @ W
    margins = np.maximum(0.0, 1.0 - S[np.arange(n), y][:, None] + S)
    margins[np.arange(n), y] = 0.0
    assert loss == pytest.approx(data[2] @ margins.sum(axis=1), rel=1e-12)


@pytest.mark.parametrize(("together", "n_threads"), [(0, 1), (2000, 1), (4, 0)])
def test_numbers_out_of_range_are_refused(together, n_threads):
    with pytest.raises(ValueError, match=r"together|n_threads"):
        opened(native, "simplex", "identity", wide_data(), together=together, n_threads=n_threads)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted by the files of Linux")
def test_an_interrupt_joins_the_threads():
    data = wide_data(4, n=3000)
    loop = opened(native, "box", "identity", data, n_threads=3)

    def raise_interrupt(signum, frame):
        raise KeyboardInterrupt

    before, old = len(os.listdir("/proc/self/task")), signal.signal(signal.SIGALRM, raise_interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            loop.ascend(10**12, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)
    assert len(os.listdir("/proc/self/task")) == before
    # what rows had moved is in the class vectors
    X, y, _ = data
    a = twins.dense_duals(*loop.duals(), int(y.max()) + 1)
    np.testing.assert_allclose(loop.weights(), X.T @ twins.tau(a, y), atol=1e-8)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("machine", [CrammerSingerSVC, WestonWatkinsSVC, LpNormSVC])
def test_fits_of_many_long_rows_are_the_same_whatever_n_jobs(machine, sparse_rows):
    X, y, _ = wide_data(5, n=2100, d=600, c=20)
    assert cost_model.rows_together(X, y) > 1
    X = sparse.csr_array(X) if sparse_rows else X
    fits = [machine(C=0.01, tol=1e-2, n_jobs=n).fit(X, y) for n in (1, 2, 4)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.class_vectors_, fits[0].class_vectors_)
        assert fit.certificate_.dual == fits[0].certificate_.dual


def test_short_or_similar_or_few_rows_are_visited_one_by_one():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 40, size=4000).astype(np.int32)
    assert cost_model.rows_together(rng.normal(size=(4000, 400)), y) > 1
    assert cost_model.rows_together(rng.normal(size=(4000, 16)), y) == 1
    assert cost_model.rows_together(rng.normal(size=(4000, 400)) + 10.0, y // 20) == 1
    assert cost_model.rows_together(rng.normal(size=(400, 400)), y[:400]) == 1
    assert cost_model.rows_together(sparse.csr_array(rng.normal(size=(4000, 400))), y) == 1


def test_rows_of_absolute_margins_have_all_to_do_with_each_other():
    """They move the vectors of all classes. Where the columns are centred their mean has no part in it."""
    rng = np.random.default_rng(6)
    y, X = rng.integers(0, 40, size=4000).astype(np.int32), rng.normal(size=(4000, 400))
    found = [cost_model.rows_together(X + shift, y, False, c) for shift in (0.0, 10.0) for c in (False, True)]
    assert found[0] > 1 and found[2] == 1
    assert found[1] == found[3] == found[0]
    assert cost_model.rows_together(X + 10.0, y) > 1
