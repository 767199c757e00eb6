"""The examples of the site's gallery run offline, without a warning, and say and show something."""

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

GALLERY = Path(__file__).resolve().parents[2] / "examples" / "gallery"
EXAMPLES = sorted(GALLERY.rglob("*.py"))


def test_there_is_a_gallery():
    assert len(EXAMPLES) >= 14
    assert all((folder / "GALLERY_HEADER.rst").is_file() for folder in {path.parent for path in EXAMPLES})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the gallery needs matplotlib")
    pyplot.switch_backend("Agg")
    needed = [name for line in re.findall(r"^# needs: (.*)$", path.read_text("utf-8"), re.M) for name in line.split(", ")]
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        pytest.skip(f"{path.name} needs {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    pyplot.close("all")
    assert capsys.readouterr().out
