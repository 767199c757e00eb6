"""Beam search: from the root downwards, a row follows the few nodes under which its labels seem to lie.

An output with score s is as likely as ``exp(-loss(s))``, a label as the product over its path. So do Parabel and PECOS, and
the losses of the nodes are those they were fitted with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymargin.estimators.parts.top_scores import best_places
from polymargin.trees.nodes import Tree

Array = NDArray[np.float64]
Places = NDArray[np.intp]

LOSSES: dict[str, Callable[[Array], Array]] = {
    "relevance": lambda S: np.maximum(0.0, 1.0 - S),
    "squared_relevance": lambda S: np.maximum(0.0, 1.0 - S) ** 2,
}


class Found(NamedTuple):
    """Places that rows have come to, one entry each: nodes or labels, and the logarithm of how likely."""

    rows: Places
    places: Places
    logs: Array

    def kept(self, which: Any) -> Found:
        return Found(self.rows[which], self.places[which], self.logs[which])


def search(tree: Tree, X: Any, loss: Callable[[Array], Array], beam: int, most: int | None) -> Found:
    """The labels under the `beam` best nodes of each level, of every leaf the `most` best (None: all)."""
    n = X.shape[0]
    here, labels = Found(np.arange(n), np.zeros(n, dtype=np.intp), np.zeros(n)), []
    while len(here.rows):
        reached = [_outputs(tree, node, here.kept(which), X, loss, most) for node, which in _groups(here.places)]
        below = Found(*(np.concatenate(parts) for parts in zip(*reached, strict=True)))
        leaves = below.places < 0
        labels.append(below.kept(leaves)._replace(places=-below.places[leaves] - 1))
        inner = below.kept(~leaves)
        here = inner.kept(best_of_rows(inner.rows, inner.logs, beam))
    return Found(*(np.concatenate(parts) for parts in zip(*labels, strict=True)))


def _outputs(tree: Tree, node: int, here: Found, X: Any, loss: Any, most: int | None) -> Found:
    """Where the outputs of a node lead its rows."""
    own = slice(int(tree.starts[node]), int(tree.starts[node + 1]))
    targets = tree.targets[own]
    if ((targets >= 0) & (targets <= node)).any():  # in a damaged file: the search would not end
        raise ValueError(f"the tree is damaged: node {node} leads to an earlier one.")
    S = np.asarray((X[here.rows] @ tree.vectors[own].T).toarray(), dtype=np.float64) + tree.offsets[own]
    logs = here.logs[:, None] - loss(S)
    places = np.broadcast_to(np.arange(len(targets)), logs.shape)
    if most is not None and (targets < 0).all():
        places = best_places(logs, most)
        logs = np.take_along_axis(logs, places, axis=1)
    return Found(np.repeat(here.rows, logs.shape[1]), targets[places.ravel()], logs.ravel())


def _groups(places: Places) -> list[tuple[int, Places]]:
    """Different places in ascending order, and the entries of each."""
    order = np.argsort(places, kind="stable")
    different, first = np.unique(places[order], return_index=True)
    return list(zip(different.tolist(), np.split(order, first[1:]), strict=True))


def best_of_rows(rows: Places, values: Array, count: int) -> Places:
    """The `count` entries of each row with the largest values, largest first, ties to the earlier; rows ascend."""
    order = np.lexsort((np.arange(len(rows)), -values, rows))
    ranked = rows[order]
    starts = np.searchsorted(ranked, ranked)  # where the row of an entry begins
    return order[np.arange(len(order)) - starts < count]
