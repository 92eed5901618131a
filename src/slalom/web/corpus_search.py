"""Searching and sorting the texts of a corpus: one query of DuckDB over its Parquet parts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from slalom.corpus.engine import Parts, connect, identifier, literal
from slalom.corpus.folder import Folder
from slalom.corpus.queries import BETWEEN, PIECE, occurrences
from slalom.corpus.table import EXPLAINED, GIVEN, LONGEST
from slalom.errors import InputError
from slalom.text import simple_words

MOST = 10_000  # texts that a search keeps, so the largest offset of a page


class Facts(NamedTuple):
    """What a search needs to know of a corpus.

    Attributes:
        labels: Labels of the model.
        gold: Kept column with the true labels.
        keep: Kept columns.
        part_size: Texts per part.
    """

    labels: tuple[str, ...]
    gold: str | None
    keep: tuple[str, ...]
    part_size: int


class Order(NamedTuple):
    """An order of texts: its title, what is sorted by (the largest comes first, NULL last), whether it needs true labels."""

    title: str
    by: str
    gold: bool = False


ORDERS: Mapping[str, Order] = {
    "number": Order("Source order", "-number"),
    "score": Order("Highest score", "score"),
    "-score": Order("Lowest score", "-score"),
    "probability": Order("Most certain", "probability"),
    "-probability": Order("Least certain", "-probability"),
    "effect": Order("Strongest effect", "coalesce(abs(effect), list_max(list_transform(removal, lambda x: abs(x))))"),
    "fidelity": Order("Best fidelity", "near_r2"),
    "-fidelity": Order("Worst fidelity", "-near_r2"),
    "wrong": Order("Wrong predictions first", "2 * (truth != label)::INT + coalesce(probability, 0)", gold=True),
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
    def scans(self) -> bool:
        """Whether rows must be read to know which come first."""
        return self != Query()


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


class Hits(NamedTuple):
    """The texts that match.

    Attributes:
        matches: How many.
        first: Number and effect of the word for the first `MOST` of them, in order.
    """

    matches: int
    first: Sequence[tuple[int, float | None]]


def find(folder: Folder, numbers: Sequence[int], query: Query, facts: Facts) -> Hits:
    """Return the texts of some parts that match."""
    if not numbers:
        return Hits(0, ())
    connection = connect()
    try:
        source = Parts(connection, folder, numbers).source()
        order, conditions, values = ORDERS[query.sort], list[str](), dict[str, str]()
        if query.column is not None:
            conditions.append(f"{identifier(GIVEN + query.column)} = $value")
            values["value"] = query.value or ""
        if query.target:
            conditions.append(f"status = {literal(EXPLAINED)} AND target = $target")
            values["target"] = query.target
        if query.search:
            conditions.append("(contains(lower(text), lower($search)) OR contains(lower(id), lower($search)))")
            values["search"] = query.search
        chosen = f"SELECT * FROM {source} WHERE {' AND '.join(conditions) or 'true'}"
        effect = "SELECT *, NULL::DOUBLE AS effect FROM"
        if query.word:
            found = []
            for i, (length, key) in enumerate(_keys(query.word)):
                found.append(
                    f"SELECT number, effect FROM ({occurrences(chosen, length, False, '0 AS cell')} AND key = $key{i})"
                )
                values[f"key{i}"] = key
            of_word = f"SELECT number, avg(effect) AS effect FROM ({' UNION ALL '.join(found)}) GROUP BY number"
            effect = f"SELECT * FROM ({of_word}) JOIN"
        joined = f"{effect} ({chosen}){' USING (number)' if query.word else ''}"
        truth = _truth(facts) if order.gold else "NULL"
        connection.execute(
            f"CREATE TABLE hits AS SELECT number, effect, {order.by} AS rank FROM (SELECT *, {truth} AS truth FROM ({joined}))",
            values,
        )
        first = connection.execute(f"SELECT number, effect FROM hits ORDER BY rank DESC NULLS LAST, number LIMIT {MOST}")
        hits = first.fetchall()
        return Hits(connection.execute("SELECT count(*) FROM hits").fetchall()[0][0], hits)
    finally:
        connection.close()


def _truth(facts: Facts) -> str:
    """Return the model's label of the true label, which may be its index, as SQL."""
    labels, gold = f"[{', '.join(map(literal, facts.labels))}]", identifier(GIVEN + str(facts.gold))
    index = f"try_cast(regexp_replace({gold}, '\\.0$', '') AS INTEGER)"
    return f"if(list_contains({labels}, {gold}), {gold}, if({index} >= 0, {labels}[{index} + 1], NULL))"


def _keys(word: str) -> list[tuple[int, str]]:
    """Return length and key of the word, phrase or piece that a summary may show by a name.

    Example:
        >>> _keys("Good  film")
        [(1, 'good film'), (0, '\\x1egood film'), (2, 'good\\x1ffilm')]
    """
    name = " ".join(word.split()).lower()
    cut = {tuple(name[a:b] for a, b in simple_words(name).tolist()), tuple(name.split())}
    phrases = sorted((len(words), BETWEEN.join(words)) for words in cut if 1 < len(words) <= LONGEST)
    return [(1, name), (0, PIECE + name), *phrases]


def rows(folder: Folder, part_size: int, numbers: Sequence[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Return some rows by their numbers; those that are not there are left out."""
    parts = sorted({number // part_size for number in numbers})
    if not parts:
        return {}
    connection = connect()
    try:
        names = ", ".join(map(identifier, columns))
        query = f"SELECT {names} FROM {Parts(connection, folder, parts).source()} WHERE number IN (SELECT unnest(?::BIGINT[]))"
        found = connection.execute(query, [list(numbers)]).fetchall()
        return {row[columns.index("number")]: dict(zip(columns, row, strict=True)) for row in found}
    finally:
        connection.close()
