"""ISM3: the cross-entropy, or its pairwise relative, with a regulariser for a large minimum margin between classes."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from polymargin.torch import _tools
from polymargin.torch.losses import ScoreLoss, leads, of_others
from polymargin.torch.regularizers import PairwiseMarginRegularizer


class ISM3Loss(ScoreLoss):
    """Cross-entropy (or pairwise logistic loss) of the scores plus a pairwise margin regulariser on the last layer.

    .. math:: \\frac1n \\sum_i \\ell(s_i, y_i) + \\lambda \\Big( \\sum_{k<l} \\|w_k - w_l\\|^p
              + \\epsilon (\\|W\\|^2 + \\|b\\|^2) \\Big)

    The margin between the classes k and l is ``2 / |w_k - w_l|``. A large p makes the smallest of them count most. Put it
    where :class:`torch.nn.CrossEntropyLoss` was: for ``lam=0`` it is that.

    Parameters
    ----------
    layer : nn.Linear
        The layer that makes the scores. It stays a part of the network: its parameters are not the loss's own.
    loss : {"softmax", "logistic"}, default="softmax"
        "softmax" is the cross-entropy, which the authors' released code uses; "logistic" is the loss of their Eq. 32,
        ``sum_{k != y} log(1 + exp(-(s_y - s_k)))``, which is larger.
    lam : float, default=1e-3
        Weight of the regulariser, beside the loss as reduced: beside the mean by default. The paper's Eq. 32 has it beside
        the sum over all n rows, its released program beside the mean; a lambda of the equation is ``lam = lambda / n`` here.
        1e-3 is the paper's advice, and it does not say on which of the two scales.
    p, epsilon, norm
        Of :class:`PairwiseMarginRegularizer`, in its scale "power".
    label_smoothing : float, default=0.0
        Share of the target that is spread evenly over all classes, as in :class:`torch.nn.CrossEntropyLoss`.
    weight, ignore_index
        Of the other losses: class weights, and the target of rows that do not count.
    reduction : {"mean", "sum"}, default="mean"
        Of the rows' losses. The regulariser is added once.

    References
    ----------
    F. Nie, Z. Hao and R. Wang. Multi-class support vector machine with maximizing minimum margin. AAAI 2024, Eq. 32.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import ISM3Loss
    >>> head = torch.nn.Linear(8, 3)
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), head)
    >>> criterion = ISM3Loss(head, p=4, lam=1e-3)
    >>> criterion(network(torch.ones(5, 4)), torch.tensor([0, 1, 2, 0, 1])).backward()
    >>> bool(head.weight.grad.isfinite().all())
    True
    """

    def __init__(
        self,
        layer: nn.Module,
        *,
        loss: str = "softmax",
        lam: float = 1e-3,
        p: float = 4.0,
        epsilon: float = 1e-7,
        norm: str = "l2",
        label_smoothing: float = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        if reduction == "none":
            raise ValueError(
                "reduction='none' is not valid for ISM3Loss: its regulariser belongs to no row. Use 'mean' or 'sum', or "
                "nn.CrossEntropyLoss(reduction='none') and PairwiseMarginRegularizer side by side."
            )
        _tools.weight_and_bias(layer, "ISM3Loss")
        self._layer = (layer,)  # in a tuple, or nn.Module would make the network's parameters ours
        self.loss = _tools.one_of("loss", loss, ("softmax", "logistic"))
        self.lam = _tools.number("lam", lam, low=0.0, open_high=True)
        self.label_smoothing = _tools.number("label_smoothing", label_smoothing, low=0.0, high=1.0)
        self.regularizer = PairwiseMarginRegularizer(p, epsilon=epsilon, norm=norm, scale="power")

    @property
    def layer(self) -> nn.Module:
        """The layer whose class vectors are kept apart."""
        return self._layer[0]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the rows, reduced, plus `lam` times the regulariser at the layer as it is now."""
        value = super().forward(input, target)
        return value + self.lam * self.regularizer(self.layer) if self.lam else value

    def rows(self, scores: Tensor, target: Tensor) -> Tensor:
        if self.loss == "softmax":
            return functional.cross_entropy(scores, target, reduction="none")
        return of_others(functional.softplus(-leads(scores, target)), target)

    def _weighted(self, scores: Tensor, classes: Tensor, kept: Tensor, weights: Tensor) -> Tensor:
        losses = super()._weighted(scores, classes, kept, weights)
        if not self.label_smoothing:
            return losses
        of_classes = self._of_each_class(scores)
        if self.weight is not None:
            of_classes = of_classes * self.weight.to(scores.dtype)
        return (1.0 - self.label_smoothing) * losses + self.label_smoothing * kept * of_classes.mean(dim=1)

    def _of_each_class(self, scores: Tensor) -> Tensor:
        """The losses ``(n, c)`` that each row would have in each class."""
        if self.loss == "softmax":
            return -functional.log_softmax(scores, dim=1)
        pairs = functional.softplus(scores[:, None, :] - scores[:, :, None])  # of (row, class, rival)
        return pairs.sum(dim=2) - functional.softplus(scores.new_zeros(()))  # a class is no rival of itself

    def extra_repr(self) -> str:
        return f"loss={self.loss!r}, lam={self.lam:g}, label_smoothing={self.label_smoothing:g}, {super().extra_repr()}"
