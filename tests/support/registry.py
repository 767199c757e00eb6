"""Every public estimator, found in ``polymargin.__all__``: a new machine is tested as soon as it is public.

What a test needs to know about a machine is read from the machine. The one thing to declare is a
class attribute ``_convex = False`` where the objective is not convex; convex machines declare nothing,
and need a line in ``reference.REFERENCES``.
"""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

import polymargin

# Machines that are not convex and, from another start or order of rows, end in another minimum: so far apart, relatively.
# Measured in the tests of promises: 3e-5.
OTHER_MINIMA = {"MarginDistributionSVC": 1e-4}


def all_estimators() -> list[type[BaseEstimator]]:
    """The public machines, in the order of ``polymargin.__all__``."""
    public = (getattr(polymargin, name) for name in polymargin.__all__)
    return [
        thing
        for thing in public
        if inspect.isclass(thing) and issubclass(thing, BaseEstimator) and hasattr(thing, "objective")
    ]


def classes_in(package: ModuleType, base: type) -> set[type]:
    """Every class of a kind that the modules of a package define and that can be made, registered or not."""
    modules = [import_module(module.name) for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    classes = {thing for module in modules for thing in vars(module).values() if inspect.isclass(thing)}
    return {thing for thing in classes if issubclass(thing, base) and not inspect.isabstract(thing)}


def is_convex(machine: type[BaseEstimator]) -> bool:
    return bool(getattr(machine, "_convex", True))


def has_free_intercept(machine: type[BaseEstimator]) -> bool:
    return "fit_intercept" in machine().get_params()


def has_centred_offsets(machine: type[BaseEstimator]) -> bool:
    """Whether one number added to every b_k changes nothing: such machines report those with sum zero."""
    return has_free_intercept(machine) and not machine()._representative(np.ones(2)).any()


def supports_multilabel(machine: type[BaseEstimator]) -> bool:
    return bool(get_tags(machine()).classifier_tags.multi_label)


def has_centred_vectors(machine: type[BaseEstimator]) -> bool:
    """Whether R allows one vector to be added to every w_k: such machines report the one with sum zero."""
    return bool(machine()._penalty().centres)


def has_unique_vectors(machine: type[BaseEstimator]) -> bool:
    """R = 1/2 |W|^2 and a convex loss: the optimal W is unique."""
    return is_convex(machine) and bool(machine()._penalty().identity_hessian)


def convex_estimators() -> list[type[BaseEstimator]]:
    return [machine for machine in all_estimators() if is_convex(machine)]


def _intercept_settings(machine: type[BaseEstimator]) -> Iterator[dict[str, Any]]:
    yield {}
    if has_free_intercept(machine):
        yield {"fit_intercept": False}


def variants() -> list[Any]:
    """(machine, parameters) for ``pytest.mark.parametrize``: with and without intercept."""
    return [
        pytest.param(machine, params, id=f"{machine.__name__}{'-no_intercept' if params else ''}")
        for machine in all_estimators()
        for params in _intercept_settings(machine)
    ]


each_machine = pytest.mark.parametrize("machine", all_estimators(), ids=lambda machine: machine.__name__)
each_convex = pytest.mark.parametrize("machine", convex_estimators(), ids=lambda machine: machine.__name__)
each_variant = pytest.mark.parametrize("machine, params", variants())


def slack(*fitted: BaseEstimator) -> float:
    """How far apart the objectives of fits of one and the same problem may be: what they certify themselves.

    A convex machine is within its gap of the optimum. One that is not convex says how much one more convex model could win:
    some such steps may be left. Where another start may end in another minimum, `OTHER_MINIMA` says how far that may be.
    """
    size = abs(fitted[0].objective_)
    if is_convex(type(fitted[0])):
        return sum(est.certificate_.gap for est in fitted) + 1e-12 * size
    other = OTHER_MINIMA.get(type(fitted[0]).__name__, 0.0)
    return 10.0 * sum(map(possible_decrease, fitted)) + (other + 1e-12) * size


def possible_decrease(est: BaseEstimator) -> float:
    """By how much the last convex model of a machine that is not convex could still lower the objective, at most."""
    end = est.certificate_
    return float(end.gap if end.stationarity is None else end.stationarity * abs(end.primal))


def has_clear_winner(est: BaseEstimator, X: Any) -> np.ndarray:
    """Rows whose best score leads by more than 1 % of the largest."""
    scores = est.decision_function(X)
    if scores.ndim == 1:
        return np.abs(scores) > 0.01 * np.abs(scores).max()
    best = np.sort(scores, axis=1)
    return best[:, -1] - best[:, -2] > 0.01 * np.abs(scores).max()


def assert_same_machine(first: BaseEstimator, second: BaseEstimator, X: Any) -> None:
    """Two fits of one problem, however it was put: equally good, and equal where the optimum is unique."""
    assert abs(first.objective_ - second.objective_) <= slack(first, second), (
        first.certificate_,
        second.certificate_,
    )
    clear = has_clear_winner(first, X)  # the others may tie at the optimum, and rounding decides
    np.testing.assert_array_equal(first.predict(X)[clear], second.predict(X)[clear])
    assert clear.mean() > 0.5
    if has_unique_vectors(type(first)):
        # F grows from its minimum by at least half the squared distance from the optimal W, which is unique
        distance = np.linalg.norm(first.class_vectors_ - second.class_vectors_)
        radius = sum(np.sqrt(2 * max(est.certificate_.gap, 0.0)) for est in (first, second))
        assert distance <= radius + 1e-7 * np.linalg.norm(first.class_vectors_), (distance, radius)


LEAST_ACCURACY = 0.9  # on iris with default parameters
