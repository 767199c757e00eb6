"""The multi-class optimal margin distribution machine (Zhang & Zhou 2017)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from polymargin import validation
from polymargin.estimators.base import Common, MarginClassifier, Warm
from polymargin.estimators.parts.docs import documented
from polymargin.features.shift import towards_zero
from polymargin.losses import ScoreLoss
from polymargin.losses.margin_distribution import MarginDistributionLoss
from polymargin.penalties import Penalty, SquaredNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.solvers import Solution, Start, solve

RELAXATIONS = ("cccp", "paper")


@documented(
    tol="Stop when a round cannot lower the objective by more than ``tol * |objective|``. That is certified: the dual of "
    "the certificate bounds the round's convex problem (two classes: the optimum). With ``relaxation=\"paper\"`` stop when "
    "a round changes neither the objective nor W by more than this, relatively.",
    max_iter="Limit on epochs, those of all rounds together. One epoch is as many row visits as there are rows.",
    class_vectors_='One vector per class, for two classes too. They add up to zero, except with relaxation="paper".',
)
class MarginDistributionSVC(MarginClassifier):
    r"""Multi-class optimal margin distribution machine, mcODM (Zhang and Zhou 2017).

    .. math:: \min_{W, b} \tfrac12 \|W\|_F^2 + C \sum_i v_i \,
              \frac{[1 - \theta - \gamma_i]_+^2 + \mu \, [\gamma_i - 1 - \theta]_+^2}{(1 - \theta)^2},
              \qquad \gamma_i = s_{i y_i} - \max_{k \neq y_i} s_{ik}, \quad s_{ik} = w_k \cdot x_i + b_k

    with sample weights v and an unpenalised intercept b: margins are to be near 1, neither small nor large (the paper's
    Eq. 1, with C for its :math:`\lambda / m`). With three classes and more the second term is not convex. Convex problems
    above the objective that meet it at the current machine are solved one after the other; the objective falls from round to
    round. With two classes the objective is convex, and its optimum is certified.

    Parameters
    ----------
    [parameters]
    theta : float, default=0.2
        Half width of the band of margins around 1 that cost nothing, ``0 <= theta < 1``.
    mu : float, default=0.5
        Weight of margins above the band against those below it, ``0 < mu <= 1``.
    relaxation : {"cccp", "paper"}, default="cccp"
        How a round is made convex. "cccp" measures margins above the band against the rival class of the last round: a
        concave-convex procedure; the best machine of all rounds is kept, shortened should W = 0 be better. "paper" is
        the paper's Algorithm 1, which freezes that rival's score instead. It starts at W = 0, often raises the objective,
        and has no free intercept (``fit_intercept=False``). The machine of the last round is kept, as in the paper.
    n_starts : int, default=1
        Starts beyond the first are machines of the same rows with random weights; the lowest end is kept. `max_iter` holds
        for each. Without effect on two classes, which have one minimum; ``relaxation="paper"`` starts at W = 0 only.

    Attributes
    ----------
    [attributes]
    objective_history_ : ndarray
        Objective at the start and after each round that lowered it ("paper": after each round).
    last_decrease_ : float
        Relative decrease of the objective in the last round that lowered it ("paper": relative change of the objective or of
        W in the last round, whichever is larger).

    See Also
    --------
    CrammerSingerSVC : a hinge on the same margin; large margins cost nothing.

    References
    ----------
    T. Zhang and Z.-H. Zhou. Multi-class optimal margin distribution machine. ICML 2017.

    A. L. Yuille and A. Rangarajan. The concave-convex procedure. Neural Computation 15, 2003.

    Notes
    -----
    With three classes and more the minimum is local, the certificate's status "stationary" where the tolerance was reached,
    and its dual bounds the last convex problem only. The rounds start from the better of the hinge and the squared-hinge
    machine of Crammer and Singer. With two classes the status is "optimal", and the dual bounds the optimum.

    With ``relaxation="paper"`` the status is "stationary" where the iteration has settled, "stalled" where that is above
    W = 0, and "max_iter" where it has not settled. The dual bounds the optimum from below by what margins below the band
    cost alone: the gap does not close.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import MarginDistributionSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = MarginDistributionSVC(C=1.0, random_state=0).fit(scale(X), y)
    >>> machine.certificate_.status
    'stationary'
    >>> bool((machine.objective_history_[1:] < machine.objective_history_[:-1]).all())
    True
    """

    _convex = False  # with three classes and more
    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {"theta": (0.2,), "mu": (0.5,)}

    def __init__(
        self,
        C: float = 1.0,
        *,
        theta: float = 0.2,
        mu: float = 0.5,
        relaxation: str = "cccp",
        n_starts: int = 1,
        **common: Unpack[Common],
    ):
        super().__init__(C, **common)
        self.theta = theta
        self.mu = mu
        self.relaxation = relaxation
        self.n_starts = n_starts

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not _is_number(self.theta) or not 0.0 <= self.theta < 1.0:
            raise ValueError(
                f"theta={self.theta!r} is not valid: theta must be a number with 0 <= theta < 1; margins between 1 - theta "
                "and 1 + theta cost nothing (try 0.2)."
            )
        if not _is_number(self.mu) or not 0.0 < self.mu <= 1.0:
            raise ValueError(
                f"mu={self.mu!r} is not valid: mu must be a number with 0 < mu <= 1, the weight of margins above 1 + theta "
                "(try 0.5); for no such weight at all use CrammerSingerSVC."
            )
        if self.relaxation not in RELAXATIONS:
            raise ValueError(f"relaxation={self.relaxation!r} is not valid: use 'cccp' or 'paper'.")
        if self.relaxation == "paper" and self.fit_intercept:
            raise ValueError(
                "relaxation='paper' has no free intercept: its upper constraint would be met by one constant added to all "
                "offsets. Use fit_intercept=False, with a constant column appended to X if the classes need offsets, or "
                "relaxation='cccp'."
            )

        validation.whole("n_starts", self.n_starts, 1, "machines to start from; 5 finds lower minima now and then")
        if self.relaxation == "paper" and self.n_starts > 1:
            raise ValueError(
                f"n_starts={self.n_starts!r} has no effect on relaxation='paper', which starts at W = 0: leave it at 1, or "
                "use relaxation='cccp'."
            )

    def _loss(self) -> ScoreLoss:
        return MarginDistributionLoss(float(self.theta), float(self.mu))

    def _penalty(self) -> Penalty:
        return SquaredNorm()

    _has_active_rows = True  # margins in the band lose nothing

    def _solve(self, problem: Problem, ledger: Ledger, **settings: Any) -> Solution:
        return solve(problem, ledger, relaxation=self.relaxation, n_starts=self.n_starts, **settings)

    def _store(self, problem: Problem, solution: Solution, offsets: NDArray[Any]) -> None:
        certificate = solution.certificate
        if certificate.status == "optimal" and certificate.bounds != "optimum":  # the gap is that of a convex round
            solution = solution._replace(certificate=replace(certificate, status="stationary"))
        super()._store(problem, solution, offsets)
        self.objective_history_ = np.array(solution.rounds or (self.objective_,))
        if self.relaxation == "cccp":  # the expansion of a kernel machine may go back to duals a little above the best
            before = np.minimum.accumulate(self.objective_history_)[:-1]
            self.objective_history_ = self.objective_history_[np.append(True, self.objective_history_[1:] < before)]
        if np.isclose(self.objective_history_[-1], self.objective_, rtol=1e-6):  # the same machine, evaluated as returned
            before = self.objective_history_[:-1]
            before = before if self.relaxation == "paper" else before[before > self.objective_]
            self.objective_history_ = np.append(before, self.objective_)
        self.last_decrease_ = solution.last_change

    def _leftover(self, problem: Problem, solution: Solution) -> Warm | None:
        last: Warm | None = super()._leftover(problem, solution)
        if last is None:
            return None
        scores = _mean_row(problem.X) @ solution.machine.W + solution.machine.b
        return last._replace(of=(self.relaxation, scores))

    def _start_from(self, last: Warm, problem: Problem) -> Start | None:
        """The last fit's signed duals as they are: with squared losses they are feasible for any C, theta and mu."""
        if last.of[0] != self.relaxation:
            return None
        if len(last.cost) != problem.n_rows or len(last.b) != problem.n_classes:
            return None
        if (last.duals.classes == problem.y[last.duals.rows]).any():
            return None
        mapped = self.kernel == "linear" or problem.n_features != self.n_features_in_  # else X holds rows, not features
        return Start(last.duals, self._offsets_of_start(problem, last) if problem.fit_intercept and mapped else last.b)

    def _offsets_of_start(self, problem: Problem, last: Warm) -> NDArray[np.float64]:
        """Within the tolerance the duals make another W than the machine's: the mean row is to have the same scores."""
        moved = towards_zero(problem.X)
        rows = problem.X if moved is None else moved[0]
        support, tau = problem.signed_duals(last.duals)
        mean = _mean_row(rows)
        W = np.asarray(rows[support].T @ tau, dtype=np.float64) - np.outer(mean, tau.sum(axis=0))
        return np.asarray(last.of[1] - mean @ W)

    def _is_trivial(self, problem: Problem) -> bool:
        """As good as W = 0, whatever the bound proves: a loose tolerance may end there, and the bound may be a local one."""
        trivial = problem.trivial_value()
        return 0.999 * trivial <= self.objective_ <= (1.0 + max(1e-3, self.tol)) * trivial or self._ignores_rows(problem)

    def _ignores_rows(self, problem: Problem) -> bool:
        """W = 0 with offsets, to rounding: no row's scores differ from another's."""
        norm = np.linalg.norm(self.class_vectors_) if self.kernel == "linear" else np.sqrt(2.0 * self._penalty_value)
        return bool(norm * problem.longest_row <= 1e-6)

    def _trivial_finding(self, problem: Problem) -> str:
        end, trivial = self.certificate_, problem.trivial_value()
        if end.bounds == "optimum" and end.dual >= 0.999 * trivial:
            return super()._trivial_finding(problem)
        if end.primal < 0.999 * trivial:
            return f"with C={self.C:g} all rows have the same scores, only the offsets of the classes differ"
        return f"with C={self.C:g} it is not better by more than 0.1 % than one that {self._trivial_machine}"

    def _advice_if_trivial(self) -> str:
        return "a larger C, or WestonWatkinsSVC, whose loss does not collapse when no class has half of the weight"

    def _not_converged(self) -> str:
        certificate, name = self.certificate_, type(self).__name__
        if self.relaxation == "paper":
            how, more = "did not settle", "; or raise max_iter"
            if certificate.status == "stalled":
                how, more = "settled above a better machine, W = 0 or its own before rounding", ""
            return (
                f"{name} stopped after {certificate.n_iter} iterations: the paper's iteration {how} (objective "
                f"{certificate.primal:.6g} in the last round, which is kept, {self.objective_history_.min():.6g} in the "
                f"best; last relative change {self.last_decrease_:.2e}, tol={self.tol:g}). relaxation='cccp' descends{more}."
            )
        if certificate.bounds == "optimum":
            return super()._not_converged()
        return (
            f"{name} stopped after {certificate.n_iter} iterations: the last round could still lower the objective by "
            f"{certificate.rel_gap:.2e} of it, its relative gap, above tol={self.tol:g} (objective {certificate.primal:.6g}"
            "). Raise max_iter, scale the columns of X (StandardScaler) or lower C."
        )


def _mean_row(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.mean(axis=0, dtype=np.float64), dtype=np.float64).ravel()


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
