"""Every loss, once: how it is made, what it is in CVXPY, and its PyTorch twin. With its line here a new loss is tested.

Contracts (`test_contracts.py`), the optimum against CVXPY (`test_reference.py`) and the twins (`test_torch_twins.py`) read
this list; a loss of the package that is missing here fails them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polymargin.losses import LOSSES, ScoreLoss, TopKHinge


class LossCase(NamedTuple):
    """`violations` are the CVXPY expression ``1[l != y] + s_l - s_y`` (n, c), 0 at the own class; `own` marks that one."""

    losses: tuple[ScoreLoss, ...]  # with all kinds of parameters, for 5 classes
    in_cvxpy: Callable[[Any, Any, ScoreLoss], Any] | None  # (violations, own, loss) -> (n,)
    twin: Callable[..., Any]  # (polymargin.torch, loss, **options) -> the module


def _closest(E: Any, own: Any, loss: ScoreLoss) -> Any:
    import cvxpy as cp

    return cp.max(E, axis=1)


def _squared_closest(E: Any, own: Any, loss: ScoreLoss) -> Any:
    import cvxpy as cp

    return cp.square(cp.pos(cp.max(E, axis=1)))


def _all(E: Any, own: Any, loss: ScoreLoss) -> Any:
    import cvxpy as cp

    return cp.sum(cp.pos(E), axis=1)


def _mean_of_largest(E: Any, own: Any, loss: Any) -> Any:
    """The mean of the k largest is ``min_t t + sum_l [E_l - t]_+ / k``."""
    import cvxpy as cp

    t = cp.Variable((E.shape[0], 1))
    return cp.pos(t[:, 0] + cp.sum(cp.pos(E - t @ np.ones((1, E.shape[1]))), axis=1) / loss.k)


def _logistic(E: Any, own: Any, loss: ScoreLoss) -> Any:
    import cvxpy as cp

    return cp.sum(cp.multiply(1 - own, cp.logistic(E - (1 - own))), axis=1)


def _softmax(E: Any, own: Any, loss: ScoreLoss) -> Any:
    import cvxpy as cp

    return cp.log_sum_exp(E - (1 - own), axis=1)


CASES: dict[str, LossCase] = {
    "crammer_singer": LossCase((LOSSES["crammer_singer"](),), _closest, lambda t, loss, **o: t.CrammerSingerLoss(**o)),
    "squared_crammer_singer": LossCase(
        (LOSSES["squared_crammer_singer"](),), _squared_closest, lambda t, loss, **o: t.CrammerSingerLoss(squared=True, **o)
    ),
    "weston_watkins": LossCase((LOSSES["weston_watkins"](),), _all, lambda t, loss, **o: t.WestonWatkinsLoss(**o)),
    "top_k": LossCase(
        tuple(TopKHinge(k) for k in range(1, 6)), _mean_of_largest, lambda t, loss, **o: t.TopKLoss(k=loss.k, **o)
    ),
    "pairwise_logistic": LossCase(
        (LOSSES["pairwise_logistic"](),), _logistic, lambda t, loss, **o: _of_network(t, loss="logistic", **o)
    ),
    "cross_entropy": LossCase((LOSSES["cross_entropy"](),), _softmax, lambda t, loss, **o: _of_network(t, **o)),
}


def _of_network(torch_twins: Any, **options: Any) -> Any:
    import torch

    return torch_twins.ISM3Loss(torch.nn.Linear(2, 2), lam=0.0, **options)  # it wants a layer, whose weight is 0 here


def all_losses() -> list[tuple[str, ScoreLoss]]:
    """Every loss with every choice of parameters, and its name in `CASES`."""
    return [(name, loss) for name, case in CASES.items() for loss in case.losses]


def called(loss: ScoreLoss) -> str:
    parameters = () if loss.domain is None else loss.domain.parameters
    return "-".join([loss.name.replace(" ", "_"), *(f"{value:g}" for value in parameters)])


class Optimum(NamedTuple):
    value: float
    W: Any
    b: Any


def optimum_of(name: str, problem: Any, penalty: Callable[[Any, Any], Any], offsets: bool = True) -> Optimum:
    """The minimum of ``sum_i u_i loss_i + penalty(W, b)`` by CVXPY; without `offsets` b is 0."""
    import cvxpy as cp

    n, c = problem.n_rows, problem.n_classes
    W, b, own = cp.Variable((problem.n_features, c)), cp.Variable((1, c)), np.eye(c)[problem.y]
    S = problem.X @ W + np.ones((n, 1)) @ b
    violations = (1 - own) + S - cp.sum(cp.multiply(own, S), axis=1, keepdims=True) @ np.ones((1, c))
    in_cvxpy = CASES[name].in_cvxpy
    assert in_cvxpy is not None
    F = problem.cost @ in_cvxpy(violations, own, problem.loss) + penalty(W, b)
    value = cp.Problem(cp.Minimize(F), [] if offsets else [b == 0]).solve(solver=cp.CLARABEL)
    return Optimum(float(value), W.value, b.value[0])
