"""The files of the page: its own, those of the report, and the colours of both."""

from functools import cache
from importlib import resources
from typing import NamedTuple

from slalom.render.page.parts import style

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}
_FOLDERS = ("slalom.web", "slalom.render.page")


class Asset(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str


@cache
def _files() -> dict[str, Asset]:
    """Return all files by name; those of the page come before those of the report."""
    found = {"report.css": Asset(style().encode(), _TYPES[".css"])}
    for folder in _FOLDERS:
        for file in (resources.files(folder) / "assets").iterdir():
            kind = _TYPES.get("." + file.name.rpartition(".")[2])
            if file.is_file() and kind is not None:
                found.setdefault(file.name, Asset(file.read_bytes(), kind))
    return found


def load(name: str) -> Asset | None:
    """Return a file by its name; None where there is none. Names of other folders are not looked up.

    Example:
        >>> load("report.css").media_type, load("../app.py")
        ('text/css; charset=utf-8', None)
    """
    return _files().get(name)
