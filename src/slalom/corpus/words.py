"""Words and phrases of a table of explanations, with their effects.

    effect(unit)       = `removal`: by how much the predicted score falls without it
    effect(word)       = by how much it falls without all units of the word      units that begin in one word, as in
                                                                                 `Explanation.merge("word")`
    effect(phrase)     = by how much it falls without all units of the phrase    n adjacent words of one text
    effect(text, word) = mean over its occurrences there                         one observation per text

`slalom.corpus.together` has the formula: units that say the same do little one by one, and much together. Words are named in
lower case unless `case` is set. A *piece* is a unit of a word that has several: "un-", "-able".

Everything is numbered by 64-bit keys (a hash of the name), so that a batch is a handful of numpy arrays and no table of
strings grows with the corpus. Two of ten million names share a key with a probability below 3e-6.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.corpus.batch_texts import BatchTexts
from slalom.corpus.together import effects_by_length

Keys: TypeAlias = NDArray[np.uint64]
Index: TypeAlias = NDArray[np.int64]

PIECE, WORD = 0, 1  # levels; a phrase of n words has level n
LONGEST = 3  # words of a phrase

_CHUNK = 250_000  # units that are handled at once
_PREFIX = 20  # bits of a key
_CACHED = 1_000_000  # names whose hashes are kept
_BITS = 2**64 - 1  # of a key
_PIECES = np.uint64(0x5851F42D4C957F2D)
_ROWS = np.uint64(0x9E3779B97F4A7C15)


@final
@dataclass(frozen=True, eq=False)
class Occurrences:
    """Where words, phrases and pieces occur in some texts, in parallel arrays.

    Attributes:
        row: Text of each occurrence, counted from the first of the chunk.
        key: What occurs.
        level: `PIECE`, `WORD`, or the number of words of a phrase.
        effect: Its effect there.
        top: Whether it is among the strongest of its text and level; False where these were not wanted.
        start, end: Where it is in the text, in characters.
        place: Index of its first word (or unit, for a piece) in the names of the chunk.
    """

    row: Index
    key: Keys
    level: NDArray[np.int8]
    effect: Floats
    top: NDArray[np.bool_]
    start: Index
    end: Index
    place: Index

    def __len__(self) -> int:
        return len(self.key)

    def __getitem__(self, chosen: Any) -> "Occurrences":
        return Occurrences(*(getattr(self, field.name)[chosen] for field in fields(self)))


@final
@dataclass(frozen=True, eq=False)
class Observations:
    """One observation per text and key.

    Attributes:
        row: Text.
        key: What occurs in it.
        level: Its level.
        effect: Mean effect over its occurrences in the text.
        count: Number of occurrences.
        top: Whether one of them is among the strongest of the text.
        first: Index of the occurrence with the strongest effect.
    """

    row: Index
    key: Keys
    level: NDArray[np.int8]
    effect: Floats
    count: Index
    top: NDArray[np.bool_]
    first: Index

    def __len__(self) -> int:
        return len(self.key)


@final
class Chunk:
    """Some rows of a table, with what occurs in them.

    Args:
        rows: The rows, a record batch with units, starts, ends, removal, and text where it was kept.
        reader: How words are read.
        ranked: Whether to find the strongest of each text.
    """

    def __init__(self, rows: Any, reader: "Reader", ranked: bool = True) -> None:
        self.rows = rows
        self._reader, self._ranked = reader, ranked
        self._names: list[str] = []
        self._word_codes = np.zeros(0, dtype=np.int64)
        self._pieces: list[str] = []
        self._piece_codes = np.zeros(0, dtype=np.int64)
        self.occurrences = self._read()

    def _read(self) -> Occurrences:
        units, sizes, names = _flat(self.rows, "units")
        effect = _numbers(self.rows, "removal")
        start, end = (_numbers(self.rows, name).astype(np.int64) for name in ("starts", "ends"))
        row = np.repeat(np.arange(len(sizes)), sizes)
        texts = self._texts()
        group, pieces = self._grouped(texts, row, start, end)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        n_words = len(first)
        word_row, word_start = row[first], start[first]
        word_end = np.maximum.reduceat(end, first) if n_words else end
        effects = effects_by_length(self.rows, row, effect, group, first)
        if n_words == len(row):
            self._names, self._word_codes = [self._reader.fold(name) for name in names], units
        else:
            assert texts is not None
            self._word_codes, found = texts.slices(word_row, word_start, word_end)
            if "" in found:  # a unit without characters has a name of its own
                empty = self._word_codes == found.index("")
                self._word_codes[empty] = len(found) + units[first][empty]
                found += names
            self._names = [self._reader.fold(name) for name in found]
        hashes = self._reader.hashes(self._names)[self._word_codes]
        parts = [self._level(WORD, word_row, hashes, next(effects), word_start, word_end, np.arange(n_words))]
        key = hashes
        for length in range(2, self._reader.longest + 1):
            inside = np.flatnonzero(word_row[: n_words - length + 1] == word_row[length - 1 :])
            key, total = _mixed(key[: n_words - length + 1]) + hashes[length - 1 :], next(effects)
            ends = word_end[inside + length - 1]
            parts.append(self._level(length, word_row[inside], key[inside], total[inside], word_start[inside], ends, inside))
        if len(pieces):
            self._piece_codes, self._pieces = self._piece_names(units, names, group, pieces)
            keys = _mixed(self._reader.hashes(self._pieces) ^ _PIECES)[self._piece_codes]
            at = np.arange(len(pieces))
            parts.append(self._level(PIECE, row[pieces], keys, effect[pieces], start[pieces], end[pieces], at))
        return Occurrences(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Occurrences)))

    def _grouped(self, texts: BatchTexts | None, row: Index, start: Index, end: Index) -> tuple[Index, Index]:
        """Return the word of each unit, counted over all rows, and the units that are pieces of words."""
        if texts is None or not len(row):
            return np.arange(len(row)), np.zeros(0, dtype=np.int64)
        offsets, cells = texts.offsets, texts.word_starts()
        lowest = np.searchsorted(cells, offsets)[row]  # a unit before all words joins the first one
        begins, ends = offsets[row] + start, offsets[row] + np.maximum(end - 1, start)
        cell = np.maximum.accumulate(np.maximum(np.searchsorted(cells, begins, side="right") - 1, lowest))
        reach = np.maximum.accumulate(np.maximum(np.searchsorted(cells, ends, side="right") - 1, cell))
        new = np.ones(len(row), dtype=bool)
        new[1:] = (cell[1:] > reach[:-1]) | (row[1:] != row[:-1])
        group = np.cumsum(new) - 1
        return group, np.flatnonzero(np.bincount(group)[group] > 1)

    def _texts(self) -> BatchTexts | None:
        """Return the texts where they are needed to find words; None where they are not, or one was not kept."""
        kept = self._reader.merges and "text" in self.rows.schema.names
        column = self.rows.column("text") if kept else None
        return None if column is None or column.null_count else BatchTexts(column)

    def _piece_names(self, units: Index, names: list[str], group: Index, pieces: Index) -> tuple[Index, list[str]]:
        """Return the name of each piece, by its number among the different ones, and these."""
        inside = np.concatenate([[False], group[1:] == group[:-1]])
        goes_on = np.concatenate([inside[1:], [False]])
        different, code = np.unique(4 * units[pieces] + 2 * inside[pieces] + goes_on[pieces], return_inverse=True)
        found = [
            f"{'-' if kind & 2 else ''}{self._reader.fold(names[kind >> 2])}{'-' if kind & 1 else ''}"
            for kind in different.tolist()
        ]
        return code, found

    def _level(self, level: int, row: Index, key: Keys, effect: Floats, start: Index, end: Index, place: Index) -> Occurrences:
        top = np.zeros(len(row), dtype=bool)
        if self._ranked and len(row):
            size = np.abs(effect)
            order = np.argsort(row - size / (2 * size.max() or 1.0), kind="stable")  # by row, then strongest first
            counts = np.bincount(row)
            top[order] = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) < self._reader.strongest
        return Occurrences(row, key, np.full(len(row), level, dtype=np.int8), effect, top, start, end, place)

    def words_of(self, i: int) -> tuple[str, ...]:
        """Return the words of occurrence i; for a piece its name."""
        level, place = int(self.occurrences.level[i]), int(self.occurrences.place[i])
        return (
            (self._pieces[self._piece_codes[place]],)
            if level == PIECE
            else tuple(self._names[code] for code in self._word_codes[place : place + level].tolist())
        )

    def text_of(self, i: int) -> str:
        """Return occurrence i as it is in the text, in lower case where words are; its words where the text was not kept."""
        occurrences, words = self.occurrences, self.words_of(i)
        kept = occurrences.level[i] > WORD and "text" in self.rows.schema.names
        text = self.rows.column("text")[int(occurrences.row[i])].as_py() if kept else None
        if text is None:
            return " ".join(words)
        written = " ".join(text[int(occurrences.start[i]) : int(occurrences.end[i])].split())
        return self._reader.fold(written) if written else " ".join(words)

    def column(self, name: str) -> list[Any]:
        """Return a column of the rows as a list."""
        return list(self.rows.column(name).to_pylist())


@final
class Reader:
    """Reads the words of record batches.

    Args:
        merges: Whether units may be smaller than words.
        longest: Words of the longest phrase; 1: no phrases.
        strongest: How many of a text count as its strongest.
        case: Whether "Good" and "good" are two words.
    """

    def __init__(self, merges: bool = True, longest: int = LONGEST, strongest: int = 5, case: bool = False) -> None:
        self.merges, self.longest, self.strongest, self.case = merges, longest, strongest, case
        self._hashes: dict[str, int] = {}

    def fold(self, name: str) -> str:
        """Return a name as it is counted."""
        return name if self.case else name.lower()

    def hashes(self, names: Iterable[str]) -> Keys:
        """Return the keys of single words."""
        cache = self._hashes
        if len(cache) > _CACHED:
            cache.clear()
        found = []
        for name in names:
            number = cache.get(name)
            if number is None:
                digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                number = cache[name] = int.from_bytes(digest, "little")
            found.append(number)
        return np.array(found, dtype=np.uint64)

    def key(self, words: tuple[str, ...], level: int) -> int:
        """Return the key of a word, a phrase or a piece by its name."""
        hashes = [int(number) for number in self.hashes(words)]
        if level == PIECE:
            return _mixed_one(hashes[0] ^ int(_PIECES))
        key = hashes[0]
        for number in hashes[1:]:
            key = (_mixed_one(key) + number) & _BITS
        return key

    def chunks(self, batches: Iterable[Any], ranked: bool = True) -> Iterator[Chunk]:
        """Yield record batches in chunks of about as many units each."""
        waiting: list[Any] = []
        units = 0
        for batch in batches:
            waiting.append(batch)
            units += int(np.sum(batch.column("n_units").to_numpy(zero_copy_only=False)))
            if units >= _CHUNK:
                yield Chunk(_joined(waiting), self, ranked)
                waiting, units = [], 0
        if waiting:
            yield Chunk(_joined(waiting), self, ranked)


@final
class Chosen:
    """Finds some keys among many.

    Args:
        keys: The keys, in ascending order (k,).
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._some = np.zeros(1 << _PREFIX, dtype=bool)  # by the first bits of a key: most others are told by these alone
        self._some[keys >> np.uint64(64 - _PREFIX)] = True

    def find(self, keys: Keys) -> tuple[Index, Index]:
        """Return the places of those that are among the chosen ones, and which of these each is."""
        if not len(self._keys):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        near = np.flatnonzero(self._some[keys >> np.uint64(64 - _PREFIX)])
        at = np.minimum(np.searchsorted(self._keys, keys[near]), len(self._keys) - 1)
        same = self._keys[at] == keys[near]
        return near[same], at[same]


