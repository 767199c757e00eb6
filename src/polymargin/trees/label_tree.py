"""A tree over thousands to millions of classes or labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from polymargin import validation
from polymargin.estimators import MultiLabelSVC
from polymargin.estimators.fitting import label_targets
from polymargin.estimators.parts.top_scores import TopScores, slices
from polymargin.trees.beam import LOSSES, best_of_rows, search
from polymargin.trees.nodes import Tree, fit_node, rows_of_nodes, tree_of
from polymargin.trees.shape import centroids, grown

_ROWS_AT_ONCE = 4096  # that are searched for together


class LabelTree(ClassifierMixin, BaseEstimator):
    """Balanced trees over the labels, whose nodes are machines: for 10,000 to a million classes or labels.

    Labels with similar rows lie under one node; a node's machine (:class:`~polymargin.MultiLabelSVC`, one binary machine for
    each of its outputs) sees only the rows that have a label under it. A row asks a few nodes of each level: fitting and
    predicting grow with the depth of the tree, not with the number of labels.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss at every node. Must be positive.
    loss : {"squared_relevance", "relevance"}, default="squared_relevance"
        Squared hinge or hinge of the outputs.
    arity : int, default=16
        Outputs of an inner node.
    max_leaf : int, default=100
        Labels of a leaf, at most.
    max_depth : int, default=20
        Levels of nodes, at most; the last level takes all labels that are left.
    n_trees : int, default=3
        Trees that differ in how the labels are divided; their scores are averaged.
    beam_width : int, default=10
        Nodes of each level that a row follows in predictions.
    weight_threshold : float, default=0.01
        Weights below it are dropped; the certificates are those of what is left.
    threshold : float, default=0.5
        Score from which `predict` gives a label of a label matrix to a row.
    fit_intercept : bool, default=True
        Whether the outputs have offsets. They are not penalised.
    tol : float, default=0.01
        Relative duality gap at which a node stops.
    max_iter : int, default=1000
        Limit on the epochs of a node.
    n_jobs : int or None, default=None
        Threads that fit nodes side by side. None means 1, -1 all processors. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        How labels are divided, and in which order rows are visited. None is one and the same: a fit can be repeated.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, or the numbers of the columns of a label matrix.
    trees_ : list of Tree
        Of each tree the outputs of all nodes: ``starts``, ``targets``, ``vectors`` (CSR, in the precision of X),
        ``offsets``; and ``certificates``, one :class:`~polymargin.Certificate` for each node, without its history.
    rel_gap_ : float
        The gaps of all nodes, as a part of all their objectives.
    n_iter_ : int
        Epochs of the node that needed most.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `fit` takes one class a row, or a label matrix of 0 and 1, dense or sparse. Labels that no row has are never predicted.
    The score of a label is the mean over the trees of ``exp(-loss)``, multiplied along its path: between 0 and 1, and 0 for
    labels that the search has not come to. `predict` has the class with the highest score, or the labels whose score reaches
    `threshold`.

    References
    ----------
    Y. Prabhu, A. Kag, S. Harsola, R. Agrawal and M. Varma. Parabel: Partitioned label trees for extreme classification. WWW
    2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from polymargin import LabelTree
    >>> X, y = load_digits(return_X_y=True)
    >>> tree = LabelTree(C=0.01, arity=2, max_leaf=3, n_trees=1).fit(X / 16.0, y)
    >>> bool(tree.score(X / 16.0, y) > 0.9), tree.predict_topk(X[:1] / 16.0, 2).shape
    (True, (1, 2))
    >>> max(end.rel_gap for end in tree.trees_[0].certificates) < 0.1
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared_relevance",
        arity: int = 16,
        max_leaf: int = 100,
        max_depth: int = 20,
        n_trees: int = 3,
        beam_width: int = 10,
        weight_threshold: float = 0.01,
        threshold: float = 0.5,
        fit_intercept: bool = True,
        tol: float = 1e-2,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.C = C
        self.loss = loss
        self.arity = arity
        self.max_leaf = max_leaf
        self.max_depth = max_depth
        self.n_trees = n_trees
        self.beam_width = beam_width
        self.weight_threshold = weight_threshold
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- fitting ----------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LabelTree:
        """Fit the trees.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,), or array or sparse matrix of shape (n_samples, n_labels)
            Classes, or a label matrix of 0 and 1.
        sample_weight : array of shape (n_samples,), default=None
            Rows of weight 0 are left out.

        Returns
        -------
        self
        """
        self._check_parameters()
        several = validation.is_label_matrix(y)
        settings: dict[str, Any] = {"accept_sparse": "csr", "accept_large_sparse": True, "multi_output": several}
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], **settings)
        validation.check_magnitude(X)
        weight = validation.sample_weights(sample_weight, X.shape[0])
        facts, Y = self._targets(y) if several else self._classes(y)
        if not weight.all():
            X, Y, weight = X[weight > 0], Y[weight > 0], weight[weight > 0]
        labels = np.unique(Y.indices)
        if len(labels) < 2:
            raise ValueError(f"LabelTree needs rows of at least 2 classes in y; got {len(labels)} class.")
        rows, seed = sparse.csr_array(X), validation.seed_of(self.random_state)
        points = centroids(rows, sparse.csr_array(Y.multiply(weight[:, None])))
        weights = None if sample_weight is None else weight
        trees = [self._tree(rows, Y, weights, points, labels, seed + number) for number in range(self.n_trees)]
        self.__dict__.update(facts)
        self.trees_ = trees
        ends = [end for tree in trees for end in tree.certificates]
        self.n_iter_ = max(end.n_iter for end in ends)
        self.rel_gap_ = sum(end.gap for end in ends) / max(sum(end.primal for end in ends), 1e-300)
        self._warn_about_gaps()
        return self

    def _check_parameters(self) -> None:
        validation.positive("C", self.C, "try 0.1, 1 or 10")
        validation.one_of("loss", self.loss, tuple(LOSSES))
        validation.whole("arity", self.arity, 2, "outputs of a node")
        validation.whole("max_leaf", self.max_leaf, 1, "labels of a leaf")
        validation.whole("max_depth", self.max_depth, 1, "levels")
        validation.whole("n_trees", self.n_trees, 1, "trees")
        validation.whole("beam_width", self.beam_width, 1, "nodes of a level")
        validation.not_negative("weight_threshold", self.weight_threshold, "0 drops nothing")
        validation.number("threshold", self.threshold, "a score between 0 and 1")
        validation.flag("fit_intercept", self.fit_intercept)
        validation.positive("tol", self.tol, "a relative duality gap, for example 1e-2")
        validation.iterations(self.max_iter)
        validation.thread_count(self.n_jobs)

    def _classes(self, y: Any) -> tuple[dict[str, Any], sparse.csr_array]:
        check_classification_targets(y)
        classes, indices = np.unique(y, return_inverse=True)
        facts = {"classes_": classes, "_label_type": None, "_sparse_labels": False}
        return facts, label_targets.one_hot(indices, len(classes))

    def _targets(self, y: Any) -> tuple[dict[str, Any], sparse.csr_array]:
        Y = validation.as_signed(y)
        if (Y.data < 0).any():
            raise ValueError("y holds -1: LabelTree takes label matrices of 1 (has the label) and 0 (has it not).")
        kind = np.dtype(y.dtype if y.dtype.kind in "biuf" else np.int64)
        return {"classes_": np.arange(Y.shape[1]), "_label_type": kind, "_sparse_labels": bool(sparse.issparse(y))}, Y

    def _tree(self, X: Any, Y: Any, weight: Any, points: Any, labels: NDArray[np.intp], seed: int) -> Tree:
        shape = grown(points, labels, self.arity, self.max_leaf, self.max_depth, seed)
        names = ("C", "loss", "fit_intercept", "tol", "max_iter")
        settings = {name: getattr(self, name) for name in names} | {"threshold": 0.0, "random_state": seed}
        jobs = (
            delayed(fit_node)(
                MultiLabelSVC(**settings), X[rows], members, None if weight is None else weight[rows], self.weight_threshold
            )
            for rows, members in rows_of_nodes(shape, Y)
        )
        n_threads = validation.thread_count(self.n_jobs)
        return tree_of(shape, Parallel(n_jobs=n_threads, prefer="threads")(jobs))

    def _warn_about_gaps(self) -> None:
        ends = [end for tree in self.trees_ for end in tree.certificates]
        late = [end for end in ends if end.status not in ("optimal", "sparsified")]
        if late:
            warnings.warn(
                f"{len(late)} of {len(ends)} nodes of LabelTree stopped above tol={self.tol:g}, with a relative gap up to "
                f"{max(end.rel_gap for end in late):.2e}. Raise max_iter, scale the columns of X or lower C.",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ---- using the fitted trees -------------------------------------------------------------------------------------------

    def decision_function(self, X: Any, top: int | None = None) -> Any:
        """Scores of the labels, or the best of them.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
        top : int, default=None
            How many labels a row to return; None returns all, in an array of all rows and labels.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes the score of ``classes_[1]`` minus that of ``classes_[0]``.
        TopScores
            With `top`: ``scores`` and ``classes``, each of shape (n_samples, top), best first.
        """
        rows = self._rows_to_score(X)
        if top is not None:
            return self._top_scores(rows, "top", top)
        scores = self._scores(rows, None).toarray()
        return scores[:, 1] - scores[:, 0] if self._label_type is None and scores.shape[1] == 2 else scores

    def predict_topk(self, X: Any, k: int = 5) -> NDArray[Any]:
        """The k classes, or columns of the label matrix, with the highest scores, best first: shape (n_samples, k)."""
        return self._top_scores(self._rows_to_score(X), "k", k).classes

    def predict(self, X: Any) -> Any:
        """Class of each row, or its label set: labels whose score reaches `threshold`, in the type of Y, sparse if Y was."""
        rows = self._rows_to_score(X)
        if self._label_type is None:
            return self._top_scores(rows, "k", 1).classes[:, 0]
        blocks = slices(rows.shape[0], _ROWS_AT_ONCE)
        sets = [sparse.csr_array(self._scores(rows[block], None) >= self.threshold) for block in blocks]
        reached = sparse.csr_array(sparse.vstack(sets, format="csr"), dtype=self._label_type)
        return reached if self._sparse_labels else reached.toarray()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows that are predicted right: the class, or the whole label set (subset accuracy)."""
        if not validation.is_label_matrix(y):
            return float(super().score(X, y, sample_weight))
        weight = validation.sample_weights(sample_weight, X.shape[0])
        wrong = validation.as_signed(y) != validation.as_signed(self.predict(X))
        return float(np.average(np.diff(sparse.csr_array(wrong).indptr) == 0, weights=weight))

    def _rows_to_score(self, X: Any) -> sparse.csr_array:
        check_is_fitted(self)
        return sparse.csr_array(validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False))

    def _scores(self, X: sparse.csr_array, most: int | None) -> sparse.csr_array:
        """Scores of the labels that the searches have come to."""
        shape = X.shape[0], len(self.classes_)
        total = sparse.csr_array(shape, dtype=np.float64)
        for tree in self.trees_:
            found = search(tree, X, LOSSES[self.loss], self.beam_width, most)
            total = total + sparse.csr_array((np.exp(found.logs), (found.rows, found.places)), shape=shape)
        return total / len(self.trees_)

    def _top_scores(self, X: sparse.csr_array, name: str, k: Any) -> TopScores:
        if validation.whole(name, k, 1, "classes a row") > len(self.classes_):
            raise ValueError(f"{name}={k!r} is not valid: there are {len(self.classes_)} classes.")
        blocks = [self._best(X[rows], int(k)) for rows in slices(X.shape[0], _ROWS_AT_ONCE)]
        scores, places = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return TopScores(scores, np.asarray(self.classes_[places]))

    def _best(self, X: sparse.csr_array, k: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """The k best scores of some rows and the places of their classes; where the search found fewer, the first others."""
        found = sparse.coo_array(self._scores(X, max(k, self.beam_width)))
        best = best_of_rows(found.row, found.data, k)
        ranks = np.arange(len(best)) - np.searchsorted(found.row[best], found.row[best])
        scores, places = np.zeros((X.shape[0], k)), np.full((X.shape[0], k), -1, dtype=np.intp)
        scores[found.row[best], ranks], places[found.row[best], ranks] = found.data[best], found.col[best]
        for row in np.flatnonzero(places[:, -1] < 0):
            known = places[row][places[row] >= 0]
            places[row, len(known) :] = np.setdiff1d(np.arange(k + len(known)), known)[: k - len(known)]
        return scores, places

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
