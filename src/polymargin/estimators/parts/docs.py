"""Docstrings of the machines: what all of them share is written here, once.

A machine's own docstring has the lines ``[parameters]`` and ``[attributes]`` where the shared entries go, one with costs
``[label_cost]`` too, and `documented` puts them there. What does not fit together (no such line, no such entry) is an error
at import, never a broken text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import TypeVar

_PARAMETERS = """
C : float, default=1.0
    Weight of the loss, which is a sum over rows as in :class:`sklearn.svm.SVC`. Must be positive. ``np.inf`` is the hard
    margin of rows that can be separated, an error otherwise: a convex machine whose loss can be 0 is fitted with growing C
    until no row has a loss, and `C_` is that C.
kernel : str or callable, default="linear"
    "linear", "rbf", "poly", "sigmoid", "laplacian", "precomputed" or a callable, as in :class:`sklearn.svm.SVC`. The
    kernel machine is exact, whether it is fitted through a pivoted Cholesky factor of the kernel matrix or, with many
    rows, by a dual that asks for few of the matrix's rows.
gamma, degree, coef0
    Kernel parameters as in :class:`sklearn.svm.SVC`; no effect on a linear kernel.
n_components : int or None, default=None
    Rank of a Nystroem approximation of the kernel, for very many rows; None is exact.
fit_intercept : bool, default=True
    Whether the classes have offsets b. They are not penalised.
tol : float, default=1e-4
    Relative duality gap at which to stop: ``primal - dual <= tol * |primal|``.
max_iter : int, default=1000
    Limit on epochs. One epoch is as many row visits as there are rows. -1 is no limit.
class_weight : dict, "balanced" or None, default=None
    Weights of the classes, multiplied with the sample weights.
warm_start : bool, default=False
    Start from the last fit's duals if rows, features and classes have the same numbers; e.g. for a path over C.
n_jobs : int or None, default=None
    Threads for the ascent, where rows are long and many, and for passes over all rows (the true gap). None means 1, -1 all
    processors. The result does not depend on it.
verbose : int, default=0
    Print a line at each evaluation of the true gap, with the rate at which it falls and the time left at that rate; at
    least one every 5 s.
random_state : int, RandomState instance or None, default=None
    Order in which rows are visited. None is one and the same order: a fit can be repeated.
on_interrupt : "raise" or "keep", default="raise"
    What Ctrl-C during the fit does: leave the estimator as it was, or keep the machine found so far, with its
    certificate and a warning. Before there is one, "keep" raises too.
probability : bool or "averaged", default=False
    Whether to fit `predict_proba` too, to the scores of rows left out: a temperature for all classes, and what else rows
    left out say that it pays. A few coarse fits, each started from the whole one's duals, take about half of its time.
    With "averaged" the machine is the mean of the whole fit's and theirs, for better probabilities where machines of other
    rows differ much: the certificate, with status "averaged", says what that costs. Linear, convex machines only.
"""

_LABEL_COST = """
label_cost : array, DataFrame or dict of dict of shape (n_classes, n_classes), default=None
    What it costs to predict the column where the row is true, zero on the diagonal: margins to rivals must reach it,
    ``s_y - s_l >= label_cost[y, l]``. Rows and columns are in the order of the sorted classes, or named by a data frame or
    by a dictionary of rows (which a model file can hold). None is 1 for every error. See :mod:`polymargin.label_costs`.
"""

_ATTRIBUTES = """
class_vectors_ : ndarray of shape (n_classes, n_features)
    One vector per class, for two classes too. They add up to zero.
class_offsets_ : ndarray of shape (n_classes,)
    One offset per class. They add up to zero.
coef_, intercept_ : ndarray
    The same in scikit-learn's shapes: for two classes the differences, ``(1, n_features)`` and ``(1,)``. There are
    class vectors and `coef_` for the linear kernel only.
support_, n_support_ : ndarray
    Indices of the support rows, those with a dual that is not 0, and their number in each class. Linear machines have
    them where the fit leaves duals.
dual_coef_ : ndarray of shape (n_classes, n_support)
    Coefficients of the support rows, ``s_k(x) = sum_i dual_coef_[k, i] k(x_i, x) + class_offsets_[k]``. Linear machines
    keep their duals with ``warm_start=True`` only, and the sum is their score to the tolerance.
support_vectors_ : ndarray
    Other kernels: the support rows.
classes_ : ndarray of shape (n_classes,)
    Class labels.
temperature_ : float
    With probability=True: what scores are divided by to become logarithms of probabilities (of odds, for labels).
class_biases_ : ndarray of shape (n_classes,)
    With probability=True: what is added then, 0 where that did not pay (one and the same number for labels).
class_mixing_ : ndarray of shape (n_classes, n_classes) or None
    With probability=True: a matrix that scores are multiplied by before, where that paid.
lapse_ : float
    With probability=True: the share of rows about which scores say nothing, at which all classes are equally likely.
certificate_ : Certificate
    Objective, dual bound, gap, status, iterations, seconds and history of the fit.
objective_ : float
    ``certificate_.primal``.
n_iter_ : int
    Epochs used, and Newton steps if an interior point ended the fit.
n_features_in_, feature_names_in_
    As in scikit-learn.
"""

_WIDTH = 125 - 8

Class = TypeVar("Class", bound=type)


def documented(*, without: Iterable[str] = (), **changed: str) -> Callable[[Class], Class]:
    """Completes a machine's docstring; `without` names entries it has not, `changed` gives some another text."""

    def complete(machine: Class) -> Class:
        text = machine.__doc__
        if text is None:  # python -OO
            return machine
        unknown = {*without, *changed}
        for place, shared in (("[parameters]", _PARAMETERS), ("[attributes]", _ATTRIBUTES)):
            entries = _entries(shared)
            unknown -= entries.keys()
            text = _insert(text, place, _section(entries, set(without), changed), machine.__name__)
        if "[label_cost]" in text:
            text = _insert(text, "[label_cost]", _section(_entries(_LABEL_COST), set(), {}), machine.__name__)
        if unknown:
            raise TypeError(f"the docstring of {machine.__name__} changes {sorted(unknown)}, which no machine shares")
        machine.__doc__ = text
        return machine

    return complete


def _entries(section: str) -> dict[str, tuple[str, str]]:
    """Heading and text of each entry, by its first name."""
    found: dict[str, tuple[str, str]] = {}
    for line in section.strip().splitlines():
        if not line.startswith(" "):
            name = line.replace(",", " ").split()[0]
            found[name] = line, ""
        else:
            found[name] = found[name][0], f"{found[name][1]}{line}\n"
    return found


def _section(entries: dict[str, tuple[str, str]], without: set[str], changed: dict[str, str]) -> str:
    lines = []
    for name, (heading, text) in entries.items():
        if name not in without:
            new = changed.get(name)
            lines += [heading, (textwrap.indent(textwrap.fill(new, _WIDTH), "    ") if new else text).rstrip()]
    return "\n".join(lines)


def _insert(text: str, place: str, section: str, name: str) -> str:
    """The section in the place of the line that says so, with its indentation."""
    lines = [line for line in text.splitlines() if line.strip() == place]
    if len(lines) != 1:
        raise TypeError(f"the docstring of {name} must have one line {place} for the shared entries; it has {len(lines)}")
    return text.replace(lines[0], textwrap.indent(section, lines[0][: lines[0].index(place)]), 1)
