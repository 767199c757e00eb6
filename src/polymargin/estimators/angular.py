"""The machine that keeps its class vectors apart."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from polymargin import validation
from polymargin.certificate import Ledger
from polymargin.estimators.base import Common, MarginClassifier
from polymargin.estimators.docs import documented
from polymargin.losses import CrammerSingerHinge, ScoreLoss
from polymargin.penalties import Penalty
from polymargin.penalties.angular import REGULARIZERS, AnglePenalty, angles_between, smallest_angle
from polymargin.problem import Problem
from polymargin.solvers import Solution, solve
from polymargin.solvers.models.angle_starts import Memory
from polymargin.solvers.models.angles import AngularNotes
from polymargin.solvers.models.row_space import look_at_rows


@documented(
    tol="Stop when a convex model of the objective promises a relative decrease of at most `tol`, by a proven bound "
    "(``certificate_.stationarity``).",
    class_vectors_="One vector per class, for two classes too.",
)
class AngularSVC(MarginClassifier):
    r"""Multi-class SVM whose class vectors are kept apart (AR-MSVM; Li et al. 2017, Eq. 10).

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
        **common: Unpack[Common],
    ):
        super().__init__(C, **common)
        self.omega = omega
        self.regularizer = regularizer
        self.n_starts = n_starts

    def _loss(self) -> ScoreLoss:
        return CrammerSingerHinge()

    def _penalty(self) -> Penalty:
        return AnglePenalty(self.omega, self.regularizer, getattr(self, "_rank", 1), getattr(self, "_floor", 0.0))

    def _solve(self, problem: Problem, ledger: Ledger, **settings: Any) -> Solution:
        return solve(problem, ledger, n_starts=self.n_starts, **settings)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        validation.not_negative("omega", self.omega, "0 is the Crammer-Singer machine, try 0.1, 1 or 10")
        validation.whole("n_starts", self.n_starts, 1, "machines to start from; 5 finds better minima now and then")
        if self.regularizer not in REGULARIZERS:
            raise ValueError(
                f"regularizer={self.regularizer!r} is not valid: choose one of {', '.join(map(repr, REGULARIZERS))}."
            )

    def _start_from(self, last: Memory, problem: Problem) -> Memory:
        """The solver checks that it belongs to the same rows."""
        return last

    def _leftover(self, problem: Problem, solution: Solution) -> Memory | None:
        return None if solution.notes is None else solution.notes.memory

    def _leftover_of_part(self, last: Memory, kept: NDArray[np.bool_], part: Problem) -> Memory:
        duals, classical = (None if found is None else found.part(kept) for found in (last.duals, last.classical.duals))
        return last._replace(
            fingerprint=look_at_rows(part).fingerprint,
            y=part.y,
            cost=last.cost[kept] * (1.0 + 1e-12),  # another problem: its Crammer-Singer machine is not that of all rows
            duals=duals,
            classical=last.classical._replace(duals=classical),
        )

    def _store(self, problem: Problem, solution: Solution, offsets: NDArray[Any]) -> None:
        super()._store(problem, solution, offsets)
        penalty, W = problem.penalty.angular, solution.machine.W
        assert penalty is not None  # that of `_penalty`, as the solver has settled it
        self._rank, self._floor = penalty.angles.rank, penalty.angles.floor
        self.angles_ = angles_between(W)
        self.min_angle_ = smallest_angle(self.angles_)
        self.singular_values_ = np.linalg.svd(W, compute_uv=False)[: self._rank]
        self.uniformity_ = _uniformity(self.singular_values_)
        ways = solution.notes or AngularNotes((self.objective_,), (self.min_angle_,), None, None)  # None: it was interrupted
        self.objective_history_ = np.asarray(ways.objectives)
        self.min_angle_history_ = np.asarray(ways.min_angles)

    def _shortfall(self) -> str:
        end = self.certificate_
        if end.stationarity is None:
            return super()._shortfall()
        promised = "an unknown amount" if end.stationarity == np.inf else f"{end.stationarity:.2e}"
        return (
            f"a possible relative decrease of the objective by {promised}, above tol={self.tol:g}; its relative gap to the "
            f"lower bound is {end.rel_gap:.2e}"
        )

    def _is_trivial(self, problem: Problem) -> bool:
        """W = 0, or no machine is much better than equal scores."""
        return not self.singular_values_.any() or self._is_proven_trivial(problem)

    def _is_proven_trivial(self, problem: Problem) -> bool:
        end = self.certificate_
        return end.dual - end.constant >= 0.999 * problem.trivial_value()

    def _trivial_finding(self, problem: Problem) -> str:
        if self._is_proven_trivial(problem):
            return super()._trivial_finding(problem)
        found = f"with C={self.C:g} and omega={self.omega:g} no machine was found that is better than W = 0"
        end = self.certificate_
        if end.rel_gap <= 1e-3:
            return f"{found}, and none is by more than 0.1 %"
        return f"{found} (objective {end.primal:.6g}); the lower bound {end.dual:.6g} does not exclude one"

    def _advice_if_trivial(self) -> str:
        collapse = "WestonWatkinsSVC, whose loss does not collapse when no class has half of the weight"
        return f"a larger C, a smaller omega, or {collapse}"


def _uniformity(singular_values: NDArray[Any]) -> float:
    squares = np.square(singular_values)
    if not squares.size or not squares.all():
        return 0.0
    return float(np.exp(np.log(squares).mean()) / squares.mean())
