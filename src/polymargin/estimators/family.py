"""What `MarginSVC` is made of: losses and penalties by name, each with its own parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from polymargin import validation
from polymargin.losses import LOSSES, ScoreLoss
from polymargin.penalties import (
    AtSumZero,
    BlockNorm,
    CoupledNorm,
    ElasticNet,
    GroupNorm,
    PairwiseDistances,
    Penalty,
    SquaredNorm,
)
from polymargin.penalties.angular import REGULARIZERS, AnglePenalty
from polymargin.penalties.pairs.scales import SCALES

Check = Callable[[str, Any], Any]

SEES_DIFFERENCES = (
    "penalty='pairwise' is not valid with loss='one_vs_rest': it sees differences of class vectors, and that loss is of the "
    "scores themselves; use loss='total_sum', whose class vectors add up to zero."
)
SOLVED_BY_ASCENT_ONLY = (
    "loss='top_k' with k >= 3 takes the penalties 'l2', 'coupled' and 'lp' only: its duals lie in a cone, for which "
    "Newton's method is not made; loss='top_k_sum', the mean of the k largest hinges, takes every penalty."
)


class Kind(NamedTuple):
    """A loss or penalty: how it is made, and its own parameters with their defaults."""

    make: Callable[..., Any]
    parameters: dict[str, Any]


_MARGIN_LOSSES = {key: cls for key, cls in LOSSES.items() if hasattr(cls, "title")}
_LOSS_PARAMETERS: dict[str, dict[str, Any]] = {"top_k": {"k": 2}, "top_k_sum": {"k": 2}, "reinforced": {"own_share": 0.5}}

LOSS_KINDS = {key: Kind(cls, _LOSS_PARAMETERS.get(key, {})) for key, cls in _MARGIN_LOSSES.items()}
PENALTY_KINDS = {
    "l2": Kind(SquaredNorm, {}),
    "lp": Kind(BlockNorm, {"p": 1.5}),
    "pairwise": Kind(PairwiseDistances, {"p": 4.0, "scale": "norm", "epsilon": 1e-7}),
    "coupled": Kind(CoupledNorm, {"alpha": 0.5}),
    "elastic_net": Kind(ElasticNet, {"l1": 0.1}),
    "group": Kind(GroupNorm, {"l1": 0.1}),
    **{kind: Kind(partial(AnglePenalty, regularizer=kind), {"omega": 1.0}) for kind in REGULARIZERS},
}


def _fraction(name: str, value: Any) -> None:
    if not 0.0 <= validation.number(name, value) <= 1.0:
        raise ValueError(f"{name}={value!r} is not valid: {name} must lie between 0 and 1 (the weight of the own margin).")


def _coupling(name: str, value: Any) -> None:
    if not -1.0 < validation.number(name, value) < 1.0:
        raise ValueError(f"{name}={value!r} is not valid: it must lie between -1/(classes - 1) and 1, or R is not convex.")


CHECKS: dict[str, Check] = {
    "k": lambda name, value: validation.whole(name, value, 1, "classes that count in a row, for example 2 or 5"),
    "own_share": _fraction,
    "scale": lambda name, value: validation.one_of(name, value, tuple(SCALES)),
    "epsilon": lambda name, value: validation.positive(name, value, "it picks one solution, for example 1e-7"),
    "alpha": _coupling,
    "omega": lambda name, value: validation.not_negative(name, value, "weight of the angles, try 0.1, 1 or 10"),
    "l1": lambda name, value: validation.not_negative(name, value, "weight of the norm that makes zeros, try 0.1"),
}


def check_p(penalty: str, p: Any) -> None:
    """The powers that a penalty takes."""
    value = validation.number("p", p)
    if penalty == "lp" and not 1.0 < value <= 2.0:
        raise ValueError(f"p={p!r} is not valid: penalty='lp' takes 1 < p <= 2; with p = 2 it is penalty='l2'.")
    if penalty == "pairwise" and not 2.0 <= value <= 100.0:
        raise ValueError(
            f"p={p!r} is not valid: penalty='pairwise' takes 2 <= p <= 100 here, where it is smooth; M3SVC takes p from 1 "
            "to infinity."
        )


def chosen(kinds: dict[str, Kind], what: str, choice: Any, base: type) -> Kind | None:
    """The kind that a name says; None for an object, which says everything itself."""
    if isinstance(choice, base):
        return None
    if not isinstance(choice, str) or choice not in kinds:
        names = ", ".join(map(repr, kinds))
        raise ValueError(f"{what}={choice!r} is not valid: use {names}, or an object of a subclass of {base.__name__}.")
    return kinds[choice]


def made(kind: Kind | None, choice: Any, given: dict[str, Any], **more: Any) -> Any:
    """The loss or penalty of a kind, from what was given and its defaults; an object as it is."""
    if kind is None:
        return choice
    own = {name: default if given[name] is None else given[name] for name, default in kind.parameters.items()}
    return kind.make(**own, **more)


def penalty_for(loss: ScoreLoss, penalty: Penalty) -> Penalty:
    """The penalty under the constraint that the loss brings."""
    return AtSumZero(penalty) if loss.sums_to_zero else penalty


class Product(NamedTuple):
    """A loss with a penalty: who solves it, and why it is refused, or what of it."""

    loss: str
    penalty: str
    method: str  # "" if all of it is refused
    refused: str = ""
    proof: str = "certified"  # or "stationary": the objective is not convex


def machines() -> tuple[Product, ...]:
    """All products of `MarginSVC`, squared or not: by which method each is solved, to which proof, or why not.

    Examples
    --------
    >>> import polymargin
    >>> table = polymargin.machines()
    >>> {product.method for product in table if product.penalty == "l2"}
    {'dual ascent'}
    >>> [(product.loss, product.penalty) for product in table if not product.method]
    [('one_vs_rest', 'pairwise')]
    """
    return tuple(_product(loss, penalty) for loss in LOSS_KINDS for penalty in PENALTY_KINDS)


def _product(loss: str, penalty: str) -> Product:
    if loss == "one_vs_rest" and penalty == "pairwise":
        return Product(loss, penalty, "", SEES_DIFFERENCES)
    refused = SOLVED_BY_ASCENT_ONLY if loss == "top_k" else ""
    if penalty in REGULARIZERS:
        return Product(loss, penalty, "machine without angles, descent by convex models", refused, "stationary")
    if penalty in ("elastic_net", "group") and not LOSS_KINDS[loss].make().sums_to_zero:
        return Product(loss, penalty, "proximal dual ascent", refused)
    if penalty in ("l2", "coupled") or (penalty == "lp" and not LOSS_KINDS[loss].make().sums_to_zero):
        return Product(loss, penalty, "dual ascent")
    if penalty == "pairwise" and loss == "weston_watkins":
        return Product(loss, penalty, "dual ascent with weights of pairs")
    return Product(loss, penalty, "Newton's method on the unknowns", refused)
