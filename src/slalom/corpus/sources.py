"""Where the texts of a corpus come from, read as a stream.

Files (`slalom.corpus.files`), a dataset of Hugging Face, or any iterable of strings or mappings. Rows are numbered through all
files. Reading begins again at any number: Parquet files and datasets skip what is not needed, of other files the lines before
are passed over.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, final

from slalom.corpus.files import Broken, Files, RawRow, Source
from slalom.corpus.table import SourceRow
from slalom.errors import InputError, did_you_mean, one_line, require
from slalom.files import number_of
from slalom.text import Record
from slalom.text.record import Form

_ROWS = 1000  # of a dataset that are read at a time


@final
class Dataset(Source):
    """A dataset of Hugging Face, in memory-mapped files: hf:NAME, or a folder written by `save_to_disk`."""

    def __init__(self, address: str, split: str | None = None) -> None:
        with require("a dataset of Hugging Face", "all", "datasets"):
            import datasets  # noqa: PLC0415
        self.address, self.place = address, address if address.startswith("hf:") else str(Path(address).absolute())
        try:
            loaded = datasets.load_dataset(address[3:]) if address.startswith("hf:") else datasets.load_from_disk(address)
        except Exception as error:  # of any kind
            raise InputError(f"could not load the dataset {address!r}: {one_line(error)}") from error
        if isinstance(loaded, Mapping):
            if split is None and len(loaded) > 1:
                raise InputError(f"{address!r} has the splits {', '.join(loaded)}; choose one with --split NAME")
            name = next(iter(loaded)) if split is None else split
            if name not in loaded:
                raise InputError(
                    f"the split of {address!r} must be one of {', '.join(loaded)}; got {name!r}{did_you_mean(name, loaded)}"
                )
            loaded = loaded[name]
        self.dataset, self.split = loaded, split

    def fingerprint(self) -> dict[str, Any]:
        return {"kind": "dataset", "rows": len(self.dataset), "hash": self.dataset._fingerprint, "split": self.split}

    def count(self) -> int:
        return len(self.dataset)

    def records(self, first: int, columns: Sequence[str]) -> Iterator[RawRow]:
        chosen = self.dataset.select_columns([name for name in columns if name in self.dataset.column_names])
        labels = {name: part.int2str for name, part in chosen.features.items() if type(part).__name__ == "ClassLabel"}
        for start in range(first, len(chosen), _ROWS):
            for row in chosen.with_format("arrow")[start : start + _ROWS].to_pylist():
                yield row | {name: label(row[name]) for name, label in labels.items() if row[name] not in (None, -1)}


@final
class Rows(Source):
    """Any iterable of strings, which are texts, or of mappings. It is read again from its start where a run is continued."""

    address = place = "an iterable"
    verified = True

    def __init__(self, rows: Iterable[Any], text_column: str) -> None:
        self.rows, self.text_column = rows, text_column

    def fingerprint(self) -> dict[str, Any]:
        return {"kind": "iterable"}

    def count(self) -> int | None:
        return len(self.rows) if isinstance(self.rows, Sized) else None

    def records(self, first: int, columns: Sequence[str]) -> Iterator[RawRow]:
        for row in islice(self.rows, first, None):
            yield row if isinstance(row, Mapping) else {self.text_column: row}


class Fields(NamedTuple):
    """Which columns of a source are the fields of records: texts, then numbers."""

    columns: Sequence[str]
    numeric: Sequence[str]
    form: Form


class Columns(NamedTuple):
    """Which columns of a source are read: texts or fields, ids (default: the row's number), and those copied to the table."""

    text: str | Fields = "text"
    id: str | None = None
    keep: tuple[str, ...] = ()

    @property
    def fields(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else [*self.text.columns, *self.text.numeric]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.fields, *([] if self.id is None else [self.id]), *self.keep]))


