"""Where a corpus lies: a local folder, or a folder of a remote file system (s3://, gs://, anything of pyarrow or fsspec).

A file appears whole or not at all. Locally it is written under another name, synchronised, renamed, and the folder is
synchronised too. A remote file is one upload, which object stores show when it is complete.

manifest.json           what the table is: model, options, source
progress.json           how far the last run came
parts/NNNNNN.parquet    the table
digests/NNNNNN.sha256   what the bytes of a part must be (`slalom.corpus.parts`)
under-way/NNNNNN        how many texts of a part under way are explained; a killed run leaves it
.slalom-corpus.lock     held by a run
"""

import errno
import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeAlias, final
from uuid import uuid4

from slalom.errors import InputError, one_line, require

MANIFEST, PROGRESS, LOCK = "manifest.json", "progress.json", ".slalom-corpus.lock"
PARTS, DIGESTS, UNDER_WAY = "parts", "digests", "under-way"
Stamp: TypeAlias = tuple[int, int] | None  # size and time of a file; None where its file system does not say


def part_name(number: int) -> str:
    """Return the name of a part.

    Example:
        >>> part_name(12)
        'parts/000012.parquet'
    """
    return f"{PARTS}/{number:06d}.parquet"


class Folder(ABC):
    """A folder whose files appear whole or not at all.

    Attributes:
        address: The folder as the user wrote it.
    """

    address: str

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None where there is none."""

    @abstractmethod
    def write(self, name: str, content: Any) -> None:
        """Write a file, whole or not at all."""

    @abstractmethod
    def names(self, name: str) -> list[str]:
        """Return the names of the files in a folder below this one, none where it does not exist."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    @abstractmethod
    def source(self, name: str) -> Any:
        """Return what pyarrow reads a file from."""

    @abstractmethod
    def path(self, name: str) -> str:
        """Return the address of a file."""

    @abstractmethod
    def stamp(self, name: str) -> Stamp:
        """Return size and time of a file, which change when it is written."""

    def parts(self) -> list[int]:
        """Return the numbers of the parts that are there; 1.parquet is none, as part 1 has six digits."""
        stems = {name: name.removesuffix(".parquet") for name in self.names(PARTS)}
        numbers = {name: int(stem) for name, stem in stems.items() if stem.isdecimal()}
        return sorted(number for name, number in numbers.items() if part_name(number) == f"{PARTS}/{name}")


@final
class LocalFolder(Folder):
    """A folder of this machine, or one that several machines mount.

    Args:
        path: The folder; it is made where a file is written.
    """

    def __init__(self, path: str | Path) -> None:
        self.root, self.address = Path(path).expanduser().absolute(), str(path)

    def read(self, name: str) -> bytes | None:
        path = self.root / name
        try:
            if path.exists() and not path.is_file():  # reading a pipe would wait for its writer
                raise InputError(f"{str(path)!r} must be a file; remove it, or name another folder")
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: Any) -> None:
        path = self.root / name
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid4().hex[:8]}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _synchronise(path.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            advice = "make room, and run the same command again" if full else "name another folder"
            raise InputError(f"could not write {str(path)!r}: {error.strerror or error}; {advice}") from error

    def names(self, name: str) -> list[str]:
        try:
            return os.listdir(self.root / name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def source(self, name: str) -> Any:
        return str(self.root / name)

    def path(self, name: str) -> str:
        return str(self.root / name)

    def stamp(self, name: str) -> Stamp:
        try:
            found = (self.root / name).stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def clean(self, older: float = 3600.0) -> None:
        """Remove temporary files that killed processes have left."""
        for place in (self.root, *(self.root / name for name in (PARTS, DIGESTS, UNDER_WAY))):
            for path in place.glob(".*.tmp") if place.is_dir() else ():
                try:
                    if time.time() - path.stat().st_mtime > older:
                        path.unlink(missing_ok=True)
                except FileNotFoundError:
                    continue


@final
class RemoteFolder(Folder):
    """A folder of a remote file system.

    Args:
        address: Such as s3://bucket/corpus.

    Raises:
        InputError: No such file system.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        with require("a corpus", "corpus", "pyarrow"):
            from pyarrow import fs  # noqa: PLC0415
        try:
            self.files, self.root = fs.FileSystem.from_uri(_uploading_at_once(address))
        except (ValueError, OSError, NotImplementedError) as error:
            self.files, self.root = _of_fsspec(address, error)

    def __reduce__(self) -> Any:
        return RemoteFolder, (self.address,)

    def read(self, name: str) -> bytes | None:
        try:
            with self.files.open_input_file(self._at(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, content: Any) -> None:
        try:
            self.files.create_dir(self._at(name).rpartition("/")[0], recursive=True)
            with self.files.open_output_stream(self._at(name)) as file:
                file.write(content)
        except OSError as error:
            raise InputError(f"could not write {self.path(name)!r}: {one_line(error)}") from error

    def names(self, name: str) -> list[str]:
        from pyarrow import fs  # noqa: PLC0415

        found = self.files.get_file_info(fs.FileSelector(self._at(name), allow_not_found=True))
        return [info.base_name for info in found if info.is_file]

    def remove(self, name: str) -> None:
        try:
            self.files.delete_file(self._at(name))
        except FileNotFoundError:
            return

    def source(self, name: str) -> Any:
        return self.files.open_input_file(self._at(name))

    def path(self, name: str) -> str:
        place, mark, options = (self.address, "", "") if "?" in self.root else self.address.partition("?")
        return f"{place.rstrip('/')}/{name}{mark}{options}"

    def stamp(self, name: str) -> Stamp:
        (found,) = self.files.get_file_info([self._at(name)])
        return None if found.size is None or found.mtime_ns is None else (found.size, found.mtime_ns)

    def _at(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"


def folder_of(address: str | Path) -> Folder:
    """Return the folder of a path or an address; file:// is a local one.

    Example:
        >>> folder_of("out").path("manifest.json").endswith("/out/manifest.json")
        True
    """
    text = str(address)
    if text.startswith("file://"):
        return LocalFolder(text.removeprefix("file://"))
    return RemoteFolder(text) if "://" in text else LocalFolder(address)


def _uploading_at_once(address: str) -> str:
    """Return an address of S3 with the option to upload small files in one request instead of three; others as they are."""
    option = "allow_delayed_open"
    if not address.startswith("s3://") or option in address:
        return address
    return f"{address}{'&' if '?' in address else '?'}{option}=true"


def _of_fsspec(address: str, error: Exception) -> tuple[Any, str]:
    """Return a file system of fsspec and a path in it."""
    from pyarrow import fs  # noqa: PLC0415

    try:
        import fsspec  # noqa: PLC0415

        files, root = fsspec.url_to_fs(address)
    except (ImportError, ValueError) as reason:
        both = f"{one_line(error, 160)}; {one_line(reason, 160)}"
        raise InputError(f"{address!r} must name a file system of pyarrow or fsspec: {both}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(files)), root


def _synchronise(path: Path) -> None:
    """Write the entries of a folder to the disk, where folders can be opened."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
