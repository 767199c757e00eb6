"""From scores to label sets: the cut, and its choice by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold

from polymargin._core import native

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
    """Scores of rows that the machine has not seen, their known labels, weights of the rows; sorted on request."""

    def __init__(self, scores: Array, Y: NDArray[np.int8], weight: Array):
        """If Y holds -1, zeros are unknown: they count neither as members nor as predicted."""
        self.scores, self.member = scores, Y > 0
        self.known = Y != 0 if (Y < 0).any() else np.ones(Y.shape, dtype=bool)
        self.weight = weight * self.known.any(axis=1)  # rows of which nothing is known say nothing

    @cached_property
    def down(self) -> NDArray[np.intp]:
        """Numbers of all entries, row after row, from the highest score on."""
        return np.argsort(-self.scores, axis=None, kind="stable")

    @cached_property
    def by_row(self) -> NDArray[np.intp]:
        """Labels of each row, (n, c), from the highest score on."""
        return np.argsort(-self.scores, axis=1, kind="stable")

    @cached_property
    def by_label(self) -> NDArray[np.intp]:
        """Rows of each label, (c, n), from the highest score on."""
        return np.argsort(-self.scores.T, axis=1, kind="stable")

    @cached_property
    def n_members(self) -> NDArray[np.intp]:
        return self.member.sum(axis=1)

    def part(self, rows: NDArray[np.bool_]) -> Judged:
        """Some of the rows."""
        return _Part(self, rows)


class _Part(Judged):
    """Some rows of others, in their orders: nothing is sorted again."""

    def __init__(self, whole: Judged, rows: NDArray[np.bool_]):
        self.scores, self.weight = whole.scores[rows], whole.weight[rows]
        self.member, self.known = whole.member[rows], whole.known[rows]
        self._whole, self._rows, self._numbers = whole, rows, np.cumsum(rows) - 1

    @cached_property
    def down(self) -> NDArray[np.intp]:
        c = self.scores.shape[1]
        there = self._whole.down[np.repeat(self._rows, c)[self._whole.down]]
        first = c * (self._numbers - np.arange(len(self._rows)))  # how far the entries of a row move
        return np.asarray(there + np.repeat(first, c)[there])

    @cached_property
    def by_row(self) -> NDArray[np.intp]:
        return self._whole.by_row[self._rows]

    @cached_property
    def by_label(self) -> NDArray[np.intp]:
        order = self._whole.by_label
        return self._numbers[order[self._rows[order]]].reshape(len(order), -1)


def best_cut(scores: Array, Y: NDArray[np.int8], weight: Array, metric: str = "jaccard", allow_empty: bool = False) -> float:
    """The cut of all labels with the highest metric of predicted and true label sets.

    Lowering the cut adds labels one at a time. What each adds to the metric is known from its place in its row (or, for
    "macro_f1", among the scores of its label), so one sort of all scores judges all cuts.
    """
    return _common_cuts(Judged(scores, Y, weight), metric, (allow_empty,))[0]


def _common_cuts(judged: Judged, metric: str, ways: tuple[bool, ...]) -> list[float]:
    """One for each way: empty sets are allowed, or not."""
    if metric == "micro_f1":
        return [_cut_of_micro_f1(judged)] * len(ways)
    by_label = metric == "macro_f1"
    order = judged.by_label if by_label else judged.by_row
    in_order = np.diff(_SEQUENCES[metric](judged, order), axis=1)
    sorted_scores, found = judged.scores.ravel()[judged.down], []
    for allow_empty in ways:
        if not allow_empty and not by_label:  # the highest score of a row is there from the beginning
            in_order[:, 0] = 0.0
        gains = np.empty(order.shape)
        np.put_along_axis(gains, order, in_order, axis=1)
        entries = (gains.T if by_label else gains).ravel()
        found.append(_best_event(sorted_scores, entries[judged.down]))
    return found


def _cut_of_micro_f1(judged: Judged) -> float:
    known = judged.down[judged.known.ravel()[judged.down]]
    weight, member = judged.weight[known // judged.scores.shape[1]], judged.member.ravel()[known]
    values = 2.0 * np.cumsum(weight * member) / (np.cumsum(weight) + max(float(weight @ member), 1e-300))
    return _best_event(judged.scores.ravel()[known], np.diff(values, prepend=0.0))


def _best_event(events: Array, gains: Array) -> float:
    """The cut above which the gains of the events are most; it lies between two different scores, or beyond all.

    The events are sorted, from the highest score on.
    """
    last_of_equals = np.append(events[:-1] > events[1:], True)
    values = np.append(0.0, np.where(last_of_equals, np.cumsum(gains), -np.inf))
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
    union = chosen + judged.n_members[:, None] - hits
    return np.asarray(np.where(union > 0, hits / np.maximum(union, 1), 1.0) * judged.weight[:, None])


def _subset_sequence(judged: Judged, order: NDArray[np.intp]) -> Array:
    hits = _with_nothing(np.take_along_axis(judged.member, order, axis=1).astype(np.int32))
    chosen = _with_nothing(np.take_along_axis(judged.known, order, axis=1).astype(np.int32))
    return np.asarray(((hits == chosen) & (hits == judged.n_members[:, None])) * judged.weight[:, None])


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
    return _own_cuts(judged, _common_cuts(judged, metric, (True,))[0], metric)


def _own_cuts(judged: Judged, common: float, metric: str) -> Array:
    """Those of the labels, beside the best one cut of all."""
    ranked = _Ranked(judged)
    if metric == "macro_f1":
        return ranked.cuts(2.0 * ranked.hits / np.maximum(ranked.chosen + ranked.hits[:, -1:], 1e-300))
    by_micro = _cuts_of_micro_f1(ranked)
    if metric == "micro_f1":
        return by_micro
    starts = np.full(len(by_micro), common), by_micro
    return _climb(judged, ranked, max(starts, key=lambda cuts: _row_metric(judged, judged.scores >= cuts, metric)), metric)


class _Ranked:
    """The scores of each label from the highest on, with what lies above each: hits and chosen, (c, n)."""

    def __init__(self, judged: Judged):
        self.order = judged.by_label
        self.scores = np.take_along_axis(judged.scores.T, self.order, axis=1)
        self.ends = np.ones(self.scores.shape, dtype=bool)  # no cut lies between equal scores
        self.ends[:, :-1] = self.scores[:, :-1] > self.scores[:, 1:]
        self.hits = self._above(judged.member, judged.weight)
        self.chosen = self._above(judged.known, judged.weight)

    def _above(self, flags: NDArray[np.bool_], weight: Array) -> Array:
        return np.asarray((np.take_along_axis(flags.T, self.order, axis=1) * weight[self.order]).cumsum(axis=1))

    def places(self, values: Array) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Of each label the last of the scores to reach, by the highest of these values, (c, n); and whether it is worth it,
        as reaching none is worth 0."""
        values = np.where(self.ends, values, -np.inf)
        last = values.argmax(axis=1)
        return last, values[np.arange(len(last)), last] > 0.0

    def cuts(self, values: Array) -> Array:
        """Those places as cuts."""
        last, pays = self.places(values)
        return self.cuts_at(np.where(pays, last + 1, 0))

    def cuts_at(self, reach: NDArray[np.intp]) -> Array:
        """Cuts that so many of the scores of each label reach."""
        return np.array([self._cut(own, int(count)) for own, count in zip(self.scores, reach, strict=True)])

    @staticmethod
    def _cut(own: Array, count: int) -> float:
        if not count:
            return float(np.nextafter(own[0], np.inf))
        return _between(float(own[count - 1]), float(own[count]) if count < len(own) else float(own[-1]) - 1.0)


