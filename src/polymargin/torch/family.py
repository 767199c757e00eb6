"""Losses of margins: any of :mod:`polymargin.losses` that a domain of duals describes, and the classical ones by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from polymargin.losses import LOSSES
from polymargin.losses import MarginLoss as Declared
from polymargin.torch import _tools
from polymargin.torch.losses import PARAMETERS, ScoreLoss


class MarginLoss(ScoreLoss):
    __doc__ = f"""A loss of margins by name, as in ``MarginSVC(loss=name)``.

    Relative margins ``s_y - s_l``: "crammer_singer" (the closest rival counts), "weston_watkins" (all of them), "top_k" and
    "top_k_sum" (the k closest). Absolute ones, ``s_y`` and ``-s_l``: "one_vs_rest", "lee_lin_wahba", "margin_regression",
    "absolute_max", "total_max", "total_sum", "reinforced"; all but the first are meant for scores that add up to zero.

    Parameters
    ----------
    loss : str
    squared : bool, default=False
        The square of a maximum, or the sum of the squares.
    k : int, optional
        Of "top_k" and "top_k_sum": how many rivals count, at most as many as there are classes.
    own_share : float, optional
        Of "reinforced": the share of the own margin, from 0 to 1.
    costs : array of shape (c, c), optional
        Of relative margins: what ``s_y - s_l`` should reach, 1 for every pair by default. Rows are the true classes.
    {PARAMETERS}
    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import MarginLoss
    >>> scores = torch.tensor([[2.0, 0.5, -2.5], [1.0, 1.5, -2.5]])
    >>> MarginLoss("lee_lin_wahba", reduction="none")(scores, torch.tensor([0, 1]))
    tensor([1.5000, 2.0000])
    """

    def __init__(
        self,
        loss: str,
        *,
        squared: bool = False,
        k: int | None = None,
        own_share: float | None = None,
        costs: Any = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        known = {key: cls for key, cls in LOSSES.items() if issubclass(cls, Declared)}
        self.loss = _tools.one_of("loss", loss, tuple(known))
        given: dict[str, Any] = {"squared": bool(squared)}
        if k is not None:
            given["k"] = _whole("k", k)
        if own_share is not None:
            given["own_share"] = _tools.number("own_share", own_share, low=0.0, high=1.0)
        if costs is not None:
            given["costs"] = torch.as_tensor(costs, dtype=torch.float64).numpy(force=True)
        try:
            self._declared = known[loss](**given)
        except TypeError:
            unknown = ", ".join(name for name in given if name != "squared")
            raise ValueError(f"loss={loss!r} does not take all of {unknown}: see the parameters of MarginLoss.") from None

    def rows(self, scores: Tensor, target: Tensor) -> Tensor:
        domain, c = self._declared.domain, scores.shape[1]
        k = getattr(domain, "k", None)
        if k is not None and k > c:
            raise ValueError(f"k={k} is not valid: there are {c} classes.")
        targets = torch.as_tensor(np.ascontiguousarray(self._declared.targets(c)), dtype=scores.dtype, device=scores.device)
        if len(targets) != c:
            raise ValueError(f"costs has shape {tuple(targets.shape)} for {c} classes.")
        own = torch.zeros_like(scores, dtype=torch.bool).scatter(1, target[:, None], True)
        violations = self._violations(scores, target, targets[target], own)
        return _AGGREGATES[domain.name](violations, own, domain, self._declared.squared)

    def _violations(self, scores: Tensor, target: Tensor, targets: Tensor, own: Tensor) -> Tensor:
        """``delta_j - <D_j, s>``, 0 where there is no margin."""
        margins = self._declared.domain.margins
        score = scores.gather(1, target[:, None])
        of_rivals = targets + (scores - score if margins.relative else scores)
        of_own = targets - score if margins.own else torch.zeros_like(scores)
        return torch.where(own, of_own, of_rivals if margins.rivals else 0.0)

    def extra_repr(self) -> str:
        given = {name: value for name in ("k", "own_share") if (value := getattr(self._declared, name, None)) is not None}
        parameters = "".join(f", {name}={value:g}" for name, value in given.items())
        return f"{self.loss!r}, squared={self._declared.squared}{parameters}, {super().extra_repr()}"


def _whole(name: str, value: Any) -> int:
    if _tools.number(name, value, low=1.0) != int(value):
        raise ValueError(f"{name}={value!r} is not valid: it must be a whole number.")
    return int(value)


def _most(violations: Tensor, own: Tensor, domain: Any, squared: bool) -> Tensor:
    return _squared(torch.relu(violations.max(dim=1).values), squared)


def _sum(violations: Tensor, own: Tensor, domain: Any, squared: bool) -> Tensor:
    parts = _squared(torch.relu(violations), squared)
    return torch.where(own, domain.own_weight * parts, domain.rival_weight * parts).sum(dim=1)


def _mean_of_largest(violations: Tensor, own: Tensor, domain: Any, squared: bool) -> Tensor:
    return _squared(torch.relu(violations.topk(domain.k, dim=1).values.mean(dim=1)), squared)


def _mean_of_largest_positive(violations: Tensor, own: Tensor, domain: Any, squared: bool) -> Tensor:
    return _squared(torch.relu(violations).topk(domain.k, dim=1).values.mean(dim=1), squared)


def _squared(values: Tensor, squared: bool) -> Tensor:
    return values**2 if squared else values


_AGGREGATES = {
    "box": _sum,
    "capped_simplex": _mean_of_largest_positive,
    "simplex": _most,
    "top_k": _mean_of_largest,
}


class CrammerSingerLoss(MarginLoss):
    __doc__ = f"""``[1 - (s_y - max_{{k != y}} s_k)]_+`` (Crammer & Singer 2001): each row pays for its closest rival class.

    Parameters
    ----------
    squared : bool, default=False
        The square of the hinge, as in ``LpNormSVC(loss="squared_hinge")``.
    {PARAMETERS}
    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import CrammerSingerLoss
    >>> scores = torch.tensor([[2.0, 0.5, 0.0], [1.0, 1.5, 0.0]])
    >>> CrammerSingerLoss(reduction="none")(scores, torch.tensor([0, 1]))
    tensor([0.0000, 0.5000])
    """

    def __init__(
        self, *, squared: bool = False, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__("crammer_singer", squared=squared, weight=weight, ignore_index=ignore_index, reduction=reduction)


class WestonWatkinsLoss(MarginLoss):
    __doc__ = f"""``sum_{{k != y}} [1 - (s_y - s_k)]_+`` (Weston & Watkins 1999): each row pays for all rivals in the margin.

    :class:`torch.nn.MultiMarginLoss` is this divided by the number of classes.

    Parameters
    ----------
    {PARAMETERS}
    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import WestonWatkinsLoss
    >>> scores = torch.tensor([[1.0, 0.5, 0.5], [1.0, 3.0, 0.0]])
    >>> WestonWatkinsLoss(reduction="none")(scores, torch.tensor([0, 1]))
    tensor([1., 0.])
    """

    def __init__(self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__("weston_watkins", weight=weight, ignore_index=ignore_index, reduction=reduction)


class TopKLoss(MarginLoss):
    __doc__ = f"""``[mean of the k largest of m]_+``, ``m_l = 1[l != y] + s_l - s_y``: the k closest classes count.

    The own class, with ``m_y = 0``, may be one of them: the alpha form of Lapin, Hein & Schiele (2015). For k = 1 this is
    :class:`CrammerSingerLoss`.

    Parameters
    ----------
    k : int, default=2
        How many classes count, at most as many as there are.
    {PARAMETERS}
    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import TopKLoss
    >>> scores = torch.tensor([[2.0, 0.5, 0.0], [1.0, 1.5, 0.0]])
    >>> TopKLoss(k=2, reduction="none")(scores, torch.tensor([0, 1]))
    tensor([0.0000, 0.2500])
    """

    def __init__(
        self, *, k: int = 2, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__("top_k", k=k, weight=weight, ignore_index=ignore_index, reduction=reduction)
