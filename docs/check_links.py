"""Whether every link inside the built site leads somewhere: ``python docs/check_links.py build/site``.

Pages, pictures and the anchors on them; links to other hosts are not looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and what can be linked to on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {values[name] or "" for name in ("id", "name") if name in values}
        self.links |= {values[name] or "" for name in ("href", "src") if name in values}


def broken(folder: Path) -> Iterator[str]:
    """A line for each link that leads nowhere."""
    static = folder / "_static"  # the theme's own templates lie there
    paths = [path for path in sorted(folder.rglob("*.html")) if static not in path.parents]
    pages = {path.resolve(): Page(path) for path in paths}
    for page in pages.values():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path.resolve()
            if not target.is_file():
                yield f"{page.path.relative_to(folder)}: {link} is not there"
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{page.path.relative_to(folder)}: {link} has no such anchor"


def main() -> int:
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        print(f"{folder} holds no site; build it first: python -m sphinx -W -b html docs {folder}")
        return 2
    lines = list(broken(folder))
    print("\n".join(lines) or f"every link inside {folder} leads somewhere")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
