"""scikit-learn's own test modules with our stand-ins in the place of its support vector machines."""

import importlib.util
import inspect
import re
import types

import numpy as np
import pytest
import sklearn.svm
import standins
from differences import IN_OUR_WORDS

_PLAYED = ("SVC", "LinearSVC")
_TOLERANCE = 1e-5  # what a relative gap of 1e-9 leaves of duals; LIBSVM's are the same to the last bits whatever the storage


def played(module_name):
    """The tests of a module that use a machine we play, and its fixtures."""
    path = importlib.util.find_spec(module_name).origin
    module = types.ModuleType(module_name)
    with pytest.MonkeyPatch.context() as patch:  # what is imported by name, and what decorators see
        for name in _PLAYED:
            patch.setattr(sklearn.svm, name, getattr(standins, name))
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), vars(module))
    if getattr(module, "svm", None) is sklearn.svm:  # what is looked up when a test runs
        module.svm = types.SimpleNamespace(**{**vars(sklearn.svm), **{name: getattr(standins, name) for name in _PLAYED}})
    for name in ("assert_array_equal", "assert_allclose"):
        if hasattr(module, name):
            setattr(module, name, _to_tolerance(getattr(module, name)))
    catching = {name: _reworded(getattr(pytest, name)) for name in ("raises", "warns")}
    module.pytest = types.SimpleNamespace(**{**vars(pytest), **catching})
    return {name: thing for name, thing in vars(module).items() if _is_fixture(thing) or _is_ours(name, thing)}


def _is_fixture(thing):
    return type(thing).__name__ == "FixtureFunctionDefinition"


def _is_ours(name, thing):
    if not name.startswith("test_") or not inspect.isfunction(thing):
        return False
    return any(re.search(rf"\b{played}\b", inspect.getsource(thing)) for played in _PLAYED)


def _reworded(catch):
    """`pytest.raises` or `warns` for which our words are as good as theirs; the kind of the exception stays theirs."""

    def catching(*kinds, match=None, **others):
        theirs = match.pattern if isinstance(match, re.Pattern) else match
        return catch(*kinds, match=f"{theirs}|{IN_OUR_WORDS[theirs]}" if theirs in IN_OUR_WORDS else match, **others)

    return catching


def _to_tolerance(compare):
    """Their comparison of two arrays, with a tolerance for numbers that are not whole."""

    def comparing(actual, desired, *tolerances, **how):
        if not {np.asarray(actual).dtype.kind, np.asarray(desired).dtype.kind} & {"f"}:
            return compare(actual, desired, *tolerances, **how)
        given = {"rtol": 1e-7, "atol": 0.0} | dict(zip(("rtol", "atol"), tolerances, strict=False)) | how
        return np.testing.assert_allclose(actual, desired, **{**given, "atol": max(given["atol"], _TOLERANCE)})

    return comparing
