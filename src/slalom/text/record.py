"""Records: examples of several fields, each as one text with a line per field, in which units are found.

    {"title": "A fine day", "stars": 4}          title: A fine day
                                                 stars: 4

A record is a string, so that everything that takes a text takes it, and knows its fields. Names and what is between fields are
shown and never removed. A string is a text, of which units are removed; anything else (a number, a missing value) is one unit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, final

import numpy as np

from slalom.errors import InputError
from slalom.text.segment import Spans

Form = Literal["tuple", "dict", "table"]  # what a model is given: a tuple, a dictionary, or a row of a data frame
Value = str | float | bool | None


class Field(NamedTuple):
    """A field of a record.

    Attributes:
        name: Its name; "text 1", "text 2", ... in a tuple.
        start: First character of its value in the text of the record.
        end: Where the value ends.
        value: Its value, a string where it is a text.
    """

    name: str
    start: int
    end: int
    value: Value


@final
class Row(dict[str, Any]):
    """A row of a data frame: models are given several as one data frame."""


@final
class Record(str):
    """An example of several fields; as a string, a line for each field.

    Attributes:
        fields: The fields.
        form: What the model is given: "tuple", "dict" or "table".

    Example:
        >>> record = Record({"title": "A fine day", "stars": 4})
        >>> print(record)
        title: A fine day
        stars: 4
        >>> record.fields[1]
        Field(name='stars', start=25, end=26, value=4)
        >>> Record(("A man sleeps.", "Nobody is awake.")).example()
        ('A man sleeps.', 'Nobody is awake.')
    """

    fields: tuple[Field, ...]
    form: Form

    def __new__(cls, example: Mapping[str, Any] | tuple[Any, ...], form: Form | None = None) -> "Record":
        named: Mapping[Any, Any] = (
            example if isinstance(example, Mapping) else {f"text {i + 1}": value for i, value in enumerate(example)}
        )
        if not named:
            raise InputError("a record must have at least one field; got none")
        text, fields = "", list[Field]()
        for name, given in named.items():
            kind: object = name  # a table may have numbers as names
            if not isinstance(kind, str) or len(name.split("\n")) > 1 or not name.strip():
                raise InputError(f"the name of a field must be a line of text; got {name!r}")
            value = plain_value(name, given)
            start = len(text) + len(name) + 2
            text += f"{name}: {_shown(value)}\n"
            fields.append(Field(name, start, len(text) - 1, value))
        record = super().__new__(cls, text[:-1])
        record.fields, record.form = tuple(fields), form or ("dict" if isinstance(example, Mapping) else "tuple")
        return record

    def __getnewargs__(self) -> tuple[Any, ...]:
        return {field.name: field.value for field in self.fields}, self.form

    def plain(self) -> dict[str, Value]:
        """Return the values by their names, as plain data: None for a number that is missing."""
        return {field.name: None if is_missing(field.value) else field.value for field in self.fields}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(field.name for field in self.fields)

    @property
    def blank(self) -> str | None:
        """The name of the first field without a text; None where all have one."""
        return next((name for name, _, _, value in self.fields if isinstance(value, str) and not value.strip()), None)

    def example(self, values: Sequence[Any] | None = None) -> Any:
        """Return the tuple or dictionary that the model is given, with other values where they are given."""
        values = [field.value for field in self.fields] if values is None else values
        if self.form == "tuple":
            return tuple(values)
        return (Row if self.form == "table" else dict)(zip(self.names, values, strict=True))

    def replaced(self, example: Any) -> "Record":
        """Return the record of another example with the same fields."""
        values = example.values() if isinstance(example, Mapping) else example
        return Record(dict(zip(self.names, values, strict=True)), self.form)

    def cells(self, find: Callable[[str], Spans], whole: frozenset[str] = frozenset()) -> Spans:
        """Return the spans (n, 2) of the units that a function finds in each text; other fields are one unit each.

        Args:
            find: Returns the spans of the units of a text.
            whole: Names of fields with strings that are no texts.
        """
        spans = [
            find(field.value) + field.start
            if isinstance(field.value, str) and field.name not in whole
            else np.array([[field.start, field.end]], dtype=np.int64)
            for field in self.fields
        ]
        return np.concatenate(spans)

    def field_of(self, spans: Spans) -> Spans:
        """Return the number of the field of each span (n,)."""
        return np.searchsorted([field.start for field in self.fields], spans[:, 0], side="right") - 1


def as_record(example: Any) -> Any:
    """Return a tuple or a mapping as a Record, anything else as it is."""
    return Record(example) if isinstance(example, (tuple, Mapping)) and example else example


def plain_value(name: str, given: Any) -> Value:
    """Return the value of a field as a string, a number of Python, or None."""
    item = getattr(given, "item", None)
    if isinstance(given, (np.datetime64, np.timedelta64)):
        raise InputError(f"the field {name!r} must be a string or a number; got {type(given).__name__}")
    value = item() if callable(item) and np.ndim(given) == 0 else given  # a number of numpy
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if not (value is None or isinstance(value, (str, int, float))):
        raise InputError(f"the field {name!r} must be a string or a number; got {type(given).__name__}")
    return value


def is_missing(value: Value) -> bool:
    """Return whether a value is None or not a number."""
    return value is None or value != value  # noqa: PLR0124


def _shown(value: Value) -> str:
    if is_missing(value):
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
