"""The loss of One versus None: a class pays for its own rows only. For one class a row and for label matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from polymargin.torch import _tools
from polymargin.torch.losses import ScoreLoss


class OneVsNoneLoss(ScoreLoss):
    """``sum_k [1 - t_k s_k]_+`` over the known labels of a row: ``t = 1`` for its own, -1 for those known to be absent.

    Nothing here keeps the classes apart, and large scores for all cost nothing: use it with
    :class:`CoupledNormRegularizer`.

    Parameters
    ----------
    weight : Tensor of shape (c,), optional
        A weight for each class.
    ignore_index : int, default=-100
        Of classes ``(n,)``: rows that do not count. In a label matrix 0 has this role.
    reduction : {"mean", "sum", "none"}, default="mean"
        "mean" divides by the total weight of the known labels, and is 0 if there are none; "none" has the target's shape.

    Notes
    -----
    The target is classes ``(n,)`` as for the other losses, or a label matrix of the shape of the scores ``(n, c)`` with 1
    for "has the label", 0 for "unknown" and -1 for "known not to have it".

    References
    ----------
    H. Shajari and A. Rangarajan. A unified framework for multiclass and multilabel support vector machines. 2020.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import OneVsNoneLoss
    >>> scores = torch.tensor([[0.5, 2.0, -1.0], [0.0, 0.0, 0.5]])
    >>> labels = torch.tensor([[1, 1, 0], [0, 0, -1]])
    >>> OneVsNoneLoss(reduction="none")(scores, labels)
    tensor([[0.5000, 0.0000, 0.0000],
            [0.0000, 0.0000, 1.5000]])
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of scores ``(n, c)`` with classes ``(n,)`` or a label matrix ``(n, c)``."""
        if input.shape != target.shape:
            return super().forward(input, target)
        scores = _tools.in_full(input, "input")
        if self.weight is not None and (scores.ndim == 0 or len(self.weight) != scores.shape[-1]):
            raise ValueError(f"weight has {len(self.weight)} numbers for scores of shape {tuple(scores.shape)}.")
        signs = target.to(scores.dtype)
        if _tools.may_look_at(signs) and not bool((signs * (1.0 - signs * signs) == 0.0).all()):
            raise ValueError(
                "target has the shape of the scores, so it is a label matrix; its entries must be 1, 0 (unknown) or -1."
            )
        weights = signs.abs() if self.weight is None else signs.abs() * self.weight.to(scores.dtype)
        scores = torch.where(signs == 0.0, 0.0, scores)
        return self._reduced(weights * torch.relu(1.0 - signs * scores), weights, target.shape)

    def rows(self, scores: Tensor, target: Tensor) -> Tensor:
        return torch.relu(1.0 - scores.gather(1, target[:, None])[:, 0])
