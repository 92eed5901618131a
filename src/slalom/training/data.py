"""Labelled texts, from a file or from a data set by its name.

    reviews.csv, .tsv, .jsonl, .json (each also .gz)     rows with a column of texts and one of labels
    anything else                                        a data set that the `datasets` library knows

Labels may be numbers or words; they become 0, 1, ... in sorted order, and `names` says what each was.
"""

import csv
import gzip
import hashlib
import io
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.errors import InputError, MissingExtra

_TABLES = {".csv": ",", ".tsv": "\t"}
ROWS = (*_TABLES, ".jsonl", ".json", ".ndjson")  # how files with rows end


@final
@dataclass(frozen=True, eq=False)
class Labelled:
    """Texts with a label (m,) each, numbers into `names`. source: where they are from. skipped: rows without text or label."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    source: str
    skipped: int = 0

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.texts)

    def __getitem__(self, rows: NDArray[Any]) -> "Labelled":
        """Return some of the texts, by their numbers or by a mask."""
        chosen = np.arange(len(self))[rows]
        return Labelled(tuple(self.texts[i] for i in chosen), self.labels[chosen], self.names, self.source)

    def named(self, names: Sequence[str]) -> "Labelled":
        """Return the same texts with labels counted in the order of these names, which must include all that occur.

        >>> Labelled(("a", "b"), np.array([0, 1]), ("no", "yes"), "here").named(["yes", "no"]).labels.tolist()
        [1, 0]
        """
        missing = [self.names[i] for i in np.unique(self.labels) if self.names[i] not in names]
        if missing:
            raise InputError(f"labels in {self.source} must be among {', '.join(names)}; it also has {', '.join(missing[:5])}")
        order = np.array([list(names).index(name) if name in names else -1 for name in self.names])
        return Labelled(self.texts, order[self.labels], tuple(names), self.source, self.skipped)

    def fingerprint(self) -> str:
        """Return a short name that is another one for other data."""
        digest = hashlib.sha256(repr(self.names).encode())
        for text, label in zip(self.texts, self.labels.tolist(), strict=True):
            digest.update(f"{label} {len(text)} {text}".encode(errors="surrogatepass"))
        return digest.hexdigest()[:16]


def read_labelled(source: str | Path, *, text: str = "text", label: str = "label", split: str = "train") -> Labelled:
    """Return the labelled texts of a file, or of a data set by its name (then of one split of it).

    text, label: names of the two columns.
    """
    path = Path(source)
    if _kind(path) in ROWS:
        rows = read_rows(path)
    elif path.is_file():
        raise InputError(
            f"data must be a .csv, .tsv, .jsonl or .json file (also .gz), or the name of a data set; got {str(path)!r}"
        )
    else:
        rows = _rows_of_dataset(str(source), split)
    return _labelled(rows, text, label, str(source))


def _labelled(rows: Iterable[Mapping[str, Any]], text: str, label: str, source: str) -> Labelled:
    texts: list[str] = []
    given: list[str | int] = []
    skipped = 0
    for number, row in enumerate(rows, start=1):
        for column in (text, label):
            if column not in row:
                raise InputError(
                    f"row {number} of {source} has no column {column!r}; it has {', '.join(map(repr, row))};"
                    " name the columns of texts and labels"
                )
        words, name = row[text], row[label]
        if name is None or name == "" or not isinstance(words, str) or not words.strip():
            skipped += 1
            continue
        if not isinstance(name, (str, int, float)) or (isinstance(name, float) and not name.is_integer()):
            raise InputError(f"labels must be words or whole numbers; row {number} of {source} has {name!r}")
        texts.append(words)
        given.append(int(name) if isinstance(name, (bool, float)) else name)
    if not texts:
        raise InputError(f"{source} must have at least one row with a text and a label; all {skipped} rows lack one of them")
    as_number = {name: int(name) for name in set(given) if re.fullmatch(r"-?[0-9]+", str(name))}
    distinct = set(given)
    ordered = (
        sorted(distinct, key=lambda name: as_number[name]) if len(as_number) == len(distinct) else sorted(map(str, distinct))
    )
    names = tuple(dict.fromkeys(map(str, ordered)))
    number_of = {name: i for i, name in enumerate(names)}
    labels = np.array([number_of[str(name)] for name in given], dtype=np.int64)
    return Labelled(tuple(texts), labels, names, source, skipped)


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
    lines = io.StringIO(read_text(path), newline="")
    if kind not in _TABLES:
        yield from _objects(lines, path)
        return
    try:
        yield from _table(lines, kind)
    except csv.Error as error:
        raise InputError(f"{str(path)!r} must be a table of texts; {error}") from error


def _kind(path: Path) -> str:
    return next((suffix for suffix in reversed([s.lower() for s in path.suffixes]) if suffix != ".gz"), "")


def _table(lines: Iterable[str], kind: str) -> Iterator[Mapping[str, Any]]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a text may be long
    yield from csv.DictReader(lines, delimiter=_TABLES[kind])


def _objects(lines: Iterable[str], path: Path) -> Iterator[Mapping[str, Any]]:
    """Give the objects of a file that has one a line, or one list of them."""
    number = 0
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.lstrip().startswith("["):
            yield from _listed(line + "".join(lines), path)
            return
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"line {number} of {str(path)!r} must be a JSON object; {error}") from error
            if not isinstance(row, dict):
                raise InputError(f"line {number} of {str(path)!r} must be a JSON object; got {line.strip()[:40]}")
            yield row


def _listed(content: str, path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        rows = json.loads(content)
    except json.JSONDecodeError as error:
        raise InputError(f"{str(path)!r} must be a JSON list of objects; {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{str(path)!r} must be a JSON list of objects")
    yield from rows


def _rows_of_dataset(name: str, split: str) -> Iterator[Mapping[str, Any]]:
    try:
        import datasets  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra(
            f"there is no file {name!r}, and data sets by name need: pip install 'slalom[all]' (the package datasets)"
        ) from error
    try:
        found = datasets.load_dataset(name, split=split)
    except Exception as error:  # every loader raises what it likes
        reason = str(error).strip().split("\n")[0]
        raise InputError(
            f"{name!r} is neither a file nor a data set with the split {split!r} that could be loaded: {reason}"
        ) from error
    names = {column: feature.names for column, feature in found.features.items() if isinstance(feature, datasets.ClassLabel)}
    for row in found:
        yield {c: names[c][v] if c in names and isinstance(v, int) and v >= 0 else v for c, v in row.items()}