def _cuts_of_micro_f1(ranked: _Ranked) -> Array:
    """Those that maximise ``2 hits - F (chosen + members)`` at the F they reach."""
    members, F, each = float(ranked.hits[:, -1].sum()), 0.0, np.arange(len(ranked.hits))
    values = 2.0 * ranked.hits
    for _ in range(_ROUNDS):
        values = 2.0 * ranked.hits - F * ranked.chosen
        last, pays = ranked.places(values)
        hits, chosen = (float(above[each, last] @ pays) for above in (ranked.hits, ranked.chosen))
        found = 2.0 * hits / max(chosen + members, 1e-300)
        if found <= F * (1.0 + 1e-12):
            break
        F = found
    return ranked.cuts(values)


def _climb(judged: Judged, ranked: _Ranked, cuts: Array, metric: str) -> Array:
    """Label by label to the cut that is best beside those of the others, until a round is not worth it."""
    reach = (ranked.scores >= cuts[:, None]).sum(axis=1)
    native.climb_cuts(
        np.ascontiguousarray(ranked.order),
        ranked.ends,
        np.ascontiguousarray(judged.member.T),
        np.ascontiguousarray(judged.known.T),
        np.ascontiguousarray(judged.weight, dtype=np.float64),
        reach,
        subsets=metric == "subset_accuracy",
        rounds=_ROUNDS,
        worth=_WORTH,
    )
    return ranked.cuts_at(reach)


