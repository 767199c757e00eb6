"""From scores to label sets: the cut, and its choice by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold

Array = NDArray[np.float64]

FOLDS = 5
_ROUNDS = 10  # over all labels
_WORTH = 1e-5  # of a metric: less is not worth another round
_FEWEST_ROWS = 50  # whose halves say something
_MOST_TIMES, _ROWS_TO_JUDGE = 3, 5000  # few rows are halved several times
_MIXTURES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of a label's own cut and the common one


def label_sets(scores: NDArray[Any], cut: Any, allow_empty: bool = False) -> NDArray[np.bool_]:
    """Labels whose score reaches the cut, or their own; where none does, the label of the highest score or none."""
    sets = np.asarray(scores >= cut)
    if allow_empty:
        return sets
    empty = np.flatnonzero(~sets.any(axis=1))
    sets[empty, scores[empty].argmax(axis=1)] = True
    return sets


class Judged:
    """Scores of rows that the machine has not seen, their known labels, and the weights of the rows."""

    def __init__(self, scores: Array, Y: NDArray[np.int8], weight: Array):
        """If Y holds -1, zeros are unknown: they count neither as members nor as predicted."""
        self.scores, self.member, self.weight = scores, Y > 0, weight
        self.known = Y != 0 if (Y < 0).any() else np.ones(Y.shape, dtype=bool)


def best_cut(scores: Array, Y: NDArray[np.int8], weight: Array, metric: str = "jaccard", allow_empty: bool = False) -> float:
    """The cut of all labels with the highest metric of predicted and true label sets.

    Lowering the cut adds labels one at a time. What each adds to the metric is known from its place in its row (or, for
    "macro_f1", among the scores of its label), so one sort of all scores judges all cuts.
    """
    judged = Judged(scores, Y, weight)
    if metric == "micro_f1":
        return _cut_of_micro_f1(judged)
    table = judged.scores if metric != "macro_f1" else judged.scores.T
    order = np.argsort(-table, axis=1, kind="stable")
    values = _SEQUENCES[metric](judged, order)
    if not allow_empty and metric != "macro_f1":  # the highest score of a row is there from the beginning
        values[:, 0] = values[:, 1]
    gains = np.diff(values, axis=1).ravel()
    return _best_event(np.take_along_axis(table, order, axis=1).ravel(), gains)


def _cut_of_micro_f1(judged: Judged) -> float:
    events = judged.scores[judged.known]
    down = np.argsort(-events, kind="stable")
    weight = np.broadcast_to(judged.weight[:, None], judged.known.shape)[judged.known][down]
    member = judged.member[judged.known][down]
    values = 2.0 * np.cumsum(weight * member) / (np.cumsum(weight) + max(float(weight @ member), 1e-300))
    return _best_event(events[down], np.diff(values, prepend=0.0))


def _best_event(events: Array, gains: Array) -> float:
    """The cut above which the gains of the events are most; it lies between two different scores, or beyond all."""
    down = np.argsort(-events, kind="stable")
    events, total = events[down], np.cumsum(gains[down])
    last_of_equals = np.append(events[:-1] > events[1:], True)
    values = np.append(0.0, np.where(last_of_equals, total, -np.inf))
    best = int(values.argmax())
    if best == 0:
        return float(np.nextafter(events[0], np.inf))
    return _between(float(events[best - 1]), float(events[best]) if best < len(events) else float(events[-1]) - 1.0)


def _between(high: float, low: float) -> float:
    middle = 0.5 * (high + low)
    return middle if low < middle else high


def _with_nothing(counts: NDArray[Any]) -> NDArray[Any]:
    """Counts after 0, 1, 2 ... of the ordered entries."""
    return np.concatenate([np.zeros((len(counts), 1), dtype=counts.dtype), counts.cumsum(axis=1)], axis=1)


def _jaccard_sequence(judged: Judged, order: NDArray[np.intp]) -> Array:
    """Of each row, with its highest 0, 1, 2 ... labels; in the weight of the row."""
    hits = _with_nothing(np.take_along_axis(judged.member, order, axis=1).astype(np.int32))
    chosen = _with_nothing(np.take_along_axis(judged.known, order, axis=1).astype(np.int32))
    union = chosen + judged.member.sum(axis=1, keepdims=True) - hits
    return np.asarray(np.where(union > 0, hits / np.maximum(union, 1), 1.0) * judged.weight[:, None])


def _subset_sequence(judged: Judged, order: NDArray[np.intp]) -> Array:
    hits = _with_nothing(np.take_along_axis(judged.member, order, axis=1).astype(np.int32))
    chosen = _with_nothing(np.take_along_axis(judged.known, order, axis=1).astype(np.int32))
    return np.asarray(((hits == chosen) & (hits == judged.member.sum(axis=1, keepdims=True))) * judged.weight[:, None])


def _f1_sequence(judged: Judged, order: NDArray[np.intp]) -> Array:
    """Of each label, with its highest 0, 1, 2 ... rows."""
    member, known = ((flags * judged.weight[:, None]).T for flags in (judged.member, judged.known))
    hits = _with_nothing(np.take_along_axis(member, order, axis=1))
    chosen = _with_nothing(np.take_along_axis(known, order, axis=1))
    return np.asarray(2.0 * hits / np.maximum(chosen + member.sum(axis=1, keepdims=True), 1e-300))


_SEQUENCES = {"jaccard": _jaccard_sequence, "subset_accuracy": _subset_sequence, "macro_f1": _f1_sequence}


# ---- a cut of its own for each label --------------------------------------------------------------------------------------


def best_cuts(scores: Array, Y: NDArray[np.int8], weight: Array, metric: str = "jaccard") -> Array:
    """A cut for each label, with the highest metric that was found; rows may be left without labels.

    F1 is judged label by label: "macro_f1" exactly so, "micro_f1" by Dinkelbach's iteration, which is exact too. Measures
    of rows start from the better of that and of one cut for all, and climb label by label, each to its best place while the
    others stand still.
    """
    judged = Judged(scores, Y, weight)
    ranked = _Ranked(judged)
    if metric == "macro_f1":
        return ranked.cuts(2.0 * ranked.hits / np.maximum(ranked.chosen + ranked.hits[-1], 1e-300))
    by_micro = _cuts_of_micro_f1(judged, ranked)
    if metric == "micro_f1":
        return by_micro
    common = np.full(scores.shape[1], best_cut(scores, Y, weight, metric, allow_empty=True))
    start = max((common, by_micro), key=lambda cuts: _row_metric(judged, scores >= cuts, metric))
    return _climb(judged, ranked, start, metric)


class _Ranked:
    """The scores of each label from the highest on, with what lies above each: hits and chosen, (n, c)."""

    def __init__(self, judged: Judged):
        self.order = np.argsort(-judged.scores, axis=0, kind="stable").astype(np.int32)
        self.scores = np.take_along_axis(judged.scores, self.order, axis=0)
        self._ends = np.ones(self.scores.shape, dtype=bool)  # no cut lies between equal scores
        self._ends[:-1] = self.scores[:-1] > self.scores[1:]
        self.hits = self._above(judged.member, judged.weight)
        self.chosen = self._above(judged.known, judged.weight)

    def _above(self, flags: NDArray[np.bool_], weight: Array) -> Array:
        return np.asarray((np.take_along_axis(flags, self.order, axis=0) * weight[self.order]).cumsum(axis=0))

    def cuts(self, values: Array) -> Array:
        """Of each label the cut with the highest of these values, (n, c), or above all scores, which is worth 0."""
        values = np.where(self._ends, values, -np.inf)
        best = values.argmax(axis=0)
        return np.array([self._cut(k, int(at), float(values[at, k])) for k, at in enumerate(best)])

    def cut_by_gains(self, k: int, gains: Array) -> float:
        values = np.where(self._ends[:, k], gains[self.order[:, k]].cumsum(), -np.inf)
        best = int(values.argmax())
        return self._cut(k, best, float(values[best]))

    def _cut(self, k: int, last: int, value: float) -> float:
        column = self.scores[:, k]
        if value <= 0.0:
            return float(np.nextafter(column[0], np.inf))
        return _between(float(column[last]), float(column[last + 1]) if last + 1 < len(column) else float(column[-1]) - 1.0)


def _cuts_of_micro_f1(judged: Judged, ranked: _Ranked) -> Array:
    """Those that maximise ``2 hits - F (chosen + members)`` at the F they reach."""
    members, F = float(ranked.hits[-1].sum()), 0.0
    cuts = np.full(judged.scores.shape[1], np.inf)
    for _ in range(_ROUNDS):
        cuts = ranked.cuts(2.0 * ranked.hits - F * ranked.chosen)
        chosen = (judged.scores >= cuts) & judged.known
        reached = 2.0 * float(judged.weight @ (chosen & judged.member).sum(axis=1))
        found = reached / max(float(judged.weight @ chosen.sum(axis=1)) + members, 1e-300)
        if found <= F * (1.0 + 1e-12):
            break
        F = found
    return cuts


def _climb(judged: Judged, ranked: _Ranked, cuts: Array, metric: str) -> Array:
    cuts, best = cuts.copy(), -1.0
    for _ in range(_ROUNDS):
        chosen = (judged.scores >= cuts) & judged.known
        found = _row_metric(judged, chosen, metric)
        if found <= best + _WORTH:
            break
        best = found
        hits, wrong = (chosen & judged.member).sum(axis=1), (chosen & ~judged.member).sum(axis=1)
        members = judged.member.sum(axis=1)
        for k in range(len(cuts)):
            own, known, before = judged.member[:, k], judged.known[:, k], chosen[:, k]
            hits -= before & own
            wrong -= before & ~own
            with_it = _row_values(hits + own, wrong + ~own, members, metric)
            gains = np.where(known, judged.weight * (with_it - _row_values(hits, wrong, members, metric)), 0.0)
            cuts[k] = ranked.cut_by_gains(k, gains)
            chosen[:, k] = after = (judged.scores[:, k] >= cuts[k]) & known
            hits += after & own
            wrong += after & ~own
    return cuts


def steady_cuts(scores: Array, Y: NDArray[np.int8], weight: Array, metric: str, seed: int) -> Array:
    """Cuts of the labels, drawn towards the one cut of all as far as rows that had no part in choosing them say it pays.

    The best cut of a rare label is a matter of few rows. Of some mixtures of the two, that one is taken which is best on
    each half of the rows when its cuts are those of the other half.
    """
    if len(scores) < _FEWEST_ROWS:
        return best_cuts(scores, Y, weight, metric)
    rng, values = np.random.default_rng(seed), np.zeros(len(_MIXTURES))
    for _ in range(max(1, min(_MOST_TIMES, _ROWS_TO_JUDGE // len(scores)))):
        halves = rng.permutation(len(scores)) % 2 == 0
        for half in (halves, ~halves):
            mixed = _mixtures(scores[half], Y[half], weight[half], metric)
            judged = Judged(scores[~half], Y[~half], weight[~half])
            values += [_metric(judged, judged.scores >= cuts, metric) for cuts in mixed]
    return _mixtures(scores, Y, weight, metric)[int(values.argmax())]


def _mixtures(scores: Array, Y: NDArray[np.int8], weight: Array, metric: str) -> list[Array]:
    own, common = best_cuts(scores, Y, weight, metric), best_cut(scores, Y, weight, metric, allow_empty=True)
    return [part * own + (1.0 - part) * common for part in _MIXTURES]


def _metric(judged: Judged, chosen: NDArray[np.bool_], metric: str) -> float:
    if metric in ("jaccard", "subset_accuracy"):
        return _row_metric(judged, chosen, metric)
    chosen = chosen & judged.known
    hits, taken, members = (judged.weight @ flags for flags in (chosen & judged.member, chosen, judged.member))
    if metric == "micro_f1":
        hits, taken, members = hits.sum(keepdims=True), taken.sum(keepdims=True), members.sum(keepdims=True)
    return float((2.0 * hits / np.maximum(taken + members, 1e-300)).mean())


def _row_values(hits: NDArray[Any], wrong: NDArray[Any], members: NDArray[Any], metric: str) -> Array:
    if metric == "subset_accuracy":
        return np.asarray((hits == members) & (wrong == 0), dtype=np.float64)
    union = wrong + members
    return np.asarray(np.where(union > 0, hits / np.maximum(union, 1), 1.0))


def _row_metric(judged: Judged, chosen: NDArray[np.bool_], metric: str) -> float:
    chosen = chosen & judged.known
    hits, wrong = (chosen & judged.member).sum(axis=1), (chosen & ~judged.member).sum(axis=1)
    return float(np.average(_row_values(hits, wrong, judged.member.sum(axis=1), metric), weights=judged.weight))


# ---- cross-validation -----------------------------------------------------------------------------------------------------


def cross_validated_cut(
    fit: Callable[[Any, Any, Array, NDArray[np.intp]], Any],
    X: Any,
    table: sparse.csr_array,
    weight: Array,
    seed: int,
    pairwise: bool,
    allow_empty: bool = False,
) -> float:
    """The best cut for scores of rows that the machine has not seen.

    ``fit(X, Y, weight, columns)`` fits a machine to some rows and columns. A column without members in a fold is left out of
    it and scored minus infinity there.
    """
    n, c = table.shape
    scores, seen = np.full((n, c), -np.inf), np.zeros(n, dtype=bool)
    for train, test in KFold(min(FOLDS, n), shuffle=True, random_state=seed).split(np.empty(n)):
        part = table[train]
        columns = np.unique(part.indices[part.data > 0])
        if len(columns) < 2:
            continue
        rows, others = (X[train][:, train], X[test][:, train]) if pairwise else (X[train], X[test])
        machine = fit(rows, part[:, columns], weight[train], columns)
        scores[np.ix_(test, columns)] = machine.decision_function(others)
        seen[test] = True
    if not seen.any():
        raise ValueError("threshold='auto' needs labels that at least two rows have each; set threshold to a number.")
    return best_cut(np.nan_to_num(scores[seen], neginf=-1e300), table[seen].toarray(), weight[seen], allow_empty=allow_empty)
