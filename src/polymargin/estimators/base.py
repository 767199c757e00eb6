"""What all machines share: validate -> problem -> solve -> arrays on self."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from polymargin import validation
from polymargin.certificate import Certificate, Ledger
from polymargin.losses import ScoreLoss
from polymargin.penalties import Penalty
from polymargin.problem import Problem
from polymargin.solvers import Solution, SparseDuals, WarmStart, solve

PARAMETERS = """C : float, default=1.0
        Weight of the loss, which is a sum over rows as in :class:`sklearn.svm.SVC`. Must be positive.
    kernel : "linear", default="linear"
        Other kernels are not available yet.
    gamma, degree, coef0
        Kernel parameters as in :class:`sklearn.svm.SVC`; no effect on a linear kernel.
    n_components : None
        Rank of a Nystroem approximation; only for kernels.
    fit_intercept : bool, default=True
        Whether the classes have offsets b. They are not penalised.
    tol : float, default=1e-4
        Relative duality gap at which to stop: ``primal - dual <= tol * |primal|``.
    max_iter : int, default=1000
        Limit on epochs. One epoch is as many row visits as there are rows.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    warm_start : bool, default=False
        Start from the last fit's duals if rows, features and classes have the same numbers; e.g. for a path over C.
    n_jobs : int or None, default=None
        Threads for passes over all rows (the true gap). None means 1, -1 all processors. The result does not depend on it.
    verbose : int, default=0
        Print a line at each evaluation of the true gap.
    random_state : int, RandomState instance or None, default=None
        Order in which rows are visited.
    """

ATTRIBUTES = """class_vectors_ : ndarray of shape (n_classes, n_features)
        One vector per class, for two classes too. They add up to zero.
    class_offsets_ : ndarray of shape (n_classes,)
        One offset per class. They add up to zero.
    coef_, intercept_ : ndarray
        The same in scikit-learn's shapes: for two classes the differences, ``(1, n_features)`` and ``(1,)``.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    certificate_ : Certificate
        Objective, dual bound, gap, status, iterations, seconds and history of the fit.
    objective_ : float
        ``certificate_.primal``.
    n_iter_ : int
        Epochs used, and Newton steps if an interior point ended the fit.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """


class Targets(NamedTuple):
    """Rows of positive weight: their class indices and weights."""

    y: NDArray[np.int32]
    weight: NDArray[np.float64]
    kept: NDArray[np.bool_] | None  # None if all rows are kept


class MarginClassifier(ClassifierMixin, BaseEstimator):
    """Base of the linear many-class machines. Subclasses name their loss and penalty."""

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

    # ---- what a machine is ------------------------------------------------------------------------------------

    def _loss(self) -> ScoreLoss:
        raise NotImplementedError

    def _penalty(self) -> Penalty:
        raise NotImplementedError

    def _advice_if_trivial(self) -> str:
        """What to try when the optimum gives all classes the same score."""
        return "a larger C"

    # ---- fitting ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MarginClassifier:
        """Fit the machine.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
            float32 and float64 are used as they are; sparse matrices are not made dense (only the interior point that
            ends small, badly conditioned problems works on a dense copy of at most 40 MB).
        y : array of shape (n_samples,)
            Class labels of any kind.
        sample_weight : array of shape (n_samples,), default=None
            Non-negative weights; a weight of 2 counts as the row twice, rows of weight 0 are left out.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", accept_large_sparse=True
        )
        validation.check_magnitude(X)
        targets = self._read_targets(X, y, sample_weight)
        problem = self._problem(_canonical(X if targets.kept is None else X[targets.kept]), targets.y, targets.weight)
        del targets  # its weights live on in the problem's costs
        ledger = Ledger(self.tol, self.verbose, type(self).__name__)
        solution = solve(
            problem,
            ledger,
            max_iter=self.max_iter,
            seed=validation.seed_of(self.random_state),
            n_threads=validation.thread_count(self.n_jobs),
            start=self._warm_start(problem) if self.warm_start else None,
        )
        self._store(problem, solution)
        self._say_what_is_wrong(problem, solution.certificate)
        return self

    def _check_parameters(self) -> None:
        validation.positive("C", self.C, "try 0.01, 1 or 100")
        validation.positive("tol", self.tol, "a relative duality gap, for example 1e-4")
        validation.whole("max_iter", self.max_iter, 1, "epochs")
        if not isinstance(self.verbose, bool):
            validation.whole("verbose", self.verbose, 0, "0 is silent")
        validation.flag("fit_intercept", self.fit_intercept)
        validation.flag("warm_start", self.warm_start)
        validation.thread_count(self.n_jobs)
        validation.check_kernel(self.kernel, self.gamma, self.degree, self.coef0, self.n_components)
        if self.n_components is not None:
            warnings.warn(f"n_components={self.n_components!r} has no effect on kernel='linear'.", stacklevel=3)

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        """Class indices and weights of the rows that count; sets `classes_`."""
        check_classification_targets(y)
        weight = validation.sample_weights(sample_weight, X.shape[0])
        self.classes_, indices = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least 2 classes in y; got 1 class: {self.classes_.tolist()[0]!r}."
            )
        kept = None if weight.all() else weight > 0
        if kept is not None:
            empty = np.setdiff1d(np.arange(len(self.classes_)), indices[kept])
            if len(empty):
                names = ", ".join(repr(name) for name in self.classes_[empty].tolist())
                raise ValueError(
                    f"sample_weight is 0 for all rows of class {names}; give it a row of positive weight or leave the "
                    "class out of y."
                )
            indices, weight = indices[kept], weight[kept]
        labels = self.classes_[indices]
        weight = weight * validation.class_weights(self.class_weight, self.classes_, labels, weight)[indices]
        return Targets(indices.astype(np.int32), weight, kept)

    def _problem(self, X: Any, y: NDArray[np.int32], weight: NDArray[np.float64]) -> Problem:
        return Problem(
            X=X,
            y=y,
            cost=np.ascontiguousarray(self.C * weight, dtype=np.float64),
            n_classes=len(self.classes_),
            loss=self._loss(),
            penalty=self._penalty(),
            fit_intercept=self.fit_intercept,
        )

    def _warm_start(self, problem: Problem) -> WarmStart | None:
        """The last fit's duals, scaled with the costs so that they stay feasible; None if they do not fit this data."""
        last = getattr(self, "_warm_duals", None)
        if last is None or not hasattr(self, "class_vectors_"):
            return None
        starts, classes, values, cost = last
        if len(cost) != problem.n_rows or self.class_vectors_.shape != (problem.n_classes, problem.n_features):
            return None
        rows = np.repeat(np.arange(problem.n_rows), np.diff(starts))
        if (classes == problem.y[rows]).any() or (len(classes) and classes.max() >= problem.n_classes):
            return None
        scaled = values * (problem.cost / cost)[rows]
        W = np.asarray(self.class_vectors_, dtype=np.float64).T
        b = np.asarray(self.class_offsets_, dtype=np.float64)
        return WarmStart(SparseDuals(starts, classes, scaled), W, b)

    def _store(self, problem: Problem, solution: Solution) -> None:
        dtype = problem.X.dtype
        self.class_vectors_ = np.ascontiguousarray(solution.W.T, dtype=dtype)
        self.class_offsets_ = (solution.b - solution.b.mean()).astype(dtype)
        self.certificate_ = solution.certificate
        self.objective_ = solution.certificate.primal
        self.n_iter_ = solution.certificate.n_iter
        if self.warm_start:
            self._warm_duals = (*solution.duals, problem.cost)

    def _say_what_is_wrong(self, problem: Problem, certificate: Certificate) -> None:
        name, scaling = type(self).__name__, _scaling_advice(problem.X)
        if not certificate.converged:
            warnings.warn(
                f"{name} stopped after {certificate.n_iter} iterations with a relative duality gap of "
                f"{certificate.rel_gap:.2e}, above tol={self.tol:g} (objective {certificate.primal:.6g}, the optimum is at "
                f"least {certificate.dual:.6g}). Raise max_iter, scale the columns of X (StandardScaler) or lower C."
                + scaling,
                ConvergenceWarning,
                stacklevel=3,
            )
        elif certificate.dual >= 0.999 * problem.trivial_value():
            warnings.warn(
                f"{name} found a trivial solution: with C={self.C:g} no machine is better by more than 0.1 % than one that "
                f"gives all classes the same score. Try {self._advice_if_trivial()}." + scaling,
                UserWarning,
                stacklevel=3,
            )
        elif scaling:
            warnings.warn(f"{name} was fitted on badly scaled data." + scaling, UserWarning, stacklevel=3)

    # ---- using the fitted machine -----------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of the classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes the score of ``classes_[1]`` minus that of ``classes_[0]``.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = np.asarray(X @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row: the highest score, ties to the lower class."""
        scores = self.decision_function(X)
        winners = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[winners])

    def objective(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F of the fitted machine on this data, with the machine's C and class weights.

        Labels must be among those seen in `fit`.
        """
        check_is_fitted(self)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False
        )
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels {unknown.tolist()!r} that were not seen in fit.")
        weight = validation.sample_weights(sample_weight, X.shape[0])
        indices = np.searchsorted(self.classes_, y).astype(np.int32)
        weight = weight * validation.class_weights(self.class_weight, self.classes_, y, weight)[indices]
        problem = self._problem(X, indices, weight)
        W = np.asarray(self.class_vectors_, dtype=np.float64).T
        return problem.primal(W, np.asarray(self.class_offsets_, dtype=np.float64))

    @property
    def coef_(self) -> NDArray[Any]:
        """Class vectors in scikit-learn's shape."""
        vectors = self._fitted("class_vectors_", "coef_")
        return vectors[1:] - vectors[:1] if len(vectors) == 2 else vectors

    @property
    def intercept_(self) -> NDArray[Any]:
        """Class offsets in scikit-learn's shape."""
        offsets = self._fitted("class_offsets_", "intercept_")
        return offsets[1:] - offsets[:1] if len(offsets) == 2 else offsets

    def _fitted(self, name: str, asked: str) -> NDArray[Any]:
        if name not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {asked} before fit.")
        return np.asarray(vars(self)[name])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _scaling_advice(X: Any) -> str:
    """A sentence if the entries of X are far from 1, else nothing."""
    values = X.data if sparse.issparse(X) else X
    largest = max(abs(float(values.max())), abs(float(values.min()))) if values.size else 0.0
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
    if X.indices.dtype != X.indptr.dtype:
        wide = np.promote_types(X.indices.dtype, X.indptr.dtype)
        X = type(X)((X.data, X.indices.astype(wide), X.indptr.astype(wide)), shape=X.shape, copy=False)
        X.indices, X.indptr = X.indices.astype(wide, copy=False), X.indptr.astype(wide, copy=False)
    return X
