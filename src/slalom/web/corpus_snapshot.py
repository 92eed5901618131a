"""The parts of a corpus as they are at one moment; a run may add others meanwhile."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, final

from slalom.corpus.folder import Folder, LocalFolder, Stamp, part_name


@final
class Snapshot(Folder):
    """A folder that shows the parts which were there when it was made.

    Args:
        folder: The folder.
        opened: Called with the number of files that were opened, before each one; it may raise to stop the reader.

    Attributes:
        stamps: The parts by number; a part that is written again has another stamp.
    """

    def __init__(self, folder: Folder, opened: Callable[[int], Any] = lambda count: None) -> None:
        self._folder, self._opened, self._count = folder, opened, 0
        self.address = folder.address
        local = isinstance(folder, LocalFolder)  # a request for each part would take long
        stamps = {number: folder.stamp(part_name(number)) if local else None for number in folder.parts()}
        self.stamps: Mapping[int, Stamp] = MappingProxyType(stamps)

    def parts(self) -> list[int]:
        return list(self.stamps)

    def source(self, name: str) -> Any:
        self._opened(self._count)
        self._count += 1
        return self._folder.source(name)

    def read(self, name: str) -> bytes | None:
        return self._folder.read(name)

    def write(self, name: str, content: Any) -> None:
        self._folder.write(name, content)

    def names(self, name: str) -> list[str]:
        return self._folder.names(name)

    def remove(self, name: str) -> None:
        self._folder.remove(name)

    def path(self, name: str) -> str:
        return self._folder.path(name)

    def stamp(self, name: str) -> Stamp:
        return self._folder.stamp(name)