def source_of(source: Any, text_column: str | Mapping[str, Any] = "text", split: str | None = None) -> Source:
    if not isinstance(source, str | Path):
        if not isinstance(source, Iterable):
            raise InputError(f"a source must be a path, hf:NAME or an iterable of texts; got {type(source).__name__}")
        return Rows(source, text_column if isinstance(text_column, str) else "text")
    is_saved = any((Path(source) / name).is_file() for name in ("dataset_info.json", "dataset_dict.json"))
    if str(source).startswith("hf:") or is_saved:
        return Dataset(str(source), split)
    if split is not None:
        raise InputError(f"--split is for a dataset of Hugging Face (hf:NAME); {str(source)!r} is none")
    return Files(str(source))


def rows_of(source: Source, columns: Columns, first: int = 0, limit: int | None = None) -> Iterator[SourceRow]:
    """Yield the rows of a source.

    A row without a text, or one that cannot be read, has an error; only where the very first row lacks a column the column must
    have a wrong name.
    """
    stop = None if limit is None else max(limit - first, 0)
    for number, record in enumerate(islice(source.records(first, columns.names), stop), first):
        if isinstance(record, Broken):
            yield SourceRow(number, str(number), None, dict.fromkeys(columns.keep), record.error)
            continue
        missing = [name for name in columns.names if name not in record]
        if missing and number == 0:
            have = ", ".join(repr(name) for name in record if name) or "none"
            several = "--column, --numeric or --pair" if len(columns.fields) > 1 else "--column"
            option = several if missing[0] in columns.fields else "--id-column or --keep"
            close = did_you_mean(missing[0], filter(None, record))
            raise InputError(
                f"{source.address!r} must have a column {missing[0]!r}; it has {have}; name another with {option}{close}"
            )
        text, error = _example_of(record, columns.text)
        name = None if columns.id is None else _as_text(record.get(columns.id))
        given = {name: _as_text(record.get(name)) for name in columns.keep}
        yield SourceRow(number, str(number) if name is None else name, text, given, error)


def _example_of(row: Mapping[str, Any], columns: str | Fields) -> tuple[Any, str | None]:
    """Return the text or the record of a row, or what is there instead of it and the error."""
    if isinstance(columns, str):
        return _text_of(row.get(columns), columns)
    cells = {name: _text_of(row.get(name), name) for name in columns.columns}
    cells |= {name: _number_of(row.get(name), name) for name in columns.numeric}
    values = {name: value for name, (value, _) in cells.items()}
    error = next((error for _, error in cells.values() if error is not None), None)
    return Record(values, columns.form) if error is None else values, error


def _number_of(value: Any, column: str) -> tuple[Any, str | None]:
    try:
        return number_of(value), None
    except (TypeError, ValueError, OverflowError):
        return value, f"the column {column!r} must hold a number; it holds {value!r:.40}"


def _text_of(text: Any, column: str) -> tuple[Any, str | None]:
    if isinstance(text, bytes):  # a Parquet file may declare strings as bytes
        try:
            return text.decode("utf-8"), None
        except UnicodeDecodeError as reason:
            return None, f"the column {column!r} must hold text in UTF-8; {reason}"
    if isinstance(text, str):
        return text, None
    kind = "no text (a missing value)" if text is None or text != text else type(text).__name__  # noqa: PLR0124
    return text, f"the column {column!r} must hold a string; it holds {kind}"


def digest(rows: Iterable[SourceRow]) -> str:
    """Return a digest of numbers, ids and texts, and of the columns that are kept."""
    hashed = blake2b(digest_size=16)
    for row in rows:
        example = row.text.example() if isinstance(row.text, Record) else row.text
        content = repr((row.number, row.id, example, sorted(row.given.items()), row.error is None))
        hashed.update(content.encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def _as_text(value: Any) -> str | None:
    """Return a value as text: a string as it is, numbers, truth values, lists and mappings as JSON, others as they print."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    plain = isinstance(value, bool | int | float | list | tuple | dict)
    return json.dumps(value, ensure_ascii=False, default=str) if plain else str(value)
