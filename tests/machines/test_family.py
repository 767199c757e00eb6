"""MarginSVC: any loss of margins with any penalty, against CVXPY; its parameters, costs and tables."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from cases import all_losses, called, optimum_of
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.preprocessing import scale

import polymargin
from polymargin import MarginSVC
from polymargin.calibration.costs import cost_matrix
from polymargin.estimators.family import LOSS_KINDS, PENALTY_KINDS, penalty_for
from polymargin.label_costs import ordered_costs, tree_costs
from polymargin.losses import TopKHinge
from polymargin.metrics import expected_cost
from polymargin.penalties import BlockNorm, CoupledNorm, ElasticNet, GroupNorm, PairwiseDistances, SquaredNorm
from polymargin.penalties.angular import REGULARIZERS
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import solve


def _in_cvxpy(name: str, W: Any, b: Any) -> Any:
    """The penalties, written a second time."""
    import cvxpy as cp

    half, c = 0.5 * cp.sum_squares(W), W.shape[1]
    pairs = [(k, other) for k in range(c) for other in range(k)]
    lengths = [cp.norm(W[:, k] - W[:, other]) for k, other in pairs]
    ridge = 1e-3 * (cp.sum_squares(W) + cp.sum_squares(b))
    return {
        "l2": lambda: half,
        "lp": lambda: 0.5 * cp.square(cp.pnorm(cp.norm(W, 2, axis=0), 1.5)),
        "pairwise": lambda: 0.25 * (c - 1) / len(pairs) ** 0.5 * cp.square(cp.pnorm(cp.hstack(lengths), 4)) + ridge,
        "pairwise in powers": lambda: sum(cp.power(r, 4) for r in lengths) + ridge,
        "coupled": lambda: 0.6 * half + 0.2 * cp.sum_squares(cp.sum(W, axis=1)),
        "elastic_net": lambda: half + 0.5 * cp.sum(cp.abs(W)),
        "group": lambda: half + 0.7 * cp.sum(cp.norm(W, 2, axis=1)),
    }[name]()


PENALTIES = {
    "l2": SquaredNorm(),
    "lp": BlockNorm(1.5),
    "pairwise": PairwiseDistances(4.0, 1e-3),
    "pairwise in powers": PairwiseDistances(4.0, 1e-3, "power"),
    "coupled": CoupledNorm(0.4),
    "elastic_net": ElasticNet(0.5),
    "group": GroupNorm(0.7),
}


def random_problem(rng: np.random.Generator, loss: Any, penalty: str) -> Problem:
    """Dense or CSR, weighted, with and without intercept."""
    n, d, c = int(rng.integers(20, 60)), int(rng.integers(2, 8)), 5
    y = rng.integers(0, c, n)
    y[:c] = range(c)
    X: Any = rng.normal(size=(n, d)) + 1.5 * np.eye(c, d)[y]
    if rng.random() < 0.4:
        X = sparse.csr_matrix(X * (rng.random(X.shape) < 0.6))
    cost = rng.exponential(size=n) * 10.0 ** rng.uniform(-1.5, 1.0)
    R = penalty_for(loss, PENALTIES[penalty])
    return Problem(X, y.astype(np.int32), cost, c, loss, R, bool(rng.integers(2)))


PRODUCTS = [
    pytest.param(name, loss, penalty, id=f"{called(loss)}-{penalty}")
    for name, loss in all_losses()
    if loss.domain is not None
    for penalty in PENALTIES
    if not (name == "one_vs_rest" and "pairwise" in penalty)
    and not (name == "top_k" and loss.k >= 3 and penalty not in ("l2", "coupled", "lp"))
]


def _optimum(name: str, problem: Problem, penalty: str) -> float:
    """By CVXPY, which may say that its solution is inaccurate; nan where Clarabel gives up, as on a few in thousands."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return optimum_of(name, problem, lambda W, b: _in_cvxpy(penalty, W, b), problem.fit_intercept).value
        except cp.error.SolverError:
            return np.nan


@pytest.mark.pool(0.33)
@pytest.mark.parametrize("name, loss, penalty", PRODUCTS)
def test_every_product_is_optimal(name: str, loss: Any, penalty: str, request: pytest.FixtureRequest) -> None:
    """One random problem of half of them; twenty of all with ``--pool all``."""
    tol = 1e-6
    for seed in range(20 if request.config.getoption("--pool") == "all" else 1):
        problem = random_problem(np.random.default_rng([seed, *map(ord, called(loss) + penalty)]), loss, penalty)
        solution = solve(problem, Ledger(tol), max_iter=3000 if loss.domain.has_plain_faces else 50_000, seed=0)
        end = solution.certificate
        assert end.status == "optimal"
        assert problem.primal(solution.machine.W, solution.machine.b) == pytest.approx(end.primal, rel=1e-9)
        best = _optimum(name, problem, penalty)
        if np.isfinite(best):
            assert end.primal == pytest.approx(best, rel=max(1e-5, 2.0 * tol))
            assert end.dual <= best * (1.0 + 1e-5)


