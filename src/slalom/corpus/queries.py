"""The SQL of summaries, comparisons and searches over the Parquet parts of a corpus, by DuckDB.

    texts         rows of the table that are summarised, with their cell: predicted label, true label, slice
    occurrences   a word, phrase or piece at a place of a text, with its effect there
    observations  one row per text and key: its mean effect there; texts are the sampling units
    sums          observations added up by key and cell

A *key* names a word, a phrase or a piece: the words of a phrase are joined by `BETWEEN`, a piece begins with `PIECE`. Both are
control characters, which no word contains, as a word like "<br />" may contain a blank. A piece is a unit of a word that has
several: "un-", "-able".
"""

import tempfile
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Any, final
from uuid import uuid4

from slalom.corpus.folder import Folder, part_file, part_name
from slalom.corpus.results import Kind
from slalom.corpus.table import EXPLAINED, GIVEN, LONGEST, phrase_column
from slalom.errors import InputError, one_line, require
from slalom.result.fidelity import NEGLIGIBLE

MEMORY = "1.2GB"  # of DuckDB; what does not fit is written to a temporary folder
PIECE, BETWEEN = "\x1e", "\x1f"
POOR_R2 = 0.0  # a held-out R2 near the text below which a text is poorly explained: the mean answer predicts better
POOR = f"coalesce(near_r2 < {POOR_R2} AND near_mse > {NEGLIGIBLE**2}, false)"
_PIECE, _BETWEEN = "chr(30)", "chr(31)"
_SUMS = ("n", "s1", "s2", "times", "top", "positive", "negative")
_ADDED = ", ".join(f"sum({name}) AS {name}" for name in _SUMS)

TABLES = f"""
CREATE TABLE frequent(key VARCHAR);
CREATE TABLE seen(number BIGINT, id BIGINT, cell INTEGER, y DOUBLE, place INTEGER);
CREATE TABLE pieces(key VARCHAR, pieces VARCHAR[]);
CREATE TABLE partial(key VARCHAR, cell INTEGER, {", ".join(f"{name} DOUBLE" for name in _SUMS)});
CREATE TABLE by_cell(length INTEGER, key VARCHAR, cell INTEGER, {", ".join(f"{name} DOUBLE" for name in _SUMS)});
"""
TOTALS = f"""
CREATE TABLE totals AS SELECT row_number() OVER (ORDER BY length, key) - 1 AS id, *
    FROM (SELECT length, key, {_ADDED} FROM by_cell GROUP BY length, key);
CREATE TABLE sums AS SELECT id, cell, c.n, c.s1, c.s2 FROM by_cell c JOIN totals USING (key);
DROP TABLE by_cell; DROP TABLE partial; DROP TABLE frequent;
"""


def kind_of(key: str) -> Kind:
    return "piece" if key.startswith(PIECE) else "phrase" if BETWEEN in key else "word"


def ask(folder: Folder, query: str) -> Any:
    connection = connect()
    import duckdb  # noqa: PLC0415

    phrases = " UNION ALL ".join(
        f"SELECT number, place, {n} AS length, {_joined(1, n, literal(' '))} AS phrase, effect"
        f" FROM ({_unnested('texts', n)}) WHERE w{n} IS NOT NULL"
        for n in range(2, LONGEST + 1)
    )
    connection.execute(
        f"CREATE VIEW texts AS SELECT * FROM {Parts(connection, folder).source()};"
        "CREATE VIEW units AS SELECT number, unnest(range(n_units)) AS place, unnest(units) AS unit,"
        " unnest(removal) AS removal, unnest(removal_se) AS removal_se FROM texts;"
        f"CREATE VIEW words AS SELECT number, place, w1 AS word, effect FROM ({_unnested('texts', 1)});"
        f"CREATE VIEW phrases AS {phrases}"
    )
    try:
        return connection.sql(query)
    except duckdb.Error as error:
        raise InputError(f"DuckDB refuses the query: {one_line(error, 400)}") from error


def truth(labels: Sequence[str], gold: str | None) -> str:
    """Return the model's label of the true label of a row, which may be its index; null where it is neither."""
    known, given = f"[{', '.join(map(literal, labels))}]", _given(gold)
    index = f"try_cast(regexp_extract({given}, '^([0-9]{{1,9}})(\\.0)?$', 1) AS INTEGER)"
    return "NULL" if gold is None else f"if(list_contains({known}, {given}), {given}, {known}[{index} + 1])"


