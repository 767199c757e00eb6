"""The machine that keeps its class vectors apart."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from polymargin import validation
from polymargin.estimators.apart import ApartClassifier
from polymargin.estimators.cost_sensitive import CommonWithCosts
from polymargin.estimators.parts.docs import documented
from polymargin.losses import CrammerSingerHinge, ScoreLoss
from polymargin.penalties import Penalty
from polymargin.penalties.angular import REGULARIZERS


@documented(
    tol="Stop when a convex model of the objective promises a relative decrease of at most `tol`, by a proven bound "
    "(``certificate_.stationarity``).",
    class_vectors_="One vector per class, for two classes too.",
)
class AngularSVC(ApartClassifier):
    r"""Multi-class SVM whose class vectors are kept apart (AR-MSVM; Li et al. 2017).

    .. math:: \min_{W, b} \tfrac12 \|W\|_F^2 + \tfrac\omega2 A(W)
              + C \sum_i v_i \, [1 - s_{i y_i} + \max_{k \neq y_i} s_{ik}]_+,
              \qquad s_{ik} = w_k \cdot x_i + b_k

    .. math:: A(W) = \log \sum_{j \le r} \sigma_j^2 - \tfrac1r \sum_{j \le r} \log \sigma_j^2

    with the singular values of W, sample weights v and an unpenalised intercept b, which takes no part in the angles. A is
    least, log r, when all r singular values are equal; small ones mean that class vectors nearly depend on each other.
    W lies in the span of the training rows (of their differences if the intercept is free), of dimension p, and
    ``r = min(p, c)``: for ``p >= c`` this is the paper's ``log tr(W'W) - (1/c) log det(W'W)``; for ``p < c``, where that is
    not defined, it takes the singular values that can be positive. The paper's lambda and beta on n rows are
    ``C = 1 / (n lambda)`` and ``omega = beta / lambda``.

    The objective is not convex. The fit starts at the Crammer-Singer machine, or where angles weigh much at the end of a
    path on which omega grows, and descends monotonically to a stationary point, by convex models with the exact hinge;
    ``certificate_.dual`` still is a lower bound on the global optimum. ``certificate_.constant`` is ``omega/2`` times the
    least A; what is relative is so to the objective less this constant. ``W = 0`` is returned, with a warning, if nothing
    better is known.

    Parameters
    ----------
    omega : float, default=1.0
        Weight of the angles; 0 is the Crammer-Singer machine.
    regularizer : str, default="angular"
        "angular" is A above. With ``s_ij = cos(w_i, w_j)`` over all pairs i < j, "cosine" is ``mean |s_ij|``, "incoherence"
        is ``(mean s_ij^2)^(1/2)``, "diversity" is ``-mean t_ij + var t_ij`` with ``t_ij = arccos |s_ij|``. These three have
        kinks at right angles, and the best angles often lie there: the descent rounds them, and what that hides counts as
        a possible decrease. A vector of length 0 is at right angles to all others.
    n_starts : int, default=1
        Starts beyond the first are random machines; the best end is kept. `max_iter` holds for each.
    [parameters]
    [label_cost]

    Attributes
    ----------
    [attributes]
    angles_ : ndarray of shape (n_classes, n_classes)
        Angles between the lines along the class vectors in degrees, 0 to 90 (the paper's Eq. 3).
    min_angle_ : float
        The smallest of them.
    singular_values_ : ndarray of shape (r,)
        Singular values of W.
    uniformity_ : float
        Geometric over arithmetic mean of their squares: 1 if all are equal, 0 if W is singular.
    objective_history_, min_angle_history_ : ndarray
        The objective and the smallest angle at the start and after each step.

    See Also
    --------
    CrammerSingerSVC : the same without angles, convex.
    MarginSVC : the same penalties with any loss of margins.

    References
    ----------
    J. Li, H. Zhou, P. Xie and Y. Zhang. Improving the generalization performance of multi-class SVM via angular
    regularization. IJCAI 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import AngularSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = AngularSVC(omega=10.0, random_state=0).fit(scale(X), y)
    >>> machine.certificate_.status
    'stationary'
    >>> machine.min_angle_ > AngularSVC(omega=0.1, random_state=0).fit(scale(X), y).min_angle_
    True
    """

    _convex = False
    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {"omega": (0.1, 1.0)}

    def __init__(
        self,
        C: float = 1.0,
        *,
        omega: float = 1.0,
        regularizer: str = "angular",
        n_starts: int = 1,
        **common: Unpack[CommonWithCosts],
    ):
        super().__init__(C, **common)
        self.omega = omega
        self.regularizer = regularizer
        self.n_starts = n_starts

    def _loss(self) -> ScoreLoss:
        return CrammerSingerHinge()

    def _penalty(self) -> Penalty:
        return self._angle_penalty(self.omega, self.regularizer)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        validation.not_negative("omega", self.omega, "0 is the Crammer-Singer machine, try 0.1, 1 or 10")
        validation.whole("n_starts", self.n_starts, 1, "machines to start from; 5 finds better minima now and then")
        if self.regularizer not in REGULARIZERS:
            raise ValueError(
                f"regularizer={self.regularizer!r} is not valid: choose one of {', '.join(map(repr, REGULARIZERS))}."
            )

    def _advice_if_trivial(self) -> str:
        collapse = "WestonWatkinsSVC, whose loss does not collapse when no class has half of the weight"
        return f"a larger C, a smaller omega, or {collapse}"