def observations(occurrences: Occurrences) -> Observations:
    """Return one observation per text and key, ordered by nothing in particular."""
    pair = _mixed(occurrences.key) + occurrences.row.astype(np.uint64) * _ROWS
    order = np.argsort(pair, kind="stable")
    ordered = pair[order]
    heads = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(order) else np.zeros(0, dtype=np.int64)
    if len(heads) == len(order):  # nothing occurs twice
        ones = np.ones(len(order), dtype=np.int64)
        every = np.arange(len(order))
        return Observations(
            occurrences.row, occurrences.key, occurrences.level, occurrences.effect, ones, occurrences.top, every
        )
    count = np.diff(heads, append=len(order))
    effect, top = occurrences.effect[order], occurrences.top[order]
    lead, best, several = order[heads], heads.copy(), count > 1
    repeated = np.flatnonzero(np.repeat(several, count))
    member = np.repeat(np.flatnonzero(several), count[several])
    strongest = np.lexsort((-np.abs(effect[repeated]), member))
    best[several] = repeated[strongest[np.cumsum(count[several]) - count[several]]]
    return Observations(
        occurrences.row[lead],
        occurrences.key[lead],
        occurrences.level[lead],
        np.add.reduceat(effect, heads) / count,
        count,
        np.maximum.reduceat(top, heads),
        order[best],
    )


def _mixed(key: Keys) -> Keys:
    """Return keys with their bits mixed, so that the order of words matters (the finaliser of splitmix64)."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(key ^ (key >> np.uint64(31)))


def _mixed_one(key: int) -> int:
    """Return `_mixed` of one key: arrays of one number are slow."""
    key = (key + 0x9E3779B97F4A7C15) & _BITS
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _BITS
    return key ^ (key >> 31)


def _joined(batches: list[Any]) -> Any:
    """Return record batches as one."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _flat(rows: Any, name: str) -> tuple[Index, Index, list[str]]:
    """Return a list column of strings as codes, the length of each list, and the distinct strings."""
    column = rows.column(name)
    coded = column.flatten().dictionary_encode()
    sizes = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64), sizes, coded.dictionary.to_pylist()


def _numbers(rows: Any, name: str) -> Floats:
    return np.asarray(rows.column(name).flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
