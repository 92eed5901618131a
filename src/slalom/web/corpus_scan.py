"""Searching and sorting the texts of a corpus: one pass over its parts, which can stop and go on.

A scan keeps the first texts in its order, never the table: a part is read, its best rows are kept, and it is forgotten. New
parts of a run under way are read when somebody asks again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from slalom.core.checks import Floats
from slalom.corpus.counts import label_of
from slalom.corpus.folder import Folder, Stamp
from slalom.corpus.parts import part_file
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.corpus.together import columns_of
from slalom.corpus.words import PIECE, WORD, Chunk, Reader, observations
from slalom.errors import InputError
from slalom.text import words as word_spans

MOST = 10_000  # texts that a scan keeps, so the largest offset of a page
_BATCH = 1000
_PHRASE = 5  # words of the longest phrase of a summary
_WORD_COLUMNS = ("status", "text", "n_units", "units", "starts", "ends", "removal")


class Facts(NamedTuple):
    """What a scan needs to know of a corpus.

    Attributes:
        labels: Labels of the model.
        gold: Kept column with the true labels.
        keep: Kept columns.
        merges: Whether units may be smaller than words.
        part_size: Texts per part.
    """

    labels: tuple[str, ...]
    gold: str | None
    keep: tuple[str, ...]
    merges: bool
    part_size: int


class Order(NamedTuple):
    """An order of texts.

    Attributes:
        title: In plain words.
        columns: The columns that it needs.
        key: Returns a number per row; the largest comes first, NaN last.
        gold: Whether it needs true labels.
    """

    title: str
    columns: tuple[str, ...]
    key: Callable[[Any, Facts], Floats]
    gold: bool = False


def _floats(rows: Any, name: str) -> Floats:
    return np.asarray(rows.column(name).to_numpy(zero_copy_only=False), dtype=np.float64)


def _strongest(rows: Any, _: Facts) -> Floats:
    """Return the size of the strongest effect of each text."""
    column = rows.column("removal")
    sizes = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    found = np.full(len(sizes), np.nan)
    some = np.flatnonzero(sizes)
    if len(some):
        effects = np.abs(np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64))
        found[some] = np.maximum.reduceat(effects, (np.cumsum(sizes) - sizes)[some])
    return found


def wrong(rows: Any, facts: Facts) -> Floats:
    """Return 1 for a wrong prediction, 0 for a correct one, NaN where the true label or the prediction is not known."""
    golds = rows.column(GIVEN + str(facts.gold)).to_pylist()
    pairs = zip((label_of(gold, facts.labels) for gold in golds), rows.column("label").to_pylist(), strict=True)
    return np.array([np.nan if gold is None or label is None else float(gold != label) for gold, label in pairs])


def _wrong_first(rows: Any, facts: Facts) -> Floats:
    """Wrong predictions come first, the most certain of them before the others; then the correct ones in the same way."""
    return 2.0 * wrong(rows, facts) + np.nan_to_num(_floats(rows, "probability"))


ORDERS: Mapping[str, Order] = {
    "number": Order("Source order", (), lambda rows, _: -_floats(rows, "number")),
    "score": Order("Highest score", ("score",), lambda rows, _: _floats(rows, "score")),
    "-score": Order("Lowest score", ("score",), lambda rows, _: -_floats(rows, "score")),
    "probability": Order("Most certain", ("probability",), lambda rows, _: _floats(rows, "probability")),
    "-probability": Order("Least certain", ("probability",), lambda rows, _: -_floats(rows, "probability")),
    "effect": Order("Strongest effect", ("removal",), _strongest),
    "fidelity": Order("Best fidelity", ("near_r2",), lambda rows, _: _floats(rows, "near_r2")),
    "-fidelity": Order("Worst fidelity", ("near_r2",), lambda rows, _: -_floats(rows, "near_r2")),
    "wrong": Order("Wrong predictions first", ("label", "probability"), _wrong_first, gold=True),
}


class Query(NamedTuple):
    """What is looked for.

    Attributes:
        search: Part of a text or of its id, in upper or lower case.
        word: A word, phrase or piece, as the summary names it.
        sort: Name of an order.
        column: Kept column of the slice.
        value: Its value.
        target: Class whose score a text explains; effects of other classes mean something else. Nothing: any.
    """

    search: str = ""
    word: str = ""
    sort: str = "number"
    column: str | None = None
    value: str | None = None
    target: str = ""

    @property
    def filters(self) -> bool:
        """Whether some texts may not match."""
        return bool(self.search or self.word or self.target or self.column is not None)

    @property
    def scans(self) -> bool:
        """Whether rows must be read to know which come first."""
        return self.filters or self.sort != "number"


def query_of(facts: Facts, search: str, word: str, sort: str, part: str, target: str = "") -> Query:
    """Return a query."""
    orders = [name for name, order in ORDERS.items() if facts.gold is not None or not order.gold]
    if sort not in orders:
        why = "; wrong needs a kept column with true labels (--gold)" if sort in ORDERS else ""
        raise InputError(f"sort must be one of {', '.join(orders)}; got {sort[:40]!r}{why}")
    if not part:
        return Query(search, word, sort, target=target)
    for column in sorted(facts.keep, key=len, reverse=True):  # a name may have an equals sign
        if part.startswith(f"{column}="):
            return Query(search, word, sort, column, part[len(column) + 1 :], target)
    kept = ", ".join(facts.keep) or "none; --keep NAME of slalom corpus run keeps one"
    raise InputError(f"slice must be COLUMN=VALUE with a kept column ({kept}); got {part[:60]!r}")


class Hit(NamedTuple):
    """A text that matches.

    Attributes:
        number: Its number.
        effect: Effect of the word that was looked for; None without one.
    """

    number: int
    effect: float | None


@final
class Scan:
    """A pass over the parts for one query. It is used by one thread at a time: `lock`.

    Args:
        query: What is looked for.
        facts: What is known of the corpus.

    Attributes:
        matches: Texts that match in the parts that were read.
        damaged: Numbers of parts that are not as they were written.
    """

    def __init__(self, query: Query, facts: Facts) -> None:
        self.query, self.facts = query, facts
        self.lock = threading.Lock()
        self._reader, self._wanted = _word_keys(query.word, facts)
        self._reset()

    def _reset(self) -> None:
        self._done: dict[int, Stamp] = {}
        self._best = np.zeros((0, 3))  # key, number, effect of the word
        self.matches, self.damaged = 0, set[int]()

    def left(self, stamps: Mapping[int, Stamp]) -> list[int]:
        """Return the parts that are to be read; a part that was written again makes the scan begin anew."""
        if any(number not in stamps or stamps[number] != stamp for number, stamp in self._done.items()):
            self._reset()
        return [number for number in stamps if number not in self._done]

    def read(self, number: int, stamp: Stamp, folder: Folder) -> None:
        """Read a part."""
        order = ORDERS[self.query.sort]
        columns = ["number", *order.columns]
        columns += [GIVEN + str(self.facts.gold)] if order.gold else []
        columns += ["id", "text"] if self.query.search else []
        columns += ["status", "target"] if self.query.target else []
        columns += [GIVEN + self.query.column] if self.query.column is not None else []
        columns += _WORD_COLUMNS if self.query.word else []
        found = []
        try:
            with part_file(folder, number) as file:
                columns += columns_of(file.schema_arrow.names) if self.query.word else []
                for batch in file.iter_batches(_BATCH, columns=list(dict.fromkeys(columns))):
                    found.append(self._matching(batch, order))
        except InputError:
            self.damaged.add(number)
            found = []
        self._done[number] = stamp
        self.matches += sum(map(len, found))
        self._best = np.concatenate([self._best, *found])
        if len(self._best) > 2 * MOST:
            self._cut()

    def _matching(self, rows: Any, order: Order) -> Floats:
        """Return key, number and effect of the rows that match."""
        import pyarrow.compute as pc  # noqa: PLC0415

        query = self.query
        if query.column is not None:
            rows = rows.filter(pc.fill_null(pc.equal(rows.column(GIVEN + query.column), query.value), False))
        if query.target:
            explains = pc.and_(pc.equal(rows.column("status"), EXPLAINED), pc.equal(rows.column("target"), query.target))
            rows = rows.filter(pc.fill_null(explains, False))
        if query.search:
            places = (rows.column(name) for name in ("id", "text"))
            ids, texts = (pc.fill_null(pc.match_substring(place, query.search, ignore_case=True), False) for place in places)
            rows = rows.filter(pc.or_(ids, texts))
        effects = np.full(rows.num_rows, np.nan)
        if query.word:
            rows, effects = self._with_word(rows)
        if not rows.num_rows:
            return np.zeros((0, 3))
        key = np.abs(effects) if query.word and query.sort == "effect" else order.key(rows, self.facts)
        return np.stack([np.where(np.isnan(key), -np.inf, key), _floats(rows, "number"), effects], axis=1)

    def _with_word(self, rows: Any) -> tuple[Any, Floats]:
        """Return the rows that have the word, and its mean effect in each."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        rows = rows.filter(pc.equal(rows.column("status"), EXPLAINED))
        first = self.query.word.strip("-").split()[:1]
        if first and first[0].isascii() and first[0].isalnum():  # most texts are left out without looking for their words
            texts = rows.column("text")
            rows = rows.filter(
                pc.or_(pc.is_null(texts), pc.fill_null(pc.match_substring(texts, first[0], ignore_case=True), True))
            )
        if not rows.num_rows:
            return rows, np.zeros(0)
        every = Chunk(rows, self._reader, ranked=False).occurrences
        seen = observations(every[np.isin(every.key, self._wanted)])
        effects = np.full(rows.num_rows, np.nan)
        effects[seen.row] = seen.effect
        there = ~np.isnan(effects)
        return rows.filter(pa.array(there)), effects[there]

    def _cut(self) -> None:
        order = np.lexsort((self._best[:, 1], -self._best[:, 0]))
        self._best = self._best[order[:MOST]]

    def page(self, offset: int, limit: int) -> list[Hit]:
        """Return some of the texts that match, in order."""
        self._cut()
        rows = self._best[offset : offset + limit].tolist()
        return [Hit(int(number), None if np.isnan(effect) else effect) for _, number, effect in rows]


def _word_keys(word: str, facts: Facts) -> tuple[Reader, Any]:
    """Return a reader, and the keys that a word, phrase or piece of a summary may have."""
    name = Reader().fold(" ".join(word.split()))
    cut: Sequence[tuple[str, ...]] = (tuple(name[a:b] for a, b in word_spans(name).tolist()), tuple(name.split()))
    phrases = {words for words in cut if 1 < len(words) <= _PHRASE}
    reader = Reader(facts.merges, max([1, *map(len, phrases)]))
    keys = [reader.key((name,), WORD), reader.key((name,), PIECE), *(reader.key(words, len(words)) for words in phrases)]
    return reader, np.array(keys, dtype=np.uint64)
