"""The machines of a tree: at each node one that tells which outputs a row's labels lie under, with its certificate.

A node sees the rows that have a label under it, and of their columns those that are not empty. Small weights are dropped,
and the certificate is that of what is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polymargin.estimators import MultiLabelSVC
from polymargin.estimators.fitting.thinned import objective_of
from polymargin.problems.certificate import Certificate
from polymargin.trees.shape import Shape


class Tree(NamedTuple):
    """A fitted tree: the outputs of all nodes one after the other, as `Shape` has them, and a certificate for each node."""

    starts: NDArray[np.int64]
    targets: NDArray[np.int64]
    vectors: sparse.csr_matrix  # (n_outputs, n_features)
    offsets: NDArray[Any]
    certificates: list[Certificate]


class Node(NamedTuple):
    """A fitted node."""

    vectors: sparse.csr_matrix
    offsets: NDArray[Any]
    certificate: Certificate


def rows_of_nodes(shape: Shape, Y: sparse.csr_array) -> Iterator[tuple[NDArray[np.intp], sparse.csr_array]]:
    """For each node its rows, and which of its outputs their labels lie under."""
    under = sparse.csc_array(Y.astype(np.int64) @ shape.paths)
    for first, last in zip(shape.starts, shape.starts[1:], strict=False):
        own = sparse.csr_array(under[:, int(first) : int(last)])
        rows = np.flatnonzero(np.diff(own.indptr))
        members = own[rows]
        members.data = np.ones(len(members.data), dtype=np.int64)
        yield rows, members


def fit_node(machine: MultiLabelSVC, X: Any, members: sparse.csr_array, weight: Any, threshold: float) -> Node:
    """The machine on a node's rows; weights below the threshold are dropped."""
    n_features = X.shape[1]
    columns = np.unique(X.indices)
    place = np.zeros(n_features, dtype=X.indices.dtype)
    place[columns] = np.arange(len(columns))
    narrow = sparse.csr_matrix((X.data, place[X.indices], X.indptr), shape=(X.shape[0], max(1, len(columns))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tree says what is wrong, once
        machine.fit(narrow, members, sample_weight=weight)
    vectors, offsets = sparse.csr_matrix(machine.class_vectors_, dtype=X.dtype), machine.class_offsets_.astype(X.dtype)
    vectors.data[np.abs(vectors.data) < threshold] = 0.0
    vectors.eliminate_zeros()
    problem = machine._problem_on(narrow, members, weight)
    primal = objective_of(problem, vectors, offsets)
    W = sparse.csr_array(vectors.T, dtype=np.float64)
    certificate = machine.certificate_.altered("sparsified", primal, lambda: problem.rounding(W, offsets))
    indices = columns[vectors.indices] if len(columns) else vectors.indices
    wide = sparse.csr_matrix((vectors.data, indices, vectors.indptr), shape=(vectors.shape[0], n_features))
    return Node(wide, offsets, _plain(certificate))


def _plain(end: Certificate) -> Certificate:
    """Of Python's numbers, without the history: a file has one for each of very many nodes."""
    names = ("primal", "dual", "gap", "rel_gap", "seconds", "price")
    numbers: dict[str, Any] = {name: float(getattr(end, name)) for name in names}
    return replace(end, history=(), **numbers)


def tree_of(shape: Shape, nodes: list[Node]) -> Tree:
    vectors = sparse.csr_matrix(sparse.vstack([node.vectors for node in nodes], format="csr"))
    offsets = np.concatenate([node.offsets for node in nodes])
    return Tree(shape.starts, shape.targets, vectors, offsets, [node.certificate for node in nodes])
