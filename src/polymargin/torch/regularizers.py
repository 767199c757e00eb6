"""Penalties on the class vectors of a last layer: R of the machines.

Each is a module without parameters that takes an ``nn.Linear``, or its weight ``(c, d)``, and returns a number.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polymargin.torch import _tools

_ENTRIES = 1 << 22  # of differences w_k - w_l that autograd may keep; more are computed again on the way back


class Regularizer(nn.Module):
    """A function of class vectors, and perhaps of offsets."""

    def forward(self, layer: nn.Module | Tensor) -> Tensor:
        """R of a layer or of its weight alone."""
        W, b = _tools.weight_and_bias(layer, type(self).__name__)
        with _tools.without_autocast(W):
            value = self.of_vectors(W)
            return value if b is None else value + self.of_offsets(b)

    def of_vectors(self, W: Tensor) -> Tensor:
        """R of class vectors ``(c, d)``."""
        raise NotImplementedError

    def of_offsets(self, b: Tensor) -> Tensor:
        """What offsets add to it."""
        return b.new_zeros(())


class PairwiseMarginRegularizer(Regularizer):
    """``(c - 1)/4 (mean_{k<l} |w_k - w_l|^p)^(2/p) + epsilon (|W|^2 + |b|^2)``, the penalty of `M3SVC`.

    The margin between two classes is ``2 / |w_k - w_l|``: the larger p, the more the smallest of them counts.

    Parameters
    ----------
    p : float, default=4
        At least 1. ``math.inf`` stands for the largest squared distance in place of the mean or sum.
    epsilon : float, default=1e-7
        Weight of the ridge that picks one of all equally good solutions.
    norm : {"l2", "l1"}, default="l2"
        Norm of the differences; "l1" makes class vectors that differ in few features. For finite p.
    scale : {"norm", "power"}, default="norm"
        "norm" is the above; "power" is the paper's ``sum_{k<l} |w_k - w_l|^p`` in place of the norm.

    References
    ----------
    F. Nie, Z. Hao and R. Wang. Multi-class support vector machine with maximizing minimum margin. AAAI 2024.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import PairwiseMarginRegularizer
    >>> W = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> print(f"{PairwiseMarginRegularizer(p=4, epsilon=0, scale='power')(W):.4f}")
    8.0000
    """

    def __init__(self, p: float = 4.0, *, epsilon: float = 1e-7, norm: str = "l2", scale: str = "norm") -> None:
        super().__init__()
        self.p = _tools.number("p", p, low=1.0)
        self.epsilon = _tools.number("epsilon", epsilon, low=0.0, open_high=True)
        self.norm = _tools.one_of("norm", norm, ("l2", "l1"))
        self.scale = _tools.one_of("scale", scale, ("norm", "power"))
        if self.norm == "l1" and math.isinf(self.p):
            raise ValueError("norm='l1' needs a finite p; p=inf is the largest squared distance in the l2 norm.")

    def of_vectors(self, W: Tensor) -> Tensor:
        sizes, power = _differences(W, self.norm), self.p if self.norm == "l1" else self.p / 2
        if not len(sizes):
            spread = W.new_zeros(())
        elif math.isinf(self.p):
            spread = sizes.amax()
        elif self.scale == "power":
            spread = _tools.power(sizes, power).sum()
        else:
            spread = self._square_of_mean(sizes, power)
        factor = 0.25 * (len(W) - 1) if self.scale == "norm" else 1.0
        return factor * spread + self.epsilon * W.square().sum()

    def _square_of_mean(self, sizes: Tensor, power: float) -> Tensor:
        """``(mean r^p)^(2/p)``, in parts of the largest: high powers leave the range of floats."""
        top = sizes.detach().amax()
        top = torch.where(top > 0.0, top, 1.0)
        mean = _tools.power(sizes / top, power).mean()
        return top ** (2.0 * power / self.p) * _tools.power(mean, 2.0 / self.p)

    def of_offsets(self, b: Tensor) -> Tensor:
        return self.epsilon * b.square().sum()

    def extra_repr(self) -> str:
        return f"p={self.p:g}, epsilon={self.epsilon:g}, norm={self.norm!r}, scale={self.scale!r}"


def _differences(W: Tensor, norm: str) -> Tensor:
    """``|w_k - w_l|_1``, or ``|w_k - w_l|^2``, of all pairs k < l, from the differences themselves: no cancellation."""
    c = len(W)
    if c * W.numel() <= 2 * _ENTRIES:
        k, other = torch.triu_indices(c, c, 1, device=W.device)
        return _sizes(W[k], W[other], norm)
    parts = [checkpoint(_sizes, W[k : k + 1], W[k + 1 :], norm, use_reentrant=False) for k in range(c - 1)]
    return torch.cat(parts)


def _sizes(V: Tensor, W: Tensor, norm: str) -> Tensor:
    D = V - W
    return D.abs().sum(dim=1) if norm == "l1" else D.square().sum(dim=1)


class LpNormRegularizer(Regularizer):
    """``1/2 (sum_k |w_k|^p)^(2/p)``, the penalty of `LpNormSVC`; for p = 2 half the squared norm, as of `CrammerSingerSVC`.

    Parameters
    ----------
    p : float, default=1.5
        ``1 < p <= 2``. Below 2 it prefers few long class vectors.

    References
    ----------
    Y. Lei, U. Dogan, A. Binder and M. Kloft. Multi-class SVMs: from tighter data-dependent generalization bounds to novel
    algorithms. NIPS 2015.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import LpNormRegularizer
    >>> print(LpNormRegularizer(p=2)(torch.tensor([[3.0, 0.0], [0.0, 4.0]])))
    tensor(12.5000)
    """

    def __init__(self, p: float = 1.5) -> None:
        super().__init__()
        self.p = _tools.number("p", p, low=1.0, high=2.0, open_low=True)

    def of_vectors(self, W: Tensor) -> Tensor:
        powers = _tools.power(W.square().sum(dim=1), self.p / 2)
        return 0.5 * _tools.power(powers.sum(), 2.0 / self.p)

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


class SparseRegularizer(Regularizer):
    """``1/2 |W|^2 + l1 |W|_1``, or with groups ``1/2 |W|^2 + l1 sum_j |W_j|`` over the features j: sparse class vectors.

    Where an entry, or a feature, is exactly 0 its part of the norm has the subgradient 0.

    Parameters
    ----------
    l1 : float, default=0.1
        Weight of the norm, at least 0.
    groups : bool, default=False
        Whether a feature is in or out for all classes at once.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import SparseRegularizer
    >>> W = torch.tensor([[3.0, 0.0], [4.0, 0.0]])
    >>> print(SparseRegularizer(1.0)(W), SparseRegularizer(1.0, groups=True)(W))
    tensor(19.5000) tensor(17.5000)
    """

    def __init__(self, l1: float = 0.1, *, groups: bool = False) -> None:
        super().__init__()
        self.l1 = _tools.number("l1", l1, low=0.0, open_high=True)
        self.groups = bool(groups)

    def of_vectors(self, W: Tensor) -> Tensor:
        sizes = _tools.power(W.square().sum(dim=0), 0.5) if self.groups else W.abs()
        return 0.5 * W.square().sum() + self.l1 * sizes.sum()

    def extra_repr(self) -> str:
        return f"l1={self.l1:g}, groups={self.groups}"


class CoupledNormRegularizer(Regularizer):
    """``1/2 sum_k |w_k|^2 + alpha sum_{k<l} <w_k, w_l> + gamma_b (sum_k b_k)^2``, the penalty of `OneVsNoneSVC`.

    Parameters
    ----------
    alpha : float, default=0.5
        Weight of the inner products, ``-1/(c-1) < alpha < 1`` for c classes: then the penalty is convex.
    gamma_b : float, default=1.0
        Weight of the squared sum of the offsets, if there are any. It must grow with the rows if the loss is a sum.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import CoupledNormRegularizer
    >>> print(CoupledNormRegularizer(alpha=0.5)(torch.tensor([[1.0, 1.0], [1.0, -2.0]])))
    tensor(3.)
    """

    def __init__(self, alpha: float = 0.5, *, gamma_b: float = 1.0) -> None:
        super().__init__()
        self.alpha = _tools.number("alpha", alpha, low=-1.0, high=1.0, open_high=True)
        self.gamma_b = _tools.number("gamma_b", gamma_b, low=0.0, open_high=True)

    def of_vectors(self, W: Tensor) -> Tensor:
        if self.alpha * (len(W) - 1) <= -1.0:
            raise ValueError(
                f"alpha={self.alpha!r} is not valid for {len(W)} classes: it must be above -1/(c-1) = "
                f"{-1.0 / (len(W) - 1):g}, or the penalty is not convex, or does not see a common part of the class vectors."
            )
        return 0.5 * (1.0 - self.alpha) * W.square().sum() + 0.5 * self.alpha * W.sum(dim=0).square().sum()

    def of_offsets(self, b: Tensor) -> Tensor:
        return self.gamma_b * b.sum().square()

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, gamma_b={self.gamma_b:g}"


class AngularRegularizer(Regularizer):
    """``ridge/2 |W|^2 + (omega/2) A(W)``, the penalty of `AngularSVC`: A is small when class vectors are far apart in angle.

    With squared singular values s of W, at most r of them positive, and cosines t between class vectors, A is

    - "angular": ``log sum_j s_j - (1/r) sum_j log s_j``, least (log r) when all are equal;
    - "cosine": the mean of ``|t|`` over all pairs;
    - "incoherence": the root of the mean of ``t^2``;
    - "diversity": variance minus mean of the angles ``arccos |t|``.

    Parameters
    ----------
    omega : float, default=1.0
        Weight of A.
    regularizer : {"angular", "cosine", "incoherence", "diversity"}, default="angular"
    ridge : float, default=1.0
        Weight of half the squared norm; 0 leaves it to the optimiser's weight decay.
    rank : int, optional
        How many singular values can be positive; by default ``min(c, d)``. Features that lie in a subspace have fewer.
    floor : float, default=1e-3
        d > 0, well below the length of the vectors: ``s + d^2`` stands for s and ``|w|^2 + d^2`` for ``|w|^2``, so that A is
        finite, with finite gradients, where vectors coincide or vanish.

    References
    ----------
    J. Li, H. Zhou, P. Xie and Y. Zhang. Improving the generalization performance of multi-class SVM via angular
    regularization. IJCAI 2017: Eq. 9, and Section 5.2 for the other three.

    Examples
    --------
    >>> import torch
    >>> from polymargin.torch import AngularRegularizer
    >>> apart = AngularRegularizer(omega=2.0, ridge=0.0)
    >>> print(f"{apart(torch.eye(3)):.4f}")  # log 3, the least there is
    1.0986
    >>> bool(apart(torch.ones(3, 3)) > 1.1)
    True
    """

    def __init__(
        self,
        omega: float = 1.0,
        *,
        regularizer: str = "angular",
        ridge: float = 1.0,
        rank: int | None = None,
        floor: float = 1e-3,
    ) -> None:
        super().__init__()
        self.omega = _tools.number("omega", omega, low=0.0, open_high=True)
        self.regularizer = _tools.one_of("regularizer", regularizer, ("angular", "cosine", "incoherence", "diversity"))
        self.ridge = _tools.number("ridge", ridge, low=0.0, open_high=True)
        self.rank = None if rank is None else int(_tools.number("rank", rank, low=1.0, open_high=True))
        self.floor = _tools.number("floor", floor, low=0.0, open_low=True, open_high=True)

    def of_vectors(self, W: Tensor) -> Tensor:
        apart = self._evenness(W) if self.regularizer == "angular" else self._of_cosines(W)
        return 0.5 * self.ridge * W.square().sum() + 0.5 * self.omega * apart

    def _evenness(self, W: Tensor) -> Tensor:
        rank = min(W.shape) if self.rank is None else self.rank
        s = torch.linalg.svdvals(W)[:rank].square()
        s = torch.cat([s, s.new_zeros(rank - len(s))]) + self.floor**2
        return s.sum().log() - s.log().mean()

    def _of_cosines(self, W: Tensor) -> Tensor:
        c = len(W)
        if c < 2:
            raise ValueError(f"the weight has shape {tuple(W.shape)}; angles need at least two class vectors.")
        unit = W / (W.square().sum(dim=1, keepdim=True) + self.floor**2).sqrt()
        k, other = torch.triu_indices(c, c, 1, device=W.device)
        sizes = (unit @ unit.T)[k, other].abs()
        if self.regularizer == "cosine":
            return sizes.mean()
        if self.regularizer == "incoherence":
            return _tools.power(sizes.square().mean(), 0.5)
        angles = _angles(sizes)
        return angles.var(correction=0) - angles.mean()

    def extra_repr(self) -> str:
        return f"omega={self.omega:g}, regularizer={self.regularizer!r}, ridge={self.ridge:g}, floor={self.floor:g}"


def _angles(sizes: Tensor) -> Tensor:
    """``arccos`` of numbers up to 1, where it is 0 with the derivative 0 in place of minus infinity."""
    below = sizes < 1.0 - torch.finfo(sizes.dtype).eps
    return torch.where(below, torch.where(below, sizes, 0.0).acos(), 0.0)
