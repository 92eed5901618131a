"""Reading texts and rows, writing results, and resuming files that are written line by line.

reviews.csv, .tsv, .jsonl, .json (each also .gz)     rows
anything else                                        text
"""

import csv
import gzip
import io
import json
import math
import os
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, final

from slalom.errors import InputError, closest

_TABLES = {".csv": ",", ".tsv": "\t"}
_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # how formulas begin in a spreadsheet; the last four are wide forms


def write_text(path: str | Path, content: str, *, append: bool = False) -> None:
    """Write a file in UTF-8, or append to it."""
    try:
        with Path(path).open("a" if append else "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"could not write {str(path)!r}: {error.strerror}; name a file in a folder that exists") from error


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV; None is an empty cell.

    A text that a spreadsheet would run as a formula gets an apostrophe, as in OWASP's advice on CSV injection.

    Example:
        >>> csv_text([["name", "mean"], ["=1+1", -0.5], ["-5", None]])
        "name,mean\\n'=1+1,-0.5\\n-5,\\n"
    """
    lines = []
    for row in rows:
        line = io.StringIO()
        csv.writer(line).writerow([_harmless(cell) for cell in row])  # with its own line ends it quotes "\r" in a cell
        lines.append(line.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) and not _is_number(cell) else cell


def read_complete_lines(path: Path) -> tuple[list[str], bytes]:
    """Return the complete lines of a file, and the bytes of a last line that an interruption has cut off."""
    if not path.exists():
        return [], b""
    *lines, partial = path.read_bytes().split(b"\n")  # the partial line may end within a character
    try:
        return [line.decode("utf-8", "surrogatepass") for line in lines], partial
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not a text file; name another file, or delete it") from error


def drop_partial_line(path: Path, partial: bytes) -> None:
    """Remove the partial last line that `read_complete_lines` has returned."""
    if partial:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(partial))


@final
class Unpacked(io.RawIOBase):
    """The content of a compressed file, which ends with an error where it is too long: a small file may unpack to terabytes.

    `by_line`: lines are read one by one, so that only the length of each is limited. SLALOM_MAX_UNPACKED is the limit.
    """

    def __init__(self, stream: Any, name: str, *, by_line: bool = False) -> None:
        self._stream, self._name, self._by_line, self._size, self._most = stream, name, by_line, 0, max_unpacked()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = int(self._stream.readinto(buffer))
        self._size += n
        if self._by_line and (end := bytes(buffer[:n]).rfind(b"\n")) >= 0:
            self._size = n - end - 1
        if self._size > self._most:
            long = f"{'has a line of' if self._by_line else 'unpacks to'} more than {self._most / 1e9:g} GB"
            raise InputError(f"{self._name!r} {long}; if that is right, set SLALOM_MAX_UNPACKED to more bytes")
        return n

    def close(self) -> None:
        super().close()
        self._stream.close()


def max_unpacked() -> float:
    """Return how many bytes a compressed file may hold."""
    most = os.environ.get("SLALOM_MAX_UNPACKED") or "1e9"
    if not _is_number(most) or not float(most) > 0:
        raise InputError(f"SLALOM_MAX_UNPACKED must be a number of bytes, such as 4e9; got {most!r}")
    return float(most)


def read_text(path: Path) -> str:
    """Return the content of a file in UTF-8, plain or compressed with gzip, with its newlines unchanged."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"could not read {str(path)!r}: {error.strerror}; name a file that exists") from error
    try:
        with file:
            content = Unpacked(gzip.GzipFile(fileobj=file), str(path)) if path.suffix.lower() == ".gz" else file
            return content.read().decode("utf-8-sig")
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"{str(path)!r} must be text in UTF-8, plain or compressed with gzip; {error}") from error


