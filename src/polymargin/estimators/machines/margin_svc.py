"""Any loss of margins with any penalty."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from polymargin import validation
from polymargin.estimators import family
from polymargin.estimators.apart import ApartClassifier
from polymargin.estimators.base import Targets, Warm
from polymargin.estimators.cost_sensitive import CommonWithCosts
from polymargin.estimators.parts.docs import documented
from polymargin.losses import ScoreLoss
from polymargin.penalties import Penalty
from polymargin.problems.classes import Problem
from polymargin.solvers import Solution
from polymargin.solvers.ascent.kernels.metrics import is_metric
from polymargin.solvers.ascent.loops import is_plain

_OWN = ("k", "own_share", "p", "scale", "epsilon", "alpha", "l1", "omega")


@documented(
    class_vectors_="One vector per class, for two classes too. They add up to zero, but for losses and penalties that "
    "tell another representative apart (one_vs_rest; coupled, elastic_net).",
    class_offsets_="One offset per class. They add up to zero, but for loss='one_vs_rest'.",
)
class MarginSVC(ApartClassifier):
    r"""Multi-class SVM of any loss of margins and any penalty, solved to a certified duality gap if that is convex.

    .. math:: \min_{W, b} R(W) + C \sum_i v_i \, \ell(s_i, y_i), \qquad s_{ik} = w_k \cdot x_i + b_k

    with sample weights v and an unpenalised intercept b. The machines with names of their own are points of this table;
    :func:`polymargin.machines` lists it.

    Parameters
    ----------
    [parameters]
    loss : str or ScoreLoss, default="crammer_singer"
        Margins to rivals, ``m_l = s_y - s_l``: "crammer_singer" (the largest of ``[1 - m_l]_+``), "weston_watkins" (their
        sum), "top_k" and "top_k_sum" (the mean of the k largest; alpha and beta form). Scores themselves, with class vectors
        and offsets that add up to zero: "lee_lin_wahba" (the sum of the rivals' ``[1 + s_l]_+``), "absolute_max" (the
        largest of them), "margin_regression" (``[1 - s_y]_+``), "total_max" and "total_sum" (of both), "reinforced" (a mean
        of both kinds). "one_vs_rest" is the same as "total_sum" without the constraint.
    penalty : str or Penalty, default="l2"
        "l2" (``1/2 |W|^2``), "lp" (a block norm of the class vectors), "pairwise" (of their distances, M3), "coupled"
        (their sum has a weight of its own), "elastic_net" (``1/2 |W|^2 + l1 |W|_1``: entries that are zero), "group"
        (``1/2 |W|^2 + l1 sum_j |W_j|``: features that are out for all classes). "angular", "cosine", "incoherence" and
        "diversity" (``1/2 |W|^2 + omega/2 A(W)``, as in `AngularSVC`) keep class vectors apart. They are not convex: the fit
        descends to a stationary point. Where class vectors add up to zero, A has one singular value less.
    squared : bool, default=False
        Whether the loss is squared: the square of a maximum, the sum of squares.
    [label_cost]
        For losses of margins to rivals.
    k : int, default=None
        Of "top_k" and "top_k_sum"; None is 2.
    own_share : float, default=None
        Of "reinforced": the weight of the own margin, from 0 to 1; None is 0.5.
    p : float, default=None
        Of "lp" (1 < p <= 2; None is 1.5) and "pairwise" (2 <= p; None is 4).
    scale : "norm" or "power", default=None
        Of "pairwise", as in `M3SVC`: the norm of the distances, or the sum of their powers; None is "norm".
    epsilon : float, default=None
        Of "pairwise": the ridge that picks one solution; None is 1e-7.
    alpha : float, default=None
        Of "coupled"; None is 0.5.
    l1 : float, default=None
        Of "elastic_net" and "group"; None is 0.1.
    omega : float, default=None
        Of "angular", "cosine", "incoherence" and "diversity"; None is 1.

    Attributes
    ----------
    [attributes]
    angles_, min_angle_, singular_values_, uniformity_, objective_history_, min_angle_history_
        With penalties of angles: as in `AngularSVC`.

    See Also
    --------
    CrammerSingerSVC, WestonWatkinsSVC, TopKSVC, LpNormSVC, M3SVC, AngularSVC, OneVsNoneSVC : products with own names.

    Notes
    -----
    A parameter that neither the loss nor the penalty has is refused, not ignored. Dual ascent solves every loss with "l2"
    and "coupled", and those without a constraint with "lp", "elastic_net" and "group"; Newton's method with multipliers
    solves all other products, small ones of the last two, and ends what ascent does not. It is made for moderate numbers of
    features times classes.

    References
    ----------
    U. Dogan, T. Glasmachers and C. Igel. A unified view on multi-class support vector classification. JMLR 17, 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import MarginSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = MarginSVC(loss="weston_watkins", penalty="group", l1=10.0).fit(scale(X), y)
    >>> machine.certificate_.status
    'optimal'
    >>> (machine.class_vectors_ != 0).any(axis=0)  # which features take part
    array([False,  True,  True,  True])
    """

    _is_compared = False  # its products have names of their own

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str | ScoreLoss = "crammer_singer",
        penalty: str | Penalty = "l2",
        squared: bool = False,
        k: int | None = None,
        own_share: float | None = None,
        p: float | None = None,
        scale: str | None = None,
        epsilon: float | None = None,
        alpha: float | None = None,
        l1: float | None = None,
        omega: float | None = None,
        **common: Unpack[CommonWithCosts],
    ):
        super().__init__(C, **common)
        self.loss = loss
        self.penalty = penalty
        self.squared = squared
        self.k = k
        self.own_share = own_share
        self.p = p
        self.scale = scale
        self.epsilon = epsilon
        self.alpha = alpha
        self.l1 = l1
        self.omega = omega

    # ---- what the machine is --------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        validation.flag("squared", self.squared)
        loss, penalty = self._kinds()
        self._check_own({} if loss is None else loss.parameters, {} if penalty is None else penalty.parameters)
        made = self._loss()
        if made.domain is None:
            raise ValueError(f"loss={self.loss!r} is not valid: it is no loss of margins, with a domain of duals.")
        if loss is None and self.squared:
            raise ValueError("squared=True is not valid with an object as loss: make the object itself squared.")
        if self._penalty().kink is not None and self.kernel != "linear":
            raise ValueError(
                f"penalty={self.penalty!r} is not valid with kernel={self.kernel!r}: it chooses features, and a kernel's "
                "features are not those of X; use penalty='l2' or kernel='linear'."
            )
        if self.penalty == "pairwise" and made.key == "one_vs_rest":
            raise ValueError(family.SEES_DIFFERENCES)
        if made.key == "top_k" and (self.k or 2) >= 3 and self.penalty not in ("l2", "coupled", "lp"):
            raise ValueError(f"k={self.k!r} is not valid with penalty={self.penalty!r}: {family.SOLVED_BY_ASCENT_ONLY}")

    def _kinds(self) -> tuple[family.Kind | None, family.Kind | None]:
        return (
            family.chosen(family.LOSS_KINDS, "loss", self.loss, ScoreLoss),
            family.chosen(family.PENALTY_KINDS, "penalty", self.penalty, Penalty),
        )

    def _check_own(self, of_loss: dict[str, Any], of_penalty: dict[str, Any]) -> None:
        """Parameters that were given are those of this loss and penalty, and what these allow."""
        kinds = family.LOSS_KINDS | family.PENALTY_KINDS
        for name in _OWN:
            value = getattr(self, name)
            if value is None:
                continue
            if name not in of_loss and name not in of_penalty:
                who = " and ".join(repr(key) for key, kind in kinds.items() if name in kind.parameters)
                raise ValueError(
                    f"{name}={value!r} has no meaning with loss={self.loss!r} and penalty={self.penalty!r}: it belongs to "
                    f"{who}. Leave it out."
                )
            family.check_p(str(self.penalty), value) if name == "p" else family.CHECKS[name](name, value)

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _OWN}

    def _loss(self) -> ScoreLoss:
        kind, _ = self._kinds()
        loss: ScoreLoss = family.made(kind, self.loss, self._given(), squared=bool(self.squared)) if kind else self.loss  # type: ignore[assignment]
        return loss

    def _penalty(self) -> Penalty:
        _, kind = self._kinds()
        made: Penalty = family.made(kind, self.penalty, self._given())
        if made.angular is not None:
            made = self._angle_penalty(made.angular.omega, made.angular.regularizer)
        return family.penalty_for(self._loss(), made)

    def _check_costs(self) -> None:
        loss = self._loss()
        if not loss.takes_costs:
            raise ValueError(
                f"label_cost is not valid with loss={self.loss!r}, whose margins are no differences of two scores; use "
                "'crammer_singer', 'weston_watkins', 'top_k' or 'top_k_sum'."
            )
        if not loss.unit_targets:
            raise ValueError("label_cost is not valid with an object as loss that has costs of its own: give one of them.")

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        targets = super()._read_targets(X, y, sample_weight)
        c = len(targets.classes)
        if self.k is not None and self.k > c:
            raise ValueError(f"k={self.k!r} is not valid: y has {c} classes, and k may be at most that.")
        if self.alpha is not None and self.alpha <= -1.0 / (c - 1):
            raise ValueError(
                f"alpha={self.alpha!r} is not valid with {c} classes: it must be above -1/(classes - 1), or R is not convex."
            )
        return targets

    # ---- how it is solved -----------------------------------------------------------------------------------------

    @property
    def _has_kernel_dual(self) -> bool:  # type: ignore[override]
        return is_plain(self._loss()) and is_metric(self._penalty())

    @property
    def _has_active_rows(self) -> bool:  # type: ignore[override]
        return self._penalty().angular is None and not self._loss().smooth

    @property
    def _free_offsets(self) -> bool:
        return bool(self.fit_intercept) and not self._penalty().offset_gradient(np.ones(1)).any()

    def _representative(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        loss = self._loss()
        shifts = loss.sums_to_zero or (loss.domain is not None and loss.domain.margins.relative)
        return super()._representative(b) if shifts else b

    def _identity(self) -> tuple[Any, ...]:
        """What another fit must have in common to start from this one's duals: `l1` moves no bound of theirs."""
        return self.loss, self.penalty, self.squared, *(self._given() | {"l1": None}).values()

    def _start_from(self, last: Any, problem: Problem) -> Any:
        start = super()._start_from(last, problem)
        return start if not isinstance(last, Warm) or last.of == self._identity() else None

    def _leftover(self, problem: Problem, solution: Solution) -> Any:
        last = super()._leftover(problem, solution)
        return last._replace(of=self._identity()) if isinstance(last, Warm) else last

    def _advice_if_trivial(self) -> str:
        if self.loss == "weston_watkins":
            return "a larger C"
        return (
            "a larger C, or loss='weston_watkins' (WestonWatkinsSVC), which does not collapse when no class has half of the "
            "weight"
        )
