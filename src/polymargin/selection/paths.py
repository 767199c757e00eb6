"""Many machines for little more than one: warm-started paths over C (or p, theta, omega, ...).

Neighbouring values have neighbouring optima. A path is walked from weak to strong loss, each fit starting from the last
one's duals, and every machine on it still ends with its own certificate.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from polymargin.problems.duals import OF_WARM_STARTS

DEFAULT_CS = tuple(np.logspace(-2, 2, 20).tolist())  # four decades


@dataclass(frozen=True)
class Path:
    """The machines of a path, in the order of `values`.

    Attributes
    ----------
    param_name : str
        The parameter that varies.
    values : tuple
        Its values, as they were given.
    machines : tuple of estimators
        A fitted machine for each value; each has its own ``certificate_``.
    seconds : ndarray of shape (n_values,)
        Time of each fit.
    """

    param_name: str
    values: tuple[Any, ...]
    machines: tuple[Any, ...]
    seconds: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of a value and its machine."""
        return iter(zip(self.values, self.machines, strict=True))

    @property
    def objectives(self) -> NDArray[np.float64]:
        """Objective F of each machine."""
        return np.array([machine.objective_ for machine in self.machines])

    @property
    def certificates(self) -> tuple[Any, ...]:
        """Certificate of each machine."""
        return tuple(machine.certificate_ for machine in self.machines)

    @property
    def n_iter(self) -> NDArray[np.int64]:
        """Iterations (passes over the data, or Newton steps) of each fit."""
        return np.array([machine.n_iter_ for machine in self.machines])

    @property
    def norms(self) -> NDArray[np.float64]:
        """Norm of each class vector, ``(n_values, n_classes)``; linear machines only."""
        return np.array([np.linalg.norm(machine.class_vectors_, axis=1) for machine in self.machines])

    def scores(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Score of each machine on this data."""
        return np.array([machine.score(X, y) for machine in self.machines])


def regularization_path(
    estimator: Any,
    X: Any,
    y: Any,
    Cs: Sequence[Any] = DEFAULT_CS,
    *,
    param_name: str = "C",
    sample_weight: Any = None,
) -> Path:
    """Fit a machine for each value of a parameter, each starting from its neighbour.

    Parameters
    ----------
    estimator : polymargin estimator
        Not changed; its other parameters are used for all fits.
    X, y : array-like
        As in ``estimator.fit``.
    Cs : sequence, default: 20 values from 0.01 to 100
        Values of the parameter.
    param_name : str, default="C"
        The parameter: "C", or another one that the estimator has ("p", "theta", "omega", ...).
    sample_weight : array-like, default=None

    Returns
    -------
    Path
        The fitted machines, in the order of `Cs`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import CrammerSingerSVC, regularization_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = regularization_path(CrammerSingerSVC(random_state=0), scale(X), y, [0.1, 1.0, 10.0])
    >>> [machine.certificate_.status for machine in path.machines]
    ['optimal', 'optimal', 'optimal']
    >>> bool((path.objectives[1:] > path.objectives[:-1]).all())
    True
    """
    values = _checked_values(estimator, param_name, Cs)
    walker = clone(estimator)
    if "warm_start" in walker.get_params():
        walker.set_params(warm_start=True)
    machines: list[Any] = [None] * len(values)
    seconds = np.zeros(len(values))
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    for k in from_weak_to_strong(values):
        began = time.perf_counter()
        walker.set_params(**{param_name: values[k]}).fit(X, y, **weights)
        seconds[k] = time.perf_counter() - began
        machines[k] = _snapshot(walker, estimator)
    return Path(param_name, values, tuple(machines), seconds)


def _checked_values(estimator: Any, param_name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    known = estimator.get_params()
    if param_name not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"param_name={param_name!r} is not a parameter of {type(estimator).__name__}; it has {names}.")
    values = tuple(values)
    if not values:
        raise ValueError("Cs is empty; give at least one value.")
    return values


def from_weak_to_strong(values: Sequence[Any]) -> list[int]:
    """Ascending order; values that cannot be ordered keep theirs."""
    try:
        return sorted(range(len(values)), key=lambda k: values[k])
    except TypeError:
        return list(range(len(values)))


def _snapshot(walker: Any, estimator: Any) -> Any:
    """The machine as it is now: a later fit replaces the walker's arrays, it does not write into them."""
    machine = copy.copy(walker)
    if "warm_start" in machine.get_params():
        machine.warm_start = estimator.warm_start
        if not machine.warm_start:
            for name in [name for name in vars(machine) if name.startswith(OF_WARM_STARTS)]:
                del machine.__dict__[name]
    return machine