def facts(source: str, truth: str, slices: str | None) -> str:
    """Return the query of how many rows and units there are by status, target, label, true label, slice and quality."""
    return (
        f"SELECT status, target, label, {truth} AS gold, {_given(slices)} AS slice, {POOR} AS poor, count(*),"
        f" coalesce(sum(n_units), 0)::BIGINT FROM {source} GROUP BY ALL ORDER BY ALL"
    )


def texts(source: str, truth: str, slices: str | None, lengths: Sequence[int], strongest: int, poor: bool) -> str:
    """Return the rows that are summarised, those of the table `cells`, with the effect of the last of the strongest words.

    That is found before lists are unnested: after it, DuckDB would sort the list once per word.
    """
    of_pieces = "list_filter(removal, lambda x, i: coalesce(unit_words[i] IN (unit_words[i - 1], unit_words[i + 1]), false))"
    bars = ", ".join(
        f"coalesce(list_reverse_sort(list_transform({effects}, lambda x: abs(x)))[{strongest}], 0) AS bar_{n}"
        for n, effects in ((n, _column(n) if n else of_pieces) for n in lengths)
    )
    columns = dict.fromkeys(["words", "unit_words", "units", *map(_column, lengths)])
    good = "" if poor else f" AND NOT {POOR}"
    return (
        f"SELECT t.number, t.id, c.cell, {', '.join(f't.{column}' for column in columns)}, {bars} FROM {source} t JOIN cells c"
        f" ON t.target = c.target AND t.label IS NOT DISTINCT FROM c.label AND {truth} IS NOT DISTINCT FROM c.gold AND"
        f" {_given(slices)} IS NOT DISTINCT FROM c.slice WHERE status = {literal(EXPLAINED)}{good}"
    )


def occurrences(source: str, length: int, columns: str = "", frequent: bool = False) -> str:
    """Return the words (1), phrases of some words (2, ...) or pieces (0): number, place, key, effect, and more columns.

    With `frequent` only phrases whose first and last words are in the table `frequent`: others are not frequent either.
    """
    if length == 0:
        name = f"{_PIECE} || if(before = word, '-', '') || lower(unit) || if(after = word, '-', '')"
        lists = "unnest(unit_words) AS word, unnest(list_prepend(NULL, unit_words)) AS before, unnest(unit_words[2:]) AS after"
        units = "unnest(range(len(units))) AS place, unnest(units) AS unit, unnest(removal) AS effect"
        inside = f"SELECT number{columns}, {lists}, {units} FROM ({source})"
        return (
            f"SELECT number{columns}, place, word, {name} AS key, effect FROM ({inside}) WHERE (before = word OR after = word)"
        )
    where = f"w{length} IS NOT NULL"
    if frequent and length > 1:
        where += "".join(f" AND {_joined(*ends)} IN (FROM frequent)" for ends in ((1, length - 1), (2, length)))
    inside = _unnested(f"({source})", length, columns)
    return f"SELECT number{columns}, place, {_joined(1, length)} AS key, effect FROM ({inside}) WHERE {where}"


def observations(found: str, columns: str = "") -> str:
    """Return one row per text and key: mean effect, occurrences, the place of the strongest one, and more columns."""
    return (
        f"SELECT number, key{columns}, avg(effect) AS y, count(*) AS times, arg_max(place, abs(effect)) AS place"
        f" FROM ({found}) GROUP BY number, key"
    )


def summed(source: str, length: int) -> str:
    """Return the observations of the frequent keys of a length, added up by key and cell."""
    columns = f", any_value(cell) AS cell, max(abs(effect)) >= any_value(bar_{length}) AS top"
    found = observations(occurrences(source, length, f", cell, bar_{length}", frequent=True), columns)
    return (
        "SELECT key, cell, count(*), sum(y), sum(y * y), sum(times), count(*) FILTER (top), count(*) FILTER (y > 0),"
        f" count(*) FILTER (y < 0) FROM ({found}) GROUP BY key, cell"
    )


def split_words(source: str) -> str:
    """Return the statement that notes the pieces of frequent words: those of one text."""
    words = f"SELECT key, min(number) AS number, arg_min(place, number) AS place FROM ({occurrences(source, 1)}) GROUP BY key"
    return (
        f"INSERT INTO pieces SELECT w.key, list(p.key ORDER BY p.place) FROM ({occurrences(source, 0)}) p"
        f" JOIN (SELECT * FROM ({words}) SEMI JOIN frequent USING (key)) w ON w.number = p.number AND w.place = p.word"
        " GROUP BY w.key"
    )


