"""The interface of sources: a stream of rows that begins at any number."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from slalom.corpus.folder import Folder


class Broken(NamedTuple):
    """A row that could not be read, and why; the others can."""

    error: str


Record = Mapping[str, Any] | Broken


class Source(ABC):
    """A stream of rows.

    Attributes:
        address: What the user gave, for messages.
        place: The same for the manifest: an absolute path.
        verified: Whether rows must be read again to tell whether the source is still the same.
    """

    address: str
    place: str
    verified: bool = False

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return plain data that differ where the content differs."""

    @abstractmethod
    def records(self, first: int, columns: Sequence[str]) -> Iterator[Record]:
        """Yield the rows from one number on."""

    def count(self) -> int | None:
        """Return the number of rows; None where only reading tells."""
        return None

    def share(self) -> float | None:
        """Return which share of the source has been read; None where it is not known."""
        return None

    def encloses(self, folder: Folder) -> bool:
        """Return whether the source would read the files of a folder, as it lies within the source."""
        return False

    def changed(self) -> bool:
        """Return whether the content is known to be another than when the source was opened."""
        return False
