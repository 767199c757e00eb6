"""The lp-norm machine: a block norm that lets the number of classes grow."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from polymargin import validation
from polymargin.estimators.base import Warm
from polymargin.estimators.cost_sensitive import CommonWithCosts, CostSensitiveClassifier
from polymargin.estimators.fitting.returned import solve_near_zero
from polymargin.estimators.parts.docs import documented
from polymargin.losses import CrammerSingerHinge, ScoreLoss
from polymargin.penalties import BlockNorm, Penalty, SquaredNorm
from polymargin.penalties.block_norm import class_norms
from polymargin.problems.classes import Problem
from polymargin.solvers import Solution, Start, solve
from polymargin.solvers.ascent.kernels.metrics import is_metric
from polymargin.solvers.ascent.loops import is_plain

_LOSSES = ("hinge", "squared_hinge")


@documented(class_vectors_="One vector per class, for two classes too.")
class LpNormSVC(CostSensitiveClassifier):
    r"""lp-norm multi-class SVM of Lei, Dogan, Binder and Kloft (2015), solved to a certified duality gap.

    .. math:: \min_{W, b} \tfrac12 \Big( \sum_k \|w_k\|^p \Big)^{2/p}
              + C \sum_i v_i \, \ell(1 - s_{i y_i} + \max_{k \neq y_i} s_{ik}),
              \qquad s_{ik} = w_k \cdot x_i + b_k

    with :math:`\ell(t) = [t]_+` or :math:`[t]_+^2`, sample weights v and an unpenalised intercept b. With p = 2 and the
    hinge this is :class:`CrammerSingerSVC`. The closer p is to 1, the more the norm is spent on few classes, and the slower
    the paper's bound on the error grows with the number of classes: like its square root for p = 2, like its logarithm
    for p near 1.

    Parameters
    ----------
    p : float or "auto", default=1.5
        The exponent, 1 <= p <= 2. "auto" chooses among 1.1, 1.33, 1.5, 1.8 and 2 by cross-validation on the training rows
        (three folds, about five times the work of a fit).
    loss : "hinge" or "squared_hinge", default="hinge"
        Loss of a row's margin.
    [parameters]
    [label_cost]

    Attributes
    ----------
    class_norm_weights_ : ndarray of shape (n_classes,)
        The weights beta of the paper's Eq. 14, ``|w_k|^(2-p) (sum_l |w_l|^p)^((p-2)/p)``: how dearly a class buys its norm.
        The penalty is ``sum_k |w_k|^2 / (2 beta_k)``. All are 1 for p = 2.
    p_ : float
        The exponent of the fitted machine.
    p_candidates_, p_scores_ : ndarray
        With ``p="auto"``: the exponents tried and their cross-validated accuracies.
    [attributes]

    See Also
    --------
    CrammerSingerSVC : the machine with p = 2.

    References
    ----------
    Y. Lei, U. Dogan, A. Binder and M. Kloft. Multi-class SVMs: From tighter data-dependent generalization bounds to novel
    algorithms. NIPS 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from polymargin import LpNormSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = LpNormSVC(p=1.2, C=0.1, random_state=0).fit(X / 16, y)
    >>> machine.certificate_.status
    'optimal'
    >>> machine.class_norm_weights_.shape
    (10,)
    """

    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {"p": (1.2, 1.5)}

    def __init__(
        self,
        C: float = 1.0,
        *,
        p: float | str = 1.5,
        loss: str = "hinge",
        **common: Unpack[CommonWithCosts],
    ):
        super().__init__(C, **common)
        self.p = p
        self.loss = loss

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LpNormSVC:
        """Fit the machine; see :meth:`CrammerSingerSVC.fit` for the arguments."""
        self._fitting: dict[str, Any] = {}  # p, and how it was chosen: on self only once the fit has succeeded
        try:
            super().fit(X, y, sample_weight)
        finally:
            del self._fitting
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.p != "auto":
            if isinstance(self.p, str):
                raise ValueError(f"p={self.p!r} is not known; give a number with 1 <= p <= 2, for example 1.5, or 'auto'.")
            p = validation.number("p", self.p)
            if not 1.0 <= p <= 2.0:
                raise ValueError(f"p={self.p!r} must be in 1 <= p <= 2, for example 1.1, 1.5 or 2, or 'auto'.")
            self._fitting["p_"] = p
        if self.loss not in _LOSSES:
            raise ValueError(f"loss={self.loss!r} is not known; choose one of {', '.join(map(repr, _LOSSES))}.")

    def _check_in_parts(self) -> None:
        if self.p == "auto":
            raise ValueError("p='auto' is not for rows in parts: choose p on rows that fit into memory, for example 1.5.")

    def _loss(self) -> ScoreLoss:
        return CrammerSingerHinge(squared=self.loss == "squared_hinge")

    def _penalty(self) -> Penalty:
        """Before a fit that of the parameters; p = 2 stands for one that is not chosen yet."""
        given = 2.0 if self.p == "auto" else self.p
        p = vars(self).get("_fitting", vars(self)).get("p_", given)
        return _penalty_of(float(p), self.loss)

    @property
    def _has_kernel_dual(self) -> bool:  # type: ignore[override]
        return self.p != "auto" and is_plain(self._loss()) and is_metric(self._penalty())

    @property
    def _has_active_rows(self) -> bool:  # type: ignore[override]
        return self.p != "auto"  # p is chosen on features

    def _with_classes(self, problem: Problem, classes: NDArray[Any]) -> Problem:
        problem = super()._with_classes(problem, classes)
        if "p_" not in vars(self).get("_fitting", {"p_": None}):  # in a fit with p="auto"
            from polymargin.estimators.fitting.choice_of_p import cross_validated_p

            seed, n_threads = validation.seed_of(self.random_state), validation.thread_count(self.n_jobs)
            near_zero = partial(solve_near_zero, solve, free_offsets=self._free_offsets)
            scores = cross_validated_p(problem, near_zero, self.tol, validation.iterations(self.max_iter), seed, n_threads)
            best = max(scores, key=lambda p: (scores[p], p))
            self._fitting.update(p_=best, p_candidates_=np.array([*scores]), p_scores_=np.array([*scores.values()]))
        return replace(problem, penalty=self._penalty())

    def _start_from(self, last: Warm, problem: Problem) -> Start | None:
        start: Start | None = super()._start_from(last, problem)
        if start is None or last.of[0] != self.loss:  # the duals of one loss need not be feasible for another
            return None
        scales = problem.penalty.class_scales
        return start._replace(scales=None if scales is None else scales.of_norms(last.of[1]))

    def _leftover(self, problem: Problem, solution: Solution) -> Warm | None:
        last: Warm | None = super()._leftover(problem, solution)
        return None if last is None else last._replace(of=(self.loss, class_norms(solution.machine.W)))

    def _store(self, problem: Problem, solution: Solution, offsets: NDArray[Any]) -> None:
        super()._store(problem, solution, offsets)
        for name in ("p_candidates_", "p_scores_"):  # of an earlier fit with p="auto"
            self.__dict__.pop(name, None)
        self.__dict__.update(self._fitting)
        self.class_norm_weights_ = BlockNorm(self.p_).class_scales.of_norms(class_norms(solution.machine.W))

    def _advice_if_trivial(self) -> str:
        return "a larger C, or WestonWatkinsSVC, whose loss does not collapse when no class has half of the weight"


def _penalty_of(p: float, loss: str) -> Penalty:
    """With p = 2 the block norm is the classical penalty, for which the classical solver has all it needs."""
    return SquaredNorm() if p == 2.0 and loss == "hinge" else BlockNorm(p)
