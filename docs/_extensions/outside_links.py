"""Links of the pages to files beside this folder: a code host opens them, the site has a page instead, or names the file."""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath

from sphinx.application import Sphinx

PAGES = {
    "../README.md": "/index.md",
    "../CONTRIBUTING.md": "/project/contributing.md",
    "../CHANGELOG.md": "/project/changes.md",
    "../benchmarks/README.md": "/project/benchmarks.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+|(?:benchmarks|examples)/[^)#\s]+|[A-Z]+(?:\.md)?)(#[^)]*)?\)")


def at_home(app: Sphinx, page: str, source: list[str]) -> None:
    """The source of a page, its links into the repository replaced."""

    def replaced(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        place = normpath(join(dirname(page), target)) if target.startswith("../") else f"../{target}"
        if not place.startswith("../"):
            return match[0]
        if place in PAGES:
            return f"[{text}]({PAGES[place]}{anchor})"
        return f"`{text}`" if text in place else f"{text} (`{place[3:]}` in the sources)"

    source[0] = LINK.sub(replaced, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", at_home)
    app.connect("include-read", lambda app, path, page, source: at_home(app, page, source))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
