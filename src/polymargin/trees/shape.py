"""The shape of a tree: labels whose rows are alike lie under one node.

A label is its centroid, the sum of its rows, of length 1. A node's labels are divided into parts of (nearly) the same size
by balanced 2-means, again and again: labels are sorted by how much nearer they are to one mean than to the other, and cut
where the sizes say (Prabhu et al., Parabel, WWW 2018).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize

Labels = NDArray[np.intp]

_ROUNDS = 20  # of 2-means, at most
_ENOUGH = 1e-4  # relative growth of the similarity that ends them


class Shape(NamedTuple):
    """Outputs of the nodes: those of node i are ``starts[i]:starts[i + 1]``, node 0 is the root.

    ``targets[j]`` is where output j leads: the number of a later node, or label l as ``-l - 1``. `paths` (labels x outputs)
    has 1 where a label lies under an output.
    """

    starts: NDArray[np.int64]
    targets: NDArray[np.int64]
    paths: sparse.csr_array


def centroids(X: Any, Y: sparse.csr_array) -> sparse.csr_array:
    """Of the labels of Y (n, c), rows of length 1, in single precision."""
    sums = sparse.csr_array(Y.T.astype(np.float32)) @ sparse.csr_array(X, dtype=np.float32)
    return sparse.csr_array(normalize(sums))


def grown(points: sparse.csr_array, labels: Labels, arity: int, max_leaf: int, max_depth: int, seed: int) -> Shape:
    """A tree over `labels`, whose centroids are `points` (one row for every label there is)."""
    rng = np.random.RandomState(seed)
    starts, targets, under = [0], [], []
    waiting, numbered = [(labels, 1)], 1
    while waiting:
        members, depth = waiting.pop(0)
        if len(members) <= max_leaf or depth >= max_depth:
            parts = [members[j : j + 1] for j in range(len(members))]
        else:
            parts = parts_of(points, members, min(arity, len(members)), rng)
        for part in parts:
            under.append(part)
            if len(part) == 1:
                targets.append(-int(part[0]) - 1)
            else:
                targets.append(numbered)
                waiting.append((part, depth + 1))
                numbered += 1
        starts.append(len(targets))
    outputs = np.repeat(np.arange(len(under)), [len(part) for part in under])
    entries = np.ones(len(outputs), dtype=np.int8), (np.concatenate(under), outputs)
    paths = sparse.csr_array(entries, shape=(points.shape[0], len(targets)))
    return Shape(np.array(starts, dtype=np.int64), np.array(targets, dtype=np.int64), paths)


def parts_of(points: sparse.csr_array, members: Labels, count: int, rng: np.random.RandomState) -> list[Labels]:
    """`count` parts whose sizes differ by one at most."""
    if count == 1:
        return [members]
    first = count // 2
    # as many labels as `first` of the parts have, if the larger parts come first
    size = first * (len(members) // count) + min(first, len(members) % count)
    near, far = _halves(points[members], size, rng)
    return [*parts_of(points, members[near], first, rng), *parts_of(points, members[far], count - first, rng)]


def _halves(points: sparse.csr_array, size: int, rng: np.random.RandomState) -> tuple[Labels, Labels]:
    """Balanced 2-means: `size` of the rows, and the others, each in ascending order."""
    means = points[rng.choice(points.shape[0], 2, replace=False)].toarray()
    last = -np.inf
    for _ in range(_ROUNDS):
        lead = np.asarray(points @ (means[0] - means[1]))
        order = np.argsort(-lead, kind="stable")
        near, far = np.sort(order[:size]), np.sort(order[size:])
        sums = [np.asarray(points[half].sum(axis=0)).ravel() for half in (near, far)]
        lengths = [float(np.linalg.norm(total)) for total in sums]
        means = np.stack([total / max(length, 1e-30) for total, length in zip(sums, lengths, strict=True)])
        if sum(lengths) - last <= _ENOUGH * sum(lengths):  # the sum of the similarities to the own mean
            break
        last = sum(lengths)
    return near, far
