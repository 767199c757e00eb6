"""scikit-learn's own test modules with our stand-ins in the place of its support vector machines."""

import importlib.util
import inspect
import re
import types

import pytest
import sklearn.svm
import standins

_PLAYED = ("SVC", "LinearSVC")


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
    return {name: thing for name, thing in vars(module).items() if _is_fixture(thing) or _is_ours(name, thing)}


def _is_fixture(thing):
    return type(thing).__name__ == "FixtureFunctionDefinition"


def _is_ours(name, thing):
    if not name.startswith("test_") or not inspect.isfunction(thing):
        return False
    return any(re.search(rf"\b{played}\b", inspect.getsource(thing)) for played in _PLAYED)
