"""Names of selected keys, and their sums in parts of the corpus."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from slalom.core.checks import Floats
from slalom.corpus.moments import Effect, effect_of
from slalom.corpus.table import GIVEN
from slalom.corpus.words import PIECE, WORD, Chosen, Chunk, Index, Keys, Reader, observations

Codes = Callable[[Sequence[str | None], Mapping[str, Sequence[str | None]]], dict[str, Index]]


@final
class Details:
    """Names of selected keys, and their sums in parts of the corpus.

    Args:
        reader: How words are read.
        keys: The keys, in ascending order (k,).
        groupings: Names of the parts by grouping.
        codes: Returns the part of each row, by grouping, from predicted labels and kept columns.

    Attributes:
        names: Names as they are shown, by key.
        words: Words of each key.
        pieces: Pieces of the words that have several units.
    """

    def __init__(self, reader: Reader, keys: Keys, groupings: Mapping[str, tuple[str, ...]], codes: Codes) -> None:
        self._reader, self._keys, self._groupings, self._codes = reader, keys, groupings, codes
        self._sums = {grouping: np.zeros((3, len(keys) * len(parts))) for grouping, parts in groupings.items()}
        self._chosen = Chosen(keys)
        self._named = np.zeros(len(keys), dtype=bool)
        self.names: dict[int, str] = {}
        self.words: dict[int, tuple[str, ...]] = {}
        self.pieces: dict[int, tuple[str, ...]] = {}

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        if not len(self._keys):
            return
        every = chunk.occurrences
        wanted, at = self._chosen.find(every.key)
        self._name(chunk, wanted, at)
        seen = observations(every[wanted])
        index = np.searchsorted(self._keys, seen.key)
        codes = self._codes(chunk.column("label"), _given(chunk))
        for grouping, parts in self._groupings.items():
            code = codes[grouping][seen.row]
            known = code >= 0
            cell = (index * len(parts) + code)[known]
            y = seen.effect[known]
            sums = self._sums[grouping]
            for row, weights in enumerate((None, y, y * y)):
                sums[row] += np.bincount(cell, weights, sums.shape[1])

    def _name(self, chunk: Chunk, wanted: Index, at: Index) -> None:
        """Name the keys that occur for the first time."""
        fresh = ~self._named[at]
        new = wanted[fresh]
        found, first = np.unique(at[fresh], return_index=True)
        self._named[found] = True
        pieces: dict[int, list[int]] = {}
        for i, where in zip(found.tolist(), new[first].tolist(), strict=True):
            key = int(self._keys[i])
            self.names[key], self.words[key] = chunk.text_of(where), chunk.words_of(where)
            if chunk.occurrences.level[where] == WORD:
                pieces[where] = []
        self._add_pieces(chunk, pieces)

    def _add_pieces(self, chunk: Chunk, words: dict[int, list[int]]) -> None:
        """Note the pieces of words: those that lie within them."""
        every = chunk.occurrences
        pieces = np.flatnonzero(every.level == PIECE)
        if not len(pieces) or not words:
            return
        order = pieces[np.lexsort((every.start[pieces], every.row[pieces]))]
        base = int(every.end.max()) + 1
        place = every.row[order] * base + every.start[order]
        for where in words:
            row, start, end = int(every.row[where]), int(every.start[where]), int(every.end[where])
            low, high = np.searchsorted(place, [row * base + start, row * base + end])
            if high > low:
                self.pieces[int(every.key[where])] = tuple(chunk.words_of(int(i))[0] for i in order[low:high])

    def counts(self, grouping: str) -> Floats:
        """Return the texts of each key by part (k, parts)."""
        return np.asarray(self._sums[grouping][0].reshape(len(self._keys), -1))

    def groups(self, i: int) -> dict[str, dict[str, Effect]]:
        """Return the effect of key i in all parts of the corpus."""
        found = {}
        for grouping, parts in self._groupings.items():
            cells = self._sums[grouping].reshape(3, len(self._keys), -1)[:, i].T
            found[grouping] = {name: effect_of(*cell) for name, cell in zip(parts, cells.tolist(), strict=True)}
        return found


def _given(chunk: Chunk) -> dict[str, list[Any]]:
    return {name: chunk.column(name) for name in chunk.rows.schema.names if name.startswith(GIVEN)}
