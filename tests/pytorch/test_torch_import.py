"""PyTorch is loaded by `polymargin.torch` alone; without it the error says how to get it. These tests need no PyTorch."""

import importlib.util

import pytest
from interpreters import run_python


def test_the_package_never_imports_torch():
    loaded = run_python("""
        import sys
        import numpy as np
        import polymargin
        for name in polymargin.__all__:
            getattr(polymargin, name)
        polymargin.CrammerSingerSVC().fit(np.eye(4), [0, 1, 2, 3])
        print(sorted(name for name in sys.modules if name.partition(".")[0] == "torch" or name == "polymargin.torch"))
    """)
    assert loaded.strip() == "[]"


def test_without_torch_the_error_says_how_to_get_it():
    said = run_python("""
        import sys
        sys.modules["torch"] = None
        try:
            import polymargin.torch
        except ModuleNotFoundError as error:
            print(error.name, error)
    """)
    assert 'pip install "polymargin[torch]"' in said
    assert said.startswith("torch ")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_the_module_of_the_same_name_is_ours():
    said = run_python("import polymargin.torch, torch; print(torch.nn.Linear(1, 2), polymargin.torch.ISM3Loss.__module__)")
    assert "Linear(in_features=1" in said and "polymargin.torch.softmax" in said
