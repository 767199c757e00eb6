"""M3SVM and ISM3: maximise the minimum margin between pairs of classes (Nie, Hao and Wang, AAAI 2024)."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from polymargin import validation
from polymargin.estimators.cost_sensitive import CommonWithCosts, CostSensitiveClassifier
from polymargin.estimators.parts.docs import documented
from polymargin.losses import CrossEntropy, PairwiseLogistic, ScoreLoss, WestonWatkinsHinge
from polymargin.penalties import PairwiseDistances, Penalty
from polymargin.penalties.pairs.scales import SCALES
from polymargin.problems.classes import Problem
from polymargin.solvers import Solution, Start
from polymargin.solvers.ascent.kernels.metrics import is_metric
from polymargin.solvers.ascent.loops import is_plain
from polymargin.solvers.types import NO_DUALS, sparse_duals

LOSSES: dict[str, type[ScoreLoss]] = {"hinge": WestonWatkinsHinge, "logistic": PairwiseLogistic, "softmax": CrossEntropy}
LARGEST_P = 1000  # of finite ones


class WarmPairs(NamedTuple):
    """What a fit leaves to the next: the machine, the multipliers of its pairs if there are such, the costs, whether ascent
    crawled."""

    W: NDArray[np.float64]
    b: NDArray[np.float64]
    A: NDArray[np.float64] | None
    cost: NDArray[np.float64]
    crawled: bool

    def part(self, kept: NDArray[np.bool_]) -> WarmPairs:
        """For a fit of some of the rows."""
        A = None if self.A is None else self.A[kept]
        return self._replace(A=A, cost=self.cost[kept], crawled=False)


@documented(fit_intercept="Whether the classes have offsets b. They are penalised by epsilon alone.")
class M3SVC(CostSensitiveClassifier):
    r"""Multi-class SVM that maximises the minimum margin (M3SVM and ISM3), solved to a certified duality gap.

    .. math:: \min_{W, b} \; C \sum_i v_i \sum_{k \neq y_i} g(s_{i y_i} - s_{ik})
              + R_p(W) + \epsilon (\|W\|_F^2 + \|b\|^2),
              \qquad R_p(W) = \frac{c - 1}{4} \Big( \operatorname{mean}_{k < l} \|w_k - w_l\|^p \Big)^{2/p},
              \qquad s_{ik} = w_k \cdot x_i + b_k

    The margin between classes k and l is ``2 / |w_k - w_l|``: the larger p, the more the smallest of them counts. With p = 2
    this is the machine of Weston and Watkins with the same C. The paper's penalty, ``sum_{k<l} |w_k - w_l|^p``, is
    ``scale="power"``.

    Parameters
    ----------
    [parameters]
    p : float, default=4
        Power of the distances, at least 1 (below it R is not convex). ``np.inf`` stands for the largest distance, the exact
        max-min margin: ``R = (c - 1)/4 max_{k<l} |w_k - w_l|^2``.
    loss : "hinge", "logistic", "softmax" or a ScoreLoss, default="hinge"
        "hinge" is M3SVM, ``g(m) = max(0, 1 - m)``, exactly (nothing is smoothed in the result). "logistic" is ISM3,
        ``g(m) = log(1 + exp(-m))``. "softmax" is the cross-entropy, which the authors' released code minimises. An own
        smooth loss is an instance of a subclass of :class:`polymargin.losses.ScoreLoss` with `value`, `gradient` and
        `hessian_product`, nowhere negative.
    norm : "l2" or "l1", default="l2"
        Norm of the differences ``w_k - w_l``; "l1" gives differences with few entries, for kernel="linear" only.
    scale : "norm" or "power", default="norm"
        "norm" is R_p above, half the square of a norm but for a factor: C means the same for every p and number of classes.
        "power" is the paper's ``sum_{k<l} |w_k - w_l|^p`` (p = inf: ``max_{k<l} |w_k - w_l|^2``), whose lambda is 1 / C. One
        is a growing function of the other, so both have the same machines, at another C.
    epsilon : float, default=1e-7
        Weight of the ridge that picks one solution. Must be positive.
    [label_cost]
        For loss="hinge", norm="l2" and a finite p of at least 2.

    Attributes
    ----------
    [attributes]

    See Also
    --------
    WestonWatkinsSVC : the same machine for p = 2 (but for epsilon: its offsets are not penalised at all).

    Notes
    -----
    The hinge with a finite p and norm="l2" is solved by dual ascent with a metric between the classes, ended by Newton steps
    on the pairs (row, rival class) that lie on their margins. An interior point takes over where the ascent crawls, and
    solves small problems with a tolerance below 1e-6, p=inf and norm="l1" from the beginning. The smooth losses are solved
    by Newton's method. `max_iter` limits the epochs of the ascent and the steps of the interior point together, or the
    Newton steps of a smooth loss. `random_state` is the order of the rows in the ascent, so two seeds agree to `tol` and not
    to the last digit; the other methods make no random choice (but for Nystroem kernels). `n_jobs` changes nothing: there is
    one thread, besides those of BLAS.

    `class_offsets_` are penalised by epsilon, unlike those of the other machines: shifting the columns changes the machine,
    the more the farther they lie from 0. Centre them.

    References
    ----------
    F. Nie, Z. Hao and R. Wang. Multi-class support vector machine with maximizing minimum margin. AAAI 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import M3SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = M3SVC(C=10.0, p=4, tol=1e-6).fit(scale(X), y)
    >>> machine.certificate_.status
    'optimal'
    >>> print(f"{machine.objective_:.2f}")
    91.52
    >>> as_published = M3SVC(C=10.0, p=4, scale="power", tol=1e-6).fit(scale(X), y)
    >>> print(f"{as_published.objective_:.2f}")
    299.58
    """

    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {"p": (1.5, 4)}  # between them lies WestonWatkinsSVC, which takes part too
    _compares_kernel = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        p: float = 4,
        loss: str | ScoreLoss = "hinge",
        norm: str = "l2",
        scale: str = "norm",
        epsilon: float = 1e-7,
        **common: Unpack[CommonWithCosts],
    ):
        super().__init__(C, **common)
        self.p = p
        self.loss = loss
        self.norm = norm
        self.scale = scale
        self.epsilon = epsilon

    # ---- what the machine is --------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.p, bool) or not isinstance(self.p, Real) or not float(self.p) >= 1.0:
            raise ValueError(
                f"p={self.p!r} is not valid: p must be a number of at least 1 (or np.inf); below 1 the penalty "
                "of powers |w_k - w_l|^p is not convex and a minimum could not be certified."
            )
        if LARGEST_P < self.p < np.inf:
            raise ValueError(
                f"p={self.p!r} is not valid: a finite p may be at most {LARGEST_P}, since distances to a higher power leave "
                "the range of doubles at the slightest step; use p=np.inf, the limit, for the exact max-min margin."
            )
        if not isinstance(self.loss, ScoreLoss) and (not isinstance(self.loss, str) or self.loss not in LOSSES):
            raise ValueError(
                f"loss={self.loss!r} is not valid: use {', '.join(map(repr, LOSSES))}, or an instance of a subclass of "
                "polymargin.losses.ScoreLoss with smooth = True."
            )
        if isinstance(self.loss, ScoreLoss) and not self.loss.smooth:
            raise ValueError(
                f"loss={self.loss!r} is not valid: it says smooth = False, and Newton's method needs value, gradient and "
                "hessian_product of a loss with continuous second derivatives."
            )
        if self.norm not in ("l2", "l1"):
            raise ValueError(f"norm={self.norm!r} is not valid: use 'l2' or 'l1'.")
        validation.one_of("scale", self.scale, tuple(SCALES))
        if self.norm == "l1" and self.kernel != "linear":
            raise ValueError(
                f"norm='l1' is not valid with kernel={self.kernel!r}: the l1 norm is not invariant under rotation, so it "
                "has no meaning in the kernel's feature space; use norm='l2' or kernel='linear'."
            )
        if self.norm == "l1" and np.isinf(self.p):
            raise ValueError("norm='l1' is not valid with p=inf: use a finite p or norm='l2'.")
        validation.positive("epsilon", self.epsilon, "it picks one solution, for example 1e-7")

    def _check_costs(self) -> None:
        if self.loss != "hinge" or self.norm != "l2" or not 2.0 <= self.p < np.inf:
            raise ValueError(
                f"label_cost is not valid with loss={self.loss!r}, norm={self.norm!r} and p={self.p!r}: Newton's method "
                "takes costs where the loss has margins and the penalty second derivatives; use loss='hinge', norm='l2' and "
                "a finite p of at least 2, or WestonWatkinsSVC."
            )

    def _loss(self) -> ScoreLoss:
        return self.loss if isinstance(self.loss, ScoreLoss) else LOSSES[self.loss]()

    def _penalty(self) -> Penalty:
        if self.norm == "l1":
            from polymargin.penalties.pairs.pairwise_l1 import PairwiseL1

            return PairwiseL1(self.p, self.epsilon, self.scale)
        return PairwiseDistances(self.p, self.epsilon, self.scale)

    @property
    def _free_offsets(self) -> bool:
        return False  # epsilon penalises them

    # ---- how it is solved ---------------------------------------------------------------------------------------

    def _start_from(self, last: WarmPairs, problem: Problem) -> Start | None:
        """The last machine and its multipliers, scaled with the costs, if they fit this data."""
        W, b, A, cost, crawled = last
        suits = W.shape == (problem.n_features, problem.n_classes)
        if problem.loss.smooth and suits:
            return Start(NO_DUALS, b if problem.fit_intercept else np.zeros(problem.n_classes), W=W)
        if (not suits and self.kernel == "linear") or len(b) != problem.n_classes:
            return None
        if A is None or len(cost) != problem.n_rows or A[np.arange(len(A)), problem.y].any():
            return None
        duals = sparse_duals(A * (problem.cost / cost)[:, None])
        start = Start(duals, b, crawled=crawled and float(problem.cost.sum()) >= float(cost.sum()))
        return start._replace(W=W) if suits else start  # on active rows it has coordinates of its own

    def _leftover(self, problem: Problem, solution: Solution) -> WarmPairs:
        A, duals = solution.notes, solution.duals
        A = duals.dense(problem.n_classes) if A is None and duals is not None else A
        return WarmPairs(solution.machine.W, solution.machine.b, A, problem.cost, solution.crawled)

    # ---- probabilities --------------------------------------------------------------------------------------------

    @property
    def _has_kernel_dual(self) -> bool:  # type: ignore[override]
        return is_plain(self._loss()) and is_metric(self._penalty())

    @property
    def _has_active_rows(self) -> bool:  # type: ignore[override]
        return not self._loss().smooth

    @property
    def _has_own_probabilities(self) -> bool:
        """The population minimiser of both smooth losses has scores ``log p_k + const``."""
        return isinstance(self.loss, str) and self.loss in ("logistic", "softmax")
