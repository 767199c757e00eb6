"""Several labels a row: a machine that is told who has not a label, too."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin import metrics, validation
from polymargin.calibration import ClassOutcomes, LabelOutcomes, Outcomes
from polymargin.estimators.base import Common, MarginClassifier, Targets
from polymargin.estimators.fitting import label_targets
from polymargin.estimators.fitting.out_of_fold import MANY, FoldFits, scaled, scores_left_out
from polymargin.estimators.parts.docs import documented
from polymargin.estimators.parts.label_matrices import LabelMatrices
from polymargin.losses.label_sets import SET_LOSSES, SetLoss
from polymargin.penalties import CoupledNorm, Penalty
from polymargin.problems.certificate import Ledger
from polymargin.problems.sets import LabelTable, SetProblem, label_table
from polymargin.selection.folds import label_folds
from polymargin.solvers import Solution, SparseDuals, Start, solve_sets

Array = NDArray[np.float64]

_CUTS = ("auto", "per_label")  # by cross-validation: one for all labels, or one for each
_MOST_LEFT_OUT = 20_000  # rows that cuts are chosen on
_MOST_NAMES = 10  # that a warning tells


class WarmSets(NamedTuple):
    """What a fit leaves to the next: label sets, signed duals, offsets, costs, and whether ascent crawled."""

    y: LabelTable
    duals: SparseDuals
    b: Array
    cost: Array
    loss: str
    crawled: bool = False

    def part(self, kept: NDArray[np.bool_], y: LabelTable) -> WarmSets:
        """For a fit of some of the rows, with their labels."""
        return WarmSets(y, self.duals.part(kept), self.b, self.cost[kept], self.loss)


@documented(
    class_vectors_="One vector per label.",
    class_offsets_="One offset per label. Of rankings they add up to zero.",
    class_weight="Weights of the labels, by column number: all entries of a label weigh so much more; in rankings a row "
    "weighs as much as its labels do on average. Of 1-d y they are weights of the rows of a class.",
    coef_="The same in scikit-learn's shapes: for two classes of 1-d y the differences. There are class vectors and `coef_` "
    "for the linear kernel only.",
)
class MultiLabelSVC(LabelMatrices, MarginClassifier):
    r"""Several labels a row, each known to be there or not.

    .. math:: \min_{W, b} \tfrac12 \|W\|_F^2 + C \sum_i v_i \, \ell(S_i, Y_i), \qquad s_{ik} = w_k \cdot x_i + b_k

    with one of these losses of a row, whose members are the labels in Y:

    - "relevance": :math:`\sum_k [1 - t_k s_k]_+`, t = 1 for members and -1 for the others. Each label is the binary SVM with
      an offset that is not penalised; labels share nothing but the rows, and are cut each by itself.
    - "squared_relevance": the same with squared hinges, as :class:`sklearn.svm.LinearSVC` has them.
    - "ranking": :math:`\sum_{k \in Y, l \notin Y} [1 - (s_k - s_l)]_+ / (|Y| |Y^c|)` (Elisseeff and Weston): members
      should score higher than the others.
    - "max_ranking": the worst of these pairs, :math:`\max_{k \in Y, l \notin Y} [1 - (s_k - s_l)]_+`.

    Parameters
    ----------
    loss : {"relevance", "squared_relevance", "ranking", "max_ranking"}, default="relevance"
    threshold : float, "auto", "per_label" or None, default=None
        Labels whose score reaches the threshold are predicted; a row may have none. "auto" is one threshold for all labels,
        "per_label" one for each, drawn towards the common one as far as that pays. Both are chosen for `metric` on rows left
        out: some coarse fits, each started from the whole one's duals, take about as long as the fit. None is 0 for
        "relevance" and "auto" for rankings, whose scores have no origin.
    metric : {"jaccard", "micro_f1", "macro_f1", "subset_accuracy"}, default="jaccard"
        What the threshold is chosen for.
    allow_empty : bool, default=None
        Whether a row none of whose labels reaches its threshold has none; if not, it has the label of the highest score.
        None: whichever is better for `metric` on the rows left out, if the threshold is chosen on such; otherwise True.
    [parameters]

    Attributes
    ----------
    [attributes]
    threshold_ : float or ndarray of shape (n_classes,)
        The threshold in use. Label matrices only.
    allow_empty_ : bool
        Whether rows may be predicted to have no label. Label matrices only.
    threshold_score_ : float
        If it was chosen: the `metric` of the rows left out, at the chosen threshold; of one for each label that of halves of
        them, by thresholds of the other half. It tells which C is better, and is no exact forecast.
    constant_labels_ : ndarray
        Labels that all rows of the fit have, or none has: kept, with a warning, as constants.

    Notes
    -----
    ``fit`` takes a label matrix Y of shape (n_samples, n_classes), dense or sparse, with 1 for "has the label" and 0 for
    "has it not". If it holds -1, these are the labels that a row has not, and 0 is unknown: no part of the loss, and of no
    measure. `predict` returns 0 and 1, in the type of Y, sparse if Y was. 1-d y is taken as one label a row, and the highest
    score wins: one-versus-rest, Weston and Watkins' machine with C / (c - 1), or Crammer and Singer's.

    `score` is the share of rows whose label set is predicted exactly (subset accuracy), of known entries only if its Y holds
    -1; :func:`polymargin.metrics.known_label_scorer` has other measures for model selection.

    References
    ----------
    A. Elisseeff and J. Weston. A kernel method for multi-labelled classification. NIPS 2001.

    Examples
    --------
    >>> from polymargin import MultiLabelSVC
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 0.2], [0.8, 1]]
    >>> Y = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]]
    >>> machine = MultiLabelSVC(C=10.0).fit(X, Y)
    >>> machine.predict([[0.1, 0.1], [0.9, 0], [0.1, 0.9]]).tolist()
    [[0, 0], [1, 0], [0, 1]]
    """

    _trivial_machine = "ignores X"
    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {"loss": ("relevance", "squared_relevance")}
    _coarse = 3e-2  # of each label
    _compares_kernel = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "relevance",
        threshold: float | str | None = None,
        metric: str = "jaccard",
        allow_empty: bool | None = None,
        **common: Unpack[Common],
    ):
        super().__init__(C, **common)
        self.loss = loss
        self.threshold = threshold
        self.metric = metric
        self.allow_empty = allow_empty

    # ---- what the machine is ----------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        validation.one_of("loss", self.loss, tuple(SET_LOSSES))
        validation.one_of("metric", self.metric, metrics.OF_CUTS)
        if self.threshold is not None and self.threshold not in _CUTS:
            validation.number("threshold", self.threshold, "'auto', 'per_label' or None")
        if self.allow_empty is not None:
            validation.flag("allow_empty", self.allow_empty)

    def _check_in_parts(self) -> None:
        if self._ranks:
            raise ValueError(
                f"loss={self.loss!r} is not for rows in parts: it compares the labels of a row, and parts solve every label "
                "by itself; use loss='relevance' or 'squared_relevance'."
            )
        if self._chooses_threshold:
            raise ValueError(
                f"threshold={self.threshold!r} is not for rows in parts: it is chosen by fits of folds; give a number, or "
                "choose it on rows that fit into memory."
            )

    def _loss(self) -> SetLoss:  # type: ignore[override]
        return SET_LOSSES[self.loss]()

    def _penalty(self) -> Penalty:
        return CoupledNorm(0.0)  # 1/2 |W|^2, of vectors that need not add up to zero

    def _problem(  # type: ignore[override]
        self, X: Any, y: LabelTable, weight: Array, n_classes: int
    ) -> SetProblem:
        cost = np.ascontiguousarray(self.C * weight, dtype=np.float64)
        return SetProblem(X, y, cost, n_classes, self._loss(), self._penalty(), self.fit_intercept)

    def _solve(self, problem: SetProblem, ledger: Ledger, **settings: Any) -> Solution:  # type: ignore[override]
        return solve_sets(problem, ledger, **settings)

    def _advice_if_trivial(self) -> str:
        return "a larger C, or for one label a row WestonWatkinsSVC, which compares the classes of a row directly"

    @property
    def _ranks(self) -> bool:
        """Whether one number added to all offsets changes nothing."""
        return not SET_LOSSES[self.loss].splits

    def _representative(self, b: Array) -> Array:
        return np.asarray(b - b.mean()) if self._ranks else b

    # ---- targets ----------------------------------------------------------------------------------------------------

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        if not validation.is_label_matrix(y):
            return self._read_classes(X, y, sample_weight)
        weight = validation.sample_weights(sample_weight, X.shape[0])
        table = validation.as_signed(y)
        others = _meaning_of_zero(table)  # with the rows of weight 0: what y means does not depend on weights
        kept = None if weight.all() else weight > 0
        if kept is not None:
            table, weight = table[kept], weight[kept]
        if not (table.data > 0).any():
            raise ValueError(f"y has no 1: {type(self).__name__} needs a row of positive weight that has a label.")
        labels, row_weight = self._weighted(table, weight, others)
        facts = {**self._facts_of_matrix(y), "constant_labels_": self._constants(labels, weight)}
        if not self._chooses_threshold:
            facts["threshold_"] = 0.0 if self.threshold is None else float(self.threshold)
            facts["allow_empty_"] = self.allow_empty is not False
        return Targets(np.arange(table.shape[1]), labels, weight, row_weight, kept, facts)  # type: ignore[arg-type]

    def _weighted(self, table: sparse.csr_array, weight: Array, others: int) -> tuple[LabelTable, Array]:
        """The table with the weights of the labels, and the weights of the rows."""
        c = table.shape[1]
        rows, members = label_targets.members(table)
        per_label = validation.class_weights(self.class_weight, np.arange(c), members, weight[rows])
        if not self._ranks:
            return label_table(table, per_label, others=others), weight
        counts = np.bincount(rows, minlength=len(weight))
        means = np.bincount(rows, per_label[members], len(weight)) / np.maximum(counts, 1)
        return label_table(table, np.ones(c), others=others), weight * np.where(counts > 0, means, 1.0)

    def _constants(self, labels: LabelTable, weight: Array) -> NDArray[np.intp]:
        """Labels that all rows have, or none; a warning names them."""
        have, have_not = labels.counts(weight)
        found = np.flatnonzero((have == 0.0) | (have_not == 0.0))
        if len(found):
            names = self._names_of_labels(found[:_MOST_NAMES], labels.n_labels)
            more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
            warnings.warn(
                f"{len(found)} of {labels.n_labels} labels are the same for all rows, so nothing can be learned about them: "
                f"{', '.join(map(str, names))}{more}. They are kept as constants.",
                UserWarning,
                stacklevel=4,
            )
        return found

    def _read_classes(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        targets = super()._read_targets(X, y, sample_weight)
        if self.threshold is not None:
            warnings.warn(
                f"threshold={self.threshold!r} has no effect on 1-d y, where the highest score wins.", stacklevel=4
            )
        table = label_targets.one_hot(targets.y, len(targets.classes))
        labels = label_table(table, np.ones(len(targets.classes)), others=-1, single=True)
        facts = {**targets.facts, **self._facts_of_classes()}
        return targets._replace(y=labels, facts=facts)  # type: ignore[arg-type]

    def _problem_on(self, X: Any, y: Any, sample_weight: Any) -> SetProblem:  # type: ignore[override]
        weight = validation.sample_weights(sample_weight, X.shape[0])
        table = self._table_like_fit(y)
        if self._label_type is not None:
            labels, weight = self._weighted(table, weight, _meaning_of_zero(table))
        else:
            labels = label_table(table, np.ones(len(self.classes_)), others=-1, single=True)
            indices = np.searchsorted(self.classes_, y)
            weight = weight * validation.class_weights(self.class_weight, self.classes_, y, weight)[indices]
        return self._problem(X, labels, weight, len(self.classes_))

    # ---- thresholds and probabilities -------------------------------------------------------------------------------

    @property
    def _chooses_threshold(self) -> bool:
        return self.threshold in _CUTS or (self.threshold is None and self._ranks)

    def _calibrated(self, fits: FoldFits, outcomes: Outcomes | None) -> dict[str, Any]:
        """Thresholds and probabilities, from the scores of the same rows left out."""
        problem, seed = fits.problem, fits.settings["seed"]
        if problem.y.single or not self._chooses_threshold:
            return super()._calibrated(fits, outcomes)
        if fits.solution.certificate.status == "interrupted":
            return {"threshold_": 0.0, "allow_empty_": self.allow_empty is not False}
        folds = label_folds(problem.y.stored > 0, MANY, seed)
        scores, seen = scores_left_out(fits, folds, _MOST_LEFT_OUT)
        if not seen.any():
            raise ValueError(
                f"threshold={self.threshold!r} needs labels that at least two rows have each; set threshold to a number."
            )
        facts = self._thresholds(scores[seen], problem.y.part(seen), problem.cost[seen], seed)
        return facts if outcomes is None else facts | scaled(scores[seen], outcomes.part(seen), seed)

    def _thresholds(self, scores: Array, labels: LabelTable, weight: Array, seed: int) -> dict[str, Any]:
        from polymargin.estimators.fitting.cut import chosen_cut, steady_cuts

        Y = labels.dense(slice(0, labels.n_rows))
        ways = (True, False) if self.allow_empty is None else (bool(self.allow_empty),)
        if self.threshold == "per_label":
            found = steady_cuts(scores, Y, weight, self.metric, seed, ways)
        else:
            found = chosen_cut(scores, Y, weight, self.metric, ways)
        return {"threshold_": found.cuts, "threshold_score_": found.value, "allow_empty_": found.allow_empty}

    def _outcomes(self, targets: Targets) -> Outcomes:
        labels: LabelTable = targets.y  # type: ignore[assignment]
        if labels.single:
            return ClassOutcomes(labels.labels, targets.weight, labels.n_labels)
        signs = labels.dense(slice(0, labels.n_rows))
        return LabelOutcomes(signs, np.outer(targets.sample_weight, labels.label_weight))

    # ---- storing ----------------------------------------------------------------------------------------------------

    def _start_from(self, last: WarmSets, problem: SetProblem) -> Start | None:  # type: ignore[override]
        if last.loss != problem.loss.name or not last.y.same_as(problem.y) or len(last.b) != problem.n_classes:
            return None
        duals, old, new = last.duals, last.y.label_weight, problem.y.label_weight
        ratio = (problem.cost / last.cost)[duals.rows] * (new / old)[duals.classes]
        crawled = last.crawled and bool((ratio >= 1.0).all())
        return Start(duals._replace(values=duals.values * ratio), last.b, crawled=crawled)

    def _leftover(self, problem: SetProblem, solution: Solution) -> WarmSets | None:  # type: ignore[override]
        if solution.duals is None:
            return None
        return WarmSets(problem.y, solution.duals, solution.start_b, problem.cost, problem.loss.name, solution.crawled)

    def _leftover_of_part(  # type: ignore[override]
        self, last: WarmSets, kept: NDArray[np.bool_], part: SetProblem
    ) -> WarmSets:
        return last.part(kept, part.y)

    def _store(self, problem: SetProblem, solution: Solution, offsets: NDArray[Any]) -> None:  # type: ignore[override]
        super()._store(problem, solution, offsets)  # type: ignore[arg-type]
        outdated = ("threshold_", "threshold_score_", "allow_empty_", "constant_labels_") if self._label_type is None else ()
        for name in outdated:
            self.__dict__.pop(name, None)  # of an earlier fit
        if not self._chooses_threshold:
            self.__dict__.pop("threshold_score_", None)

    @property
    def _label_cut(self) -> Any:
        """The score from which a row has a label; None if the highest score wins."""
        return None if self._label_type is None else self.threshold_

    @property
    def _allows_empty_sets(self) -> bool:  # type: ignore[override]
        return bool(getattr(self, "allow_empty_", True))  # files of older versions have none


def _meaning_of_zero(table: sparse.csr_array) -> int:
    """0, unknown, beside a -1; otherwise -1, not to have the label."""
    return 0 if (table.data < 0).any() else -1
