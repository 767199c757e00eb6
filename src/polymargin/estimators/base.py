"""What all machines share: validate -> problem -> solve -> arrays on self."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from polymargin import validation
from polymargin.calibration import ClassOutcomes, Outcomes
from polymargin.estimators.fitting.out_of_fold import FoldFits, calibrated
from polymargin.estimators.fitting.returned import as_returned, solve_near_zero, solver_tolerance
from polymargin.estimators.fitting.thinned import objective_of
from polymargin.estimators.parts.array_libraries import any_arrays
from polymargin.estimators.parts.keywords import OwnKeywords
from polymargin.estimators.parts.onnx_hooks import OnnxHooks
from polymargin.estimators.parts.probabilities import AVERAGED, CALIBRATION, Probabilities
from polymargin.estimators.parts.support import LinearSupport
from polymargin.estimators.parts.top_scores import BLOCK_ENTRIES, TopPredictions, score_type
from polymargin.estimators.parts.vectors import LinearVectors
from polymargin.losses import ScoreLoss
from polymargin.penalties import Penalty
from polymargin.problems.certificate import Ledger
from polymargin.problems.classes import Problem
from polymargin.problems.progress_lines import with_progress
from polymargin.solvers import Solution, SparseDuals, Start, solve
from polymargin.solvers.types import Passed

if TYPE_CHECKING:  # loaded with the first kernel machine: they need much of scikit-learn
    from polymargin.estimators.kernels.expansion import Expansion
    from polymargin.features.kernel_map import KernelMap


class Warm(NamedTuple):
    """What a fit leaves to the next: feasible duals, the solver's offsets, the costs, whether ascent crawled, the bound.

    `of` is what else a machine needs to know, `before` what the fit before it left, if a path goes on from there.
    """

    duals: SparseDuals
    b: NDArray[np.float64]
    cost: NDArray[np.float64]
    crawled: bool
    dual: float
    of: Any = None
    before: Warm | None = None

    def part(self, kept: NDArray[np.bool_]) -> Warm:
        """For a fit of some of the rows to a coarser tolerance, where ascent need not crawl."""
        return self._replace(duals=self.duals.part(kept), cost=self.cost[kept], crawled=False, before=None)

    def after(self, before: Any) -> Warm:
        """The same with what the fit before it left."""
        return self._replace(before=before._replace(before=None)) if isinstance(before, Warm) else self

    def passed(self, problem: Problem) -> tuple[Passed, Passed] | None:
        """The one before this and this one, as they look from a problem whose costs are multiples of theirs."""
        first, last = self.before, self
        if first is None or len(first.b) != problem.n_classes or not problem.takes(first.duals):
            return None
        one, two = _multiple_of(problem.cost, first.cost), _multiple_of(problem.cost, last.cost)
        if one is None or two is None or one == two:
            return None
        return Passed(first.duals, first.b, first.dual, one), Passed(last.duals, last.b, last.dual, two)


_CALLER = 5  # levels from what `fit` calls to who called it, through the two wrappers of `fit`
_OTHER_COSTS = 0.1  # relative: duals of costs that differ by less are multiplied, and that is all
_OF_ONE_FIT = (  # and of one kind of machine
    *("class_vectors_", "_support_bits", "n_support_", "_warm", "_kept_duals"),
    *("dual_coef_", "support_", "support_vectors_", "_gamma", "_penalty_value"),
)


class Targets(NamedTuple):
    """Rows of positive weight: their classes, class indices and weights."""

    classes: NDArray[Any]
    y: NDArray[np.int32]
    sample_weight: NDArray[np.float64]
    weight: NDArray[np.float64]  # sample weight times class weight
    kept: NDArray[np.bool_] | None  # None if all rows are kept
    facts: dict[str, Any]  # what the fitted machine remembers of y: attributes by name


class Common(TypedDict, total=False):
    """The parameters of all machines besides C, for those with more of their own: ``**common: Unpack[Common]``."""

    kernel: str
    gamma: float | str
    degree: int
    coef0: float
    n_components: int | None
    fit_intercept: bool
    tol: float
    max_iter: int
    class_weight: Any
    warm_start: bool
    n_jobs: int | None
    verbose: int
    random_state: Any
    on_interrupt: str
    probability: bool | str


class MarginClassifier(
    Probabilities, ClassifierMixin, TopPredictions, LinearVectors, LinearSupport, OnnxHooks, OwnKeywords, BaseEstimator
):
    """Base of the linear many-class machines. Subclasses name their loss and penalty."""

    _fixed_parameters: ClassVar[tuple[str, ...]] = ()  # parameters of other machines that are attributes of this class

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A constructor with ``**common`` shows all its parameters, as scikit-learn reads them from the signature."""
        super().__init_subclass__(**kwargs)
        own = inspect.signature(cls.__init__)
        if any(p.kind is p.VAR_KEYWORD for p in own.parameters.values()):
            common = inspect.signature(super(cls, cls).__init__).parameters
            named = {name: p for name, p in own.parameters.items() if p.kind is not p.VAR_KEYWORD}
            merged = named | dict(common) | named
            shown = [p for name, p in merged.items() if name not in cls._fixed_parameters]
            cls.__init__.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_components: int | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        class_weight: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        on_interrupt: str = "raise",
        probability: bool | str = False,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.on_interrupt = on_interrupt
        self.probability = probability

    _warm: Any  # what a fit leaves to the next, if warm_start: a `Warm`, or what suits the machine's solver
    _trivial_machine = "gives all classes the same score"  # as the warning about a trivial solution calls it
    _has_kernel_dual = False  # whether solvers/ascent/kernels/dual.py solves this loss and penalty
    _has_active_rows = False  # or else estimators/kernels/active_rows.py, as few rows have duals
    _grid: ClassVar[dict[str, tuple[Any, ...]]] = {}  # own parameters with values to try, for comparisons
    _coarse = 0.1  # relative gap of machines that score rows left out, for probabilities: another digit changes nothing
    _is_compared = True  # whether comparisons try it
    _compares_kernel = False  # whether comparisons try it with a Gaussian kernel too

    # ---- what a machine is ------------------------------------------------------------------------------------

    def _loss(self) -> ScoreLoss:
        raise NotImplementedError

    def _penalty(self) -> Penalty:
        raise NotImplementedError

    def _solve(self, problem: Problem, ledger: Ledger, **settings: Any) -> Solution:
        """How the machine is solved; `settings` are those of :func:`polymargin.solvers.solve`."""
        return solve(problem, ledger, **settings)

    def _advice_if_trivial(self) -> str:
        """What to try when the optimum gives all classes the same score."""
        return "a larger C"

    # ---- fitting ------------------------------------------------------------------------------------------------

    @any_arrays
    @with_progress
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MarginClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
            float32 and float64 are used as they are; sparse matrices are not made dense (only the interior point that
            ends small, badly conditioned problems works on a dense copy of at most 40 MB).
            :class:`polymargin.distributed.Parts` for rows that do not fit into memory.
        y : array of shape (n_samples,)
            Class labels of any kind; None with Parts, which have their own.
        sample_weight : array of shape (n_samples,), default=None
            Non-negative weights; a weight of 2 counts as the row twice, rows of weight 0 are left out.

        Returns
        -------
        self
        """
        if hasattr(type(X), "opened"):  # the rows are elsewhere, and their classes with them
            from polymargin.estimators.fitting.in_parts import fit_elsewhere

            fit_elsewhere(self, X)
            return self
        self._check_parameters()
        with validation.naming_text_columns(X):
            X, y = self._validated(X, y)
        largest = validation.check_magnitude(X, type(self).__name__)
        targets = self._read_targets(X, y, sample_weight)
        rows, kept = _canonical(self._kept_rows(X, targets.kept)), targets.kept
        seed = validation.seed_of(self.random_state)
        mapping = None if self.kernel == "linear" else self._kernel_map(seed)
        features = rows if mapping is None else self._features(mapping, rows, targets)
        implicit = features is None
        problem = self._problem(rows if implicit else features, targets.y, targets.weight, len(targets.classes))
        problem = self._with_classes(problem, targets.classes)
        if self.probability == AVERAGED:
            self._check_averages(problem)
        if features is X:
            vars(problem)["largest"] = largest  # saves a pass over the rows
        facts = targets.facts
        outcomes = self._outcomes(targets) if self.probability else None
        del targets  # its weights live on in the problem's costs
        tol = solver_tolerance(self.tol, problem.X.dtype)
        solve = partial(solve_near_zero, self._solve, free_offsets=self._free_offsets)
        settings: dict[str, Any] = {
            "max_iter": validation.iterations(self.max_iter),
            "seed": seed,
            "n_threads": validation.thread_count(self.n_jobs),
        }
        if np.isinf(self.C):
            from polymargin.estimators.fitting.hard_margin import hard_margin

            facts["C_"], problem, start = hard_margin(problem, solve, type(self).__name__, tol, **settings)
        else:
            start = self._warm_start(problem) if self.warm_start else None
        settings["start"] = start
        ledger = Ledger(tol, self.verbose, type(self).__name__, problem.rounding_at)
        ledger.keeps_interrupted = self.on_interrupt == "keep"
        if mapping is None:
            solution = solve(problem, ledger, **settings)
            folds = self._fold_fits(problem, solution, None, settings)
            facts |= self._calibrated(folds, outcomes)
            solution = folds.with_mean_machine()
            end = as_returned(problem, solution, self._representative(solution.machine.b), self.tol)
            self._learn(facts)  # not before: an interrupted fit leaves the last machine whole
            self._store(problem, solution._replace(certificate=end.certificate), end.offsets)
            self.class_vectors_ = end.vectors
            self._store_support(problem, solution, kept)
        else:
            ends: dict[str, Any] = {"tol": self.tol, "representative": self._representative}
            solution, expansion = self._by_kernel(implicit)(solve, problem, ledger, mapping, rows, **settings, **ends)
            folds = self._fold_fits(problem, solution, mapping if implicit else None, settings)
            facts |= self._calibrated(folds, outcomes)
            self._learn(facts)
            seen = problem if expansion.coordinates is None else replace(problem, X=expansion.coordinates)
            self._store(seen, solution, expansion.b)
            self._store_expansion(rows, kept, mapping, problem, expansion)
        self._say_what_is_wrong(problem, largest)
        return self

    def _check_parameters(self) -> None:
        validation.weight_of_loss(self.C)
        validation.positive("tol", self.tol, "a relative duality gap, for example 1e-4")
        validation.iterations(self.max_iter)
        if not isinstance(self.verbose, bool):
            validation.whole("verbose", self.verbose, 0, "0 is silent")
        validation.flag("fit_intercept", self.fit_intercept)
        validation.flag("warm_start", self.warm_start)
        validation.flag("probability", self.probability, AVERAGED)
        validation.one_of("on_interrupt", self.on_interrupt, ("raise", "keep"))
        validation.thread_count(self.n_jobs)
        validation.check_kernel(self.kernel, self.gamma, self.degree, self.coef0, self.n_components)
        if self.n_components is not None and self.kernel == "linear":
            warnings.warn(f"n_components={self.n_components!r} has no effect on kernel='linear'.", stacklevel=_CALLER)

    def _check_averages(self, problem: Any) -> None:
        """The mean of machines is one of them: class vectors have means, and near one minimum they mean something."""
        if self.kernel != "linear":
            why = f"kernel={self.kernel!r} has no class vectors to average; map the rows first, e.g. with sklearn's Nystroem"
        elif not problem.is_convex:
            why = f"{type(self).__name__} is not convex, and between two minima may lie anything"
        else:
            return
        raise ValueError(f"probability={AVERAGED!r} is not valid here: {why}, or use probability=True.")

    def _check_in_parts(self) -> None:
        """Parameters that fits of parts do not take, beside those of all machines."""

    def _validated(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Any]:
        """X and y as the core needs them."""
        if reset and validation.are_plain(X, y):  # for small fits scikit-learn's checks take as long as the solver
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = X.shape[1]
            return X, y
        return validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            accept_large_sparse=True,
            reset=reset,
        )

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        """Classes, and class indices and weights of the rows that count."""
        counted = validation.counted_classes(y)
        if counted is None:
            check_classification_targets(y)
        weight = validation.sample_weights(sample_weight, X.shape[0])
        classes, indices = np.unique(y, return_inverse=True) if counted is None else counted
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least 2 classes in y; got 1 class: {classes.tolist()[0]!r}."
            )
        kept = None if weight.all() else weight > 0
        if kept is not None:
            empty = np.setdiff1d(np.arange(len(classes)), indices[kept])
            if len(empty):
                names = ", ".join(repr(name) for name in classes[empty].tolist())
                raise ValueError(
                    f"sample_weight is 0 for all rows of class {names}; give it a row of positive weight or leave the "
                    "class out of y."
                )
            indices, weight = indices[kept], weight[kept]
        weighted = weight
        if self.class_weight is not None:
            weighted = weight * validation.class_weights(self.class_weight, classes, classes[indices], weight)[indices]
        return Targets(classes, indices.astype(np.int32), weight, weighted, kept, {"classes_": classes})

    def _kept_rows(self, X: Any, kept: NDArray[np.bool_] | None) -> Any:
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"kernel='precomputed' needs a square matrix in fit; X has shape {X.shape}.")
        if kept is None:
            return X
        return X[kept][:, kept] if self.kernel == "precomputed" else X[kept]

    def _kernel_map(self, seed: int | None = None) -> KernelMap:
        from polymargin.features.kernel_map import KernelMap

        return KernelMap(self.kernel, self.gamma, self.degree, self.coef0, self.n_components, seed)

    def _features(self, mapping: KernelMap, rows: Any, targets: Targets) -> Any:
        """Rows of the kernel's features; None if the machine is solved on the kernel itself."""
        if (self._has_kernel_dual or self._has_active_rows) and not np.isinf(self.C):
            from polymargin.estimators.kernels.expansion import features_or_none

            features = features_or_none(mapping, rows, targets.sample_weight, len(targets.classes))
        else:
            features = mapping.fit_transform(rows, targets.sample_weight)
        if features is not None and mapping.cut_:
            warnings.warn(
                f"kernel={self.kernel!r} is not positive semi-definite on these rows: {type(self).__name__} is fitted on "
                f"its semi-definite part, without {mapping.cut_:.2g} of it (by absolute eigenvalues). A smaller gamma "
                "leaves less out.",
                UserWarning,
                stacklevel=_CALLER,
            )
        return features

    def _by_kernel(self, implicit: bool) -> Callable[..., tuple[Solution, Expansion]]:
        """What solves on a kernel: `implicit` without a map of all rows."""
        from polymargin.estimators.kernels import active_rows, expansion

        if not implicit:
            return expansion.solve_and_expand
        return expansion.solve_by_kernel_dual if self._has_kernel_dual else active_rows.solve_on_active_rows

    @property
    def _free_offsets(self) -> bool:
        """Whether all offsets cost nothing, so that a shift of the columns changes nothing but them."""
        return self.fit_intercept

    def _problem(self, X: Any, y: NDArray[np.int32], weight: NDArray[np.float64], n_classes: int) -> Problem:
        return Problem(
            X=X,
            y=y,
            cost=np.ascontiguousarray(weight if np.isinf(self.C) else self.C * weight, dtype=np.float64),
            n_classes=n_classes,
            loss=self._loss(),
            penalty=self._penalty(),
            fit_intercept=self.fit_intercept,
            n_threads=validation.thread_count(self.n_jobs),
        )

    def _with_classes(self, problem: Problem, classes: NDArray[Any]) -> Problem:
        """The problem with what parameters say of single classes, for machines that have such."""
        return problem

    def _warm_start(self, problem: Problem) -> Any:
        """Where a fit starts that goes on from the last one; None if there is none, or it was of other data."""
        last = vars(self).get("_warm")
        return None if last is None else self._start_from(last, problem)

    def _start_from(self, last: Any, problem: Problem) -> Any:
        """The duals of an earlier fit, scaled with the costs so that they stay feasible; None if they are of other data."""
        if len(last.cost) != problem.n_rows or len(last.b) != problem.n_classes:
            return None
        duals = last.duals
        if not problem.takes(duals):
            return None
        ratios = problem.cost / last.cost
        scaled = duals._replace(values=duals.values * ratios[duals.rows])
        # where ascent crawled it would crawl again, unless the costs have fallen
        crawled = last.crawled and float(problem.cost.sum()) >= float(last.cost.sum())
        rescaled = bool(np.any(np.abs(ratios - 1.0) > _OTHER_COSTS))
        return Start(scaled, last.b, crawled=crawled, rescaled=rescaled, passed=last.passed(problem))

    def _leftover(self, problem: Problem, solution: Solution) -> Any:
        """What `_start_from` needs of a fit; None if it left nothing to start from."""
        if solution.duals is None:
            return None
        return Warm(solution.duals, solution.start_b, problem.cost, solution.crawled, solution.certificate.dual)

    def _leftover_of_part(self, last: Any, kept: NDArray[np.bool_], part: Problem) -> Any:
        """The same for a fit of some of the rows."""
        return last.part(kept)

    def _outcomes(self, targets: Targets) -> Outcomes:
        """What probabilities are to agree with: classes, or label sets, and their weights."""
        return ClassOutcomes(targets.y, targets.weight, len(targets.classes))

    def _fold_fits(self, problem: Any, solution: Solution, kernel: KernelMap | None, settings: Any) -> FoldFits:
        """Fits of parts of the problem that was solved; `kernel` if there is no map of its features."""
        return FoldFits(self, problem, solution, kernel, settings, averages=self.probability == AVERAGED)

    def _calibrated(self, fits: FoldFits, outcomes: Outcomes | None) -> dict[str, Any]:
        """The scaling of scores to probabilities, as attributes by name."""
        if outcomes is None or fits.solution.certificate.status == "interrupted":
            return {}
        return calibrated(fits, outcomes)

    def _learn(self, facts: dict[str, Any]) -> None:
        """Attributes by name; what an earlier fit knew of probabilities, or of a hard margin, is forgotten."""
        for name in (*CALIBRATION, "C_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(facts)

    def _store(self, problem: Problem, solution: Solution, offsets: NDArray[Any]) -> None:
        before = vars(self).get("_warm")
        for name in _OF_ONE_FIT:
            self.__dict__.pop(name, None)
        self.class_offsets_ = offsets
        self.certificate_ = solution.certificate
        self.objective_ = solution.certificate.primal
        self.n_iter_ = solution.certificate.n_iter
        if self.warm_start and (last := self._leftover(problem, solution)) is not None:
            # the one attribute that is neither saved nor left on a path
            self._warm = last.after(before) if isinstance(last, Warm) else last

    def _representative(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Offsets as they are reported: a constant added to all of them changes no margin."""
        return np.asarray(b - b.mean())

    def _store_expansion(
        self, rows: Any, kept: NDArray[np.bool_] | None, mapping: KernelMap, problem: Problem, expansion: Expansion
    ) -> None:
        self.support_ = expansion.support if kept is None else np.flatnonzero(kept)[expansion.support]
        self.support_vectors_ = np.empty((0, 0)) if self.kernel == "precomputed" else rows[expansion.support]
        self.n_support_ = problem.support_counts(expansion.support)
        self.dual_coef_ = np.ascontiguousarray(expansion.A.T)
        self._gamma, self._penalty_value = mapping.gamma_, expansion.penalty

    def _say_what_is_wrong(self, problem: Problem, largest: float) -> None:
        certificate = self.certificate_
        name, scaling = type(self).__name__, _scaling_advice(largest)
        if not certificate.converged and certificate.status != AVERAGED:
            warnings.warn(self._not_converged() + scaling, ConvergenceWarning, stacklevel=_CALLER)
        elif self._is_trivial(problem):
            warnings.warn(
                f"{name} found a trivial solution: {self._trivial_finding(problem)}. Try {self._advice_if_trivial()}."
                + scaling,
                UserWarning,
                stacklevel=_CALLER,
            )
        elif scaling:
            warnings.warn(f"{name} was fitted on badly scaled data." + scaling, UserWarning, stacklevel=_CALLER)

    def _not_converged(self) -> str:
        """One sentence with gap and tolerance, and what to do."""
        end = self.certificate_
        what = "was interrupted" if end.status == "interrupted" else "stopped"
        return (
            f"{type(self).__name__} {what} after {end.n_iter} iterations with {self._shortfall()} (objective "
            f"{end.primal:.6g}, the {end.bounds} is at least {end.dual:.6g}). Raise max_iter, scale the columns of X "
            "(StandardScaler) or lower C."
        )

    def _shortfall(self) -> str:
        """What a fit that ended early has missed."""
        return f"a relative duality gap of {self.certificate_.rel_gap:.2e}, above tol={self.tol:g}"

    def _is_trivial(self, problem: Problem) -> bool:
        return self.certificate_.dual >= 0.999 * problem.trivial_value()

    def _trivial_finding(self, problem: Problem) -> str:
        """What makes the machine trivial; where this is said, the bound proves it."""
        return f"with C={self.C:g} no machine is better by more than 0.1 % than one that {self._trivial_machine}"

    # ---- using the fitted machine -----------------------------------------------------------------------------------

    @any_arrays
    def decision_function(self, X: Any, top: int | None = None) -> Any:
        """Scores of the classes, or the best of them.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
        top : int, default=None
            How many classes a row to return, the best; None returns all. With many classes it takes far less memory.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes the score of ``classes_[1]`` minus that of ``classes_[0]``.
        TopScores
            With `top`: ``scores`` and ``classes``, each of shape (n_samples, top), best first, ties to the lower class. The
            scores are those of the single classes, for two classes too.
        """
        X = self._rows_to_score(X)
        if top is not None:
            return self._top_scores(X, "top", top)
        scores = self._scores_of(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _scores_of(self, X: Any) -> NDArray[Any]:
        """Scores of validated rows in scikit-learn's shape, but for a column of its own for two classes."""
        vectors = self.coef_ if self.kernel == "linear" else self._shaped(self.dual_coef_)
        return self._scores(X, vectors, self.intercept_).astype(score_type(X, vectors, self.kernel), copy=False)

    def _scores(self, X: Any, vectors: Any, offsets: NDArray[Any]) -> NDArray[Any]:
        """Scores of class vectors, or of coefficients of the support rows, in blocks where arrays would have to be converted
        or a large kernel matrix come into being."""
        if self.kernel == "linear":
            if X.dtype == vectors.dtype or sparse.issparse(X) or sparse.issparse(vectors):
                return np.asarray(safe_sparse_dot(X, vectors.T, dense_output=True)) + offsets
            return _in_blocks(lambda block: block @ vectors.T + offsets, X, X.shape[1])
        if self.kernel == "precomputed":
            return np.asarray(X[:, self.support_] @ vectors.T) + offsets
        mapping, X = self._kernel_map(), _canonical(X)  # kernels read the entries of sparse rows one by one
        mapping.gamma_ = self._gamma  # "scale" was resolved on the training rows
        return self._kernel_scores(mapping, X, self.support_vectors_, vectors, offsets)

    @staticmethod
    def _kernel_scores(mapping: KernelMap, X: Any, support: Any, vectors: Any, offsets: Any) -> NDArray[Any]:
        """Scores of rows by coefficients of support rows, few kernel values at a time."""
        return _in_blocks(lambda block: mapping.kernel_rows(block, support) @ vectors.T + offsets, X, support.shape[0])

    @any_arrays
    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row: the highest score, ties to the lower class."""
        X = self._rows_to_score(X)
        if len(self.classes_) > 2 and X.shape[0] * len(self.classes_) > BLOCK_ENTRIES:
            return np.asarray(self.classes_[self._best(X, 1).places[:, 0]])
        scores = self._scores_of(X)
        winners = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[winners])

    @any_arrays
    def objective(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F of the fitted machine on this data, with the machine's C and class weights.

        Labels must be among those seen in `fit`.
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, reset=False)
        problem = self._problem_on(X, y, sample_weight)
        if self.kernel == "linear":
            return objective_of(problem, self.class_vectors_, self.class_offsets_)
        offsets = np.asarray(self.class_offsets_, dtype=np.float64)
        scores = self._scores(X, np.asarray(self.dual_coef_, dtype=np.float64), offsets)
        return problem.total_loss(scores) + self._penalty_value

    def _problem_on(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        """The fitted machine's problem on this data."""
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels {unknown.tolist()!r} that were not seen in fit.")
        weight = validation.sample_weights(sample_weight, X.shape[0])
        indices = np.searchsorted(self.classes_, y).astype(np.int32)
        weight = weight * validation.class_weights(self.class_weight, self.classes_, y, weight)[indices]
        weight = weight * vars(self).get("C_", 1.0)  # of a hard margin
        return self._with_classes(self._problem(X, indices, weight, len(self.classes_)), self.classes_)

    def _shaped(self, per_class: Any) -> Any:
        """What belongs to the classes, in scikit-learn's shape: for two classes the second minus the first."""
        if per_class.shape[0] != 2:
            return per_class
        difference = per_class[1:] - per_class[:1]
        if isinstance(difference, np.ndarray):
            difference.flags.writeable = False  # what is written into it would be lost
        return difference

    def explain(self, X: Any = None, y: Any = None, *, K: Any = None) -> None:
        """Print one page about the fitted machine: fit, class vectors, closest classes; with X, y margins and bounds.

        `X` and `y` should be the training rows, `K` the training kernel matrix of a precomputed kernel, if X is not given.
        See :func:`polymargin.diagnostics.explain.explain`; :mod:`polymargin.diagnostics` has the numbers as arrays.
        """
        from polymargin.diagnostics.explain import explain

        explain(self, X, y, K=K)

    @property
    def coef_(self) -> Any:
        """Class vectors in scikit-learn's shape; a CSR matrix after `sparsify`."""
        return self._shaped(self._fitted("class_vectors_", "coef_"))

    @property
    def intercept_(self) -> NDArray[Any]:
        """Class offsets in scikit-learn's shape."""
        return self._shaped(self._fitted("class_offsets_", "intercept_"))

    def _fitted(self, name: str, asked: str) -> Any:
        if name not in vars(self):
            missing = "before fit" if self.kernel == "linear" else f"with kernel={self.kernel!r}, only with kernel='linear'"
            raise AttributeError(f"{type(self).__name__} has no {asked} {missing}.")
        return vars(self)[name]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _in_blocks(scores: Callable[[Any], NDArray[Any]], X: Any, width: int) -> NDArray[Any]:
    """Scores of the rows, so many at a time that few arrays of this width are held."""
    step = max(1, BLOCK_ENTRIES // max(1, width))
    return np.concatenate([scores(X[start : start + step]) for start in range(0, max(1, X.shape[0]), step)])


def _multiple_of(cost: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """What `other` costs are in these, if they are a multiple of them."""
    if cost.shape != other.shape:
        return None
    multiple = float(other[0] / cost[0])
    return multiple if np.allclose(other, multiple * cost, rtol=1e-12, atol=0.0) else None


def _scaling_advice(largest: float) -> str:
    """A sentence if the largest entry of X is far from 1, else nothing."""
    if largest == 0.0 or 1e-5 <= largest <= 1e5:
        return ""
    return (
        f" The largest entry of X is {largest:.3g}: columns near 1 suit C and converge much faster; scale them, e.g. with "
        "sklearn.preprocessing.StandardScaler."
    )


def _canonical(X: Any) -> Any:
    """A matrix whose arrays the core can borrow: CSR without duplicate entries. The caller's matrix is not touched."""
    if not sparse.issparse(X):
        return np.ascontiguousarray(X)
    validation.check_csr(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    # the core numbers columns in four bytes, and products of scipy want both index arrays alike
    index = np.int32 if max(X.shape[1], X.indptr[-1]) <= np.iinfo(np.int32).max else np.int64
    if X.indices.dtype != index or X.indptr.dtype != index:
        arrays = X.indices.astype(index, copy=False), X.indptr.astype(index, copy=False)
        X = type(X)((X.data, *arrays), shape=X.shape, copy=False)
        X.indices, X.indptr = arrays
    return X
