"""Costs of errors between classes: matrices for `label_cost`, from orders and trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymargin.calibration.costs import cost_matrix

Array = NDArray[np.float64]

__all__ = ["label_cost_matrix", "ordered_costs", "tree_costs"]


def label_cost_matrix(cost: Any, classes: NDArray[Any]) -> Array:
    """Costs (c, c) to train with: not negative, zero on the diagonal, and not all zero."""
    matrix = cost_matrix(cost, classes)
    if np.diag(matrix).any():
        raise ValueError("label_cost must be 0 on its diagonal: a right prediction costs nothing.")
    if (matrix < 0.0).any() or not matrix.any():
        raise ValueError("label_cost must not be negative, and some error must cost something.")
    return matrix


def ordered_costs(classes: Any, *, power: float = 1.0) -> dict[Any, dict[Any, float]]:
    """Costs of classes that have an order: how many steps apart they are, to a power.

    Parameters
    ----------
    classes : sequence
        All classes, from the lowest to the highest.
    power : float, default=1
        1 for absolute, 2 for squared distances.

    Returns
    -------
    dict of dict
        ``costs[true][predicted]``, for `label_cost`, scaled such that the cost of an error is 1 on average.

    Examples
    --------
    >>> from polymargin.label_costs import ordered_costs
    >>> ordered_costs(["bad", "fair", "good"])["bad"]
    {'bad': 0.0, 'fair': 0.75, 'good': 1.5}
    """
    names = list(classes)
    if len(set(names)) != len(names) or len(names) < 2:
        raise ValueError(f"classes={names!r} is not valid: it needs at least two classes, each once.")
    places = np.arange(len(names), dtype=np.float64)
    return _named(np.abs(places[:, None] - places) ** power, names)


def tree_costs(paths: Mapping[Any, Sequence[Any]]) -> dict[Any, dict[Any, float]]:
    """Costs of classes that are leaves of a tree: half of the steps from one to the other.

    Parameters
    ----------
    paths : dict
        The groups that each class belongs to, from the largest to the smallest: ``{"oak": ["plant", "tree"], ...}``.

    Returns
    -------
    dict of dict
        ``costs[true][predicted]``, for `label_cost`, scaled such that the cost of an error is 1 on average.

    Examples
    --------
    >>> from polymargin.label_costs import tree_costs
    >>> tree_costs({"oak": ["plant"], "fern": ["plant"], "dog": ["animal"]})["oak"]
    {'oak': 0.0, 'fern': 0.6, 'dog': 1.2}
    """
    names = list(paths)
    if len(names) < 2:
        raise ValueError(f"paths={dict(paths)!r} is not valid: it needs at least two classes.")
    full = {name: [*paths[name], name] for name in names}
    costs = np.array([[_steps(full[a], full[b]) for b in names] for a in names])
    return _named(costs, names)


def _steps(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Half the length of the way between two leaves."""
    common = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        common += 1
    return 0.5 * (len(a) + len(b) - 2 * common)


def _named(costs: Array, names: list[Any]) -> dict[Any, dict[Any, float]]:
    c = len(names)
    costs = costs * (c * (c - 1) / costs.sum())
    return {name: dict(zip(names, row, strict=True)) for name, row in zip(names, costs.tolist(), strict=True)}
