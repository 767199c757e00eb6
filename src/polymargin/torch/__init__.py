"""The losses and penalties of the machines as PyTorch modules, for the last layer of a network.

Losses take scores and targets as :class:`torch.nn.CrossEntropyLoss` does, regularisers take the last layer (or its weight):

    loss = CrammerSingerLoss()(network(x), y) + 1e-3 * PairwiseMarginRegularizer(p=4)(network.head)

They have the values and gradients of the NumPy classes in :mod:`polymargin.losses` and :mod:`polymargin.penalties`. A layer
keeps its class vectors in rows: ``layer.weight`` is ``W.T`` of the machines, and the same as ``class_vectors_``.

Half-precision scores and weights are taken to float32 first, also under autocast. No gradient is NaN where vectors coincide:
what has no derivative there gets the subgradient 0.

PyTorch is needed here and nowhere else in the package: ``pip install "polymargin[torch]"``.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'polymargin.torch needs PyTorch, which is not installed: pip install "polymargin[torch]"', name="torch"
    ) from error

from polymargin.torch.conversion import to_torch
from polymargin.torch.family import CrammerSingerLoss, MarginLoss, TopKLoss, WestonWatkinsLoss
from polymargin.torch.losses import M3HingeLoss, MarginDistributionLoss
from polymargin.torch.one_vs_none import OneVsNoneLoss
from polymargin.torch.regularizers import (
    AngularRegularizer,
    CoupledNormRegularizer,
    LpNormRegularizer,
    PairwiseMarginRegularizer,
    SparseRegularizer,
)
from polymargin.torch.softmax import ISM3Loss

__all__ = [
    "AngularRegularizer",
    "CoupledNormRegularizer",
    "CrammerSingerLoss",
    "ISM3Loss",
    "LpNormRegularizer",
    "M3HingeLoss",
    "MarginDistributionLoss",
    "MarginLoss",
    "OneVsNoneLoss",
    "PairwiseMarginRegularizer",
    "SparseRegularizer",
    "TopKLoss",
    "WestonWatkinsLoss",
    "to_torch",
]
