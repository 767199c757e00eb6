"""What people copy works: the quickstart, the Python blocks of the documents, the examples in the docstrings."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from interpreters import run_warm

import polymargin

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks():
    """The fenced Python blocks of each document; those of one document share their names, as a reader would."""
    blocks = {path: re.findall(r"^```python\n(.*?)^```$", path.read_text("utf-8"), re.M | re.S) for path in DOCUMENTS}
    return [pytest.param(path, found, id=path.name) for path, found in blocks.items() if found]


@pytest.mark.parametrize("path, blocks", python_blocks())
def test_python_in_the_documents_runs(path, blocks, tmp_path, monkeypatch, capsys):
    for package in re.findall(r"^<!-- needs: (\w+) -->$", path.read_text("utf-8"), re.M):
        pytest.importorskip(package, reason=f"{path.name} needs {package}")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{path.name}, Python block {number}", "exec"), names)
    assert capsys.readouterr().out


def test_the_readme_has_a_python_example():
    assert any(param.id == "README.md" for param in python_blocks())


@pytest.mark.parametrize("name", ["run-command", "test-command"])
def test_the_readme_commands_can_be_found(name):
    """One line in a fenced block, directly after its mark: that is how CI finds it."""
    found = re.findall(rf"^<!-- {name} -->\n```\w*\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert len(found) == 1 and len(found[0].splitlines()) == 1
    assert found[0].startswith("python -m venv .venv && .venv/bin/pip install ")


QUICKSTART = ROOT / "examples" / "quickstart.py"


def check_quickstart(printed):
    assert printed.count("optimal") >= 2
    assert len(printed.splitlines()) <= 25 and max(map(len, printed.splitlines())) <= 120


def test_quickstart_saves_a_picture_and_says_so(tmp_path):
    pytest.importorskip("matplotlib")
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(
        [sys.executable, str(QUICKSTART)], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=300
    )
    assert result.returncode == 0, result.stderr
    check_quickstart(result.stdout)
    assert "quickstart.png" in result.stdout
    assert (tmp_path / "quickstart.png").read_bytes().startswith(b"\x89PNG")


def test_quickstart_without_matplotlib_says_how_to_get_it(tmp_path):
    code = """
        import os, runpy, sys
        os.chdir(sys.argv.pop(2))
        sys.modules["matplotlib"] = None
        runpy.run_path(sys.argv.pop(1), run_name="__main__")
    """
    printed = run_warm(code, str(QUICKSTART), str(tmp_path))
    check_quickstart(printed)
    assert 'pip install ".[plot]"' in printed
    assert not (tmp_path / "quickstart.png").exists()


def modules_with_docstrings():
    """The installed package's own modules; compiled ones have no examples."""
    names = (info.name for info in pkgutil.walk_packages(polymargin.__path__, "polymargin."))
    return ["polymargin", *(name for name in names if not name.startswith("polymargin._core."))]


@pytest.mark.parametrize("name", modules_with_docstrings())
def test_examples_in_docstrings(name):
    """Of the installed package, wherever it is: the source tree may lack the compiled core."""
    if name.startswith("polymargin.torch"):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    assert doctest.testmod(importlib.import_module(name)).failed == 0
