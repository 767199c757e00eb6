"""What the core does differently among very many classes, and what it says of machines that others have made."""

from __future__ import annotations

import numpy as np
import pytest
from cases import all_losses, called
from loops import BUILDS, STORAGES, problem_data, stored
from scipy import sparse

from polymargin._core import native
from polymargin.losses import CrammerSingerHinge
from polymargin.penalties import SquaredNorm
from polymargin.problems.classes import Objective, Problem
from polymargin.problems.native_rows import has_native_loss

TO_RIVALS = [
    loss
    for _, loss in all_losses()
    if loss.row_problem is not None and loss.domain.margins.relative and loss.unit_targets
]
each_loss = pytest.mark.parametrize("loss", TO_RIVALS, ids=called)


@pytest.mark.parametrize("cost", [0.05, 3.0])
@pytest.mark.parametrize("domain", ["simplex", "squared_simplex"])
@pytest.mark.parametrize("build", BUILDS)
def test_classes_that_could_not_matter_need_not_be_listed(build, domain, cost):
    """With targets rows list every class. Those of 1 change nothing else: the duals are the same to the last bit."""
    rng = np.random.default_rng(0)
    n, d, c = 900, 60, 600
    X = (np.abs(rng.normal(size=(n, d))) * (rng.random((n, d)) < 0.1)).astype(np.float32)
    X[:5] = 0.0  # their scores all tie
    y = rng.permutation(np.arange(n) % c).astype(np.int32)
    found = []
    for targets in (None, np.ones((c, c))):
        rows = stored(build, X, "csr32")
        loop = build.row_loop(domain, "identity", rows, y, np.full(n, cost), c, True, 0, (), targets)
        for _ in range(3):
            loop.ascend(4 * n, 1e-9)
            loop.restore()
        found.append(loop.duals())
    assert len(found[0][2]) > n
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def machine(d: int, c: int):
    """Class vectors of features that all classes have, and of features that few have, or none."""
    rng = np.random.default_rng(5)
    share = np.linspace(0.0, 1.0, d)[:, None] ** 2
    return rng.normal(size=(d, c)) * (rng.random((d, c)) < share), rng.normal(size=c)


def lists(W):
    S = sparse.csr_array(W)
    return S.data, S.indices.astype(np.int32), S.indptr.astype(np.int64)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("build", BUILDS)
@each_loss
def test_the_loss_of_a_machine_is_that_of_its_scores(build, loss, storage):
    X, y, cost = problem_data(3, n=70, d=12, c=40)
    W, b = machine(12, 40)
    expected = cost @ loss.value(X @ W + b, y)
    given = loss.row_problem, stored(build, X, storage), y, cost
    assert build.machine_loss(*given, W, b, loss.row_parameters) == pytest.approx(expected, rel=1e-12)
    assert build.machine_loss(*given, *lists(W), b, loss.row_parameters) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("loss", [loss for _, loss in all_losses() if loss.row_problem is not None], ids=called)
def test_the_loss_of_any_margins_and_targets_is_that_of_its_scores(build, loss):
    X, y, cost = problem_data(3, n=70, d=12, c=9)
    W, b = machine(12, 9)
    if loss.takes_costs:
        loss = loss.with_costs(np.random.default_rng(0).uniform(0.5, 2.0, (9, 9)) * (1.0 - np.eye(9)))
    given = loss.row_problem, stored(build, X, "dense64"), y, cost, W, b, loss.row_parameters, 1
    found = build.machine_loss(*given, np.ascontiguousarray(loss.targets(9)))
    assert found == pytest.approx(cost @ loss.value(X @ W + b, y), rel=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
@each_loss
def test_threads_change_no_bit_of_the_loss_of_a_machine(loss, storage):
    X, y, cost = problem_data(5, n=3000, d=11, c=17)
    W, b = machine(11, 17)
    given = loss.row_problem, stored(native, X, storage), y, cost, W, b, loss.row_parameters
    assert len({native.machine_loss(*given, n) for n in (1, 2, 3, 4)}) == 1


@each_loss
def test_the_objective_on_many_dense_rows_is_native_and_the_same(loss):
    X, y, cost = problem_data(6, n=20_000, d=100, c=60)
    W, b = machine(100, 60)
    problem = Problem(X, y, cost, 60, loss, SquaredNorm(), True, n_threads=2)
    forms = W, np.asfortranarray(W), sparse.csr_array(W)
    assert [has_native_loss(problem, form) for form in forms] == [True, False, False]
    assert not has_native_loss(Problem(X[:100], y[:100], cost[:100], 60, loss, SquaredNorm(), True), W)
    assert problem.loss_of_machine(W, b) == pytest.approx(Objective.loss_of_machine(problem, W, b), rel=1e-12)


@each_loss
def test_the_objective_on_sparse_rows_is_native_and_the_same(loss):
    X, y, cost = problem_data(4, n=250, d=12, c=200)
    W, b = machine(12, 200)
    problem = Problem(sparse.csr_array(X), y, cost, 200, loss, SquaredNorm(), True)
    expected = Objective.loss_of_machine(problem, W, b)
    forms = [W, sparse.csr_array(W), sparse.csc_array(W), np.asfortranarray(W), sparse.csr_array(W).astype(np.float32)]
    assert [has_native_loss(problem, form) for form in forms] == [True, True, False, False, False]
    for form in forms[:4]:
        assert problem.loss_of_machine(form, b) == pytest.approx(expected, rel=1e-12)


def test_machines_that_do_not_fit_are_refused():
    X, y, cost = problem_data(0)
    W, b = machine(6, 4)
    values, classes, starts = lists(W)
    given = "simplex", stored(native, X, "csr64"), y, cost
    with pytest.raises(ValueError, match="W has another shape"):
        native.machine_loss(*given, W[:5], b)
    with pytest.raises(ValueError, match="classes has an entry out of range"):
        native.machine_loss(*given, values, classes + np.int32(1), starts, b)
    with pytest.raises(ValueError, match="starts"):
        native.machine_loss(*given, values, classes, starts[:-1], b)
    with pytest.raises(ValueError, match="entry out of range"):
        native.machine_loss(*given, np.ascontiguousarray(W[:, :3]), b[:3])  # of fewer classes than y has
    with pytest.raises(ValueError, match="targets has another shape"):
        native.machine_loss(*given, W, b, (), 1, np.ones((3, 3)))
    for rows in (X, sparse.csr_array(X)):  # dense rows, or few classes
        assert not has_native_loss(Problem(rows, y, cost, 4, CrammerSingerHinge(), SquaredNorm(), False), W)
