"""Every NumPy loss and penalty has a PyTorch twin with equal values and gradients; together they make objectives."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'polymargin[torch]'")

from cases import CASES, all_losses, called  # noqa: E402
from registry import all_estimators, classes_in  # noqa: E402

import polymargin  # noqa: E402
from polymargin import losses, penalties  # noqa: E402
from polymargin import torch as twins  # noqa: E402
from polymargin.losses.margin_distribution import MarginDistributionLoss  # noqa: E402

# The losses of `CASES`, and those outside: the original, the twin
LOSSES = {called(loss): (loss, partial(CASES[name].twin, twins, loss)) for name, loss in all_losses()} | {
    "weston_watkins as m3": (losses.WestonWatkinsHinge(), lambda **o: twins.M3HingeLoss(delta=0.0, **o)),
    "margin_distribution": (
        MarginDistributionLoss(theta=0.3, mu=0.7),
        lambda **o: twins.MarginDistributionLoss(theta=0.3, mu=0.7, **o),
    ),
}
PENALTIES = {
    "pairs.pairwise_l1:PairwiseL1": ({"p": 1.5}, twins.PairwiseMarginRegularizer(1.5, norm="l1")),
    "squared_norm": ({}, twins.LpNormRegularizer(2)),
    "block_norm": ({"p": 1.4}, twins.LpNormRegularizer(1.4)),
    "coupled_norm": ({"alpha": 0.3}, twins.CoupledNormRegularizer(0.3)),
    "elastic_net": ({"l1": 0.3}, twins.SparseRegularizer(0.3)),
    "group_norm": ({"l1": 0.3}, twins.SparseRegularizer(0.3, groups=True)),
    "coupled:ZeroSumNorm": ({}, twins.LpNormRegularizer(2)),
    "sum_zero:AtSumZero": ({"penalty": penalties.BlockNorm(1.4)}, twins.LpNormRegularizer(1.4)),
    "pairwise_distances": ({}, twins.PairwiseMarginRegularizer()),
    "pairwise_distances p=1": ({"p": 1.0}, twins.PairwiseMarginRegularizer(1.0)),
    "pairwise_distances power": ({"scale": "power"}, twins.PairwiseMarginRegularizer(scale="power")),
    "pairwise_distances p=inf": ({"p": np.inf, "epsilon": 0.1}, twins.PairwiseMarginRegularizer(np.inf, epsilon=0.1)),
    **{
        f"angular:AnglePenalty {kind}": (
            {"omega": 0.7, "regularizer": kind, "rank": 4, "floor": 0.05},
            twins.AngularRegularizer(0.7, regularizer=kind, rank=4, floor=0.05),
        )
        for kind in ("angular", "cosine", "incoherence", "diversity")
    },
}


def original(package, registry, name):
    """The NumPy class: a twin of nothing is an error."""
    name = name.partition(" ")[0]
    if ":" not in name:
        return registry[name]
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{package.__name__}.{module}"), attribute)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_twins(name):
    loss, twin = LOSSES[name]
    rng = np.random.default_rng(0)
    S, y = 2.0 * rng.standard_normal((300, 5)), rng.integers(0, 5, 300)
    scores = torch.from_numpy(S).requires_grad_()
    value = twin(reduction="sum")(scores, torch.from_numpy(y))
    value.backward()
    assert value.item() == pytest.approx(loss.value(S, y).sum(), rel=1e-12)
    np.testing.assert_allclose(scores.grad, loss.gradient(S, y), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("shape", [(7, 4), (4, 7)])
def test_penalties_are_twins(name, shape):
    arguments, twin = PENALTIES[name]
    penalty = original(penalties, penalties.PENALTIES, name)(**arguments)
    W = np.random.default_rng(1).standard_normal(shape)
    weight = torch.from_numpy(W.T.copy()).requires_grad_()
    value = twin(weight)
    value.backward()
    assert value.item() == pytest.approx(penalty.value(W), rel=1e-12)
    np.testing.assert_allclose(weight.grad.T, penalty.gradient(W), rtol=1e-10, atol=1e-10)


def test_no_twin_is_missing():
    """Every loss and penalty of the package has one, whether it is in a registry or not."""
    assert {type(loss) for loss, _ in LOSSES.values()} == classes_in(losses, losses.ScoreLoss)
    with_twin = {original(penalties, penalties.PENALTIES, name) for name in PENALTIES}
    assert with_twin | {penalties.ShiftedNorm} == classes_in(penalties, penalties.Penalty)  # that one is a solver's model
    assert set(MACHINES) == {machine.__name__ for machine in all_estimators()}


# A machine's objective: its parameters, its loss, and its penalty, which may need the fitted machine.
MACHINES = {
    "CrammerSingerSVC": ({}, twins.CrammerSingerLoss, lambda est: twins.LpNormRegularizer(2)),
    "WestonWatkinsSVC": ({}, twins.WestonWatkinsLoss, lambda est: twins.LpNormRegularizer(2)),
    "TopKSVC": ({"k": 3}, lambda **o: twins.TopKLoss(k=3, **o), lambda est: twins.LpNormRegularizer(2)),
    "LpNormSVC": ({"p": 1.4}, twins.CrammerSingerLoss, lambda est: twins.LpNormRegularizer(1.4)),
    "MarginSVC": (
        {"loss": "lee_lin_wahba"},
        lambda **o: twins.MarginLoss("lee_lin_wahba", **o),
        lambda est: twins.LpNormRegularizer(2),
    ),
    "MultiLabelSVC": ({}, lambda **o: twins.MarginLoss("one_vs_rest", **o), lambda est: twins.LpNormRegularizer(2)),
    "M3SVC": ({}, twins.WestonWatkinsLoss, lambda est: twins.PairwiseMarginRegularizer()),
    "MarginDistributionSVC": (
        {"theta": 0.3, "mu": 0.7},
        lambda **o: twins.MarginDistributionLoss(theta=0.3, mu=0.7, **o),
        lambda est: twins.LpNormRegularizer(2),
    ),
    "AngularSVC": ({"omega": 2.0}, twins.CrammerSingerLoss, lambda est: twins.AngularRegularizer(est.omega, floor=1e-9)),
    "OneVsNoneSVC": (
        {"biases": "soft"},
        twins.OneVsNoneLoss,
        lambda est: twins.CoupledNormRegularizer(est.alpha, gamma_b=est.gamma_b_),
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_loss_and_regularizer_make_the_objective_of_the_machine(name, overlapping):
    X, y = overlapping
    parameters, loss, regularizer = MACHINES[name]
    weights = {0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}
    est = getattr(polymargin, name)(C=0.7, class_weight=weights, **parameters).fit(X, y)
    layer = twins.to_torch(est)
    criterion = loss(reduction="sum", weight=torch.tensor(list(weights.values()), dtype=torch.float64))
    value = 0.7 * criterion(layer(torch.from_numpy(X)), torch.from_numpy(y)) + regularizer(est)(layer)
    assert value.item() == pytest.approx(est.objective(X, y), rel=1e-10)
    assert value.item() == pytest.approx(est.objective_, rel=1e-6)


def test_the_exports_exist():
    assert sorted(twins.__all__) == twins.__all__
    assert all(hasattr(import_module("polymargin.torch"), name) for name in twins.__all__)