def read_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a CSV, TSV or JSON file; its suffix tells which it is."""
    kind = _kind(path)
    content = read_text(path)
    if kind not in _TABLES:
        yield from json_rows(content, repr(str(path)))
        return
    for row in table_rows(io.StringIO(content, newline=""), _TABLES[kind], str(path)):
        if isinstance(row, InputError):
            raise row
        yield row


def has_rows(path: Path) -> bool:
    """Return whether a file has rows, by its suffix."""
    return _kind(path) in (*_TABLES, ".jsonl", ".json", ".ndjson")


def _kind(path: Path) -> str:
    return next((suffix for suffix in reversed([s.lower() for s in path.suffixes]) if suffix != ".gz"), "")


def table_rows(lines: Iterable[str], delimiter: str, name: str) -> Iterator[Mapping[str, Any] | InputError]:
    """Yield the rows of a table with a header, cells beyond it under an empty name; an error in the place of a broken row."""
    csv.field_size_limit(int(min(max_unpacked(), 2**31 - 1)))  # the default limit is 128 kB per cell
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header, more = list[str](), True
    while more:
        first = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield InputError(f"line {first} of {name!r} must be a row of a table; {error}: are its quotation marks closed?")
            continue
        more = cells is not None
        if not header:
            header = cells or []
        elif cells:
            row: dict[str, Any] = dict(zip_longest(header, cells[: len(header)]))
            yield row | {"": cells[len(header) :]} if len(cells) > len(header) else row


def json_rows(content: str, source: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of JSON lines, or of a JSON list.

    Example:
        >>> list(json_rows('{"text": "good"}\\n{"text": "bad"}', "stdin"))
        [{'text': 'good'}, {'text': 'bad'}]
    """
    if content.lstrip().startswith("["):
        yield from _json_list(content, source)
        return
    for number, line in enumerate(io.StringIO(content, newline=""), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"line {number} of {source} must be a JSON object; {error}") from error
            if not isinstance(row, dict):
                raise InputError(f"line {number} of {source} must be a JSON object; got {line.strip()[:40]}")
            yield row


def looks_like_json_rows(content: str) -> bool:
    """Return whether content without a file name is JSON: lines of objects, or a list of them."""
    if re.match(r"\s*\[\s*\{", content):
        return True
    try:
        return isinstance(json.loads(next((line for line in content.split("\n") if line.strip()), "")), dict)
    except (ValueError, RecursionError):
        return False


def _json_list(content: str, source: str) -> Iterator[Mapping[str, Any]]:
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} must be a JSON list of objects; {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{source} must be a JSON list of objects")
    yield from rows


def texts_of(rows: Iterable[Mapping[str, Any]], column: str, source: str) -> list[str]:
    """Return the texts in one column of rows."""
    texts = []
    for number, row in enumerate(rows, start=1):
        if column not in row:
            names = [name for name in row if name]
            likely = [name for name in names if _is_words(row[name])]
            meant = closest(column, names) or (likely[0] if len(likely) == 1 else None)
            raise InputError(
                f'row {number} of {source} must have a field "{column}"; it has {", ".join(map(repr, names)) or "none"};'
                f" name the one with the texts: --column {'NAME' if meant is None else shlex.quote(meant)}"
            )
        if not isinstance(row[column], str):
            raise InputError(f'row {number} of {source} must have a text in its field "{column}"; it has {row[column]!r:.40}')
        texts.append(row[column])
    if not texts:
        raise InputError(f"{source} must have at least one row with a text; it is empty")
    return texts


def number_of(value: Any) -> float:
    """Return a value as a number, NaN where there is none; raises what `float` raises, also where it is infinite."""
    number = float("nan") if value is None or value == "" else float(value)
    return number if math.isnan(number) else int(number) if int(number) == number else number


def lines_of(content: str, source: str) -> list[str]:
    """Return the texts of content with one text per line; blank lines are skipped."""
    texts = [line for line in re.split(r"\r\n|\r|\n", content) if line.strip()]
    if not texts:
        raise InputError(f"{source} must have at least one line with a text; it is empty")
    return texts


def _is_words(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not _is_number(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
