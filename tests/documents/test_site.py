"""The pages as a code host shows them: their links lead somewhere, and the site's tables of contents know every page."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "gallery" not in path.parts]
READ_BY_PEOPLE = [*sorted(ROOT.glob("*.md")), ROOT / "benchmarks" / "README.md", *PAGES]


def text_of(path):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.M | re.S)


def anchors(path):
    """What a code host makes of the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", text_of(path), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", READ_BY_PEOPLE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = path.parent / name if name else path
        assert place.exists(), f"{path.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(place), f"{path.name} links to {target}: no such heading"


def test_every_page_is_in_a_table_of_contents():
    """A page that no table names is a warning of the site's build, which is an error."""
    named = set()
    for path in PAGES:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", path.read_text("utf-8"), re.M | re.S):
            for entry in block.split():
                found = path.parent.glob(f"{entry}.md") if "*" in entry else [path.parent / f"{entry}.md"]
                named |= {page.resolve() for page in found}
    missing = [path.relative_to(DOCS).as_posix() for path in PAGES if path.resolve() not in named | {DOCS / "index.md"}]
    assert not missing, f"add {', '.join(missing)} to a toctree, for example in docs/guide.md"


def loaded(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def test_the_link_check_finds_what_is_broken(tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here">x</a><a href="gone.html">y</a><a href="https://a.b/c">z</a>'
    )
    (tmp_path / "other.html").write_text('<p id="there">w</p><img src="picture.png">')
    lines = list(loaded(DOCS / "check_links.py", monkeypatch).broken(tmp_path))
    assert len(lines) == 3
    assert any("other.html#here" in line for line in lines) and any("gone.html" in line for line in lines)
