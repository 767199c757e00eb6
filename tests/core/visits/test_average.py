"""The average of an epoch beside the machine at its end."""

from __future__ import annotations

import numpy as np
import pytest
from loops import BUILDS, STORAGES, stored

from polymargin import CrammerSingerSVC
from polymargin._core import native


def tall_data(seed: int = 0, n: int = 1500, d: int = 8, c: int = 5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n).astype(np.int32)
    X = rng.normal(size=(c, d))[y] + rng.normal(size=(n, d))
    return X.astype(np.float32).astype(np.float64), y, np.ones(n)


def opened(build, data, storage="dense64", intercept=False, averages=True, together=1):
    X, y, cost = data
    rows, c = stored(build, X, storage), int(y.max()) + 1
    loop = build.row_loop("simplex", "identity", rows, y, cost, c, False, 0, [], None, together, 2, averages)
    if intercept:
        loop.start_intercept(X.mean(axis=0), 0.5)
    return loop


def objective(W, b, data):
    X, y, cost = data
    S, own = X @ W + b, np.arange(len(y))
    margins = S[own, y][:, None] - S
    margins[own, y] = np.inf
    return 0.5 * float((W**2).sum()) + float(cost @ np.maximum(0.0, 1.0 - margins.min(axis=1)))


@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
def test_its_value_is_that_of_its_machine(build, storage, intercept, together):
    data = tall_data()
    loop = opened(build, data, storage, intercept, together=together)
    assert loop.averaged_value(1) == np.inf
    with pytest.raises(RuntimeError, match="no average"):
        loop.averaged_machine()
    loop.ascend(500 * len(data[1]), 1e-2)
    assert loop.averaged_value(1) == pytest.approx(objective(*loop.averaged_machine(), data), rel=1e-12)
    assert loop.averaged_value(2) == loop.averaged_value(1)


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_it_is_nearer_to_the_optimum_than_the_end(tol):
    better = []
    for seed in range(6):
        data = tall_data(seed)
        loop = opened(native, data)
        loop.ascend(500 * len(data[1]), tol)
        at_end = objective(loop.weights(), 0.0, data)
        assert loop.averaged_value(1) - loop.dual <= 1.5 * tol * at_end  # what made the loop stop is true of it
        better.append(at_end / loop.averaged_value(1))
    assert np.mean(better) > 1.0


def test_it_is_forgotten_when_the_loop_goes_on():
    data = tall_data()
    loop = opened(native, data)
    loop.ascend(500 * len(data[1]), 1e-2)
    assert np.isfinite(loop.averaged_value(1))
    loop.ascend(3 * len(data[1]), 0.0)
    assert loop.averaged_value(1) == np.inf


def test_the_machine_of_a_fit_has_the_objective_of_its_certificate():
    data = tall_data(7)
    for tol in (1e-1, 1e-2, 1e-4):
        fit = CrammerSingerSVC(C=1.0, fit_intercept=False, tol=tol).fit(data[0], data[1])
        W = np.asarray(fit.class_vectors_).T
        assert fit.certificate_.primal == pytest.approx(objective(W, 0.0, data), rel=1e-12)
        assert fit.certificate_.rel_gap <= tol
