"""Containers of texts.

accepted     list, tuple, generator, deque, dictionary view; array, Series, column of a data set, Arrow array
refused      table, mapping, data set, bytes, set: ambiguous, so the error says what to pass instead
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from slalom.errors import InputError


def as_texts(texts: Any) -> list[Any]:
    """Return the items of a container of texts as a list. The items are checked where they are explained.

    Args:
        texts: Any ordered container of strings.

    Raises:
        InputError: If it is a table, a mapping, bytes, a set, or no container at all.

    Example:
        >>> as_texts(text for text in ("a", "b"))
        ['a', 'b']
    """
    name = type(texts).__name__
    if isinstance(texts, (bytes, bytearray, memoryview)):
        raise InputError(f"a text must be a string; got {name}; decode it: text.decode('utf-8')")
    if isinstance(texts, Path):
        raise InputError(f"a text must be a string; got the path {str(texts)!r}; read it: path.read_text()")
    columns = _columns(texts)
    if columns is not None:
        listed = ", ".join(repr(column) for column in columns[:8]) + (", ..." if len(columns) > 8 else "")
        wanted = next((column for column in columns if str(column).lower() in ("text", "texts", "sentence", "review")), "text")
        raise InputError(
            f"texts must be a list of strings; got a {name} with {listed or 'nothing'}; pass one of them: x[{wanted!r}]"
        )
    if isinstance(texts, AbstractSet) and not _is_view(texts):
        raise InputError(f"texts must have an order; got a {name}; pass a list of strings, such as sorted(texts)")
    if callable(getattr(texts, "to_pylist", None)):  # the items of Arrow arrays are no strings
        return list(texts.to_pylist())
    shape = getattr(texts, "shape", None)
    if shape == ():
        raise InputError(f"a text must be a string; got a {name} without dimensions; pass str(x)")
    if isinstance(shape, tuple) and len(shape) != 1:
        raise InputError(f"texts must be a list of strings; got a {name} of shape {shape}; pass one column of it")
    if not isinstance(texts, Iterable):
        raise InputError(f"a text must be a string, several a list of strings; got {name}")
    return list(texts)


def _columns(texts: Any) -> list[Any] | None:
    """Return the column names of a table or the keys of a mapping; None for anything else."""
    if isinstance(texts, Mapping):
        return list(texts)
    for name in ("column_names", "columns"):  # of data sets and Arrow tables; of pandas and Polars
        columns = getattr(texts, name, None)
        if columns is not None and not callable(columns) and not isinstance(columns, str) and isinstance(columns, Iterable):
            return list(columns)
    return None


def _is_view(texts: Any) -> bool:
    """Return whether it is a view of a dictionary, which is ordered."""
    return type(texts).__name__ in ("dict_keys", "dict_items", "dict_values", "odict_keys")
