"""What the diagnostics need of a fitted classifier, whoever made it: scores, and inner products of its class vectors.

A machine is ``s_k(x) = <w_k, phi(x)> + b_k``. Three kinds are known by what they have, never by name:

- ``class_vectors_`` and ``class_offsets_``: phi(x) = x;
- ``dual_coef_ (c, n_support)`` and ``class_offsets_``: ``w_k = sum_i dual_coef_[k, i] phi(x_i)``;
- ``coef_`` and ``intercept_`` of any linear scikit-learn classifier with one vector per class. A machine for two classes
  that keeps one vector v stands for ``w_0 = -v/2, w_1 = v/2``, which add up to zero and differ by v.

Inside a pipeline x is a row after all other steps, and a search is its best estimator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

Array = NDArray[np.float64]
_BLOCK_ENTRIES = 1 << 22  # kernel values held at a time


@dataclass(frozen=True)
class View:
    """A fitted classifier seen as c vectors and offsets in a feature space."""

    estimator: Any  # the last step
    steps: tuple[Any, ...]  # transformers before it
    _last: dict[str, tuple[Any, Any]] = field(default_factory=dict, repr=False)  # of each kind: argument and result

    # ---- rows -----------------------------------------------------------------------------------------------------

    def rows(self, X: Any) -> Any:
        """X as the classifier itself sees it."""
        return self._once("rows", X, self._transformed)

    def _transformed(self, X: Any) -> Any:
        for step in self.steps:
            X = step.transform(X)
        return X

    def _once(self, kind: str, argument: Any, compute: Callable[[Any], Any]) -> Any:
        """What was computed from the same object before: one page of diagnostics asks for scores many times."""
        if kind not in self._last or self._last[kind][0] is not argument:
            self._last[kind] = (argument, compute(argument))
        return self._last[kind][1]

    def scores(self, rows: Any) -> Array:
        """Scores of shape (n, c). Of two classes only the difference is known: it is split evenly."""
        return np.asarray(self._once("scores", rows, self._scores))

    def _scores(self, rows: Any) -> Array:
        if not hasattr(self.estimator, "decision_function"):
            raise TypeError(f"{self.name} has no decision_function, so its rows have no margins.")
        scores = np.asarray(self.estimator.decision_function(rows), dtype=np.float64)
        if scores.ndim == 1:
            return np.column_stack([-scores / 2, scores / 2])
        if scores.shape[1] != self.n_classes:
            raise TypeError(
                f"{self.name}.decision_function returns {scores.shape[1]} columns for {self.n_classes} classes; margins "
                "need one score per class (for SVC: decision_function_shape='ovr')."
            )
        return scores

    def squared_lengths(self, rows: Any) -> Array:
        """``k(x, x) = |phi(x)|^2`` of each row; a precomputed kernel needs its square training matrix."""
        if not self.is_kernel:
            return np.asarray(row_norms(_as_matrix(rows), squared=True), dtype=np.float64)
        if self.is_precomputed:
            rows = self._training_kernel(rows, "X")
        return self._kernel_map().diagonal(_as_matrix(rows))

    def squared_lengths_of_sums(self, rows: Any, G: Array) -> Array:
        """``|sum_i G_ij phi(x_i)|^2`` for each column j; a kernel is computed a block of rows at a time."""
        if not self.is_kernel:
            sums = np.asarray(_as_matrix(rows).T @ G)
            return np.asarray(np.einsum("ij,ij->j", sums, sums))
        if self.is_precomputed:
            K = self._training_kernel(rows, "X")
            return np.asarray(np.einsum("ij,ij->j", G, np.asarray(K @ G)))
        mapping, matrix = self._kernel_map(), _as_matrix(rows)
        found, step = np.zeros(G.shape[1]), max(1, _BLOCK_ENTRIES // matrix.shape[0])
        for start in range(0, matrix.shape[0], step):
            part = slice(start, start + step)
            found += np.einsum("ij,ij->j", G[part], mapping.kernel_rows(matrix[part], matrix) @ G)
        return found

    # ---- classes ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return type(self.estimator).__name__

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; the numbers of the labels for a multi-label machine that has none."""
        classes = getattr(self.estimator, "classes_", None)
        if isinstance(classes, list):
            raise TypeError(f"{self.name} has several outputs (classes_ is a list); look at one output at a time.")
        if classes is None:
            raise TypeError(f"{self.name} has no classes_: it is not a fitted classifier.")
        return np.asarray(classes)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def indices(self, y: Any) -> NDArray[np.intp]:
        """Class numbers of labels seen in fit."""
        y = np.asarray(y)
        y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
        if y.ndim != 1:
            raise ValueError(f"y has shape {y.shape}; this needs one class per row.")
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(f"y has labels {unknown.tolist()!r} that were not seen in fit.")
        order = np.argsort(self.classes, kind="stable")
        return order[np.searchsorted(self.classes, y, sorter=order)]

    # ---- class vectors ----------------------------------------------------------------------------------------------

    @property
    def is_kernel(self) -> bool:
        names = ("dual_coef_", "class_offsets_")  # a linear machine may have duals too
        return all(hasattr(self.estimator, name) for name in names) and not hasattr(self.estimator, "class_vectors_")

    @property
    def is_precomputed(self) -> bool:
        return self.is_kernel and getattr(self.estimator, "kernel", None) == "precomputed"

    @property
    def vectors(self) -> Array:
        """Class vectors (c, d) of a linear machine."""
        if hasattr(self.estimator, "class_vectors_"):
            return _as_array(self.estimator.class_vectors_)
        if not hasattr(self.estimator, "coef_"):
            raise TypeError(
                f"{self.name} has neither class_vectors_ nor coef_; class vectors are those of polymargin's machines and of "
                "linear scikit-learn classifiers, alone, at the end of a Pipeline or inside a search."
            )
        coef = np.atleast_2d(_as_array(self.estimator.coef_))
        _check_linear(self.estimator, coef, self.name)
        return _per_class(coef, self.n_classes, self.name)

    @property
    def offsets(self) -> Array:
        """Offsets (c,)."""
        if hasattr(self.estimator, "class_offsets_"):
            return np.asarray(self.estimator.class_offsets_, dtype=np.float64)
        intercept = np.atleast_1d(np.asarray(getattr(self.estimator, "intercept_", 0.0), dtype=np.float64))
        if len(intercept) == 1 and self.n_classes > 2:
            return np.full(self.n_classes, intercept[0])
        return _per_class(intercept, self.n_classes, self.name)

    def gram(self, K: Any = None) -> Array:
        """Inner products (c, c) of the class vectors: ``V V'``, or ``A K_SS A'`` from coefficients on support rows.

        `K` is the training kernel matrix of a precomputed kernel, which the machine does not keep.
        """
        return np.asarray(self._once("gram", K, self._gram))

    def _gram(self, K: Any) -> Array:
        if not self.is_kernel:
            V = self.vectors
            return V @ V.T
        A = np.asarray(self.estimator.dual_coef_, dtype=np.float64)
        if self.is_precomputed:
            if K is None:
                raise ValueError(
                    f"{self.name} has kernel='precomputed' and does not keep kernel values: pass K=, the kernel matrix of "
                    "the training rows that fit was called with."
                )
            support = self.estimator.support_
            block = self._training_kernel(K, "K")[support][:, support]
            return _symmetric(A @ np.asarray(block @ A.T))
        mapping, support = self._kernel_map(), _as_matrix(self.estimator.support_vectors_)
        G = np.zeros((len(A), len(A)))
        step = max(1, _BLOCK_ENTRIES // max(1, support.shape[0]))
        for start in range(0, support.shape[0], step):
            part = slice(start, start + step)
            G += A[:, part] @ (mapping.kernel_rows(support[part], support) @ A.T)
        return _symmetric(G)

    def _kernel_map(self) -> Any:
        mapping = self.estimator._kernel_map()
        mapping.gamma_ = self.estimator._gamma  # "scale" was resolved on the training rows
        return mapping

    def _training_kernel(self, K: Any, argument: str) -> Any:
        n = self.estimator.n_features_in_
        if np.shape(K) != (n, n):
            raise ValueError(
                f"{argument} has shape {np.shape(K)}; {self.name} has kernel='precomputed' and this needs the {n} x {n} "
                "kernel matrix of the training rows."
            )
        return _as_matrix(K)


def view_of(est: Any) -> View:
    """Look through searches and pipelines at the classifier inside; a view stays as it is."""
    if isinstance(est, View):
        return est
    steps: list[Any] = []
    while True:
        check_is_fitted(est)
        if hasattr(est, "best_estimator_"):
            est = est.best_estimator_
        elif isinstance(est, Pipeline):
            steps += [step for _, step in est.steps[:-1] if step not in (None, "passthrough")]
            est = est.steps[-1][1]
        else:
            return View(est, tuple(steps))


def _as_matrix(X: Any) -> Any:
    """float64, dense or CSR."""
    if sparse.issparse(X):
        return X.tocsr().astype(np.float64)
    return np.asarray(X, dtype=np.float64)


def _as_array(X: Any) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _symmetric(G: Array) -> Array:
    return 0.5 * (G + G.T)


def _per_class(values: Array, n_classes: int, name: str) -> Array:
    if len(values) == 1 and n_classes == 2:
        return np.concatenate([-values / 2, values / 2])
    if len(values) != n_classes:
        raise TypeError(f"{name} has {len(values)} vectors for {n_classes} classes; this needs one vector per class.")
    return values


def _check_linear(estimator: Any, coef: Array, name: str) -> None:
    """Whether the rows of coef_ make the scores: SVC's are those of pairs, and three classes have three pairs."""
    probe = np.random.default_rng(0).standard_normal((2, coef.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the probe has no feature names
        scores = np.asarray(estimator.decision_function(probe)).reshape(2, -1)
    made = probe @ coef.T + np.asarray(estimator.intercept_)
    if scores.shape != made.shape or not np.allclose(scores, made, rtol=1e-4, atol=1e-4 * np.abs(made).max()):
        raise TypeError(
            f"the rows of {name}.coef_ are not one vector per class (its scores are not X @ coef_.T + intercept_); use a "
            "machine that scores each class, e.g. LinearSVC, LogisticRegression or one of polymargin's."
        )
