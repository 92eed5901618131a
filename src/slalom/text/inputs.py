"""Containers of texts.

accepted     list, tuple, generator, deque, dictionary view; array, Series, column of a data set, Arrow array
refused      table, mapping, data set, bytes, set: ambiguous, so the error says what to pass instead
"""

from collections.abc import Iterable, KeysView, Mapping, Set, ValuesView
from pathlib import Path
from typing import Any

from slalom.errors import InputError


def as_texts(texts: Any) -> list[Any]:
    """Return the items of any ordered container of texts. The items are checked where they are explained.

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
        likely = next((column for column in columns if str(column).lower() in ("text", "texts", "sentence", "review")), "text")
        raise InputError(
            f"texts must be a list of strings; got a {name} with {listed or 'nothing'}; pass one of them: x[{likely!r}]"
        )
    if isinstance(texts, Set) and not isinstance(texts, (KeysView, ValuesView)):
        raise InputError(f"texts must have an order; got a {name}; pass a list of strings, such as sorted(texts)")
    if callable(getattr(texts, "to_pylist", None)):  # the items of Arrow arrays are no strings
        return list(texts.to_pylist())
    shape = getattr(texts, "shape", (0,))
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
        if isinstance(columns, Iterable) and not isinstance(columns, str):
            return list(columns)
    return None
