"""Every loss, once: how it is made, what it is in CVXPY, and its PyTorch twin. With its line here a new loss is tested.

Contracts (`test_contracts.py`), the optimum against CVXPY (`test_reference.py`) and the twins (`test_torch_twins.py`) read
this list; a loss of the package that is missing here fails them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from polymargin.losses import LOSSES, ReinforcedHinge, ScoreLoss, TopKHinge, TopKSumHinge
from polymargin.losses.domains.margins import TO_RIVALS


class LossCase(NamedTuple):
    """`violations` are the CVXPY expression of the loss's margins (n, c), 0 where it has none; `own` marks the own class."""

    losses: tuple[ScoreLoss, ...]  # with all kinds of parameters, for 5 classes
    in_cvxpy: Callable[[Any, Any, Any], Any]  # (violations, own, loss) -> (n,)
    twin: Callable[..., Any]  # (polymargin.torch, loss, **options) -> the module


def _most_violated(E: Any, own: Any, loss: Any) -> Any:
    import cvxpy as cp

    most = cp.pos(cp.max(E, axis=1))
    return cp.square(most) if loss.squared else most


def _all(E: Any, own: Any, loss: Any, own_weight: float = 1.0, rival_weight: float = 1.0) -> Any:
    import cvxpy as cp

    parts = cp.square(cp.pos(E)) if loss.squared else cp.pos(E)
    return cp.sum(cp.multiply(own_weight * own + rival_weight * (1 - own), parts), axis=1)


def _reinforced(E: Any, own: Any, loss: Any) -> Any:
    return _all(E, own, loss, loss.own_share, 1.0 - loss.own_share)


def _mean_of_largest(E: Any, own: Any, loss: Any, nonneg: bool = False) -> Any:
    """The mean of the k largest is ``min_t t + sum_l [E_l - t]_+ / k``; of the k largest [E]_+ the same with t >= 0."""
    import cvxpy as cp

    t = cp.Variable((E.shape[0], 1), nonneg=nonneg)
    mean = cp.pos(t[:, 0] + cp.sum(cp.pos(E - t @ np.ones((1, E.shape[1]))), axis=1) / loss.k)
    return cp.square(mean) if loss.squared else mean


def _logistic(E: Any, own: Any, loss: ScoreLoss) -> Any:
    import cvxpy as cp

    return cp.sum(cp.multiply(1 - own, cp.logistic(E - (1 - own))), axis=1)


def _softmax(E: Any, own: Any, loss: ScoreLoss) -> Any:
    import cvxpy as cp

    return cp.log_sum_exp(E - (1 - own), axis=1)


_COSTS = np.abs(np.subtract.outer(range(5), range(5))) ** 1.5 / 2  # of ordered classes


def _both(kind: type[Any], **parameters: Any) -> tuple[ScoreLoss, ...]:
    return kind(**parameters), kind(squared=True, **parameters)


def _with_costs(kind: type[Any], **parameters: Any) -> tuple[ScoreLoss, ...]:
    return (*_both(kind, **parameters), *_both(kind, costs=_COSTS, **parameters))


def _family(torch_twins: Any, loss: Any, **options: Any) -> Any:
    given = {name: getattr(loss, name) for name in ("k", "own_share", "costs") if hasattr(loss, name)}
    return torch_twins.MarginLoss(loss.key, squared=loss.squared, **given, **options)


CASES: dict[str, LossCase] = {
    "crammer_singer": LossCase(_with_costs(LOSSES["crammer_singer"]), _most_violated, _family),
    "weston_watkins": LossCase(_with_costs(LOSSES["weston_watkins"]), _all, _family),
    "top_k": LossCase(
        (*(TopKHinge(k) for k in range(1, 6)), *_with_costs(TopKHinge, k=3)[1:]), _mean_of_largest, _family
    ),
    "top_k_sum": LossCase(
        (*(TopKSumHinge(k) for k in range(1, 6)), *_with_costs(TopKSumHinge, k=3)[1:]),
        partial(_mean_of_largest, nonneg=True),
        _family,
    ),
    "lee_lin_wahba": LossCase(_both(LOSSES["lee_lin_wahba"]), _all, _family),
    "margin_regression": LossCase(_both(LOSSES["margin_regression"]), _all, _family),
    "absolute_max": LossCase(_both(LOSSES["absolute_max"]), _most_violated, _family),
    "total_max": LossCase(_both(LOSSES["total_max"]), _most_violated, _family),
    "total_sum": LossCase(_both(LOSSES["total_sum"]), _all, _family),
    "reinforced": LossCase(
        (*_both(ReinforcedHinge), ReinforcedHinge(0.0), ReinforcedHinge(0.9), ReinforcedHinge(1.0, squared=True)),
        _reinforced,
        _family,
    ),
    "one_vs_rest": LossCase(_both(LOSSES["one_vs_rest"]), _all, _family),
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


def called(loss: Any) -> str:
    parameters = [f"{getattr(loss, name):g}" for name in ("k", "own_share") if hasattr(loss, name)]
    costs = ["costs"] if getattr(loss, "costs", None) is not None else []
    return "-".join([loss.name.replace(" ", "_"), *parameters, *costs])


def violations_in_cvxpy(S: Any, own: Any, loss: Any) -> Any:
    """``delta_j - <D_j, s>`` of CVXPY scores S, written a second time: 0 where the loss has no margin."""
    import cvxpy as cp

    c = own.shape[1]
    margins = TO_RIVALS if loss.domain is None else loss.domain.margins
    targets = own @ loss.targets(c)
    if margins.relative:
        return cp.multiply(1 - own, targets + S - cp.sum(cp.multiply(own, S), axis=1, keepdims=True) @ np.ones((1, c)))
    return cp.multiply(margins.own * own, targets - S) + cp.multiply(margins.rivals * (1 - own), targets + S)


class Optimum(NamedTuple):
    value: float
    W: Any
    b: Any


def optimum_of(
    name: str,
    problem: Any,
    penalty: Callable[[Any, Any], Any],
    offsets: bool = True,
    vectors_sum_to_zero: bool | None = None,
) -> Optimum:
    """The minimum of ``sum_i u_i loss_i + penalty(W, b)`` by CVXPY; without `offsets` b is 0.

    Offsets add up to zero if the loss asks for it, and so do the class vectors, unless something else is said.
    """
    import cvxpy as cp

    n, c = problem.n_rows, problem.n_classes
    W, b, own = cp.Variable((problem.n_features, c)), cp.Variable((1, c)), np.eye(c)[problem.y]
    violations = violations_in_cvxpy(problem.X @ W + np.ones((n, 1)) @ b, own, problem.loss)
    F = problem.cost @ CASES[name].in_cvxpy(violations, own, problem.loss) + penalty(W, b)
    constraints = [] if offsets else [b == 0]
    if problem.loss.sums_to_zero:
        constraints.append(cp.sum(b) == 0)
    if problem.loss.sums_to_zero if vectors_sum_to_zero is None else vectors_sum_to_zero:
        constraints.append(cp.sum(W, axis=1) == 0)
    value = cp.Problem(cp.Minimize(F), constraints).solve(solver=cp.CLARABEL)
    return Optimum(float(value), W.value, b.value[0])
