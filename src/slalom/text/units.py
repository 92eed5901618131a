"""What the explanation speaks of: units of a text, each made of the atoms that the model reads.

An *atom* is what can be taken away from the model's input: a token of its tokenizer, or a piece of the string. A *unit* is one
or more atoms: a token, a word, a sentence. `unit_of_atom[t]` is the unit of atom t, so presence of units (m, n) becomes
presence of atoms by `keep[:, unit_of_atom]`. `type_of_unit` is the parameter that a unit uses: units of the kind "type" share
it between equal tokens, and the counts that are fitted are

    counts[k, p] = sum_{i with type_of_unit[i] = p} keep[k, i]

Every occurrence stays a unit of its own, whatever its kind: a repeated token never vanishes.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slalom.errors import InputError
from slalom.text.segment import Spans, sentences, trimmed, words

Unit: TypeAlias = Literal["token", "type", "word", "sentence"]
KINDS: tuple[str, ...] = get_args(Unit)
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Units:
    """Units of one text: names and spans (n, 2), the unit of each atom (T,), the parameter of each unit (n,)."""

    names: tuple[str, ...]
    spans: Spans
    unit_of_atom: Index
    type_of_unit: Index

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.names)

    @property
    def n_types(self) -> int:
        """How many parameters pairs (v, s) there are."""
        return int(self.type_of_unit.max(initial=-1)) + 1

    def atoms(self, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the presence of atoms (m, T) for the presence of units (m, n)."""
        return keep if len(self.unit_of_atom) == len(self) else keep[:, self.unit_of_atom]

    @property
    def sizes(self) -> Index:
        """How many atoms each unit has (n,)."""
        return np.bincount(self.unit_of_atom, minlength=len(self)).astype(np.int64)

    def lengths(self, keep: NDArray[np.bool_]) -> Index:
        """Return how many atoms are present (m,) for the presence of units (m, n)."""
        return np.asarray((keep @ self.sizes.astype(np.float64)).astype(np.int64))

    def counts(self, keep: NDArray[np.bool_]) -> NDArray[np.float64] | csr_array:
        """Return how often each parameter is present (m, n_types) for the presence of units (m, n); sparse where few are."""
        shape = len(keep), self.n_types
        few = 8 * np.count_nonzero(keep) <= keep.size
        if self.n_types == len(self) and not few:
            return keep.astype(np.float64)
        rows, units_ = np.divmod(np.flatnonzero(keep), len(self))
        types = self.type_of_unit[units_]
        if few:
            ends = np.bincount(rows, minlength=len(keep)).cumsum()
            return csr_array((np.ones(len(rows)), types, np.concatenate([[0], ends])), shape)
        places = rows * self.n_types + types
        return np.bincount(places, np.ones(len(places)), shape[0] * shape[1]).reshape(shape)


def units(text: str, kind: str, names: tuple[str, ...], spans: Spans, types: Index) -> Units:
    """Make units of one kind from the atoms of a text: their names, spans (T, 2) and types (T,) (equal atoms, equal numbers).

    >>> atoms = np.array([[0, 3], [4, 7], [7, 11], [12, 15]])
    >>> made = units("not unhappy not", "word", ("not", "unh", "appy", "not"), atoms, np.array([0, 1, 2, 0]))
    >>> made.names, made.spans.tolist(), made.unit_of_atom.tolist()
    (('not', 'unhappy', 'not'), [[0, 3], [4, 11], [12, 15]], [0, 1, 1, 2])
    """
    if kind not in KINDS:
        raise InputError(f"unit must be one of {', '.join(map(repr, KINDS))}; got {kind!r}")
    n = len(names)
    spans = np.array([trimmed(text, a, b) for a, b in spans.tolist()], dtype=np.int64).reshape(n, 2)
    if kind in ("token", "type"):
        own = np.arange(n, dtype=np.int64)
        shared = np.unique(types, return_inverse=True)[1].astype(np.int64) if kind == "type" else own
        return Units(names, spans, own, shared)
    group = grouped(spans, words(text) if kind == "word" else sentences(text))
    n_groups = int(group.max(initial=-1)) + 1
    covers = np.empty((n_groups, 2), dtype=np.int64)
    for g in range(n_groups):
        own = np.flatnonzero(group == g)
        covers[g] = trimmed(text, int(spans[own, 0].min()), int(spans[own, 1].max()))
    named = tuple(
        text[a:b] if b > a else " ".join(names[i] for i in np.flatnonzero(group == g)) for g, (a, b) in enumerate(covers)
    )
    return Units(named, covers, group, np.arange(n_groups, dtype=np.int64))


def grouped(spans: Spans, cells: Spans) -> Index:
    """Return the group 0..g-1 of each span: spans in the same cell, or joined to it by an overlap, are one group.

    A span that begins in no cell joins the cell before it (the first one, if there is none before).
    """
    if not len(spans):
        return np.zeros(0, dtype=np.int64)
    cell = np.searchsorted(cells[:, 0], spans[:, 0], side="right") - 1
    cell = np.maximum.accumulate(np.maximum(cell, 0))
    # An atom that reaches into the next cells (a token of several words) binds them into one group.
    last = np.searchsorted(cells[:, 0], np.maximum(spans[:, 1] - 1, spans[:, 0]), side="right") - 1
    reach = np.maximum.accumulate(np.maximum(last, cell))
    new = np.concatenate([[True], cell[1:] > reach[:-1]])
    return np.asarray(np.cumsum(new) - 1, dtype=np.int64)
