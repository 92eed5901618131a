"""Files with rows as a source: local or remote, compressed, of several kinds, in the order of their names.

Rows are skipped unparsed; a file that is damaged, or has changed since it was opened, is an error that names it.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, final

from slalom.corpus.source import Broken, Record, Source
from slalom.corpus.table import arrow
from slalom.errors import InputError, one_line
from slalom.files import NEVER_CLOSED, Table, Unpacked

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


@final
class Files(Source):
    """Files with rows, local or on a remote file system.

    Args:
        address: A file or a folder.

    Raises:
        InputError: There is no such file, or none that can be read.
    """

    def __init__(self, address: str) -> None:
        arrow()
        from pyarrow import fs  # noqa: PLC0415

        self.address = address
        try:
            self.system, root = (
                fs.FileSystem.from_uri(address)
                if "://" in address
                else (fs.LocalFileSystem(), str(Path(address).expanduser().absolute()))
            )
            info = self.system.get_file_info(root)
            selected = fs.FileSelector(root, recursive=True)
            found = self.system.get_file_info(selected) if info.type == fs.FileType.Directory else [info]
        except (OSError, ValueError) as error:
            raise InputError(f"could not read {address!r}: {one_line(error)}") from error
        if info.type == fs.FileType.NotFound:
            raise InputError(f"there is no file or folder {address!r}; name one, or hf:NAME for a dataset of Hugging Face")
        names = {file.path: file.path.removeprefix(root).lstrip("/") or file.base_name for file in found}
        if info.type == fs.FileType.Directory:
            found = [file for file in found if file.type == fs.FileType.File and _readable(names[file.path])]
        elif _kind(root) not in _SUFFIXES:
            raise InputError(f"{address!r} must be one of {', '.join(_SUFFIXES)}, also {' or '.join(_COMPRESSED)}")
        if not found:
            raise InputError(f"the folder {address!r} must have files of {', '.join(_SUFFIXES)}; it has none")
        self.files: list[tuple[str, str, int]] = sorted((names[file.path], file.path, int(file.size)) for file in found)
        self._folder, self._times = info.type == fs.FileType.Directory, {file.path: file.mtime_ns for file in found}
        self.place = address if "://" in address else root
        self._raw: Any = None
        self._before, self._size = 0, sum(size for *_, size in self.files)

    def fingerprint(self) -> dict[str, Any]:
        room = max(_HASHED // len(self.files), _LEAST_HASHED)
        files = [[name, size, self._hash(path, size, room)] for name, path, size in self.files]
        whole = blake2b(json.dumps(files).encode(), digest_size=16).hexdigest()
        listed = files if len(files) <= _LISTED else []
        return {"kind": "files", "bytes": self._size, "number": len(files), "hash": whole, "files": listed}

    def _hash(self, path: str, size: int, room: int) -> str:
        """Return the hash of a file, or where it is larger than the room of so many bytes at even distances."""
        blocks = room // _BLOCK
        starts = range(0, size, _BLOCK) if size <= room else [i * (size - _BLOCK) // (blocks - 1) for i in range(blocks)]
        digest = blake2b(digest_size=16)
        with self.system.open_input_file(path) as file:
            for start in starts:
                file.seek(start)
                digest.update(file.read(_BLOCK))
        return digest.hexdigest()

    def count(self) -> int | None:
        if not all(_kind(name) == ".parquet" for name, *_ in self.files):
            return sum(1 for _ in self.records(0, [])) if self._size <= _COUNTED else None
        import pyarrow.parquet as pq  # noqa: PLC0415

        rows = 0
        for name, path, _ in self.files:
            with self._naming_the_file(name), self.system.open_input_file(path) as file:
                rows += pq.read_metadata(file).num_rows
        return rows

    def share(self) -> float | None:
        here = 0 if self._raw is None or self._raw.closed else self._raw.tell()
        return min((self._before + here) / self._size, 1.0) if self._size else None

    def encloses(self, folder: str) -> bool:
        mine: PurePath
        theirs: PurePath
        if "://" in folder:
            mine, theirs = PurePosixPath(self.place), PurePosixPath(folder)
        else:
            mine, theirs = Path(self.place.removeprefix("file://")).resolve(), Path(folder).resolve()
        return self._folder and theirs.is_relative_to(mine) and _readable(str(theirs.relative_to(mine) / "a.parquet"))

    def changed(self) -> str | None:
        try:
            now = self.system.get_file_info([path for _, path, _ in self.files])
        except OSError:
            return None  # a file system that cannot be reached now tells nothing
        pairs = zip(self.files, now, strict=True)
        return next(
            (name for (name, path, size), file in pairs if (file.size, file.mtime_ns) != (size, self._times[path])), None
        )

    def records(self, first: int, columns: Sequence[str]) -> Iterator[Record]:
        self._before = 0
        for name, path, size in self.files:
            with self._naming_the_file(name), self.system.open_input_file(path) as self._raw:
                if _kind(name) == ".parquet":
                    first = yield from _parquet_rows(self._raw, first, columns)
                else:
                    first = yield from _text_rows(self._raw, name, first)
            self._before += size

    @contextmanager
    def _naming_the_file(self, name: str) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
            raise InputError(f"{name!r} of {self.address!r} is damaged or cut off: {one_line(error)}") from error


def _parquet_rows(raw: Any, first: int, columns: Sequence[str]) -> Generator[Record, None, int]:
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


def _text_rows(raw: Any, name: str, first: int) -> Generator[Record, None, int]:
    """Yield the rows of a file of text; return how many of the next file to skip."""
    with _decompressed(raw, name) as content:
        for record in _parsed(content, name):
            if first:
                first -= 1
            else:
                yield record() if callable(record) else record
    return first


def _readable(name: str) -> bool:
    """Return whether a file of a folder holds rows: neither hidden nor of another kind."""
    return _kind(name) in _SUFFIXES and not any(part.startswith((".", "_")) for part in Path(name).parts)


def _kind(name: str) -> str:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _decompressed(raw: Any, name: str) -> Any:
    """Return a buffered file of bytes."""
    if name.lower().endswith(".gz"):
        raw = Unpacked(gzip.GzipFile(fileobj=raw), name, by_line=True)
    elif name.lower().endswith(".zst"):
        raw = Unpacked(arrow().CompressedInputStream(raw, "zstd"), name, by_line=True)
    return io.BufferedReader(raw, _BUFFER)


def _parsed(content: Any, name: str) -> Iterator[Any]:
    """Yield the rows of a file, or functions that parse them, so that rows are skipped unparsed."""
    kind = _kind(name)
    if kind in _TABLES:
        text = io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="")
        table = Table(text, _TABLES[kind])
        for row in table:
            if table.open_quote is not None:
                yield Broken(f"line {table.open_quote} of {name!r} {NEVER_CLOSED}")
            else:
                yield row if _is_unicode(row.values()) else Broken(f"a row of {name!r} is not text in UTF-8")
        return
    read = _json_object if kind in _LINES else _line
    for number, line in enumerate(content, start=1):
        begins = line[3:] if number == 1 and line.startswith(b"\xef\xbb\xbf") else line
        if begins.strip():
            yield lambda line=begins, number=number: read(line, f"line {number} of {name!r}")


def _json_object(line: bytes, where: str) -> Record:
    try:
        row = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return Broken(f"{where} must be a JSON object; {one_line(error, 120)}")
    return row if isinstance(row, dict) else Broken(f"{where} must be a JSON object; it is a {type(row).__name__}")


def _line(line: bytes, where: str) -> Record:
    try:
        return {"text": line.decode("utf-8").rstrip("\r\n")}
    except UnicodeDecodeError as error:
        return Broken(f"{where} must be text in UTF-8; {error}")


def _is_unicode(values: Iterable[Any]) -> bool:
    """Return whether no value has bytes that are not UTF-8."""
    try:
        "".join(value for value in values if isinstance(value, str)).encode()
    except UnicodeEncodeError:
        return False
    return True
