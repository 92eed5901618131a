"""Texts as users have them: one string, or a container of strings.

accepted     str; list, tuple, generator, deque, dictionary view; array, Series, column of a data set, Arrow array
refused      table, mapping, data set, bytes, set: what was meant is not clear, so the error says what to pass instead
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from slalom.errors import InputError


def as_texts(given: Any) -> list[Any]:
    """Return the items of a container of texts; each is checked where it is explained.

    Args:
        given: Any ordered container of strings.

    Raises:
        InputError: It is a table, a mapping, bytes, a set, or no container at all.
    """
    name = type(given).__name__
    if isinstance(given, (bytes, bytearray, memoryview)):
        raise InputError(f"a text must be a string; got {name}; decode it: text.decode('utf-8')")
    if isinstance(given, Path):
        raise InputError(f"a text must be a string; got the path {str(given)!r}; read it: path.read_text()")
    columns = _columns(given)
    if columns is not None:
        some = ", ".join(repr(column) for column in columns[:8]) + (", ..." if len(columns) > 8 else "")
        wanted = next((column for column in columns if str(column).lower() in ("text", "texts", "sentence", "review")), "text")
        raise InputError(
            f"texts must be a list of strings; got a {name} with {some or 'nothing'}; pass one of them: x[{wanted!r}]"
        )
    if isinstance(given, AbstractSet) and not _is_view(given):
        raise InputError(f"texts must have an order; got a {name}; pass a list of strings, such as sorted(texts)")
    if callable(getattr(given, "to_pylist", None)):  # Arrow: its items are no strings
        return list(given.to_pylist())
    shape = getattr(given, "shape", None)
    if shape == ():
        raise InputError(f"a text must be a string; got a {name} without dimensions; pass str(x)")
    if isinstance(shape, tuple) and len(shape) != 1:
        raise InputError(f"texts must be a list of strings; got a {name} of shape {shape}; pass one column of it")
    if not isinstance(given, Iterable):
        raise InputError(f"a text must be a string, several a list of strings; got {name}")
    return list(given)


def _columns(given: Any) -> list[Any] | None:
    """Return the names of the parts of a table or mapping; None where it is neither."""
    if isinstance(given, Mapping):
        return list(given)
    for name in ("column_names", "columns"):  # of data sets and Arrow tables; of pandas and Polars
        found = getattr(given, name, None)
        if found is not None and not callable(found) and not isinstance(found, str) and isinstance(found, Iterable):
            return list(found)
    return None


def _is_view(given: Any) -> bool:
    """Whether it is a view of a dictionary, which has an order."""
    return type(given).__name__ in ("dict_keys", "dict_items", "dict_values", "odict_keys")