class Cuts(NamedTuple):
    """A cut of all labels or one for each, and whether rows that reach none stay without labels."""

    cuts: Any
    allow_empty: bool

    def value(self, judged: Judged, metric: str) -> float:
        return _metric(judged, label_sets(judged.scores, self.cuts, self.allow_empty), metric)


class Chosen(NamedTuple):
    """Cuts, and their metric: of many cuts that of rows that had no part in choosing them, if there are enough."""

    cuts: Any
    allow_empty: bool
    value: float


def chosen_cut(
    scores: Array, Y: NDArray[np.int8], weight: Array, metric: str, ways: tuple[bool, ...] = (True, False)
) -> Chosen:
    """The best cut of all labels, by the better one of the ways: empty sets are allowed, or not."""
    judged = Judged(scores, Y, weight)
    return _best_of(list(map(Cuts, _common_cuts(judged, metric, ways), ways)), judged, metric)


def _best_of(found: list[Cuts], judged: Judged, metric: str) -> Chosen:
    values = [cuts.value(judged, metric) for cuts in found]
    best = int(np.argmax(values))
    return Chosen(*found[best], values[best])


def steady_cuts(
    scores: Array, Y: NDArray[np.int8], weight: Array, metric: str, seed: int, ways: tuple[bool, ...] = (True, False)
) -> Chosen:
    """Cuts of the labels, drawn towards the one cut of all as far as rows that had no part in choosing them say it pays.

    The best cut of a rare label is a matter of few rows. Of some mixtures of the two, that one is taken which is best on
    each half of the rows when its cuts are those of the other half; of the ways, allowing empty sets or not, likewise. Its
    value is that of the halves: on the rows that they were chosen by many cuts look better than few.
    """
    judged = Judged(scores, Y, weight)
    if len(scores) < _FEWEST_ROWS:
        cuts = best_cuts(scores, Y, weight, metric)
        return _best_of([Cuts(cuts, way) for way in ways], judged, metric)
    rng, values = np.random.default_rng(seed), np.zeros(len(ways) * len(_MIXTURES))
    times = max(1, min(_MOST_TIMES, _ROWS_TO_JUDGE // len(scores)))
    for _ in range(times):
        half = rng.permutation(len(scores)) % 2 == 0
        halves = judged.part(half), judged.part(~half)
        for chosen_by, judged_by in (halves, halves[::-1]):
            values += [cuts.value(judged_by, metric) for cuts in _mixtures(chosen_by, metric, ways)]
    best = int(values.argmax())
    return Chosen(*_mixtures(judged, metric, ways)[best], float(values[best]) / (2 * times))


def _mixtures(judged: Judged, metric: str, ways: tuple[bool, ...]) -> list[Cuts]:
    common = _common_cuts(judged, metric, ways)
    own = _own_cuts(judged, common[0], metric)
    return [Cuts(part * own + (1.0 - part) * cut, way) for cut, way in zip(common, ways, strict=True) for part in _MIXTURES]


def _metric(judged: Judged, chosen: NDArray[np.bool_], metric: str) -> float:
    if metric in ("jaccard", "subset_accuracy"):
        return _row_metric(judged, chosen, metric)
    chosen = chosen & judged.known
    hits, taken, members = (judged.weight @ flags for flags in (chosen & judged.member, chosen, judged.member))
    if metric == "micro_f1":
        hits, taken, members = hits.sum(keepdims=True), taken.sum(keepdims=True), members.sum(keepdims=True)
    values = 2.0 * hits / np.maximum(taken + members, 1e-300)
    return float(values.mean() if metric == "micro_f1" else values[judged.known.any(axis=0)].mean())


def _row_metric(judged: Judged, chosen: NDArray[np.bool_], metric: str) -> float:
    chosen = chosen & judged.known
    hits, members = (chosen & judged.member).sum(axis=1), judged.n_members
    wrong = chosen.sum(axis=1) - hits
    if metric == "subset_accuracy":
        values = np.asarray((hits == members) & (wrong == 0), dtype=np.float64)
    else:
        values = np.where(wrong + members > 0, hits / np.maximum(wrong + members, 1), 1.0)
    return float(values @ judged.weight) / max(float(judged.weight.sum()), 1e-300)


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
