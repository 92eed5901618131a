"""The interface of sources, and files as one: local or remote, compressed, of several kinds, in the order of their names.

Rows are skipped unparsed; a file that is damaged, or has changed since it was opened, is an error that names it.
"""

import csv
import gzip
import io
import json
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, final

from slalom.corpus.folder import Folder, file_system
from slalom.errors import InputError, one_line
from slalom.files import Unpacked, table_rows

_TABLES = {".csv": ",", ".tsv": "\t"}
_LINES = (".jsonl", ".ndjson")
_SUFFIXES = (*_TABLES, *_LINES, ".txt", ".parquet")
_COMPRESSED = (".gz", ".zst")
_HASHED = 1 << 30  # bytes of all files that a fingerprint reads
_LEAST_HASHED = 1 << 22  # of one file
_BLOCK = 1 << 20
_LISTED = 1000  # files with a fingerprint of their own
_BUFFER = 1 << 20
_COUNTED = 1 << 25  # bytes of files whose rows are counted before they are read
_ROWS = 1000  # of a Parquet file that are read at a time
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of other bytes


class Broken(NamedTuple):
    """A row that could not be read, and why; the others can."""

    error: str


RawRow = Mapping[str, Any] | Broken


class Source(ABC):
    """A stream of rows that begins at any number."""

    address: str  # as the user gave it, for messages
    place: str  # the same for the manifest: an absolute path
    verified = False  # whether rows must be read again to tell whether the source is still the same

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return plain data that differ where the content differs."""

    @abstractmethod
    def records(self, first: int, columns: Sequence[str]) -> Iterator[RawRow]:
        """Yield the rows from one number on."""

    def count(self) -> int | None:
        return None

    def share(self) -> float | None:
        return None

    def encloses(self, folder: Folder) -> bool:
        """Return whether the source would read the files of a folder, as it lies within the source."""
        return False

    def changed(self) -> bool:
        """Return whether the content is known to be another than when the source was opened."""
        return False


@final
class Files(Source):
    """Files with rows: one, or those of a folder; local, or on a remote file system."""

    def __init__(self, address: str) -> None:
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415

        self.address = address
        self._system, self._root = file_system(address.removeprefix("file://"))
        try:
            info = self._system.get_file_info(self._root)
            self._is_folder = info.type == FileType.Directory
            files = self._system.get_file_info(FileSelector(self._root, recursive=True)) if self._is_folder else [info]
        except OSError as error:
            raise InputError(f"could not read {address!r}: {one_line(error)}") from error
        if info.type == FileType.NotFound:
            raise InputError(f"there is no file or folder {address!r}; name one, or hf:NAME for a dataset of Hugging Face")
        if not self._is_folder and _kind(self._root) not in _SUFFIXES:
            raise InputError(f"{address!r} must be one of {', '.join(_SUFFIXES)}, also {' or '.join(_COMPRESSED)}")
        names = {file.path.removeprefix(self._root).lstrip("/") or file.base_name: file for file in files if file.is_file}
        self._files = {name: names[name] for name in sorted(names) if not self._is_folder or _is_readable(name)}
        if not self._files:
            raise InputError(f"the folder {address!r} must have files of {', '.join(_SUFFIXES)}; it has none")
        self.place = address if "://" in address else self._root
        self._raw: Any = None
        self._before, self._size = 0, sum(int(file.size) for file in self._files.values())

    def fingerprint(self) -> dict[str, Any]:
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        room = max(_HASHED // len(self._files), _LEAST_HASHED)
        files = [[name, file.size, self._hash(file.path, int(file.size), room)] for name, file in self._files.items()]
        digest = blake2b(json.dumps(files).encode(), digest_size=16).hexdigest()
        listed = files if len(files) <= _LISTED else []
        return {"kind": "files", "bytes": self._size, "number": len(files), "hash": digest, "files": listed}

    def _hash(self, path: str, size: int, room: int) -> str:
        """Return the hash of a file, or where it is larger than the room of so many bytes at even distances."""
        blocks = room // _BLOCK
        starts = range(0, size, _BLOCK) if size <= room else [i * (size - _BLOCK) // (blocks - 1) for i in range(blocks)]
        digest = blake2b(digest_size=16)
        with self._system.open_input_file(path) as file:
            for start in starts:
                file.seek(start)
                digest.update(file.read(_BLOCK))
        return digest.hexdigest()

    def count(self) -> int | None:
        if not all(_kind(name) == ".parquet" for name in self._files):
            return sum(1 for _ in self.records(0, [])) if self._size <= _COUNTED else None
        import pyarrow.parquet as pq  # noqa: PLC0415

        rows = 0
        for name in self._files:
            with self._opened(name) as file:
                rows += pq.read_metadata(file).num_rows
        return rows

    def share(self) -> float | None:
        here = 0 if self._raw is None or self._raw.closed else self._raw.tell()
        return min((self._before + here) / self._size, 1.0) if self._size else None

    def encloses(self, folder: Folder) -> bool:
        outer, inner = Path(self._root), Path(folder.root)
        if folder.is_local:
            outer, inner = outer.resolve(), inner.resolve()
        within = self._is_folder and self._system.equals(folder.files) and inner.is_relative_to(outer)
        return within and _is_readable(str(inner.relative_to(outer) / "a.parquet"))

    def changed(self) -> bool:
        files = list(self._files.values())
        try:
            now = self._system.get_file_info([file.path for file in files])
            if [(file.size, file.mtime_ns) for file in now] == [(file.size, file.mtime_ns) for file in files]:
                return False
            return Files(self.address).fingerprint() != self._fingerprint
        except (InputError, OSError):  # it is gone
            return True

    def records(self, first: int, columns: Sequence[str]) -> Iterator[RawRow]:
        self._before = 0
        for name, file in self._files.items():
            with self._opened(name) as self._raw:
                if _kind(name) == ".parquet":
                    first = yield from _parquet_rows(self._raw, first, columns)
                else:
                    first = yield from _text_rows(self._raw, name, first)
            self._before += int(file.size)

    @contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        try:
            with self._system.open_input_file(self._files[name].path) as file:
                yield file
        except InputError:
            raise
        except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
            raise InputError(f"{name!r} of {self.address!r} is damaged or cut off: {one_line(error)}") from error


def _parquet_rows(raw: Any, first: int, columns: Sequence[str]) -> Generator[RawRow, None, int]:
    """Yield the rows of a Parquet file; return how many of the next file to skip."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    file = pq.ParquetFile(raw)
    groups = list(range(file.num_row_groups))
    while groups and first >= (rows := file.metadata.row_group(groups[0]).num_rows):
        first -= rows
        groups.pop(0)
    there = [name for name in columns if name in file.schema_arrow.names]
    for batch in file.iter_batches(_ROWS, row_groups=groups, columns=there) if groups else ():
        yield from batch.slice(first).to_pylist()
        first = max(first - batch.num_rows, 0)
    return first


