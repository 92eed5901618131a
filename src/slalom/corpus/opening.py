"""Opening a corpus: its manifest, its rows in batches, and whole explanations where they were kept."""

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from operator import index
from pathlib import Path
from typing import Any, final

from slalom.corpus.folder import MANIFEST, Folder, part_file, part_name
from slalom.corpus.table import EXPLAINED, GIVEN, part_facts
from slalom.errors import InputError, count, one_line
from slalom.result import Explanation

FORMAT, VERSION = "slalom corpus", 3
DESCRIBED = ("model", "options", "slalom")  # by a worker
SETTINGS = ("source", "text_column", "id_column", "keep", "text", "full", "part_size", "limit")
_TEXTS = 1000  # per batch
_NAMED = 10  # columns in an error


@final
class Corpus:
    """The explanations of many texts, in a folder: what `slalom corpus run` writes.

    A run may be under way: a part is there whole or not at all. Nothing is kept in memory.

    Attributes:
        place: The folder.
        manifest: The model, the options and the source.
    """

    def __init__(self, folder: Folder, manifest: dict[str, Any]) -> None:
        self.place, self.manifest = folder, manifest

    @property
    def folder(self) -> str:
        """Path or address of the folder."""
        return self.place.address

    @property
    def model(self) -> str:
        """Name of the model."""
        return str(self.manifest["model"]["name"])

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the model's classes."""
        return tuple(self.manifest["model"]["labels"])

    @property
    def numbers(self) -> list[int]:
        """Numbers of the parts that are there now. Part k holds the texts from k * part_size on."""
        return self.place.parts()

    @property
    def parts(self) -> list[str]:
        """Paths or addresses of the parts that are there now, in order."""
        return [self.place.path(part_name(number)) for number in self.numbers]

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the first part; empty where there is none yet."""
        for number in self.numbers[:1]:
            with part_file(self.place, number) as file:
                return list(file.schema_arrow.names)
        return []

    def __len__(self) -> int:
        if not (numbers := self.numbers):
            return 0
        *others, last = numbers  # all but the last part have the same size
        return len(others) * int(self.manifest["part_size"]) + int(self.facts(last)["rows"])

    def facts(self, number: int) -> dict[str, Any]:
        """Return the number of rows of a part, and of texts by status."""
        with part_file(self.place, number) as file:
            return part_facts(file)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows in order, as pyarrow record batches of at most 1000 texts.

        Args:
            columns: Names of the columns to read; others cost nothing. Default: all.

        Raises:
            InputError: There is no such column, or a part is damaged.
        """
        for number in self.numbers:
            with part_file(self.place, number) as file:
                check_columns(columns or (), file.schema_arrow.names)
                yield from file.iter_batches(_TEXTS, columns=None if columns is None else list(columns))

    def sql(self, query: str) -> Any:
        """Ask a question of your own in SQL, by DuckDB.

        Args:
            query: A query over the views `texts` (the table), `units` (number, place, unit, removal, removal_se), `words`
                (number, place, word, effect) and `phrases` (number, place, length, phrase, effect). Words and phrases are in
                lower case; `number` joins them with `texts`.

        Returns:
            A relation of DuckDB: `fetchall()`, `df()`, `write_csv(path)`; None where the statement returns nothing.

        Raises:
            InputError: A part is damaged, or DuckDB refuses the query.
            MissingExtra: duckdb is not installed.
        """
        from slalom.corpus.queries import ask  # noqa: PLC0415

        return ask(self.place, query)

    def __getitem__(self, number: int) -> Explanation:
        """Return the whole explanation of a text."""
        try:
            number = index(number)
        except TypeError as error:
            raise InputError(f"a text is named by its number, from 0; got {number!r}; batches() reads many") from error
        if not self.manifest["full"]:
            raise InputError(f"{self.folder!r} has no whole explanations; run again with --full (full=True)")
        part, place = divmod(number, int(self.manifest["part_size"]))
        rows = []
        if part in self.numbers:
            with part_file(self.place, part) as file:
                rows = file.read(["status", "error", "explanation"]).slice(place, 1).to_pylist()
        if not rows:
            texts = count(len(self), "text")
            raise IndexError(f"text {number} is not in {self.folder!r}, which has {texts}; numbers begin with 0")
        if rows[0]["status"] != EXPLAINED:
            raise InputError(f"text {number} was not explained ({rows[0]['status']}): {rows[0]['error']}")
        return Explanation.from_dict(json.loads(rows[0]["explanation"]))

    def __repr__(self) -> str:
        return f"Corpus {self.folder!r}: {count(len(self), 'text')} in {count(len(self.numbers), 'part')}, {self.model}"


def open(path: str | Path) -> Corpus:  # noqa: A001
    """Open a folder that `slalom corpus run` has written, or is writing.

    Args:
        path: The folder, or an address such as s3://bucket/corpus.

    Raises:
        InputError: It is something else.
        MissingExtra: pyarrow is not installed.
    """
    folder = Folder(path)
    return Corpus(folder, read_manifest(folder))


def read_manifest(folder: Folder) -> dict[str, Any]:
    """Return the manifest of a corpus."""
    content = folder.read(MANIFEST)
    if content is None:
        raise InputError(f"{folder.address!r} must be a folder that slalom corpus run has written; it has no {MANIFEST}")
    try:
        manifest = dict(json.loads(content))
        version = manifest["format"], manifest["version"]
        missing = [name for name in (*DESCRIBED, *SETTINGS, "command") if name not in manifest]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder.path(MANIFEST)!r} is not a manifest of a corpus: {one_line(error)}") from error
    if version != (FORMAT, VERSION):
        raise InputError(
            f"{folder.path(MANIFEST)!r} has format {version}; this slalom reads {(FORMAT, VERSION)};"
            " update slalom, or explain the texts again in another folder"
        )
    if missing:
        raise InputError(f"{folder.path(MANIFEST)!r} is not a manifest of a corpus: it lacks {missing[0]!r}")
    return manifest


def check_columns(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Check that a table has some columns; the error names the likeliest ones first."""
    missing = next((name for name in wanted if name not in names), None)
    if missing is None:
        return
    what, advice = f"have the column {missing!r}; it has", "name one of these"
    if missing.startswith(GIVEN):  # of the source
        missing = missing.removeprefix(GIVEN)
        names = [column.removeprefix(GIVEN) for column in names if column.startswith(GIVEN)]
        what = f"have kept the column {missing!r} of its source; it has kept"
        advice += ", or keep it with slalom corpus run --keep NAME"
    shown = get_close_matches(missing, names, n=_NAMED, cutoff=0.0)
    more = len(names) - len(shown)
    listed = ", ".join(map(repr, shown)) + (f" and {more} more" if more else "") or "none"
    raise InputError(f"the corpus must {what} {listed}; {advice}")
