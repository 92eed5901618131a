"""What every result can be written as: JSON, a file, and a self-contained page."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from slalom.files import write_text


class Document(ABC):
    """A result with a dictionary and a page; JSON and files follow from them."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings, in the format of the JSON files."""

    @abstractmethod
    def _page(self) -> str:
        """Return the HTML page."""

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file; `slalom.load` reads explanations back."""
        write_text(path, self.to_json())

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained HTML page."""
        page = self._page()
        if path is not None:
            write_text(path, page)
        return page
