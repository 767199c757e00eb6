"""The machine of the top-k hinge."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from polymargin import validation
from polymargin.estimators.base import Targets, Warm
from polymargin.estimators.cost_sensitive import CommonWithCosts, CostSensitiveClassifier
from polymargin.estimators.parts.docs import documented
from polymargin.losses import ScoreLoss, TopKHinge
from polymargin.penalties import Penalty, SquaredNorm
from polymargin.problems.classes import Problem
from polymargin.solvers import Solution, Start


@documented()
class TopKSVC(CostSensitiveClassifier):
    r"""Multi-class SVM of the top-k hinge (Lapin, Hein and Schiele 2015), solved to a certified duality gap.

    .. math:: \min_{W, b} \tfrac12 \|W\|_F^2 + C \sum_i v_i \Big[\tfrac1k \sum_{j=1}^k m_{i[j]}\Big]_+,
              \qquad m_{il} = 1[l \neq y_i] + s_{il} - s_{i y_i}, \quad s_{ik} = w_k \cdot x_i + b_k

    with the k largest of each row's violations m, among which may be that of the own class, which is 0. Sample weights v and
    an unpenalised intercept b. A row costs little as long as its class is among the k best: made for data where some classes
    cannot be told apart and a guess of k classes is what counts. With k = 1 this is :class:`CrammerSingerSVC`.

    Parameters
    ----------
    k : int, default=2
        How many violations are averaged, from 1 to the number of classes.
    [parameters]
    [label_cost]

    Attributes
    ----------
    [attributes]

    See Also
    --------
    CrammerSingerSVC : the machine with k = 1.

    References
    ----------
    M. Lapin, M. Hein and B. Schiele. Top-k multiclass SVM. NIPS 2015 (the alpha form of its loss).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import top_k_accuracy_score
    >>> from polymargin import TopKSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = TopKSVC(C=0.1, k=3, random_state=0).fit(X / 16, y)
    >>> machine.certificate_.status
    'optimal'
    >>> bool(top_k_accuracy_score(y, machine.decision_function(X / 16), k=3) > 0.99)
    True
    """

    _has_kernel_dual = True
    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {"k": (2,)}

    def __init__(
        self,
        C: float = 1.0,
        *,
        k: int = 2,
        **common: Unpack[CommonWithCosts],
    ):
        super().__init__(C, **common)
        self.k = k

    def _check_parameters(self) -> None:
        super()._check_parameters()
        validation.whole("k", self.k, 1, "classes that count in a row, for example 2 or 5")

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        targets = super()._read_targets(X, y, sample_weight)
        if self.k > len(targets.classes):
            raise ValueError(f"k={self.k!r} is not valid: y has {len(targets.classes)} classes, and k may be at most that.")
        return targets

    def _loss(self) -> ScoreLoss:
        return TopKHinge(self.k)

    def _penalty(self) -> Penalty:
        return SquaredNorm()

    def _start_from(self, last: Warm, problem: Problem) -> Start | None:
        """Duals of another k need not be feasible."""
        start: Start | None = super()._start_from(last, problem)
        return start if last.of == self.k else None

    def _leftover(self, problem: Problem, solution: Solution) -> Warm | None:
        last: Warm | None = super()._leftover(problem, solution)
        return None if last is None else last._replace(of=self.k)

    def _advice_if_trivial(self) -> str:
        collapse = "WestonWatkinsSVC, whose loss does not collapse when no class has half of the weight"
        return f"a larger C, a smaller k, or {collapse}"
