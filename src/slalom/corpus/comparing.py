"""`compare`: two models, or two versions of one, on the texts that both have explained.

    d(text, word) = effect after - effect before        one observation per text that has the word in both
    change(word)  = mean of d, with a paired 95% interval (Student's t over texts)

Texts are matched by id.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, final

from slalom.core.checks import whole_number
from slalom.corpus import queries
from slalom.corpus.counts import Counts
from slalom.corpus.opening import Corpus, check_columns
from slalom.corpus.opening import open as open_corpus
from slalom.corpus.queries import Parts, connect, kind_of, literal
from slalom.corpus.results import Change, CorpusComparison, Flip, WordChange, effect_of
from slalom.corpus.summarise import PHRASES, snippet, written
from slalom.corpus.suspects import Selection
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.errors import InputError

_WHY = 5  # words of a flip
_OPENING = 160  # characters
_FLIPS = 50


def compare(
    before: Corpus | str | Path,
    after: Corpus | str | Path,
    *,
    gold: str | None = None,
    target: str | None = None,
    min_texts: int | None = None,
    top: int = 100,
) -> CorpusComparison:
    """Return what changed between two corpora of explanations of the same texts: words and phrases, and flipped predictions.

    Args:
        before: What `slalom.corpus.open` returns, or the folder.
        after: The same for the other model.
        gold: Column of the source with the true labels.
        target: Class whose score is compared. Default: the one that most texts of the first corpus explain.
        min_texts: Fewest shared texts of a word that is listed. Default: 5, or one in 10,000 texts.
        top: How many words, phrases and pieces are listed, each.

    Raises:
        InputError: No text is in both, ids are not unique, or an argument is invalid.
        MissingExtra: duckdb is not installed.
    """
    first, second = (open_corpus(table) if isinstance(table, str | Path) else table for table in (before, after))
    least = None if min_texts is None else whole_number("min_texts", min_texts, 2)
    check_columns([] if gold is None else [GIVEN + gold], first.columns)
    with closing(connect()) as connection:
        parts = [Parts(connection, table.place, name=name) for name, table in (("before", first), ("after", second))]
        counts = Counts(first, parts[0], gold, None, target, include_poor=True)
        pair = _Pair(parts, counts, [first.folder, second.folder])
        least = max(5, pair.shared // 10_000) if least is None else least
        changes = tuple(pair.changes(least, top))
        about = {
            "models": [first.model, second.model], "folders": [first.folder, second.folder], "target": counts.target,
            "shared": pair.shared, "only": pair.only, "min_texts": least, "gold": gold, **pair.flipped(),
        }  # fmt: skip
        return CorpusComparison(changes, tuple(pair.flips()), about)


@final
class _Pair:
    """Two corpora in one database: the table `matched` has the numbers of the shared texts in both."""

    def __init__(self, parts: list[Parts], counts: Counts, folders: list[str]) -> None:
        self._parts, self._counts, self._run = parts, counts, parts[0].connection.execute
        texts, chosen = [], f"status = {literal(EXPLAINED)} AND target = {literal(counts.target)}"
        for name, corpus, folder in zip(("ids_before", "ids_after"), parts, folders, strict=True):
            self._run(f"CREATE TABLE {name}(id VARCHAR, number BIGINT)")
            if len(corpus):
                self._run(f"INSERT INTO {name} SELECT id, number FROM {corpus.source()} WHERE {chosen}")
            texts.append(self._count(name))
            most = f"SELECT id FROM {name} GROUP BY id HAVING count(*) > 1 ORDER BY count(*) DESC, id LIMIT 1"
            if twice := self._run(most).fetchone():
                raise InputError(f"ids must be unique to match texts; {twice[0]!r} occurs more than once in {folder!r}")
        self._run(
            "CREATE TABLE matched AS SELECT b.number, a.number AS other FROM ids_before b JOIN ids_after a USING (id);"
            " DROP TABLE ids_before; DROP TABLE ids_after"
        )
        self.shared = self._count("matched")
        self.only = [n - self.shared for n in texts]
        if not self.shared:
            raise InputError(
                f"{folders[0]!r} and {folders[1]!r} must have texts with equal ids, explained for {counts.target!r};"
                " they share none"
            )

    def _count(self, table: str) -> int:
        return int(self._run(f"SELECT count(*) FROM {table}").fetchone()[0])

    def _both(self, length: int, frequent: bool = False) -> str:
        """Return the observations that both have: number, key, effects y0 and y1."""
        before, after = (parts.source() for parts in self._parts)
        texts = (
            f"SELECT t.* FROM {before} t SEMI JOIN matched USING (number)",
            f"SELECT m.number, t.* EXCLUDE number FROM {after} t JOIN matched m ON t.number = m.other",
        )
        b, a = (queries.observations(queries.occurrences(query, length, frequent=frequent)) for query in texts)
        return f"SELECT number, key, b.y AS y0, a.y AS y1, b.place FROM ({b}) b JOIN ({a}) a USING (number, key)"

    def changes(self, least: int, top: int) -> Iterator[Change]:
        sums = {"s1": "y1 - y0", "s2": "(y1 - y0) ** 2", "b1": "y0", "b2": "y0 ** 2", "a1": "y1", "a2": "y1 ** 2"}
        columns = ", ".join(f"sum({what}) AS {name}" for name, what in sums.items())
        typed = ", ".join(f"{name} DOUBLE" for name in ("n", *sums))
        self._run(
            "CREATE TABLE frequent(key VARCHAR);"
            f"CREATE TABLE found(length INTEGER, key VARCHAR, {typed}, number BIGINT, place BIGINT);"
            "CREATE TABLE pieces(key VARCHAR, pieces VARCHAR[])"
        )
        for length in (*range(1, PHRASES + 1), 0):
            self._run(
                f"INSERT INTO found SELECT {length}, key, count(*), {columns}, min(number), arg_min(place, number)"
                f" FROM ({self._both(length, frequent=True)}) GROUP BY key HAVING count(*) >= {least};"
                f"INSERT INTO frequent SELECT key FROM found WHERE length = {length}"
            )
        self._run("CREATE TABLE totals AS SELECT row_number() OVER (ORDER BY length, key) - 1 AS id, * FROM found")
        selection = Selection(self._parts[0].connection, "effect", top)
        listed = selection.listed()
        rows = {
            key: row
            for key, *row in self._run(
                f"SELECT s.id, place, text, starts, ends, unit_words FROM {self._parts[0].source()} JOIN"
                " (SELECT id, number, place FROM totals WHERE id IN (SELECT unnest(?::BIGINT[]))) s USING (number)",
                [listed],
            ).fetchall()
        }
        for key in listed:
            name, of = selection.keys[key], {column: float(selection.sums[column][key]) for column in ("n", *sums)}
            effects = (effect_of(of["n"], of[f"{x}1"], of[f"{x}2"]) for x in "sba")
            yield Change(written(name, snippet(name, *rows[key])), kind_of(name), *effects)

    def _predictions(self, *columns: str) -> str:
        """Return the query of the shared texts with their predictions."""
        names = ", ".join(("b.number", "b.label AS label", "a.label AS new", "b.gold", *columns))
        before, after = (part.source() for part in self._parts)
        with_truth = f"(SELECT *, {self._counts.truth} AS gold FROM {before})"
        return f"SELECT {names} FROM matched m JOIN {with_truth} b ON b.number = m.number JOIN {after} a ON a.number = m.other"

    def flipped(self) -> dict[str, Any]:
        ways, right = Counter[tuple[str, str]](), Counter[str]()
        query = f"SELECT label, new, gold, count(*) FROM ({self._predictions()}) GROUP BY ALL ORDER BY ALL"
        for label, new, gold, n in self._run(query).fetchall():
            ways[label, new] += n if label != new else 0
            if gold is not None:
                right.update({"before": n * (label == gold), "after": n * (new == gold), "known": n})
        listed = [{"before": a, "after": b, "texts": n} for (a, b), n in (+ways).most_common()]
        accuracy = [right[when] / right["known"] for when in ("before", "after")] if right["known"] else None
        return {"flipped": ways.total(), "flips": listed, "accuracy": accuracy}

    def flips(self) -> Iterator[Flip]:
        """Yield the texts whose prediction flipped, largest change of the score first, with the words that moved it."""
        columns = ("b.id", "a.score - b.score AS change", f"left(b.text, {2 * _OPENING}) AS text")
        query = (
            f"SELECT * FROM ({self._predictions(*columns)}) WHERE label IS DISTINCT FROM new ORDER BY abs(change) DESC, number"
        )
        rows = self._run(f"{query} LIMIT {_FLIPS}").fetchall()
        self._run("DELETE FROM matched WHERE number NOT IN (SELECT unnest(?::BIGINT[]))", [[row[0] for row in rows]])
        words = defaultdict[int, list[WordChange]](list)
        query = f"SELECT number, key, y0, y1 FROM ({self._both(1)}) ORDER BY number, place"
        for number, *change_of_word in self._run(query).fetchall():
            words[number].append(WordChange(*change_of_word))
        for number, label, new, gold, name, change, text in rows:
            sign = 1.0 if change > 0 else -1.0
            moved = [word for word in words[number] if sign * (word.after - word.before) > 0]
            why = sorted(moved, key=lambda word: -abs(word.after - word.before))[:_WHY]
            opening = None if text is None else " ".join(text.split())[:_OPENING]
            yield Flip(number, name, label, new, gold, change, tuple(why), opening)
