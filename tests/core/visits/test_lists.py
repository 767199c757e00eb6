"""Lists of classes: solved the same in any order, moved at once where duals are separate; and epochs that are cut short."""

from __future__ import annotations

import numpy as np
import pytest
from cases import all_losses, called
from loops import BUILDS, open_loop, problem_data, solved_row

from polymargin._core import native

LOSSES = [loss for _, loss in all_losses() if loss.row_problem is not None and getattr(loss, "costs", None) is None]


@pytest.mark.parametrize("count", [3, 7, 26, 41])
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("metric", ["identity", "class_scales", "coupled"])
@pytest.mark.parametrize("loss", LOSSES, ids=called)
def test_the_order_of_a_list_changes_nothing(loss, metric, build, count):
    """Classes are seen four at a time, and the rest one by one: each comes to both places."""
    if not native.knows(loss.row_problem, metric):
        pytest.skip("the metric is bounded by the identity")
    if getattr(loss, "k", 0) > count + 1:
        pytest.skip("fewer classes")
    rng = np.random.default_rng(count)
    relative = loss.domain.margins.relative
    for own_in_list in [False] if relative else [loss.domain.margins.own]:
        g, own = rng.normal(size=count), int(rng.integers(count)) if own_in_list else -1
        apart = rng.uniform(0.5, 2.0, size=count + 1) if metric == "class_scales" else np.full(count + 1, 0.8)
        H = np.diag(apart) + (0.15 if metric == "coupled" else 0.0)

        def solved(a, order, g=g, own=own, H=H):
            places = np.append(order, count)
            place = -1 if own < 0 else int(np.flatnonzero(order == own)[0])
            block = np.ascontiguousarray(H[np.ix_(places, places)])
            given = g[order], a[order], -0.3, block, 0.7, loss.row_parameters, metric, place
            return solved_row(build, loss.row_problem, *given)

        a = np.zeros(count)
        for _ in range(3):  # from where it has come to, too
            found = solved(a, np.arange(count))
            order = rng.permutation(count)
            np.testing.assert_allclose(solved(a, order), found[order], rtol=1e-9, atol=1e-12)
            g, a = g + 0.3 * rng.normal(size=count), found


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("domain", ["absolute_box", "squared_absolute_box"])
def test_a_row_moves_all_separate_duals_at_once(build, domain):
    X, y, cost = problem_data(2, n=120, d=5, c=100)
    loop = open_loop(build, domain, X + 1.0, y, 1e-3 * cost, parameters=(1.0, 1.0))
    loop.ascend(120, 0.0)
    assert len(loop.duals()[2]) > 120 * 95  # later rows find some scores low enough


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("domain", ["simplex", "box"])
def test_an_epoch_that_is_cut_short_counts_what_it_has_not_seen(build, domain):
    X, y, cost = problem_data(1, n=400, d=8, c=5)
    whole, cut = (open_loop(build, domain, X, y, cost) for _ in range(2))
    whole.ascend(400, 0.0)
    cut.ascend(405, 0.0)
    assert (whole.epochs, cut.epochs) == (1, 2)
    assert cut.estimate > 0.9 * whole.estimate
