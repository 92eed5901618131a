"""Files as users have them: texts and rows to read, results to write, and lines that an interruption may have cut off.

reviews.csv, .tsv, .jsonl, .json (each also .gz)     rows
anything else                                        text
"""

import csv
import gzip
import io
import json
import shlex
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slalom.errors import InputError

_TABLES = {".csv": ",", ".tsv": "\t"}


def write_text(path: str | Path, content: str, *, append: bool = False) -> None:
    """Write a file, or add to its end; InputError where that is not possible."""
    try:
        with Path(path).open("a" if append else "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"could not write {str(path)!r}: {error.strerror}; name a file in a folder that exists") from error


def begun_lines(path: Path) -> tuple[list[str], bytes]:
    """Return the whole lines of a file that is written line by line, and what an interruption has left of the last one."""
    if not path.exists():
        return [], b""
    *whole, rest = path.read_bytes().split(b"\n")  # the rest may end within a character
    try:
        return [line.decode("utf-8", "surrogatepass") for line in whole], rest
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} holds something else than text; name another file, or delete it") from error


def drop_rest(path: Path, rest: bytes) -> None:
    """Take away what is left of a line that was cut off."""
    if rest:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(rest))


def read_text(path: Path) -> str:
    """Return a text file in UTF-8, plain or compressed with gzip; newlines stay as they are."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"could not read {str(path)!r}: {error.strerror}; name a file that exists") from error
    try:
        return (gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw).decode("utf-8-sig")
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"{str(path)!r} must be text in UTF-8, plain or compressed with gzip; {error}") from error


def read_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Give the rows of a CSV, TSV or JSON file, by the name of the file."""
    kind = _kind(path)
    content = read_text(path)
    if kind not in _TABLES:
        yield from json_rows(content, repr(str(path)))
        return
    try:
        yield from _table(io.StringIO(content, newline=""), kind)
    except csv.Error as error:
        raise InputError(f"{str(path)!r} must be a table of texts; {error}") from error


def has_rows(path: Path) -> bool:
    """Whether a file has rows, by its name."""
    return _kind(path) in (*_TABLES, ".jsonl", ".json", ".ndjson")


def _kind(path: Path) -> str:
    return next((suffix for suffix in reversed([s.lower() for s in path.suffixes]) if suffix != ".gz"), "")


def _table(lines: Iterable[str], kind: str) -> Iterator[Mapping[str, Any]]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a text may be long
    yield from csv.DictReader(lines, delimiter=_TABLES[kind], restkey="")  # cells without a name


def json_rows(content: str, where: str) -> Iterator[Mapping[str, Any]]:
    """Give the objects of a text that has one a line, or one list of them; `where` names it in errors."""
    if content.lstrip().startswith("["):
        yield from _listed(content, where)
        return
    for number, line in enumerate(io.StringIO(content, newline=""), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"line {number} of {where} must be a JSON object; {error}") from error
            if not isinstance(row, dict):
                raise InputError(f"line {number} of {where} must be a JSON object; got {line.strip()[:40]}")
            yield row


def _listed(content: str, where: str) -> Iterator[Mapping[str, Any]]:
    try:
        rows = json.loads(content)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} must be a JSON list of objects; {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{where} must be a JSON list of objects")
    yield from rows


def texts_of(rows: Iterable[Mapping[str, Any]], column: str, where: str, option: str = "--column") -> list[str]:
    """Return the texts in one column of rows.

    Args:
        rows: The rows, as `read_rows` gives them.
        column: The name of the column.
        where: The name of the file, for errors.
        option: What names another column, for errors.

    Raises:
        InputError: Where a row has no such column or no text in it, or there is no row.
    """
    texts = []
    for number, row in enumerate(rows, start=1):
        if column not in row:
            names = [name for name in row if name]
            likely = [name for name in names if _is_words(row[name])]
            advice = f"{option} {shlex.quote(likely[0]) if len(likely) == 1 else 'NAME'}"
            raise InputError(
                f'row {number} of {where} must have a field "{column}"; it has {", ".join(map(repr, names)) or "none"};'
                f" name the one with the texts: {advice}"
            )
        if not isinstance(row[column], str):
            raise InputError(f'row {number} of {where} must have a text in its field "{column}"; it has {row[column]!r:.40}')
        texts.append(row[column])
    if not texts:
        raise InputError(f"{where} must have at least one row with a text; it is empty")
    return texts


def _is_words(value: Any) -> bool:
    """Whether a value is a string other than a number."""
    if not isinstance(value, str) or not value.strip():
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False