@pytest.mark.parametrize("loss", LOSS_KINDS)
@pytest.mark.parametrize("penalty", PENALTY_KINDS)
def test_a_machine_by_names(loss: str, penalty: str) -> None:
    X, y = load_iris(return_X_y=True)
    machine = MarginSVC(loss=loss, penalty=penalty, tol=1e-4)
    product = next(row for row in polymargin.machines() if (row.loss, row.penalty) == (loss, penalty))
    if (loss, penalty) == ("one_vs_rest", "pairwise"):
        with pytest.raises(ValueError, match="sees differences"):
            machine.fit(scale(X), y)
        assert not product.method
        return
    machine.set_params(max_iter=3000).fit(scale(X), y)
    assert ", ".join(stage.method for stage in machine.certificate_.stages).startswith(product.method)
    assert machine.certificate_.status == {"certified": "optimal", "stationary": "stationary"}[product.proof]
    assert machine.certificate_.status == ("stationary" if penalty in REGULARIZERS else "optimal")
    assert machine.objective(scale(X), y) == pytest.approx(machine.objective_, rel=1e-9)
    assert machine.score(scale(X), y) > 0.6  # the absolute maxima leave a class out (Dogan et al. 2016)
    if machine._loss().sums_to_zero:
        assert_allclose(machine.class_vectors_.sum(axis=0), 0.0, atol=1e-9)
        assert abs(machine.class_offsets_.sum()) < 1e-9


@pytest.mark.parametrize("loss", LOSS_KINDS)
def test_kernels_equal_the_linear_machine(loss: str) -> None:
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    linear = MarginSVC(loss=loss, tol=1e-7).fit(X, y)
    kernel = MarginSVC(loss=loss, tol=1e-7, kernel="precomputed").fit(X @ X.T, y)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=1e-6)


def test_the_named_machines_are_products() -> None:
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    same = {
        MarginSVC(loss="crammer_singer"): polymargin.CrammerSingerSVC(),
        MarginSVC(loss="weston_watkins"): polymargin.WestonWatkinsSVC(),
        MarginSVC(loss="top_k", k=3): polymargin.TopKSVC(k=3),
        MarginSVC(penalty="lp", p=1.3): polymargin.LpNormSVC(p=1.3),
        MarginSVC(loss="weston_watkins", penalty="pairwise"): polymargin.M3SVC(),
        MarginSVC(loss="weston_watkins", penalty="pairwise", scale="power"): polymargin.M3SVC(scale="power"),
        MarginSVC(penalty="lp", squared=True): polymargin.LpNormSVC(loss="squared_hinge"),
        MarginSVC(penalty="diversity", omega=0.3): polymargin.AngularSVC(regularizer="diversity", omega=0.3),
    }
    for one, other in same.items():
        values = [machine.set_params(tol=1e-7).fit(X, y).objective_ for machine in (one, other)]
        assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_objects_instead_of_names() -> None:
    X, y = load_iris(return_X_y=True)
    named = MarginSVC(loss="top_k", k=2, penalty="group", l1=1.0).fit(scale(X), y)
    objects = MarginSVC(loss=TopKHinge(2), penalty=GroupNorm(1.0)).fit(scale(X), y)
    assert objects.objective_ == pytest.approx(named.objective_, rel=1e-12)


def test_penalised_offsets_of_an_object_are_not_moved_freely() -> None:
    X, y = load_iris(return_X_y=True)
    far = scale(X) + 1e7  # where offsets are free such columns are moved to zero
    machine = MarginSVC(loss="weston_watkins", penalty=PairwiseDistances(4.0, 1e-6))
    assert not machine._free_offsets
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(far, y)
    assert machine.certificate_.dual <= machine.objective(far, y) * (1.0 + 1e-6)


def test_features_are_in_or_out_for_all_classes() -> None:
    X, y = load_digits(return_X_y=True)
    machine = MarginSVC(penalty="group", l1=5.0, C=0.1).fit(X / 16.0, y)
    used = (machine.class_vectors_ != 0.0).any(axis=0)
    assert machine.certificate_.status == "optimal"
    assert 0 < used.sum() < 61  # three features of the digits are constant
    assert ((machine.class_vectors_ != 0.0).all(axis=0) == used).all()


