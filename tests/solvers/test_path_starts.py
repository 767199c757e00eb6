"""Where an ascent starts on a path over C: on the line through the last two solutions, if that is better."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from polymargin import CrammerSingerSVC, TopKSVC, WestonWatkinsSVC, regularization_path
from polymargin.losses import LOSSES
from polymargin.penalties import SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import Start, cost_model
from polymargin.solvers.ascent import path_starts
from polymargin.solvers.ascent.loops import open_loop
from polymargin.solvers.ascent.row_ascent import dual_ascent
from polymargin.solvers.types import Passed, SparseDuals

COSTS = [(0.01, 0.02, 0.04), (0.1, 0.2, 0.4), (1.0, 1.6, 2.56), (8.0, 10.0, 14.0), (4.0, 2.0, 1.0)]


def text(n: int = 300, d: int = 500, c: int = 5) -> tuple[sparse.csr_array, np.ndarray]:
    """Rows of length 1 with few entries, more likely in the columns of their class."""
    rng = np.random.default_rng(0)
    y = rng.integers(c, size=n).astype(np.int32)
    likely = 1.0 + 3.0 * (np.arange(d) % c == y[:, None])
    X = (rng.random((n, d)) < 0.01 * likely) * rng.exponential(size=(n, d))
    return sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), y


def problem_of(loss: str, cost: float) -> Problem:
    X, y = text()
    return Problem(X, y, np.full(len(y), cost), 5, LOSSES[loss](), SquaredNorm(), False)


def solved(problem: Problem) -> Passed:
    found = dual_ascent(problem, Ledger(1e-7), max_iter=1000, seed=0)
    assert found.duals is not None
    return Passed(found.duals, found.machine.b, found.certificate.dual, 1.0)


def passed_at(loss: str, costs: tuple[float, float], now: float) -> tuple[Passed, Passed]:
    first, last = (solved(problem_of(loss, cost))._replace(cost=cost / now) for cost in costs)
    return first, last


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("loss", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_the_start_is_feasible_and_no_worse_than_what_was_there(loss: str, costs: tuple[float, ...]) -> None:
    problem = problem_of(loss, costs[2])
    first, last = passed_at(loss, costs[:2], costs[2])
    loop = open_loop(problem, 0)
    path_starts.place(problem, loop, Start(last.duals, last.b, passed=(first, last)), (first, last))
    duals = SparseDuals(*loop.duals())
    assert problem.row_domains.room(duals.dense(5)) >= 1.0 - 1e-12
    values = [loop.dual]
    for t in np.linspace(0.0, 1.0 / last.cost, 21):
        loop.set_duals(*last.duals._replace(values=t * last.duals.values))
        values.append(loop.dual)
    assert values[0] >= max(values[1:]) - 1e-9 * abs(values[0])


@pytest.mark.parametrize("loss", ["crammer_singer", "weston_watkins"])
def test_where_duals_are_linear_it_is_the_solution(loss: str) -> None:
    """All duals at their bounds, and none."""
    for costs in ((1e-4, 2e-4, 4e-4), (200.0, 220.0, 260.0)):
        problem, (first, last) = problem_of(loss, costs[2]), passed_at(loss, costs[:2], costs[2])
        loop = open_loop(problem, 0)
        path_starts.place(problem, loop, Start(last.duals, last.b, passed=(first, last)), (first, last))
        best = solved(problem).dual
        assert best - loop.dual <= 1e-4 * best


def test_the_way_back_is_known() -> None:
    problem, (first, last) = problem_of("crammer_singer", 1.0), passed_at("crammer_singer", (1.0, 2.0), 1.0)
    loop = open_loop(problem, 0)
    path_starts.place(problem, loop, Start(last.duals, last.b, passed=(first, last)), (first, last))
    assert loop.dual == pytest.approx(first.dual, rel=1e-6)


def test_the_top_of_a_parabola() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        slope, bend, reach = rng.normal(), rng.exponential(), rng.uniform(0.1, 5.0)

        def value(s: float, slope: float = slope, bend: float = bend) -> float:
            return slope * s - 0.5 * bend * s * s

        top = path_starts._top(value(-1.0), value(0.0), value(reach), reach)
        assert top == pytest.approx(np.clip(slope / bend, 0.0, reach), abs=1e-9)
    assert path_starts._top(0.0, 1.0, 5.0, 2.0) == 2.0  # no top: all the way
    assert path_starts._top(0.0, 1.0, 5.0, -0.5) == -0.5  # between two that were solved


@pytest.mark.parametrize("machine", [CrammerSingerSVC(), WestonWatkinsSVC(), TopKSVC()])
def test_paths_on_text_take_fewer_epochs_than_with_multiples(machine, monkeypatch) -> None:
    X, y = text()
    machine, Cs = clone(machine).set_params(random_state=0), np.logspace(-1, 1.3, 20)
    path = regularization_path(machine, X, y, Cs)
    assert all(end.converged for end in path.certificates)
    monkeypatch.setattr(cost_model, "paths_pay", lambda problem: False)
    by_multiples = regularization_path(machine, X, y, Cs)
    assert path.n_iter.sum() < 0.95 * by_multiples.n_iter.sum()
    for one, other in zip(path.certificates, by_multiples.certificates, strict=True):
        assert one.dual <= other.primal and other.dual <= one.primal


def test_solutions_of_other_rows_are_not_used() -> None:
    """Of other classes, of other weights for some rows, or of fewer rows."""
    X, y = text()
    machine = CrammerSingerSVC(warm_start=True, random_state=0).fit(X, y)
    machine.set_params(C=2.0).fit(X, y)
    problem = problem_of("crammer_singer", 4.0)
    assert machine._warm.passed(problem) is not None
    assert machine._warm.passed(replace(problem, y=(y + 1) % 5)) is None
    assert machine._warm.passed(replace(problem, cost=np.linspace(1.0, 2.0, len(y)))) is None
    assert machine._warm.part(y > 0).before is None
    assert machine._warm.before.before is None  # a path remembers two
    other = machine.set_params(C=4.0).fit(X, (y + 1) % 5)
    assert other.certificate_.converged
