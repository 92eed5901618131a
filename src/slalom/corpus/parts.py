"""Parts of a table and their digests: what is read is what was written.

parts/NNNNNN.parquet     the rows; its metadata has a digest of the rows of the source that it explains
digests/NNNNNN.sha256    the SHA-256 of the bytes of the part and its name, as sha256sum writes them; a line for each version

The digest is written before the part. A kill in between leaves a digest without a part, which is explained again, or a part
that was to be replaced, whose digest is still listed. Digests find damage and mix-ups, not forgery: whoever can write the one
file can write the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from slalom.corpus.folder import DIGESTS, Folder, Stamp, part_name
from slalom.errors import InputError, one_line

_VERIFIED: dict[str, Stamp] = {}  # parts by address, with size and time for which their bytes were right


def write_part(folder: Folder, number: int, content: Any) -> None:
    """Write a part and its digest."""
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
