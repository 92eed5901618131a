"""Plugins of other packages, found by entry points: what methods and adapters have in common.

An entry point has the plugin's name, and leads to an object of the registry's kind or to a callable that returns one.
"""

import warnings
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar

from slalom.errors import InputError, one_line


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


def load_plugins(group: str, kind: type[T], built_in: Mapping[str, T]) -> dict[str, T]:
    """Return all plugins of a group by name; one that cannot be used is left out with a warning."""
    plugins: dict[str, T] = {}
    for point in entry_points(group=group):
        try:
            plugins[point.name] = load_plugin(point, kind, (*built_in, *plugins))
        except InputError as reason:
            warnings.warn(f"{reason}; it is left out", UserWarning, stacklevel=3)
    return plugins


def load_plugin(point: EntryPoint, kind: type[T], taken_names: Iterable[str]) -> T:
    """Return the object of an entry point."""
    title, noun = f"the plugin {point.name!r} ({point.value})", kind.__name__.lower()
    try:
        plugin = point.load()
        plugin = plugin if isinstance(plugin, kind) else plugin()
        missing = [name for name in _strings(kind) if not isinstance(getattr(plugin, name, None), str)]
    except Exception as error:  # plugins may raise anything
        raise InputError(f"{title} cannot be loaded: {type(error).__name__}: {one_line(error)}") from error
    if not isinstance(plugin, kind):
        raise InputError(f"{title} must be {_article(kind.__name__)} of that name; got {type(plugin).__name__}")
    if missing:
        raise InputError(f"{title} must have a string as its {' and its '.join(missing)}")
    if plugin.name != point.name:
        raise InputError(f"{title} must be {_article(kind.__name__)} of that name; got {_article(noun)} called {plugin.name!r}")
    if point.name in taken_names:
        raise InputError(f"{title} has a name that is taken; rename it")
    return plugin


def _strings(kind: type) -> list[str]:
    return [name for name, declared in kind.__annotations__.items() if declared is str]


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0].lower() in "aeiou" else f"a {noun}"


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return rows of strings as a plain table with aligned columns.

    Example:
        >>> print(table(("name", "what"), [("a", "first"), ("long name", "second")]))
        name       what
        a          first
        long name  second
    """
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles) - 1)]
    return "\n".join("  ".join([*(f"{c:<{w}}" for c, w in zip(line, widths, strict=False)), line[-1]]) for line in lines)
