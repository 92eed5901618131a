"""Units of a text, each made of atoms that the model reads.

    counts[k, p] = sum_{i with type_of_unit[i] = p} keep[k, i]

An *atom* is the smallest part that can be removed from the model's input: a token, or a piece of the string. A *unit* is one or
more atoms: a token, a word, a sentence. Tokens that are parts of one character are one unit: a byte-level tokenizer makes four
of an emoji. `unit_of_atom[t]` is the unit of atom t, so that presence of units (m, n) becomes presence of atoms by
`keep[:, unit_of_atom]`. `type_of_unit[i]` is the parameter of unit i: with the kind "type" equal tokens share one, and counts
of parameters are fitted. Every occurrence is a separate unit, for every kind.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import index
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slalom.errors import InputError, SlalomError, did_you_mean, one_line
from slalom.text.record import Record
from slalom.text.segment import Spans, clusters, sentences, trimmed, words

Unit: TypeAlias = Literal["token", "type", "word", "sentence"]
UnitFunction: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
KINDS: tuple[str, ...] = get_args(Unit)
CHOSEN = "unit"  # the kind of units that a function of the user finds
GIVEN: tuple[str, ...] = ("paragraph", "document", "turn", CHOSEN)  # kinds that only a model can have that knows its units
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Units:
    """The units of one text.

    Attributes:
        names: Names (n,).
        spans: Character spans (n, 2).
        unit_of_atom: Unit of each atom (T,).
        type_of_unit: Parameter of each unit (n,).
        equal: Equal numbers (n,) where units are the same to the model; None: as their parameters.
        field_of_unit: Number of the field of each unit (n,) in a record; None in a text.
        move: Whether units move forward where others are removed before them.
    """

    names: tuple[str, ...]
    spans: Spans
    unit_of_atom: Index
    type_of_unit: Index
    equal: Index | None = None
    field_of_unit: Index | None = None
    move: bool = True

    def __len__(self) -> int:
        return len(self.names)

    @property
    def words(self) -> tuple[str, ...]:
        """Names by which queries are compared (n,): the same word in another field is another one."""
        if self.field_of_unit is None:
            return self.names
        return tuple(f"{field}:{name}" for field, name in zip(self.field_of_unit.tolist(), self.names, strict=True))

    @property
    def without_fields(self) -> NDArray[np.bool_]:
        """The presence of units (fields, n) without each field; no row where there are fewer than two."""
        fields = np.zeros(0, dtype=np.int64) if self.field_of_unit is None else np.unique(self.field_of_unit)
        return np.zeros((0, len(self)), dtype=bool) if len(fields) < 2 else fields[:, None] != self.field_of_unit

    @property
    def own(self) -> bool:
        """Whether each unit has its own parameter, in the order of the units."""
        return bool((self.type_of_unit == np.arange(len(self))).all())

    @property
    def shared(self) -> "Units":
        """The same units, with one parameter for all that are the same to the model; itself where all differ."""
        if self.equal is None or (self.equal == self.type_of_unit).all():
            return self
        return replace(self, type_of_unit=self.equal)

    @property
    def n_types(self) -> int:
        """Number of parameter pairs (v, s)."""
        return int(self.type_of_unit.max(initial=-1)) + 1

    def atoms(self, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the presence of atoms (m, T) for the presence of units (m, n)."""
        return keep if len(self.unit_of_atom) == len(self) else keep[:, self.unit_of_atom]

    @property
    def sizes(self) -> Index:
        """Number of atoms of each unit (n,)."""
        return np.bincount(self.unit_of_atom, minlength=len(self)).astype(np.int64)

    def lengths(self, keep: NDArray[np.bool_]) -> Index:
        """Return the number of atoms (m,) for the presence of units (m, n)."""
        return np.asarray((keep @ self.sizes.astype(np.float64)).astype(np.int64))

    def counts(self, keep: NDArray[np.bool_]) -> NDArray[np.float64] | csr_array:
        """Return counts of parameters (m, n_types) for the presence of units (m, n); a sparse array where few are present."""
        shape = len(keep), self.n_types
        sparse = 8 * np.count_nonzero(keep) <= keep.size
        if self.own and not sparse:
            return keep.astype(np.float64)
        rows, units_ = np.divmod(np.flatnonzero(keep), len(self))
        types = self.type_of_unit[units_]
        if sparse:
            ends = np.bincount(rows, minlength=len(keep)).cumsum()
            return csr_array((np.ones(len(rows)), types, np.concatenate([[0], ends])), shape)
        places = rows * self.n_types + types
        return np.bincount(places, np.ones(len(places)), shape[0] * shape[1]).reshape(shape)


