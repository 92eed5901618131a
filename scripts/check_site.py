#!/usr/bin/env python
"""Check that a built site works in a folder and that its pages load nothing from elsewhere: scripts/check_site.py site.

A browser reads no index of the search from file://, so there must be a script with it.
Links that a reader may follow are fine; scripts, styles, fonts, pictures and frames from other hosts are not.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_LOADING = {"src", "srcset", "poster", "data"}  # attributes that load, whatever the element
_LINKS = {"alternate", "author", "canonical", "edit", "help", "license", "next", "prev", "search"}  # <link> that loads nothing
_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?\s*((?:https?:)?//[^"')\s;]+)""", re.IGNORECASE)
_OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


class _Page(HTMLParser):
    """Collects what a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at the attributes of one element."""
        given = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        loads = [given[name] for name in sorted(_LOADING & given.keys())]
        if tag == "link" and not set(given.get("rel", "").lower().split()) <= _LINKS:
            loads.append(given.get("href", ""))
        for value in loads:
            self.found += [f"<{tag}> {part.split()[0]}" for part in value.split(",") if _OUTSIDE.match(part.strip())]
        self.found += [f"<{tag} style> {address}" for address in _CSS.findall(given.get("style", ""))]
        if "mermaid" in given.get("class", "").split():
            self.found.append(f"<{tag} class=mermaid> loads a script from a CDN")

    def handle_data(self, data: str) -> None:
        """Look at a style sheet within the page."""
        if self._in_style:
            self.found += [f"<style> {address}" for address in _CSS.findall(data)]


def loaded_from_elsewhere(path: Path) -> list[str]:
    """Return what one HTML or CSS file loads from other hosts."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return [f"url {address}" for address in _CSS.findall(content)]
    page = _Page()
    page.feed(content)
    return page.found


def check(site: Path) -> Iterator[str]:
    """Give one line for everything that a page of the site loads from elsewhere, and one where it cannot be searched."""
    if (site / "search").exists() and not (site / "search" / "search_index.js").exists():
        yield "search/search_index.js: missing, so that the search needs a server; use the plugin offline"
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            for found in loaded_from_elsewhere(path):
                yield f"{path.relative_to(site)}: {found}"


if __name__ == "__main__":
    (folder,) = map(Path, sys.argv[1:])
    pages = len(list(folder.rglob("*.html")))
    wrong = list(check(folder))
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    if not pages:
        print(f"error: {folder} has no pages; build it with: make docs", file=sys.stderr)
    if not wrong and pages:
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{folder}: {pages} pages, {size / 1e6:.1f} MB, nothing is loaded from elsewhere")
    sys.exit(bool(wrong) or not pages)
