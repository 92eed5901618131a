"""Where results get their pictures from, without knowing who draws them.

The package connects each view once (`slalom/__init__.py`): "plot" and "page" of explanations, "notebook" of one,
"compared plot" and "compared page" of a comparison. A result asks for a view by name when a user wants it.
"""

from collections.abc import Callable
from typing import Any

_VIEWS: dict[str, Callable[[Any], Any]] = {}


def connect(name: str, draw: Callable[[Any], Any]) -> None:
    """Let a function draw the results that ask for this view."""
    _VIEWS[name] = draw


def view(name: str) -> Callable[[Any], Any]:
    """Return what draws a view."""
    return _VIEWS[name]
