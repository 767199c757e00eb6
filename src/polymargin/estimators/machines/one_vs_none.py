"""One versus None: one machine for multi-class and multi-label problems."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from polymargin import validation
from polymargin.calibration import ClassOutcomes, LabelOutcomes, Outcomes
from polymargin.estimators.base import Common, MarginClassifier, Targets
from polymargin.estimators.fitting import label_targets
from polymargin.estimators.parts.docs import documented
from polymargin.estimators.parts.label_matrices import LabelMatrices
from polymargin.penalties import CoupledNorm, Penalty, ZeroSumNorm
from polymargin.problems.certificate import Ledger
from polymargin.problems.labels import LabelProblem, Pairs
from polymargin.solvers import Solution, SparseDuals, Start, solve_labels

_DEFAULT_ALPHA = 0.5


class WarmLabels(NamedTuple):
    """What a fit leaves to the next: pairs, their duals, offsets, costs, and whether ascent crawled."""

    y: Pairs
    values: NDArray[np.float64]
    b: NDArray[np.float64]
    cost: NDArray[np.float64]
    crawled: bool = False

    def part(self, kept: NDArray[np.bool_]) -> WarmLabels:
        """For a fit of some of the rows."""
        entries = self.y.entries(kept)
        return WarmLabels(self.y.part(kept), self.values[entries], self.b, self.cost[entries])


@documented(
    without=["fit_intercept"],
    class_vectors_="One vector per class, for two classes too.",
    class_offsets_="One offset per class.",
)
class OneVsNoneSVC(LabelMatrices, MarginClassifier):
    r"""One versus None: a joint machine for multi-class and multi-label problems that needs no negatives.

    .. math:: \min_{W, b} \tfrac12 \sum_k \|w_k\|^2 + \alpha \sum_{k<l} w_k \cdot w_l
              + C \sum_{ik:\, t_{ik} \neq 0} v_{ik} \, [1 - t_{ik} s_{ik}]_+,
              \qquad s_{ik} = w_k \cdot x_i + b_k

    with :math:`\sum_k b_k = 0`. Each class pays for its own rows (t = 1) only: they should score at least 1. What keeps the
    classes apart is the penalty on the inner products of their vectors. So label sets that never occur in training can be
    predicted, and a class may have all rows as members. Rows known *not* to have a label (t = -1) may be told as well.

    Parameters
    ----------
    alpha : float, default=0.5
        Weight of the inner products of class vectors, ``-1/(c-1) < alpha < 1`` for c classes: outside, the objective is not
        convex or not bounded. (Equations 11 and 12 of the paper drop the 1/2: their weight is twice this one.)
    weights : {"soft", "hard"}, default="soft"
        "hard" drops the inner products and `alpha` and keeps the class vectors at sum zero.
    biases : {"hard", "soft"}, default="hard"
        "hard" keeps the offsets at sum zero; "soft" adds ``gamma_b * (sum_k b_k)^2`` instead.
    gamma_b : float or "scale", default="scale"
        For soft biases. "scale" is C times the total weight of all memberships, divided by the number of classes: W = 0,
        b = 1 costs only ``gamma_b c^2``, so a constant would make it the optimum for large C.
    threshold : float, "auto" or None, default=None
        For a label matrix: labels whose score reaches the threshold are predicted. None is 1 where zeros are unknown, with
        the label of the highest score if none reaches it; support rows score exactly 1, so scores below it by less than
        ``max(1e-6, 10 tol)`` count as reaching it. Where zeros are negative it is 0, and a row may have no label at all.
        "auto" chooses the threshold with the best mean Jaccard index of predicted and true label sets in 5-fold
        cross-validation.
    zeros : {"unknown", "negative"}, default="unknown"
        What a 0 in a label matrix (and every other class of 1-d y) says: nothing, as in the paper, or that the row has not
        the label. "negative" is the same as -1 in the place of every 0. Where the zeros are in truth negatives, the paper's
        machine is not told what it could learn from: see :class:`MultiLabelSVC`.
    solver : {"auto", "mm"}, default="auto"
        "auto" is coordinate ascent over pairs of rows and labels, ended by an interior point where that pays. "mm" is the
        majorisation of the paper, for comparison: it falls monotonically, but slowly.
    [parameters]

    Attributes
    ----------
    [attributes]
    threshold_ : float
        The threshold in use. Label matrices only.
    gamma_b_ : float
        The weight of the squared sum of the offsets in use. Soft biases only.
    support_by_class_ : list of ndarray
        For each class its own rows with a score of at most 1 (to tolerance): their numbers in X.
    origin_ : ndarray of shape (n_features,)
        The paper's origin x_0: scores are ``w_k . (x - x_0)``. Linear machines only.

    Notes
    -----
    ``fit`` takes 1-d y (multi-class: the highest score wins) or a label matrix Y of shape (n_samples, n_classes), dense or
    sparse, with 1 for "has the label", 0 for "unknown" and -1 for "known not to have it". A row of zeros says nothing and
    does not change a linear machine; a column without any 1 is an error: W = 0 would then be optimal. `class_weight` has the
    column numbers as keys. `predict` returns 0 and 1, in the type of Y, sparse if Y was.

    `score` is scikit-learn's accuracy: the share of rows whose label set is predicted exactly. If its Y holds -1, only the
    known entries count: the share of rows whose known entries are all right.

    With two classes and everything hard this is the binary SVM with C/2.

    References
    ----------
    H. Shajari and A. Rangarajan. A unified framework for multiclass and multilabel support vector machines. 2020.

    Examples
    --------
    No row has the second label alone, yet it can be predicted alone (the point of the paper's Table 3, on rows of our own):

    >>> from polymargin import OneVsNoneSVC
    >>> X = [[3, 0], [2, 0], [-2, 5], [-1, 4], [-2, 3], [4, 6]]
    >>> Y = [[1, 0], [1, 0], [1, 1], [1, 1], [1, 1], [1, 1]]
    >>> machine = OneVsNoneSVC(C=10.0).fit(X, Y)
    >>> machine.predict([[-4, 3], [-2, 4], [0, 3]]).tolist()
    [[0, 1], [1, 1], [1, 0]]
    """

    _trivial_machine = "has W = 0 and ignores X"
    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {"alpha": (0.0, 0.5)}
    _coarse = 1e-2  # nothing but the penalty ties its classes to each other: their scores settle late
    _compares_kernel = _has_active_rows = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        alpha: float = _DEFAULT_ALPHA,
        weights: str = "soft",
        biases: str = "hard",
        gamma_b: float | str = "scale",
        threshold: float | str | None = None,
        zeros: str = "unknown",
        solver: str = "auto",
        **common: Unpack[Common],
    ):
        super().__init__(C, **common)
        del self.fit_intercept  # the constant of the class is what counts
        self.alpha = alpha
        self.weights = weights
        self.biases = biases
        self.gamma_b = gamma_b
        self.threshold = threshold
        self.zeros = zeros
        self.solver = solver

    # ---- what the machine is ----------------------------------------------------------------------------------------

    _fixed_parameters = ("fit_intercept",)
    fit_intercept = True  # the biases are part of the machine
    zeros = "unknown"  # of machines from older files

    def _check_parameters(self) -> None:
        super()._check_parameters()
        validation.one_of("weights", self.weights, ("soft", "hard"))
        validation.one_of("biases", self.biases, ("soft", "hard"))
        validation.one_of("solver", self.solver, ("auto", "mm"))
        validation.number("alpha", self.alpha)
        if self.gamma_b != "scale":
            validation.positive("gamma_b", self.gamma_b, "or 'scale'")
        validation.one_of("zeros", self.zeros, ("unknown", "negative"))
        if self.threshold is not None and self.threshold != "auto":
            validation.number("threshold", self.threshold, "'auto' or None")
        if self.weights == "hard" and self.alpha != _DEFAULT_ALPHA:
            warnings.warn(f"alpha={self.alpha!r} has no effect on weights='hard'.", stacklevel=3)
        if self.biases == "hard" and self.gamma_b != "scale":
            warnings.warn(f"gamma_b={self.gamma_b!r} has no effect on biases='hard'.", stacklevel=3)

    def _check_alpha(self, n_classes: int) -> None:
        lowest = -1.0 / (n_classes - 1)
        if self.weights == "soft" and not lowest < self.alpha < 1.0:
            raise ValueError(
                f"alpha={self.alpha!r} is not valid: the objective is convex and bounded only for -1/(c-1) < alpha < 1, "
                f"here {lowest:.4g} < alpha < 1 with c = {n_classes} classes (in the scale of the paper's Equation 6)."
            )

    def _check_in_parts(self) -> None:
        raise ValueError(
            "OneVsNoneSVC is not for rows in parts: its penalty couples all class vectors, and its offsets share a sum, "
            "which ascent over parts does not know; use MultiLabelSVC(loss='relevance'), or rows that fit into memory."
        )

    def _penalty(self) -> Penalty:
        return CoupledNorm(float(self.alpha)) if self.weights == "soft" else ZeroSumNorm()

    def _problem(  # type: ignore[override]
        self, X: Any, y: Pairs, weight: NDArray[np.float64], n_classes: int
    ) -> LabelProblem:
        cost = np.ascontiguousarray(self.C * weight, dtype=np.float64)
        gamma_b = None
        if self.biases == "soft":
            gamma_b = float(cost[y.signs > 0].sum()) / n_classes if self.gamma_b == "scale" else float(self.gamma_b)
        return LabelProblem(X, y, cost, n_classes, self._penalty(), gamma_b)

    def _solve(self, problem: LabelProblem, ledger: Ledger, **settings: Any) -> Solution:  # type: ignore[override]
        return solve_labels(problem, ledger, majorise=self.solver == "mm", **settings)

    def _advice_if_trivial(self) -> str:
        return "a larger C, or CrammerSingerSVC or WestonWatkinsSVC, whose losses compare the classes of a row directly"

    # ---- targets ----------------------------------------------------------------------------------------------------

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        if not validation.is_label_matrix(y):
            return self._read_classes(X, y, sample_weight)
        weight = validation.sample_weights(sample_weight, X.shape[0])
        table = self._told(validation.as_signed(y))
        c, facts = table.shape[1], self._facts_of_matrix(y)
        self._check_alpha(c)
        kept = None if weight.all() else weight > 0
        if kept is not None:
            table, weight = table[kept], weight[kept]
        rows, labels = label_targets.members(table)  # a row counts once for each of its labels
        totals = np.bincount(labels, weights=weight[rows], minlength=c)
        if not totals.all():
            raise ValueError(
                f"y has no row with a 1 in the columns {self._names_of_labels(np.flatnonzero(totals == 0), c)!r}"
                f"{'' if kept is None else ' and a positive sample_weight'}: leave such labels out. Without a member the "
                "offset of a label is free, and W = 0 would be optimal for all of them."
            )
        per_class = validation.class_weights(self.class_weight, np.arange(c), labels, weight[rows])
        pairs = label_targets.pairs_of(table, None if kept is None else np.flatnonzero(kept))
        per_row = np.repeat(weight, np.diff(table.indptr))
        facts["threshold_"] = self._cut(self._kept_rows(X, kept), table, weight)
        pair_weight = per_row * per_class[pairs.labels]
        return Targets(np.arange(c), pairs, weight, pair_weight, kept, facts)  # type: ignore[arg-type]

    def _read_classes(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        targets = super()._read_targets(X, y, sample_weight)
        self._check_alpha(len(targets.classes))
        if self.threshold is not None:
            warnings.warn(
                f"threshold={self.threshold!r} has no effect on 1-d y, where the highest score wins.", stacklevel=4
            )
        kept = None if targets.kept is None else np.flatnonzero(targets.kept)
        table = self._told(label_targets.one_hot(targets.y, len(targets.classes)))
        facts = {**targets.facts, **self._facts_of_classes()}
        weight = np.repeat(targets.weight, np.diff(table.indptr))
        return targets._replace(y=label_targets.pairs_of(table, kept), weight=weight, facts=facts)  # type: ignore[arg-type]

    def _told(self, table: sparse.csr_array) -> sparse.csr_array:
        """The labels that the machine is told: zeros are left out, or known not to be members."""
        return table if self.zeros == "unknown" else label_targets.without_unknown(table)

    def _cut(self, X: Any, table: sparse.csr_array, weight: NDArray[np.float64]) -> float:
        """The threshold in use: as given, or by cross-validation on these rows."""
        if self.threshold is None:
            return 1.0 if self.zeros == "unknown" else 0.0
        if self.threshold != "auto":
            return float(self.threshold)
        from polymargin.estimators.fitting.cut import cross_validated_cut

        seed = validation.seed_of(self.random_state)

        def fit(rows: Any, Y: Any, row_weight: NDArray[np.float64], columns: NDArray[np.intp]) -> OneVsNoneSVC:
            plain: dict[str, Any] = {"threshold": None, "warm_start": False, "verbose": 0, "probability": False}
            machine = clone(self).set_params(random_state=seed, **plain)
            if isinstance(self.class_weight, dict):
                own = {k: self.class_weight[int(old)] for k, old in enumerate(columns) if int(old) in self.class_weight}
                machine.set_params(class_weight=own)
            with warnings.catch_warnings():  # the fit to all rows says what is wrong
                warnings.simplefilter("ignore")
                machine.fit(rows, Y, row_weight)
            return machine

        return cross_validated_cut(fit, X, table, weight, seed, self.kernel == "precomputed", self._allows_empty_sets)

    # ---- storing ----------------------------------------------------------------------------------------------------

    def _start_from(self, last: WarmLabels, problem: LabelProblem) -> Start | None:  # type: ignore[override]
        pairs = ((getattr(y, name) for y in (last.y, problem.y)) for name in ("starts", "labels", "signs"))
        if not all(np.array_equal(*both) for both in pairs) or len(last.b) != problem.n_classes:
            return None
        ratios = problem.cost / last.cost
        duals = SparseDuals(problem.y.starts, problem.y.labels, last.values * ratios)
        return Start(duals, last.b, crawled=last.crawled and bool((ratios >= 1.0).all()))

    def _leftover(self, problem: LabelProblem, solution: Solution) -> WarmLabels | None:  # type: ignore[override]
        if solution.duals is None:  # all solvers have them, unless they are interrupted
            return None
        return WarmLabels(problem.y, solution.duals.values, solution.start_b, problem.cost, solution.crawled)

    def _outcomes(self, targets: Targets) -> Outcomes:
        pairs: Pairs = targets.y  # type: ignore[assignment]
        if targets.facts["_label_type"] is None:
            own = pairs.signs > 0
            return ClassOutcomes(pairs.labels[own], targets.weight[own], len(targets.classes))
        signs = np.zeros((len(targets.sample_weight), len(targets.classes)), dtype=np.int8)
        rows = np.repeat(np.arange(len(signs)), np.diff(pairs.starts))
        signs[rows, pairs.labels] = pairs.signs
        if not (signs < 0).any():  # as everywhere where label sets are judged
            signs[signs == 0] = -1
        per_label = np.ones(signs.shape[1])
        per_label[pairs.labels] = targets.weight / targets.sample_weight[rows]
        return LabelOutcomes(signs, np.outer(targets.sample_weight, per_label))

    @property
    def _free_offsets(self) -> bool:
        return self.weights == "hard"  # class vectors at sum zero leave the sum of the offsets alone

    def _representative(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(b - b.mean()) if self.biases == "hard" else b  # their sum is part of the machine

    def _store(self, problem: LabelProblem, solution: Solution, offsets: NDArray[Any]) -> None:  # type: ignore[override]
        super()._store(problem, solution, offsets)  # type: ignore[arg-type]
        for name in ("gamma_b_",) if self._label_type is not None else ("gamma_b_", "threshold_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if problem.gamma_b is not None:
            self.gamma_b_ = problem.gamma_b
        scores = problem.pair_scores(solution.machine.W, np.asarray(offsets, dtype=np.float64))
        support = (scores <= 1.0 + self._slack) & (problem.y.signs > 0)
        labels, rows = problem.y.labels[support], problem.pair_rows[support]
        rows = rows if problem.y.row_numbers is None else problem.y.row_numbers[rows]
        order = np.argsort(labels, kind="stable")
        self._support_rows = rows[order]
        self._support_ends = np.bincount(labels, minlength=problem.n_classes).cumsum()

    @property
    def _slack(self) -> float:
        """How far from 1 a score may be that is 1 at the optimum."""
        return max(1e-6, 10.0 * self.tol)

    @property
    def _label_cut(self) -> Any:
        """The score from which a row has a label; None if the highest score wins."""
        if self._label_type is None:
            return None
        return self.threshold_ - (self._slack if self.zeros == "unknown" else 0.0)

    @property
    def _allows_empty_sets(self) -> bool:  # type: ignore[override]
        return self.zeros == "negative"

    @property
    def support_by_class_(self) -> list[NDArray[np.intp]]:
        """For each class its own rows with a score of at most 1 (to tolerance)."""
        self._fitted("_support_rows", "support_by_class_")
        return np.split(self._support_rows, self._support_ends[:-1])

    @property
    def origin_(self) -> NDArray[np.float64]:
        """Where all scores are 0, nearest to zero if there are several; the best in least squares if there is none.

        There is one where the class vectors are independent, so not, as a rule, with more classes than columns.
        """
        W = self._fitted("class_vectors_", "origin_")
        dense = np.asarray(W.toarray() if hasattr(W, "toarray") else W, dtype=np.float64)
        found = np.linalg.lstsq(dense, -self.class_offsets_.astype(np.float64), rcond=None)[0]
        return np.asarray(found, dtype=np.float64)

    def _problem_on(self, X: Any, y: Any, sample_weight: Any) -> LabelProblem:  # type: ignore[override]
        weight = validation.sample_weights(sample_weight, X.shape[0])
        c, table = len(self.classes_), self._told(self._table_like_fit(y))
        rows, labels = label_targets.members(table)
        per_class = validation.class_weights(self.class_weight, self.classes_, self.classes_[labels], weight[rows])
        pairs, counts = label_targets.pairs_of(table), np.diff(table.indptr)
        # classes weigh rows, labels weigh their own entries
        per_pair = np.repeat(per_class[labels], counts) if self._label_type is None else per_class[pairs.labels]
        problem = self._problem(X, pairs, np.repeat(weight, counts) * per_pair, c)
        return replace(problem, gamma_b=getattr(self, "gamma_b_", None))
