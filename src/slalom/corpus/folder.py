"""Where a corpus lies: a folder of this machine, or of a remote file system (s3://, gs://, anything of pyarrow or fsspec).

A file appears whole or not at all. Locally it is written under another name, synchronised, renamed, and the folder is
synchronised too. A remote file is one upload, which object stores show when it is complete.

manifest.json           what the table is: model, options, source
progress.json           how far the last run came
parts/NNNNNN.parquet    the table; its metadata has a digest of the rows of the source that a part explains
digests/NNNNNN.sha256   the SHA-256 of the bytes of the part and its name, as sha256sum writes them; a line for each version
under-way/NNNNNN        how many texts of a part under way are explained; a killed run leaves it
.slalom-corpus.lock     held by a run

What is read is what was written: a digest is written before its part. A kill in between leaves a digest without a part, which
is explained again, or a part that was to be replaced, whose digest is still listed. Digests find damage and mix-ups, not
forgery: whoever can write the one file can write the other.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, final

from slalom.errors import InputError, one_line, require

MANIFEST, PROGRESS, LOCK = "manifest.json", "progress.json", ".slalom-corpus.lock"
PARTS, DIGESTS, UNDER_WAY = "parts", "digests", "under-way"
Stamp: TypeAlias = tuple[int, int] | None  # size and time of a file; None where its file system does not say
_VERIFIED: dict[str, Stamp] = {}  # parts by address, with size and time for which their bytes were right


def part_name(number: int) -> str:
    return f"{PARTS}/{number:06d}.parquet"


@final
class Folder:
    """A folder whose files appear whole or not at all, by a path or an address such as s3://bucket/corpus."""

    def __init__(self, address: str | Path) -> None:
        self.address = str(address).removeprefix("file://")
        self.is_local = "://" not in self.address
        self.files, self.root = file_system(self.address)  # of pyarrow, and the path in it

    def __reduce__(self) -> Any:
        return Folder, (self.address,)

    def path(self, name: str) -> str:
        if self.is_local:
            return self.at(name)
        place, mark, options = (self.address, "", "") if "?" in self.root else self.address.partition("?")
        return f"{place.rstrip('/')}/{name}{mark}{options}"

    def at(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        from pyarrow.fs import FileType  # noqa: PLC0415

        kind = self.files.get_file_info(self.at(name)).type
        if kind not in (FileType.File, FileType.NotFound):  # reading a pipe would wait for its writer
            raise InputError(f"{self.path(name)!r} must be a file; remove it, or name another folder")
        try:
            with self.files.open_input_file(self.at(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, content: Any) -> None:
        """Write a file, whole or not at all."""
        try:
            if self.is_local:
                _write(Path(self.at(name)), content)
                return
            self.files.create_dir(self.at(name).rpartition("/")[0], recursive=True)
            with self.files.open_output_stream(self.at(name)) as file:
                file.write(content)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            advice = "make room, and run the same command again" if full else "name another folder"
            raise InputError(f"could not write {self.path(name)!r}: {error.strerror or one_line(error)}; {advice}") from error

    def names(self, name: str) -> list[str]:
        """Return the names of the files in a folder below this one, none where it does not exist."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        try:
            files = self.files.get_file_info(FileSelector(self.at(name), allow_not_found=True))
        except NotADirectoryError:
            return []
        return [info.base_name for info in files if info.is_file]

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.files.delete_file(self.at(name))

    def stamp(self, name: str) -> Stamp:
        """Return size and time of a file, which change when it is written."""
        info = self.files.get_file_info(self.at(name))
        return None if info.size is None or info.mtime_ns is None else (info.size, info.mtime_ns)

    def parts(self) -> list[int]:
        """Return the numbers of the parts that are there; 1.parquet is none, as part 1 has six digits."""
        stems = {name: name.removesuffix(".parquet") for name in self.names(PARTS)}
        numbers = {name: int(stem) for name, stem in stems.items() if stem.isdecimal()}
        return sorted(number for name, number in numbers.items() if part_name(number) == f"{PARTS}/{name}")


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system of a path or an address, and the path in it."""
    with require("a corpus", "corpus", "pyarrow"):
        from pyarrow import fs  # noqa: PLC0415
    if "://" not in address:
        return fs.LocalFileSystem(), str(Path(address).expanduser().absolute())
    if address.startswith("s3://") and "allow_delayed_open" not in address:  # small files in one request instead of three
        address = f"{address}{'&' if '?' in address else '?'}allow_delayed_open=true"
    reasons = []
    for prefix in ("", "fsspec+"):
        try:
            files, root = fs.FileSystem.from_uri(prefix + address)
        except (ImportError, NotImplementedError, OSError, ValueError) as error:
            reasons.append(one_line(error, 160))
        else:
            return files, root
    raise InputError(f"{address!r} must name a file system of pyarrow or fsspec: {'; '.join(reasons)}")


def _write(path: Path, content: Any) -> None:
    """Write a file under another name, which the next try overwrites where this process is killed, and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # Windows cannot open a folder
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_part(folder: Folder, number: int, content: Any) -> None:
    before = folder.read(_digest_name(number)) or b""
    folder.write(_digest_name(number), before + _line(number, content))
    folder.write(part_name(number), content)


def damage(folder: Folder, number: int) -> str | None:
    """Return why a part is not as it was written; None where it is.

    Its bytes are read once in each process, and again where its size or time has changed.
    """
    name = part_name(number)
    address, stamp = folder.path(name), folder.stamp(name)
    if stamp is not None and _VERIFIED.get(address) == stamp:
        return None
    try:
        content, digests = folder.read(name), folder.read(_digest_name(number))
    except OSError as error:
        return one_line(error)
    if content is None:
        return "it is gone"
    if digests is None:
        return "it has no digest"
    if _line(number, content) not in digests.splitlines(keepends=True):
        return "its bytes are not those that were written"
    _VERIFIED[address] = stamp
    return None


@contextmanager
def part_file(folder: Folder, number: int) -> Iterator[Any]:
    """Open a part as a Parquet file of pyarrow, if it is as it was written."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    reason = damage(folder, number)
    if reason is None:
        try:
            with pq.ParquetFile(folder.at(part_name(number)), filesystem=folder.files) as file:
                yield file
                return
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = one_line(error)
    path = folder.path(part_name(number))
    raise InputError(f"{path!r} is damaged ({reason}); the command that began the corpus explains this part again")


def _digest_name(number: int) -> str:
    return f"{DIGESTS}/{number:06d}.sha256"


def _line(number: int, content: Any) -> bytes:
    return f"{sha256(content).hexdigest()}  {part_name(number)}\n".encode()