@pytest.mark.parametrize(
    "parameters, match",
    [
        ({"loss": "hinge"}, "loss='hinge' is not valid: use 'absolute_max'"),
        ({"penalty": "l1"}, "penalty='l1' is not valid: use 'l2'"),
        ({"k": 3}, "k=3 has no meaning with loss='crammer_singer'.*'top_k' and 'top_k_sum'"),
        ({"l1": 0.1}, "l1=0.1 has no meaning.*'elastic_net' and 'group'"),
        ({"loss": "top_k", "k": 7}, "k=7 is not valid: y has 3 classes"),
        ({"loss": "top_k", "k": 0}, "k=0 is not valid"),
        ({"loss": "top_k", "k": 3, "penalty": "group"}, "k=3 is not valid with penalty='group'.*top_k_sum"),
        ({"loss": "top_k", "k": 3, "penalty": "angular"}, "k=3 is not valid with penalty='angular'.*top_k_sum"),
        ({"omega": 1.0}, "omega=1.0 has no meaning.*'angular' and 'cosine'"),
        ({"penalty": "cosine", "omega": -1.0}, "omega=-1.0 is not valid"),
        ({"penalty": "lp", "p": 3}, "p=3 is not valid: penalty='lp' takes 1 < p <= 2"),
        ({"penalty": "pairwise", "p": 1}, "p=1 is not valid.*M3SVC"),
        ({"penalty": "pairwise", "scale": "square"}, "scale='square' is not valid"),
        ({"scale": "norm"}, "scale='norm' has no meaning.*'pairwise'"),
        ({"penalty": "coupled", "alpha": 1.0}, "alpha=1.0 is not valid"),
        ({"penalty": "coupled", "alpha": -0.7}, "alpha=-0.7 is not valid with 3 classes"),
        ({"loss": "reinforced", "own_share": 2.0}, "own_share=2.0 is not valid"),
        ({"squared": 1}, "squared=1 is not valid"),
        ({"loss": TopKHinge(2), "squared": True}, "squared=True is not valid with an object"),
        ({"penalty": "group", "kernel": "rbf"}, "penalty='group' is not valid with kernel='rbf'"),
        ({"loss": "total_sum", "label_cost": np.ones((3, 3))}, "label_cost is not valid with loss='total_sum'"),
        ({"label_cost": np.ones((3, 3))}, "must be 0 on its diagonal"),
        ({"label_cost": np.eye(4)}, r"shape \(4, 4\)"),
        ({"label_cost": np.eye(3) - 1.0}, "must not be negative"),
    ],
)
def test_what_is_wrong_is_said(parameters: dict[str, Any], match: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=match):
        MarginSVC(**parameters).fit(X, y)


def test_costs_move_errors_to_where_they_cost_less() -> None:
    X, y = load_iris(return_X_y=True)
    X = scale(X)[:, :2]  # two classes overlap
    cost = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 8.0, 0.0]])  # to take a virginica for a versicolor is dear
    plain, costly = MarginSVC(loss="weston_watkins").fit(X, y), MarginSVC(loss="weston_watkins", label_cost=cost).fit(X, y)
    assert costly.certificate_.status == "optimal"
    before, after = (expected_cost(y, machine.predict(X), cost) for machine in (plain, costly))
    assert after < 0.5 * before
    assert costly.objective(X, y) == pytest.approx(costly.objective_)


@pytest.mark.parametrize(
    "named, product",
    [
        (polymargin.CrammerSingerSVC(), {}),
        (polymargin.WestonWatkinsSVC(), {"loss": "weston_watkins"}),
        (polymargin.TopKSVC(k=2), {"loss": "top_k", "k": 2}),
        (polymargin.LpNormSVC(p=1.3, loss="squared_hinge"), {"penalty": "lp", "p": 1.3, "squared": True}),
        (polymargin.M3SVC(p=3), {"loss": "weston_watkins", "penalty": "pairwise", "p": 3}),
    ],
    ids=lambda thing: type(thing).__name__ if not isinstance(thing, dict) else "",
)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_named_machines_take_costs(named: Any, product: dict[str, Any], kernel: str) -> None:
    X, y = load_iris(return_X_y=True)
    common = {"label_cost": ordered_costs([0, 1, 2], power=2), "kernel": kernel, "tol": 1e-6}
    machine = clone(named).set_params(**common).fit(scale(X), y)
    same = MarginSVC(**product, **common).fit(scale(X), y)
    assert machine.certificate_.status == "optimal"
    assert machine.objective_ == pytest.approx(same.objective_, rel=3e-6)
    assert machine.objective_ != pytest.approx(clone(named).set_params(kernel=kernel).fit(scale(X), y).objective_, rel=0.01)
    assert machine.objective(scale(X), y) == pytest.approx(machine.objective_, rel=1e-6)


