"""Losses of rows of scores, with the arguments of :class:`torch.nn.CrossEntropyLoss`."""

from __future__ import annotations

import abc

import torch
from torch import Tensor, nn

from polymargin.torch import _tools

PARAMETERS = """weight : Tensor of shape (c,), optional
        A weight for each class: a row counts with that of its own class.
    ignore_index : int, default=-100
        Rows with this target count for nothing, whatever their scores.
    reduction : {"mean", "sum", "none"}, default="mean"
        "mean" divides by the total weight of the rows that count, and is 0 if there are none. C times the "sum", plus the
        machine's penalty, is the machine's objective.
"""


class ScoreLoss(nn.Module, abc.ABC):
    """A loss of each row's scores and class. A subclass says what one row costs."""

    def __init__(self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        if weight is not None and not (weight.ndim == 1 and weight.is_floating_point() and bool((weight >= 0.0).all())):
            raise ValueError("weight must be a tensor of one number of at least 0 for each class.")
        self.weight: Tensor | None
        self.register_buffer("weight", weight)
        self.ignore_index = int(ignore_index)
        self.reduction = _tools.one_of("reduction", reduction, ("mean", "sum", "none"))

    @abc.abstractmethod
    def rows(self, scores: Tensor, target: Tensor) -> Tensor:
        """Loss of each row ``(n,)`` of scores ``(n, c)``, before class weights."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Of scores ``(n, c)`` with classes ``(n,)``, or ``(n, c, ...)`` with ``(n, ...)``, or ``(c,)`` with one class."""
        scores, classes = self._flat(input, target)
        kept = classes != self.ignore_index
        classes = torch.where(kept, classes, 0)
        if _tools.may_look_at(classes):
            _check_classes(classes, scores.shape[1], self.ignore_index)
        scores = torch.where(kept[:, None], scores, 0.0)  # not even NaN in an ignored row is passed on
        weights = kept.to(scores.dtype) if self.weight is None else kept * self.weight.to(scores.dtype)[classes]
        with _tools.without_autocast(scores):
            losses = self._weighted(scores, classes, kept, weights)
        return self._reduced(losses, weights, target.shape)

    def _weighted(self, scores: Tensor, classes: Tensor, kept: Tensor, weights: Tensor) -> Tensor:
        return weights * self.rows(scores, classes)

    def _reduced(self, losses: Tensor, weights: Tensor, shape: torch.Size) -> Tensor:
        if self.reduction == "none":
            return losses.reshape(shape)
        if self.reduction == "sum":
            return losses.sum()
        total = weights.sum()
        return losses.sum() / torch.where(total > 0.0, total, 1.0)

    def _flat(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Scores ``(n, c)`` in full precision and classes ``(n,)``."""
        axis = min(1, input.ndim - 1)
        if input.ndim == 0 or (*input.shape[:axis], *input.shape[axis + 1 :]) != tuple(target.shape):
            raise ValueError(
                f"input has shape {tuple(input.shape)} and target {tuple(target.shape)}; scores of shape (n, c) belong to "
                "classes of shape (n,), scores (n, c, ...) to classes (n, ...)."
            )
        if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
            raise TypeError(f"target has dtype {target.dtype}; classes are integers from 0 to c - 1.")
        c = input.shape[axis]
        if c < 2:
            raise ValueError(f"input has shape {tuple(input.shape)}: {c} class; a margin needs at least two.")
        if self.weight is not None and len(self.weight) != c:
            raise ValueError(f"weight has {len(self.weight)} numbers for {c} classes.")
        scores = _tools.in_full(input, "input").movedim(axis, -1).reshape(-1, c)
        return scores, target.reshape(-1).long()

    def extra_repr(self) -> str:
        ignored = "" if self.ignore_index == -100 else f", ignore_index={self.ignore_index}"
        return f"reduction={self.reduction!r}{ignored}"


def _check_classes(classes: Tensor, c: int, ignore_index: int) -> None:
    wrong = classes[(classes < 0) | (classes >= c)]
    if len(wrong):
        raise ValueError(
            f"target has the class {int(wrong[0])}; with {c} scores a row classes go from 0 to {c - 1} "
            f"(and {ignore_index} for rows to ignore)."
        )


def margins(scores: Tensor, classes: Tensor) -> Tensor:
    """``s_y - max_{k != y} s_k`` of each row."""
    own = scores.gather(1, classes[:, None])
    rivals = scores.scatter(1, classes[:, None], -torch.inf)
    return own[:, 0] - rivals.max(dim=1).values


def leads(scores: Tensor, classes: Tensor) -> Tensor:
    """``s_y - s_k`` of each row and class; see `of_others` for k = y."""
    return scores.gather(1, classes[:, None]) - scores


def of_others(values: Tensor, classes: Tensor) -> Tensor:
    """The sum over the classes k != y of each row."""
    return values.scatter(1, classes[:, None], 0.0).sum(dim=1)


class M3HingeLoss(ScoreLoss):
    __doc__ = f"""``sum_{{k != y}} g(1 - (s_y - s_k))``, the smooth hinge ``g(x) = (x + sqrt(x^2 + delta^2)) / 2`` of M3SVM.

    It is at most ``delta / 2`` above the hinge, and has a second derivative. With :class:`PairwiseMarginRegularizer` it
    makes the objective of `M3SVC`; lower `delta`, an attribute, during the training to come closer to the exact hinge.

    Parameters
    ----------
    delta : float, default=0.01
        Width of the rounded kink. 0 is the hinge itself, the loss of :class:`WestonWatkinsLoss`.
    {PARAMETERS}
    References
    ----------
    F. Nie, Z. Hao and R. Wang. Multi-class support vector machine with maximizing minimum margin. AAAI 2024, Eq. 14.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import M3HingeLoss
    >>> print(M3HingeLoss(delta=0.1)(torch.tensor([[1.0, 0.0]]), torch.tensor([0])))
    tensor(0.0500)
    """

    def __init__(
        self, *, delta: float = 0.01, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.delta = _tools.number("delta", delta, low=0.0, open_high=True)

    def rows(self, scores: Tensor, target: Tensor) -> Tensor:
        x = 1.0 - leads(scores, target)
        return of_others(_smooth_hinge(x, self.delta) if self.delta else torch.relu(x), target)

    def extra_repr(self) -> str:
        return f"delta={self.delta:g}, {super().extra_repr()}"


def _smooth_hinge(x: Tensor, delta: float) -> Tensor:
    """Far below 0 the sum ``x + sqrt(x^2 + delta^2)`` cancels: there it is written as a quotient."""
    root = torch.hypot(x, x.new_tensor(delta))
    return torch.where(x >= 0.0, 0.5 * (x + root), 0.5 * delta**2 / (root + x.abs()))


class MarginDistributionLoss(ScoreLoss):
    __doc__ = f"""``([1 - theta - m]_+^2 + mu [m - 1 - theta]_+^2) / (1 - theta)^2``, ``m = s_y - max_{{k != y}} s_k``.

    Margins m should lie near 1: those below ``1 - theta`` cost, and those above ``1 + theta`` cost `mu` times as much. Not
    convex in the scores.

    Parameters
    ----------
    theta : float, default=0.2
        Half width of the band of margins that cost nothing, ``0 <= theta < 1``.
    mu : float, default=0.5
        Weight of the margins above the band, ``0 < mu <= 1``.
    {PARAMETERS}
    References
    ----------
    T. Zhang and Z.-H. Zhou. Multi-class optimal margin distribution machine. ICML 2017.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import MarginDistributionLoss
    >>> scores = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    >>> MarginDistributionLoss(theta=0.0, reduction="none")(scores, torch.tensor([0, 0]))
    tensor([0., 2.])
    """

    def __init__(
        self,
        *,
        theta: float = 0.2,
        mu: float = 0.5,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.theta = _tools.number("theta", theta, low=0.0, high=1.0, open_high=True)
        self.mu = _tools.number("mu", mu, low=0.0, high=1.0, open_low=True)

    def rows(self, scores: Tensor, target: Tensor) -> Tensor:
        m = margins(scores, target)
        below, above = torch.relu(1.0 - self.theta - m), torch.relu(m - 1.0 - self.theta)
        return (below**2 + self.mu * above**2) / (1.0 - self.theta) ** 2

    def extra_repr(self) -> str:
        return f"theta={self.theta:g}, mu={self.mu:g}, {super().extra_repr()}"
