"""What is explained: a text, a record (a tuple or a dictionary), or a container of them.

containers   list, generator, deque, dictionary view; array, Series, column of a data set, Arrow array; columns of a table
refused      table without columns, bytes, set: ambiguous, so the error says what to pass instead
"""

from collections.abc import Iterable, KeysView, Mapping, Sequence, Set, ValuesView
from pathlib import Path
from typing import Any

from slalom.errors import InputError, did_you_mean
from slalom.text.record import Form, Record, as_record


def as_examples(
    given: Any, columns: Sequence[str] | str | None = None, records: bool = False, keep: bool = False
) -> tuple[list[Any], bool]:
    """Return what is to be explained, records as `Record`, and whether it is one example only.

    Args:
        given: A string, a tuple or dictionary of fields, a container of these, or a table with `columns`.
        columns: Columns of a table that are fields; of one, the texts.
        records: Whether the model reads records: a tuple is one then, else a container of texts.
        keep: Whether to leave an example of several that is no record as it is, so that it fails alone.

    Example:
        >>> as_examples("a"), as_examples(("a", "b")), as_examples(("a", "b"), records=True)[0][0].example()
        ((['a'], True), (['a', 'b'], False), ('a', 'b'))
    """
    if columns is not None:
        names = [columns] if isinstance(columns, str) or not isinstance(columns, Iterable) else list(columns)
        known = [] if isinstance(given, Mapping) else _columns(given) or []
        if not known or not names or len({*names}) < len(names):
            raise InputError(
                f"columns= names different fields of a data frame; got {names!r} and a {type(given).__name__}", "columns"
            )
        for name in names:
            if known.count(name) != 1:
                near = did_you_mean(name, [other for other in known if other != name])
                raise InputError(f"the table must have one column {name!r}{near}; got {_listed(known)}", "columns")
        rows = table_rows(given) or []
        if len(names) == 1:
            return [row[names[0]] for row in rows], False
        return [_with_place(i, {name: row[name] for name in names}, keep, "table") for i, row in enumerate(rows)], False
    plain = not isinstance(given, Mapping) or (bool(given) and not all(map(_several, given.values())))
    if plain and isinstance(given, (str, tuple, Mapping) if records else (str, Mapping)):
        return [as_record(given)], True
    return [_with_place(i, one, keep) for i, one in enumerate(as_texts(given))], False


def _several(value: Any) -> bool:
    """Return whether a value is a column rather than a field."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping)) and getattr(value, "ndim", 1) > 0


def _with_place(number: int, one: Any, keep: bool, form: Form | None = None) -> Any:
    try:
        return Record(one, form) if form else as_record(one)
    except InputError as error:
        if keep:
            return one
        raise InputError(f"{error} (text {number})") from error


def table_rows(table: Any) -> list[dict[str, Any]] | None:
    """Return the rows of a data frame, a data set or an Arrow table; None for anything else."""
    if isinstance(table, Mapping) or _columns(table) is None:
        return None
    for name in ("to_dicts", "to_pylist", "to_list"):  # of Polars, Arrow, data sets
        if callable(rows := getattr(table, name, None)):
            return list(rows())
    return list(table.to_dict("records"))  # of pandas


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
        listed = _listed(columns)
        likely = next((column for column in columns if str(column).lower() in ("text", "texts", "sentence", "review")), "text")
        raise InputError(
            f"texts must be a list of strings; got a {name} with {listed or 'nothing'}; pass one of them: x[{likely!r}]"
            ", or several as fields of records: columns=[...]"
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


def _listed(columns: Sequence[Any]) -> str:
    return ", ".join(repr(column) for column in columns[:8]) + (", ..." if len(columns) > 8 else "")


def _columns(texts: Any) -> list[Any] | None:
    """Return the column names of a table or the keys of a mapping; None for anything else."""
    if isinstance(texts, Mapping):
        return list(texts)
    for name in ("column_names", "columns"):  # of data sets and Arrow tables; of pandas and Polars
        columns = getattr(texts, name, None)
        if isinstance(columns, Iterable) and not isinstance(columns, str):
            return list(columns)
    return None