def test_costs_where_they_cannot_be() -> None:
    X, y = load_iris(return_X_y=True)
    cost = ordered_costs([0, 1, 2])
    for machine in (polymargin.M3SVC(loss="softmax"), polymargin.M3SVC(p=1), polymargin.M3SVC(norm="l1")):
        with pytest.raises(ValueError, match=r"label_cost is not valid with loss=.*finite p of at least 2"):
            machine.set_params(label_cost=cost).fit(X, y)
    with pytest.raises(ValueError, match="costs of its own"):
        MarginSVC(loss=TopKHinge(2, costs=np.ones((3, 3)) - np.eye(3)), label_cost=cost).fit(X, y)
    objects = MarginSVC(loss=TopKHinge(2), label_cost=cost, tol=1e-6).fit(X, y)
    assert objects.objective_ == pytest.approx(polymargin.TopKSVC(label_cost=cost, tol=1e-6).fit(X, y).objective_, rel=3e-6)


def test_a_power_is_chosen_with_the_costs() -> None:
    """Folds in which a class has no rows have costs of the others."""
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(150) == 149, 3, y)  # a class of one row
    machine = polymargin.LpNormSVC(p="auto", label_cost=ordered_costs([0, 1, 2, 3])).fit(scale(X), y)
    assert machine.certificate_.status == "optimal" and machine.p_ in machine.p_candidates_


def test_costs_may_be_named() -> None:
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    cost = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]])
    order = [2, 0, 1]
    frame = pd.DataFrame(cost[np.ix_(order, order)], index=names[order], columns=names[order])
    by_name = MarginSVC(label_cost=frame).fit(X, names[y])
    assert by_name.objective_ == MarginSVC(label_cost=cost).fit(X, y).objective_
    assert expected_cost(names[y], by_name.predict(X), frame) >= 0.0
    renamed, without = frame.rename(index={"virginica": "other"}), frame.drop(columns="virginica")
    for wrong, missing in ((renamed, "rows"), (without, "columns")):
        with pytest.raises(ValueError, match=f"no {missing} for the class 'virginica'"):
            MarginSVC(label_cost=wrong).fit(X, names[y])


def test_cost_helpers() -> None:
    steps = cost_matrix(ordered_costs([1, 2, 3], power=2), np.arange(1, 4))
    assert_allclose(steps, np.array([[0, 1, 4], [1, 0, 1], [4, 1, 0]]) * 0.5)
    paths = {"a": ["x", "u"], "b": ["x", "u"], "c": ["x", "v"], "d": ["y"]}
    tree = cost_matrix(tree_costs(paths), np.array(["a", "b", "c", "d"]))
    assert tree[0, 1] < tree[0, 2] < tree[0, 3] and tree.sum() == pytest.approx(12.0)
    for wrong, match in (({"a": 1}, "no row for the class 'a'"), ({"a": {}}, "no column for the class 'a'")):
        with pytest.raises(ValueError, match=match):
            cost_matrix(wrong, np.array(["a"]))
    with pytest.raises(ValueError, match="each once"):
        ordered_costs([1, 1])
    with pytest.raises(ValueError, match="'x', which is not among labels"):
        expected_cost(["x"], ["y"], np.eye(2), labels=["y", "z"])


def test_costs_by_name_are_saved(tmp_path: Any) -> None:
    X, y = load_iris(return_X_y=True)
    machine = MarginSVC(loss="weston_watkins", label_cost=ordered_costs([0, 1, 2])).fit(X, y)
    polymargin.save(machine, tmp_path / "machine.pm")
    loaded = polymargin.load(tmp_path / "machine.pm")
    assert loaded.objective(X, y) == machine.objective_


def test_the_table_of_products() -> None:
    """That every row is true is asked where its machine is fitted, in `test_a_machine_by_names`."""
    table = polymargin.machines()
    assert [(product.loss, product.penalty) for product in table] == [(a, b) for a in LOSS_KINDS for b in PENALTY_KINDS]


def test_warm_starts_of_absolute_margins() -> None:
    X, y = load_digits(return_X_y=True)
    machine = MarginSVC(loss="lee_lin_wahba", C=0.1, warm_start=True).fit(X / 16.0, y)
    first = machine.n_iter_
    assert machine.fit(X / 16.0, y).n_iter_ < first
    assert machine.set_params(loss="total_sum").fit(X / 16.0, y).certificate_.status == "optimal"