def _text_rows(raw: Any, name: str, first: int) -> Generator[RawRow, None, int]:
    """Yield the rows of a file of text; return how many of the next file to skip."""
    with _decompressed(raw, name) as content:
        for record in _parsed(content, name):
            if first:
                first -= 1
            else:
                yield record() if callable(record) else record
    return first


def _is_readable(name: str) -> bool:
    """Return whether a file of a folder holds rows: neither hidden nor of another kind."""
    return _kind(name) in _SUFFIXES and not any(part.startswith((".", "_")) for part in Path(name).parts)


def _kind(name: str) -> str:
    stem, suffix = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] if suffix in _COMPRESSED else suffix


def _decompressed(raw: Any, name: str) -> Any:
    from pyarrow import CompressedInputStream  # noqa: PLC0415

    if name.lower().endswith(".gz"):
        raw = Unpacked(gzip.GzipFile(fileobj=raw), name, by_line=True)
    elif name.lower().endswith(".zst"):
        raw = Unpacked(CompressedInputStream(raw, "zstd"), name, by_line=True)
    return io.BufferedReader(raw, _BUFFER)


def _parsed(content: Any, name: str) -> Iterator[Any]:
    """Yield the rows of a file, or functions that parse them, so that rows are skipped unparsed."""
    kind = _kind(name)
    if kind in _TABLES:
        lines = io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="")
        for row in table_rows(lines, _TABLES[kind], name):
            if isinstance(row, InputError):
                yield Broken(str(row))
            elif any(isinstance(value, str) and _NOT_UTF8.search(value) for value in row.values()):
                yield Broken(f"a row of {name!r} is not text in UTF-8")
            else:
                yield row
        return
    read = _json_object if kind in _LINES else _line
    for number, line in enumerate(content, start=1):
        start = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if start.strip():
            yield lambda line=start, number=number: read(line, f"line {number} of {name!r}")


def _json_object(line: bytes, where: str) -> RawRow:
    try:
        row = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return Broken(f"{where} must be a JSON object; {one_line(error, 120)}")
    return row if isinstance(row, dict) else Broken(f"{where} must be a JSON object; it is a {type(row).__name__}")


def _line(line: bytes, where: str) -> RawRow:
    try:
        return {"text": line.decode("utf-8").rstrip("\r\n")}
    except UnicodeDecodeError as error:
        return Broken(f"{where} must be text in UTF-8; {error}")
