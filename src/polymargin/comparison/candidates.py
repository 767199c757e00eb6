"""Who takes part: every machine of this library, and what people use today. Each with the grid it is tuned on.

All linear machines are tuned over the same values of C, all kernel machines over the same smaller set, so that nobody wins
by a finer grid. A machine's own parameter adds a few values: its class says which, and whether it is tried with a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags

from polymargin.comparison.known_labels import KnownLabelsClassifier
from polymargin.estimators import MarginSVC, machines

LINEAR_CS = tuple(np.logspace(-2, 2, 5).tolist())
KERNEL_CS = (0.1, 1.0, 10.0, 100.0)
NYSTROEM_FROM = 3000  # rows from which our kernel machines use a Nystroem map
NYSTROEM_RANK = 500
SVC_UP_TO = 20_000  # rows beyond which SVC is too slow to be tuned

# Products of the family without a class of their own that were level with the best loss most often on the papers' data
# (docs/family.md, "Which losses win"). What never wins takes no time here.
FAMILY: dict[str, dict[str, Any]] = {
    "MarginSVC Weston-Watkins squared": {"loss": "weston_watkins", "squared": True},
    "MarginSVC Crammer-Singer squared": {"loss": "crammer_singer", "squared": True},
}


@dataclass(frozen=True)
class Candidate:
    """A machine with the grid it is tuned on.

    Attributes
    ----------
    name : str
        How tables call it.
    estimator : estimator
    grid : dict of str to sequence
        Parameters of `estimator` to choose among; empty if there is nothing to choose.
    ours : bool
        Whether it is a machine of this library.
    """

    name: str
    estimator: Any
    grid: dict[str, Any] = field(default_factory=dict)
    ours: bool = False


def default_candidates(
    n_rows: int,
    n_classes: int,
    *,
    multilabel: bool = False,
    known_only: bool = False,
    probabilities: bool = False,
    random_state: int | None = 0,
) -> list[Candidate]:
    """All machines that make sense for so many rows; `known_only`: the label matrix has -1 and unknown entries.

    With `probabilities` those that have them, ours with ``probability=True``.
    """
    ours = _our_machines(n_rows, multilabel, random_state)
    if multilabel:
        return ours + _multilabel_rivals(n_rows, random_state, KnownLabelsClassifier if known_only else OneVsRestClassifier)
    if not probabilities:
        return ours + _rivals(n_rows, n_classes, random_state)
    for candidate in ours:
        candidate.estimator.set_params(probability=True)
    return ours + [rival for rival in _rivals(n_rows, n_classes, random_state) if hasattr(rival.estimator, "predict_proba")]


def _our_machines(n_rows: int, multilabel: bool, random_state: int | None) -> list[Candidate]:
    found = []
    for name, machine in machines().items():
        estimator = machine(random_state=random_state)
        if not machine._is_compared:
            continue
        if multilabel and not get_tags(estimator).classifier_tags.multi_label:
            continue
        if multilabel and "threshold" in estimator.get_params():
            estimator.set_params(threshold="auto")
        own = machine._grid
        found.append(Candidate(name, estimator, {**own, "C": LINEAR_CS}, ours=True))
        if machine._compares_kernel:
            rank = NYSTROEM_RANK if n_rows > NYSTROEM_FROM else None
            kernel = machine(**{**estimator.get_params(), "kernel": "rbf", "n_components": rank})
            grid = {**{key: values[-1:] for key, values in own.items()}, "C": KERNEL_CS}
            found.append(Candidate(f"{name} rbf", kernel, grid, ours=True))
    return found if multilabel else found + _members_of_the_family(random_state)


def _members_of_the_family(random_state: int | None) -> list[Candidate]:
    return [
        Candidate(name, MarginSVC(**product, random_state=random_state), {"C": LINEAR_CS}, ours=True)
        for name, product in FAMILY.items()
    ]


def _rivals(n_rows: int, n_classes: int, random_state: int | None) -> list[Candidate]:
    linear = LinearSVC(random_state=random_state, max_iter=10_000)
    rivals = [
        Candidate("LinearSVC one-vs-rest", linear, {"C": LINEAR_CS}),
        Candidate("LogisticRegression", LogisticRegression(max_iter=1000), {"C": LINEAR_CS}),
    ]
    if n_classes > 2:
        codes = OutputCodeClassifier(linear, code_size=2.0, random_state=random_state)
        rivals.insert(1, Candidate("LinearSVC one-vs-one", OneVsOneClassifier(linear), {"estimator__C": LINEAR_CS}))
        rivals.insert(2, Candidate("LinearSVC output codes", codes, {"estimator__C": LINEAR_CS}))
    if n_rows <= SVC_UP_TO:
        rivals.append(Candidate("SVC rbf", SVC(), {"C": KERNEL_CS}))
    return rivals


def _multilabel_rivals(n_rows: int, random_state: int | None, per_label: Any) -> list[Candidate]:
    rivals = {
        "LinearSVC per label": (LinearSVC(random_state=random_state, max_iter=10_000), LINEAR_CS),
        "LogisticRegression per label": (LogisticRegression(max_iter=1000), LINEAR_CS),
    }
    if n_rows <= SVC_UP_TO:
        rivals["SVC rbf per label"] = (SVC(), KERNEL_CS)
    return [Candidate(name, per_label(est), {"estimator__C": Cs}) for name, (est, Cs) in rivals.items()]
