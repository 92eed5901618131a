"""Texts and records for models that read strings: an atom is a piece of a string, or a whole field that is no text.

Removing a piece removes the white space after it too; where two words would then touch, a blank is put between them. The whole
text is passed on unchanged. A field that is no text is replaced by values of a background, or is missing.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np
import regex
from numpy.typing import NDArray

from slalom.errors import InputError, count
from slalom.models.base import InputGroup, Model, Reading
from slalom.models.removal import Removal, filled, removal_name
from slalom.text import Record, plain_value, table_rows
from slalom.text.record import Row, Value

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD_CHARACTER = regex.compile(rf"(?![{_UNSPACED}])[\p{{L}}\p{{N}}\p{{M}}_]")  # two of these side by side make one word
_MASK = "_"
_BACKGROUND = 8  # rows at most: each is a query


class Pieces:
    """A text in pieces, each of which begins with a unit.

    Args:
        spans: Spans of the units, (n, 2); a piece ends where the next one begins.
        removal: How units are removed.
    """

    def __init__(self, text: str, spans: NDArray[np.int64], removal: Removal = "drop") -> None:
        self.text, self.removal = text, removal
        starts = [0, *spans[1:, 0].tolist(), len(text)]
        self.pieces = [text[a:b] for a, b in pairwise(starts)] if len(spans) else []

    def texts(self, kept: NDArray[np.bool_]) -> list[str]:
        """Return the text without some pieces, given which are there (n,); several for a function that returns several."""
        if kept.all():
            return [self.text]
        if self.removal == "drop":
            return [self._joined(kept)]
        if isinstance(self.removal, str):
            return ["".join(piece if there else self._covered(piece) for piece, there in zip(self.pieces, kept, strict=True))]
        parts: list[str | None] = []
        for piece, there in zip(self.pieces, kept.tolist(), strict=True):
            if there and parts and parts[-1] is not None:
                parts[-1] += piece
            elif there or not parts or parts[-1] is not None:
                parts.append(piece if there else None)
        return filled(parts, self.removal)

    def _covered(self, piece: str) -> str:
        body = piece.rstrip()
        return (_MASK if self.removal == "mask" else " " * len(body)) + piece[len(body) :]

    def _joined(self, kept: NDArray[np.bool_]) -> str:
        parts: list[str] = []
        edges = np.flatnonzero(np.diff(kept, prepend=False, append=False))  # where runs of kept pieces begin and end
        for start, stop in edges.reshape(-1, 2).tolist():
            run = "".join(self.pieces[start:stop])
            if parts and all(map(_WORD_CHARACTER.match, (parts[-1][-1], run.lstrip()[:1]))):
                parts.append(" ")
            parts.append(run)
        return "".join(parts).strip()


@final
class StringReading(Reading):
    """A text in pieces, for models that read strings.

    Args:
        spans: Spans of its units, (n, 2).
        empty: Whether the model accepts an empty string.
        removal: How units are removed.
    """

    def __init__(self, text: str, spans: NDArray[np.int64], empty: bool, removal: Removal = "drop") -> None:
        self.text, self.spans, self.cut, self.empty = text, spans, 0, empty or removal != "drop"
        self.names = tuple(text[a:b] for a, b in spans.tolist())
        self.types = _numbered(self.names)
        self.pieces = Pieces(text, spans, removal)

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        return _grouped([self.pieces.texts(row) for row in keep])


class Background(NamedTuple):
    """What replaces removed fields that are no texts.

    Attributes:
        fields: Names of all fields that the model reads; empty: any.
        texts: Those of them that are texts; other fields with strings are one unit each.
        rows: Values by name; the mean is taken over the scores. Without any the field is missing.
    """

    fields: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    rows: tuple[Mapping[str, Value], ...] = ()

    def whole(self, record: Record) -> frozenset[str]:
        """Return the names of the fields of a record that are one unit."""
        names = set(record.names) - self.texts if self.fields else {name for row in self.rows for name in row}
        return frozenset(names | {field.name for field in record.fields if not isinstance(field.value, str)})

    def example(self, text: str = "a", number: int = 0) -> Row:
        """Return a row of all fields: a text, and values of a row of the background."""
        others = {name: self.values(name) for name in self.fields if name not in self.texts}
        return Row({name: others[name][number % len(others[name])] if name in others else text for name in self.fields})

    def values(self, name: str) -> list[Value]:
        """Return what replaces a field."""
        return [row[name] for row in self.rows if name in row] or [float("nan")]


def background_rows(background: Any) -> tuple[dict[str, Value], ...]:
    """Return up to eight rows, evenly from a data frame, a list of dictionaries, or one dictionary.

    Raises:
        InputError: It is something else, or a row lacks a field.
    """
    if background is None:
        return ()
    rows: Any = [background] if isinstance(background, Mapping) else table_rows(background)
    if rows is None and isinstance(background, Sequence) and not isinstance(background, str):
        rows = list(background)
    if not rows or not all(isinstance(row, Mapping) and row for row in rows):
        kind = type(background).__name__
        raise InputError(
            f"background must be a data frame or a list of dictionaries, with a row at least; got {kind}", "background"
        )
    chosen = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, _BACKGROUND).round().astype(int))]
    for row in chosen:
        if set(row) != set(chosen[0]):
            raise InputError(
                f"the rows of background must have the same fields; got {list(chosen[0])} and {list(row)}", "background"
            )
    return tuple({str(name): plain_value(str(name), value) for name, value in row.items()} for row in chosen)


def digest_of(model: Model) -> str:
    """Return a short digest of the background of a model, by which results know it."""
    rows = getattr(model, "background", Background()).rows
    return blake2b(repr([sorted(row.items()) for row in rows]).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@final
class RecordReading(Reading):
    """A record, for models that read tuples, dictionaries or rows of a table.

    Args:
        spans: Spans of its units in the text of the record, (n, 2).
        background: What replaces fields that are no texts.
        removal: How units of texts are removed.
    """

    def __init__(self, record: Record, spans: NDArray[np.int64], background: Background, removal: Removal = "drop") -> None:
        self.text: Record = record
        self.spans, self.cut, self.empty, self.background = spans, 0, True, background
        self.per_row = max(len(background.rows), 1)
        self.names = tuple(record[a:b] for a, b in spans.tolist())
        fields, whole = record.field_of(spans), background.whole(record)
        self.types = _numbered(list(zip(fields.tolist(), self.names, strict=True)))  # in another field it is another word
        self._parts: list[tuple[NDArray[np.int64], Pieces | None]] = []
        for number, field in enumerate(record.fields):
            atoms = np.flatnonzero(fields == number)
            pieces = None
            if isinstance(field.value, str) and field.name not in whole:
                pieces = Pieces(field.value, spans[atoms] - field.start, removal)
            self._parts.append((atoms, pieces))

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        return _grouped([self.examples(row) for row in keep])

    def examples(self, kept: NDArray[np.bool_]) -> list[Any]:
        """Return what the model is given of a record with some units (n,), and several where fields are replaced by several."""
        values: list[Sequence[Value]] = []
        for field, (atoms, pieces) in zip(self.text.fields, self._parts, strict=True):
            if pieces is not None:
                values.append(pieces.texts(kept[atoms]))
            else:
                values.append([field.value] if kept[atoms].all() else self.background.values(field.name))
        return [self.text.example([part[i % len(part)] for part in values]) for i in range(max(map(len, values)))]


@final
class FilledReading(Reading):
    """A text whose atoms are tokens, from which they are removed as from a string: what a function returns is read anew.

    Args:
        tokens: The text as the model reads it.
        model: The model, whose `removal` is a function.
    """

    def __init__(self, tokens: Reading, model: Model) -> None:
        windows = getattr(tokens, "windows", ())
        if tokens.cut or len(windows) > 1:
            long = f"{count(tokens.cut, 'token')} of this text do not fit" if tokens.cut else "this text is read in windows"
            raise InputError(f"a function that fills gaps needs a text that fits into {model.name}; {long}", "removal")
        self.text, self.names, self.spans, self.types = tokens.text, tokens.names, tokens.spans, tokens.types
        self.cut, self.empty, self.notes = 0, True, tokens.notes
        self._tokens, self._model = tokens, model
        strings = RecordReading(self.text, self.spans, Background(), model.removal) if isinstance(self.text, Record) else None
        self._pieces = strings or StringReading(self.text, self.spans, True, model.removal)

    def groups(self, keep: NDArray[np.bool_]) -> list[InputGroup]:
        whole = keep.all(axis=1)
        rows, parts = np.flatnonzero(~whole), dict[tuple[int, int], list[tuple[int, InputGroup]]]()
        groups = [
            InputGroup(np.flatnonzero(whole)[group.rows], group.length, group.build)
            for group in self._tokens.groups(keep[whole])
        ]
        for i, made in enumerate(self._pieces.groups(keep[~whole]) if len(rows) else ()):
            for row, given in zip(rows[made.rows].tolist(), made.build()[0], strict=True):
                read = self._model.read(self.text.replaced(given) if isinstance(self.text, Record) else given, "cut", None)
                if not read.names and not read.empty:
                    name = removal_name(self._model.removal)
                    raise InputError(
                        f"removal={name} returned an empty text, which {self._model.name} does not accept", "removal"
                    )
                (group,) = read.groups(np.ones((1, len(read.names)), dtype=bool))
                parts.setdefault((i, group.length), []).append((row, group))
        for (_, length), found in parts.items():
            groups.append(
                InputGroup(np.array([row for row, _ in found]), length, partial(_built, [group for _, group in found]))
            )
        return groups


def _built(groups: Sequence[InputGroup]) -> tuple[NDArray[Any], list[bytes]]:
    """Return the inputs of groups of one row each."""
    built = [group.build() for group in groups]
    return np.concatenate([inputs for inputs, _ in built]), [key for _, keys in built for key in keys]


def _numbered(things: Sequence[Any]) -> NDArray[np.int64]:
    numbers = {thing: i for i, thing in enumerate(sorted(set(things)))}
    return np.array([numbers[thing] for thing in things], dtype=np.int64)


def _grouped(inputs: Sequence[Sequence[Any]]) -> list[InputGroup]:
    """Return the groups of the inputs of each row, of which a row may have several."""
    groups = []
    for i in range(max(map(len, inputs), default=1)):
        rows = np.flatnonzero([len(row) > i for row in inputs])
        chosen = [inputs[row][i] for row in rows.tolist()]
        groups.append(InputGroup(rows, 1, partial(_with_keys, chosen)))
    return groups


def _with_keys(inputs: list[Any]) -> tuple[list[Any], list[bytes]]:
    return inputs, [blake2b(_bytes(one), digest_size=16).digest() for one in inputs]


def _bytes(one: Any) -> bytes:
    return (one if isinstance(one, str) else repr(one)).encode("utf-8", "surrogatepass")