def frequent(length: int, least: int) -> str:
    """Return the statements that keep the keys in enough texts."""
    return (
        f"INSERT INTO frequent SELECT key FROM partial GROUP BY key HAVING sum(n) >= {least};"
        f"INSERT INTO by_cell SELECT {length}, key, cell, {_ADDED} FROM partial SEMI JOIN frequent USING (key)"
        " GROUP BY key, cell; TRUNCATE partial"
    )


def seen(source: str, length: int) -> str:
    """Return the observations of the keys of a length in the table `wanted`, with their ids."""
    first = f" AND w1 IN (SELECT split_part(key, {_BETWEEN}, 1) FROM wanted WHERE length > 1)" if length > 1 else ""
    found = (
        f"SELECT number, key, cell, place, effect FROM ({occurrences(source, length, ', cell')}{first})"
        " SEMI JOIN wanted USING (key)"
    )
    return (
        f"SELECT number, id, cell, y, place FROM ({observations(found, ', any_value(cell) AS cell')}) JOIN wanted USING (key)"
    )


def drawn(sample: int) -> str:
    """Return a sample of the effects of each key in `seen` that does not depend on the order of the rows."""
    order = "row_number() OVER (PARTITION BY id ORDER BY hash(number, id), number)"
    return f"SELECT id, y, cell FROM seen QUALIFY {order} <= {sample} ORDER BY id, number"


def example_texts(source: str, most: int) -> str:
    """Return the strongest texts of the keys in `shown`, in both directions."""
    strongest = (
        "SELECT id, y * sign > 0 AS usual, number, y, place, cell FROM seen JOIN shown USING (id)"
        " WHERE y * sign != 0 OR sign = 1"
        f" QUALIFY row_number() OVER (PARTITION BY id, y * sign > 0 ORDER BY abs(y) DESC, number) <= {most}"
    )
    return (
        f"SELECT s.id, usual, number, y, place, cell, t.id, text, starts, ends, unit_words FROM ({strongest}) s"
        f" JOIN {source} t USING (number) ORDER BY s.id, usual, abs(y) DESC, number"
    )


def _unnested(source: str, length: int, columns: str = "") -> str:
    """Return one row per place of a text: the words from there on (null behind the end), and the effect of the phrase."""
    words = ", ".join(f"lower(unnest(words[{i}:])) AS w{i}" for i in range(1, length + 1))
    places = f"unnest(range(len(words))) AS place, {words}, unnest({_column(length)}) AS effect"
    return f"SELECT number{columns}, {places} FROM {source}"


def _joined(first: int, last: int, between: str = _BETWEEN) -> str:
    return f" || {between} || ".join(f"w{i}" for i in range(first, last + 1))


def _column(length: int) -> str:
    return "removal" if length == 0 else phrase_column(length)


def _given(name: str | None) -> str:
    return "NULL" if name is None else identifier(GIVEN + name)


def connect() -> Any:
    with require("a query over a corpus", "corpus", "duckdb"):
        import duckdb  # noqa: PLC0415
    spilled = Path(tempfile.gettempdir()) / f"slalom-duckdb-{uuid4().hex[:12]}"
    settings = {"memory_limit": MEMORY, "temp_directory": str(spilled), "preserve_insertion_order": "false"}
    return duckdb.connect(config={**settings, "autoinstall_known_extensions": "false"})


@final
class Parts:
    """Some parts of a corpus (default: those that are there now) as a table of DuckDB, which has a name of its own.

    DuckDB itself reads local parts, and remote ones through the file system of pyarrow that has written them. All are verified.
    """

    def __init__(self, connection: Any, folder: Folder, numbers: Sequence[int] | None = None, name: str = "parts") -> None:
        self.connection, self._folder, self._name = connection, folder, name
        self._numbers, self._rows = folder.parts() if numbers is None else numbers, 0
        for number in self._numbers:
            with part_file(folder, number) as file:
                self._rows += file.metadata.num_rows

    def __len__(self) -> int:
        return self._rows

    def source(self) -> str:
        """Return what stands after FROM to read the parts."""
        names = [part_name(number) for number in self._numbers]
        if self._folder.is_local:
            return f"read_parquet([{', '.join(literal(escape(self._folder.path(name))) for name in names)}])"
        from pyarrow.dataset import dataset  # noqa: PLC0415

        self.connection.register(self._name, dataset([self._folder.at(name) for name in names], filesystem=self._folder.files))
        return self._name


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
