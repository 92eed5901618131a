"""Views of results by name, so that results do not import the rendering code.

`slalom/__init__.py` connects each view once: "plot" and "page" of explanations, "notebook" of one explanation,
"compared plot" and "compared page" of a comparison, "corpus plot", "corpus page" and "corpus comparison page" of corpora.
"""

from collections.abc import Callable
from typing import Any

_VIEWS: dict[str, Callable[[Any], Any]] = {}


def connect(name: str, draw: Callable[[Any], Any]) -> None:
    """Register the function that draws a view."""
    _VIEWS[name] = draw


def view(name: str) -> Callable[[Any], Any]:
    """Return the function that draws a view."""
    return _VIEWS[name]
