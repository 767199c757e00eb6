"""The site: ``python -m sphinx -W -b html docs build/site``, offline, warnings as errors.

The pages are those of this folder as they lie, the reference is read from the docstrings, and the gallery runs
``examples/gallery``. Examples whose packages are missing here are left out; the build says which.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

import polymargin

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples" / "gallery"
SECTIONS = ("start", "decisions", "labels", "insight", "beyond")
sys.path.insert(0, str(DOCS / "_extensions"))


def missing_packages(example: Path) -> list[str]:
    """What an example says it needs (``# needs: onnx, torch``) and is not installed."""
    said = re.findall(r"^# needs: (.*)$", example.read_text("utf-8"), re.M)
    return [name for line in said for name in line.split(", ") if find_spec(name) is None]


left_out = {path.name: missing for path in sorted(EXAMPLES.rglob("*.py")) if (missing := missing_packages(path))}
for name, missing in left_out.items():
    logging.getLogger("sphinx").info(f"gallery: {name} is left out, it needs {', '.join(missing)}")

project = "polymargin"
author = "The polymargin developers"
copyright = author
release = version = polymargin.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "outside_links",
    "public_names",
]
exclude_patterns = ["gallery/**/GALLERY_HEADER.rst", "_extensions", "_templates", "results/*.json"]
templates_path = ["_templates"]
default_role = "literal"  # one backtick is code in the docstrings, as in the markdown pages

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings say types
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "subsection_order": ExplicitOrder([f"../examples/gallery/{name}" for name in SECTIONS] + ["*"]),
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": r"\.py$",
    "ignore_pattern": "|".join(map(re.escape, left_out)) or "^$",
    "doc_module": ("polymargin",),
    "backreferences_dir": "api/generated/backreferences",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "remove_config_comments": True,
    "capture_repr": (),  # what is printed and drawn is shown, not what a last line returns
    "image_scrapers": ("matplotlib",),
    "default_thumb_file": str(DOCS / "images" / "mark.png"),  # of examples without a picture
    "matplotlib_animations": False,
}
warnings.filterwarnings("error", module=r"polymargin")  # a warning in an example is an error of the site

html_theme = "pydata_sphinx_theme"
html_title = "polymargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "polymargin"},
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "faq": [], "glossary": []}
