"""Docstrings of the machines are complete, and what does not fit together is said at import."""

import inspect
import re

import pytest
from registry import each_machine

from polymargin.estimators.parts.docs import documented


def entries(machine, section):
    """Names of the entries of a numpydoc section."""
    text = inspect.cleandoc(machine.__doc__)
    body = re.search(rf"^{section}\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", text, re.DOTALL | re.MULTILINE)[1]
    headings = re.findall(r"^(\w[^:\n]*)", body, re.MULTILINE)
    return {name.strip() for heading in headings for name in heading.split(",")}


@each_machine
def test_every_parameter_is_documented_and_nothing_else(machine):
    assert entries(machine, "Parameters") == set(machine().get_params())


@each_machine
def test_every_fitted_attribute_is_documented(machine, overlapping):
    X, y = overlapping
    fitted = vars(machine(random_state=0).fit(X, y))
    public = {name for name in fitted if name.endswith("_") and not name.startswith("_")}
    assert public <= entries(machine, "Attributes")


def with_docstring(text):
    return type("Machine", (), {"__doc__": text})


def test_a_docstring_that_cannot_be_completed_is_an_error():
    whole = "A machine.\n\n    [parameters]\n\n    [attributes]\n"
    assert "    tol : float, default=1e-4\n" in documented()(with_docstring(whole)).__doc__
    assert "    tol : float, default=1e-4\n        Never.\n" in documented(tol="Never.")(with_docstring(whole)).__doc__
    assert "tol :" not in documented(without=["tol"])(with_docstring(whole)).__doc__
    with pytest.raises(TypeError, match=r"one line \[attributes\]"):
        documented()(with_docstring("A machine.\n\n    [parameters]\n"))
    with pytest.raises(TypeError, match="'tolerance'"):
        documented(tolerance="Never.")(with_docstring(whole))
    assert documented()(with_docstring(None)).__doc__ is None  # python -OO