def units(text: str, kind: str, names: tuple[str, ...], spans: Spans, types: Index, cells: Spans | None = None) -> Units:
    """Make the units of a text, in its order, from its T atoms.

    Args:
        kind: "token", "type", "word" or "sentence".
        names: Names of the atoms (T,).
        spans: Character spans of the atoms (T, 2).
        types: Types of the atoms (T,); equal atoms have equal numbers.
        cells: Spans of the units (n, 2), as `chosen_spans` returns them. Default: they follow from text and kind.

    Raises:
        InputError: If there is no such kind.

    Example:
        >>> atoms = np.array([[0, 3], [4, 7], [7, 11], [12, 15]])
        >>> by_word = units("not unhappy not", "word", ("not", "unh", "appy", "not"), atoms, np.array([0, 1, 2, 0]))
        >>> by_word.names, by_word.spans.tolist(), by_word.unit_of_atom.tolist()
        (('not', 'unhappy', 'not'), [[0, 3], [4, 11], [12, 15]], [0, 1, 1, 2])
    """
    if isinstance(text, Record):
        if cells is None and kind in ("word", "sentence"):
            cells = text.cells(words if kind == "word" else sentences)
        made = units(str(text), kind, names, spans, types, cells)
        return replace(made, field_of_unit=text.field_of(made.spans))
    n = len(names)
    spans = np.array([trimmed(text, a, b) for a, b in spans.tolist()], dtype=np.int64).reshape(n, 2)
    if cells is not None:
        group = group_spans(spans, cells)
    elif kind not in KINDS:
        raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; got {kind!r}{did_you_mean(kind, KINDS)}")
    elif kind in ("token", "type"):
        group = _whole_characters(text, spans)
    else:
        group = group_spans(spans, words(text) if kind == "word" else sentences(text))
    n_groups = int(group.max(initial=-1)) + 1
    own = np.arange(n_groups, dtype=np.int64)
    if n_groups == n and cells is None and kind in ("token", "type"):
        if kind == "type":
            return Units(names, spans, own, np.unique(types, return_inverse=True)[1].astype(np.int64))
        return Units(names, spans, own, own, _numbered(types.tolist()))
    covers, contents, group_names = np.empty((n_groups, 2), dtype=np.int64), list[tuple[int, ...]](), list[str]()
    for g, (first, end) in enumerate(pairwise([*np.flatnonzero(np.diff(group, prepend=-1)).tolist(), n])):
        contents.append(tuple(types[first:end].tolist()))
        a, b = covers[g] = trimmed(text, int(spans[first:end, 0].min()), int(spans[first:end, 1].max()))
        group_names.append(text[a:b] if b > a else " ".join(names[first:end]))
    equal = _numbered(contents)
    return Units(tuple(group_names), covers, group, equal if kind == "type" else own, None if kind == "type" else equal)


def chosen_spans(text: str, function: UnitFunction) -> Spans:
    """Return the spans (n, 2) of the units that a function finds in a text.

    What is between two units belongs to the one before it, what is before the first to the first; it is removed with them.

    Raises:
        InputError: The function fails, or does not return (start, end) pairs in order and without overlaps.

    Example:
        >>> chosen_spans("one, two", lambda text: [(0, 3), (5, 8)]).tolist()
        [[0, 4], [5, 8]]
    """
    name = function_name(function)
    try:
        pairs = [(index(start), index(end)) for start, end in function(text)]
    except SlalomError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"unit={name} must return (start, end) pairs of whole numbers; {one_line(error)}") from error
    except Exception as error:
        raise InputError(f"unit={name} failed: {type(error).__name__}: {one_line(error)}") from error
    if not pairs:
        raise InputError(f"unit={name} must return at least one (start, end) pair; got none for {text[:40]!r}")
    before = 0
    for start, end in pairs:
        if not before <= start < end <= len(text):
            raise InputError(
                f"unit={name} must return spans in order, without overlaps, inside the {len(text)} characters of the text;"
                f" got ({start}, {end}) after {before}"
            )
        before = end
    starts = [0, *(start for start, _ in pairs[1:]), len(text)]
    return np.array([trimmed(text, a, b) for a, b in pairwise(starts)], dtype=np.int64)


def function_name(function: Callable[..., Any]) -> str:
    """Return the name by which settings and files know a function: its module and its qualified name.

    Example:
        >>> function_name(chosen_spans)
        'slalom.text.units.chosen_spans'
    """
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _whole_characters(text: str, spans: Spans) -> Index:
    """Return the group of each token (T,): one that begins inside a grapheme of a token before it joins that one.

    Byte-level tokenizers cut characters, and some normalisers decompose them. A token without a place is a group of its own.
    """
    if not len(spans):
        return np.zeros(0, dtype=np.int64)
    ends = np.arange(len(text) + 1)  # where the grapheme of the character before ends
    for start, end in clusters(text).tolist():
        ends[start + 1 : end] = end
    starts, placed = spans[:, 0], spans[:, 1] > spans[:, 0]
    reach = np.maximum.accumulate(np.where(placed, ends[spans[:, 1]], 0))
    joins = (starts[1:] < reach[:-1]) & (placed[1:] | (starts[1:] > 0))
    return np.asarray(np.cumsum(np.append(True, ~joins)) - 1, dtype=np.int64)


def _numbered(things: Sequence[Hashable]) -> Index:
    """Return 0, 1, ... for things (n,) in the order in which they first occur; equal things have equal numbers."""
    numbers = dict[Hashable, int]()
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], dtype=np.int64)


def group_spans(spans: Spans, cells: Spans) -> Index:
    """Return the group 0..g-1 of each span: spans that begin in one cell, or in cells joined by a span across them.

    A span that begins in no cell joins the cell before it, or the first one.
    """
    if not len(spans):
        return np.zeros(0, dtype=np.int64)
    cell = np.searchsorted(cells[:, 0], spans[:, 0], side="right") - 1
    cell = np.maximum.accumulate(np.maximum(cell, 0))
    # An atom that extends into the next cells (a token of several words) joins them into one group.
    last = np.searchsorted(cells[:, 0], np.maximum(spans[:, 1] - 1, spans[:, 0]), side="right") - 1
    reach = np.maximum.accumulate(np.maximum(last, cell))
    new = np.concatenate([[True], cell[1:] > reach[:-1]])
    return np.asarray(np.cumsum(new) - 1, dtype=np.int64)
