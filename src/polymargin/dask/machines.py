"""The machines of polymargin on Dask collections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

import polymargin
from polymargin.dask.collections import delayed_rows, describe, described, problem_of_rows
from polymargin.dask.communicator import OnDask
from polymargin.distributed.communicator import Communicator, InProcess
from polymargin.distributed.disk.sources import with_absent
from polymargin.distributed.parts import Elsewhere, ProblemOf
from polymargin.distributed.together import first_state


class Collection:
    """Delayed blocks of rows, on a cluster or, without a client, in this process."""

    def __init__(self, blocks: list[Any], client: Any):
        self._blocks, self._client = blocks, client

    @contextmanager
    def opened(self, run: dict[str, Any]) -> Iterator[Elsewhere]:
        client = self._client
        rows = _computed(self._blocks) if client is None else client.compute(self._blocks)
        seen = described([describe(one) for one in rows] if client is None else client.gather(client.map(describe, rows)))

        def engine(problem_of: ProblemOf) -> Communicator:
            if client is None:
                problems = [problem_of_rows(problem_of, seen.classes, one) for one in rows]
                return InProcess(problems, [first_state(problem) for problem in problems])
            futures = [client.submit(problem_of_rows, problem_of, seen.classes, one, pure=False) for one in rows]
            return OnDask(client, futures, [client.submit(first_state, one, pure=False) for one in futures])

        labels = None if seen.labels is None else with_absent(seen.labels, float(seen.weights[0]))
        yield Elsewhere(engine, seen.classes, seen.weights, np.dtype(seen.dtype), labels)


class OnCollections:
    """A machine whose fit takes Dask collections, and whose predictions of such are made when they are asked for.

    ``fit(X, y, sample_weight=None, client=None)`` takes dask arrays, whose chunks may be CSR matrices, dask data frames or
    lists of delayed blocks; or as X alone a list of delayed pairs (X, y) or triples with weights. Without a `client` it is
    the current one; if there is none, or with False, the parts are held and worked on in this process, with the same bits.
    What is fitted is what the ordinary machine has: attributes, certificate of all rows, and `ordinary`, the machine itself.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, client: Any = None) -> Any:
        """Fit the machine to all rows."""
        ordinary = self.ordinary()
        ordinary.fit(Collection(delayed_rows(X, y, sample_weight), _client_of(client)))
        self.__dict__.update(vars(ordinary))
        return self

    def ordinary(self) -> Any:
        """The ordinary machine with the same parameters and, after a fit, the same attributes: to save it, or for arrays."""
        cls = getattr(polymargin, type(self).__name__)
        machine = cls(**self.get_params())  # type: ignore[attr-defined]
        machine.__dict__.update(vars(self))
        return machine

    def decision_function(self, X: Any, top: int | None = None) -> Any:
        """Scores of the classes: lazily, if X is a Dask collection; of the `top` best only for ordinary rows."""
        if top is not None and _is_collection(X):
            raise ValueError(f"top={top} needs ordinary rows; of a Dask collection map predict_topk over the blocks.")
        if top is not None:
            return self.ordinary().decision_function(X, top=top)
        c = len(self.classes_)  # type: ignore[attr-defined]
        width = () if c == 2 and self._label_matrix is None else (c,)
        return self._by_blocks("decision_function", X, np.float64, width)

    def predict(self, X: Any) -> Any:
        """Class, or label set, of each row: lazily, if X is a Dask collection."""
        if self._label_matrix is not None:
            return self._by_blocks("predict", X, self._label_matrix, (len(self.classes_),))  # type: ignore[attr-defined]
        return self._by_blocks("predict", X, self.classes_.dtype, ())  # type: ignore[attr-defined]

    @property
    def _label_matrix(self) -> Any:
        """The type of the label matrix that the machine was fitted to; None for classes."""
        return vars(self).get("_label_type")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy, of label sets the share of those that are right; blocks of Dask collections stay where they are."""
        if not _is_collection(X):
            return float(self.ordinary().score(X, y, sample_weight))
        from dask.base import compute
        from dask.delayed import delayed

        blocks = [delayed(_hits)(self.ordinary(), rows) for rows in delayed_rows(X, y, sample_weight)]
        hits, weight, known_hits, known_weight, n_absent = np.sum(compute(*blocks), axis=0)
        return float(known_hits / known_weight if n_absent else hits / weight)

    def _by_blocks(self, method: str, X: Any, dtype: Any, width: tuple[int, ...]) -> Any:
        machine = self.ordinary()
        if not _is_collection(X):
            return getattr(machine, method)(X)
        if hasattr(X, "map_partitions"):
            X = X.to_dask_array(lengths=None) if hasattr(X, "to_dask_array") else X
        X = X.rechunk({1: -1})
        chunks = (X.chunks[0], *((k,) for k in width))
        dropped = {} if width else {"drop_axis": 1}
        meta = np.empty((0,) * (1 + len(width)), dtype)
        return X.map_blocks(_of_block, machine, method, dtype=dtype, chunks=chunks, meta=meta, **dropped)


def _of_block(block: Any, machine: Any, method: str) -> Any:
    return getattr(machine, method)(block)


def _hits(machine: Any, rows: Any) -> Any:
    """Weights of the rows that are right, and of all; the same of known labels only, which count if any is known absent."""
    X, y, weight = rows
    if not len(weight):
        return np.zeros(5)
    found = machine.predict(X)
    if not sparse.issparse(y):
        right = float(weight @ (found == y))
        return np.array([right, weight.sum(), right, weight.sum(), 0.0])
    found, T = (found.toarray() if sparse.issparse(found) else found) > 0, y.toarray()
    known = (T != 0).any(axis=1)
    right = (found == (T > 0)).all(axis=1)
    known_right = known & ((found == (T > 0)) | (T == 0)).all(axis=1)
    return np.array([weight @ right, weight.sum(), weight @ known_right, weight @ known, (T < 0).sum()])


def _is_collection(X: Any) -> bool:
    return hasattr(X, "__dask_graph__")


def _client_of(client: Any) -> Any:
    """The one that is given, or the current one; None if there is none, or none is wanted."""
    if client is not None:
        return client or None
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


def _computed(blocks: list[Any]) -> list[Any]:
    from dask.base import compute

    return list(compute(*blocks, scheduler="synchronous"))


class CrammerSingerSVC(OnCollections, polymargin.CrammerSingerSVC):
    __doc__ = polymargin.CrammerSingerSVC.__doc__


class WestonWatkinsSVC(OnCollections, polymargin.WestonWatkinsSVC):
    __doc__ = polymargin.WestonWatkinsSVC.__doc__


class LpNormSVC(OnCollections, polymargin.LpNormSVC):
    __doc__ = polymargin.LpNormSVC.__doc__


class TopKSVC(OnCollections, polymargin.TopKSVC):
    __doc__ = polymargin.TopKSVC.__doc__


class MultiLabelSVC(OnCollections, polymargin.MultiLabelSVC):
    __doc__ = polymargin.MultiLabelSVC.__doc__
